/*
 * fuzz-address.c - destinations: what is parsed is spelt out to what parses equal, and what is refused
 * is explained.
 */
#include "config.h"

#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define TOLD 256

static char *spell(const struct address *address)
{
    bool is_ipv6 = strchr(address->host, ':');
    char *text;
    if (asprintf(&text, "%s%s%s:%u%s%s", is_ipv6 ? "[" : "", address->host, is_ipv6 ? "]" : "",
                 address->port, address->has_name ? "/" : "",
                 address->has_name ? address->name : "") < 0)
        abort();
    return text;
}

static void assert_equal(const struct address *a, const struct address *b)
{
    FUZZ_ASSERT(strcmp(a->host, b->host) == 0);
    FUZZ_ASSERT(a->port == b->port);
    FUZZ_ASSERT(a->has_name == b->has_name);
    FUZZ_ASSERT(!a->has_name || strcmp(a->name, b->name) == 0);
}

static void assert_valid(const struct address *address)
{
    size_t len = strlen(address->host);
    FUZZ_ASSERT(len > 0 && len < sizeof address->host);
    FUZZ_ASSERT(address->port > 0);
    FUZZ_ASSERT(address->has_port || address->port == ADDRESS_DEFAULT_PORT);
    FUZZ_ASSERT(address->has_name == (address->name != NULL));
    FUZZ_ASSERT(!strchr(address->host, ':') ||
                address_numeric_family(address->host, len) == AF_INET6);
}

static void try_address(const struct address *address)
{
    char problem[TOLD], hint[TOLD], *text;
    struct address again;
    assert_valid(address);
    text = spell(address);
    FUZZ_ASSERT(address_parse(text, &again, problem, sizeof problem, hint, sizeof hint) ==
                ADDRESS_OK);
    assert_equal(&again, address);
    FUZZ_ASSERT(again.has_port);
    address_free(&again);
    free(text);
}

/* The right spelling that a hint ends with, in quotes, is one. */
static void try_hint(const char *hint)
{
    char problem[TOLD], other_hint[TOLD];
    struct address address;
    const char *spelling = strstr(hint, ": '");
    if (!spelling || strlen(hint) == TOLD - 1)
        return;
    spelling += 3;
    char *text = fuzz_text((const uint8_t *)spelling, strlen(spelling) - 1);
    FUZZ_ASSERT(spelling[strlen(text)] == '\'');
    FUZZ_ASSERT(address_parse(text, &address, problem, sizeof problem, other_hint,
                              sizeof other_hint) == ADDRESS_OK);
    address_free(&address);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), problem[TOLD] = "", hint[TOLD] = "";
    struct address address;
    if (address_parse(text, &address, problem, sizeof problem, hint, sizeof hint) == ADDRESS_OK) {
        try_address(&address);
        address_free(&address);
    } else {
        fuzz_assert_told(problem, sizeof problem);
        fuzz_assert_told(hint, sizeof hint);
        try_hint(hint);
    }
    free(text);
    return 0;
}

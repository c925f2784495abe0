/*
 * fuzz-name.c - names of objects: one that may be used leads nowhere outside, and the hidden names made
 * of its parts are told from it.
 */
#include "config.h"

#include "name.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define PROBLEM 96

static void assert_hidden(const char *hidden, const char *leaf, enum name_kind kind)
{
    char problem[PROBLEM];
    FUZZ_ASSERT(strlen(hidden) <= NAME_MOST);
    FUZZ_ASSERT(hidden[0] == '.');
    FUZZ_ASSERT(name_kind(hidden) == kind);
    FUZZ_ASSERT(name_is_of(hidden, leaf));
    FUZZ_ASSERT(!name_check(hidden, problem, sizeof problem));
}

static void try_component(const char *component)
{
    static const uint8_t digest[NAME_DIGEST_BYTES] = {0x01, 0x23, [15] = 0xef};
    char hidden[NAME_MOST + 1];
    size_t len = strlen(component);
    FUZZ_ASSERT(len > 0 && len <= NAME_MOST);
    FUZZ_ASSERT(strcmp(component, ".") != 0 && strcmp(component, "..") != 0);
    FUZZ_ASSERT(name_kind(component) == NAME_PLAIN);
    for (size_t i = 0; i < len; i++)
        FUZZ_ASSERT((uint8_t)component[i] >= 0x20 && component[i] != 0x7f);
    name_make_temporary(hidden, component, UINT64_C(0x123456789abcdef));
    assert_hidden(hidden, component, NAME_TEMPORARY);
    name_make_partial(hidden, component, digest);
    assert_hidden(hidden, component, NAME_PARTIAL);
}

/* Taken apart the way the kernel does it. */
static void try_name(const char *name)
{
    FUZZ_ASSERT(name[0] != '\0' && name[0] != '/');
    while (name) {
        size_t len = strcspn(name, "/");
        char *component = fuzz_text((const uint8_t *)name, len);
        try_component(component);
        free(component);
        name = name[len] ? name + len + 1 : NULL;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *name = fuzz_text(data, size), problem[PROBLEM] = "";
    if (name_check(name, problem, sizeof problem))
        try_name(name);
    else
        fuzz_assert_told(problem, sizeof problem);
    free(name);
    return 0;
}

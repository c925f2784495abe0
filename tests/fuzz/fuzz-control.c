/*
 * fuzz-control.c - what the server that `write -e` has started says: it is understood the same however it
 * comes in pieces, and names numeric addresses with ports or nothing.
 */
#include "config.h"

#include "control.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "client.h"
#include "fuzz.h"

#define MOST_BYTES 2048

static void try_places(char *lines)
{
    struct client_places places = {.count = 0};
    struct error err = {.class = ERROR_NONE};
    int rc = client_parse_places("host", lines, &places, &err);
    FUZZ_ASSERT((rc == 0) == !error_is_set(&err));
    FUZZ_ASSERT(places.count <= WIRE_MAX_ADDRESSES);
    FUZZ_ASSERT(rc < 0 || places.count > 0);
    for (unsigned i = 0; i < places.count; i++) {
        const struct address *address = &places.addresses[i];
        FUZZ_ASSERT(address_numeric_family(address->host, strlen(address->host)) != AF_UNSPEC);
        FUZZ_ASSERT(address->has_port && address->port > 0 && !address->name);
        address_free(&places.addresses[i]);
    }
}

/* Memory of exactly what the function may touch. */
static enum control_result understand(const uint8_t *data, size_t len, bool whole)
{
    struct control_answer answer;
    char *text = malloc(len + 1);
    FUZZ_ASSERT(text);
    if (len > 0)
        memcpy(text, data, len);
    enum control_result result = control_understand(text, len, &answer);
    if (result == CONTROL_OK) {
        FUZZ_ASSERT(answer.version == WIRE_VERSION);
        FUZZ_ASSERT(answer.addresses > text &&
                    answer.addresses + strlen(answer.addresses) < text + len);
        FUZZ_ASSERT(!strstr(answer.addresses, "\n\n"));
        if (whole)
            try_places(answer.addresses);
    }
    FUZZ_ASSERT(result != CONTROL_OTHER_VERSION || answer.version != WIRE_VERSION);
    free(text);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MOST_BYTES)
        return 0;
    enum control_result last = understand(data, size, true), at_first = CONTROL_PARTIAL;
    for (size_t len = 0; len <= size && at_first == CONTROL_PARTIAL; len++)
        at_first = understand(data, len, false);
    /* What comes behind an answer changes nothing, unless it is no text. */
    FUZZ_ASSERT(at_first == last || (last == CONTROL_FOREIGN && memchr(data, '\0', size)));
    return 0;
}

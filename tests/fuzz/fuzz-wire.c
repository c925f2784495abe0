/*
 * fuzz-wire.c - the decoders of messages and private data: what one takes, its encoder makes again.
 */
#include "config.h"

#include "wire.h"

#include <string.h>

#include "fuzz.h"

/* A text that ends within a UTF-8 character is sent without what is there of it. */
static bool is_cut(const char *text)
{
    size_t len = strlen(text), back = 1;
    while (back < len && back < 4 && ((uint8_t)text[len - back] & 0xc0) == 0x80)
        back++;
    if (len < back)
        return false;
    uint8_t lead = (uint8_t)text[len - back];
    size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    return bytes > back;
}

static bool has_cut_text(const struct wire_message *message)
{
    return (message->type == WIRE_ERROR || message->type == WIRE_FAILED) &&
           (is_cut(message->error.text) || is_cut(message->error.hint));
}

static void assert_begins(const char *text, const char *beginning)
{
    size_t len = strlen(beginning);
    FUZZ_ASSERT(strncmp(text, beginning, len) == 0);
    FUZZ_ASSERT(strlen(text) - len < 4);
}

static void try_message(const uint8_t *data, size_t size)
{
    struct wire_message message, again;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    const char *problem = "";
    if (wire_decode(data, size, &message, &problem) != WIRE_OK) {
        FUZZ_ASSERT(problem && problem[0]);
        return;
    }
    FUZZ_ASSERT(!problem);
    FUZZ_ASSERT(strcmp(wire_type_name(message.type), "unknown") != 0);
    FUZZ_ASSERT(wire_message_length(data) == size);
    if (message.type == WIRE_CHUNK)
        FUZZ_ASSERT(wire_chunk_bytes(&message) <= WIRE_MAX_SLOT_SIZE);
    size_t len = wire_encode(&message, encoded);
    if (!has_cut_text(&message)) {
        FUZZ_ASSERT(len == size && memcmp(encoded, data, size) == 0);
        return;
    }
    FUZZ_ASSERT(len < size);
    FUZZ_ASSERT(wire_decode(encoded, len, &again, &problem) == WIRE_OK);
    assert_begins(message.error.text, again.error.text);
    assert_begins(message.error.hint, again.error.hint);
}

/* Of the private data that was taken, len bytes were made again: they, and zeros for padding, are
 * what had come. */
static void assert_private(const uint8_t *data, size_t size, const uint8_t *encoded, size_t len)
{
    FUZZ_ASSERT(len == wire_private_length(data));
    FUZZ_ASSERT(len <= size && memcmp(encoded, data, len) == 0);
    for (size_t i = len; i < size; i++)
        FUZZ_ASSERT(data[i] == 0);
}

static void assert_verdict(enum wire_result result, uint8_t version)
{
    FUZZ_ASSERT(result == WIRE_OK || result == WIRE_FOREIGN || result == WIRE_OTHER_VERSION ||
                result == WIRE_BROKEN);
    if (result == WIRE_OK)
        FUZZ_ASSERT(version == WIRE_VERSION);
    if (result == WIRE_OTHER_VERSION)
        FUZZ_ASSERT(version != WIRE_VERSION);
}

static void try_hello(const uint8_t *data, size_t size)
{
    struct wire_hello hello;
    uint8_t encoded[WIRE_HELLO_BYTES];
    enum wire_result result = wire_decode_hello(data, size, &hello);
    assert_verdict(result, hello.version);
    if (result == WIRE_OK)
        assert_private(data, size, encoded, wire_encode_hello(&hello, encoded));
}

static void try_welcome(const uint8_t *data, size_t size)
{
    struct wire_welcome welcome;
    uint8_t encoded[WIRE_WELCOME_BYTES];
    enum wire_result result = wire_decode_welcome(data, size, &welcome);
    assert_verdict(result, welcome.version);
    if (result == WIRE_OK)
        assert_private(data, size, encoded, wire_encode_welcome(&welcome, encoded));
}

static void try_refusal(const uint8_t *data, size_t size)
{
    struct wire_refusal refusal;
    uint8_t encoded[WIRE_REFUSAL_MAX_BYTES];
    enum wire_result result = wire_decode_refusal(data, size, &refusal);
    assert_verdict(result, refusal.version);
    if (result == WIRE_OK && !is_cut(refusal.text))
        assert_private(data, size, encoded, wire_encode_refusal(&refusal, encoded));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_message(data, size);
    try_hello(data, size);
    try_welcome(data, size);
    try_refusal(data, size);
    return 0;
}

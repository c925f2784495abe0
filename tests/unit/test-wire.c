/*
 * test-wire.c - every message and all private data: round trips, bytes, limits, and refusals.
 */
#include "config.h"

#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_SIZE ((uint64_t)WIRE_MAX_SIZE)
#define MAX_SLOT_SIZE ((uint64_t)WIRE_MAX_SLOT_SIZE)

static void put(uint8_t *at, size_t width, uint64_t value)
{
    for (size_t i = width; i-- > 0; value >>= 8)
        at[i] = (uint8_t)value;
}

/* Decodes from a buffer of exactly len bytes, so that reading past the end is noticed. */
static enum wire_result decode(const uint8_t *data, size_t len, struct wire_message *message)
{
    uint8_t *exact = malloc(len ? len : 1);
    const char *problem = "unset";
    enum wire_result result;

    assert_non_null(exact);
    memcpy(exact, data, len);
    memset(message, 0xa5, sizeof(*message));
    result = wire_decode(exact, len, message, &problem);
    free(exact);
    if (result == WIRE_OK) {
        assert_null(problem);
    } else {
        assert_int_equal(result, WIRE_BROKEN);
        assert_non_null(problem);
        assert_true(strlen(problem) > 0);
    }
    return result;
}

/* What is accepted encodes to the very bytes again: nothing of it was dropped. */
static void assert_accepted(const uint8_t *data, size_t len)
{
    uint8_t again[WIRE_MESSAGE_BYTES];
    struct wire_message message;

    assert_int_equal(decode(data, len, &message), WIRE_OK);
    assert_int_equal(wire_encode(&message, again), len);
    assert_memory_equal(again, data, len);
}

static void assert_refused(const uint8_t *data, size_t len)
{
    struct wire_message message;

    assert_int_equal(decode(data, len, &message), WIRE_BROKEN);
}

static void assert_decodes_to(const uint8_t *data, size_t len, bool accepted)
{
    if (accepted)
        assert_accepted(data, len);
    else
        assert_refused(data, len);
}

/*
 * Samples
 */

static void make_open(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_OPEN,
                                     .open = {.size = 0x0102030405060708,
                                              .bytes = 0x0102030405060607,
                                              .slot_limit = 9,
                                              .object_limit = 5,
                                              .chunk_limit = 0x12345,
                                              .name = "a/b"}};
}

static void make_full_open(struct wire_message *message)
{
    make_open(message);
    message->open.flags = WIRE_OPEN_FLAGS & ~WIRE_OPEN_MAP;
    message->open.mode = 0640;
    message->open.accessed = (struct wire_time){-2, 0x0badcafe};
    message->open.modified = (struct wire_time){0x1112131415161718, 999999999};
    for (unsigned i = 0; i < WIRE_IDENTITY_BYTES; i++)
        message->open.identity[i] = (uint8_t)(0x40 + i);
}

static void make_mapped_open(struct wire_message *message)
{
    make_open(message);
    message->open.flags = WIRE_OPEN_MAP | WIRE_OPEN_CONFIRM;
    message->open.bytes = message->open.size;
}

static void make_largest_open(struct wire_message *message)
{
    make_open(message);
    message->open.size = message->open.bytes = MAX_SIZE;
    message->open.slot_limit = WIRE_MAX_SLOTS;
    message->open.object_limit = WIRE_MAX_OBJECTS;
    message->open.chunk_limit = WIRE_MAX_SLOT_SIZE;
    memset(message->open.name, 0xff, WIRE_MAX_NAME);
}

static void make_stream_open(struct wire_message *message)
{
    make_open(message);
    message->open.size = message->open.bytes = WIRE_UNKNOWN;
    message->open.slot_limit = message->open.object_limit = 1;
    message->open.chunk_limit = WIRE_MIN_SLOT_SIZE;
    message->open.name[0] = '\0';
}

static void make_ready(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_READY,
                                     .ready = {.slot_count = 4,
                                               .object_limit = 3,
                                               .slot_size = 0x10000,
                                               .remote_addr = 0x7f0102030405060,
                                               .rkey = 0xdeadbeef,
                                               .flags = WIRE_READY_DENSE}};
}

static void make_largest_ready(struct wire_message *message)
{
    make_ready(message);
    message->ready.slot_count = WIRE_MAX_SLOTS;
    message->ready.object_limit = WIRE_MAX_OBJECTS;
    message->ready.slot_size = WIRE_MAX_SLOT_SIZE;
    message->ready.remote_addr = UINT64_MAX - WIRE_MAX_SLOTS * MAX_SLOT_SIZE;
    message->ready.rkey = UINT32_MAX;
}

static void make_chunk(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_CHUNK,
        .chunk = {.slot = 3, .extent_count = 1, .extents = {{0x1122334455, 77}}}};
}

static void make_chunk_of_two(struct wire_message *message)
{
    make_chunk(message);
    message->chunk.extent_count = 2;
    message->chunk.extents[0] = (struct wire_extent){0, 1};
    message->chunk.extents[1] = (struct wire_extent){MAX_SIZE - 10, 10};
}

static void make_largest_chunk(struct wire_message *message)
{
    make_chunk(message);
    message->chunk.slot = WIRE_MAX_SLOTS - 1;
    message->chunk.extent_count = WIRE_MAX_EXTENTS;
    for (unsigned i = 0; i < WIRE_MAX_EXTENTS; i++)
        message->chunk.extents[i] = (struct wire_extent){1000 * (uint64_t)i, 999};
    message->chunk.extents[WIRE_MAX_EXTENTS - 1].length = MAX_SLOT_SIZE -
                                                          999 * (WIRE_MAX_EXTENTS - 1);
}

static void make_grant(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_GRANT,
                                     .grant = {.slot = 5, .acknowledged = 0x1020304050607080}};
}

static struct digest_value sample_digest(void)
{
    struct digest_value digest = {.size = 1000, .bytes = 600};

    for (int i = 0; i < DIGEST_BYTES; i++) {
        digest.data[i] = (uint8_t)(0x20 + i);
        digest.map[i] = (uint8_t)(0xf0 + i);
    }
    return digest;
}

/* The same, as it is sent. */
#define DIGEST_FIELD                                                                         \
    0, 0, 0, 0, 0, 0, 3, 0xe8, /* size */                                                    \
    0, 0, 0, 0, 0, 0, 2, 0x58, /* bytes */                                                   \
    0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, \
    0x2f, 0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, \
    0xfe, 0xff

static void make_end(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_END, .end = {.digest = sample_digest()}};
}

static void make_abandoned_end(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_END, .end = {.flags = WIRE_END_ABANDONED}};
}

static void make_done(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_DONE, .done = {.object = 0x0a0b0c0d, .digest = sample_digest()}};
}

static void make_failed_done(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_DONE, .done = {.object = 7, .status = 74}};
}

static void make_opened(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_OPENED,
                                     .opened = {.object = 0x0a0b0c0d, .kept = 0x1122334455}};
}

static void make_placed_opened(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_OPENED,
                                     .opened = {.object = 6, .flags = WIRE_OPENED_PLACED}};
}

static void make_place(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_PLACE,
                                     .place = {.slot = 5,
                                               .rkey = 0xdeadbeef,
                                               .remote_addr = 0x7f0102030405060,
                                               .offset = 0x1122334455,
                                               .length = 0x20304,
                                               .acknowledged = 0x1020304050607080}};
}

static void make_largest_place(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_PLACE,
                                     .place = {.slot = WIRE_MAX_SLOTS - 1,
                                               .rkey = UINT32_MAX,
                                               .remote_addr = UINT64_MAX - MAX_SLOT_SIZE,
                                               .offset = MAX_SIZE - MAX_SLOT_SIZE,
                                               .length = MAX_SLOT_SIZE,
                                               .acknowledged = MAX_SIZE}};
}

static void make_recall(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_RECALL,
                                     .recall = {.extent_count = 2,
                                                .digest = sample_digest(),
                                                .extents = {{5, 590}, {0x1122334455, 10}}}};
}

/* Extents of a RECALL are no slot's, and as large as the object. */
static void make_largest_recall(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_RECALL,
        .recall = {.extent_count = WIRE_MAX_RECALLED, .digest = sample_digest()}};
    for (unsigned i = 0; i < WIRE_MAX_RECALLED; i++)
        message->recall.extents[i] = (struct wire_extent){1000 * (uint64_t)i, 999};
    message->recall.extents[WIRE_MAX_RECALLED - 1].length = MAX_SIZE -
                                                            1000 * (WIRE_MAX_RECALLED - 1);
}

static void make_recalled(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_RECALLED, .recalled = {.object = 0x0a0b0c0d, .digest = sample_digest()}};
}

static void make_error(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_ERROR,
                                     .error = {.status = 74, .text = "full", .hint = "buy"}};
}

static void make_empty_error(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_ERROR, .error = {.status = 1}};
}

static void make_largest_error(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_ERROR, .error = {.status = 255}};
    memset(message->error.text, 't', WIRE_MAX_TEXT);
    memset(message->error.hint, 'h', WIRE_MAX_TEXT);
}

static void make_failed(struct wire_message *message)
{
    make_error(message);
    message->type = WIRE_FAILED;
    message->error.object = 0x0a0b0c0d;
}

static void make_empty_failed(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_FAILED, .error = {.status = 1}};
}

static void make_largest_failed(struct wire_message *message)
{
    make_largest_error(message);
    message->type = WIRE_FAILED;
    message->error.object = UINT32_MAX;
}

static void make_ping(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_PING};
}

static void make_pong(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_PONG};
}

static void make_meet(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_MEET, .meet = {.text = "1.2.3.4:5\n[::1]:6"}};
    for (int i = 0; i < WIRE_TOKEN_BYTES; i++)
        message->meet.token[i] = (uint8_t)(0xc0 + i);
}

static void make_largest_meet(struct wire_message *message)
{
    make_meet(message);
    memset(message->meet.token, 0xff, WIRE_TOKEN_BYTES);
    memset(message->meet.text, 0xff, WIRE_MAX_MEET);
}

static void make_proof(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_PROOF};
    for (int i = 0; i < WIRE_NONCE_BYTES; i++) {
        message->proof.nonce[i] = (uint8_t)(0x10 + i);
        message->proof.code[i] = (uint8_t)(0xd0 + i);
    }
}

static void make_close(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_CLOSE};
}

static void make_check(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_CHECK, .check = {.wanted = 0x123456}};
}

static void make_scratch(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_SCRATCH,
        .scratch = {.size = 0x123000, .rkey = 0xdeadbeef, .remote_addr = 0x7f0102030405060}};
}

static void make_largest_scratch(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_SCRATCH,
                                     .scratch = {.size = WIRE_MAX_SCRATCH,
                                                 .rkey = UINT32_MAX,
                                                 .remote_addr = UINT64_MAX - WIRE_MAX_SCRATCH}};
}

static void make_verify(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_VERIFY,
        .verify = {
            .guard = 0x304, .offset = 0x10203, .length = 0x405, .seed = 0x1122334455667788}};
}

static void make_largest_verify(struct wire_message *message)
{
    *message = (struct wire_message){
        .type = WIRE_VERIFY,
        .verify = {.guard = WIRE_MAX_GUARD, .length = WIRE_MAX_SCRATCH, .seed = UINT64_MAX}};
}

static void make_verified(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_VERIFIED, .verified = {.verdict = WIRE_EQUAL}};
}

static void make_wrong_verified(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_VERIFIED,
                                     .verified = {.verdict = WIRE_WRONG_TARGET,
                                                  .found = 0x12,
                                                  .expected = 0x34,
                                                  .wrong = 0x10002,
                                                  .at = 0x10203}};
}

static void make_echo(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_ECHO, .echo = {.number = 0x1122334455667788}};
}

static void make_echoed(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_ECHOED, .echo = {.number = UINT64_MAX}};
}

typedef void make_message(struct wire_message *message);

static const struct {
    make_message *make;
    size_t len;
} samples[] = {
    {make_open, 83},
    {make_full_open, 83},
    {make_mapped_open, 83},
    {make_largest_open, 80 + WIRE_MAX_NAME},
    {make_stream_open, 80},
    {make_ready, 28},
    {make_largest_ready, 28},
    {make_chunk, 24},
    {make_chunk_of_two, 40},
    {make_largest_chunk, 8 + 16 * WIRE_MAX_EXTENTS},
    {make_grant, 20},
    {make_end, 56},
    {make_abandoned_end, 56},
    {make_done, 60},
    {make_failed_done, 60},
    {make_error, 19},
    {make_empty_error, 12},
    {make_largest_error, 12 + 2 * WIRE_MAX_TEXT},
    {make_ping, 4},
    {make_pong, 4},
    {make_meet, 41},
    {make_largest_meet, 24 + WIRE_MAX_MEET},
    {make_proof, 68},
    {make_opened, 20},
    {make_placed_opened, 20},
    {make_place, 44},
    {make_largest_place, 44},
    {make_recall, 88},
    {make_largest_recall, 56 + 16 * WIRE_MAX_RECALLED},
    {make_recalled, 56},
    {make_failed, 23},
    {make_empty_failed, 16},
    {make_largest_failed, 16 + 2 * WIRE_MAX_TEXT},
    {make_close, 4},
    {make_check, 12},
    {make_scratch, 20},
    {make_largest_scratch, 20},
    {make_verify, 36},
    {make_largest_verify, 36},
    {make_verified, 20},
    {make_wrong_verified, 20},
    {make_echo, 12},
    {make_echoed, 12},
};

/* Whether one of the samples is of that type. */
static bool is_known(unsigned type)
{
    struct wire_message message;

    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        samples[i].make(&message);
        if (message.type == type)
            return true;
    }
    return false;
}

/* One byte longer than a message, for those that are too long. */
static size_t encode_made(make_message *make, uint8_t buf[WIRE_MESSAGE_BYTES + 1])
{
    struct wire_message message;

    make(&message);
    return wire_encode(&message, buf);
}

/*
 * Messages
 */

static void assert_same_time(const struct wire_time *a, const struct wire_time *b)
{
    assert_true(a->seconds == b->seconds);
    assert_int_equal(a->nanoseconds, b->nanoseconds);
}

static void assert_same_open(const struct wire_message *a, const struct wire_message *b)
{
    assert_int_equal(a->open.flags, b->open.flags);
    assert_true(a->open.size == b->open.size);
    assert_true(a->open.bytes == b->open.bytes);
    assert_int_equal(a->open.mode, b->open.mode);
    assert_same_time(&a->open.accessed, &b->open.accessed);
    assert_same_time(&a->open.modified, &b->open.modified);
    assert_memory_equal(a->open.identity, b->open.identity, WIRE_IDENTITY_BYTES);
    assert_int_equal(a->open.slot_limit, b->open.slot_limit);
    assert_int_equal(a->open.object_limit, b->open.object_limit);
    assert_int_equal(a->open.chunk_limit, b->open.chunk_limit);
    assert_string_equal(a->open.name, b->open.name);
}

static void assert_same_extents(const struct wire_extent *a, unsigned a_count,
                                const struct wire_extent *b, unsigned b_count)
{
    assert_int_equal(a_count, b_count);
    assert_memory_equal(a, b, a_count * sizeof(a[0]));
}

static void assert_same_message(const struct wire_message *a, const struct wire_message *b)
{
    assert_int_equal(a->type, b->type);
    switch (a->type) {
    case WIRE_PROOF:
        assert_memory_equal(a->proof.nonce, b->proof.nonce, WIRE_NONCE_BYTES);
        assert_memory_equal(a->proof.code, b->proof.code, WIRE_CODE_BYTES);
        break;
    case WIRE_MEET:
        assert_memory_equal(a->meet.token, b->meet.token, WIRE_TOKEN_BYTES);
        assert_string_equal(a->meet.text, b->meet.text);
        break;
    case WIRE_OPEN:
        assert_same_open(a, b);
        break;
    case WIRE_READY:
        assert_int_equal(a->ready.slot_count, b->ready.slot_count);
        assert_int_equal(a->ready.object_limit, b->ready.object_limit);
        assert_int_equal(a->ready.slot_size, b->ready.slot_size);
        assert_true(a->ready.remote_addr == b->ready.remote_addr);
        assert_int_equal(a->ready.rkey, b->ready.rkey);
        assert_int_equal(a->ready.flags, b->ready.flags);
        break;
    case WIRE_CHUNK:
        assert_int_equal(a->chunk.slot, b->chunk.slot);
        assert_same_extents(a->chunk.extents, a->chunk.extent_count, b->chunk.extents,
                            b->chunk.extent_count);
        break;
    case WIRE_GRANT:
        assert_int_equal(a->grant.slot, b->grant.slot);
        assert_true(a->grant.acknowledged == b->grant.acknowledged);
        break;
    case WIRE_END:
        assert_int_equal(a->end.flags, b->end.flags);
        assert_true(digest_equal(&a->end.digest, &b->end.digest));
        break;
    case WIRE_DONE:
        assert_int_equal(a->done.object, b->done.object);
        assert_int_equal(a->done.status, b->done.status);
        assert_true(digest_equal(&a->done.digest, &b->done.digest));
        break;
    case WIRE_FAILED:
        assert_int_equal(a->error.object, b->error.object);
        /* fall through */
    case WIRE_ERROR:
        assert_int_equal(a->error.status, b->error.status);
        assert_string_equal(a->error.text, b->error.text);
        assert_string_equal(a->error.hint, b->error.hint);
        break;
    case WIRE_OPENED:
        assert_int_equal(a->opened.object, b->opened.object);
        assert_int_equal(a->opened.flags, b->opened.flags);
        assert_true(a->opened.kept == b->opened.kept);
        break;
    case WIRE_PLACE:
        assert_int_equal(a->place.slot, b->place.slot);
        assert_int_equal(a->place.rkey, b->place.rkey);
        assert_true(a->place.remote_addr == b->place.remote_addr);
        assert_true(a->place.offset == b->place.offset);
        assert_true(a->place.length == b->place.length);
        assert_true(a->place.acknowledged == b->place.acknowledged);
        break;
    case WIRE_RECALL:
        assert_true(digest_equal(&a->recall.digest, &b->recall.digest));
        assert_same_extents(a->recall.extents, a->recall.extent_count, b->recall.extents,
                            b->recall.extent_count);
        break;
    case WIRE_RECALLED:
        assert_int_equal(a->recalled.object, b->recalled.object);
        assert_true(digest_equal(&a->recalled.digest, &b->recalled.digest));
        break;
    case WIRE_CHECK:
        assert_int_equal(a->check.wanted, b->check.wanted);
        break;
    case WIRE_SCRATCH:
        assert_int_equal(a->scratch.size, b->scratch.size);
        assert_int_equal(a->scratch.rkey, b->scratch.rkey);
        assert_true(a->scratch.remote_addr == b->scratch.remote_addr);
        break;
    case WIRE_VERIFY:
        assert_int_equal(a->verify.guard, b->verify.guard);
        assert_true(a->verify.offset == b->verify.offset);
        assert_true(a->verify.length == b->verify.length);
        assert_true(a->verify.seed == b->verify.seed);
        break;
    case WIRE_VERIFIED:
        assert_int_equal(a->verified.verdict, b->verified.verdict);
        assert_int_equal(a->verified.found, b->verified.found);
        assert_int_equal(a->verified.expected, b->verified.expected);
        assert_int_equal(a->verified.wrong, b->verified.wrong);
        assert_true(a->verified.at == b->verified.at);
        break;
    case WIRE_ECHO:
    case WIRE_ECHOED:
        assert_true(a->echo.number == b->echo.number);
        break;
    case WIRE_PING:
    case WIRE_PONG:
    case WIRE_CLOSE:
        break;
    }
}

static void every_message_makes_the_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        uint8_t buf[WIRE_MESSAGE_BYTES];
        struct wire_message message, decoded;

        samples[i].make(&message);
        assert_int_equal(wire_encode(&message, buf), samples[i].len);
        assert_int_equal(decode(buf, samples[i].len, &decoded), WIRE_OK);
        assert_same_message(&message, &decoded);
    }
}

static void assert_encodes_as(make_message *make, const uint8_t *bytes, size_t len)
{
    uint8_t buf[WIRE_MESSAGE_BYTES + 1];

    assert_int_equal(encode_made(make, buf), len);
    assert_memory_equal(buf, bytes, len);
}

#define ASSERT_ENCODES_AS(make, ...) \
    assert_encodes_as(make, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void bytes_are_as_specified(void **state)
{
    (void)state;
    ASSERT_ENCODES_AS(make_open, 0, 1, 0, 83,          /* type, length */
                      0, 0, 0, 0,                      /* flags */
                      1, 2, 3, 4, 5, 6, 7, 8,          /* size */
                      1, 2, 3, 4, 5, 6, 6, 7,          /* bytes */
                      0, 0, 0, 0,                      /* mode */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* accessed */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* modified */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* identity */
                      0, 9, 0, 5,                      /* slot limit, object limit */
                      0, 1, 0x23, 0x45,                /* chunk limit */
                      0, 3, 0, 0, 'a', '/', 'b');      /* name's length, zero, name */
    ASSERT_ENCODES_AS(make_full_open, 0, 1, 0, 83,     /* type, length */
                      0, 0, 0, 0xf,                    /* flags */
                      1, 2, 3, 4, 5, 6, 7, 8,          /* size */
                      1, 2, 3, 4, 5, 6, 6, 7,          /* bytes */
                      0, 0, 1, 0xa0,                   /* mode */
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, /* accessed */
                      0x0b, 0xad, 0xca, 0xfe,                         /* nanoseconds */
                      0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, /* modified */
                      0x3b, 0x9a, 0xc9, 0xff,                         /* nanoseconds */
                      0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, /* identity */
                      0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f,
                      0, 9, 0, 5,                      /* slot limit, object limit */
                      0, 1, 0x23, 0x45,                /* chunk limit */
                      0, 3, 0, 0, 'a', '/', 'b');      /* name's length, zero, name */
    ASSERT_ENCODES_AS(make_ready, 0, 2, 0, 28,         /* type, length */
                      0, 4, 0, 3, 0, 1, 0, 0,          /* slot count, object limit, slot size */
                      7, 0xf0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, /* remote address */
                      0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 1);         /* rkey, flags */
    ASSERT_ENCODES_AS(make_chunk, 0, 3, 0, 24,         /* type, length */
                      0, 3, 0, 1,                      /* slot, extent count */
                      0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0, 0, 0, 0, 0, 77);
    ASSERT_ENCODES_AS(make_grant, 0, 4, 0, 20,         /* type, length */
                      0, 5, 0, 0, 0, 0, 0, 0,          /* slot, zeros */
                      0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80);
    ASSERT_ENCODES_AS(make_end, 0, 5, 0, 56, 0, 0, 0, 0, /* type, length, flags */
                      DIGEST_FIELD);
    ASSERT_ENCODES_AS(make_abandoned_end, 0, 5, 0, 56, 0, 0, 0, 1, /* type, length, flags */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_ENCODES_AS(make_done, 0, 6, 0, 60,          /* type, length */
                      0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 0, /* object, status */
                      DIGEST_FIELD);
    ASSERT_ENCODES_AS(make_failed_done, 0, 6, 0, 60,   /* type, length */
                      0, 0, 0, 7, 0, 0, 0, 74,         /* object, status */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_ENCODES_AS(make_error, 0, 7, 0, 19,         /* type, length */
                      0, 74, 0, 4, 0, 3, 0, 0,         /* status, lengths, zero */
                      'f', 'u', 'l', 'l', 'b', 'u', 'y');
    ASSERT_ENCODES_AS(make_ping, 0, 8, 0, 4);
    ASSERT_ENCODES_AS(make_pong, 0, 9, 0, 4);
    ASSERT_ENCODES_AS(make_meet, 0, 16, 0, 41, /* type, length */
                      0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc,
                      0xcd, 0xce, 0xcf, 0, 17, 0, 0, /* token, text length, zero */
                      '1', '.', '2', '.', '3', '.', '4', ':', '5', '\n', '[', ':', ':', '1', ']',
                      ':', '6');
    ASSERT_ENCODES_AS(make_opened, 0, 10, 0, 20,       /* type, length */
                      0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 0, /* object, flags */
                      0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55);
    ASSERT_ENCODES_AS(make_placed_opened, 0, 10, 0, 20, /* type, length */
                      0, 0, 0, 6, 0, 0, 0, 1,          /* object, flags */
                      0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_ENCODES_AS(make_place, 0, 15, 0, 44,        /* type, length */
                      0, 5, 0, 0, 0xde, 0xad, 0xbe, 0xef, /* slot, zero, rkey */
                      7, 0xf0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, /* remote address */
                      0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, /* offset */
                      0, 0, 0, 0, 0, 2, 3, 4,          /* length */
                      0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80);
    ASSERT_ENCODES_AS(make_recall, 0, 11, 0, 88,       /* type, length */
                      0, 0, 0, 2,                      /* zero, extent count */
                      DIGEST_FIELD, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 2, 0x4e,
                      0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0, 0, 0, 0, 0, 0, 0, 10);
    ASSERT_ENCODES_AS(make_recalled, 0, 12, 0, 56,     /* type, length */
                      0x0a, 0x0b, 0x0c, 0x0d, DIGEST_FIELD);
    ASSERT_ENCODES_AS(make_failed, 0, 13, 0, 23,       /* type, length */
                      0x0a, 0x0b, 0x0c, 0x0d,          /* object */
                      0, 74, 0, 4, 0, 3, 0, 0,         /* status, lengths, zero */
                      'f', 'u', 'l', 'l', 'b', 'u', 'y');
    ASSERT_ENCODES_AS(make_close, 0, 14, 0, 4);
    ASSERT_ENCODES_AS(make_check, 0, 18, 0, 12,        /* type, length */
                      0, 0x12, 0x34, 0x56, 0, 0, 0, 0); /* wanted, zero */
    ASSERT_ENCODES_AS(make_scratch, 0, 19, 0, 20,      /* type, length */
                      0, 0x12, 0x30, 0, 0xde, 0xad, 0xbe, 0xef, /* size, rkey */
                      7, 0xf0, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60);
    ASSERT_ENCODES_AS(make_verify, 0, 20, 0, 36,       /* type, length */
                      0, 0, 3, 4, 0, 0, 0, 0,          /* guard, zero */
                      0, 0, 0, 0, 0, 1, 2, 3,          /* offset */
                      0, 0, 0, 0, 0, 0, 4, 5,          /* length */
                      0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88);
    ASSERT_ENCODES_AS(make_verified, 0, 21, 0, 20,     /* type, length */
                      0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    ASSERT_ENCODES_AS(make_wrong_verified, 0, 21, 0, 20, /* type, length */
                      0, 1, 0x12, 0x34, 0, 1, 0, 2,    /* verdict, found, expected, wrong */
                      0, 0, 0, 0, 0, 1, 2, 3);
    ASSERT_ENCODES_AS(make_echo, 0, 22, 0, 12,         /* type, length */
                      0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88);
    ASSERT_ENCODES_AS(make_echoed, 0, 23, 0, 12,       /* type, length */
                      0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
}

/* As it arrives when the transport lost or added bytes, and as a peer sends that means it. */
static void assert_refused_with_length(uint8_t *buf, size_t len)
{
    assert_refused(buf, len);
    put(buf + 2, 2, len);
    assert_refused(buf, len);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        for (size_t len = 0; len < samples[i].len; len++) {
            uint8_t buf[WIRE_MESSAGE_BYTES + 1];

            encode_made(samples[i].make, buf);
            assert_refused_with_length(buf, len);
        }
    }
}

static void every_extension_is_refused(void **state)
{
    static const uint8_t extra[] = {0, 1, 'x'};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        for (size_t j = 0; j < COUNT_OF(extra); j++) {
            uint8_t buf[WIRE_MESSAGE_BYTES + 1];
            size_t len = encode_made(samples[i].make, buf);

            buf[len] = extra[j];
            assert_refused_with_length(buf, len + 1);
        }
    }
}

static void a_length_field_other_than_what_arrived_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(samples[i].make, buf);

        for (unsigned field = 0; field < 2 * WIRE_MESSAGE_BYTES; field++) {
            put(buf + 2, 2, field);
            if (field != len)
                assert_refused(buf, len);
        }
    }
}

static void nothing_is_no_message(void **state)
{
    struct wire_message message;
    const char *problem = NULL;

    (void)state;
    assert_int_equal(wire_decode(NULL, 0, &message, &problem), WIRE_BROKEN);
    assert_non_null(problem);
}

static void unknown_types_are_refused(void **state)
{
    (void)state;
    for (unsigned type = 0; type <= UINT16_MAX; type++) {
        for (size_t len = 4; len <= 60; len++) {
            uint8_t buf[60] = {0};

            if (is_known(type))
                break;
            put(buf, 2, type);
            put(buf + 2, 2, len);
            assert_refused(buf, len);
            if (type > 300)
                break;
        }
    }
}

static void a_message_larger_than_a_receive_buffer_is_refused(void **state)
{
    uint8_t buf[WIRE_MESSAGE_BYTES + 16] = {0};
    size_t count = WIRE_MAX_EXTENTS + 1, len = 8 + 16 * count;

    (void)state;
    put(buf, 2, WIRE_CHUNK);
    put(buf + 2, 2, len);
    put(buf + 6, 2, count);
    for (size_t i = 0; i < count; i++) {
        put(buf + 8 + 16 * i, 8, i);
        put(buf + 16 + 16 * i, 8, 1);
    }
    assert_true(len > WIRE_MESSAGE_BYTES);
    assert_refused(buf, len);
}

/* A field of a sample, the range it may be set to alone, and one more value outside of it. */
static const struct field {
    make_message *make;
    size_t offset, width;
    uint64_t least, most, also;
} fields[] = {
    {make_open, 8, 8, 0x0102030405060607, MAX_SIZE, MAX_SIZE},
    {make_open, 16, 8, 0, 0x0102030405060708, 0},
    {make_open, 24, 4, 0, 0, 0},
    {make_open, 28, 8, 0, 0, 0},
    {make_open, 36, 4, 0, 0, 0},
    {make_open, 40, 8, 0, 0, 0},
    {make_open, 48, 4, 0, 0, 0},
    {make_open, 52, 8, 0, 0, 0},
    {make_open, 60, 8, 0, 0, 0},
    {make_open, 68, 2, 1, WIRE_MAX_SLOTS, 1},
    {make_open, 70, 2, 1, WIRE_MAX_OBJECTS, 1},
    {make_open, 72, 4, WIRE_MIN_SLOT_SIZE, WIRE_MAX_SLOT_SIZE, WIRE_MIN_SLOT_SIZE},
    {make_open, 76, 2, 3, 3, 3},
    {make_open, 78, 2, 0, 0, 0},
    {make_full_open, 24, 4, 0, 0777, 0},
    {make_full_open, 28, 8, 0, UINT64_MAX, 0},
    {make_full_open, 36, 4, 0, 999999999, 0},
    {make_full_open, 40, 8, 0, UINT64_MAX, 0},
    {make_full_open, 48, 4, 0, 999999999, 0},
    {make_full_open, 52, 8, 0, UINT64_MAX, 0},
    {make_full_open, 60, 8, 0, UINT64_MAX, 0},
    {make_mapped_open, 8, 8, 0x0102030405060708, 0x0102030405060708, 0x0102030405060708},
    {make_mapped_open, 16, 8, 0x0102030405060708, 0x0102030405060708, 0x0102030405060708},
    {make_mapped_open, 24, 4, 0, 0, 0},
    {make_mapped_open, 52, 8, 0, 0, 0},
    {make_stream_open, 8, 8, WIRE_UNKNOWN, WIRE_UNKNOWN, WIRE_UNKNOWN},
    {make_stream_open, 16, 8, WIRE_UNKNOWN, WIRE_UNKNOWN, WIRE_UNKNOWN},
    {make_ready, 4, 2, 1, WIRE_MAX_SLOTS, 1},
    {make_ready, 6, 2, 1, WIRE_MAX_OBJECTS, 1},
    {make_ready, 8, 4, WIRE_MIN_SLOT_SIZE, WIRE_MAX_SLOT_SIZE, WIRE_MIN_SLOT_SIZE},
    {make_ready, 12, 8, 0, UINT64_MAX - 4 * 0x10000, 0},
    {make_ready, 20, 4, 0, UINT32_MAX, 0},
    {make_ready, 24, 4, 0, WIRE_READY_DENSE, 0},
    {make_largest_ready, 12, 8, 0, UINT64_MAX - WIRE_MAX_SLOTS * MAX_SLOT_SIZE, 0},
    {make_chunk, 4, 2, 0, WIRE_MAX_SLOTS - 1, 0},
    {make_chunk, 6, 2, 1, 1, 1},
    {make_chunk, 8, 8, 0, MAX_SIZE - 77, 0},
    {make_chunk, 16, 8, 1, MAX_SLOT_SIZE, 1},
    {make_chunk_of_two, 8, 8, 0, MAX_SIZE - 11, 0},
    {make_chunk_of_two, 16, 8, 1, MAX_SLOT_SIZE - 10, 1},
    {make_chunk_of_two, 24, 8, 1, MAX_SIZE - 10, 1},
    {make_chunk_of_two, 32, 8, 1, 10, 1},
    {make_largest_chunk, 6, 2, WIRE_MAX_EXTENTS, WIRE_MAX_EXTENTS, WIRE_MAX_EXTENTS},
    {make_grant, 4, 2, 0, WIRE_MAX_SLOTS - 1, 0},
    {make_grant, 6, 2, 0, 0, 0},
    {make_grant, 8, 4, 0, 0, 0},
    {make_grant, 12, 8, 0, MAX_SIZE, 0},
    {make_end, 4, 4, 0, WIRE_END_ABANDONED, 0},
    {make_end, 8, 8, 600, MAX_SIZE, 600},
    {make_end, 16, 8, 0, 1000, 0},
    {make_done, 4, 4, 0, UINT32_MAX, 0},
    {make_done, 12, 8, 600, MAX_SIZE, 600},
    {make_done, 20, 8, 0, 1000, 0},
    {make_failed_done, 8, 4, 0, UINT8_MAX, 0},
    {make_error, 4, 2, 1, 255, 1},
    {make_error, 6, 2, 4, 4, 4},
    {make_error, 8, 2, 3, 3, 3},
    {make_error, 10, 2, 0, 0, 0},
    {make_ping, 0, 2, WIRE_PING, WIRE_PONG, WIRE_CLOSE},
    {make_opened, 4, 4, 0, UINT32_MAX, 0},
    {make_opened, 8, 4, 0, WIRE_OPENED_PLACED, 0},
    {make_opened, 12, 8, 0, MAX_SIZE, 0},
    {make_place, 4, 2, 0, WIRE_MAX_SLOTS - 1, 0},
    {make_place, 6, 2, 0, 0, 0},
    {make_place, 8, 4, 0, UINT32_MAX, 0},
    {make_place, 12, 8, 0, UINT64_MAX - 0x20304, 0},
    {make_place, 20, 8, 0, MAX_SIZE - 0x20304, 0},
    {make_place, 28, 8, 1, MAX_SLOT_SIZE, 1},
    {make_place, 36, 8, 0, MAX_SIZE, 0},
    {make_largest_place, 12, 8, 0, UINT64_MAX - MAX_SLOT_SIZE, 0},
    {make_largest_place, 20, 8, 0, MAX_SIZE - MAX_SLOT_SIZE, 0},
    {make_recall, 4, 2, 0, 0, 0},
    {make_recall, 6, 2, 2, 2, 2},
    {make_recall, 8, 8, 600, MAX_SIZE, 600},
    {make_recall, 16, 8, 0, 1000, 0},
    {make_recall, 56, 8, 0, 0x1122334455 - 590, 0},
    {make_recall, 64, 8, 1, 0x1122334455 - 5, 1},
    {make_recall, 72, 8, 595, MAX_SIZE - 10, 595},
    {make_recall, 80, 8, 1, MAX_SIZE - 0x1122334455, 1},
    {make_largest_recall, 6, 2, WIRE_MAX_RECALLED, WIRE_MAX_RECALLED, WIRE_MAX_RECALLED},
    {make_recalled, 4, 4, 0, UINT32_MAX, 0},
    {make_recalled, 8, 8, 600, MAX_SIZE, 600},
    {make_recalled, 16, 8, 0, 1000, 0},
    {make_failed, 4, 4, 0, UINT32_MAX, 0},
    {make_failed, 8, 2, 1, 255, 1},
    {make_failed, 10, 2, 4, 4, 4},
    {make_failed, 12, 2, 3, 3, 3},
    {make_failed, 14, 2, 0, 0, 0},
    {make_meet, 20, 2, 17, 17, 17},
    {make_meet, 22, 2, 0, 0, 0},
    {make_check, 4, 4, WIRE_MIN_SCRATCH, WIRE_MAX_SCRATCH, WIRE_MIN_SCRATCH},
    {make_check, 8, 4, 0, 0, 0},
    {make_scratch, 4, 4, WIRE_MIN_SCRATCH, WIRE_MAX_SCRATCH, WIRE_MIN_SCRATCH},
    {make_scratch, 8, 4, 0, UINT32_MAX, 0},
    {make_scratch, 12, 8, 0, UINT64_MAX - 0x123000, 0},
    {make_largest_scratch, 12, 8, 0, UINT64_MAX - WIRE_MAX_SCRATCH, 0},
    {make_verify, 4, 4, 0, WIRE_MAX_GUARD, 0},
    {make_verify, 8, 4, 0, 0, 0},
    {make_verify, 12, 8, 0, WIRE_MAX_SCRATCH - 0x405, 0},
    {make_verify, 20, 8, 0, WIRE_MAX_SCRATCH - 0x10203, 0},
    {make_verify, 28, 8, 1, UINT64_MAX, 1},
    {make_largest_verify, 12, 8, 0, 0, 0},
    {make_largest_verify, 20, 8, 0, WIRE_MAX_SCRATCH, 0},
    {make_verified, 4, 2, WIRE_EQUAL, WIRE_EQUAL, WIRE_EQUAL},
    {make_verified, 6, 1, 0, 0, 0},
    {make_verified, 7, 1, 0, 0, 0},
    {make_verified, 8, 4, 0, 0, 0},
    {make_verified, 12, 8, 0, 0, 0},
    {make_wrong_verified, 4, 2, WIRE_WRONG_TARGET, WIRE_WRONG_GUARD, WIRE_WRONG_TARGET},
    {make_wrong_verified, 8, 4, 1, WIRE_MAX_SCRATCH, 1},
    {make_wrong_verified, 12, 8, 0, WIRE_MAX_SCRATCH - 1, 0},
    {make_echo, 4, 8, 0, UINT64_MAX, 0},
    {make_echoed, 4, 8, 0, UINT64_MAX, 0},
};

static bool is_allowed(const struct field *field, uint64_t value)
{
    return (value >= field->least && value <= field->most) || value == field->also;
}

static void check_field(const struct field *field, uint64_t value)
{
    uint8_t buf[WIRE_MESSAGE_BYTES + 1];
    size_t len = encode_made(field->make, buf);

    if (field->width < 8 && value >> 8 * field->width != 0)
        return;
    put(buf + field->offset, field->width, value);
    assert_decodes_to(buf, len, is_allowed(field, value));
}

static void every_field_keeps_its_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct field *field = &fields[i];

        check_field(field, field->least - 1);
        check_field(field, field->least);
        check_field(field, field->most);
        check_field(field, field->most + 1);
        check_field(field, field->also);
        check_field(field, 0);
        for (unsigned shift = 0; shift < 64; shift++) {
            check_field(field, (UINT64_C(1) << shift) - 1);
            check_field(field, UINT64_C(1) << shift);
            check_field(field, (UINT64_C(1) << shift) + 1);
            check_field(field, UINT64_MAX << shift);
        }
    }
}

static void fields_of_16_bits_keep_their_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        for (unsigned value = 0; fields[i].width == 2 && value <= UINT16_MAX; value++)
            check_field(&fields[i], value);
}

static void a_wrong_byte_is_not_what_it_should_be(void **state)
{
    (void)state;
    for (unsigned found = 0; found <= UINT8_MAX; found++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(make_wrong_verified, buf);

        buf[6] = (uint8_t)found;
        assert_decodes_to(buf, len, found != 0x34);
    }
}

static bool may_have_flags(const struct wire_message *message, uint32_t flags)
{
    bool resumes = (flags & WIRE_OPEN_RESUME) != 0, preserves = (flags & WIRE_OPEN_PRESERVE) != 0;

    if (flags > WIRE_OPEN_FLAGS)
        return false;
    if (!preserves && message->open.mode != 0)
        return false;
    if ((flags & WIRE_OPEN_MAP) && (resumes || !(flags & WIRE_OPEN_CONFIRM) ||
                                    message->open.size == WIRE_UNKNOWN ||
                                    message->open.bytes != message->open.size))
        return false;
    if (!resumes)
        return message->open.identity[0] == 0;
    return (flags & WIRE_OPEN_CONFIRM) && message->open.size != WIRE_UNKNOWN;
}

static void flags_of_an_open_go_together(void **state)
{
    static make_message *const makes[] = {make_open, make_full_open, make_mapped_open,
                                          make_stream_open};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(makes); i++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(makes[i], buf);
        struct wire_message message;

        makes[i](&message);
        for (uint32_t flags = 0; flags < 64; flags++) {
            put(buf + 4, 4, flags);
            assert_decodes_to(buf, len, may_have_flags(&message, flags));
        }
        for (unsigned bit = 5; bit < 32; bit++) {
            put(buf + 4, 4, message.open.flags | UINT32_C(1) << bit);
            assert_refused(buf, len);
        }
    }
}

static void only_what_is_preserved_is_sent(void **state)
{
    static const struct {
        size_t offset, width;
    } attributes[] = {{24, 4}, {28, 8}, {36, 4}, {40, 8}, {48, 4}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(attributes); i++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(make_open, buf);

        put(buf + attributes[i].offset, attributes[i].width, 1);
        assert_refused(buf, len);
        put(buf + 4, 4, WIRE_OPEN_PRESERVE);
        assert_accepted(buf, len);
    }
}

static void every_byte_of_an_identity_needs_resuming(void **state)
{
    (void)state;
    for (size_t at = 52; at < 52 + WIRE_IDENTITY_BYTES; at++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(make_open, buf);

        buf[at] = 1;
        assert_refused(buf, len);
        put(buf + 4, 4, WIRE_OPEN_RESUME | WIRE_OPEN_CONFIRM);
        assert_accepted(buf, len);
    }
}

static void only_what_is_committed_has_a_digest(void **state)
{
    (void)state;
    for (size_t at = 12; at < 60; at++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(make_failed_done, buf);

        buf[at] = 1;
        assert_refused(buf, len);
        put(buf + 8, 4, 0);
        put(buf + 12, 8, MAX_SIZE);
        assert_accepted(buf, len);
    }
}

static void texts_over_the_limit_are_refused(void **state)
{
    uint8_t buf[WIRE_MESSAGE_BYTES + 1];

    (void)state;
    encode_made(make_largest_open, buf);
    buf[80 + WIRE_MAX_NAME] = 'x';
    put(buf + 2, 2, 80 + WIRE_MAX_NAME + 1);
    put(buf + 76, 2, WIRE_MAX_NAME + 1);
    assert_refused(buf, 80 + WIRE_MAX_NAME + 1);

    encode_made(make_largest_meet, buf);
    buf[24 + WIRE_MAX_MEET] = 'x';
    put(buf + 2, 2, 24 + WIRE_MAX_MEET + 1);
    put(buf + 20, 2, WIRE_MAX_MEET + 1);
    assert_refused(buf, 24 + WIRE_MAX_MEET + 1);

    for (unsigned text = WIRE_MAX_TEXT - 1; text <= WIRE_MAX_TEXT + 1; text++) {
        unsigned hint = 2 * WIRE_MAX_TEXT - text;
        size_t len = encode_made(make_largest_error, buf);

        put(buf + 6, 2, text);
        put(buf + 8, 2, hint);
        assert_decodes_to(buf, len, text == WIRE_MAX_TEXT);
        len = encode_made(make_largest_failed, buf);
        put(buf + 10, 2, text);
        put(buf + 12, 2, hint);
        assert_decodes_to(buf, len, text == WIRE_MAX_TEXT);
    }
}

static void texts_may_not_contain_nul(void **state)
{
    static const struct {
        make_message *make;
        size_t first, last;
    } texts[] = {{make_open, 80, 82},
                 {make_largest_open, 80, 80 + WIRE_MAX_NAME - 1},
                 {make_meet, 24, 40},
                 {make_largest_meet, 24, 24 + WIRE_MAX_MEET - 1},
                 {make_error, 12, 18},
                 {make_largest_error, 12, 12 + 2 * WIRE_MAX_TEXT - 1},
                 {make_failed, 16, 22},
                 {make_largest_failed, 16, 16 + 2 * WIRE_MAX_TEXT - 1}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        for (size_t at = texts[i].first; at <= texts[i].last; at++) {
            uint8_t buf[WIRE_MESSAGE_BYTES + 1];
            size_t len = encode_made(texts[i].make, buf);

            buf[at] = '\0';
            assert_refused(buf, len);
        }
    }
}

static void assert_chunk_extents(bool accepted, const struct wire_extent *extents, unsigned count)
{
    struct wire_message message;
    uint8_t buf[WIRE_MESSAGE_BYTES];

    make_chunk(&message);
    message.chunk.extent_count = (uint16_t)count;
    memcpy(message.chunk.extents, extents, count * sizeof(extents[0]));
    assert_decodes_to(buf, wire_encode(&message, buf), accepted);
}

static void assert_recall_extents(bool accepted, const struct wire_extent *extents, unsigned count)
{
    struct wire_message message;
    uint8_t buf[WIRE_MESSAGE_BYTES];

    make_recall(&message);
    message.recall.extent_count = (uint16_t)count;
    memcpy(message.recall.extents, extents, count * sizeof(extents[0]));
    assert_decodes_to(buf, wire_encode(&message, buf), accepted);
}

/* In either message that has some. */
static void assert_extents(bool accepted, const struct wire_extent *extents, unsigned count)
{
    assert_chunk_extents(accepted, extents, count);
    assert_recall_extents(accepted, extents, count);
}

#define EXTENTS(...) \
    (const struct wire_extent[]){__VA_ARGS__}, COUNT_OF(((const struct wire_extent[]){__VA_ARGS__}))

static void assert_meets(bool accepted, const char *text)
{
    struct wire_message message;
    uint8_t buf[WIRE_MESSAGE_BYTES];

    make_meet(&message);
    strcpy(message.meet.text, text);
    assert_decodes_to(buf, wire_encode(&message, buf), accepted);
}

static void the_addresses_of_a_meeting_are_lines(void **state)
{
    (void)state;
    assert_meets(true, "a");
    assert_meets(true, "a\nb\nc");
    assert_meets(false, "");
    assert_meets(false, "\n");
    assert_meets(false, "a\n");
    assert_meets(false, "\na");
    assert_meets(false, "a\n\nb");
    assert_meets(true, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16");
    assert_meets(false, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17");
    for (int c = 1; c <= UINT8_MAX; c++) {
        const char text[] = {'a', (char)c, 'b', '\0'};

        assert_meets((c >= ' ' && c != 0x7f) || c == '\n', text);
    }
}

static void a_meeting_has_a_token(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit <= 8 * WIRE_TOKEN_BYTES; bit++) {
        struct wire_message message;
        uint8_t buf[WIRE_MESSAGE_BYTES];

        make_meet(&message);
        memset(message.meet.token, 0, WIRE_TOKEN_BYTES);
        if (bit < 8 * WIRE_TOKEN_BYTES)
            message.meet.token[bit / 8] = (uint8_t)(1u << bit % 8);
        assert_decodes_to(buf, wire_encode(&message, buf), bit < 8 * WIRE_TOKEN_BYTES);
    }
}

static void a_header_says_how_long_a_message_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(samples); i++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(samples[i].make, buf);

        assert_int_equal(wire_message_length(buf), len);
    }
    assert_int_equal(wire_message_length((const uint8_t[]){0, 0, 0xff, 0xfe}), 0xfffe);
}

static void extents_never_go_back(void **state)
{
    (void)state;
    assert_extents(true, EXTENTS({0, 10}, {10, 10}, {20, 1}));
    assert_extents(true, EXTENTS({0, 10}, {11, 10}));
    assert_extents(false, EXTENTS({0, 10}, {9, 10}));
    assert_extents(false, EXTENTS({100, 10}, {0, 10}));
    assert_extents(false, EXTENTS({100, 10}, {100, 10}));
    assert_extents(false, EXTENTS({0, 10}, {20, 10}, {29, 1}));
    assert_extents(false, EXTENTS({0, 10}, {30, 10}, {15, 1}));
}

static void a_chunk_without_extents_is_refused(void **state)
{
    struct wire_message message;
    uint8_t buf[WIRE_MESSAGE_BYTES];

    (void)state;
    make_chunk(&message);
    message.chunk.extent_count = 0;
    assert_int_equal(wire_encode(&message, buf), 8);
    assert_refused(buf, 8);
}

static void a_recall_without_extents_is_refused(void **state)
{
    struct wire_message message;
    uint8_t buf[WIRE_MESSAGE_BYTES];

    (void)state;
    make_recall(&message);
    message.recall.extent_count = 0;
    assert_int_equal(wire_encode(&message, buf), 56);
    assert_refused(buf, 56);
}

/* One extent more still fits a receive buffer's header, but not the buffer. */
static void a_recall_with_an_extent_too_many_is_refused(void **state)
{
    uint8_t buf[WIRE_MESSAGE_BYTES + 16];
    size_t count = WIRE_MAX_RECALLED + 1, len = 56 + 16 * count;

    (void)state;
    encode_made(make_largest_recall, buf);
    put(buf + 2, 2, len);
    put(buf + 6, 2, count);
    for (size_t i = 0; i < count; i++) {
        put(buf + 56 + 16 * i, 8, i);
        put(buf + 64 + 16 * i, 8, 1);
    }
    assert_true(len > WIRE_MESSAGE_BYTES);
    assert_refused(buf, len);
}

static void empty_extents_are_refused_wherever_they_are(void **state)
{
    (void)state;
    assert_extents(false, EXTENTS({0, 0}));
    assert_extents(false, EXTENTS({0, 0}, {0, 1}));
    assert_extents(false, EXTENTS({0, 1}, {1, 0}, {2, 1}));
    assert_extents(false, EXTENTS({0, 1}, {1, 0}));
}

static void extents_of_a_chunk_are_no_larger_than_a_slot(void **state)
{
    struct wire_extent extents[WIRE_MAX_EXTENTS];

    (void)state;
    assert_chunk_extents(true, EXTENTS({0, MAX_SLOT_SIZE}));
    assert_chunk_extents(false, EXTENTS({0, MAX_SLOT_SIZE + 1}));
    assert_chunk_extents(true, EXTENTS({0, MAX_SLOT_SIZE - 1}, {MAX_SLOT_SIZE, 1}));
    assert_chunk_extents(false, EXTENTS({0, MAX_SLOT_SIZE}, {MAX_SLOT_SIZE, 1}));
    assert_chunk_extents(false, EXTENTS({0, MAX_SIZE}));
    for (unsigned i = 0; i < WIRE_MAX_EXTENTS; i++)
        extents[i] = (struct wire_extent){i * (MAX_SIZE / WIRE_MAX_EXTENTS),
                                          MAX_SIZE / WIRE_MAX_EXTENTS};
    assert_chunk_extents(false, extents, WIRE_MAX_EXTENTS);
}

/* They are read back piece by piece. */
static void extents_of_a_recall_may_be_larger_than_a_slot(void **state)
{
    (void)state;
    assert_recall_extents(true, EXTENTS({0, MAX_SLOT_SIZE + 1}));
    assert_recall_extents(true, EXTENTS({0, MAX_SLOT_SIZE}, {MAX_SLOT_SIZE, 1}));
    assert_recall_extents(true, EXTENTS({0, MAX_SIZE}));
}

static void extents_end_within_the_largest_object(void **state)
{
    (void)state;
    assert_extents(true, EXTENTS({MAX_SIZE - 1, 1}));
    assert_extents(false, EXTENTS({MAX_SIZE, 1}));
    assert_extents(false, EXTENTS({MAX_SIZE - 1, 2}));
    assert_extents(false, EXTENTS({UINT64_MAX, 1}));
    assert_extents(false, EXTENTS({UINT64_MAX - 99, 100}));
    assert_extents(false, EXTENTS({10, UINT64_MAX}));
    assert_extents(false, EXTENTS({10, UINT64_MAX - 5}, {20, 1}));
}

static void slots_end_within_memory(void **state)
{
    static const struct {
        uint64_t remote_addr;
        bool accepted;
    } cases[] = {
        {UINT64_MAX - 2 * WIRE_MIN_SLOT_SIZE - 1, true},
        {UINT64_MAX - 2 * WIRE_MIN_SLOT_SIZE, true},
        {UINT64_MAX - 2 * WIRE_MIN_SLOT_SIZE + 1, false},
        {UINT64_MAX - WIRE_MIN_SLOT_SIZE, false},
        {UINT64_MAX, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_message message;
        uint8_t buf[WIRE_MESSAGE_BYTES];

        make_ready(&message);
        message.ready.slot_count = 2;
        message.ready.slot_size = WIRE_MIN_SLOT_SIZE;
        message.ready.remote_addr = cases[i].remote_addr;
        assert_decodes_to(buf, wire_encode(&message, buf), cases[i].accepted);
    }
}

static void a_placed_slot_ends_within_memory_and_the_largest_object(void **state)
{
    static const struct {
        uint64_t remote_addr, offset, length;
        bool accepted;
    } cases[] = {
        {UINT64_MAX - 1, 0, 1, true},
        {UINT64_MAX, 0, 1, false},
        {UINT64_MAX - WIRE_MIN_SLOT_SIZE + 1, 0, WIRE_MIN_SLOT_SIZE, false},
        {0, MAX_SIZE - 1, 1, true},
        {0, MAX_SIZE, 1, false},
        {0, MAX_SIZE - 1, 2, false},
        {0, UINT64_MAX, 1, false},
        {0, UINT64_MAX - 9, 10, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_message message;
        uint8_t buf[WIRE_MESSAGE_BYTES];

        make_place(&message);
        message.place.remote_addr = cases[i].remote_addr;
        message.place.offset = cases[i].offset;
        message.place.length = cases[i].length;
        assert_decodes_to(buf, wire_encode(&message, buf), cases[i].accepted);
    }
}

static void the_bytes_of_a_chunk_are_summed(void **state)
{
    struct wire_message message;

    (void)state;
    make_chunk(&message);
    assert_int_equal(wire_chunk_bytes(&message), 77);
    make_largest_chunk(&message);
    assert_int_equal(wire_chunk_bytes(&message), WIRE_MAX_SLOT_SIZE);
    message.chunk.extent_count = 0;
    assert_int_equal(wire_chunk_bytes(&message), 0);
}

static void types_have_names(void **state)
{
    static const char *const names[] = {
        [WIRE_OPEN] = "OPEN",     [WIRE_READY] = "READY",   [WIRE_CHUNK] = "CHUNK",
        [WIRE_GRANT] = "GRANT",   [WIRE_END] = "END",       [WIRE_DONE] = "DONE",
        [WIRE_ERROR] = "ERROR",   [WIRE_PING] = "PING",     [WIRE_PONG] = "PONG",
        [WIRE_OPENED] = "OPENED", [WIRE_RECALL] = "RECALL", [WIRE_RECALLED] = "RECALLED",
        [WIRE_FAILED] = "FAILED", [WIRE_CLOSE] = "CLOSE",   [WIRE_PLACE] = "PLACE",
        [WIRE_MEET] = "MEET",     [WIRE_PROOF] = "PROOF",   [WIRE_CHECK] = "CHECK",
        [WIRE_SCRATCH] = "SCRATCH", [WIRE_VERIFY] = "VERIFY", [WIRE_VERIFIED] = "VERIFIED",
        [WIRE_ECHO] = "ECHO",     [WIRE_ECHOED] = "ECHOED"};

    (void)state;
    assert_int_equal(COUNT_OF(names), 24);
    for (unsigned i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(wire_type_name(i), names[i] ? names[i] : "unknown");
    for (unsigned i = 0; i < 1000; i++)
        assert_true(is_known(i) == (strcmp(wire_type_name(i), "unknown") != 0));
    assert_string_equal(wire_type_name(UINT32_MAX), "unknown");
}

/* As counted in the specification, for a client and a server. */
static void messages_under_way_are_counted(void **state)
{
    (void)state;
    assert_int_equal(wire_extra_messages(1), 6);
    for (unsigned objects = 2; objects <= WIRE_MAX_OBJECTS; objects++) {
        unsigned client = 2 * objects + 3;     /* OPEN and END; ERROR, PING, PONG */
        unsigned server = 2 + 2 * objects + 3; /* READY, OPENED; FAILED and DONE; likewise */

        assert_in_range(wire_extra_messages(objects), client, UINT32_MAX);
        assert_in_range(wire_extra_messages(objects), server, UINT32_MAX);
        assert_in_range(wire_extra_messages(objects), 0, WIRE_MAX_EXTRA_MESSAGES);
    }
    /* Of a check: CHECK or VERIFY, and their answers; ERROR, PING, PONG; CLOSE or PROOF. */
    assert_in_range(wire_extra_messages(1), 1 + 3 + 1, UINT32_MAX);
}

/* Whatever bytes are accepted mean one message, and that message means those bytes. (But an error's
 * text may lose half a character.) */
static void mangled_messages_are_refused_or_kept_whole(void **state)
{
    uint32_t random = 1;
    unsigned accepted = 0;

    (void)state;
    for (unsigned round = 0; round < 50000; round++) {
        uint8_t buf[WIRE_MESSAGE_BYTES + 1];
        size_t len = encode_made(samples[round % COUNT_OF(samples)].make, buf);
        struct wire_message message;

        for (unsigned i = 0; i < 2; i++) {
            random = random * 1664525 + 1013904223;
            buf[(random >> 8) % (len < 64 ? len : 64)] = (uint8_t)(random >> 24);
        }
        if (decode(buf, len, &message) == WIRE_OK && message.type != WIRE_ERROR &&
            message.type != WIRE_FAILED) {
            assert_accepted(buf, len);
            accepted++;
        }
    }
    assert_in_range(accepted, 1000, 40000);
}

/*
 * Texts that are cut
 */

/* A text of limit bytes that ends in a character of width bytes, but for the last cut of them. */
static void fill_cut_text(char *text, size_t limit, size_t width, size_t cut)
{
    static const char *const characters[] = {"", "x", "\xc3\xa9", "\xe2\x82\xac",
                                             "\xf0\x9f\x98\x80"};

    memset(text, 'a', limit);
    memcpy(text + limit - (width - cut), characters[width], width - cut);
    text[limit] = '\0';
}

static void texts_are_cut_at_a_character(void **state)
{
    (void)state;
    for (size_t width = 1; width <= 4; width++) {
        for (size_t cut = 0; cut < width; cut++) {
            size_t missing = cut ? width - cut : 0;
            struct wire_message message = {.type = WIRE_ERROR, .error = {.status = 1}};
            struct wire_message decoded;
            struct wire_refusal refusal = {.version = WIRE_VERSION, .status = 1};
            uint8_t buf[WIRE_MESSAGE_BYTES];
            size_t len;

            fill_cut_text(message.error.text, WIRE_MAX_TEXT, width, cut);
            fill_cut_text(message.error.hint, WIRE_MAX_TEXT, width, cut);
            len = wire_encode(&message, buf);
            assert_int_equal(len, 12 + 2 * (WIRE_MAX_TEXT - missing));
            assert_int_equal(decode(buf, len, &decoded), WIRE_OK);
            message.error.text[WIRE_MAX_TEXT - missing] = '\0';
            assert_string_equal(decoded.error.text, message.error.text);

            fill_cut_text(refusal.text, WIRE_REFUSAL_MAX_TEXT, width, cut);
            assert_int_equal(wire_encode_refusal(&refusal, buf),
                             10 + WIRE_REFUSAL_MAX_TEXT - missing);
        }
    }
}

static void half_a_character_is_cut_off_any_text(void **state)
{
    static const char *const halves[] = {"\xc2",     "\xdf",     "\xe0",         "\xe0\xa4",
                                         "\xef\xbf", "\xf0\x90", "\xf4\x8f\xbf", "\xf0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(halves); i++) {
        struct wire_message message = {.type = WIRE_ERROR, .error = {.status = 1}};
        uint8_t buf[WIRE_MESSAGE_BYTES];

        strcpy(message.error.text, halves[i]);
        strcpy(message.error.hint, "\xc3\xa9");
        strcat(message.error.hint, halves[i]);
        assert_int_equal(wire_encode(&message, buf), 12 + 2);
        assert_memory_equal(buf + 12, "\xc3\xa9", 2);
    }
}

static void a_text_without_an_end_is_cut(void **state)
{
    struct wire_message message = {.type = WIRE_ERROR, .error = {.status = 1}};
    uint8_t buf[WIRE_MESSAGE_BYTES];

    (void)state;
    memset(message.error.text, 'a', sizeof(message.error.text));
    memcpy(message.error.text + WIRE_MAX_TEXT - 1, "\xc3\xa9", 2);
    assert_int_equal(wire_encode(&message, buf), 12 + WIRE_MAX_TEXT - 1);
}

static void a_text_of_other_encodings_is_kept(void **state)
{
    struct wire_message message = {.type = WIRE_ERROR, .error = {.status = 1}};
    uint8_t buf[WIRE_MESSAGE_BYTES];

    (void)state;
    memset(message.error.text, 0x80, WIRE_MAX_TEXT);
    memcpy(message.error.hint, "\x80", 1);
    assert_int_equal(wire_encode(&message, buf), 12 + WIRE_MAX_TEXT + 1);
}

/*
 * Private data
 */

#define PRIVATE_MAX 255

static const size_t paddings[] = {56, 148, 196, PRIVATE_MAX};

enum private_kind {
    HELLO,
    WELCOME,
    REFUSAL
};

static const enum private_kind kinds[] = {HELLO, WELCOME, REFUSAL};

/* Decodes from a buffer of exactly len bytes. */
static enum wire_result decode_private(enum private_kind kind, const uint8_t *data, size_t len,
                                       uint8_t *version)
{
    uint8_t *exact = malloc(len ? len : 1);
    struct wire_hello hello;
    struct wire_welcome welcome;
    struct wire_refusal refusal;
    enum wire_result result = WIRE_BROKEN;

    assert_non_null(exact);
    memcpy(exact, data, len);
    switch (kind) {
    case HELLO:
        result = wire_decode_hello(exact, len, &hello);
        *version = hello.version;
        break;
    case WELCOME:
        result = wire_decode_welcome(exact, len, &welcome);
        *version = welcome.version;
        break;
    case REFUSAL:
        result = wire_decode_refusal(exact, len, &refusal);
        *version = refusal.version;
        break;
    }
    free(exact);
    return result;
}

static void assert_private(enum private_kind kind, const uint8_t *data, size_t len,
                           enum wire_result result)
{
    uint8_t version;

    assert_int_equal(decode_private(kind, data, len, &version), result);
}

/* A valid one of its kind, in a buffer of zeros. */
static size_t encode_private(enum private_kind kind, uint8_t buf[PRIVATE_MAX + 1])
{
    struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_ROLE_POST};
    struct wire_welcome welcome = {.version = WIRE_VERSION};
    struct wire_refusal refusal = {.version = WIRE_VERSION, .status = 75, .text = "busy"};

    memset(buf, 0, PRIVATE_MAX + 1);
    memset(hello.token, 0xee, WIRE_TOKEN_BYTES);
    switch (kind) {
    case HELLO:
        return wire_encode_hello(&hello, buf);
    case WELCOME:
        return wire_encode_welcome(&welcome, buf);
    case REFUSAL:
        return wire_encode_refusal(&refusal, buf);
    }
    return 0;
}

static void private_data_fits_everywhere(void **state)
{
    (void)state;
    assert_true(WIRE_HELLO_BYTES <= 56);
    assert_true(WIRE_WELCOME_BYTES <= 196);
    assert_true(WIRE_REFUSAL_MAX_BYTES <= 148);
    assert_int_equal(WIRE_REFUSAL_MAX_BYTES, 10 + WIRE_REFUSAL_MAX_TEXT);
}

static void a_hello_makes_the_round_trip(void **state)
{
    static const uint8_t roles[] = {WIRE_ROLE_WRITE, WIRE_ROLE_POST, WIRE_ROLE_CHECK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        struct wire_hello hello = {.version = WIRE_VERSION, .role = roles[i]}, decoded;
        uint8_t buf[WIRE_HELLO_BYTES];

        if (roles[i] != WIRE_ROLE_CHECK)
            memcpy(hello.token, "0123456789abcdef", WIRE_TOKEN_BYTES);
        if (roles[i] == WIRE_ROLE_POST) {
            hello.probe_addr = UINT64_MAX - 1;
            hello.probe_rkey = UINT32_MAX - 1;
        }
        assert_int_equal(wire_encode_hello(&hello, buf), WIRE_HELLO_BYTES);
        assert_int_equal(wire_decode_hello(buf, sizeof(buf), &decoded), WIRE_OK);
        assert_int_equal(decoded.version, WIRE_VERSION);
        assert_int_equal(decoded.role, roles[i]);
        assert_int_equal(decoded.flags, 0);
        assert_memory_equal(decoded.token, hello.token, WIRE_TOKEN_BYTES);
        assert_true(decoded.probe_addr == hello.probe_addr);
        assert_int_equal(decoded.probe_rkey, hello.probe_rkey);
    }
}

static void a_welcome_makes_the_round_trip(void **state)
{
    struct wire_welcome welcome = {.version = WIRE_VERSION}, decoded;
    uint8_t buf[WIRE_WELCOME_BYTES];

    (void)state;
    for (uint32_t flags = 0; flags <= WIRE_WELCOME_SECRET; flags++) {
        welcome.flags = flags;
        memset(welcome.nonce, flags ? 0x3c : 0, WIRE_NONCE_BYTES);
        assert_int_equal(wire_encode_welcome(&welcome, buf), WIRE_WELCOME_BYTES);
        assert_int_equal(wire_decode_welcome(buf, sizeof(buf), &decoded), WIRE_OK);
        assert_int_equal(decoded.version, WIRE_VERSION);
        assert_int_equal(decoded.flags, flags);
        assert_memory_equal(decoded.nonce, welcome.nonce, WIRE_NONCE_BYTES);
    }
}

static void a_refusal_makes_the_round_trip(void **state)
{
    (void)state;
    for (size_t len = 0; len <= WIRE_REFUSAL_MAX_TEXT; len++) {
        struct wire_refusal refusal = {.version = WIRE_VERSION, .status = (uint8_t)(255 - len)};
        struct wire_refusal decoded;
        uint8_t buf[WIRE_REFUSAL_MAX_BYTES];

        memset(refusal.text, 'r', len);
        assert_int_equal(wire_encode_refusal(&refusal, buf), 10 + len);
        memset(&decoded, 0xa5, sizeof(decoded));
        assert_int_equal(wire_decode_refusal(buf, 10 + len, &decoded), WIRE_OK);
        assert_int_equal(decoded.version, WIRE_VERSION);
        assert_int_equal(decoded.status, refusal.status);
        assert_string_equal(decoded.text, refusal.text);
    }
}

static void bytes_of_private_data_are_as_specified(void **state)
{
    static const uint8_t hello[] = {'R', 'P', 'U', 'T', 1, 2, 0, 40, 0, 0, 0, 0, 0xee, 0xee};
    static const uint8_t welcome[WIRE_WELCOME_BYTES] = {'R', 'P', 'U', 'T', 1, 0, 0, 44};
    static const uint8_t refusal[] = {'R', 'P', 'U', 'T', 1, 0, 0, 14, 75, 4, 'b', 'u', 's', 'y'};
    uint8_t buf[PRIVATE_MAX + 1];

    (void)state;
    assert_int_equal(encode_private(HELLO, buf), WIRE_HELLO_BYTES);
    assert_memory_equal(buf, hello, sizeof(hello));
    assert_int_equal(encode_private(WELCOME, buf), sizeof(welcome));
    assert_memory_equal(buf, welcome, sizeof(welcome));
    assert_int_equal(encode_private(REFUSAL, buf), sizeof(refusal));
    assert_memory_equal(buf, refusal, sizeof(refusal));
}

static void padding_with_zeros_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t len = encode_private(kinds[i], buf);

        for (size_t padded = len; padded <= PRIVATE_MAX; padded++)
            assert_private(kinds[i], buf, padded, WIRE_OK);
    }
}

static void padding_with_anything_else_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (size_t j = 0; j < COUNT_OF(paddings); j++) {
            uint8_t buf[PRIVATE_MAX + 1];
            size_t len = encode_private(kinds[i], buf);

            for (size_t at = len; at < paddings[j]; at++) {
                buf[at] = 1;
                assert_private(kinds[i], buf, paddings[j], WIRE_BROKEN);
                buf[at] = 0;
            }
        }
    }
}

static void no_private_data_is_foreign(void **state)
{
    struct wire_hello hello;
    struct wire_welcome welcome;
    struct wire_refusal refusal;

    (void)state;
    assert_int_equal(wire_decode_hello(NULL, 0, &hello), WIRE_FOREIGN);
    assert_int_equal(wire_decode_welcome(NULL, 0, &welcome), WIRE_FOREIGN);
    assert_int_equal(wire_decode_refusal(NULL, 0, &refusal), WIRE_FOREIGN);
}

static void private_data_without_our_magic_is_foreign(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const uint8_t zeros[PRIVATE_MAX + 1] = {0};

        for (size_t len = 0; len <= PRIVATE_MAX; len++)
            assert_private(kinds[i], zeros, len, WIRE_FOREIGN);
        for (size_t at = 0; at < 4; at++) {
            uint8_t buf[PRIVATE_MAX + 1];
            size_t len = encode_private(kinds[i], buf);

            buf[at] ^= 0x20;
            assert_private(kinds[i], buf, len, WIRE_FOREIGN);
        }
    }
}

static void another_version_is_recognised_whatever_follows(void **state)
{
    static const uint8_t versions[] = {0, 2, 17, 255};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (size_t j = 0; j < COUNT_OF(versions); j++) {
            uint8_t buf[PRIVATE_MAX + 1], version;

            encode_private(kinds[i], buf);
            memset(buf + 5, 0xff, sizeof(buf) - 5);
            buf[4] = versions[j];
            for (size_t len = 5; len <= PRIVATE_MAX; len++) {
                assert_int_equal(decode_private(kinds[i], buf, len, &version), WIRE_OTHER_VERSION);
                assert_int_equal(version, versions[j]);
            }
        }
    }
}

static void truncated_private_data_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t full = encode_private(kinds[i], buf);

        for (size_t len = 0; len < full; len++) {
            encode_private(kinds[i], buf);
            assert_private(kinds[i], buf, len, len < 4 ? WIRE_FOREIGN : WIRE_BROKEN);
            put(buf + 6, 2, len);
            assert_private(kinds[i], buf, len, len < 4 ? WIRE_FOREIGN : WIRE_BROKEN);
        }
    }
}

static void only_its_own_length_is_accepted(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t full = encode_private(kinds[i], buf);

        for (unsigned len = 0; len < 4 * PRIVATE_MAX; len++) {
            put(buf + 6, 2, len);
            assert_private(kinds[i], buf, PRIVATE_MAX, len == full ? WIRE_OK : WIRE_BROKEN);
        }
    }
}

static void roles_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        for (unsigned role = 0; role <= UINT8_MAX; role++) {
            uint8_t buf[PRIVATE_MAX + 1];
            size_t len = encode_private(kinds[i], buf);
            bool client = role == WIRE_ROLE_WRITE || role == WIRE_ROLE_POST ||
                          role == WIRE_ROLE_CHECK;

            buf[5] = (uint8_t)role;
            if (kinds[i] == HELLO)
                memset(buf + 12, 0, WIRE_TOKEN_BYTES);
            assert_private(kinds[i], buf, len,
                           client == (kinds[i] == HELLO) && role <= WIRE_ROLE_CHECK ? WIRE_OK
                                                                                    : WIRE_BROKEN);
        }
    }
}

static void a_welcome_knows_one_flag_and_has_a_nonce_only_with_it(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 32; bit++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t len = encode_private(WELCOME, buf);

        put(buf + 8, 4, UINT32_C(1) << bit);
        assert_private(WELCOME, buf, len, bit == 0 ? WIRE_OK : WIRE_BROKEN);
    }
    for (size_t at = 12; at < WIRE_WELCOME_BYTES; at++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t len = encode_private(WELCOME, buf);

        buf[at] = 1;
        assert_private(WELCOME, buf, len, WIRE_BROKEN);
        put(buf + 8, 4, WIRE_WELCOME_SECRET);
        assert_private(WELCOME, buf, len, WIRE_OK);
    }
}

static void each_role_has_flags_of_its_own(void **state)
{
    static const struct {
        uint8_t role;
        uint32_t known[4]; /* besides 0 */
    } roles[] = {{WIRE_ROLE_WRITE,
                  {WIRE_HELLO_MANY, WIRE_HELLO_SECRET, WIRE_HELLO_MANY | WIRE_HELLO_SECRET}},
                 {WIRE_ROLE_POST, {0}},
                 {WIRE_ROLE_CHECK, {WIRE_HELLO_SECRET, WIRE_HELLO_KNOCK}}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        for (unsigned n = 0; n < 8 + 32; n++) {
            uint32_t flags = n < 8 ? n : UINT32_C(1) << (n - 8);
            struct wire_hello hello = {
                .version = WIRE_VERSION, .role = roles[i].role, .flags = flags}, decoded;
            uint8_t buf[WIRE_HELLO_BYTES];
            bool known = flags == 0;

            for (size_t at = 0; at < COUNT_OF(roles[i].known); at++)
                known |= flags == roles[i].known[at];

            wire_encode_hello(&hello, buf);
            assert_int_equal(wire_decode_hello(buf, sizeof(buf), &decoded),
                             known ? WIRE_OK : WIRE_BROKEN);
            if (known)
                assert_int_equal(decoded.flags, hello.flags);
        }
    }
}


static void a_check_has_no_token(void **state)
{
    static const uint8_t roles[] = {WIRE_ROLE_WRITE, WIRE_ROLE_POST, WIRE_ROLE_CHECK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        for (size_t at = 0; at < WIRE_TOKEN_BYTES; at++) {
            uint8_t buf[PRIVATE_MAX + 1];
            size_t len = encode_private(HELLO, buf);

            buf[5] = roles[i];
            memset(buf + 12, 0, WIRE_TOKEN_BYTES);
            assert_private(HELLO, buf, len, WIRE_OK);
            buf[12 + at] = 1;
            assert_private(HELLO, buf, len, roles[i] == WIRE_ROLE_CHECK ? WIRE_BROKEN : WIRE_OK);
        }
    }
}

static void only_a_post_has_a_probe(void **state)
{
    static const uint8_t roles[] = {WIRE_ROLE_WRITE, WIRE_ROLE_POST, WIRE_ROLE_CHECK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        for (size_t at = 28; at < WIRE_HELLO_BYTES; at++) {
            uint8_t buf[PRIVATE_MAX + 1];
            size_t len = encode_private(HELLO, buf);

            buf[5] = roles[i];
            memset(buf + 12, 0, WIRE_HELLO_BYTES - 12);
            buf[at] = 1;
            assert_private(HELLO, buf, len, roles[i] == WIRE_ROLE_POST ? WIRE_OK : WIRE_BROKEN);
        }
    }
}

static void a_header_says_how_long_private_data_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t len = encode_private(kinds[i], buf);

        assert_int_equal(wire_private_length(buf), len);
    }
}

static void a_refusal_has_a_status(void **state)
{
    uint8_t buf[PRIVATE_MAX + 1];
    size_t len = encode_private(REFUSAL, buf);

    (void)state;
    for (unsigned status = 0; status <= UINT8_MAX; status++) {
        buf[8] = (uint8_t)status;
        assert_private(REFUSAL, buf, len, status ? WIRE_OK : WIRE_BROKEN);
    }
}

static void a_refusals_text_fits(void **state)
{
    uint8_t buf[PRIVATE_MAX + 1];
    size_t len = encode_private(REFUSAL, buf);

    (void)state;
    for (unsigned text = 0; text <= UINT8_MAX; text++) {
        buf[9] = (uint8_t)text;
        assert_private(REFUSAL, buf, len, text == 4 ? WIRE_OK : WIRE_BROKEN);
        assert_private(REFUSAL, buf, 148, text == 4 ? WIRE_OK : WIRE_BROKEN);
    }
    memset(buf + 10, 't', PRIVATE_MAX - 10);
    for (unsigned text = WIRE_REFUSAL_MAX_TEXT; text < PRIVATE_MAX - 10; text++) {
        buf[9] = (uint8_t)text;
        put(buf + 6, 2, 10 + text);
        assert_private(REFUSAL, buf, 10 + text,
                       text == WIRE_REFUSAL_MAX_TEXT ? WIRE_OK : WIRE_BROKEN);
    }
}

static void a_refusals_text_contains_no_nul(void **state)
{
    (void)state;
    for (size_t at = 10; at < 14; at++) {
        uint8_t buf[PRIVATE_MAX + 1];
        size_t len = encode_private(REFUSAL, buf);

        buf[at] = '\0';
        assert_private(REFUSAL, buf, len, WIRE_BROKEN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_makes_the_round_trip),
        cmocka_unit_test(bytes_are_as_specified),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_extension_is_refused),
        cmocka_unit_test(a_length_field_other_than_what_arrived_is_refused),
        cmocka_unit_test(nothing_is_no_message),
        cmocka_unit_test(unknown_types_are_refused),
        cmocka_unit_test(a_message_larger_than_a_receive_buffer_is_refused),
        cmocka_unit_test(every_field_keeps_its_limits),
        cmocka_unit_test(fields_of_16_bits_keep_their_limits),
        cmocka_unit_test(flags_of_an_open_go_together),
        cmocka_unit_test(only_what_is_preserved_is_sent),
        cmocka_unit_test(every_byte_of_an_identity_needs_resuming),
        cmocka_unit_test(only_what_is_committed_has_a_digest),
        cmocka_unit_test(a_wrong_byte_is_not_what_it_should_be),
        cmocka_unit_test(texts_over_the_limit_are_refused),
        cmocka_unit_test(texts_may_not_contain_nul),
        cmocka_unit_test(the_addresses_of_a_meeting_are_lines),
        cmocka_unit_test(a_meeting_has_a_token),
        cmocka_unit_test(a_header_says_how_long_a_message_is),
        cmocka_unit_test(extents_never_go_back),
        cmocka_unit_test(a_chunk_without_extents_is_refused),
        cmocka_unit_test(a_recall_without_extents_is_refused),
        cmocka_unit_test(a_recall_with_an_extent_too_many_is_refused),
        cmocka_unit_test(empty_extents_are_refused_wherever_they_are),
        cmocka_unit_test(extents_of_a_chunk_are_no_larger_than_a_slot),
        cmocka_unit_test(extents_of_a_recall_may_be_larger_than_a_slot),
        cmocka_unit_test(extents_end_within_the_largest_object),
        cmocka_unit_test(slots_end_within_memory),
        cmocka_unit_test(a_placed_slot_ends_within_memory_and_the_largest_object),
        cmocka_unit_test(the_bytes_of_a_chunk_are_summed),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(messages_under_way_are_counted),
        cmocka_unit_test(mangled_messages_are_refused_or_kept_whole),
        cmocka_unit_test(texts_are_cut_at_a_character),
        cmocka_unit_test(half_a_character_is_cut_off_any_text),
        cmocka_unit_test(a_text_without_an_end_is_cut),
        cmocka_unit_test(a_text_of_other_encodings_is_kept),
        cmocka_unit_test(private_data_fits_everywhere),
        cmocka_unit_test(a_hello_makes_the_round_trip),
        cmocka_unit_test(a_welcome_makes_the_round_trip),
        cmocka_unit_test(a_refusal_makes_the_round_trip),
        cmocka_unit_test(bytes_of_private_data_are_as_specified),
        cmocka_unit_test(padding_with_zeros_is_accepted),
        cmocka_unit_test(padding_with_anything_else_is_refused),
        cmocka_unit_test(no_private_data_is_foreign),
        cmocka_unit_test(private_data_without_our_magic_is_foreign),
        cmocka_unit_test(another_version_is_recognised_whatever_follows),
        cmocka_unit_test(truncated_private_data_is_refused),
        cmocka_unit_test(only_its_own_length_is_accepted),
        cmocka_unit_test(roles_are_checked),
        cmocka_unit_test(a_check_has_no_token),
        cmocka_unit_test(only_a_post_has_a_probe),
        cmocka_unit_test(a_header_says_how_long_private_data_is),
        cmocka_unit_test(a_welcome_knows_one_flag_and_has_a_nonce_only_with_it),
        cmocka_unit_test(each_role_has_flags_of_its_own),
        cmocka_unit_test(a_refusal_has_a_status),
        cmocka_unit_test(a_refusals_text_fits),
        cmocka_unit_test(a_refusals_text_contains_no_nul),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}

/*
 * test-receiver-session.c - what the thread of a session makes of messages, in and out of order, and
 * of what the worker has done.
 */
#include "config.h"

#include "digest.h"

static bool watched_digest_add(struct digest *digest, uint64_t offset, const void *data, size_t len);

/* The functions under test are the files' own. */
#define digest_add watched_digest_add
#include "storing.c"
#undef digest_add
#include "receiver.c"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-provider.h"
#include "fake-sink.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define PATIENCE_MS 10000
#define MESSAGES 64
/* Of a placed object: more than there are slots, and a part of one. */
#define PLACED_BYTES (5 * SLOT_SIZE + 100)
/* Registrations besides those of placed slots: messages, and ordinary slots. */
#define OWN_REGISTRATIONS 2

static const struct fake_provider *watched;
static unsigned registered_when_hashed;

static bool watched_digest_add(struct digest *digest, uint64_t offset, const void *data, size_t len)
{
    registered_when_hashed = watched->memory.count;
    return digest_add(digest, offset, data, len);
}

struct bench {
    struct fake_provider fake;
    struct fake_sink sink;
    struct endpoint endpoint;
    struct receiver receiver;
    struct receiver_result result;
    struct error err;
    uint8_t *object; /* PLACED_BYTES, what a placed object is to be */
};

static void ignore_settled(void *context, const char *peer, const struct receiver_object *object,
                           const struct error *cause)
{
    (void)context, (void)peer, (void)object, (void)cause;
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct session *session;

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    *state = bench;
    fake_open(&bench->fake);
    watched = &bench->fake;
    fake_sink_open(&bench->sink);
    bench->endpoint.id = &bench->fake.id;
    bench->receiver = (struct receiver){.sink = &bench->sink.sink,
                                        .many = true,
                                        .ready_fd = -1,
                                        .may_map = true,
                                        .settled = ignore_settled,
                                        .result = &bench->result,
                                        .endpoint = &bench->endpoint,
                                        .slot_count = SLOT_COUNT,
                                        .slot_size = SLOT_SIZE};
    session = &bench->receiver.session;
    session->endpoint = &bench->endpoint;
    session->objects = WIRE_MAX_OBJECTS;
    if (writer_init(&session->writer, &bench->fake.id, "peer", MESSAGES, 1, &bench->err) < 0)
        return -1;
    return messages_open(&session->messages, &bench->fake.id, MESSAGES, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    struct receiver *receiver = &bench->receiver;

    worker_stop(receiver->worker);
    storing_close(&receiver->storing, false);
    memory_free(&receiver->memory);
    messages_close(&receiver->session.messages);
    writer_close(&receiver->session.writer);
    assert_int_equal(bench->fake.memory.count, 0);
    fake_close(&bench->fake);
    if (bench->sink.map_fd >= 0)
        close(bench->sink.map_fd);
    free(bench->object);
    free(bench);
    return 0;
}

/* The client says this. */
static int say(struct bench *bench, struct wire_message message)
{
    return take_message(&bench->receiver, &message, &bench->err);
}

static void assert_broken(struct bench *bench, struct wire_message message)
{
    assert_int_equal(say(bench, message), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
    error_clear(&bench->err);
}

/* Answers jobs when they are done. */
static int settle(struct bench *bench, unsigned jobs)
{
    struct pollfd done = {.fd = worker_fd(bench->receiver.worker), .events = POLLIN};
    int rc = 0;

    while (jobs > 0) {
        struct storing_job *job = worker_take(bench->receiver.worker);

        if (!job) {
            assert_int_equal(poll(&done, 1, PATIENCE_MS), 1);
            continue;
        }
        if (answer_job(&bench->receiver, job, &bench->err) < 0)
            rc = -1;
        jobs--;
    }
    return rc;
}

/* What the nth message said was. */
static struct wire_message said(const struct bench *bench, unsigned n)
{
    struct wire_message message;
    const struct ibv_sge *entry = bench->fake.requests[n].entries;
    const char *problem;

    assert_true(n < bench->fake.request_count);
    assert_int_equal(
        wire_decode((void *)(uintptr_t)entry->addr, entry->length, &message, &problem), WIRE_OK);
    return message;
}

#define ASSERT_SAID(bench, ...)                                 \
    assert_said(bench, (const enum wire_type[]){__VA_ARGS__},   \
                sizeof((const enum wire_type[]){__VA_ARGS__}) / sizeof(enum wire_type))

/* All that was said so far. */
static void assert_said(const struct bench *bench, const enum wire_type *types, unsigned count)
{
    assert_int_equal(bench->fake.request_count, count);
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(wire_type_name(said(bench, i).type), wire_type_name(types[i]));
}

static struct wire_message open_message(uint32_t flags)
{
    struct wire_message message = {.type = WIRE_OPEN};

    message.open.flags = flags;
    message.open.size = message.open.bytes = 8;
    message.open.slot_limit = 8;
    message.open.object_limit = 3;
    message.open.chunk_limit = SLOT_SIZE;
    return message;
}

static struct wire_message chunk_message(unsigned slot, uint64_t offset, uint64_t length)
{
    struct wire_message message = {.type = WIRE_CHUNK};

    message.chunk.slot = (uint16_t)slot;
    message.chunk.extent_count = 1;
    message.chunk.extents[0] = (struct wire_extent){offset, length};
    return message;
}

static struct wire_message recall_message(uint64_t offset, uint64_t length)
{
    struct wire_message message = {.type = WIRE_RECALL};

    message.recall.extent_count = 1;
    message.recall.extents[0] = (struct wire_extent){offset, length};
    return message;
}

/* Of an object of 8 zeros, which is what the slots hold. */
static struct wire_message end_message(void)
{
    struct wire_message message = {.type = WIRE_END};
    struct digest *digest = digest_new();

    digest_add(digest, 0, "\0\0\0\0\0\0\0\0", 8);
    digest_value(digest, &message.end.digest);
    digest_free(digest);
    return message;
}

static struct wire_message plain(enum wire_type type)
{
    return (struct wire_message){.type = type};
}

static const uint32_t resuming = WIRE_OPEN_RESUME | WIRE_OPEN_CONFIRM;

static void begin(struct bench *bench, uint32_t flags)
{
    assert_int_equal(say(bench, open_message(flags)), 0);
    assert_int_equal(settle(bench, 1), 0);
}

static void an_object_goes_through(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 2), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_GRANT, WIRE_DONE);
    assert_int_equal(said(bench, 2).done.status, 0);
    assert_int_equal(said(bench, 0).ready.object_limit, 3);
    assert_int_equal(bench->sink.committed, 1);
    assert_int_equal(say(bench, plain(WIRE_CLOSE)), 0);
    assert_true(is_finished(&bench->receiver));
}

static void nothing_but_open_and_close_comes_first(void **state)
{
    struct bench *bench = *state;

    assert_broken(bench, chunk_message(0, 0, 1));
    assert_broken(bench, recall_message(0, 1));
    assert_broken(bench, end_message());
    assert_int_equal(say(bench, plain(WIRE_CLOSE)), 0);
}

static void what_a_server_says_is_refused(void **state)
{
    static const enum wire_type types[] = {WIRE_READY,  WIRE_GRANT,    WIRE_DONE,
                                           WIRE_OPENED, WIRE_RECALLED, WIRE_FAILED};
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_broken(bench, plain(types[i]));
    begin(bench, 0);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_broken(bench, plain(types[i]));
}

static void nothing_comes_before_the_answer_that_is_awaited(void **state)
{
    struct bench *bench = *state;

    bench->sink.kept = 4;
    assert_int_equal(say(bench, open_message(resuming)), 0);
    assert_broken(bench, chunk_message(0, 0, 8));
    assert_broken(bench, recall_message(0, 4));
    assert_broken(bench, end_message());
    assert_broken(bench, open_message(0));
    assert_broken(bench, plain(WIRE_CLOSE));
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(say(bench, recall_message(0, 4)), 0);
    assert_broken(bench, recall_message(0, 4));
    assert_broken(bench, chunk_message(0, 4, 4));
    assert_broken(bench, end_message());
    assert_int_equal(settle(bench, 1), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_RECALLED);
}

static void only_what_was_kept_is_recalled_and_only_before_chunks(void **state)
{
    struct bench *bench = *state;

    bench->sink.kept = 4;
    begin(bench, resuming);
    assert_broken(bench, recall_message(0, 5));
    assert_broken(bench, recall_message(UINT64_C(1) << 62, 1));
    bench->receiver.expected = 0;
    assert_int_equal(say(bench, chunk_message(0, 0, 2)), 0);
    assert_broken(bench, recall_message(2, 1));
    assert_int_equal(settle(bench, 1), 0);
}

/* Its digest is none of what is there. */
static void what_differed_is_not_recalled_again(void **state)
{
    struct bench *bench = *state;

    bench->sink.kept = 4;
    begin(bench, resuming);
    assert_int_equal(say(bench, recall_message(0, 4)), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_broken(bench, recall_message(0, 4));
    bench->receiver.expected = 0;
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 2), 0);
    assert_int_equal(bench->sink.committed, 1);
}

static void a_slot_that_is_not_granted_or_too_small_is_refused(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    assert_broken(bench, chunk_message(SLOT_COUNT, 0, 1));
    bench->receiver.expected = 0;
    assert_broken(bench, chunk_message(0, 0, SLOT_SIZE + 1));
    assert_broken(bench, chunk_message(0, 1, 8));
    bench->receiver.expected = 0;
    /* No slot is taken for what the worker never got: the end of the session waits for those. */
    assert_int_equal(window_in_state(&bench->receiver.window, WINDOW_SENT), 0);
    assert_int_equal(say(bench, chunk_message(0, 0, 1)), 0);
    assert_broken(bench, chunk_message(0, 1, 1));
    assert_int_equal(settle(bench, 1), 0);
}

static void no_more_objects_at_a_time_than_allowed(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    for (unsigned i = 0; i < 3; i++) {
        if (i > 0)
            assert_int_equal(say(bench, open_message(0)), 0);
        assert_broken(bench, open_message(0));
        assert_int_equal(say(bench, chunk_message(i, 0, 8)), 0);
        assert_int_equal(say(bench, end_message()), 0);
        assert_broken(bench, end_message());
        assert_broken(bench, chunk_message(3, 0, 8));
    }
    assert_broken(bench, open_message(0));
    assert_broken(bench, plain(WIRE_CLOSE));
    assert_int_equal(settle(bench, 3 + 3 + 2), 0);
    assert_int_equal(bench->sink.committed, 3);
    assert_int_equal(say(bench, open_message(0)), 0);
    assert_int_equal(settle(bench, 1), 0);
}

static void one_object_that_fails_is_told_once(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    bench->sink.fail_store = bench->sink.stores + 1;
    assert_int_equal(say(bench, chunk_message(0, 0, 4)), 0);
    assert_int_equal(say(bench, chunk_message(1, 4, 4)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 3), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_FAILED, WIRE_GRANT, WIRE_GRANT, WIRE_DONE);
    assert_int_equal(said(bench, 1).error.status, 74);
    assert_int_equal(said(bench, 4).done.status, 74);
    assert_int_equal(said(bench, 3).grant.acknowledged, 0);
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(bench->sink.committed, 0);
}

static void an_object_that_cannot_begin_is_told_and_ended(void **state)
{
    struct bench *bench = *state;

    bench->sink.fail_begin = true;
    begin(bench, resuming);
    ASSERT_SAID(bench, WIRE_FAILED, WIRE_READY);
    assert_broken(bench, recall_message(0, 1));
    bench->receiver.expected = 0;
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 1), 0);
    ASSERT_SAID(bench, WIRE_FAILED, WIRE_READY, WIRE_DONE);
    assert_false(bench->result.admitted);
}

static void an_object_that_is_abandoned_counts_as_failed(void **state)
{
    struct bench *bench = *state;
    struct wire_message end = end_message();

    begin(bench, 0);
    end.end.flags = WIRE_END_ABANDONED;
    assert_int_equal(say(bench, end), 0);
    assert_int_equal(settle(bench, 1), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_DONE);
    assert_int_equal(said(bench, 1).done.status, 75);
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(bench->sink.committed, 0);
    assert_int_equal(count_failures(&bench->receiver, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
}

static void a_recall_that_fails_is_answered_by_failed_alone(void **state)
{
    struct bench *bench = *state;
    struct storing_job job = {.kind = STORING_RECALL};

    bench->sink.kept = 4;
    begin(bench, resuming);
    error_set(&job.error, ERROR_RESOURCE, STAGE_TRANSFER, NULL, "out of memory");
    bench->receiver.recalling = true;
    assert_int_equal(answer_job(&bench->receiver, &job, &bench->err), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_FAILED);
    assert_false(bench->receiver.recalling);
}

/* Also where the session ends with it. */
static void a_store_that_failed_leaves_no_slot_at_the_worker(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    bench->sink.fail_store = bench->sink.stores + 1;
    bench->receiver.many = false;
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(settle(bench, 1), -1);
    assert_int_equal(bench->err.class, ERROR_STORAGE);
    assert_int_equal(window_in_state(&bench->receiver.window, WINDOW_SENT), 0);
}

static void a_session_of_one_has_one_and_no_close(void **state)
{
    struct bench *bench = *state;
    struct wire_message end = end_message();

    bench->receiver.many = false;
    assert_broken(bench, plain(WIRE_CLOSE));
    begin(bench, 0);
    end.end.flags = WIRE_END_ABANDONED;
    assert_broken(bench, end);
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_broken(bench, open_message(0));
    assert_broken(bench, plain(WIRE_CLOSE));
    assert_int_equal(settle(bench, 2), 0);
    assert_true(is_finished(&bench->receiver));
}

static void of_several_objects_two_may_be_open(void **state)
{
    struct bench *bench = *state;
    struct wire_message open = open_message(0);

    open.open.object_limit = 1;
    assert_broken(bench, open);
    assert_null(bench->receiver.worker);
    open.open.object_limit = 2;
    assert_int_equal(say(bench, open), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(said(bench, 0).ready.object_limit, 2);
}

static void of_one_object_any_limit_will_do(void **state)
{
    struct bench *bench = *state;
    struct wire_message open = open_message(0);

    bench->receiver.many = false;
    open.open.object_limit = 1;
    assert_int_equal(say(bench, open), 0);
    assert_int_equal(settle(bench, 1), 0);
    ASSERT_SAID(bench, WIRE_READY);
}

static void the_limits_of_a_session_stay_the_same(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 2), 0);
    for (int change = -1; change <= 1; change += 2) {
        struct wire_message slots = open_message(0), objects = slots, chunk = slots;

        slots.open.slot_limit = (uint16_t)(slots.open.slot_limit + change);
        assert_broken(bench, slots);
        objects.open.object_limit = (uint16_t)(objects.open.object_limit + change);
        assert_broken(bench, objects);
        chunk.open.chunk_limit = chunk.open.chunk_limit + (uint32_t)change;
        assert_broken(bench, chunk);
    }
    assert_int_equal(say(bench, open_message(0)), 0);
    assert_int_equal(settle(bench, 1), 0);
}

static void a_slot_is_no_larger_than_the_clients_chunks(void **state)
{
    struct bench *bench = *state;
    struct wire_message open = open_message(0);

    open.open.size = open.open.bytes = SLOT_SIZE;
    open.open.chunk_limit = 3 * WIRE_MIN_SLOT_SIZE + 5;
    assert_int_equal(say(bench, open), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(said(bench, 0).ready.slot_size, 3 * WIRE_MIN_SLOT_SIZE);
    assert_broken(bench, chunk_message(0, 0, 3 * WIRE_MIN_SLOT_SIZE + 1));
    assert_int_equal(say(bench, chunk_message(0, 0, 3 * WIRE_MIN_SLOT_SIZE)), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(bench->receiver.memory.bytes, SLOT_COUNT * 3 * WIRE_MIN_SLOT_SIZE);
}

/* ---- placed slots -------------------------------------------------------------------------- */

static int make_file(uint64_t size)
{
    int fd = memfd_create("placed", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static struct wire_message placed_open_message(void)
{
    struct wire_message message = open_message(WIRE_OPEN_MAP | WIRE_OPEN_CONFIRM);

    message.open.size = message.open.bytes = PLACED_BYTES;
    return message;
}

/* Opens an object that may be placed, into a file that lets it. */
static void begin_placed(struct bench *bench)
{
    bench->object = malloc(PLACED_BYTES);
    assert_non_null(bench->object);
    for (size_t i = 0; i < PLACED_BYTES; i++)
        bench->object[i] = (uint8_t)(1 + i / 4096);
    bench->sink.map_fd = make_file(PLACED_BYTES);
    assert_int_equal(say(bench, placed_open_message()), 0);
    assert_int_equal(settle(bench, 1), 0);
}

static struct wire_message placed_end_message(const struct bench *bench)
{
    struct wire_message message = {.type = WIRE_END};
    struct digest *digest = digest_new();

    digest_add(digest, 0, bench->object, PLACED_BYTES);
    digest_value(digest, &message.end.digest);
    digest_free(digest);
    return message;
}

/* Fills the range that the nth message placed, as the client's device would; its chunk. */
static struct wire_message fill_placed(struct bench *bench, unsigned n)
{
    struct wire_message place = said(bench, n);

    assert_int_equal(place.type, WIRE_PLACE);
    memcpy((void *)(uintptr_t)place.place.remote_addr, bench->object + place.place.offset,
           place.place.length);
    return chunk_message(place.place.slot, place.place.offset, place.place.length);
}

static void send_placed(struct bench *bench, unsigned n)
{
    assert_int_equal(say(bench, fill_placed(bench, n)), 0);
    assert_int_equal(settle(bench, 1), 0);
}

/* Fills and announces an ordinary slot. */
static void send_ordinary(struct bench *bench, unsigned slot, uint64_t offset, size_t len)
{
    memcpy(bench->receiver.memory.addr + slot * SLOT_SIZE, bench->object + offset, len);
    assert_int_equal(say(bench, chunk_message(slot, offset, len)), 0);
    assert_int_equal(settle(bench, 1), 0);
}

static void assert_places(const struct bench *bench, unsigned n, unsigned slot, uint64_t offset,
                          uint64_t length)
{
    struct wire_message place = said(bench, n);

    assert_int_equal(place.type, WIRE_PLACE);
    assert_int_equal(place.place.slot, slot);
    assert_int_equal(place.place.offset, offset);
    assert_int_equal(place.place.length, length);
}

static void assert_stored(const struct bench *bench)
{
    uint8_t *there = malloc(PLACED_BYTES);

    assert_non_null(there);
    assert_int_equal(pread(bench->sink.map_fd, there, PLACED_BYTES, 0), PLACED_BYTES);
    assert_memory_equal(there, bench->object, PLACED_BYTES);
    free(there);
}

static void assert_nothing_placed(const struct bench *bench)
{
    assert_int_equal(bench->fake.memory.count, OWN_REGISTRATIONS);
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        assert_null(bench->receiver.storing.placements[i].memory.addr);
        assert_int_equal(bench->receiver.storing.placements[i].place.length, 0);
        assert_int_equal(bench->receiver.window.places[i].length, 0);
    }
}

static void placed_slots_cover_the_object_in_order(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE);
    assert_int_equal(said(bench, 1).opened.flags, WIRE_OPENED_PLACED);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        assert_places(bench, 2 + i, i, i * SLOT_SIZE, SLOT_SIZE);
    for (unsigned i = 0; i < 6; i++)
        send_placed(bench, 2 + i);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE,
                WIRE_PLACE, WIRE_PLACE, WIRE_GRANT, WIRE_GRANT, WIRE_GRANT, WIRE_GRANT);
    assert_places(bench, 6, 0, 4 * SLOT_SIZE, SLOT_SIZE);
    assert_places(bench, 7, 1, 5 * SLOT_SIZE, 100);
    assert_int_equal(said(bench, 6).place.acknowledged, SLOT_SIZE);
    assert_int_equal(said(bench, 11).grant.acknowledged, PLACED_BYTES);
    assert_int_equal(say(bench, placed_end_message(bench)), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(said(bench, 12).type, WIRE_DONE);
    assert_int_equal(said(bench, 12).done.status, 0);
    assert_int_equal(bench->sink.stores, 0);
    assert_stored(bench);
}

static void a_chunk_in_a_placed_slot_is_its_range(void **state)
{
    struct bench *bench = *state;
    struct wire_message parts;

    begin_placed(bench);
    assert_broken(bench, chunk_message(0, 0, SLOT_SIZE - 1));
    assert_broken(bench, chunk_message(0, 0, SLOT_SIZE + 1));
    assert_broken(bench, chunk_message(0, 1, SLOT_SIZE));
    assert_broken(bench, chunk_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_broken(bench, chunk_message(1, 0, SLOT_SIZE));
    parts = chunk_message(0, 0, SLOT_SIZE);
    parts.chunk.extent_count = 2;
    parts.chunk.extents[1] = (struct wire_extent){SLOT_SIZE, 1};
    assert_broken(bench, parts);
    parts.chunk.extents[0].length = 1;
    parts.chunk.extents[1] = (struct wire_extent){1, SLOT_SIZE - 1};
    assert_broken(bench, parts);
    assert_int_equal(window_in_state(&bench->receiver.window, WINDOW_SENT), 0);
    assert_int_equal(say(bench, fill_placed(bench, 2)), 0);
    assert_broken(bench, chunk_message(0, 4 * SLOT_SIZE, SLOT_SIZE));
    assert_int_equal(settle(bench, 1), 0);
}

static void a_placed_range_is_not_skipped_and_gone_back_to(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_int_equal(say(bench, fill_placed(bench, 3)), 0);
    assert_broken(bench, fill_placed(bench, 2));
    assert_int_equal(settle(bench, 1), 0);
}

static void a_range_is_out_of_reach_before_it_is_hashed(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_int_equal(bench->fake.memory.count, OWN_REGISTRATIONS + SLOT_COUNT);
    for (unsigned i = 0; i < 6; i++) {
        unsigned before = bench->fake.memory.count;

        registered_when_hashed = UINT32_MAX;
        send_placed(bench, 2 + i);
        assert_int_equal(registered_when_hashed, before - 1);
    }
    assert_nothing_placed(bench);
}

static void after_a_registration_that_fails_slots_are_ordinary(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    send_placed(bench, 2);
    bench->fake.fail_registration = ENOMEM;
    send_placed(bench, 3);
    bench->fake.fail_registration = 0;
    send_placed(bench, 4);
    send_placed(bench, 5);
    send_placed(bench, 6);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE,
                WIRE_PLACE, WIRE_GRANT, WIRE_GRANT, WIRE_GRANT, WIRE_GRANT);
    assert_nothing_placed(bench);
    send_ordinary(bench, 2, 5 * SLOT_SIZE, 60);
    send_ordinary(bench, 0, 5 * SLOT_SIZE + 60, 40);
    assert_int_equal(bench->sink.stores, 2);
    assert_int_equal(say(bench, placed_end_message(bench)), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(said(bench, 13).type, WIRE_DONE);
    assert_int_equal(said(bench, 13).done.status, 0);
    assert_stored(bench);
}

static void what_cannot_be_placed_at_all_is_not(void **state)
{
    struct bench *bench = *state;

    begin(bench, 0);
    assert_int_equal(say(bench, chunk_message(0, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 2), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct wire_message end = {.type = WIRE_END, .end = {.flags = WIRE_END_ABANDONED}};

        bench->sink.sink.never_map = i == 0;
        bench->fake.fail_registration = i == 1 ? ENOMEM : 0;
        bench->sink.map_fd = i == 2 ? -1 : make_file(PLACED_BYTES);
        assert_int_equal(say(bench, placed_open_message()), 0);
        assert_int_equal(settle(bench, 1), 0);
        assert_int_equal(bench->fake.request_count, 3 + 2 * i + 1);
        assert_int_equal(said(bench, 3 + 2 * i).type, WIRE_OPENED);
        assert_int_equal(said(bench, 3 + 2 * i).opened.flags, 0);
        assert_nothing_placed(bench);
        assert_int_equal(say(bench, end), 0);
        assert_int_equal(settle(bench, 1), 0);
        if (bench->sink.map_fd >= 0)
            close(bench->sink.map_fd);
    }
}

/* Whether it comes to its end or not. */
static void an_object_leaves_no_slot_placed(void **state)
{
    struct bench *bench = *state;
    struct wire_message end = {.type = WIRE_END, .end = {.flags = WIRE_END_ABANDONED}};

    begin_placed(bench);
    send_placed(bench, 2);
    assert_int_equal(say(bench, fill_placed(bench, 3)), 0);
    assert_int_equal(say(bench, end), 0);
    assert_int_equal(say(bench, open_message(0)), 0);
    assert_int_equal(settle(bench, 3), 0);
    assert_nothing_placed(bench);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE,
                WIRE_PLACE, WIRE_GRANT, WIRE_DONE);
    /* What was placed for the one before is an ordinary slot for this one. */
    assert_int_equal(say(bench, chunk_message(2, 0, 8)), 0);
    assert_int_equal(say(bench, end_message()), 0);
    assert_int_equal(settle(bench, 2), 0);
    assert_int_equal(said(bench, 10).type, WIRE_DONE);
    assert_int_equal(said(bench, 10).done.status, 0);
    assert_int_equal(bench->sink.stores, 1);
}

static void no_slot_is_placed_behind_the_end_and_the_next_object_begins_anew(void **state)
{
    struct bench *bench = *state;
    struct wire_message end = {.type = WIRE_END, .end = {.flags = WIRE_END_ABANDONED}};

    begin_placed(bench);
    assert_int_equal(say(bench, fill_placed(bench, 2)), 0);
    assert_int_equal(say(bench, end), 0);
    assert_int_equal(settle(bench, 2), 0);
    assert_int_equal(say(bench, placed_open_message()), 0);
    assert_int_equal(settle(bench, 1), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE,
                WIRE_GRANT, WIRE_DONE, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        assert_places(bench, 9 + i, i, i * SLOT_SIZE, SLOT_SIZE);
}

static void a_file_that_is_cut_is_an_error_of_storage(void **state)
{
    struct bench *bench = *state;

    /* Here, since cmocka has handlers of its own for each test. */
    assert_int_equal(guard_init(), 0);
    begin_placed(bench);
    send_placed(bench, 2);
    assert_int_equal(say(bench, fill_placed(bench, 3)), 0);
    assert_int_equal(settle(bench, 1), 0);
    assert_int_equal(ftruncate(bench->sink.map_fd, 2 * SLOT_SIZE + 4096), 0);
    assert_int_equal(say(bench, chunk_message(2, 2 * SLOT_SIZE, SLOT_SIZE)), 0);
    assert_int_equal(say(bench, chunk_message(3, 3 * SLOT_SIZE, SLOT_SIZE)), 0);
    assert_int_equal(say(bench, placed_end_message(bench)), 0);
    assert_int_equal(settle(bench, 3), 0);
    ASSERT_SAID(bench, WIRE_READY, WIRE_OPENED, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE, WIRE_PLACE,
                WIRE_PLACE, WIRE_PLACE, WIRE_FAILED, WIRE_GRANT, WIRE_GRANT, WIRE_DONE);
    assert_int_equal(said(bench, 8).error.status, 74);
    assert_int_equal(said(bench, 11).done.status, 74);
    assert_int_equal(bench->result.stored, 2 * SLOT_SIZE);
    assert_int_equal(bench->sink.committed, 0);
    assert_nothing_placed(bench);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_object_goes_through),
        TEST(nothing_but_open_and_close_comes_first),
        TEST(what_a_server_says_is_refused),
        TEST(nothing_comes_before_the_answer_that_is_awaited),
        TEST(only_what_was_kept_is_recalled_and_only_before_chunks),
        TEST(what_differed_is_not_recalled_again),
        TEST(a_slot_that_is_not_granted_or_too_small_is_refused),
        TEST(no_more_objects_at_a_time_than_allowed),
        TEST(one_object_that_fails_is_told_once),
        TEST(an_object_that_cannot_begin_is_told_and_ended),
        TEST(an_object_that_is_abandoned_counts_as_failed),
        TEST(a_recall_that_fails_is_answered_by_failed_alone),
        TEST(a_store_that_failed_leaves_no_slot_at_the_worker),
        TEST(a_session_of_one_has_one_and_no_close),
        TEST(of_several_objects_two_may_be_open),
        TEST(of_one_object_any_limit_will_do),
        TEST(the_limits_of_a_session_stay_the_same),
        TEST(a_slot_is_no_larger_than_the_clients_chunks),
        TEST(placed_slots_cover_the_object_in_order),
        TEST(a_chunk_in_a_placed_slot_is_its_range),
        TEST(a_placed_range_is_not_skipped_and_gone_back_to),
        TEST(a_range_is_out_of_reach_before_it_is_hashed),
        TEST(after_a_registration_that_fails_slots_are_ordinary),
        TEST(what_cannot_be_placed_at_all_is_not),
        TEST(an_object_leaves_no_slot_placed),
        TEST(no_slot_is_placed_behind_the_end_and_the_next_object_begins_anew),
        TEST(a_file_that_is_cut_is_an_error_of_storage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

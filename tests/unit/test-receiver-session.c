/*
 * test-receiver-session.c - what the thread of a session makes of messages, in and out of order, and
 * of what the worker has done.
 */
#include "config.h"

/* The functions under test are the file's own. */
#include "receiver.c"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-provider.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define PATIENCE_MS 10000
#define MESSAGES 64

struct sink_object {
    struct fake_sink *sink;
};

struct fake_sink {
    struct sink sink;
    uint64_t kept;
    bool fail_begin, fail_store;
    unsigned committed;
};

static struct sink_object *fake_begin(struct sink *base, const struct sink_request *request,
                                      int stop_fd, struct error *err)
{
    struct fake_sink *sink = (struct fake_sink *)base;
    struct sink_object *object;

    (void)request, (void)stop_fd;
    if (sink->fail_begin) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, "file", "no room");
        return NULL;
    }
    object = calloc(1, sizeof *object);
    assert_non_null(object);
    object->sink = sink;
    return object;
}

static uint64_t fake_kept(const struct sink_object *object)
{
    return object->sink->kept;
}

static int fake_recall(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                       struct error *err)
{
    (void)object, (void)offset, (void)err;
    memset(buf, 'k', len);
    return 0;
}

static int fake_resume_at(struct sink_object *object, uint64_t bytes, struct error *err)
{
    (void)object, (void)bytes, (void)err;
    return 0;
}

static int fake_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err)
{
    (void)offset, (void)data, (void)len, (void)stop_fd;
    if (object->sink->fail_store)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "no space");
    return 0;
}

static int fake_commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err)
{
    (void)size, (void)stop_fd, (void)err;
    object->sink->committed++;
    free(object);
    return 0;
}

static void fake_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    free(object);
}

static const struct sink_ops fake_ops = {
    .kind = "fake",
    .begin = fake_begin,
    .kept = fake_kept,
    .recall = fake_recall,
    .resume_at = fake_resume_at,
    .store = fake_store,
    .commit = fake_commit,
    .abandon = fake_abandon,
};

struct bench {
    struct fake_provider fake;
    struct fake_sink sink;
    struct endpoint endpoint;
    struct receiver receiver;
    struct receiver_result result;
    struct error err;
};

static void ignore_committed(const char *peer, const struct receiver_object *object)
{
    (void)peer, (void)object;
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
    bench->sink.sink.ops = &fake_ops;
    bench->endpoint.id = &bench->fake.id;
    bench->receiver = (struct receiver){.sink = &bench->sink.sink,
                                        .many = true,
                                        .ready_fd = -1,
                                        .report = ignore_committed,
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
    abandon_object(receiver, false);
    digest_free(receiver->storing.digest);
    free(receiver->storing.buffer);
    memory_free(&receiver->memory);
    messages_close(&receiver->session.messages);
    writer_close(&receiver->session.writer);
    fake_close(&bench->fake);
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
        struct job *job = worker_take(bench->receiver.worker);

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
    bench->sink.fail_store = true;
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
    struct job job = {.kind = JOB_RECALL};

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
    bench->sink.fail_store = true;
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

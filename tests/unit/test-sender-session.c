/*
 * test-sender-session.c - what a client makes of a server's messages, in and out of order, and what
 * it sends of the objects that its worker reads.
 */
#include "config.h"

/* The functions under test are the file's own. */
#include "sender.c"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-provider.h"
#include "sandbox.h"
#include "segment.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define PATIENCE_MS 10000
#define MESSAGES 64
#define DEPTH 256
#define MOST_OBJECTS 6
#define SMALL_BYTES 100
#define MAPPED_BYTES (5 * SLOT_SIZE + 100)
#define FAR_ADDR UINT64_C(0x7f0000000000)
#define FAR_RKEY 0x1234u
#define PLACE_ADDR UINT64_C(0x7a0000000000)
#define PLACE_RKEY 0x5678u

struct bench {
    struct fake_provider fake;
    struct sender_job job;
    struct sender_result result;
    struct sender sender;
    uint64_t sizes[MOST_OBJECTS]; /* of the objects' files */
    bool fail_open[MOST_OBJECTS];
    unsigned opened, closed;
    bool settled[MOST_OBJECTS];
    enum error_class causes[MOST_OBJECTS]; /* of those that failed */
    struct error err;
};

/* ---- objects ------------------------------------------------------------------------------- */

static uint8_t content(size_t index, uint64_t offset)
{
    return (uint8_t)(1 + 50 * index + offset / 4096);
}

static void write_file(const char *path, size_t index, uint64_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    for (uint64_t i = 0; i < size; i++)
        putc(content(index, i), file);
    assert_int_equal(fclose(file), 0);
}

static struct digest_value digest_of(size_t index, uint64_t size)
{
    struct digest *digest = digest_new();
    struct digest_value value;

    for (uint64_t i = 0; i < size; i++) {
        uint8_t byte = content(index, i);

        digest_add(digest, i, &byte, 1);
    }
    digest_value(digest, &value);
    digest_free(digest);
    return value;
}

static int open_file(void *context, size_t index, struct sender_object *object, struct error *err)
{
    static const char *const names[MOST_OBJECTS] = {"0", "1", "2", "3", "4", "5"};
    struct bench *bench = context;
    struct segment segment;
    size_t a, b;

    if (bench->fail_open[index])
        return error_set(err, ERROR_SOURCE, STAGE_OPEN, names[index], "no such file");
    write_file(names[index], index, bench->sizes[index]);
    object->name = names[index];
    object->plan = plan_new(PLAN_BY_DEST, PLAN_TARGET_SLOT);
    object->source = source_new(err);
    if (segment_literal(names[index], &segment) != SEGMENT_OK ||
        source_add(object->source, &segment, false, object->plan, err) < 0 ||
        plan_seal(object->plan, &a, &b) != PLAN_OK)
        abort();
    segment_free(&segment);
    bench->opened++;
    return 0;
}

static void close_file(void *context, size_t index, struct sender_object *object)
{
    struct bench *bench = context;

    (void)index;
    plan_free(object->plan);
    source_free(object->source);
    bench->closed++;
}

/* A sender_settled. */
static void note_settled(void *context, size_t index, const struct digest_value *digest,
                         uint64_t kept, const struct error *cause)
{
    struct bench *bench = context;

    assert_int_equal(kept, 0);
    assert_true((digest != NULL) == (cause == NULL));
    assert_false(bench->settled[index]);
    bench->settled[index] = true;
    bench->causes[index] = cause ? cause->class : ERROR_NONE;
}

/* ---- a session ----------------------------------------------------------------------------- */

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    struct sender *sender;

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    *state = bench;
    fake_open(&bench->fake);
    for (unsigned i = 0; i < MOST_OBJECTS; i++)
        bench->sizes[i] = SMALL_BYTES;
    bench->job = (struct sender_job){.count = MOST_OBJECTS,
                                     .many = true,
                                     .open = open_file,
                                     .close = close_file,
                                     .settled = note_settled,
                                     .context = bench};
    sender = &bench->sender;
    sender->job = &bench->job;
    sender->result = &bench->result;
    sender->endpoint = (struct endpoint){.id = &bench->fake.id,
                                         .peer = "peer",
                                         .max_sge = 4,
                                         .send_depth = DEPTH,
                                         .max_msg_sz = UINT32_MAX};
    sender->session = (struct session){.endpoint = &sender->endpoint, .objects = WIRE_MAX_OBJECTS};
    if (writer_init(&sender->session.writer, &bench->fake.id, "peer", DEPTH, 4, &bench->err) < 0 ||
        messages_open(&sender->session.messages, &bench->fake.id, MESSAGES, &bench->err) < 0)
        return -1;
    return start_worker(sender, &bench->err) < 0 ? -1 : prepare_loads(sender, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    struct sender *sender = &bench->sender;

    worker_stop(sender->worker);
    close_object(sender);
    for (unsigned i = 0; i < WINDOW_MAX_SLOTS; i++)
        loader_release(&sender->tasks[i].load);
    loader_close(&sender->loader);
    memory_free(&sender->memory);
    messages_close(&sender->session.messages);
    writer_close(&sender->session.writer);
    assert_int_equal(bench->fake.memory.count, 0);
    assert_int_equal(bench->opened, bench->closed);
    fake_close(&bench->fake);
    free(bench);
    return 0;
}

static bool is_working(const struct sender *sender)
{
    return sender->loading > 0 || sender->hashing || sender->state == STATE_OPENING;
}

/* Goes on until only a message can bring anything new. */
static int settle(struct bench *bench)
{
    struct sender *sender = &bench->sender;

    for (;;) {
        struct pollfd done = {.fd = worker_fd(sender->worker), .events = POLLIN};

        if (take_tasks(sender, &bench->err) < 0 || advance(sender, &bench->err) < 0)
            return -1;
        if (!is_working(sender))
            return 0;
        assert_int_equal(poll(&done, 1, PATIENCE_MS), 1);
    }
}

/* The server says this. */
static int hear(struct bench *bench, struct wire_message message)
{
    return take_message(&bench->sender, &message, &bench->err);
}

static void assert_heard(struct bench *bench, struct wire_message message)
{
    assert_int_equal(hear(bench, message), 0);
    assert_int_equal(settle(bench), 0);
}

static void assert_broken(struct bench *bench, struct wire_message message)
{
    assert_int_equal(hear(bench, message), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
    error_clear(&bench->err);
}

/* The nth message that was sent, its type 0 when there are no so many. */
static struct wire_message said(const struct bench *bench, unsigned n)
{
    struct wire_message message = {.type = 0};
    const char *problem;

    for (unsigned i = 0; i < bench->fake.request_count; i++) {
        const struct fake_request *request = &bench->fake.requests[i];
        const struct ibv_sge *entry = request->entries;

        if (request->opcode != IBV_WR_SEND || n-- > 0)
            continue;
        assert_int_equal(
            wire_decode((void *)(uintptr_t)entry->addr, entry->length, &message, &problem),
            WIRE_OK);
        break;
    }
    return message;
}

#define ASSERT_SAID(bench, ...)                               \
    assert_said(bench, (const enum wire_type[]){__VA_ARGS__}, \
                sizeof((const enum wire_type[]){__VA_ARGS__}) / sizeof(enum wire_type))

/* All that was said so far. */
static void assert_said(const struct bench *bench, const enum wire_type *types, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_string_equal(wire_type_name(said(bench, i).type), wire_type_name(types[i]));
    assert_int_equal(said(bench, count).type, 0);
}

static void assert_end(const struct bench *bench, unsigned n, const struct digest_value *digest)
{
    struct wire_message end = said(bench, n);

    assert_int_equal(end.type, WIRE_END);
    assert_int_equal(end.end.flags, 0);
    assert_true(digest_equal(&end.end.digest, digest));
}

/* The nth RDMA write: where to. */
static const struct fake_request *wrote(const struct bench *bench, unsigned n)
{
    for (unsigned i = 0; i < bench->fake.request_count; i++)
        if (bench->fake.requests[i].opcode == IBV_WR_RDMA_WRITE && n-- == 0)
            return &bench->fake.requests[i];
    fail_msg("no such write");
    return NULL;
}

/* ---- what a server says -------------------------------------------------------------------- */

static struct wire_message plain(enum wire_type type)
{
    return (struct wire_message){.type = type};
}

static struct wire_message ready_message(void)
{
    return (struct wire_message){.type = WIRE_READY,
                                 .ready = {.slot_count = SLOT_COUNT,
                                           .object_limit = 3,
                                           .slot_size = SLOT_SIZE,
                                           .remote_addr = FAR_ADDR,
                                           .rkey = FAR_RKEY}};
}

static struct wire_message opened_message(uint32_t object, uint64_t kept, uint32_t flags)
{
    return (struct wire_message){.type = WIRE_OPENED,
                                 .opened = {.object = object, .kept = kept, .flags = flags}};
}

static struct wire_message grant_message(unsigned slot)
{
    return (struct wire_message){.type = WIRE_GRANT, .grant = {.slot = (uint16_t)slot}};
}

static struct wire_message place_message(unsigned slot, uint64_t offset, uint64_t length)
{
    return (struct wire_message){.type = WIRE_PLACE,
                                 .place = {.slot = (uint16_t)slot,
                                           .rkey = PLACE_RKEY,
                                           .remote_addr = PLACE_ADDR + offset,
                                           .offset = offset,
                                           .length = length}};
}

static struct wire_message failed_message(uint32_t object)
{
    return (struct wire_message){.type = WIRE_FAILED,
                                 .error = {.object = object, .status = 74, .text = "no space"}};
}

static struct wire_message done_message(uint32_t object, const struct digest_value *digest)
{
    return (struct wire_message){.type = WIRE_DONE, .done = {.object = object, .digest = *digest}};
}

static struct wire_message failed_done_message(uint32_t object)
{
    return (struct wire_message){.type = WIRE_DONE, .done = {.object = object, .status = 74}};
}

static struct wire_message recalled_message(uint32_t object, const struct digest_value *digest)
{
    return (struct wire_message){.type = WIRE_RECALLED,
                                 .recalled = {.object = object, .digest = *digest}};
}

/* The first object was opened, and the server is ready. */
static void begin(struct bench *bench)
{
    assert_int_equal(settle(bench), 0);
    ASSERT_SAID(bench, WIRE_OPEN);
    assert_heard(bench, ready_message());
}

/* ---- objects that go through --------------------------------------------------------------- */

/* Three at a time: the others wait for a DONE. */
static void small_objects_are_all_read_each_with_its_digest(void **state)
{
    struct bench *bench = *state;

    begin(bench);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN,
                WIRE_CHUNK, WIRE_END);
    for (uint32_t i = 0; i < MOST_OBJECTS; i++) {
        struct digest_value digest = digest_of(i, SMALL_BYTES);
        struct wire_message chunk = said(bench, 3 * i + 1);

        assert_int_equal(said(bench, 3 * i).type, WIRE_OPEN);
        assert_int_equal(chunk.type, WIRE_CHUNK);
        assert_int_equal(chunk.chunk.extent_count, 1);
        assert_int_equal(chunk.chunk.extents[0].offset, 0);
        assert_int_equal(chunk.chunk.extents[0].length, SMALL_BYTES);
        assert_end(bench, 3 * i + 2, &digest);
        assert_heard(bench, grant_message(chunk.chunk.slot));
        assert_heard(bench, done_message(i, &digest));
    }
    assert_int_equal(said(bench, 3 * MOST_OBJECTS).type, 0);
    assert_true(is_finished(&bench->sender));
    assert_int_equal(bench->result.committed, MOST_OBJECTS);
    assert_int_equal(bench->result.failed, 0);
    for (unsigned i = 0; i < MOST_OBJECTS; i++) {
        assert_true(bench->settled[i]);
        assert_int_equal(bench->causes[i], ERROR_NONE);
    }
    assert_int_equal(bench->result.committed_bytes, MOST_OBJECTS * SMALL_BYTES);
}

static void an_object_without_a_byte_has_no_chunk(void **state)
{
    struct bench *bench = *state;
    struct digest_value nothing = digest_of(0, 0), digest = digest_of(1, SMALL_BYTES);

    bench->sizes[0] = 0;
    bench->job.count = 2;
    begin(bench);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_end(bench, 1, &nothing);
    assert_end(bench, 4, &digest);
}

/* Also when the slots are smaller than what was offered. */
static void the_limits_of_a_session_stay_the_same(void **state)
{
    struct bench *bench = *state;
    struct wire_message ready = ready_message();

    ready.ready.slot_size = WIRE_MIN_SLOT_SIZE;
    ready.ready.slot_count = 1;
    assert_int_equal(settle(bench), 0);
    assert_heard(bench, ready);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN);
    for (unsigned i = 0; i <= 3; i += 3) {
        struct wire_message open = said(bench, i);

        assert_int_equal(open.open.slot_limit, SLOT_COUNT);
        assert_int_equal(open.open.object_limit, WIRE_MAX_OBJECTS);
        assert_int_equal(open.open.chunk_limit, SLOT_SIZE);
    }
}

static void what_was_committed_is_compared(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(0, SMALL_BYTES);

    begin(bench);
    digest.data[0] ^= 1;
    assert_heard(bench, done_message(0, &digest));
    assert_int_equal(bench->result.committed, 0);
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(bench->sender.first_failure.class, ERROR_DATA);
}

/* ---- objects that fail --------------------------------------------------------------------- */

static void an_object_that_cannot_be_opened_is_passed_over(void **state)
{
    struct bench *bench = *state;

    bench->job.count = 2;
    bench->fail_open[0] = true;
    assert_int_equal(settle(bench), 0);
    ASSERT_SAID(bench, WIRE_OPEN);
    assert_string_equal(said(bench, 0).open.name, "1");
    assert_int_equal(bench->result.failed, 1);
    bench->job.many = false;
    assert_int_equal(fail_object(&bench->sender, 0, "", &bench->sender.first_failure, &bench->err),
                     -1);
}

static void an_object_that_fails_while_it_is_sent_is_abandoned(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(1, SMALL_BYTES);

    bench->sizes[0] = 10 * SLOT_SIZE;
    bench->job.count = 2;
    begin(bench);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_CHUNK, WIRE_CHUNK, WIRE_CHUNK);
    assert_heard(bench, failed_message(0));
    assert_heard(bench, failed_message(0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_CHUNK, WIRE_CHUNK, WIRE_CHUNK, WIRE_END,
                WIRE_OPEN);
    assert_int_equal(said(bench, 5).end.flags, WIRE_END_ABANDONED);
    assert_broken(bench, done_message(0, &digest));
    assert_heard(bench, grant_message(2));
    assert_heard(bench, failed_done_message(0));
    assert_int_equal(said(bench, 7).chunk.slot, 2);
    assert_end(bench, 8, &digest);
    assert_heard(bench, done_message(1, &digest));
    assert_true(is_finished(&bench->sender));
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(bench->result.committed, 1);
    assert_true(bench->settled[0] && bench->settled[1] && !bench->settled[2]);
    assert_int_equal(bench->causes[0], ERROR_STORAGE);
    assert_int_equal(bench->causes[1], ERROR_NONE);
}

/* Loads that are at the worker come back first. */
static void what_is_at_the_worker_is_not_taken_from_under_it(void **state)
{
    struct bench *bench = *state;

    bench->job.count = 1;
    bench->sizes[0] = 10 * SLOT_SIZE;
    assert_int_equal(settle(bench), 0);
    assert_int_equal(hear(bench, ready_message()), 0);
    assert_int_equal(advance(&bench->sender, &bench->err), 0);
    assert_int_equal(bench->sender.loading, SLOT_COUNT);
    assert_int_equal(hear(bench, failed_message(0)), 0);
    assert_int_equal(advance(&bench->sender, &bench->err), 0);
    ASSERT_SAID(bench, WIRE_OPEN);
    assert_int_equal(settle(bench), 0);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END);
    assert_int_equal(said(bench, 1).end.flags, WIRE_END_ABANDONED);
    assert_int_equal(window_in_state(&bench->sender.window, WINDOW_GRANTED), SLOT_COUNT);
}

static void an_object_that_the_server_cannot_open_is_abandoned(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(1, SMALL_BYTES);

    bench->job.count = 2;
    assert_int_equal(settle(bench), 0);
    assert_heard(bench, failed_message(0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END);
    assert_heard(bench, ready_message());
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_heard(bench, failed_done_message(0));
    assert_heard(bench, done_message(1, &digest));
    assert_true(is_finished(&bench->sender));
}

static void an_object_may_fail_behind_its_end(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(1, SMALL_BYTES);

    bench->job.count = 2;
    begin(bench);
    assert_heard(bench, failed_message(0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_int_equal(said(bench, 5).end.flags, 0);
    assert_heard(bench, failed_done_message(0));
    assert_heard(bench, done_message(1, &digest));
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(bench->result.committed, 1);
}

static void a_failure_while_sources_are_opened_is_not_theirs(void **state)
{
    struct bench *bench = *state;

    bench->sizes[0] = 0;
    bench->job.count = 2;
    assert_int_equal(settle(bench), 0);
    assert_int_equal(hear(bench, ready_message()), 0);
    while (bench->sender.state != STATE_OPENING) {
        struct pollfd done = {.fd = worker_fd(bench->sender.worker), .events = POLLIN};

        assert_int_equal(advance(&bench->sender, &bench->err), 0);
        assert_int_equal(poll(&done, 1, PATIENCE_MS), 1);
        assert_int_equal(take_tasks(&bench->sender, &bench->err), 0);
        assert_int_equal(advance(&bench->sender, &bench->err), 0);
    }
    assert_heard(bench, failed_message(0));
    assert_int_equal(bench->result.failed, 1);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_int_equal(said(bench, 4).end.flags, 0);
}

/* ---- what is out of order ------------------------------------------------------------------ */

static void what_a_client_says_is_refused(void **state)
{
    static const enum wire_type types[] = {WIRE_OPEN,   WIRE_CHUNK, WIRE_END,
                                           WIRE_RECALL, WIRE_CLOSE, WIRE_MEET};
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_broken(bench, plain(types[i]));
    begin(bench);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_broken(bench, plain(types[i]));
}

static void nothing_is_said_before_an_object_is_opened(void **state)
{
    static const enum wire_type types[] = {WIRE_READY,    WIRE_OPENED, WIRE_PLACE, WIRE_GRANT,
                                           WIRE_RECALLED, WIRE_FAILED, WIRE_DONE};
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        assert_broken(bench, plain(types[i]));
}

static void ready_comes_once_and_offers_no_more_than_was_asked_for(void **state)
{
    struct bench *bench = *state;
    struct wire_message many = ready_message(), large = many;

    assert_int_equal(settle(bench), 0);
    many.ready.slot_count++;
    assert_broken(bench, many);
    large.ready.slot_size++;
    assert_broken(bench, large);
    assert_int_equal(bench->sender.ready.type, 0);
    assert_broken(bench, grant_message(0));
    assert_heard(bench, ready_message());
    assert_broken(bench, ready_message());
}

static void only_a_slot_that_was_sent_is_granted(void **state)
{
    struct bench *bench = *state;

    bench->job.count = 1;
    begin(bench);
    assert_int_equal(said(bench, 1).chunk.slot, 0);
    for (unsigned slot = 1; slot <= SLOT_COUNT; slot++)
        assert_broken(bench, grant_message(slot));
    assert_broken(bench, grant_message(WIRE_MAX_SLOTS - 1));
    assert_heard(bench, grant_message(0));
    assert_broken(bench, grant_message(0));
}

static void done_comes_once_in_order_and_after_the_end(void **state)
{
    struct bench *bench = *state;
    struct digest_value first = digest_of(0, SMALL_BYTES), second = digest_of(1, SMALL_BYTES);

    bench->job.count = 3;
    bench->sizes[2] = 10 * SLOT_SIZE;
    assert_int_equal(settle(bench), 0);
    assert_broken(bench, done_message(0, &first));
    assert_heard(bench, ready_message());
    assert_broken(bench, done_message(1, &second));
    assert_broken(bench, failed_done_message(0));
    assert_heard(bench, done_message(0, &first));
    assert_broken(bench, done_message(0, &first));
    assert_heard(bench, done_message(1, &second));
    /* Its END is not due yet. */
    assert_heard(bench, opened_message(2, 0, 0));
    assert_int_equal(bench->sender.state, STATE_SENDING);
    assert_broken(bench, done_message(2, &first));
    assert_broken(bench, done_message(UINT32_MAX, &first));
}

static void only_an_open_object_fails(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(0, SMALL_BYTES);

    bench->job.count = 2;
    begin(bench);
    assert_heard(bench, done_message(0, &digest));
    assert_broken(bench, failed_message(0));
    assert_broken(bench, failed_message(2));
    assert_broken(bench, failed_message(UINT32_MAX));
    bench->job.many = false;
    assert_broken(bench, failed_message(1));
}

static void opened_comes_once_where_it_is_awaited(void **state)
{
    struct bench *bench = *state;

    bench->sizes[1] = 10 * SLOT_SIZE;
    assert_int_equal(settle(bench), 0);
    assert_broken(bench, opened_message(0, 0, 0));
    assert_heard(bench, ready_message());
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN);
    assert_int_equal(said(bench, 3).open.flags, WIRE_OPEN_CONFIRM);
    assert_broken(bench, opened_message(0, 0, 0));
    assert_broken(bench, opened_message(2, 0, 0));
    assert_broken(bench, opened_message(1, 1, 0));
    assert_broken(bench, opened_message(1, 0, WIRE_OPENED_PLACED));
    assert_heard(bench, opened_message(1, 0, 0));
    assert_broken(bench, opened_message(1, 0, 0));
    assert_broken(bench, place_message(3, 0, SLOT_SIZE));
}

/* In an exchange, where READY takes another way. */
static void what_comes_before_ready_is_held(void **state)
{
    struct bench *bench = *state;
    struct sender *sender = &bench->sender;
    struct wire_message failed = failed_message(0), ready = ready_message();

    assert_int_equal(settle(bench), 0);
    assert_int_equal(hold_message(sender, &ready, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
    for (unsigned i = 0; i < MOST_HELD; i++)
        assert_int_equal(hold_message(sender, &failed, &bench->err), 0);
    assert_int_equal(hold_message(sender, &failed, &bench->err), -1);
    assert_int_equal(bench->result.failed, 0);
    sender->met_ready = ready;
    assert_int_equal(take_task(sender, &sender->ready_task, &bench->err), 0);
    assert_int_equal(bench->result.failed, 1);
    assert_int_equal(sender->held_count, 0);
    assert_int_equal(settle(bench), 0);
    assert_int_equal(said(bench, 1).end.flags, WIRE_END_ABANDONED);
}

/* ---- resuming ------------------------------------------------------------------------------ */

static void begin_resuming(struct bench *bench)
{
    bench->job.resume = true;
    bench->job.count = 2;
    begin(bench);
    assert_int_equal(said(bench, 0).open.flags, WIRE_OPEN_RESUME | WIRE_OPEN_CONFIRM);
}

static void what_was_kept_is_not_sent_again(void **state)
{
    struct bench *bench = *state;
    struct digest_value kept = digest_of(0, 60), whole = digest_of(0, SMALL_BYTES);
    struct wire_message recall;

    begin_resuming(bench);
    assert_broken(bench, recalled_message(0, &kept));
    assert_heard(bench, opened_message(0, 60, 0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_RECALL);
    assert_int_equal(said(bench, 1).recall.extents[0].length, 60);
    recall = said(bench, 1);
    assert_true(digest_equal(&recall.recall.digest, &kept));
    assert_broken(bench, recalled_message(1, &kept));
    assert_heard(bench, recalled_message(0, &kept));
    assert_broken(bench, recalled_message(0, &kept));
    assert_int_equal(said(bench, 2).chunk.extents[0].offset, 60);
    assert_int_equal(said(bench, 2).chunk.extents[0].length, 40);
    assert_end(bench, 3, &whole);
}

static void what_differs_is_sent_anew(void **state)
{
    struct bench *bench = *state;
    struct digest_value other = digest_of(1, 60), whole = digest_of(0, SMALL_BYTES);

    begin_resuming(bench);
    assert_heard(bench, opened_message(0, 60, 0));
    assert_heard(bench, recalled_message(0, &other));
    assert_int_equal(said(bench, 2).chunk.extents[0].offset, 0);
    assert_int_equal(said(bench, 2).chunk.extents[0].length, SMALL_BYTES);
    assert_end(bench, 3, &whole);
}

/* A server that says that it has more than there can be. */
static void no_more_is_recalled_than_there_is(void **state)
{
    struct bench *bench = *state;

    begin_resuming(bench);
    assert_heard(bench, opened_message(0, WIRE_MAX_SIZE, 0));
    assert_int_equal(said(bench, 1).recall.extent_count, 1);
    assert_int_equal(said(bench, 1).recall.extents[0].length, SMALL_BYTES);
}

static void an_object_that_fails_while_it_is_hashed_is_abandoned_after(void **state)
{
    struct bench *bench = *state;
    struct digest_value kept = digest_of(0, 60);

    begin_resuming(bench);
    assert_int_equal(hear(bench, opened_message(0, 60, 0)), 0);
    assert_broken(bench, recalled_message(0, &kept));
    assert_int_equal(hear(bench, failed_message(0)), 0);
    assert_int_equal(advance(&bench->sender, &bench->err), 0);
    ASSERT_SAID(bench, WIRE_OPEN);
    assert_int_equal(settle(bench), 0);
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END, WIRE_OPEN);
    assert_int_equal(said(bench, 1).end.flags, WIRE_END_ABANDONED);
    assert_broken(bench, recalled_message(0, &kept));
}

/* ---- placed slots -------------------------------------------------------------------------- */

/* The first object may be placed, and is; the second is small. */
static void begin_placed(struct bench *bench)
{
    bench->job.map = true;
    bench->job.count = 2;
    bench->sizes[0] = MAPPED_BYTES;
    begin(bench);
    assert_int_equal(said(bench, 0).open.flags, WIRE_OPEN_MAP | WIRE_OPEN_CONFIRM);
    assert_broken(bench, place_message(0, 0, SLOT_SIZE));
    assert_heard(bench, opened_message(0, 0, WIRE_OPENED_PLACED));
    ASSERT_SAID(bench, WIRE_OPEN);
}

static void assert_chunk(const struct bench *bench, unsigned n, unsigned slot, uint64_t offset,
                         uint64_t length)
{
    struct wire_message chunk = said(bench, n);

    assert_int_equal(chunk.type, WIRE_CHUNK);
    assert_int_equal(chunk.chunk.slot, slot);
    assert_int_equal(chunk.chunk.extent_count, 1);
    assert_int_equal(chunk.chunk.extents[0].offset, offset);
    assert_int_equal(chunk.chunk.extents[0].length, length);
}

static void placed_slots_are_written_where_they_are(void **state)
{
    struct bench *bench = *state;
    struct digest_value digest = digest_of(0, MAPPED_BYTES);

    begin_placed(bench);
    for (unsigned i = 0; i < SLOT_COUNT; i++)
        assert_heard(bench, place_message(i, i * SLOT_SIZE, SLOT_SIZE));
    for (unsigned i = 0; i < SLOT_COUNT; i++) {
        assert_chunk(bench, 1 + i, i, i * SLOT_SIZE, SLOT_SIZE);
        assert_int_equal(wrote(bench, i)->remote_addr, PLACE_ADDR + i * SLOT_SIZE);
        assert_int_equal(wrote(bench, i)->rkey, PLACE_RKEY);
    }
    assert_heard(bench, place_message(0, 4 * SLOT_SIZE, SLOT_SIZE));
    assert_heard(bench, grant_message(1));
    assert_chunk(bench, 5, 0, 4 * SLOT_SIZE, SLOT_SIZE);
    assert_chunk(bench, 6, 1, 5 * SLOT_SIZE, 100);
    assert_int_equal(wrote(bench, 5)->remote_addr, FAR_ADDR + SLOT_SIZE);
    assert_int_equal(wrote(bench, 5)->rkey, FAR_RKEY);
    assert_int_equal(said(bench, 7).type, WIRE_END);
    assert_end(bench, 7, &digest);
    /* The next object has ordinary slots. */
    assert_int_equal(said(bench, 8).type, WIRE_OPEN);
    assert_heard(bench, grant_message(0));
    assert_chunk(bench, 9, 0, 0, SMALL_BYTES);
    assert_int_equal(wrote(bench, 6)->remote_addr, FAR_ADDR);
}

static void a_place_is_the_next_range_of_the_object(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_broken(bench, place_message(SLOT_COUNT, 0, SLOT_SIZE));
    assert_broken(bench, place_message(WIRE_MAX_SLOTS - 1, 0, SLOT_SIZE));
    assert_broken(bench, place_message(0, 0, SLOT_SIZE + 1));
    assert_broken(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_broken(bench, place_message(0, WIRE_MAX_SIZE - 1, 1));
    assert_int_equal(hear(bench, place_message(0, 0, SLOT_SIZE)), 0);
    assert_broken(bench, place_message(1, 0, SLOT_SIZE));
    assert_broken(bench, place_message(1, SLOT_SIZE - 1, SLOT_SIZE));
    assert_broken(bench, place_message(1, SLOT_SIZE + 1, SLOT_SIZE));
    assert_int_equal(hear(bench, place_message(1, SLOT_SIZE, SLOT_SIZE)), 0);
    for (unsigned i = 2; i < SLOT_COUNT; i++)
        assert_heard(bench, place_message(i, i * SLOT_SIZE, SLOT_SIZE));
    assert_heard(bench, place_message(0, 4 * SLOT_SIZE, SLOT_SIZE));
    assert_broken(bench, place_message(1, 5 * SLOT_SIZE, 101));
    assert_heard(bench, place_message(1, 5 * SLOT_SIZE, 100));
    assert_chunk(bench, 6, 1, 5 * SLOT_SIZE, 100);
    assert_int_equal(said(bench, 7).type, WIRE_END);
}

static void a_slot_is_placed_once(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_int_equal(hear(bench, place_message(0, 0, SLOT_SIZE)), 0);
    assert_broken(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    /* Nor while it is being filled. */
    assert_int_equal(advance(&bench->sender, &bench->err), 0);
    assert_int_equal(bench->sender.loading, 1);
    assert_broken(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_int_equal(settle(bench), 0);
    assert_heard(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_chunk(bench, 2, 0, SLOT_SIZE, SLOT_SIZE);
}

static void after_an_ordinary_slot_none_is_placed(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_heard(bench, place_message(0, 0, SLOT_SIZE));
    assert_broken(bench, grant_message(1));
    assert_heard(bench, grant_message(0));
    assert_broken(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_chunk(bench, 5, 3, 4 * SLOT_SIZE, SLOT_SIZE);
    assert_int_equal(wrote(bench, 1)->rkey, FAR_RKEY);
}

/* What was under way as the object ended stands for a GRANT, until its DONE. */
static void a_place_behind_the_end_is_an_ordinary_slot(void **state)
{
    struct bench *bench = *state;

    bench->job.count = 3;
    bench->sizes[2] = 10 * SLOT_SIZE;
    begin_placed(bench);
    assert_heard(bench, place_message(0, 0, SLOT_SIZE));
    assert_heard(bench, failed_message(0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_CHUNK, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_broken(bench, place_message(SLOT_COUNT, SLOT_SIZE, SLOT_SIZE));
    assert_heard(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
    assert_int_equal(bench->sender.window.places[0].length, 0);
    assert_int_equal(window_in_state(&bench->sender.window, WINDOW_SENT), 1);
    assert_heard(bench, failed_done_message(0));
    assert_broken(bench, place_message(1, SLOT_SIZE, SLOT_SIZE));
    assert_broken(bench, place_message(0, SLOT_SIZE, SLOT_SIZE));
}

static void what_was_placed_and_not_used_is_an_ordinary_slot(void **state)
{
    struct bench *bench = *state;

    begin_placed(bench);
    assert_int_equal(hear(bench, place_message(0, 0, SLOT_SIZE)), 0);
    assert_heard(bench, failed_message(0));
    ASSERT_SAID(bench, WIRE_OPEN, WIRE_END, WIRE_OPEN, WIRE_CHUNK, WIRE_END);
    assert_chunk(bench, 3, 0, 0, SMALL_BYTES);
    assert_int_equal(wrote(bench, 0)->remote_addr, FAR_ADDR);
    assert_int_equal(wrote(bench, 0)->rkey, FAR_RKEY);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(small_objects_are_all_read_each_with_its_digest),
        TEST(an_object_without_a_byte_has_no_chunk),
        TEST(the_limits_of_a_session_stay_the_same),
        TEST(what_was_committed_is_compared),
        TEST(an_object_that_cannot_be_opened_is_passed_over),
        TEST(an_object_that_fails_while_it_is_sent_is_abandoned),
        TEST(what_is_at_the_worker_is_not_taken_from_under_it),
        TEST(an_object_that_the_server_cannot_open_is_abandoned),
        TEST(an_object_may_fail_behind_its_end),
        TEST(a_failure_while_sources_are_opened_is_not_theirs),
        TEST(what_a_client_says_is_refused),
        TEST(nothing_is_said_before_an_object_is_opened),
        TEST(ready_comes_once_and_offers_no_more_than_was_asked_for),
        TEST(only_a_slot_that_was_sent_is_granted),
        TEST(done_comes_once_in_order_and_after_the_end),
        TEST(only_an_open_object_fails),
        TEST(opened_comes_once_where_it_is_awaited),
        TEST(what_comes_before_ready_is_held),
        TEST(what_was_kept_is_not_sent_again),
        TEST(what_differs_is_sent_anew),
        TEST(no_more_is_recalled_than_there_is),
        TEST(an_object_that_fails_while_it_is_hashed_is_abandoned_after),
        TEST(placed_slots_are_written_where_they_are),
        TEST(a_place_is_the_next_range_of_the_object),
        TEST(a_slot_is_placed_once),
        TEST(after_an_ordinary_slot_none_is_placed),
        TEST(a_place_behind_the_end_is_an_ordinary_slot),
        TEST(what_was_placed_and_not_used_is_an_ordinary_slot),
    };
    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

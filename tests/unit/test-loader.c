/*
 * test-loader.c - loads: what is read, how it is cut into work requests, and what arrives of it.
 */
#include "config.h"

#include "loader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "completion.h"
#include "fake-provider.h"
#include "sandbox.h"
#include "writer.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define BUFFER_BYTES 8192
#define OBJECT_BYTES (1 << 17)
#define MOST_SGE 8
#define DEPTH 200
#define FAR_ADDR UINT64_C(0x7f0000002000)
#define FAR_RKEY UINT32_C(0x12340000)

/* A sender's half, and a far end with one slot and the object that it stores. */
struct bench {
    struct fake_provider fake;
    struct writer writer;
    struct source *source;
    struct plan *plan;
    struct loader loader;
    struct load load;
    struct error err;
    int stop[2], input[2];
    unsigned loads, works, entries;
    uint8_t buffer[BUFFER_BYTES], slot[BUFFER_BYTES];
    uint8_t object[OBJECT_BYTES], expected[OBJECT_BYTES];
    uint64_t object_end;   /* where the last extent ended */
    uint64_t arrived;      /* bytes */
    struct digest *digest; /* of what arrived */
};

static void make_file(const char *path, const void *content, size_t len)
{
    int fd;

    unlink(path); /* some file systems write a file that was truncated out at once */
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, len), len);
    close(fd);
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    alarm(PATIENCE_S);
    if (!bench || pipe(bench->stop) < 0 || pipe(bench->input) < 0)
        return -1;
    fake_open(&bench->fake);
    bench->fake.max_sge = MOST_SGE;
    bench->fake.far_memory = bench->slot;
    bench->fake.far_bytes = sizeof(bench->slot);
    bench->fake.far_addr = FAR_ADDR;
    bench->fake.far_rkey = FAR_RKEY;
    bench->load.buffer = bench->buffer;
    bench->load.lkey = fake_register(&bench->fake, bench->buffer, BUFFER_BYTES)->lkey;
    make_file("digits", "0123456789", 10);
    make_file("letters", "abcdef", 6);
    *state = bench;
    return writer_init(&bench->writer, &bench->fake.id, "peer", DEPTH, MOST_SGE, &bench->err);
}

static void forget(struct bench *bench)
{
    loader_release(&bench->load);
    loader_close(&bench->loader);
    plan_free(bench->plan);
    source_free(bench->source);
    digest_free(bench->digest);
    bench->plan = NULL;
    bench->source = NULL;
    bench->digest = NULL;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    forget(bench);
    writer_close(&bench->writer);
    fake_close(&bench->fake);
    for (int i = 0; i < 2; i++) {
        close_if_open(&bench->stop[i]);
        close_if_open(&bench->input[i]);
    }
    free(bench);
    sandbox_empty();
    return 0;
}

/* Forgets what was before and plans an object of no segments yet. */
static void begin(struct bench *bench, enum plan_order order)
{
    forget(bench);
    memset(bench->object, 0, sizeof(bench->object));
    memset(bench->buffer, 0xee, sizeof(bench->buffer));
    bench->loads = bench->works = bench->entries = 0;
    bench->object_end = bench->arrived = 0;
    bench->digest = digest_new();
    bench->plan = plan_new(order, PLAN_TARGET_SLOT);
    bench->source = source_new(&bench->err);
    assert_non_null(bench->plan);
    assert_non_null(bench->source);
    assert_non_null(bench->digest);
}

static void add(struct bench *bench, const char *argument)
{
    struct segment segment;
    char problem[128];

    assert_int_equal(segment_parse(argument, &segment, problem, sizeof(problem)), SEGMENT_OK);
    if (source_add(bench->source, &segment, false, bench->plan, &bench->err) < 0)
        fail_msg("'%s': %s", argument, bench->err.text);
    segment_free(&segment);
}

static void add_pipe(struct bench *bench, const char *suffix)
{
    char argument[64];

    snprintf(argument, sizeof(argument), "/dev/fd/%d%s", bench->input[0], suffix);
    add(bench, argument);
}

static void feed(struct bench *bench, const char *text)
{
    assert_int_equal(write(bench->input[1], text, strlen(text)), strlen(text));
}

static struct plan_limits limits(unsigned max_sge, uint64_t max_bytes, uint64_t max_extents)
{
    return (struct plan_limits){
        .max_sge = max_sge, .max_bytes = max_bytes, .max_extents = max_extents};
}

/* The plan is whole: loads are of size bytes from here on. */
static void seal(struct bench *bench, struct plan_limits limit, uint64_t size, unsigned most_works,
                 bool with_digest)
{
    size_t a, b;

    assert_int_equal(plan_seal(bench->plan, &a, &b), PLAN_OK);
    assert_true(size <= BUFFER_BYTES && limit.max_sge <= MOST_SGE);
    bench->fake.max_msg_sz = limit.max_bytes;
    bench->load.size = size;
    assert_int_equal(loader_open(&bench->loader, bench->plan, bench->source, &limit, most_works,
                                 with_digest, &bench->err),
                     0);
    assert_int_equal(loader_prepare(&bench->loader, &bench->load, &bench->err), 0);
}

static void seal_roomy(struct bench *bench)
{
    seal(bench, limits(MOST_SGE, BUFFER_BYTES, WIRE_MAX_EXTENTS), BUFFER_BYTES, 64, true);
}

static void fill(struct bench *bench)
{
    loader_fill(&bench->loader, &bench->load, bench->stop[0]);
    bench->loads++;
}

static void assert_load(const struct bench *bench, uint64_t bytes, unsigned works, bool last)
{
    if (error_is_set(&bench->load.error))
        fail_msg("%s", bench->load.error.text);
    assert_int_equal(bench->load.bytes, bytes);
    assert_int_equal(bench->load.work_count, works);
    assert_true(bench->load.last == last);
}

static void assert_load_error(const struct bench *bench, enum error_class class,
                              const char *subject, const char *part)
{
    const struct error *err = &bench->load.error;

    if (err->class != class || !strstr(err->subject, subject) || !strstr(err->text, part))
        fail_msg("class %d, '%s': '%s'", (int)err->class, err->subject, err->text);
}

/*
 * The far end
 */

/* Posts the works, each to its place in the slot. */
static void write_load(struct bench *bench)
{
    const struct plan_limits *limit = &bench->loader.limits;
    struct writer_request request;
    struct ibv_wc wc;
    uint64_t at = 0;

    assert_true(bench->load.work_count <= bench->loader.most_works);
    for (unsigned i = 0; i < bench->load.work_count; i++) {
        const struct loader_work *work = &bench->load.works[i];
        bool signalled = i == bench->load.work_count - 1;

        assert_true(work->count >= 1 && work->count <= limit->max_sge);
        assert_true(work->bytes >= 1 && work->bytes <= limit->max_bytes);
        assert_int_equal(work->at, at);
        at += work->bytes;
        assert_int_equal(writer_write(&bench->writer, i, work->entries, work->count,
                                      signalled ? IBV_SEND_SIGNALED : 0, FAR_ADDR + work->at,
                                      FAR_RKEY, &bench->err),
                         0);
        bench->works++;
        bench->entries += work->count;
    }
    assert_int_equal(at, bench->load.bytes);
    assert_true(at <= bench->load.size);
    fake_run(&bench->fake, UINT_MAX);
    while (ibv_poll_cq(&bench->fake.completion_queue, 1, &wc) == 1) {
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_true(writer_retire(&bench->writer, wc.wr_id, true, &request));
    }
    assert_int_equal(writer_room(&bench->writer), DEPTH);
}

/* Stores what the slot holds, as the extents say. */
static void store_slot(struct bench *bench)
{
    uint64_t at = 0;

    assert_true(bench->load.extent_count <= bench->loader.limits.max_extents);
    for (unsigned i = 0; i < bench->load.extent_count; i++) {
        const struct wire_extent *extent = &bench->load.extents[i];

        assert_true(extent->length > 0 && extent->offset + extent->length <= OBJECT_BYTES);
        memcpy(bench->object + extent->offset, bench->slot + at, extent->length);
        if (bench->loader.digest)
            assert_true(
                digest_add(bench->digest, extent->offset, bench->slot + at, extent->length));
        at += extent->length;
        if (extent->offset + extent->length > bench->object_end)
            bench->object_end = extent->offset + extent->length;
    }
    assert_int_equal(at, bench->load.bytes);
    bench->arrived += at;
}

/* Delivers the load that was filled. */
static void deliver_load(struct bench *bench)
{
    if (error_is_set(&bench->load.error))
        fail_msg("%s", bench->load.error.text);
    memset(bench->slot, 0xdd, sizeof(bench->slot));
    write_load(bench);
    store_slot(bench);
    memset(bench->buffer, 0xee, sizeof(bench->buffer));
}

static void deliver_all(struct bench *bench)
{
    do {
        fill(bench);
        assert_true(bench->loads < 100000);
        deliver_load(bench);
    } while (!bench->load.last);
}

static void assert_digests_agree(const struct bench *bench)
{
    struct digest_value near, far;

    digest_value(bench->loader.digest, &near);
    digest_value(bench->digest, &far);
    assert_true(digest_equal(&near, &far));
    assert_int_equal(near.size, bench->object_end);
    assert_int_equal(near.bytes, bench->arrived);
}

static void assert_object(const struct bench *bench, const char *expected, size_t size)
{
    assert_int_equal(bench->object_end, size);
    assert_memory_equal(bench->object, expected, size);
}

static void assert_extents(const struct bench *bench, const struct wire_extent *expected,
                           unsigned count)
{
    assert_int_equal(bench->load.extent_count, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(bench->load.extents[i].offset, expected[i].offset);
        assert_int_equal(bench->load.extents[i].length, expected[i].length);
    }
}

/*
 * Files
 */

static void test_small_segments_become_one_work_request(void **state)
{
    struct bench *bench = *state;
    const struct wire_extent extents[] = {{0, 16}};

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    add(bench, "letters");
    seal_roomy(bench);
    fill(bench);
    assert_load(bench, 16, 1, true);
    assert_int_equal(bench->load.works[0].count, 2);
    assert_int_equal(bench->load.works[0].dest, 0);
    assert_extents(bench, extents, 1);
    deliver_load(bench);
    assert_object(bench, "0123456789abcdef", 16);
    assert_digests_agree(bench);
}

static void test_entries_point_at_what_was_read(void **state)
{
    struct bench *bench = *state;
    const struct ibv_sge *entry;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits@2+3");
    add(bench, "letters@-2");
    seal_roomy(bench);
    fill(bench);
    entry = bench->load.works[0].entries;
    assert_true(entry[0].addr == (uintptr_t)bench->buffer);
    assert_int_equal(entry[0].length, 3);
    assert_int_equal(entry[0].lkey, bench->load.lkey);
    assert_true(entry[1].addr == (uintptr_t)(bench->buffer + 3));
    assert_int_equal(entry[1].length, 2);
    assert_memory_equal(bench->buffer, "234ef\xee", 6);
}

static void test_gaps_become_extents(void **state)
{
    struct bench *bench = *state;
    const struct wire_extent extents[] = {{0, 6}, {10, 3}, {13 + 7, 10}};

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits@=20");
    add(bench, "letters@=0");
    add(bench, "digits@+3=10");
    seal_roomy(bench);
    fill(bench);
    assert_load(bench, 19, 1, true);
    assert_extents(bench, extents, 3);
    deliver_load(bench);
    assert_object(bench,
                  "abcdef\0\0\0\0"
                  "012\0\0\0\0\0\0\0"
                  "0123456789",
                  30);
    assert_digests_agree(bench);
}

static void test_the_digest_is_that_of_the_object(void **state)
{
    struct bench *bench = *state;
    struct digest *whole = digest_new();
    struct digest_value expected, value;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    add(bench, "letters");
    seal(bench, limits(1, 4, 1), 5, 2, true);
    deliver_all(bench);
    assert_true(digest_add(whole, 0, "0123456789abcdef", 16));
    digest_value(whole, &expected);
    digest_free(whole);
    digest_value(bench->loader.digest, &value);
    assert_true(digest_equal(&value, &expected));
}

static void test_an_object_of_no_bytes_is_one_empty_load(void **state)
{
    struct bench *bench = *state;

    make_file("empty", "", 0);
    begin(bench, PLAN_BY_DEST);
    add(bench, "empty");
    seal_roomy(bench);
    fill(bench);
    assert_load(bench, 0, 0, true);
    assert_int_equal(bench->load.extent_count, 0);
}

static void test_a_load_has_at_most_so_many_works(void **state)
{
    static const unsigned works[] = {3, 3, 3, 1};
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    seal(bench, limits(MOST_SGE, 1, WIRE_MAX_EXTENTS), BUFFER_BYTES, 3, true);
    for (unsigned i = 0; i < 4; i++) {
        fill(bench);
        assert_load(bench, works[i], works[i], i == 3);
        deliver_load(bench);
    }
    assert_object(bench, "0123456789", 10);
    assert_digests_agree(bench);
}

static void test_a_load_is_no_larger_than_its_buffer(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    seal(bench, limits(MOST_SGE, BUFFER_BYTES, WIRE_MAX_EXTENTS), 4, 64, true);
    fill(bench);
    assert_load(bench, 4, 1, false);
    assert_memory_equal(bench->buffer, "0123\xee", 5);
    deliver_load(bench);
    deliver_all(bench);
    assert_object(bench, "0123456789", 10);
    assert_int_equal(bench->loads, 3);
}

static void test_a_load_has_no_more_extents_than_a_message(void **state)
{
    struct bench *bench = *state;
    char argument[32];

    begin(bench, PLAN_BY_DEST);
    for (unsigned i = 0; i < WIRE_MAX_EXTENTS + 40; i++) {
        snprintf(argument, sizeof(argument), "digits@%u+1=%u", i % 10, 3 * i);
        add(bench, argument);
        bench->expected[3 * i] = (uint8_t)('0' + i % 10);
    }
    seal_roomy(bench);
    deliver_all(bench);
    assert_int_equal(bench->loads, 2);
    assert_int_equal(bench->object_end, 3 * (WIRE_MAX_EXTENTS + 40) - 2);
    assert_memory_equal(bench->object, bench->expected, bench->object_end);
    assert_digests_agree(bench);
}

static void test_segments_that_overlap_apply_in_order_without_a_digest(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN);
    add(bench, "digits@=2");
    add(bench, "letters@=0");
    add(bench, "digits@+1=3");
    seal(bench, limits(2, 4, 2), 5, 3, false);
    deliver_all(bench);
    assert_object(bench, "abc0ef456789", 12);
}

static void test_segments_that_overlap_break_a_digest(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN);
    add(bench, "digits");
    add(bench, "letters@=9");
    seal_roomy(bench);
    fill(bench);
    assert_load_error(bench, ERROR_USAGE, "letters", "overlaps");
}

static void test_a_file_that_shrank_is_told_in_the_load(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "letters");
    add(bench, "digits");
    seal_roomy(bench);
    assert_int_equal(truncate("digits", 3), 0);
    fill(bench);
    assert_load_error(bench, ERROR_DATA, "digits", "became shorter");
    assert_false(bench->load.last);
}

/*
 * Streams
 */

static void test_a_stream_gives_what_is_there(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "");
    seal_roomy(bench);
    feed(bench, "abc");
    fill(bench); /* would wait for ever for more */
    assert_load(bench, 3, 1, false);
    deliver_load(bench);
    feed(bench, "defg");
    fill(bench);
    assert_load(bench, 4, 1, false);
    assert_int_equal(bench->load.works[0].dest, 3);
    assert_int_equal(bench->load.works[0].at, 0);
    deliver_load(bench);
    close_if_open(&bench->input[1]);
    fill(bench);
    assert_load(bench, 0, 0, true);
    deliver_load(bench);
    assert_object(bench, "abcdefg", 7);
    assert_digests_agree(bench);
    assert_int_equal(plan_size(bench->plan), 7);
}

static void test_a_stream_that_ended_is_done_with_its_last_bytes(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "");
    seal_roomy(bench);
    feed(bench, "abc");
    close_if_open(&bench->input[1]);
    deliver_all(bench);
    assert_object(bench, "abc", 3);
    assert_true(bench->loads <= 2);
}

static void test_an_empty_stream_is_an_empty_object(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "");
    seal_roomy(bench);
    close_if_open(&bench->input[1]);
    fill(bench);
    assert_load(bench, 0, 0, true);
    assert_int_equal(plan_size(bench->plan), 0);
}

static void test_files_around_a_stream_follow_each_other(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    add_pipe(bench, "");
    add(bench, "letters");
    seal_roomy(bench);
    feed(bench, "--");
    close_if_open(&bench->input[1]);
    deliver_all(bench);
    assert_object(bench, "0123456789--abcdef", 18);
    assert_digests_agree(bench);
}

static void test_a_large_stream_fills_loads(void **state)
{
    struct bench *bench = *state;

    for (size_t i = 0; i < 10000; i++)
        bench->expected[i] = (uint8_t)(i * 31 >> 3);
    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "");
    seal(bench, limits(1, 1000, 1), 4096, 64, true);
    assert_int_equal(write(bench->input[1], bench->expected, 10000), 10000);
    close_if_open(&bench->input[1]);
    deliver_all(bench);
    assert_int_equal(bench->object_end, 10000);
    assert_memory_equal(bench->object, bench->expected, 10000);
    assert_digests_agree(bench);
}

static void test_a_stream_with_a_length_is_read_up_to_it(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "@+5");
    add(bench, "letters");
    seal_roomy(bench);
    feed(bench, "0123456"); /* its writer still has it open */
    fill(bench);
    assert_load(bench, 11, 1, true);
    deliver_load(bench);
    assert_object(bench, "01234abcdef", 11);
    assert_digests_agree(bench);
}

static void test_a_stream_shorter_than_its_length_is_an_error(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "@+5");
    seal_roomy(bench);
    feed(bench, "0123");
    close_if_open(&bench->input[1]);
    fill(bench);
    assert_load_error(bench, ERROR_SOURCE, "/dev/fd/", "too short");
    assert_int_equal(error_exit_status(bench->load.error.class), 66);
}

static void test_a_stop_ends_a_load_that_waits(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add_pipe(bench, "");
    seal_roomy(bench);
    assert_int_equal(write(bench->stop[1], "", 1), 1);
    fill(bench);
    assert_load_error(bench, ERROR_INTERRUPTED, "/dev/fd/", "interrupted");
}

static void test_a_load_can_be_filled_again_after_an_error(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    seal_roomy(bench);
    error_set(&bench->load.error, ERROR_BUG, STAGE_NONE, NULL, "an older one");
    bench->load.last = true;
    bench->load.bytes = bench->load.extent_count = bench->load.work_count = 7;
    fill(bench);
    assert_load(bench, 10, 1, true);
    assert_int_equal(bench->load.extent_count, 1);
}

/*
 * One object after another
 */

static void test_another_object_begins_with_an_empty_digest(void **state)
{
    struct bench *bench = *state;
    struct plan *first_plan;
    struct source *first_source;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    add(bench, "letters@=100");
    seal_roomy(bench);
    deliver_all(bench);
    first_plan = bench->plan;
    first_source = bench->source;

    bench->plan = plan_new(PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->source = source_new(&bench->err);
    add(bench, "letters@1");
    assert_int_equal(plan_seal(bench->plan, &(size_t){0}, &(size_t){0}), PLAN_OK);
    digest_reset(bench->digest);
    bench->object_end = bench->arrived = 0;
    loader_begin(&bench->loader, bench->plan, bench->source);
    assert_int_equal(digest_bytes(bench->loader.digest), 0);
    assert_int_equal(digest_end(bench->loader.digest), 0);
    plan_free(first_plan);
    source_free(first_source);
    deliver_all(bench);
    assert_object(bench, "bcdef", 5);
    assert_digests_agree(bench);
}

static void test_an_object_can_be_loaded_after_one_that_failed(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    seal_roomy(bench);
    assert_int_equal(truncate("digits", 4), 0);
    fill(bench);
    assert_load_error(bench, ERROR_DATA, "digits", "shorter");
    fill(bench);
    assert_int_equal(bench->load.work_count, 0);
    assert_false(bench->load.last);

    source_free(bench->source);
    plan_free(bench->plan);
    bench->plan = plan_new(PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->source = source_new(&bench->err);
    add(bench, "letters");
    assert_int_equal(plan_seal(bench->plan, &(size_t){0}, &(size_t){0}), PLAN_OK);
    loader_begin(&bench->loader, bench->plan, bench->source);
    deliver_all(bench);
    assert_object(bench, "abcdef", 6);
    assert_digests_agree(bench);
}

static void test_a_loader_without_a_digest_begins_too(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST);
    add(bench, "digits");
    seal(bench, limits(1, 100, 1), 100, 1, false);
    loader_begin(&bench->loader, bench->plan, bench->source);
    deliver_all(bench);
    assert_object(bench, "0123456789", 10);
}

/*
 * Recalling
 */

static int recall(struct bench *bench, uint64_t dest, struct wire_extent *extents, unsigned most)
{
    int count = loader_recall(&bench->loader, dest, extents, most, bench->stop[0], &bench->err);

    if (error_is_set(&bench->err))
        fail_msg("%s", bench->err.text);
    return count;
}

static void assert_extent(const struct wire_extent *extent, uint64_t offset, uint64_t length)
{
    assert_int_equal(extent->offset, offset);
    assert_int_equal(extent->length, length);
}

static void assert_recalled(const struct bench *bench, const char *data, size_t bytes, uint64_t end)
{
    struct digest *expected = digest_new();
    struct digest_value a, b;

    assert_true(digest_add(expected, 0, data, bytes));
    digest_value(expected, &a);
    digest_value(bench->loader.digest, &b);
    assert_memory_equal(a.data, b.data, DIGEST_BYTES);
    assert_int_equal(b.bytes, bytes);
    assert_int_equal(b.size, end);
    digest_free(expected);
}

static void begin_gaps(struct bench *bench)
{
    begin(bench, PLAN_BY_DEST);
    add(bench, "digits@=20"); /* {20, 10} */
    add(bench, "letters@=0"); /* {0, 6} */
    add(bench, "digits@+3=10"); /* {10, 3} */
    seal_roomy(bench);
}

static void test_a_recall_is_cut_at_its_end(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[4];

    begin_gaps(bench);
    assert_int_equal(recall(bench, 24, extents, 4), 3);
    assert_extent(&extents[0], 0, 6);
    assert_extent(&extents[1], 10, 3);
    assert_extent(&extents[2], 20, 4);
    assert_recalled(bench, "abcdef0120123", 13, 24);
    assert_int_equal(recall(bench, 24, extents, 4), 0);
    assert_recalled(bench, "abcdef0120123", 13, 24);
    assert_int_equal(recall(bench, 1000, extents, 4), 1);
    assert_extent(&extents[0], 24, 6);
    assert_recalled(bench, "abcdef0120123456789", 19, 30);
    assert_int_equal(recall(bench, 1000, extents, 4), 0);
}

static void test_a_recall_before_the_first_byte_is_empty(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[4];

    begin(bench, PLAN_BY_DEST);
    add(bench, "letters@=10");
    seal_roomy(bench);
    assert_int_equal(recall(bench, 0, extents, 4), 0);
    assert_int_equal(recall(bench, 10, extents, 4), 0);
    assert_int_equal(recall(bench, 11, extents, 4), 1);
    assert_extent(&extents[0], 10, 1);
}

static void test_pieces_that_adjoin_are_one_extent_of_a_recall(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[1];

    begin(bench, PLAN_BY_DEST);
    add(bench, "letters");
    add(bench, "digits");
    seal_roomy(bench);
    assert_int_equal(recall(bench, 16, extents, 1), 1);
    assert_extent(&extents[0], 0, 16);
    assert_recalled(bench, "abcdef0123456789", 16, 16);
}

static void test_a_recall_has_at_most_so_many_extents(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[3] = {[2] = {77, 77}};

    begin_gaps(bench);
    assert_int_equal(recall(bench, 30, extents, 2), 2);
    assert_extent(&extents[0], 0, 6);
    assert_extent(&extents[1], 10, 3);
    assert_extent(&extents[2], 77, 77);
    assert_recalled(bench, "abcdef012", 9, 13);
    assert_int_equal(recall(bench, 30, extents, 2), 1);
    assert_extent(&extents[0], 20, 10);
    assert_recalled(bench, "abcdef0120123456789", 19, 30);
    assert_int_equal(recall(bench, 30, extents, 2), 0);
}

static void make_large(const char *path, uint64_t bytes)
{
    make_file(path, "", 0);
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

static void test_a_recall_has_at_most_so_many_bytes(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[4];
    uint64_t at;

    make_large("large", LOADER_RECALL_BYTES + 1000);
    begin(bench, PLAN_BY_DEST);
    add(bench, "large@+8");
    add(bench, "large@8");
    seal_roomy(bench);
    assert_int_equal(recall(bench, UINT64_MAX, extents, 4), 1);
    assert_int_equal(extents[0].offset, 0);
    assert_in_range(extents[0].length, LOADER_RECALL_BYTES / 2, LOADER_RECALL_BYTES);
    assert_int_equal(digest_end(bench->loader.digest), extents[0].length);
    at = extents[0].length;
    while (recall(bench, UINT64_MAX, extents, 4) > 0) {
        assert_int_equal(extents[0].offset, at);
        at += extents[0].length;
    }
    assert_int_equal(at, LOADER_RECALL_BYTES + 1000);
}

static void test_beginning_anew_recalls_from_the_start(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[4];

    begin_gaps(bench);
    assert_int_equal(recall(bench, 12, extents, 4), 2);
    loader_begin(&bench->loader, bench->plan, bench->source);
    assert_int_equal(digest_bytes(bench->loader.digest), 0);
    assert_int_equal(recall(bench, 12, extents, 4), 2);
    assert_extent(&extents[0], 0, 6);
    assert_extent(&extents[1], 10, 2);
    assert_recalled(bench, "abcdef01", 8, 12);
}

static void test_a_source_that_shrank_ends_a_recall(void **state)
{
    struct bench *bench = *state;
    struct wire_extent extents[4];

    begin_gaps(bench);
    assert_int_equal(truncate("letters", 2), 0);
    assert_int_equal(
        loader_recall(&bench->loader, 30, extents, 4, bench->stop[0], &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_DATA);
    assert_string_equal(bench->err.subject, "letters");
}

/*
 * Objects at random
 */

static uint32_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 1664525 + 1013904223;
    return (uint32_t)((uint64_t)(random_state >> 8) * limit >> 24);
}

static void plan_at_random(struct bench *bench, uint64_t *end)
{
    static uint8_t content[3000];
    uint64_t dest = random_below(50);
    unsigned count = 1 + random_below(30);

    memset(bench->expected, 0, sizeof(bench->expected));
    *end = 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t size = random_below(10) ? random_below(200) : random_below(sizeof(content));
        uint32_t offset = random_below(size + 1);
        uint32_t length = random_below(size - offset + 1);
        char path[24], argument[96];

        for (uint32_t k = 0; k < size; k++)
            content[k] = (uint8_t)random_below(256);
        snprintf(path, sizeof(path), "random-%u", i);
        make_file(path, content, size);
        snprintf(argument, sizeof(argument), "%s@%u+%u=%u", path, offset, length, (unsigned)dest);
        add(bench, argument);
        memcpy(bench->expected + dest, content + offset, length);
        if (length > 0)
            *end = dest + length;
        dest += length + (random_below(2) ? random_below(100) : 0);
    }
}

static void test_random_objects_arrive(void **state)
{
    struct bench *bench = *state;

    for (unsigned round = 0; round < 150; round++) {
        struct plan_limits limit;
        uint64_t end;

        random_state = round;
        limit = limits(1 + random_below(MOST_SGE), 1 + random_below(400),
                       1 + random_below(WIRE_MAX_EXTENTS));
        begin(bench, PLAN_BY_DEST);
        plan_at_random(bench, &end);
        seal(bench, limit, 1 + random_below(BUFFER_BYTES), 1 + random_below(20), true);
        deliver_all(bench);
        if (bench->object_end != end || memcmp(bench->object, bench->expected, end) != 0)
            fail_msg("round %u arrives wrong", round);
        assert_digests_agree(bench);
    }
}

/* What is recalled, and how it is cut. */
static void recall_at_random(struct bench *bench, uint64_t dest)
{
    struct wire_extent extents[WIRE_MAX_RECALLED];
    unsigned most = 1 + random_below(5);
    int count;

    while ((count = recall(bench, dest, extents, most)) > 0) {
        assert_in_range(count, 1, most);
        for (int i = 0; i < count; i++) {
            const struct wire_extent *extent = &extents[i];

            assert_true(extent->offset >= bench->object_end);
            assert_true(extent->length > 0 && extent->offset + extent->length <= dest);
            memcpy(bench->object + extent->offset, bench->expected + extent->offset,
                   extent->length);
            assert_true(digest_add(bench->digest, extent->offset,
                                   bench->expected + extent->offset, extent->length));
            bench->object_end = extent->offset + extent->length;
            bench->arrived += extent->length;
        }
        assert_digests_agree(bench);
    }
    assert_int_equal(count, 0);
}

/* The far end has the object up to some place, and ends with the whole. */
static void test_random_objects_go_on_from_what_was_recalled(void **state)
{
    struct bench *bench = *state;

    for (unsigned round = 0; round < 150; round++) {
        struct plan_limits limit;
        struct digest_value resumed, whole;
        uint64_t end, dest;

        random_state = round;
        limit = limits(1 + random_below(MOST_SGE), 1 + random_below(400),
                       1 + random_below(WIRE_MAX_EXTENTS));
        begin(bench, PLAN_BY_DEST);
        plan_at_random(bench, &end);
        seal(bench, limit, 1 + random_below(BUFFER_BYTES), 1 + random_below(20), true);
        dest = random_below((uint32_t)end + 10);
        recall_at_random(bench, dest);
        plan_start_at(bench->plan, bench->object_end);
        deliver_all(bench);
        if (bench->object_end != end || memcmp(bench->object, bench->expected, end) != 0)
            fail_msg("round %u arrives wrong", round);
        assert_digests_agree(bench);
        digest_value(bench->loader.digest, &resumed);

        loader_begin(&bench->loader, bench->plan, bench->source);
        plan_start_at(bench->plan, 0);
        do
            fill(bench);
        while (!bench->load.last);
        digest_value(bench->loader.digest, &whole);
        assert_true(digest_equal(&resumed, &whole));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_small_segments_become_one_work_request),
        TEST(test_entries_point_at_what_was_read),
        TEST(test_gaps_become_extents),
        TEST(test_the_digest_is_that_of_the_object),
        TEST(test_an_object_of_no_bytes_is_one_empty_load),
        TEST(test_a_load_has_at_most_so_many_works),
        TEST(test_a_load_is_no_larger_than_its_buffer),
        TEST(test_a_load_has_no_more_extents_than_a_message),
        TEST(test_segments_that_overlap_apply_in_order_without_a_digest),
        TEST(test_segments_that_overlap_break_a_digest),
        TEST(test_a_file_that_shrank_is_told_in_the_load),
        TEST(test_a_stream_gives_what_is_there),
        TEST(test_a_stream_that_ended_is_done_with_its_last_bytes),
        TEST(test_an_empty_stream_is_an_empty_object),
        TEST(test_files_around_a_stream_follow_each_other),
        TEST(test_a_large_stream_fills_loads),
        TEST(test_a_stream_with_a_length_is_read_up_to_it),
        TEST(test_a_stream_shorter_than_its_length_is_an_error),
        TEST(test_a_stop_ends_a_load_that_waits),
        TEST(test_a_load_can_be_filled_again_after_an_error),
        TEST(test_another_object_begins_with_an_empty_digest),
        TEST(test_an_object_can_be_loaded_after_one_that_failed),
        TEST(test_a_loader_without_a_digest_begins_too),
        TEST(test_a_recall_is_cut_at_its_end),
        TEST(test_a_recall_before_the_first_byte_is_empty),
        TEST(test_pieces_that_adjoin_are_one_extent_of_a_recall),
        TEST(test_a_recall_has_at_most_so_many_extents),
        TEST(test_a_recall_has_at_most_so_many_bytes),
        TEST(test_beginning_anew_recalls_from_the_start),
        TEST(test_a_source_that_shrank_ends_a_recall),
        TEST(test_random_objects_arrive),
        TEST(test_random_objects_go_on_from_what_was_recalled),
    };

    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

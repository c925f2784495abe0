/* test-storing.c - what the worker of a session does with its jobs, in order. */
#include "config.h"

/* The functions under test are the file's own. */
#include "storing.c"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-sink.h"

#define CONTENT "0123456789abcdef"

struct bench {
    struct fake_sink sink;
    struct endpoint endpoint;
    struct storing storing;
    struct sink_request request;
    struct digest *told; /* the client's, of the object so far */
    uint32_t object;
    int stop[2];
    struct storing_job job; /* the last one that was done */
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);

    if (!bench || pipe(bench->stop) < 0)
        return -1;
    fake_sink_open(&bench->sink);
    bench->sink.content = CONTENT;
    storing_open(&bench->storing, &bench->sink.sink, &bench->endpoint, 4, 4096, &bench->job.error);
    bench->told = digest_new();
    bench->object = UINT32_MAX;
    *state = bench;
    return bench->storing.digest && bench->told ? 0 : -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    storing_close(&bench->storing, false);
    digest_free(bench->told);
    close(bench->stop[0]);
    close(bench->stop[1]);
    free(bench);
    return 0;
}

static void do_one(struct bench *bench, struct storing_job job)
{
    bench->job = job;
    bench->job.object = bench->object;
    storing_do(&bench->storing, &bench->job, bench->stop[0]);
}

static void begin(struct bench *bench, bool resume)
{
    bench->object++;
    bench->request = (struct sink_request){.name = "", .resume = resume};
    digest_reset(bench->told);
    do_one(bench, (struct storing_job){.kind = STORING_BEGIN, .request = &bench->request});
}

static void store(struct bench *bench, uint64_t offset, const char *data)
{
    size_t len = strlen(data);

    digest_add(bench->told, offset, data, len);
    do_one(bench, (struct storing_job){.kind = STORING_STORE,
                               .data = (const uint8_t *)data,
                               .extent_count = 1,
                               .extents = {{.offset = offset, .length = len}}});
}

/* The client says what it has there. */
static void recall_range(struct bench *bench, uint64_t offset, const char *data)
{
    struct storing_job job = {.kind = STORING_RECALL,
                      .extent_count = 1,
                      .extents = {{.offset = offset, .length = strlen(data)}}};

    digest_add(bench->told, offset, data, strlen(data));
    digest_value(bench->told, &job.told);
    do_one(bench, job);
}

static void end(struct bench *bench)
{
    struct storing_job job = {.kind = STORING_END};

    digest_value(bench->told, &job.told);
    do_one(bench, job);
}

static void assert_committed(const struct bench *bench, unsigned count, uint64_t size)
{
    if (error_is_set(&bench->job.error))
        fail_msg("%s", bench->job.error.text);
    assert_true(bench->job.committed);
    assert_int_equal(bench->sink.committed, count);
    assert_int_equal(bench->sink.committed_size, size);
    assert_null(bench->storing.object);
}

static void assert_nothing_committed(const struct bench *bench)
{
    assert_false(bench->job.committed);
    assert_int_equal(bench->sink.committed, 0);
    assert_null(bench->storing.object);
}

/*
 * One object
 */

static void what_was_stored_and_agrees_is_committed(void **state)
{
    struct bench *bench = *state;

    begin(bench, false);
    assert_int_equal(bench->job.kept, 0);
    store(bench, 0, "data");
    assert_int_equal(bench->job.stored, 4);
    store(bench, 4, "more");
    assert_int_equal(bench->sink.stores, 2);
    end(bench);
    assert_committed(bench, 1, 8);
    assert_int_equal(bench->sink.resumed, 0);
    assert_int_equal(bench->sink.abandoned, 0);
}

static void an_object_may_be_empty(void **state)
{
    struct bench *bench = *state;

    begin(bench, false);
    end(bench);
    assert_committed(bench, 1, 0);
}

/* A gap at the end is no data, but the object's all the same. */
static void the_size_is_the_clients_when_it_is_larger(void **state)
{
    struct bench *bench = *state;
    struct storing_job job = {.kind = STORING_END};

    begin(bench, false);
    store(bench, 0, "data");
    digest_value(bench->told, &job.told);
    job.told.size = 100;
    do_one(bench, job);
    assert_committed(bench, 1, 100);
    assert_int_equal(bench->job.own.size, 100);
}

static void the_size_may_not_be_smaller_than_what_was_stored(void **state)
{
    struct bench *bench = *state;
    struct storing_job job = {.kind = STORING_END};

    begin(bench, false);
    store(bench, 0, "data");
    digest_value(bench->told, &job.told);
    job.told.size = 3;
    do_one(bench, job);
    assert_nothing_committed(bench);
    assert_int_equal(bench->job.error.class, ERROR_DATA);
}

static void extents_of_a_slot_are_stored_each_in_its_place(void **state)
{
    struct bench *bench = *state;

    begin(bench, false);
    assert_true(digest_add(bench->told, 2, "ab", 2));
    assert_true(digest_add(bench->told, 10, "cde", 3));
    do_one(bench, (struct storing_job){.kind = STORING_STORE,
                               .data = (const uint8_t *)"abcde",
                               .extent_count = 2,
                               .extents = {{2, 2}, {10, 3}}});
    assert_int_equal(bench->job.stored, 5);
    assert_int_equal(bench->sink.stores, 2);
    assert_int_equal(bench->sink.stored_end, 13);
    end(bench);
    assert_committed(bench, 1, 13);
}

static void nothing_is_committed_after_a_store_failed(void **state)
{
    struct bench *bench = *state;

    for (unsigned at = 1; at <= 2; at++) {
        bench->sink.stores = bench->sink.abandoned = 0;
        bench->sink.fail_store = at;
        begin(bench, false);
        store(bench, 0, "data");
        assert_int_equal(bench->job.error.class, at == 1 ? ERROR_STORAGE : ERROR_NONE);
        store(bench, 4, "more");
        assert_int_equal(bench->job.error.class, at == 2 ? ERROR_STORAGE : ERROR_NONE);
        assert_int_equal(bench->job.stored, 0);
        assert_int_equal(bench->sink.stores, at);
        end(bench);
        assert_nothing_committed(bench);
        assert_int_equal(bench->sink.abandoned, 1);
    }
}

static void what_arrived_otherwise_than_sent_is_not_committed(void **state)
{
    struct bench *bench = *state;

    begin(bench, false);
    store(bench, 0, "data");
    digest_reset(bench->told);
    digest_add(bench->told, 0, "DATA", 4);
    end(bench);
    assert_nothing_committed(bench);
    assert_int_equal(bench->job.error.class, ERROR_DATA);
    assert_int_equal(bench->sink.abandoned, 1);
    assert_int_equal(bench->sink.kept_again, 0);
}

static void a_commit_that_fails_is_none(void **state)
{
    struct bench *bench = *state;

    bench->sink.fail_commit = true;
    begin(bench, false);
    store(bench, 0, "data");
    end(bench);
    assert_nothing_committed(bench);
    assert_int_equal(bench->job.error.class, ERROR_STORAGE);
    assert_int_equal(bench->sink.abandoned, 0); /* commit has freed it */
}

static void an_abandoned_object_is_not_committed(void **state)
{
    struct bench *bench = *state;
    struct storing_job job = {.kind = STORING_END, .abandoned = true};

    begin(bench, false);
    store(bench, 0, "data");
    digest_value(bench->told, &job.told);
    do_one(bench, job);
    assert_nothing_committed(bench);
    assert_false(error_is_set(&bench->job.error));
    assert_int_equal(bench->sink.abandoned, 1);
}

/*
 * Resuming
 */

static void begin_kept(struct bench *bench, uint64_t kept)
{
    bench->sink.kept = kept;
    begin(bench, true);
    assert_int_equal(bench->job.kept, kept);
}

static void assert_matches(const struct bench *bench)
{
    assert_false(error_is_set(&bench->job.error));
    assert_true(digest_equal(&bench->job.own, &bench->job.told));
}

static void what_is_kept_is_no_matter_unless_resuming(void **state)
{
    struct bench *bench = *state;

    bench->sink.kept = 10;
    begin(bench, false);
    assert_int_equal(bench->job.kept, 0);
    store(bench, 0, "data");
    assert_int_equal(bench->sink.resumed, 0);
}

static void a_recall_that_matches_is_gone_on_from(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    recall_range(bench, 0, "01234");
    assert_matches(bench);
    recall_range(bench, 5, "567");
    assert_matches(bench);
    assert_int_equal(bench->sink.resumed, 0);
    store(bench, 8, "new");
    assert_int_equal(bench->sink.resumed, 1);
    assert_int_equal(bench->sink.resumed_at, 8);
    assert_int_equal(bench->sink.stores_before_resume, 0);
    store(bench, 11, "er");
    assert_int_equal(bench->sink.resumed, 1);
    end(bench);
    assert_committed(bench, 1, 13);
}

static void all_may_have_been_kept(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    recall_range(bench, 0, "0123456789");
    end(bench);
    assert_committed(bench, 1, 10);
    assert_int_equal(bench->sink.resumed, 1);
    assert_int_equal(bench->sink.resumed_at, 10);
    assert_int_equal(bench->sink.stores, 0);
}

static void a_recall_that_differs_starts_anew(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    recall_range(bench, 0, "0123");
    assert_matches(bench);
    recall_range(bench, 4, "4X6");
    assert_false(error_is_set(&bench->job.error));
    assert_false(digest_equal(&bench->job.own, &bench->job.told));
    digest_reset(bench->told);
    store(bench, 0, "anew");
    assert_int_equal(bench->sink.resumed, 1);
    assert_int_equal(bench->sink.resumed_at, 0);
    assert_int_equal(bench->sink.stores_before_resume, 0);
    end(bench);
    assert_committed(bench, 1, 4);
}

static void what_cannot_be_read_back_starts_anew(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    bench->sink.fail_recall = true;
    recall_range(bench, 0, "0123");
    assert_false(error_is_set(&bench->job.error));
    assert_false(digest_equal(&bench->job.own, &bench->job.told));
    digest_reset(bench->told);
    store(bench, 0, "anew");
    assert_int_equal(bench->sink.resumed_at, 0);
    end(bench);
    assert_committed(bench, 1, 4);
}

/* What was not recalled is gone, also when nothing is stored. */
static void what_was_not_recalled_goes(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    end(bench);
    assert_committed(bench, 1, 0);
    assert_int_equal(bench->sink.resumed, 1);
    assert_int_equal(bench->sink.resumed_at, 0);
}

static void what_cannot_be_gone_on_from_fails_the_object(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    recall_range(bench, 0, "0123");
    bench->sink.fail_resume = true;
    store(bench, 4, "new");
    assert_int_equal(bench->job.error.class, ERROR_STORAGE);
    assert_int_equal(bench->job.stored, 0);
    assert_int_equal(bench->sink.stores, 0);
    store(bench, 7, "er");
    assert_int_equal(bench->sink.stores, 0);
    end(bench);
    assert_nothing_committed(bench);
    assert_int_equal(bench->sink.abandoned, 1);
}

static void what_is_recalled_is_read_in_pieces(void **state)
{
    struct bench *bench = *state;
    size_t len = 2 * READ_BACK_BYTES + 1;
    char *content = malloc(len + 1);

    assert_non_null(content);
    memset(content, 'c', len);
    content[len] = '\0';
    content[len - 1] = 'd';
    bench->sink.content = content;
    begin_kept(bench, len);
    recall_range(bench, 0, content);
    assert_matches(bench);
    assert_int_equal(bench->sink.recalls, 3);
    free(content);
}

static void a_stop_ends_a_recall(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 10);
    assert_int_equal(write(bench->stop[1], "", 1), 1);
    recall_range(bench, 0, "0123");
    assert_int_equal(bench->sink.recalls, 0);
    assert_false(digest_equal(&bench->job.own, &bench->job.told));
}

/*
 * Several objects
 */

static void objects_follow_one_another(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < 3 * WIRE_MAX_OBJECTS; i++) {
        begin(bench, false);
        store(bench, i, "data");
        end(bench);
        assert_committed(bench, i + 1, i + 4);
    }
    assert_int_equal(bench->sink.begun, 3 * WIRE_MAX_OBJECTS);
    assert_int_equal(bench->sink.abandoned, 0);
}

static void each_object_has_what_was_kept_of_it(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 4);
    recall_range(bench, 0, "0123");
    store(bench, 4, "new");
    assert_int_equal(bench->sink.resumed_at, 4);
    end(bench);
    assert_committed(bench, 1, 7);
    begin_kept(bench, 0);
    store(bench, 0, "data");
    assert_int_equal(bench->sink.resumed, 1);
    end(bench);
    assert_committed(bench, 2, 4);
    begin_kept(bench, 8);
    recall_range(bench, 0, "01");
    assert_matches(bench);
    store(bench, 2, "data");
    assert_int_equal(bench->sink.resumed, 2);
    assert_int_equal(bench->sink.resumed_at, 2);
    end(bench);
    assert_committed(bench, 3, 6);
}

/* One that failed while what was kept was still to be cut leaves none of that to the next. */
static void a_cut_that_is_due_goes_with_its_object(void **state)
{
    struct bench *bench = *state;

    begin_kept(bench, 8);
    do_one(bench, (struct storing_job){.kind = STORING_END, .abandoned = true});
    assert_int_equal(bench->sink.resumed, 0);
    begin_kept(bench, 0);
    store(bench, 0, "data");
    assert_int_equal(bench->sink.resumed, 0);
}

static void an_object_that_cannot_begin_is_passed_over(void **state)
{
    struct bench *bench = *state;

    bench->sink.fail_begin = true;
    bench->sink.kept = 10;
    begin(bench, true);
    assert_int_equal(bench->job.error.class, ERROR_CANNOT_CREATE);
    assert_int_equal(bench->job.kept, 0);
    store(bench, 0, "data");
    recall_range(bench, 4, "45");
    end(bench);
    assert_false(error_is_set(&bench->job.error));
    assert_nothing_committed(bench);
    assert_int_equal(bench->sink.stores + bench->sink.recalls + bench->sink.resumed, 0);
    assert_int_equal(bench->sink.abandoned, 0);

    bench->sink.fail_begin = false;
    begin(bench, false);
    store(bench, 0, "data");
    end(bench);
    assert_committed(bench, 1, 4);
}

static void the_next_object_works_after_one_whose_store_failed(void **state)
{
    struct bench *bench = *state;

    bench->sink.fail_store = 1;
    begin(bench, false);
    store(bench, 0, "lost");
    end(bench);
    assert_nothing_committed(bench);
    begin(bench, false);
    store(bench, 0, "data");
    end(bench);
    assert_committed(bench, 1, 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_stored_and_agrees_is_committed),
        TEST(an_object_may_be_empty),
        TEST(the_size_is_the_clients_when_it_is_larger),
        TEST(the_size_may_not_be_smaller_than_what_was_stored),
        TEST(extents_of_a_slot_are_stored_each_in_its_place),
        TEST(nothing_is_committed_after_a_store_failed),
        TEST(what_arrived_otherwise_than_sent_is_not_committed),
        TEST(a_commit_that_fails_is_none),
        TEST(an_abandoned_object_is_not_committed),
        TEST(what_is_kept_is_no_matter_unless_resuming),
        TEST(a_recall_that_matches_is_gone_on_from),
        TEST(all_may_have_been_kept),
        TEST(a_recall_that_differs_starts_anew),
        TEST(what_cannot_be_read_back_starts_anew),
        TEST(what_was_not_recalled_goes),
        TEST(what_cannot_be_gone_on_from_fails_the_object),
        TEST(what_is_recalled_is_read_in_pieces),
        TEST(a_stop_ends_a_recall),
        TEST(objects_follow_one_another),
        TEST(each_object_has_what_was_kept_of_it),
        TEST(a_cut_that_is_due_goes_with_its_object),
        TEST(an_object_that_cannot_begin_is_passed_over),
        TEST(the_next_object_works_after_one_whose_store_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test-receiver.c - what the worker of a session does with stores, in order, when one of them fails. */
#include "config.h"

/* The functions under test are the file's own. */
#include "receiver.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct sink_object {
    unsigned stores, commits;
    unsigned fails_at; /* the number of the store that fails; 0: none */
};

static int fake_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err)
{
    (void)offset, (void)data, (void)len, (void)stop_fd;
    if (++object->stores == object->fails_at)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "no space");
    return 0;
}

static int fake_commit(struct sink_object *object, uint64_t size, int stop_fd,
                       struct error *err)
{
    (void)size, (void)stop_fd, (void)err;
    object->commits++;
    return 0;
}

static const struct sink_ops fake_ops = {
    .kind = "fake", .store = fake_store, .commit = fake_commit};

/* Runs two stores of 4 bytes and the commit of what the client says it sent, as the worker does. */
static void run_jobs(struct sink_object *object, const char *sent, struct store jobs[3],
                     struct receiver_result *result)
{
    static const char arrived[] = "datadata";
    static struct endpoint endpoint;
    struct sink sink = {.ops = &fake_ops};
    struct digest *told = digest_new();
    struct receiver receiver = {.sink = &sink,
                                .result = result,
                                .endpoint = &endpoint,
                                .object = object,
                                .digest = digest_new()};
    assert_non_null(told);
    assert_non_null(receiver.digest);
    assert_true(digest_add(told, 0, sent, 8));
    for (unsigned i = 0; i < 2; i++)
        jobs[i] = (struct store){.data = (const uint8_t *)arrived + 4 * i,
                                 .extent_count = 1,
                                 .extents = {{.offset = 4 * (uint64_t)i, .length = 4}}};
    jobs[2] = (struct store){.commit = true};
    digest_value(told, &jobs[2].told);
    for (unsigned i = 0; i < 3; i++)
        do_store(&receiver, &jobs[i], -1);
    digest_free(told);
    digest_free(receiver.digest);
}

static void what_was_stored_and_agrees_is_committed(void **state)
{
    struct sink_object object = {.fails_at = 0};
    struct receiver_result result = {.committed = false};
    struct store jobs[3];
    (void)state;
    run_jobs(&object, "datadata", jobs, &result);
    assert_int_equal(object.stores, 2);
    assert_int_equal(object.commits, 1);
    assert_true(result.committed);
    assert_false(error_is_set(&jobs[2].error));
}

static void nothing_is_committed_after_a_store_failed(void **state)
{
    (void)state;
    for (unsigned at = 1; at <= 2; at++) {
        struct sink_object object = {.fails_at = at};
        struct receiver_result result = {.committed = false};
        struct store jobs[3];
        run_jobs(&object, "datadata", jobs, &result);
        assert_int_equal(jobs[at - 1].error.class, ERROR_STORAGE);
        assert_int_equal(object.stores, at);
        assert_int_equal(object.commits, 0);
        assert_false(result.committed);
    }
}

static void what_arrived_otherwise_than_sent_is_not_committed(void **state)
{
    struct sink_object object = {.fails_at = 0};
    struct receiver_result result = {.committed = false};
    struct store jobs[3];
    (void)state;
    run_jobs(&object, "dataDATA", jobs, &result);
    assert_int_equal(object.commits, 0);
    assert_false(result.committed);
    assert_int_equal(jobs[2].error.class, ERROR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_stored_and_agrees_is_committed),
        cmocka_unit_test(nothing_is_committed_after_a_store_failed),
        cmocka_unit_test(what_arrived_otherwise_than_sent_is_not_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

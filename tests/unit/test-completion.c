/*
 * test-completion.c - completion queues: polling, waiting for events, and what a status means.
 */
#include "config.h"

#include "completion.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-provider.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define PEER "[2001:db8::7]:7475"

struct bench {
    struct fake_provider fake;
    struct completion_queue queue;
    struct error err;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    fake_open(&bench->fake);
    *state = bench;
    return completion_open(&bench->queue, &bench->fake.context, 100, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    completion_close(&bench->queue);
    fake_close(&bench->fake);
    free(bench);
    return 0;
}

static bool has_event(const struct bench *bench)
{
    struct pollfd pollfd = {.fd = completion_fd(&bench->queue), .events = POLLIN};

    return poll(&pollfd, 1, 0) == 1;
}

static void push(struct bench *bench, uint64_t wr_id)
{
    struct ibv_wc wc = {.wr_id = wr_id, .status = IBV_WC_SUCCESS};

    fake_push_completion(&bench->fake, &wc);
}

static void assert_text_has(const struct error *err, const char *part)
{
    if (!strstr(err->text, part))
        fail_msg("'%s' is not in '%s'", part, err->text);
}

/*
 * Opening and closing
 */

static void test_a_queue_is_as_deep_as_asked_and_never_blocks(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(bench->fake.queue_depth, 100);
    assert_ptr_equal(bench->queue.cq->channel, bench->queue.channel);
    assert_true(fcntl(completion_fd(&bench->queue), F_GETFL) & O_NONBLOCK);
    completion_drain_events(&bench->queue); /* would wait for ever */
    assert_int_equal(bench->fake.events_taken, 0);
}

static void test_closing_destroys_both_once(void **state)
{
    struct bench *bench = *state;

    completion_close(&bench->queue);
    assert_false(bench->fake.has_queue);
    assert_false(bench->fake.has_channel);
    completion_close(&bench->queue);
}

static void assert_resource_error(const struct bench *bench, int errnum, const char *part)
{
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_string_equal(bench->err.subject, "fake0");
    assert_text_has(&bench->err, part);
    assert_text_has(&bench->err, strerror(errnum));
    assert_non_null(strstr(bench->err.hint, "locked memory"));
}

static void test_a_channel_that_cannot_be_had_is_told(void **state)
{
    struct bench *bench = *state;

    completion_close(&bench->queue);
    bench->fake.fail_channel = ENODEV;
    assert_int_equal(completion_open(&bench->queue, &bench->fake.context, 1, &bench->err), -1);
    assert_resource_error(bench, ENODEV, "completion channel");
}

static void test_a_queue_that_cannot_be_had_is_told_and_leaves_nothing(void **state)
{
    struct bench *bench = *state;

    completion_close(&bench->queue);
    bench->fake.fail_queue = ENOMEM;
    assert_int_equal(completion_open(&bench->queue, &bench->fake.context, 1, &bench->err), -1);
    assert_resource_error(bench, ENOMEM, "completion queue");
    assert_false(bench->fake.has_channel);
    assert_null(bench->queue.channel);
}

/*
 * Polling and waiting
 */

static void test_completions_come_one_by_one_in_order(void **state)
{
    struct bench *bench = *state;
    struct ibv_wc wc;

    assert_int_equal(completion_poll(&bench->queue, &wc, &bench->err), 0);
    push(bench, 5);
    push(bench, 4);
    assert_int_equal(completion_poll(&bench->queue, &wc, &bench->err), 1);
    assert_int_equal(wc.wr_id, 5);
    assert_int_equal(completion_poll(&bench->queue, &wc, &bench->err), 1);
    assert_int_equal(wc.wr_id, 4);
    assert_int_equal(completion_poll(&bench->queue, &wc, &bench->err), 0);
    assert_false(error_is_set(&bench->err));
}

static void test_a_queue_that_cannot_be_polled_is_an_error(void **state)
{
    struct bench *bench = *state;
    struct ibv_wc wc;

    push(bench, 1);
    bench->fake.poll_result = -EINVAL;
    assert_int_equal(completion_poll(&bench->queue, &wc, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_int_equal(bench->err.stage, STAGE_COMPLETION);
}

static void test_a_queue_that_cannot_be_armed_is_an_error(void **state)
{
    static const int errnums[] = {EINVAL, -EINVAL};
    struct bench *bench = *state;

    for (size_t i = 0; i < COUNT_OF(errnums); i++) {
        error_clear(&bench->err);
        bench->fake.arm_result = errnums[i];
        assert_int_equal(completion_arm(&bench->queue, &bench->err), -1);
        assert_int_equal(bench->err.class, ERROR_RESOURCE);
        assert_int_equal(bench->err.stage, STAGE_COMPLETION);
        assert_text_has(&bench->err, strerror(EINVAL));
    }
}

static void test_an_armed_queue_announces_the_next_completion_once(void **state)
{
    struct bench *bench = *state;

    push(bench, 1);
    assert_false(has_event(bench));
    assert_int_equal(completion_arm(&bench->queue, &bench->err), 0);
    assert_false(has_event(bench));
    push(bench, 2);
    push(bench, 3);
    assert_true(has_event(bench));
    completion_drain_events(&bench->queue);
    assert_false(has_event(bench));
    assert_int_equal(bench->fake.events_taken, 1);
    assert_int_equal(bench->fake.events_acknowledged, 1);
}

static void test_all_events_are_acknowledged(void **state)
{
    struct bench *bench = *state;

    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(completion_arm(&bench->queue, &bench->err), 0);
        push(bench, i);
    }
    completion_drain_events(&bench->queue);
    assert_int_equal(bench->fake.events_taken, 3);
    assert_int_equal(bench->fake.events_acknowledged, 3);
    completion_close(&bench->queue);
    assert_false(bench->fake.has_queue);
}

/*
 * What a status means
 */

static const struct expectation {
    enum ibv_wc_status status;
    enum error_class class;
    const char *hint; /* a part of it; NULL: there is none */
} expectations[] = {
    {IBV_WC_LOC_LEN_ERR, ERROR_BUG, NULL},
    {IBV_WC_LOC_QP_OP_ERR, ERROR_TEMPORARY, "link is down"},
    {IBV_WC_LOC_EEC_OP_ERR, ERROR_BUG, NULL},
    {IBV_WC_LOC_PROT_ERR, ERROR_BUG, NULL},
    {IBV_WC_WR_FLUSH_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_MW_BIND_ERR, ERROR_BUG, NULL},
    {IBV_WC_BAD_RESP_ERR, ERROR_BUG, NULL},
    {IBV_WC_LOC_ACCESS_ERR, ERROR_BUG, NULL},
    {IBV_WC_REM_INV_REQ_ERR, ERROR_UNAVAILABLE, "rkey"},
    {IBV_WC_REM_ACCESS_ERR, ERROR_UNAVAILABLE, "rkey"},
    {IBV_WC_REM_OP_ERR, ERROR_UNAVAILABLE, "far adapter"},
    {IBV_WC_RETRY_EXC_ERR, ERROR_TEMPORARY, "does not answer"},
    {IBV_WC_RNR_RETRY_EXC_ERR, ERROR_TEMPORARY, "receives"},
    {IBV_WC_LOC_RDD_VIOL_ERR, ERROR_BUG, NULL},
    {IBV_WC_REM_INV_RD_REQ_ERR, ERROR_BUG, NULL},
    {IBV_WC_REM_ABORT_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_INV_EECN_ERR, ERROR_BUG, NULL},
    {IBV_WC_INV_EEC_STATE_ERR, ERROR_BUG, NULL},
    {IBV_WC_FATAL_ERR, ERROR_UNAVAILABLE, "local adapter"},
    {IBV_WC_RESP_TIMEOUT_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_GENERAL_ERR, ERROR_UNAVAILABLE, NULL},
    {IBV_WC_TM_ERR, ERROR_BUG, NULL},
    {IBV_WC_TM_RNDV_INCOMPLETE, ERROR_BUG, NULL},
};

static void assert_meaning(const struct expectation *expected, bool iwarp)
{
    struct error err = {.class = ERROR_NONE};
    const char *word = ibv_wc_status_str(expected->status);
    struct ibv_wc wc;

    memset(&wc, 0xa5, sizeof(wc)); /* only these are valid in a failed one */
    wc.wr_id = 3;
    wc.status = expected->status;
    assert_int_equal(completion_error(&wc, iwarp, PEER, "RDMA write", &err), -1);
    if (err.class != expected->class)
        fail_msg("%s: class %d, not %d", word, (int)err.class, (int)expected->class);
    assert_int_equal(err.stage, STAGE_COMPLETION);
    assert_string_equal(err.subject, PEER);
    assert_text_has(&err, "RDMA write failed: ");
    assert_text_has(&err, word);
    if (expected->hint ? !strstr(err.hint, expected->hint) : err.hint[0] != '\0')
        fail_msg("%s: the hint is '%s'", word, err.hint);
}

static void test_each_status_has_its_class_and_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(expectations); i++)
        assert_meaning(&expectations[i], false);
}

static void test_no_status_is_left_out(void **state)
{
    (void)state;
    /* All from LOC_LEN_ERR on, in order. */
    for (size_t i = 0; i < COUNT_OF(expectations); i++)
        assert_int_equal(expectations[i].status, IBV_WC_SUCCESS + 1 + i);
    assert_int_equal(expectations[COUNT_OF(expectations) - 1].status, IBV_WC_TM_RNDV_INCOMPLETE);
}

static void test_a_status_that_nobody_knows_is_a_bug(void **state)
{
    static const struct expectation unknown = {(enum ibv_wc_status)200, ERROR_BUG, NULL};

    (void)state;
    assert_meaning(&unknown, false);
}

static void test_on_iwarp_a_refused_access_may_show_as_a_local_error(void **state)
{
    static const struct expectation refused = {IBV_WC_LOC_QP_OP_ERR, ERROR_UNAVAILABLE, "rkey"};

    (void)state;
    assert_meaning(&refused, true);
    for (size_t i = 0; i < COUNT_OF(expectations); i++)
        if (expectations[i].status != refused.status)
            assert_meaning(&expectations[i], true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_queue_is_as_deep_as_asked_and_never_blocks),
        TEST(test_closing_destroys_both_once),
        TEST(test_a_channel_that_cannot_be_had_is_told),
        TEST(test_a_queue_that_cannot_be_had_is_told_and_leaves_nothing),
        TEST(test_completions_come_one_by_one_in_order),
        TEST(test_a_queue_that_cannot_be_polled_is_an_error),
        TEST(test_a_queue_that_cannot_be_armed_is_an_error),
        TEST(test_an_armed_queue_announces_the_next_completion_once),
        TEST(test_all_events_are_acknowledged),
        cmocka_unit_test(test_each_status_has_its_class_and_text),
        cmocka_unit_test(test_no_status_is_left_out),
        cmocka_unit_test(test_a_status_that_nobody_knows_is_a_bug),
        cmocka_unit_test(test_on_iwarp_a_refused_access_may_show_as_a_local_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

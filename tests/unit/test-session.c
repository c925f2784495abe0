/*
 * test-session.c - what a session's wait comes back for, whatever a peer sends.
 */
#include "config.h"

#include "session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "clock.h"
#include "session-bench.h"

static void hear(struct session_bench *bench, enum wire_type type)
{
    const struct wire_message message = {.type = type};

    session_bench_hear(bench, &message);
}

static enum session_next next(struct session_bench *bench, struct wire_message *message)
{
    enum session_next what = session_next(&bench->session, bench->worker_fd, message, &bench->err);

    fake_run(&bench->fake, UINT32_MAX);
    return what;
}

static void pings_are_answered_before_the_wait_ends(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    for (unsigned i = 0; i < 3; i++)
        hear(bench, WIRE_PING);
    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_MESSAGE);
    assert_int_equal(message.type, WIRE_CLOSE);
    assert_int_equal(bench->fake.request_count, 3);
}

/* As many of them as there are receives, and more as soon as one is free. */
static void pings_do_not_keep_the_worker_waiting(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    assert_int_equal(eventfd_write(bench->worker_fd, 1), 0);
    while (bench->fake.received_count < bench->fake.receive_count)
        hear(bench, WIRE_PING);
    for (unsigned i = 1; i <= 20; i++) {
        assert_int_equal(next(bench, &message), SESSION_WORKER);
        assert_int_equal(bench->fake.request_count, i);
        hear(bench, WIRE_PING);
    }
}

static void a_message_goes_before_the_worker(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    assert_int_equal(eventfd_write(bench->worker_fd, 1), 0);
    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_MESSAGE);
    assert_int_equal(next(bench, &message), SESSION_WORKER);
}

static void pings_do_not_put_off_what_is_due(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    bench->session.due_by = clock_now() - 1;
    hear(bench, WIRE_PING);
    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
}

static void a_pong_that_was_not_asked_for_is_refused(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    hear(bench, WIRE_PONG);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, session_bench_setup, session_bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(pings_are_answered_before_the_wait_ends),  TEST(pings_do_not_keep_the_worker_waiting),
        TEST(a_message_goes_before_the_worker),         TEST(pings_do_not_put_off_what_is_due),
        TEST(a_pong_that_was_not_asked_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

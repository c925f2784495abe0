/*
 * test-session.c - what a session's wait comes back for, whatever a peer sends.
 */
#include "config.h"

#include "session.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "fake-provider.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define TIMEOUT_NS (30 * CLOCK_NS_PER_S)
#define SLOTS 4

struct bench {
    struct fake_provider fake;
    struct rdma_event_channel channel;
    struct endpoint endpoint;
    struct session session;
    int worker_fd;
    struct error err;
};

/* In place of librdmacm: nothing happens to the connection. */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    (void)channel, (void)event;
    errno = EAGAIN;
    return -1;
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    *state = bench;
    fake_open(&bench->fake);
    bench->channel.fd = eventfd(0, EFD_CLOEXEC);
    bench->worker_fd = eventfd(0, EFD_CLOEXEC);
    bench->endpoint = (struct endpoint){.id = &bench->fake.id,
                                        .channel = &bench->channel,
                                        .stop_fd = -1,
                                        .connected = true,
                                        .peer = "peer",
                                        .send_depth = session_messages(SLOTS, 1),
                                        .max_sge = 1};
    if (completion_open(&bench->endpoint.queue, &bench->fake.context, 64, &bench->err) < 0 ||
        session_open(&bench->session, &bench->endpoint, SLOTS, 1, TIMEOUT_NS, &bench->err) < 0)
        return -1;
    session_begin(&bench->session);
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    messages_close(&bench->session.messages);
    writer_close(&bench->session.writer);
    completion_close(&bench->endpoint.queue);
    assert_int_equal(bench->fake.registrations, 0);
    fake_close(&bench->fake);
    close(bench->channel.fd);
    close(bench->worker_fd);
    free(bench);
    return 0;
}

static void hear(struct bench *bench, enum wire_type type)
{
    struct wire_message message = {.type = type};
    uint8_t bytes[WIRE_MESSAGE_BYTES];

    assert_true(fake_deliver(&bench->fake, bytes, wire_encode(&message, bytes)));
}

static enum session_next next(struct bench *bench, struct wire_message *message)
{
    enum session_next what = session_next(&bench->session, bench->worker_fd, message, &bench->err);

    fake_run(&bench->fake, UINT32_MAX);
    return what;
}

static void pings_are_answered_before_the_wait_ends(void **state)
{
    struct bench *bench = *state;
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
    struct bench *bench = *state;
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
    struct bench *bench = *state;
    struct wire_message message;

    assert_int_equal(eventfd_write(bench->worker_fd, 1), 0);
    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_MESSAGE);
    assert_int_equal(next(bench, &message), SESSION_WORKER);
}

static void pings_do_not_put_off_what_is_due(void **state)
{
    struct bench *bench = *state;
    struct wire_message message;

    bench->session.due_by = clock_now() - 1;
    hear(bench, WIRE_PING);
    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
}

static void a_pong_that_was_not_asked_for_is_refused(void **state)
{
    struct bench *bench = *state;
    struct wire_message message;

    hear(bench, WIRE_PONG);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(pings_are_answered_before_the_wait_ends),
        TEST(pings_do_not_keep_the_worker_waiting),
        TEST(a_message_goes_before_the_worker),
        TEST(pings_do_not_put_off_what_is_due),
        TEST(a_pong_that_was_not_asked_for_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

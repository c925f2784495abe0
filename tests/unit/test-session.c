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
#include <string.h>
#include <sys/eventfd.h>

#include <cmocka.h>

#include "clock.h"
#include "session-bench.h"

/* Nobody confirms it. */
int rdma_disconnect(struct rdma_cm_id *id)
{
    (void)id;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    id->qp = NULL;
}

static void hear(struct session_bench *bench, enum wire_type type)
{
    const struct wire_message message = {.type = type};

    session_bench_hear(bench, &message);
}

/* Receives that are posted stay so: their memory must not be left to them for another attempt. */
static void a_receive_that_cannot_be_posted_ends_the_attempt(void **state)
{
    struct session_bench *bench = *state;
    struct session session;
    unsigned posted = bench->fake.receive_count;

    bench->fake.fail_receive = 3;
    bench->fake.fail_errno = ENOMEM;
    assert_int_equal(
        session_open(&session, &bench->endpoint, 4, WIRE_MAX_OBJECTS, CLOCK_NS_PER_S, &bench->err),
        -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_int_equal(bench->fake.receive_count - posted, 2);
    messages_close(&session.messages);
    writer_close(&session.writer);
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

/* In place of a peer that answers a PING at once. */
static void answer(void *context, const struct fake_request *request)
{
    if (request)
        hear(context, WIRE_CLOSE);
}

/* An event is asked for only by who goes to sleep. */
static void who_polls_first_takes_what_comes_soon_without_an_event(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    for (unsigned polls = 0; polls <= 1; polls++) {
        unsigned arms = bench->fake.arms;

        bench->session.poll_ns = polls * (uint64_t)CLOCK_NS_PER_S;
        bench->session.talking = true;
        bench->session.ping_out = false;
        bench->session.heard_at = clock_now() - 10 * CLOCK_NS_PER_S; /* so that a PING is due */
        bench->fake.posted = answer;
        bench->fake.posted_context = bench;
        assert_int_equal(next(bench, &message), SESSION_MESSAGE);
        assert_int_equal(message.type, WIRE_CLOSE);
        assert_int_equal(bench->fake.arms - arms, polls ? 0 : 1);
    }
}

static void polling_ends_with_the_wait(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    bench->session.poll_ns = 20 * (uint64_t)CLOCK_NS_PER_MS;
    bench->session.timeout = 100 * (uint64_t)CLOCK_NS_PER_MS;
    bench->session.heard_at = clock_now();
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
    assert_in_range(clock_now() - bench->session.heard_at, 100 * CLOCK_NS_PER_MS,
                    10 * CLOCK_NS_PER_S);
}

static void a_write_is_inline_where_that_is_asked_for(void **state)
{
    struct session_bench *bench = *state;
    struct ibv_sge entry = {.length = 8};

    for (int flags = 0; flags <= IBV_SEND_INLINE; flags += IBV_SEND_INLINE) {
        assert_int_equal(session_write(&bench->session, &entry, 1, flags, 4096, 7, &bench->err), 0);
        assert_int_equal(fake_last(&bench->fake)->opcode, IBV_WR_RDMA_WRITE);
        assert_int_equal(fake_last(&bench->fake)->flags, flags);
    }
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

/* Whether a PING goes to a peer that was last heard of so long ago. */
static bool is_asked(struct session_bench *bench, int64_t silence)
{
    struct wire_message message;
    unsigned sent = bench->fake.request_count;

    bench->session.ping_out = false;
    bench->session.heard_at = clock_now() - silence;
    assert_int_equal(eventfd_write(bench->worker_fd, 1), 0);
    assert_int_equal(next(bench, &message), SESSION_WORKER);
    return bench->fake.request_count > sent;
}

static void a_peer_is_asked_after_two_seconds_however_long_the_timeout(void **state)
{
    struct session_bench *bench = *state;

    bench->session.timeout = 3600 * (uint64_t)CLOCK_NS_PER_S;
    bench->session.talking = bench->session.heard = true;
    assert_false(is_asked(bench, CLOCK_NS_PER_S));
    assert_true(is_asked(bench, 2 * CLOCK_NS_PER_S));
}

static void a_peer_is_asked_after_a_quarter_of_a_short_timeout(void **state)
{
    struct session_bench *bench = *state;

    bench->session.timeout = 4 * (uint64_t)CLOCK_NS_PER_S;
    bench->session.talking = bench->session.heard = true;
    assert_false(is_asked(bench, CLOCK_NS_PER_S / 4));
    assert_true(is_asked(bench, CLOCK_NS_PER_S));
}

static void a_peer_that_was_never_heard_of_is_asked_soon(void **state)
{
    struct session_bench *bench = *state;

    bench->session.talking = true;
    assert_true(is_asked(bench, 200 * CLOCK_NS_PER_MS));
}

static void silence_ends_the_session_after_the_timeout(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;
    int64_t start = clock_now();

    bench->session.timeout = CLOCK_NS_PER_S;
    bench->session.talking = true;
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
    assert_non_null(strstr(bench->err.text, "no sign of life"));
    assert_in_range(clock_now() - start, CLOCK_NS_PER_S - CLOCK_NS_PER_MS * 100,
                    2 * CLOCK_NS_PER_S - 1);
}

/* Neither does its end of the connection confirm anything, nor does a request complete. */
static void a_peer_that_is_gone_is_left_within_a_second(void **state)
{
    struct session_bench *bench = *state;
    struct error reason = {.class = ERROR_TEMPORARY, .text = "no sign of life"};
    int64_t start = clock_now();

    session_give_up(&bench->session, &reason);
    assert_int_equal(bench->fake.request_count, 1);
    session_close(&bench->session);
    assert_true(clock_now() - start < 2 * CLOCK_NS_PER_S);
}

static void lingering_takes_no_longer_than_the_timeout_in_all(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message done = {.type = WIRE_DONE};
    int64_t start = clock_now();

    bench->session.timeout = CLOCK_NS_PER_S;
    assert_int_equal(session_send(&bench->session, &done, &bench->err), 0);
    session_linger(&bench->session);
    assert_in_range(clock_now() - start, CLOCK_NS_PER_S, 2 * CLOCK_NS_PER_S - 1);
}

static void complete(struct session_bench *bench, uint64_t wr_id, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {.wr_id = wr_id, .status = status};

    fake_push_completion(&bench->fake, &wc);
}

static void a_message_that_no_receive_takes_breaks_the_protocol(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    complete(bench, MESSAGES_WRID_RECV, IBV_WC_LOC_LEN_ERR);
    complete(bench, MESSAGES_WRID_RECV + 1, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
}

/* It takes a receive, and leaves there what another message had brought. */
static void an_rdma_write_with_immediate_data_is_no_message(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;
    struct ibv_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .wr_id = bench->fake.receives[0].wr_id,
                        .byte_len = WIRE_HEADER_BYTES};

    hear(bench, WIRE_CLOSE);
    assert_int_equal(next(bench, &message), SESSION_MESSAGE);
    fake_push_completion(&bench->fake, &wc);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
    assert_non_null(strstr(bench->err.text, "immediate data"));
}

static void assert_access_refused(struct session_bench *bench)
{
    struct wire_message message;

    complete(bench, MESSAGES_WRID_RECV, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_non_null(strstr(bench->err.text, "wrote where it may not"));
}

static void a_refused_access_shows_in_the_queue_pair(void **state)
{
    struct session_bench *bench = *state;

    bench->fake.state = IBV_QPS_ERR;
    assert_access_refused(bench);
}

static void a_refused_access_shows_in_an_event(void **state)
{
    struct session_bench *bench = *state;

    bench->fake.state = IBV_QPS_RTS;
    bench->fake.access_event = true;
    assert_access_refused(bench);
}

static void flushes_alone_are_no_refused_access(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    bench->fake.state = IBV_QPS_RTS;
    complete(bench, MESSAGES_WRID_RECV, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
}

/* It leaves the queue pair in error, too. */
static void a_failed_request_of_this_side_is_not_the_peers_access(void **state)
{
    struct session_bench *bench = *state;
    struct wire_message message;

    bench->fake.state = IBV_QPS_ERR;
    complete(bench, MESSAGES_WRID_RECV, IBV_WC_WR_FLUSH_ERR);
    complete(bench, MESSAGES_WRID_RECV + 1, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(next(bench, &message), SESSION_ERROR);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
    assert_null(strstr(bench->err.text, "wrote where it may not"));
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, session_bench_setup, session_bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(pings_are_answered_before_the_wait_ends),
        TEST(pings_do_not_keep_the_worker_waiting),
        TEST(a_message_goes_before_the_worker),
        TEST(who_polls_first_takes_what_comes_soon_without_an_event),
        TEST(polling_ends_with_the_wait),
        TEST(a_write_is_inline_where_that_is_asked_for),
        TEST(pings_do_not_put_off_what_is_due),
        TEST(a_pong_that_was_not_asked_for_is_refused),
        TEST(a_peer_is_asked_after_two_seconds_however_long_the_timeout),
        TEST(a_peer_is_asked_after_a_quarter_of_a_short_timeout),
        TEST(a_peer_that_was_never_heard_of_is_asked_soon),
        TEST(silence_ends_the_session_after_the_timeout),
        TEST(a_peer_that_is_gone_is_left_within_a_second),
        TEST(lingering_takes_no_longer_than_the_timeout_in_all),
        TEST(a_receive_that_cannot_be_posted_ends_the_attempt),
        TEST(a_message_that_no_receive_takes_breaks_the_protocol),
        TEST(an_rdma_write_with_immediate_data_is_no_message),
        TEST(a_refused_access_shows_in_the_queue_pair),
        TEST(a_refused_access_shows_in_an_event),
        TEST(flushes_alone_are_no_refused_access),
        TEST(a_failed_request_of_this_side_is_not_the_peers_access),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

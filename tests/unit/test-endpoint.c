/*
 * test-endpoint.c - what the transport is told of --timeout, and what events of librdmacm mean.
 */
#include "config.h"

#include "endpoint.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"

#define TRIES 7 /* the first, and 6 more: 7 retries mean for ever in places */
#define NS_PER_MINUTE (60 * (uint64_t)CLOCK_NS_PER_S)
#define NS_PER_HOUR (60 * NS_PER_MINUTE)
#define RNR_TIMER_NS UINT64_C(655360000)

/* In the place of librdmacm's: what it was called with, and what it is to fail with. */
static struct {
    int level, name, value, errnum;
    size_t len;
} option;

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
    (void)id;
    option.level = level;
    option.name = optname;
    option.len = optlen;
    option.value = *(uint8_t *)optval;
    errno = option.errnum;
    return option.errnum ? -1 : 0;
}

/* How long the transport goes on without an answer. */
static uint64_t patience(uint64_t timeout)
{
    return TRIES * (UINT64_C(4096) << endpoint_ack_timeout(timeout));
}

static void the_transport_gives_up_within_the_timeout(void **state)
{
    (void)state;
    for (uint64_t timeout = 10 * CLOCK_NS_PER_MS; timeout <= 24 * NS_PER_HOUR;
         timeout += timeout / 3)
        assert_true(patience(timeout) <= timeout);
}

/* So that what lasts for less than half of it is survived. */
static void and_not_before_half_of_it(void **state)
{
    (void)state;
    for (uint64_t timeout = CLOCK_NS_PER_S; timeout <= 2 * NS_PER_MINUTE; timeout += timeout / 3)
        assert_true(patience(timeout) > timeout / 2);
}

/* A packet that got lost at the end of a message is sent again only then. */
static void a_lost_packet_waits_for_no_longer_than_18_seconds(void **state)
{
    (void)state;
    assert_true(patience(NS_PER_HOUR) <= TRIES * 18 * (uint64_t)CLOCK_NS_PER_S);
    assert_int_equal(endpoint_ack_timeout(UINT64_MAX), endpoint_ack_timeout(NS_PER_HOUR));
}

static void the_ack_timeout_of_usual_timeouts(void **state)
{
    (void)state;
    assert_int_equal(endpoint_ack_timeout(0), 8);
    assert_int_equal(endpoint_ack_timeout(1 * (uint64_t)CLOCK_NS_PER_S), 15);
    assert_int_equal(endpoint_ack_timeout(3 * (uint64_t)CLOCK_NS_PER_S), 16);
    assert_int_equal(endpoint_ack_timeout(30 * (uint64_t)CLOCK_NS_PER_S), 19);
    assert_int_equal(endpoint_ack_timeout(NS_PER_HOUR), 22);
}

static void rnr_retries_end_within_the_timeout_and_never_last_for_ever(void **state)
{
    (void)state;
    for (uint64_t timeout = CLOCK_NS_PER_S; timeout <= 24 * NS_PER_HOUR; timeout += timeout / 3) {
        assert_in_range(endpoint_rnr_retries(timeout), 1, 6);
        assert_true(endpoint_rnr_retries(timeout) * RNR_TIMER_NS <= timeout);
    }
    assert_int_equal(endpoint_rnr_retries(0), 1);
    assert_int_equal(endpoint_rnr_retries(3 * (uint64_t)CLOCK_NS_PER_S), 4);
    assert_int_equal(endpoint_rnr_retries(30 * (uint64_t)CLOCK_NS_PER_S), 6);
    assert_int_equal(endpoint_rnr_retries(UINT64_MAX), 6);
}

/* ---- librdmacm, as far as a client connects with it: connecting is answered by one event ---- */

static struct rdma_cm_event answer_event;
static int errno_of_event;

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id, (void)param;
    return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    (void)channel;
    errno = errno_of_event;
    *event = &answer_event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    assert_ptr_equal(event, &answer_event);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context, (void)attr;
    return ENOSYS;
}

/* What becomes of a client that is told this. */
static struct error connect_and_be_told(enum rdma_cm_event_type type, int status, int errnum)
{
    struct rdma_cm_id id = {.verbs = NULL};
    struct endpoint endpoint = {.id = &id, .stop_fd = -1, .peer = "peer"};
    struct endpoint_answer answer;
    struct error err = {.class = ERROR_NONE};
    answer_event = (struct rdma_cm_event){.event = type, .status = status};
    errno_of_event = errnum;
    assert_int_equal(
        endpoint_connect(&endpoint, NULL, 0, clock_after(NS_PER_MINUTE), &answer, &err), -1);
    assert_true(endpoint.gone);
    return err;
}

static void a_connection_that_breaks_off_while_it_is_made_may_be_tried_again(void **state)
{
    (void)state;
    struct error err = connect_and_be_told(RDMA_CM_EVENT_CONNECT_ERROR, -ENOTCONN, 0);
    assert_int_equal(err.class, ERROR_TEMPORARY);
    assert_non_null(strstr(err.text, strerror(ENOTCONN)));
    assert_int_equal(err.errnum, ENOTCONN);
    assert_string_equal(err.status, "RDMA_CM_EVENT_CONNECT_ERROR");
}

static void the_cause_is_what_librdmacm_left_in_errno_where_it_tells_none(void **state)
{
    (void)state;
    struct error err = connect_and_be_told(RDMA_CM_EVENT_CONNECT_ERROR, -1, EINVAL);
    assert_int_equal(err.class, ERROR_TEMPORARY);
    assert_non_null(strstr(err.text, strerror(EINVAL)));
}

static void a_peer_that_never_answers_is_not_said_to_have_broken_off(void **state)
{
    (void)state;
    struct error err = connect_and_be_told(RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH, 0);
    assert_int_equal(err.class, ERROR_UNAVAILABLE);
    assert_int_equal(connect_and_be_told(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 0).class,
                     ERROR_TEMPORARY);
}

static void the_type_of_service_is_the_packets(void **state)
{
    struct endpoint endpoint = {.timeout = 1};
    struct error err = {.class = ERROR_NONE};
    (void)state;
    assert_int_equal(endpoint_set_tos(&endpoint, 184, &err), 0);
    assert_int_equal(option.level, RDMA_OPTION_ID);
    assert_int_equal(option.name, RDMA_OPTION_ID_TOS);
    assert_int_equal(option.len, 1);
    assert_int_equal(option.value, 184);
    option.errnum = EINVAL;
    assert_int_equal(endpoint_set_tos(&endpoint, 184, &err), -1);
    option.errnum = 0;
    assert_int_equal(err.class, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "type of service to 184: Invalid"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_type_of_service_is_the_packets),
        cmocka_unit_test(the_transport_gives_up_within_the_timeout),
        cmocka_unit_test(and_not_before_half_of_it),
        cmocka_unit_test(a_connection_that_breaks_off_while_it_is_made_may_be_tried_again),
        cmocka_unit_test(the_cause_is_what_librdmacm_left_in_errno_where_it_tells_none),
        cmocka_unit_test(a_peer_that_never_answers_is_not_said_to_have_broken_off),
        cmocka_unit_test(a_lost_packet_waits_for_no_longer_than_18_seconds),
        cmocka_unit_test(the_ack_timeout_of_usual_timeouts),
        cmocka_unit_test(rnr_retries_end_within_the_timeout_and_never_last_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

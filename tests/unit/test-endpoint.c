/*
 * test-endpoint.c - what the transport is told of --timeout.
 */
#include "config.h"

#include "endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "clock.h"

#define TRIES 7 /* the first, and 6 more: 7 retries mean for ever in places */
#define NS_PER_MINUTE (60 * (uint64_t)CLOCK_NS_PER_S)
#define NS_PER_HOUR (60 * NS_PER_MINUTE)
#define RNR_TIMER_NS UINT64_C(655360000)

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_transport_gives_up_within_the_timeout),
        cmocka_unit_test(and_not_before_half_of_it),
        cmocka_unit_test(a_lost_packet_waits_for_no_longer_than_18_seconds),
        cmocka_unit_test(the_ack_timeout_of_usual_timeouts),
        cmocka_unit_test(rnr_retries_end_within_the_timeout_and_never_last_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

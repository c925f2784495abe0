/*
 * test-region.c - how a server sees that the host of a one-sided client is gone.
 */
#include "config.h"

/* The functions under test are the file's own. */
#include "region.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake-provider.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define TIMEOUT_NS (30 * CLOCK_NS_PER_S)

struct bench {
    struct fake_provider fake;
    struct endpoint endpoint;
    struct wire_hello hello;
    struct region region;
    struct watch watch;
    struct error err;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    *state = bench;
    fake_open(&bench->fake);
    bench->endpoint = (struct endpoint){.id = &bench->fake.id,
                                        .timeout = TIMEOUT_NS,
                                        .stop_fd = -1,
                                        .initiator_depth = 1,
                                        .peer = "peer"};
    bench->hello = (struct wire_hello){.probe_addr = 0x1000, .probe_rkey = 7};
    bench->watch = (struct watch){
        .endpoint = &bench->endpoint, .region = &bench->region, .hello = &bench->hello};
    if (memory_map(&bench->region.probe, 1, &bench->err) < 0 ||
        memory_register_region(&bench->region.probe, &bench->fake.domain, "a probe", &bench->err) <
            0 ||
        completion_open(&bench->endpoint.queue, &bench->fake.context, 4, &bench->err) < 0)
        return -1;
    return writer_init(&bench->watch.writer, &bench->fake.id, "peer", 2, 1, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    writer_close(&bench->watch.writer);
    completion_close(&bench->endpoint.queue);
    memory_free(&bench->region.probe);
    fake_close(&bench->fake);
    free(bench);
    return 0;
}

static void heard_before(struct bench *bench, int64_t ns)
{
    bench->watch.heard_at = clock_now() - ns;
}

static int64_t silence_ends(const struct bench *bench)
{
    return bench->watch.heard_at + TIMEOUT_NS;
}

static void a_client_that_was_heard_of_is_left_alone(void **state)
{
    struct bench *bench = *state;

    heard_before(bench, TIMEOUT_NS / 8);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err),
                     bench->watch.heard_at + TIMEOUT_NS / 4);
    assert_int_equal(bench->fake.request_count, 0);
}

static void a_client_is_asked_after_a_quarter_of_the_timeout(void **state)
{
    struct bench *bench = *state;

    heard_before(bench, TIMEOUT_NS / 4);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err), silence_ends(bench) + 1);
    assert_int_equal(bench->fake.request_count, 1);
    assert_int_equal(fake_last(&bench->fake)->opcode, IBV_WR_RDMA_READ);
    assert_int_equal(fake_last(&bench->fake)->remote_addr, bench->hello.probe_addr);
    assert_int_equal(fake_last(&bench->fake)->rkey, bench->hello.probe_rkey);
    /* Not twice. */
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err), silence_ends(bench) + 1);
    assert_int_equal(bench->fake.request_count, 1);
}

/* Nor offers it a byte: any client of librdmacm may be like that. */
static void a_client_that_grants_no_reads_is_asked_by_a_write_of_nothing(void **state)
{
    struct bench *bench = *state;

    bench->endpoint.initiator_depth = 0;
    bench->fake.device.transport_type = IBV_TRANSPORT_IB;
    bench->hello = (struct wire_hello){.probe_addr = 0};
    assert_true(can_ask(&bench->endpoint, &bench->hello));
    heard_before(bench, TIMEOUT_NS / 4);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err), silence_ends(bench) + 1);
    assert_int_equal(bench->fake.request_count, 1);
    assert_int_equal(fake_last(&bench->fake)->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(fake_last(&bench->fake)->count, 0);
    assert_true(fake_last(&bench->fake)->flags & IBV_SEND_SIGNALED);
}

static void on_iwarp_a_client_is_asked_only_where_that_does_no_harm(void **state)
{
    struct bench *bench = *state;

    bench->fake.device.transport_type = IBV_TRANSPORT_IWARP;
    assert_true(can_ask(&bench->endpoint, &bench->hello));
    bench->endpoint.initiator_depth = 0;
    assert_false(can_ask(&bench->endpoint, &bench->hello));
    bench->endpoint.initiator_depth = 1;
    bench->hello.probe_addr = 0;
    assert_false(can_ask(&bench->endpoint, &bench->hello));
}

static void the_timeout_counts_from_the_last_answer_not_from_the_question(void **state)
{
    struct bench *bench = *state;

    heard_before(bench, TIMEOUT_NS / 2);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err), silence_ends(bench) + 1);
    heard_before(bench, TIMEOUT_NS + CLOCK_NS_PER_MS);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_TEMPORARY);
    assert_non_null(strstr(bench->err.text, "does not answer"));
}

static void an_answer_is_a_sign_of_life(void **state)
{
    struct bench *bench = *state;
    int64_t asked_at = clock_now();
    struct ibv_wc answer = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RDMA_READ};

    heard_before(bench, TIMEOUT_NS / 2);
    assert_true(keep_watch(&bench->watch, true, &bench->err) >= 0);
    answer.wr_id = fake_last(&bench->fake)->wr_id;
    fake_push_completion(&bench->fake, &answer);
    assert_int_equal(reap_probe(&bench->watch, &bench->err), 0);
    assert_true(bench->watch.heard_at >= asked_at);
    assert_int_equal(keep_watch(&bench->watch, true, &bench->err),
                     bench->watch.heard_at + TIMEOUT_NS / 4);
}

static void a_client_that_cannot_be_asked_is_waited_for(void **state)
{
    struct bench *bench = *state;

    heard_before(bench, 2 * TIMEOUT_NS);
    assert_int_equal(keep_watch(&bench->watch, false, &bench->err), CLOCK_NEVER);
    assert_int_equal(bench->fake.request_count, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_client_that_was_heard_of_is_left_alone),
        TEST(a_client_is_asked_after_a_quarter_of_the_timeout),
        TEST(a_client_that_grants_no_reads_is_asked_by_a_write_of_nothing),
        TEST(on_iwarp_a_client_is_asked_only_where_that_does_no_harm),
        TEST(the_timeout_counts_from_the_last_answer_not_from_the_question),
        TEST(an_answer_is_a_sign_of_life),
        TEST(a_client_that_cannot_be_asked_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

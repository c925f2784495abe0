/*
 * test-writer.c - work requests: how they are posted, counted, refused and retired.
 */
#include "config.h"

#include "writer.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "completion.h"
#include "fake-provider.h"

#define PEER "192.0.2.7:7475"
#define DEPTH 4
#define MOST_SGE 3
#define FAR_ADDR UINT64_C(0x7f0000001000)
#define FAR_RKEY UINT32_C(0xfeedbeef)
#define NEAR_BYTES 4096

struct bench {
    struct fake_provider fake;
    struct writer writer;
    struct error err;
    uint8_t near[NEAR_BYTES], far[NEAR_BYTES];
    struct ibv_mr *mr;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        return -1;
    fake_open(&bench->fake);
    bench->fake.far_memory = bench->far;
    bench->fake.far_bytes = sizeof(bench->far);
    bench->fake.far_addr = FAR_ADDR;
    bench->fake.far_rkey = FAR_RKEY;
    bench->mr = fake_register(&bench->fake, bench->near, sizeof(bench->near));
    for (size_t i = 0; i < sizeof(bench->near); i++)
        bench->near[i] = (uint8_t)(i * 7 + 1);
    *state = bench;
    return writer_init(&bench->writer, &bench->fake.id, PEER, DEPTH, MOST_SGE, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    writer_close(&bench->writer);
    fake_close(&bench->fake);
    free(bench);
    return 0;
}

static struct ibv_sge entry(const struct bench *bench, size_t at, uint32_t length)
{
    return (struct ibv_sge){(uintptr_t)(bench->near + at), length, bench->mr->lkey};
}

/* Posts a write of length bytes from the start to the start. */
static int post(struct bench *bench, uint64_t wr_id, uint32_t length, int flags)
{
    struct ibv_sge one = entry(bench, 0, length);

    return writer_write(&bench->writer, wr_id, &one, 1, flags, FAR_ADDR, FAR_RKEY, &bench->err);
}

static void assert_posted(struct bench *bench, uint64_t wr_id, uint32_t length, int flags)
{
    assert_int_equal(post(bench, wr_id, length, flags), 0);
    assert_false(error_is_set(&bench->err));
}

static void assert_error(const struct bench *bench, enum error_class class, const char *part)
{
    assert_int_equal(bench->err.class, class);
    assert_int_equal(bench->err.stage, STAGE_POST);
    assert_string_equal(bench->err.subject, PEER);
    if (!strstr(bench->err.text, part))
        fail_msg("'%s' is not in '%s'", part, bench->err.text);
}

/* Polls one completion and retires what it names. */
static struct writer_request retire_next(struct bench *bench)
{
    struct ibv_wc wc;
    struct writer_request request = {.wr_id = 0};

    assert_int_equal(ibv_poll_cq(&bench->fake.completion_queue, 1, &wc), 1);
    assert_true(writer_retire(&bench->writer, wc.wr_id, wc.status == IBV_WC_SUCCESS, &request));
    return request;
}

/*
 * Posting
 */

static void test_a_write_is_posted_as_it_was_given(void **state)
{
    struct bench *bench = *state;
    struct ibv_sge entries[] = {entry(bench, 100, 10), entry(bench, 50, 1), entry(bench, 0, 40)};
    const struct fake_request *request;

    assert_int_equal(writer_write(&bench->writer, UINT64_MAX, entries, 3,
                                  IBV_SEND_SIGNALED | IBV_SEND_FENCE, FAR_ADDR + 5, FAR_RKEY,
                                  &bench->err),
                     0);
    assert_int_equal(bench->fake.request_count, 1);
    request = fake_last(&bench->fake);
    assert_true(request->wr_id == UINT64_MAX);
    assert_int_equal(request->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(request->flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    assert_true(request->remote_addr == FAR_ADDR + 5);
    assert_int_equal(request->rkey, FAR_RKEY);
    assert_int_equal(request->count, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(request->entries[i].addr == entries[i].addr);
        assert_int_equal(request->entries[i].length, entries[i].length);
        assert_int_equal(request->entries[i].lkey, bench->mr->lkey);
    }
    fake_run(&bench->fake, 1);
    assert_true(retire_next(bench).wr_id == UINT64_MAX);
    assert_memory_equal(bench->far + 5, bench->near + 100, 10);
    assert_memory_equal(bench->far + 15, bench->near + 50, 1);
    assert_memory_equal(bench->far + 16, bench->near, 40);
    assert_int_equal(bench->far[4], 0);
    assert_int_equal(bench->far[56], 0);
}

static void test_an_unsignalled_write_has_no_flag_of_its_own(void **state)
{
    struct bench *bench = *state;

    assert_posted(bench, 1, 8, 0);
    assert_int_equal(fake_last(&bench->fake)->flags, 0);
}

static void test_a_write_of_no_bytes_has_no_entries(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(writer_write(&bench->writer, 3, NULL, 0, IBV_SEND_SIGNALED, FAR_ADDR, FAR_RKEY,
                                  &bench->err),
                     0);
    assert_int_equal(fake_last(&bench->fake)->count, 0);
    assert_int_equal(bench->writer.work_requests, 1);
    assert_int_equal(bench->writer.gather_entries, 0);
    assert_int_equal(bench->writer.bytes_posted, 0);
}

static void test_a_message_is_a_signalled_send(void **state)
{
    struct bench *bench = *state;
    const struct fake_request *request;

    assert_int_equal(writer_send(&bench->writer, 77, bench->near + 64, 32, bench->mr, &bench->err),
                     0);
    request = fake_last(&bench->fake);
    assert_int_equal(request->wr_id, 77);
    assert_int_equal(request->opcode, IBV_WR_SEND);
    assert_int_equal(request->flags, IBV_SEND_SIGNALED);
    assert_int_equal(request->count, 1);
    assert_true(request->entries[0].addr == (uintptr_t)(bench->near + 64));
    assert_int_equal(request->entries[0].length, 32);
    assert_int_equal(request->entries[0].lkey, bench->mr->lkey);
    assert_int_equal(writer_room(&bench->writer), DEPTH - 1);
    assert_int_equal(bench->writer.work_requests, 0);
    assert_int_equal(bench->writer.bytes_posted, 0);
}

static void test_a_read_of_nothing_names_no_memory(void **state)
{
    struct bench *bench = *state;
    const struct fake_request *request;

    assert_int_equal(writer_read_nothing(&bench->writer, 78, &bench->err), 0);
    request = fake_last(&bench->fake);
    assert_int_equal(request->wr_id, 78);
    assert_int_equal(request->opcode, IBV_WR_RDMA_READ);
    assert_int_equal(request->flags, IBV_SEND_SIGNALED);
    assert_int_equal(request->count, 0);
    assert_int_equal(request->remote_addr, 0);
    assert_int_equal(request->rkey, 0);
    assert_int_equal(writer_room(&bench->writer), DEPTH - 1);
    assert_int_equal(bench->writer.work_requests, 0);
    fake_run(&bench->fake, 1);
    assert_false(retire_next(bench).is_write);
}

static void test_requests_are_posted_in_order(void **state)
{
    struct bench *bench = *state;

    assert_posted(bench, 30, 1, 0);
    assert_int_equal(writer_send(&bench->writer, 10, bench->near, 1, bench->mr, &bench->err), 0);
    assert_posted(bench, 20, 2, 0);
    assert_int_equal(writer_read_nothing(&bench->writer, 5, &bench->err), 0);
    assert_int_equal(bench->fake.request_count, 4);
    assert_int_equal(bench->fake.requests[0].wr_id, 30);
    assert_int_equal(bench->fake.requests[1].wr_id, 10);
    assert_int_equal(bench->fake.requests[2].wr_id, 20);
    assert_int_equal(bench->fake.requests[3].wr_id, 5);
}

static void test_writes_are_counted(void **state)
{
    struct bench *bench = *state;
    struct ibv_sge entries[] = {entry(bench, 0, 100), entry(bench, 100, 28)};

    assert_posted(bench, 1, 1000, 0);
    assert_int_equal(
        writer_write(&bench->writer, 2, entries, 2, 0, FAR_ADDR, FAR_RKEY, &bench->err), 0);
    assert_int_equal(bench->writer.work_requests, 2);
    assert_int_equal(bench->writer.gather_entries, 3);
    assert_int_equal(bench->writer.bytes_posted, 1128);
    assert_int_equal(bench->writer.bytes_retired, 0);
}

static void test_bytes_of_one_request_may_pass_32_bits(void **state)
{
    struct bench *bench = *state;
    struct ibv_sge entries[] = {entry(bench, 0, UINT32_MAX), entry(bench, 0, UINT32_MAX)};

    assert_int_equal(
        writer_write(&bench->writer, 1, entries, 2, 0, FAR_ADDR, FAR_RKEY, &bench->err), 0);
    assert_true(bench->writer.bytes_posted == 2 * (uint64_t)UINT32_MAX);
}

/*
 * Refusals of the provider
 */

static void test_a_full_queue_is_told(void **state)
{
    struct bench *bench = *state;

    bench->fake.max_requests = 2; /* less than it granted */
    assert_posted(bench, 1, 1, 0);
    assert_posted(bench, 2, 1, 0);
    assert_int_equal(post(bench, 3, 1, 0), -1);
    assert_error(bench, ERROR_RESOURCE, "the send queue of 4 entries is full");
    assert_non_null(strstr(bench->err.text, strerror(ENOMEM)));
    assert_int_equal(bench->fake.request_count, 2);
}

static void test_a_refused_request_is_not_counted(void **state)
{
    struct bench *bench = *state;

    assert_posted(bench, 1, 100, 0);
    bench->fake.fail_send = 1;
    bench->fake.fail_errno = EIO;
    assert_int_equal(post(bench, 2, 50, 0), -1);
    assert_int_equal(writer_room(&bench->writer), DEPTH - 1);
    assert_int_equal(bench->writer.work_requests, 1);
    assert_int_equal(bench->writer.gather_entries, 1);
    assert_int_equal(bench->writer.bytes_posted, 100);
    error_clear(&bench->err);
    assert_posted(bench, 3, 1, IBV_SEND_SIGNALED);
    fake_run(&bench->fake, UINT_MAX);
    assert_int_equal(retire_next(bench).wr_id, 3);
    assert_int_equal(writer_room(&bench->writer), DEPTH);
}

static void test_a_request_that_is_too_large_is_told(void **state)
{
    struct bench *bench = *state;

    bench->fake.max_msg_sz = 100;
    assert_posted(bench, 1, 100, 0);
    assert_int_equal(post(bench, 2, 101, 0), -1);
    assert_error(bench, ERROR_RESOURCE, "the device refuses its size");
    assert_non_null(strstr(bench->err.text, strerror(EINVAL)));
}

static void test_too_many_entries_are_told(void **state)
{
    struct bench *bench = *state;
    struct ibv_sge entries[] = {entry(bench, 0, 1), entry(bench, 1, 1)};

    bench->fake.max_sge = 1;
    assert_int_equal(
        writer_write(&bench->writer, 1, entries, 2, 0, FAR_ADDR, FAR_RKEY, &bench->err), -1);
    assert_error(bench, ERROR_RESOURCE, "its number of gather entries");
}

static void test_other_refusals_are_told_with_the_systems_words(void **state)
{
    struct bench *bench = *state;

    bench->fake.fail_send = 1;
    bench->fake.fail_errno = EIO;
    assert_int_equal(post(bench, 1, 1, 0), -1);
    assert_error(bench, ERROR_UNAVAILABLE, strerror(EIO));
    assert_non_null(strstr(bench->err.text, "an RDMA write"));
}

static void test_a_negative_errno_is_one(void **state)
{
    static const struct {
        int errnum;
        enum error_class class;
        const char *part;
    } rows[] = {
        {-EINVAL, ERROR_RESOURCE, "the device refuses"},
        {-ENOMEM, ERROR_RESOURCE, "is full"},
        {-ENOTCONN, ERROR_UNAVAILABLE, "cannot post"},
    };
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        error_clear(&bench->err);
        bench->fake.fail_send = 1;
        bench->fake.fail_errno = rows[i].errnum;
        assert_int_equal(post(bench, 1, 1, 0), -1);
        assert_error(bench, rows[i].class, rows[i].part);
        assert_error(bench, rows[i].class, strerror(-rows[i].errnum));
    }
    error_clear(&bench->err);
    bench->fake.negative_errno = true;
    bench->fake.max_msg_sz = 1;
    assert_int_equal(post(bench, 1, 2, 0), -1);
    assert_error(bench, ERROR_RESOURCE, strerror(EINVAL));
}

static void test_refused_messages_and_reads_say_what_they_were(void **state)
{
    struct bench *bench = *state;

    bench->fake.fail_errno = ENOMEM;
    bench->fake.fail_send = 1;
    assert_int_equal(writer_send(&bench->writer, 1, bench->near, 1, bench->mr, &bench->err), -1);
    assert_error(bench, ERROR_RESOURCE, "cannot post a message");
    error_clear(&bench->err);
    bench->fake.fail_send = 1;
    assert_int_equal(writer_read_nothing(&bench->writer, 1, &bench->err), -1);
    assert_error(bench, ERROR_RESOURCE, "cannot post an RDMA read");
    assert_int_equal(writer_room(&bench->writer), DEPTH);
}

/*
 * Retiring
 */

static void test_room_goes_and_comes_back(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(writer_room(&bench->writer), DEPTH);
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_posted(bench, i, 1, IBV_SEND_SIGNALED);
        assert_int_equal(writer_room(&bench->writer), DEPTH - 1 - i);
    }
    fake_run(&bench->fake, UINT_MAX);
    for (unsigned i = 0; i < DEPTH; i++) {
        assert_int_equal(retire_next(bench).wr_id, i);
        assert_int_equal(writer_room(&bench->writer), i + 1);
    }
}

static void test_a_request_is_its_own_account(void **state)
{
    struct bench *bench = *state;
    struct writer_request request;

    assert_posted(bench, 41, 17, IBV_SEND_SIGNALED);
    assert_int_equal(writer_send(&bench->writer, 42, bench->near, 9, bench->mr, &bench->err), 0);
    fake_run(&bench->fake, UINT_MAX);
    request = retire_next(bench);
    assert_int_equal(request.wr_id, 41);
    assert_int_equal(request.bytes, 17);
    assert_true(request.is_write);
    request = retire_next(bench);
    assert_int_equal(request.wr_id, 42);
    assert_int_equal(request.bytes, 0);
    assert_false(request.is_write);
    assert_int_equal(bench->writer.bytes_retired, 17);
}

static void test_unsignalled_requests_retire_with_a_later_one(void **state)
{
    struct bench *bench = *state;
    struct writer_request request;

    assert_posted(bench, 1, 10, 0);
    assert_posted(bench, 2, 20, 0);
    assert_posted(bench, 3, 40, IBV_SEND_SIGNALED);
    assert_posted(bench, 4, 80, IBV_SEND_SIGNALED);
    fake_run(&bench->fake, UINT_MAX);
    request = retire_next(bench);
    assert_int_equal(request.wr_id, 3);
    assert_int_equal(request.bytes, 40);
    assert_int_equal(bench->writer.bytes_retired, 70);
    assert_int_equal(writer_room(&bench->writer), DEPTH - 1);
    assert_int_equal(retire_next(bench).wr_id, 4);
    assert_int_equal(bench->writer.bytes_retired, 150);
    assert_int_equal(fake_outstanding(&bench->fake), 0);
}

static void test_an_unknown_request_is_refused(void **state)
{
    struct bench *bench = *state;
    struct writer_request request;

    assert_false(writer_retire(&bench->writer, 0, true, &request));
    assert_posted(bench, 1, 10, 0);
    assert_posted(bench, 2, 20, 0);
    assert_false(writer_retire(&bench->writer, 3, true, &request));
    assert_int_equal(writer_room(&bench->writer), DEPTH - 2);
    assert_int_equal(bench->writer.bytes_retired, 0);
    assert_true(writer_retire(&bench->writer, 1, true, &request));
    assert_false(writer_retire(&bench->writer, 1, true, &request));
    assert_int_equal(bench->writer.bytes_retired, 10);
}

static void test_of_requests_with_one_wr_id_the_oldest_retires(void **state)
{
    struct bench *bench = *state;

    assert_posted(bench, 9, 1, IBV_SEND_SIGNALED);
    assert_posted(bench, 9, 2, IBV_SEND_SIGNALED);
    fake_run(&bench->fake, UINT_MAX);
    assert_int_equal(retire_next(bench).bytes, 1);
    assert_int_equal(retire_next(bench).bytes, 2);
}

static void test_the_account_goes_round(void **state)
{
    struct bench *bench = *state;
    uint64_t bytes = 0;

    /* Three at a time in a ring of four: each begins one further. */
    for (unsigned round = 0; round < 3 * DEPTH; round++) {
        for (unsigned i = 0; i < 3; i++) {
            assert_posted(bench, 3 * round + i, round + 1, i == 2 ? IBV_SEND_SIGNALED : 0);
            bytes += round + 1;
        }
        assert_int_equal(writer_room(&bench->writer), DEPTH - 3);
        fake_run(&bench->fake, UINT_MAX);
        assert_int_equal(retire_next(bench).wr_id, 3 * round + 2);
        assert_int_equal(writer_room(&bench->writer), DEPTH);
        assert_int_equal(bench->writer.bytes_retired, bytes);
    }
    assert_int_equal(bench->writer.bytes_posted, bytes);
    assert_int_equal(bench->writer.work_requests, 9 * DEPTH);
}

static void test_a_failed_requests_bytes_are_not_retired(void **state)
{
    struct bench *bench = *state;
    struct writer_request request;

    assert_posted(bench, 1, 10, 0);
    assert_posted(bench, 2, 20, IBV_SEND_SIGNALED);
    assert_posted(bench, 3, 40, 0);
    fake_run(&bench->fake, 1);
    bench->fake.next_status = IBV_WC_REM_ACCESS_ERR;
    fake_run(&bench->fake, UINT_MAX);
    request = retire_next(bench);
    assert_int_equal(request.wr_id, 2);
    assert_int_equal(request.bytes, 20);
    assert_int_equal(bench->writer.bytes_retired, 10);
    assert_int_equal(retire_next(bench).wr_id, 3); /* flushed */
    assert_int_equal(bench->writer.bytes_retired, 10);
    assert_int_equal(writer_room(&bench->writer), DEPTH);
}

static void test_an_lkey_in_place_of_the_rkey_fails(void **state)
{
    struct bench *bench = *state;
    struct ibv_sge one = entry(bench, 0, 8);
    struct ibv_mr *far = fake_register(&bench->fake, bench->far, sizeof(bench->far));
    struct ibv_wc wc;

    bench->fake.far_rkey = far->rkey;
    assert_int_equal(writer_write(&bench->writer, 1, &one, 1, 0, FAR_ADDR, far->lkey, &bench->err),
                     0);
    fake_run(&bench->fake, 1);
    assert_int_equal(ibv_poll_cq(&bench->fake.completion_queue, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
}

static void test_a_closed_writer_can_be_closed_again(void **state)
{
    struct bench *bench = *state;

    assert_posted(bench, 1, 1, 0);
    writer_close(&bench->writer);
    assert_null(bench->writer.posted);
    writer_close(&bench->writer);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_write_is_posted_as_it_was_given),
        TEST(test_an_unsignalled_write_has_no_flag_of_its_own),
        TEST(test_a_write_of_no_bytes_has_no_entries),
        TEST(test_a_message_is_a_signalled_send),
        TEST(test_a_read_of_nothing_names_no_memory),
        TEST(test_requests_are_posted_in_order),
        TEST(test_writes_are_counted),
        TEST(test_bytes_of_one_request_may_pass_32_bits),
        TEST(test_a_full_queue_is_told),
        TEST(test_a_refused_request_is_not_counted),
        TEST(test_a_request_that_is_too_large_is_told),
        TEST(test_too_many_entries_are_told),
        TEST(test_other_refusals_are_told_with_the_systems_words),
        TEST(test_a_negative_errno_is_one),
        TEST(test_refused_messages_and_reads_say_what_they_were),
        TEST(test_room_goes_and_comes_back),
        TEST(test_a_request_is_its_own_account),
        TEST(test_unsignalled_requests_retire_with_a_later_one),
        TEST(test_an_unknown_request_is_refused),
        TEST(test_of_requests_with_one_wr_id_the_oldest_retires),
        TEST(test_the_account_goes_round),
        TEST(test_a_failed_requests_bytes_are_not_retired),
        TEST(test_an_lkey_in_place_of_the_rkey_fails),
        TEST(test_a_closed_writer_can_be_closed_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

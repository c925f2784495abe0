/*
 * test-messages.c - the buffers of messages: posted, used, and used again.
 */
#include "config.h"

#include "messages.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "completion.h"
#include "fake-provider.h"

#define PEER "192.0.2.7:7475"
#define COUNT 8
#define DEPTH 20

struct bench {
    struct fake_provider fake;
    struct writer writer;
    struct messages messages;
    struct error err;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        return -1;
    fake_open(&bench->fake);
    *state = bench;
    if (writer_init(&bench->writer, &bench->fake.id, PEER, DEPTH, 1, &bench->err) < 0)
        return -1;
    return messages_open(&bench->messages, &bench->fake.id, COUNT, &bench->err);
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    messages_close(&bench->messages);
    writer_close(&bench->writer);
    fake_close(&bench->fake);
    free(bench);
    return 0;
}

static const struct wire_message *grant(uint64_t acknowledged)
{
    static struct wire_message message;

    message = (struct wire_message){.type = WIRE_GRANT};
    message.grant.slot = 1;
    message.grant.acknowledged = acknowledged;
    return &message;
}

static void send_grant(struct bench *bench, uint64_t acknowledged)
{
    assert_true(messages_can_send(&bench->messages, &bench->writer));
    assert_int_equal(
        messages_send(&bench->messages, &bench->writer, grant(acknowledged), &bench->err), 0);
}

/* Takes the completion of a send, as a session does. */
static void take_sent(struct bench *bench)
{
    struct ibv_wc wc;
    struct writer_request request;

    assert_int_equal(ibv_poll_cq(&bench->fake.completion_queue, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_true(writer_retire(&bench->writer, wc.wr_id, true, &request));
    messages_sent(&bench->messages, wc.wr_id);
}

/* The peer sends len bytes, and they are taken. */
static int receive(struct bench *bench, const void *data, size_t len, struct wire_message *message)
{
    struct ibv_wc wc;

    assert_true(fake_deliver(&bench->fake, data, len));
    assert_int_equal(ibv_poll_cq(&bench->fake.completion_queue, 1, &wc), 1);
    assert_true(wc.wr_id & MESSAGES_WRID_RECV);
    return messages_received(&bench->messages, wc.wr_id, wc.byte_len, PEER, message, &bench->err);
}

/* What the nth request that was posted would send. */
static void assert_sends_grant(const struct bench *bench, unsigned n, uint64_t acknowledged)
{
    const struct fake_request *request = &bench->fake.requests[n];
    struct wire_message message;
    const char *problem;

    assert_int_equal(request->count, 1);
    assert_int_equal(wire_decode((const void *)(uintptr_t)request->entries[0].addr,
                                 request->entries[0].length, &message, &problem),
                     WIRE_OK);
    assert_int_equal(message.type, WIRE_GRANT);
    assert_int_equal(message.grant.acknowledged, acknowledged);
}

/* No two of the receives posted and the sends so far share a byte, and all are whole buffers. */
static void assert_buffers_are_distinct(const struct bench *bench, const uint64_t *starts,
                                        unsigned count)
{
    const uint64_t first = (uintptr_t)bench->messages.memory.addr;

    for (unsigned i = 0; i < count; i++) {
        assert_true(starts[i] >= first &&
                    starts[i] + WIRE_MESSAGE_BYTES <= first + bench->messages.memory.bytes);
        for (unsigned j = 0; j < i; j++)
            assert_true(starts[i] >= starts[j] + WIRE_MESSAGE_BYTES ||
                        starts[j] >= starts[i] + WIRE_MESSAGE_BYTES);
    }
}

/*
 * Opening and closing
 */

static void test_all_receives_are_posted_at_once(void **state)
{
    struct bench *bench = *state;
    uint64_t starts[COUNT];

    assert_int_equal(bench->messages.count, COUNT);
    assert_int_equal(bench->fake.receive_count, COUNT);
    for (unsigned i = 0; i < COUNT; i++) {
        const struct fake_receive *posted = &bench->fake.receives[i];

        assert_true(posted->wr_id == (MESSAGES_WRID_RECV | i));
        assert_int_equal(posted->entry.length, WIRE_MESSAGE_BYTES);
        assert_int_equal(posted->entry.lkey, bench->messages.memory.mr->lkey);
        starts[i] = posted->entry.addr;
    }
    assert_buffers_are_distinct(bench, starts, COUNT);
    assert_int_equal(bench->fake.request_count, 0);
}

static void test_the_memory_is_whole_pages_that_the_peer_cannot_write(void **state)
{
    struct bench *bench = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct ibv_mr *mr = bench->messages.memory.mr;

    assert_int_equal(bench->fake.memory.count, 1);
    assert_int_equal(bench->fake.last_access, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal((uintptr_t)mr->addr % page, 0);
    assert_int_equal(mr->length % page, 0);
    assert_true(mr->length >= 2 * (size_t)COUNT * WIRE_MESSAGE_BYTES);
}

static void test_the_most_messages_have_their_buffers(void **state)
{
    struct bench *bench = *state;
    uint64_t starts[2 * MESSAGES_MAX];

    messages_close(&bench->messages);
    writer_close(&bench->writer);
    bench->fake.receive_count = 0;
    assert_int_equal(
        writer_init(&bench->writer, &bench->fake.id, PEER, MESSAGES_MAX, 1, &bench->err), 0);
    assert_int_equal(messages_open(&bench->messages, &bench->fake.id, MESSAGES_MAX, &bench->err),
                     0);
    assert_int_equal(bench->fake.receive_count, MESSAGES_MAX);
    for (unsigned i = 0; i < MESSAGES_MAX; i++) {
        send_grant(bench, i);
        assert_true(bench->fake.receives[i].wr_id == (MESSAGES_WRID_RECV | i));
        starts[i] = bench->fake.receives[i].entry.addr;
        starts[MESSAGES_MAX + i] = fake_last(&bench->fake)->entries[0].addr;
    }
    assert_buffers_are_distinct(bench, starts, 2 * MESSAGES_MAX);
    assert_false(messages_can_send(&bench->messages, &bench->writer));
}

static void test_one_message_is_enough(void **state)
{
    struct bench *bench = *state;
    uint64_t starts[2];

    messages_close(&bench->messages);
    bench->fake.receive_count = 0;
    assert_int_equal(messages_open(&bench->messages, &bench->fake.id, 1, &bench->err), 0);
    assert_int_equal(bench->fake.receive_count, 1);
    send_grant(bench, 1);
    starts[0] = bench->fake.receives[0].entry.addr;
    starts[1] = fake_last(&bench->fake)->entries[0].addr;
    assert_buffers_are_distinct(bench, starts, 2);
    assert_false(messages_can_send(&bench->messages, &bench->writer));
    fake_run(&bench->fake, 1);
    take_sent(bench);
    assert_true(messages_can_send(&bench->messages, &bench->writer));
}

/* The wr_id has a byte for a buffer's number, and the most there can be must fit. */
static void test_a_buffers_number_fits_its_wr_id(void **state)
{
    (void)state;
    assert_true(2 * MESSAGES_MAX <= UINT8_MAX + 1);
    assert_int_equal(MESSAGES_MAX, WIRE_MAX_SLOTS + wire_extra_messages(WIRE_MAX_OBJECTS));
}

static void test_closing_gives_the_memory_back(void **state)
{
    struct bench *bench = *state;

    messages_close(&bench->messages);
    assert_int_equal(bench->fake.memory.count, 0);
    messages_close(&bench->messages);
}

static void test_memory_that_cannot_be_registered_is_told(void **state)
{
    struct bench *bench = *state;
    struct messages other;

    bench->fake.fail_registration = ENOMEM;
    assert_int_equal(messages_open(&other, &bench->fake.id, COUNT, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_int_equal(bench->err.stage, STAGE_REGISTER);
    assert_non_null(strstr(bench->err.text, "messages"));
    assert_non_null(strstr(bench->err.text, strerror(ENOMEM)));
    assert_non_null(strstr(bench->err.hint, "ulimit -l"));
    assert_null(other.memory.addr);
}

static void test_a_receive_that_cannot_be_posted_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    struct messages other;

    bench->fake.fail_receive = COUNT; /* the last one */
    bench->fake.fail_errno = -ENOMEM;
    assert_int_equal(messages_open(&other, &bench->fake.id, COUNT, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_int_equal(bench->err.stage, STAGE_POST);
    assert_non_null(strstr(bench->err.text, strerror(ENOMEM)));
    assert_null(other.memory.addr);
    assert_int_equal(bench->fake.memory.count, 1);
}

/*
 * Sending
 */

static void test_a_message_is_sent_as_it_is_encoded(void **state)
{
    struct bench *bench = *state;
    const struct fake_request *request;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    size_t len = wire_encode(grant(4711), encoded);

    send_grant(bench, 4711);
    request = fake_last(&bench->fake);
    assert_int_equal(request->opcode, IBV_WR_SEND);
    assert_int_equal(request->flags, IBV_SEND_SIGNALED);
    assert_true((request->wr_id & ~UINT64_C(0xff)) == MESSAGES_WRID_SEND);
    assert_int_equal(request->entries[0].length, len);
    assert_int_equal(request->entries[0].lkey, bench->messages.memory.mr->lkey);
    assert_memory_equal((const void *)(uintptr_t)request->entries[0].addr, encoded, len);
}

static void test_sends_under_way_have_buffers_of_their_own(void **state)
{
    struct bench *bench = *state;
    uint64_t starts[2 * COUNT];

    for (unsigned i = 0; i < COUNT; i++) {
        send_grant(bench, 100 + i);
        starts[i] = bench->fake.receives[i].entry.addr;
        starts[COUNT + i] = fake_last(&bench->fake)->entries[0].addr;
        for (unsigned j = 0; j < i; j++)
            assert_true(bench->fake.requests[i].wr_id != bench->fake.requests[j].wr_id);
    }
    assert_buffers_are_distinct(bench, starts, 2 * COUNT);
    assert_false(messages_can_send(&bench->messages, &bench->writer));
    for (unsigned i = 0; i < COUNT; i++)
        assert_sends_grant(bench, i, 100 + i);
}

static void test_a_sends_buffer_comes_back_when_it_completes(void **state)
{
    struct bench *bench = *state;
    uint64_t first;

    for (unsigned i = 0; i < COUNT; i++)
        send_grant(bench, i);
    first = bench->fake.requests[0].entries[0].addr;
    fake_run(&bench->fake, 1);
    assert_false(messages_can_send(&bench->messages, &bench->writer));
    take_sent(bench);
    send_grant(bench, 1000);
    assert_true(fake_last(&bench->fake)->entries[0].addr == first);
    assert_false(messages_can_send(&bench->messages, &bench->writer));
    for (unsigned i = 1; i < COUNT; i++)
        assert_sends_grant(bench, i, i);
}

static void test_buffers_go_round_for_long(void **state)
{
    struct bench *bench = *state;

    for (unsigned round = 0; round < 100; round++) {
        unsigned under_way = 1 + round % COUNT;

        for (unsigned i = 0; i < under_way; i++)
            send_grant(bench, round + i);
        for (unsigned i = 0; i < under_way; i++)
            assert_sends_grant(bench, bench->fake.request_count - under_way + i, round + i);
        fake_run(&bench->fake, UINT_MAX);
        for (unsigned i = 0; i < under_way; i++)
            take_sent(bench);
    }
    assert_int_equal(bench->messages.free_count, COUNT);
    assert_int_equal(writer_room(&bench->writer), DEPTH);
}

static void test_a_full_send_queue_takes_no_message(void **state)
{
    struct bench *bench = *state;

    for (unsigned i = 0; i < DEPTH; i++) {
        assert_true(messages_can_send(&bench->messages, &bench->writer));
        assert_int_equal(
            writer_write(&bench->writer, 0, NULL, 0, IBV_SEND_SIGNALED, 0, 0, &bench->err), 0);
    }
    assert_false(messages_can_send(&bench->messages, &bench->writer));
}

static void test_a_message_that_cannot_be_posted_is_told(void **state)
{
    struct bench *bench = *state;

    bench->fake.fail_send = 1;
    bench->fake.fail_errno = EINVAL;
    assert_int_equal(messages_send(&bench->messages, &bench->writer, grant(1), &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_string_equal(bench->err.subject, PEER);
}

/*
 * Receiving
 */

static void test_a_received_message_is_decoded_and_its_buffer_posted_again(void **state)
{
    struct bench *bench = *state;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    struct wire_message message;

    for (unsigned i = 0; i < 3 * COUNT; i++) {
        const struct fake_receive *posted;

        assert_int_equal(receive(bench, encoded, wire_encode(grant(i), encoded), &message), 0);
        assert_int_equal(message.type, WIRE_GRANT);
        assert_int_equal(message.grant.acknowledged, i);
        assert_int_equal(bench->fake.receive_count, COUNT + i + 1);
        posted = &bench->fake.receives[COUNT + i];
        assert_true(posted->wr_id == (MESSAGES_WRID_RECV | (i % COUNT)));
        assert_true(posted->entry.addr == bench->fake.receives[i % COUNT].entry.addr);
        assert_int_equal(posted->entry.length, WIRE_MESSAGE_BYTES);
    }
    assert_false(error_is_set(&bench->err));
}

static void test_messages_that_wait_keep_their_buffers(void **state)
{
    struct bench *bench = *state;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    struct wire_message message;
    struct ibv_wc wc;

    for (unsigned i = 0; i < COUNT; i++)
        assert_true(fake_deliver(&bench->fake, encoded, wire_encode(grant(i), encoded)));
    assert_false(fake_deliver(&bench->fake, encoded, 4));
    send_grant(bench, 999);
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(ibv_poll_cq(&bench->fake.completion_queue, 1, &wc), 1);
        assert_int_equal(
            messages_received(&bench->messages, wc.wr_id, wc.byte_len, PEER, &message, &bench->err),
            0);
        assert_int_equal(message.grant.acknowledged, i);
    }
}

static void test_the_largest_message_fits(void **state)
{
    struct bench *bench = *state;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    struct wire_message sent = {.type = WIRE_CHUNK}, message;
    size_t len;

    sent.chunk.extent_count = WIRE_MAX_EXTENTS;
    for (unsigned i = 0; i < WIRE_MAX_EXTENTS; i++)
        sent.chunk.extents[i] = (struct wire_extent){.offset = 10 * i, .length = 5};
    len = wire_encode(&sent, encoded);
    assert_int_equal(receive(bench, encoded, len, &message), 0);
    assert_int_equal(message.chunk.extent_count, WIRE_MAX_EXTENTS);
    assert_int_equal(messages_send(&bench->messages, &bench->writer, &sent, &bench->err), 0);
    assert_int_equal(fake_last(&bench->fake)->entries[0].length, len);
}

static void assert_malformed(struct bench *bench, const void *data, size_t len)
{
    struct wire_message message;
    unsigned posted = bench->fake.receive_count;

    error_clear(&bench->err);
    assert_int_equal(receive(bench, data, len, &message), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
    assert_int_equal(bench->err.stage, STAGE_TRANSFER);
    assert_string_equal(bench->err.subject, PEER);
    assert_non_null(strstr(bench->err.text, "breaks the protocol: "));
    assert_null(strstr(bench->err.text, "(null)"));
    assert_true(bench->err.text[strlen(bench->err.text) - 1] != ' ');
    assert_int_equal(bench->fake.receive_count, posted);
}

static void test_a_malformed_message_breaks_the_protocol(void **state)
{
    struct bench *bench = *state;
    uint8_t data[WIRE_MESSAGE_BYTES] = {0};
    size_t len;

    assert_malformed(bench, data, 0);
    assert_malformed(bench, data, 4);
    len = wire_encode(grant(1), data);
    assert_malformed(bench, data, len - 1);
    assert_malformed(bench, data, len + 1);
    data[1] = 200; /* an unknown type */
    assert_malformed(bench, data, len);
}

static void test_a_short_message_is_not_made_whole_by_an_older_one(void **state)
{
    struct bench *bench = *state;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    struct wire_message message;
    size_t len = wire_encode(grant(1), encoded);

    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(receive(bench, encoded, len, &message), 0);
    assert_malformed(bench, encoded, len - 8);
}

static void test_a_receive_that_cannot_be_posted_again_is_told(void **state)
{
    struct bench *bench = *state;
    uint8_t encoded[WIRE_MESSAGE_BYTES];
    struct wire_message message;

    bench->fake.fail_receive = 1;
    bench->fake.fail_errno = -EINVAL;
    assert_int_equal(receive(bench, encoded, wire_encode(grant(1), encoded), &message), -1);
    assert_int_equal(bench->err.class, ERROR_RESOURCE);
    assert_non_null(strstr(bench->err.text, strerror(EINVAL)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_all_receives_are_posted_at_once),
        TEST(test_the_memory_is_whole_pages_that_the_peer_cannot_write),
        TEST(test_the_most_messages_have_their_buffers),
        TEST(test_one_message_is_enough),
        TEST(test_a_buffers_number_fits_its_wr_id),
        TEST(test_closing_gives_the_memory_back),
        TEST(test_memory_that_cannot_be_registered_is_told),
        TEST(test_a_receive_that_cannot_be_posted_leaves_nothing),
        TEST(test_a_message_is_sent_as_it_is_encoded),
        TEST(test_sends_under_way_have_buffers_of_their_own),
        TEST(test_a_sends_buffer_comes_back_when_it_completes),
        TEST(test_buffers_go_round_for_long),
        TEST(test_a_full_send_queue_takes_no_message),
        TEST(test_a_message_that_cannot_be_posted_is_told),
        TEST(test_a_received_message_is_decoded_and_its_buffer_posted_again),
        TEST(test_messages_that_wait_keep_their_buffers),
        TEST(test_the_largest_message_fits),
        TEST(test_a_malformed_message_breaks_the_protocol),
        TEST(test_a_short_message_is_not_made_whole_by_an_older_one),
        TEST(test_a_receive_that_cannot_be_posted_again_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

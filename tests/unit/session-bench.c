#include "config.h"

#include "session-bench.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"

#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define TIMEOUT_NS (30 * CLOCK_NS_PER_S)
#define SLOTS 4

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    (void)channel, (void)event;
    errno = EAGAIN;
    return -1;
}

int session_bench_setup(void **state)
{
    struct session_bench *bench = calloc(1, sizeof *bench);

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
    bench->fake.queue_pair.qp_context = &bench->endpoint;
    if (completion_open(&bench->endpoint.queue, &bench->fake.context, 64, &bench->err) < 0 ||
        session_open(&bench->session, &bench->endpoint, SLOTS, 1, TIMEOUT_NS, &bench->err) < 0)
        return -1;
    session_begin(&bench->session);
    return 0;
}

int session_bench_teardown(void **state)
{
    struct session_bench *bench = *state;

    messages_close(&bench->session.messages);
    writer_close(&bench->session.writer);
    completion_close(&bench->endpoint.queue);
    assert_int_equal(bench->fake.memory.count, 0);
    fake_close(&bench->fake);
    close(bench->channel.fd);
    close(bench->worker_fd);
    free(bench);
    return 0;
}

void session_bench_hear(struct session_bench *bench, const struct wire_message *message)
{
    uint8_t bytes[WIRE_MESSAGE_BYTES];

    assert_true(fake_deliver(&bench->fake, bytes, wire_encode(message, bytes)));
}

/*
 * session-bench.h - a session on the fake provider, as fixtures of cmocka. Nothing ever happens to its
 * connection: rdma_get_cm_event is replaced here, in a program that links this.
 */
#ifndef RDMAPUT_TEST_SESSION_BENCH_H
#define RDMAPUT_TEST_SESSION_BENCH_H

#include "error.h"
#include "fake-provider.h"
#include "session.h"
#include "wire.h"

struct session_bench {
    struct fake_provider fake;
    struct rdma_event_channel channel;
    struct endpoint endpoint;
    struct session session;
    int worker_fd;
    struct error err;
};

/* *state becomes the bench. */
int session_bench_setup(void **state);
int session_bench_teardown(void **state);

/* The peer sends a message. */
void session_bench_hear(struct session_bench *bench, const struct wire_message *message);

#endif

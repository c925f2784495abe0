/*
 * fake-host.h - all that a session has of its host besides verbs (tests/unit/fake-provider.h), for one
 * thread and the same in every run: a connection of librdmacm, a worker, and time.
 *
 * It takes the place of librdmacm's functions, of worker.c, of poll(2), CLOCK_MONOTONIC and getrandom(2). What is
 * under test runs until it waits. Then the world goes on, step by step, until there is something to
 * wake it up for; when nothing happens any more, time passes.
 */
#ifndef RDMAPUT_TEST_FAKE_HOST_H
#define RDMAPUT_TEST_FAKE_HOST_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "../unit/fake-provider.h"

#define FAKE_HOST_EVENTS 16
#define FAKE_HOST_PRIVATE 64
#define FAKE_HOST_PATIENCE 20 /* s that may pass between two steps, or after the last one */

struct fake_host {
    struct fake_provider fake;
    /* One step of the world, whose context it is: whether anything happened. */
    bool (*step)(void *context);
    void *context;
    /* What rdma_connect is answered with. */
    uint8_t answer[FAKE_HOST_PRIVATE];
    unsigned answer_len;
    bool refuses; /* the answer is a rejection */
    /* What happened. */
    bool accepted, disconnected; /* by what is under test */
    unsigned recv_depth;         /* of the queue pair */
    int64_t passed, idle;        /* ns since it was opened, and since the last step */
    /* Private. */
    enum rdma_cm_event_type events[FAKE_HOST_EVENTS];
    unsigned event_head, event_count, events_taken;
    struct rdma_cm_event event;
    struct rdma_event_channel channel;
    bool has_id, has_channel, has_domain, has_queue_pair;
    bool stepping;
    unsigned waits; /* since the last step */
    uint8_t randoms;
    struct worker *worker;
    int spare_fd; /* what the next descriptor was */
};

/* Until it is closed, everything in the process that waits waits in it. */
void fake_host_open(struct fake_host *host, bool (*step)(void *context), void *context);

/* What was under test has left nothing behind. */
void fake_host_close(struct fake_host *host);

/* The id of a connect request, to be adopted. */
struct rdma_cm_id *fake_host_request(struct fake_host *host);

/* An event of the connection comes. */
void fake_host_event(struct fake_host *host, enum rdma_cm_event_type event);

/* The peer ends the connection. */
void fake_host_end(struct fake_host *host);

/* Has the worker do its next job. false when there is none. */
bool fake_host_work(struct fake_host *host);

/* Time passes. */
void fake_host_pass(struct fake_host *host, unsigned ms);

#endif

/*
 * fake-provider.h - a verbs provider in memory, for unit tests.
 *
 * Posting, polling and arming go through context->ops, which the fake fills. What libibverbs itself
 * does (registering memory, queues and their events) it replaces by symbols of the same names: a
 * program that links it must not use a real device.
 *
 * A posted work request is recorded and waits. fake_run carries requests out, in order: RDMA writes
 * into the far memory, reading the near memory only then, so that memory that was used again too
 * early shows. fake_push_completion says anything else. As in hardware, an unsignalled request leaves
 * the send queue when the completion of a later one is polled.
 *
 * Memory is that of tests/lib/fake-memory.h: an lkey never equals an rkey.
 */
#ifndef FAKE_PROVIDER_H
#define FAKE_PROVIDER_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../lib/fake-memory.h"

#define FAKE_MOST_ENTRIES 64

struct fake_request {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    uint64_t remote_addr; /* of RDMA requests; else 0 */
    uint32_t rkey;
    unsigned count;
    struct ibv_sge entries[FAKE_MOST_ENTRIES];
};

struct fake_receive {
    uint64_t wr_id;
    struct ibv_sge entry;
};

struct fake_provider {
    /* What the code under test is given: &id, &queue_pair, &context. */
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_pd domain;
    struct ibv_qp queue_pair;
    struct ibv_cq completion_queue;
    struct ibv_comp_channel channel;
    struct rdma_cm_id id;

    /* What the provider refuses; 0: nothing. */
    unsigned max_requests; /* the send queue's entries: ENOMEM */
    unsigned max_sge;      /* EINVAL */
    uint64_t max_msg_sz;   /* EINVAL */
    bool negative_errno;   /* as siw: all of these come back negative */

    /* Failures to come: the nth call from now on (1: the next) gives the errno, the others do not. */
    unsigned fail_send, fail_receive;
    int fail_errno;
    int fail_registration, fail_channel, fail_queue; /* errno of every call; 0: none */
    int poll_result;                                 /* negative: what ibv_poll_cq returns */
    int arm_result;                                  /* not 0: what ibv_req_notify_cq returns */
    enum ibv_wc_status next_status;                  /* of the next request that is run */
    enum ibv_qp_state state;                         /* of the queue pair, when asked for */
    bool access_event;                               /* one to come: an access was refused */

    /* Called, unless NULL, after a request was taken, and after a receive was (request is NULL). */
    void (*posted)(void *context, const struct fake_request *request);
    void *posted_context;

    /* The memory of the far end, that RDMA writes go to. */
    uint8_t *far_memory; /* the test's own; NULL: none, every RDMA write ends in REM_ACCESS_ERR */
    size_t far_bytes;
    uint64_t far_addr;
    uint32_t far_rkey;

    /* What happened. */
    struct fake_request *requests; /* all that were taken, in order */
    unsigned request_count;
    unsigned run_count;     /* of them, carried out or flushed */
    unsigned retired_count; /* of them, no longer in the send queue */
    struct fake_receive *receives;
    unsigned receive_count;
    unsigned received_count; /* of them, filled by fake_deliver */
    struct fake_memory memory;
    int last_access; /* flags of the last registration */
    unsigned arms, events_taken, events_acknowledged;
    bool broken; /* a request failed, or fake_flush: all that is run is flushed */
    bool has_queue, has_channel;
    int queue_depth;

    /* Private. */
    struct fake_completion *completions;
    unsigned completion_count, polled_count;
    bool armed;
    int event_fd;
};

void fake_open(struct fake_provider *fake);

/* Frees what the fake allocated. What the code under test did not destroy can be asked before. */
void fake_close(struct fake_provider *fake);

/* The last request that was taken. */
const struct fake_request *fake_last(const struct fake_provider *fake);

/* How many requests are in the send queue. */
unsigned fake_outstanding(const struct fake_provider *fake);

/* Carries out the next requests, at most count of them; UINT_MAX: all. A failed one gives a completion
 * with its status, signalled or not, and all after it are flushed. */
void fake_run(struct fake_provider *fake, unsigned count);

/* Has ibv_poll_cq return this one next, after those that are there already. */
void fake_push_completion(struct fake_provider *fake, const struct ibv_wc *wc);

/* The connection is over: all that was posted, or is posted from now on and run, is flushed. */
void fake_flush(struct fake_provider *fake);

/* The peer sends a message: it goes into the oldest posted receive, which completes. false when
 * there is none (a real peer's message would end in RNR), or the connection is over. */
bool fake_deliver(struct fake_provider *fake, const void *data, size_t len);

/* The memory that an RDMA write of the peer goes to. NULL: it may not. */
uint8_t *fake_remote(const struct fake_provider *fake, uint64_t addr, uint32_t rkey, uint64_t len);

/* Registers memory of a test's own. */
struct ibv_mr *fake_register(struct fake_provider *fake, void *addr, size_t len);

#endif

/*
 * poster.h - one-sided writes into memory that a peer exposes: connect, rdma_post_writev(3), poll
 * the completions, confirm, disconnect. No message is sent and no receive is needed.
 */
#ifndef RDMAPUT_POSTER_H
#define RDMAPUT_POSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "error.h"
#include "facts.h"
#include "plan.h"
#include "source.h"

enum {
    POSTER_SIGNALED = 1,
    POSTER_FENCE = 2,
    POSTER_SOLICITED = 4,
    POSTER_INLINE = 8,
};

struct poster_job {
    struct client_target target;
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t length;      /* bytes of the region; 0: not known */
    const uint8_t *token; /* WIRE_TOKEN_BYTES, or NULL */
    uint64_t context;     /* wr_id of the first work request */
    unsigned flags;       /* POSTER_* */
    struct plan *plan;    /* sealed, PLAN_AS_GIVEN, PLAN_TARGET_REGION */
    struct source *source;
    /* Called for each completion of an RDMA write, in order. */
    void (*completed)(uint64_t wr_id, uint64_t bytes, const char *status);
    /* Called each time something may have changed: bytes of completed work requests, of so many
     * (PLAN_UNKNOWN). Returns when it is to be called again at the latest (clock.h). */
    int64_t (*progressed)(uint64_t bytes, uint64_t total);
    /* As sender_job's (sender.h). */
    void (*leave)(const struct error *err) __attribute__((noreturn));
};

struct poster_result {
    bool confirmed;        /* the far adapter has carried out all writes, not only completed them */
    uint64_t acknowledged; /* bytes of completed work requests */
    uint64_t work_requests, gather_entries;
    uint64_t duration_ns;
    struct facts facts; /* its slots are the buffers here */
};

/* 0 when every work request completed, and was confirmed where the connection allows it. */
int poster_run(const struct poster_job *job, struct poster_result *result, struct error *err);

#endif

/*
 * writer.h - posts work requests on a send queue and retires them as their completions come.
 *
 * Counts the queue's entries itself, since providers disagree on how a full queue shows, and the
 * gather entries, since some do not enforce the queue pair's own limit. An unsignalled work request
 * leaves the queue when a later one completes, so retiring goes in order of posting.
 */
#ifndef RDMAPUT_WRITER_H
#define RDMAPUT_WRITER_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "error.h"

struct writer_request {
    uint64_t wr_id;
    uint64_t bytes;
    bool is_write;
};

struct writer {
    struct rdma_cm_id *id; /* not owned */
    const char *peer;      /* not owned; for messages */
    unsigned depth;        /* entries of the send queue */
    unsigned max_sge;
    bool nothing_needs_entry;      /* see writer_read_nothing */
    struct writer_request *posted; /* ring of depth */
    unsigned head, used;
    uint64_t work_requests;  /* RDMA writes posted */
    uint64_t gather_entries; /* in them */
    uint64_t bytes_posted;   /* in them */
    uint64_t bytes_retired;  /* of those that are known to have completed */
};

int writer_init(struct writer *writer, struct rdma_cm_id *id, const char *peer, unsigned depth,
                unsigned max_sge, struct error *err);
void writer_close(struct writer *writer);

/* How many more work requests may be posted now. */
unsigned writer_room(const struct writer *writer);

/*
 * Posts one vectored RDMA write, rdma_post_writev(3). flags: IBV_SEND_*. The memory of the gather
 * entries must stay as it is until the completion (unless inline). Asserts room. 0, or -1 with
 * *err: ERROR_RESOURCE when the provider says that the queue is full or the request too large.
 */
int writer_write(struct writer *writer, uint64_t wr_id, struct ibv_sge *entries, unsigned count,
                 int flags, uint64_t remote_addr, uint32_t rkey, struct error *err);

/* Posts a signalled SEND of len bytes at addr, rdma_post_send(3). */
int writer_send(struct writer *writer, uint64_t wr_id, void *addr, size_t len, struct ibv_mr *mr,
                struct error *err);

/* Posts a signalled RDMA read of no bytes: it needs no right and no receive at the far end, and
 * its completion says that all writes before it were carried out (also on iWARP, where their
 * own completions do not). With nothing_needs_entry it has a gather entry of length 0: without
 * one, siw reads as much as the one says that was last in the same place of the queue.
 * Elsewhere it has none, since length 0 means 2^31 on some adapters (mlx4). */
int writer_read_nothing(struct writer *writer, uint64_t wr_id, struct error *err);

/* Posts a signalled RDMA read into one gather entry. */
int writer_read(struct writer *writer, uint64_t wr_id, struct ibv_sge *entry, uint64_t remote_addr,
                uint32_t rkey, struct error *err);

/*
 * Retires the work request that a completion names, and all posted before it. *request is its own
 * account. false when no such request is outstanding. succeeded: whether its status was success;
 * the bytes of those before it count as retired in any case, its own only then.
 */
bool writer_retire(struct writer *writer, uint64_t wr_id, bool succeeded,
                   struct writer_request *request);

#endif

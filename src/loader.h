/*
 * loader.h - reads planned work into registered buffers: the blocking half of a sender.
 *
 * A load is one buffer to be filled. The loader runs on a worker's thread; plan, source and digest
 * are its own while it does.
 */
#ifndef RDMAPUT_LOADER_H
#define RDMAPUT_LOADER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "error.h"
#include "plan.h"
#include "source.h"
#include "wire.h"

/* One work request that a load came to. */
struct loader_work {
    struct ibv_sge *entries; /* inside the load's own array */
    unsigned count;
    uint64_t at; /* bytes into the buffer, and so into a slot */
    uint64_t bytes;
    uint64_t dest; /* of its first byte */
};

struct load {
    unsigned index; /* of the buffer */
    uint8_t *buffer;
    uint64_t size; /* bytes that may be filled */
    uint32_t lkey;
    struct loader_work *works;
    unsigned work_count;
    struct ibv_sge *entries;
    struct wire_extent extents[WIRE_MAX_EXTENTS]; /* where the bytes belong */
    unsigned extent_count;
    uint64_t bytes;
    bool last; /* nothing is left to be loaded after this one */
    struct error error;
};

struct loader {
    struct plan *plan;     /* not owned */
    struct source *source; /* not owned */
    struct digest *digest; /* owned; NULL when none is wanted */
    struct plan_limits limits;
    unsigned most_works; /* work requests in one load */
    struct plan_entry *scratch;
    bool failed; /* a load failed: nothing more is read */
    struct plan_position recalled; /* loader_recall has hashed all before it */
    uint8_t *buffer;               /* its own, once there is need */
};

/* with_digest: every byte is added to a digest, which takes only offsets that never go back. */
int loader_open(struct loader *loader, struct plan *plan, struct source *source,
                const struct plan_limits *limits, unsigned most_works, bool with_digest,
                struct error *err);
void loader_close(struct loader *loader);

/* Turns to another plan and its source, or to the present ones anew: the digest is empty again. */
void loader_begin(struct loader *loader, struct plan *plan, struct source *source);

/*
 * Adds to the digest what the plan has below dest, without sending it: as many bytes as give at
 * most the given number of extents and LOADER_RECALL_BYTES. What is left is the next call's. The
 * number of extents, 0 when nothing is left, or -1 with *err.
 */
#define LOADER_RECALL_BYTES ((uint64_t)64 << 20)
int loader_recall(struct loader *loader, uint64_t dest, struct wire_extent *extents,
                  unsigned most_extents, int stop_fd, struct error *err);

/* Room for what a load can come to. */
int loader_prepare(const struct loader *loader, struct load *load, struct error *err);
void loader_release(struct load *load);

/* Fills one load (a worker_function; context is the loader). What went wrong stands in
 * load->error. */
void loader_fill(void *context, void *job, int stop_fd);

#endif

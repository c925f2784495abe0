/*
 * storing.h - the storing half of a receiver: what may block, on a worker's thread and in order.
 *
 * Jobs begin an object, store what a slot holds, read back what was kept, and compare and commit.
 * Where a sink's file can be written to by a device, slots become ranges of it (wire.h: placed
 * slots), which are hashed where they lie. Once one job of an object has failed, the later ones do
 * nothing, least of all a commit.
 */
#ifndef RDMAPUT_STORING_H
#define RDMAPUT_STORING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "endpoint.h"
#include "error.h"
#include "memory.h"
#include "sink.h"
#include "window.h"
#include "wire.h"

enum storing_kind {
    STORING_BEGIN,
    STORING_STORE,
    STORING_RECALL,
    STORING_END,
};

/* One thing to do, and what came of it. */
struct storing_job {
    enum storing_kind kind;
    uint32_t object;
    struct error error;
    const struct sink_request *request; /* STORING_BEGIN, as the next one; not owned */
    bool map;                           /* slots may be placed */
    unsigned slot;                      /* STORING_STORE, as the next one */
    const uint8_t *data;                /* the extents' bytes, one after another */
    unsigned extent_count;              /* and STORING_RECALL, as the next one */
    struct wire_extent extents[WIRE_MAX_EXTENTS];
    bool abandoned;            /* STORING_END: the client has given the object up */
    struct digest_value told;  /* STORING_END, STORING_RECALL: the client's */
    struct digest_value own;   /* likewise */
    uint64_t kept;             /* STORING_BEGIN: bytes that an earlier session left */
    uint64_t stored;           /* STORING_STORE: bytes */
    bool placed;               /* STORING_STORE: the slot was placed, as the extent says */
    struct window_place place; /* STORING_STORE: what it is now */
    bool committed;            /* STORING_END */
};

struct storing_placement {
    struct memory memory;
    struct window_place place;
};

struct storing {
    struct sink *sink;               /* not owned */
    const struct endpoint *endpoint; /* not owned */
    unsigned slot_count;
    size_t slot_size;
    struct sink_object *object; /* the one that was begun */
    struct digest *digest;
    bool failed;       /* nothing more is stored of it */
    bool cut_due;      /* what was kept and not recalled is to go first */
    uint8_t *buffer;   /* to read back into, once there is need */
    int map_fd;        /* the sink's; only with place_to */
    uint64_t place_at; /* what is to be placed next */
    uint64_t place_to; /* the object's size, or place_at when no more is placed */
    struct storing_placement placements[WINDOW_MAX_SLOTS];
};

/* For slots that a client of that endpoint fills. -1 with *err; storing_close is due in any case. */
int storing_open(struct storing *storing, struct sink *sink, const struct endpoint *endpoint,
                 unsigned slot_count, size_t slot_size, struct error *err);

/* Does a struct storing_job (a worker_function; context is the struct storing). */
void storing_do(void *context, void *job, int stop_fd);

/* When the worker has ended. An object that is not committed is abandoned, or kept if it may be.
 * Fine when zeroed. */
void storing_close(struct storing *storing, bool keep);

#endif

/*
 * sender.h - the client's end of a write session: one object into a server's slots.
 */
#ifndef RDMAPUT_SENDER_H
#define RDMAPUT_SENDER_H

#include <stdint.h>

#include "client.h"
#include "digest.h"
#include "error.h"
#include "plan.h"
#include "source.h"

struct sender_job {
    struct client_target target;
    const char *name;  /* the object's name at the server; empty: none */
    struct plan *plan; /* sealed, PLAN_BY_DEST, PLAN_TARGET_SLOT */
    struct source *source;
};

struct sender_result {
    struct digest_value digest; /* what the server committed */
    uint64_t acknowledged;      /* bytes the server has stored */
    uint64_t work_requests, gather_entries, chunks;
    uint64_t pinned;      /* bytes of registered memory here */
    uint64_t duration_ns; /* from the established connection to DONE */
};

/* Delivers the object. 0 only when the server has verified and committed it. result is filled in as
 * far as it went in any case. */
int sender_run(const struct sender_job *job, struct sender_result *result, struct error *err);

#endif

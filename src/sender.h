/*
 * sender.h - the client's end of a write session: objects into a server's slots.
 *
 * The calling thread keeps the connection and the account; a worker does what may block, in order:
 * it opens an object's sources and reads them.
 */
#ifndef RDMAPUT_SENDER_H
#define RDMAPUT_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "client.h"
#include "digest.h"
#include "error.h"
#include "exchange-client.h"
#include "facts.h"
#include "plan.h"
#include "secret.h"
#include "source.h"
#include "wire.h"

/* One object to be delivered. */
struct sender_object {
    const char *name;  /* at the server; empty: none */
    struct plan *plan; /* sealed, PLAN_BY_DEST, PLAN_TARGET_SLOT */
    struct source *source;
    bool preserve; /* with the following */
    mode_t mode;   /* permissions */
    struct timespec accessed, modified;
    uint8_t identity[WIRE_IDENTITY_BYTES]; /* of the source, with resume */
};

/*
 * Makes the object with that index, from 0, ready to be read. Called once each, in order, on a
 * thread of the sender's, when the one before has been read. 0, or -1 with *err. What is in it
 * belongs to the callee and is used until close, which is called for each that was opened.
 */
typedef int (*sender_open)(void *context, size_t index, struct sender_object *object,
                           struct error *err);
typedef void (*sender_close)(void *context, size_t index, struct sender_object *object);

/* An object was committed, of which kept bytes were there before (cause NULL), or failed by itself, of
 * many; what a session was at as it failed is not told of. On the calling thread. */
typedef void (*sender_settled)(void *context, size_t index, const struct digest_value *digest,
                               uint64_t kept, const struct error *cause);

/* How far a session is. */
struct sender_state {
    uint64_t stored;  /* bytes, by the server, of all objects */
    uint64_t kept;    /* and those that it had before */
    uint64_t total;   /* PLAN_UNKNOWN: not known, or not yet, or of many objects */
    size_t committed; /* objects */
};

/* Each time something of that may have changed. On the calling thread. Returns when it is to be called
 * again at the latest (clock.h). */
typedef int64_t (*sender_progressed)(void *context, const struct sender_state *state);

struct sender_job {
    struct client_target target;
    const struct secret *secret;            /* to be proved, by both ends; NULL: none */
    const struct client_places *places; /* go before target's host and port; NULL: none */
    const struct exchange_meeting *meeting; /* that told them, and tells READY; NULL: none */
    size_t count;                           /* objects */
    bool many; /* each is committed by itself, and fails by itself; else there is one */
    bool sync; /* durable before it counts as committed */
    bool resume;
    bool map; /* write straight into the object, where the server can have that; more rkeys then
               * come as messages */
    sender_open open;
    sender_close close;
    sender_settled settled;
    sender_progressed progressed; /* NULL: not wanted */
    void *context;
    /* Ends the process with the session's error, which it is called with when a file's storage does
     * not answer: a thread still uses what belongs to the session. */
    void (*leave)(const struct error *err) __attribute__((noreturn));
};

/* How long a session stood still, by what it waited for, in ns. */
struct sender_waits {
    uint64_t source;      /* files to be opened and read */
    uint64_t fabric;      /* writes and messages that were under way */
    uint64_t destination; /* the server, to store, grant and commit */
};

struct sender_result {
    struct digest_value digest; /* of what the server committed, the last object's */
    size_t committed, failed;   /* objects */
    uint64_t committed_bytes;   /* of data, in all of them */
    uint64_t acknowledged;      /* bytes the server has stored */
    uint64_t kept;              /* bytes it had from earlier sessions, and has committed */
    uint64_t sent;              /* bytes that were written with RDMA */
    uint64_t work_requests, gather_entries, chunks;
    uint64_t duration_ns; /* from the established connection to the last DONE */
    struct facts facts;   /* filled in where the connection stood */
    struct sender_waits waits;
};

/* The pinned memory with which a session has all it can use. */
uint64_t sender_wanted_memory(void);

/* Delivers the objects. 0 only when the server has verified and committed all of them. With many,
 * each that fails is logged, and *err is then the class of the first. result is filled in as far as
 * it went in any case, its facts too. */
int sender_run(const struct sender_job *job, struct sender_result *result, struct error *err);

#endif

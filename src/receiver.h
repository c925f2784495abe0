/*
 * receiver.h - the server's end of a write session: objects out of slots into a sink.
 *
 * The thread of the session keeps the connection and the account; a worker does what may block, in
 * order: it begins an object, stores chunks, compares and commits.
 */
#ifndef RDMAPUT_RECEIVER_H
#define RDMAPUT_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "endpoint.h"
#include "error.h"
#include "secret.h"
#include "sink.h"
#include "wire.h"

/* What one object came to. */
struct receiver_object {
    const char *name; /* empty: none */
    struct digest_value digest;
    uint64_t kept; /* bytes that an earlier session had left */
    uint64_t pinned;
    uint64_t duration_ns;
};

struct receiver_result {
    bool admitted;              /* an object was begun */
    unsigned committed, failed; /* objects */
    uint64_t stored;            /* bytes that the sink has taken */
};

/* An object was committed (cause NULL), or failed: by itself, of many, which has been said, or with the
 * session. Of those whose storage does not answer that is said before stuck, and they may be committed
 * after all. On the session's thread. */
typedef void (*receiver_settled)(void *context, const char *peer,
                                 const struct receiver_object *object, const struct error *cause);

/* A session to be. */
struct receiver_job {
    struct sink *sink;
    const struct wire_hello *hello; /* what the client said as it connected */
    const struct secret *secret;    /* to be proved, by both ends; NULL: none */
    int ready_fd; /* where READY goes, the connection of an exchange; -1: a message like any other */
    receiver_settled settled;
    uint64_t memory; /* bytes that the session may pin: receiver_least_memory or more */
    bool others;     /* are served besides */
    /*
     * Called when the session has ended with *err and the connection is gone, but storage does not
     * answer: receiver_run waits for it as long as it takes. What came of the session until then is
     * in the result.
     */
    void (*stuck)(void *context, const struct error *err);
    void *context;
};

/* The pinned memory without which no session works beside others, or alone with a single object, and that with
 * which it has all it can use. */
uint64_t receiver_least_memory(void);
uint64_t receiver_single_memory(void);
uint64_t receiver_wanted_memory(void);

/*
 * Receives one object, or many, on an adopted endpoint: makes its queues
 * in a domain of its own, accepts, and goes through the session to its end. 0 when every object was
 * committed; else *err is that of the session, or the first one's. Of many, each object that fails
 * is logged too. What was stored of a failed one is abandoned, or kept for resuming. The endpoint is
 * disconnected, and the caller's to close.
 */
int receiver_run(struct endpoint *endpoint, const struct receiver_job *job,
                 struct receiver_result *result, struct error *err);

#endif

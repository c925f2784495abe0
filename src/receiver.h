/*
 * receiver.h - the server's end of a write session: one object out of slots into a sink.
 */
#ifndef RDMAPUT_RECEIVER_H
#define RDMAPUT_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "endpoint.h"
#include "error.h"
#include "sink.h"

struct receiver_result {
    bool admitted; /* an object was begun */
    bool committed;
    struct digest_value digest; /* of what was committed */
    uint64_t stored;            /* bytes that the sink has taken */
    uint64_t pinned;            /* bytes of registered memory */
    uint64_t duration_ns;
};

/*
 * Receives one object on an adopted endpoint: makes its queues in a domain of its own, accepts,
 * and goes through the session to its end. 0 when the object was committed. What was stored of a
 * failed one is abandoned. The endpoint is disconnected, and the caller's to close.
 */
int receiver_run(struct endpoint *endpoint, struct sink *sink, struct receiver_result *result,
                 struct error *err);

#endif

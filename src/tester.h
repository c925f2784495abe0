/*
 * tester.h - the server's end of a check session (wire.h): scratch memory that the client writes to, and
 * what has arrived in it. No sink has part in it.
 */
#ifndef RDMAPUT_TESTER_H
#define RDMAPUT_TESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint.h"
#include "error.h"
#include "secret.h"
#include "wire.h"

struct tester_job {
    const struct wire_hello *hello; /* what the client said as it connected */
    const struct secret *secret;    /* to be proved, by both ends; NULL: none */
    uint64_t memory; /* bytes that the session may pin: tester_least_memory or more */
    bool others;     /* other sessions are served: they may have what runs out */
};

struct tester_result {
    uint64_t right, wrong; /* writes, as they were found */
    uint64_t echoes;
};

/* The pinned memory without which there is no check session. */
uint64_t tester_least_memory(void);

/*
 * Answers a client on an adopted endpoint, in a domain of its own, until it is through. 0 when it
 * closed the session, whatever was found; -1 with *err otherwise. The endpoint is disconnected, and
 * the caller's to close.
 */
int tester_run(struct endpoint *endpoint, const struct tester_job *job,
               struct tester_result *result, struct error *err);

#endif

/*
 * loopback.h - the test of the path from an address of this host to itself: a server on a thread of
 * this process, and checker.h's test of the path to it.
 */
#ifndef RDMAPUT_LOOPBACK_H
#define RDMAPUT_LOOPBACK_H

#include <stdint.h>
#include <sys/socket.h>

#include "error.h"
#include "findings.h"

struct loopback_job {
    const struct sockaddr *addr;
    const char *device; /* that it is known to reach, for the text */
    uint64_t timeout;   /* ns */
    /* How to raise the limit of locked memory, where there is one that is enough for one end, and may not be
     * for both, which this is; NULL: there is none, or it is too low for any transfer. */
    const char *memory_hint;
    /* As server_job's (server.h): not called, as such a server stores nothing. */
    void (*leave)(const struct error *err) __attribute__((noreturn));
};

/*
 * Adds one finding, "loopback-" and the address: ok when a connection stood and every write arrived
 * as it was; a warning when some could not be tried for lack of locked memory, or none and memory_hint says how to
 * raise the limit; else failed, with the layer that failed first. 0; -1 with *err when a signal came, or when
 * the server's thread did not end: then the process is to end with nothing freed, as that thread
 * goes on.
 */
int loopback_check(const struct loopback_job *job, struct findings *findings, struct error *err);

#endif

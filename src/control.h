/*
 * control.h - how `rdmaput write -e` and the server that it starts talk on that server's standard
 * streams, apart from RDMA: `serve --control`.
 *
 *     client, to standard input           server, to standard output
 *
 *     rdmaput-control 1 SECRET \n
 *                                         rdmaput-control 1 WIRE_VERSION file|directory \n
 *                                         ADDR:PORT \n, for each
 *                                         \n
 *     (end)                               (end)
 *
 * SECRET is what both prove to each other to know. Standard input stays open as long as the client
 * wants the server: at its end, the server ends. Standard error is the server's messages.
 */
#ifndef RDMAPUT_CONTROL_H
#define RDMAPUT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "secret.h"

#define CONTROL_MAX_ANSWER ((size_t)16 << 10) /* bytes of what the server says */
#define CONTROL_REQUEST_BYTES 128             /* more than what the client says has */

/* ---- the server's end ------------------------------------------------------------------------ */

/* Waits for the secret on standard input, at most timeout ns. -1 with *err: ERROR_PROTOCOL for
 * something else, ERROR_TEMPORARY when nothing comes, ERROR_INTERRUPTED. */
int control_take_secret(uint64_t timeout, struct secret *secret, struct error *err);

/* Says on standard output where the server listens, lines ADDR:PORT, and what it serves. -1 with *err:
 * ERROR_UNAVAILABLE for no address, ERROR_TEMPORARY when nobody reads it. */
int control_announce(const char *addresses, bool directory, struct error *err);

/* Whether standard input has ended. Without waiting; what comes there besides counts for nothing. */
bool control_has_ended(void);

/* ---- the client's end ------------------------------------------------------------------------ */

/* What the client says; returns its bytes. */
size_t control_request(const struct secret *secret, char buf[CONTROL_REQUEST_BYTES]);

enum control_result {
    CONTROL_OK = 0,
    CONTROL_PARTIAL,       /* the start of an answer */
    CONTROL_FOREIGN,       /* not what a server says */
    CONTROL_OTHER_VERSION, /* of a version that is told */
};

struct control_answer {
    unsigned version; /* WIRE_VERSION of the server's; 0: it says another version of these lines */
    bool directory;
    char *addresses; /* lines, within the text */
};

/* Understands what the server has said so far: len bytes of text, which has room for a NUL behind them,
 * and is changed when it is whole. */
enum control_result control_understand(char *text, size_t len, struct control_answer *answer);

#endif

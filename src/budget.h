/*
 * budget.h - what a server's sessions may have at once: how many, and how much pinned memory, each a
 * share of it. Pure.
 *
 * One host (an IPv4 address, or the first 64 bits of an IPv6 one) has at most three quarters of
 * either, so that it does not keep the others out; of fewer than four sessions, all. A session that is alone always gets its share:
 * where that cannot be pinned, registering says so better.
 */
#ifndef RDMAPUT_BUDGET_H
#define RDMAPUT_BUDGET_H

#include <stdint.h>
#include <sys/socket.h>

#include "error.h"

#define BUDGET_UNLIMITED UINT64_MAX
#define BUDGET_HOST_BYTES 16

enum budget_use {
    BUDGET_TRANSFER,
    BUDGET_CHECK,
    BUDGET_USES
};

/* One session's. Its owner keeps it, at one place, from budget_take to budget_return. */
struct budget_share {
    struct budget_share *next;
    uint8_t host[BUDGET_HOST_BYTES];
    enum budget_use use;
    uint64_t bytes; /* of memory that may be pinned */
};

struct budget {
    unsigned most_sessions;        /* at least 1 */
    unsigned most_of[BUDGET_USES]; /* of them, for each use; 0: all */
    uint64_t most_bytes;           /* of all sessions, or BUDGET_UNLIMITED */
    uint64_t least, wanted; /* bytes: below least no session works, more than wanted none needs */
    struct budget_share *shares;
    unsigned count, count_of[BUDGET_USES];
    uint64_t bytes;
};

/*
 * Takes a share for a session with that peer: what it wants, or part of what is left, so that many
 * may follow, but no less than the least. 0, or -1 with *err (ERROR_TEMPORARY) when there is none now.
 */
int budget_take(struct budget *budget, const struct sockaddr *peer, enum budget_use use,
                struct budget_share *share, struct error *err);

/* What is equal for addresses of one host. */
void budget_find_host(const struct sockaddr *peer, uint8_t host[BUDGET_HOST_BYTES]);

void budget_return(struct budget *budget, struct budget_share *share);

#endif

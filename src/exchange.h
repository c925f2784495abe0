/*
 * exchange.h - the server's end of exchanges (wire.h): a listening TCP socket, clients that learn
 * there where the server listens for RDMA, and their connections until they come by RDMA too.
 *
 * Nothing here waits. The server's loop polls the descriptors of exchange_poll_fds until
 * exchange_deadline, and calls exchange_work. All but exchange_open may be called for one that is
 * zeroed or closed: then there is nothing to do.
 *
 * Bounded: EXCHANGE_GUESTS connections at a time. For a newer one the oldest goes that was refused,
 * else the oldest that has not sent its HELLO (but not for one that is refused itself), refused as
 * busy. Where all wait for their RDMA connection, the newer one is refused so. The same goes for those
 * of one host (budget.h) alone, which are EXCHANGE_OF_HOST at most.
 */
#ifndef RDMAPUT_EXCHANGE_H
#define RDMAPUT_EXCHANGE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "address.h"
#include "admission.h"
#include "budget.h"
#include "error.h"
#include "wire.h"

#define EXCHANGE_GUESTS 16
#define EXCHANGE_OF_HOST (EXCHANGE_GUESTS - EXCHANGE_GUESTS / 4)
#define EXCHANGE_FDS (1 + EXCHANGE_GUESTS)

struct exchange_job {
    const struct sockaddr *bind;       /* NULL: all addresses of this host; its port is not used */
    uint16_t port;                     /* 0: any free one */
    const char *addresses;             /* lines ADDR:PORT: where to connect by RDMA; copied, as far
                                        * as MEET has room */
    const struct admission *admission; /* who may; not owned */
    uint64_t timeout; /* ns: for a client's HELLO, and then for its RDMA connection */
};

enum exchange_state {
    EXCHANGE_GREETING, /* its HELLO is due */
    EXCHANGE_WAITING,  /* it has its token, and is to come by RDMA */
    EXCHANGE_REFUSED,  /* it is left the time to read why */
};

struct exchange_guest {
    int fd;
    enum exchange_state state;
    int64_t until; /* clock.h */
    uint8_t hello[WIRE_HELLO_BYTES];
    size_t hello_len;
    uint8_t token[WIRE_TOKEN_BYTES];
    char peer[ADDRESS_TEXT];
    uint8_t host[BUDGET_HOST_BYTES];
};

struct exchange {
    bool open;
    int fd; /* listens */
    uint16_t port;
    const struct admission *admission;
    uint64_t timeout;
    char addresses[WIRE_MAX_MEET + 1]; /* as MEET has them */
    int64_t rest_until;                /* no more clients before: descriptors ran out; 0: none */
    struct exchange_guest guests[EXCHANGE_GUESTS]; /* in the order in which they came */
    unsigned count;
};

/* Listens. exchange->port becomes the port. 0, or -1 with *err: ERROR_UNAVAILABLE when the port is
 * in use, or when there is no address to tell. */
int exchange_open(struct exchange *exchange, const struct exchange_job *job, struct error *err);

/* Fills at most max entries, of EXCHANGE_FDS that there may be. Returns their count. */
unsigned exchange_poll_fds(const struct exchange *exchange, struct pollfd *fds, unsigned max);

/* When exchange_work is due without any event (clock.h); CLOCK_NEVER. */
int64_t exchange_deadline(const struct exchange *exchange);

/* Does what can be done now. Clients that are refused are told why; that is noted (log.h), as are
 * those whose connection ends after their MEET. */
void exchange_work(struct exchange *exchange);

/* The connection of the client that was given this token, once: from here on it is the caller's, to
 * exchange_send READY on and to close. -1 when there is none, or none any more: it was closed, say. */
int exchange_claim(struct exchange *exchange, const uint8_t token[WIRE_TOKEN_BYTES]);

/* Ends all connections but those that were claimed. */
void exchange_close(struct exchange *exchange);

#endif

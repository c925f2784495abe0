/*
 * client.h - reaching a server: from HOST:PORT to an established connection, trying again while
 * nobody listens yet.
 */
#ifndef RDMAPUT_CLIENT_H
#define RDMAPUT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "endpoint.h"
#include "error.h"
#include "wire.h"

struct client_target {
    const char *host;
    uint16_t port;
    const char *bind; /* NULL: any address of this host */
    bool has_tos;
    uint8_t tos;      /* with that: endpoint_set_tos */
    uint64_t timeout; /* ns */
    uint64_t wait;    /* ns: how long to go on trying while nobody listens; 0: not at all */
    /* Filled in by client_connect where it fails, of the try that *err is of; NULL: not. */
    struct facts *facts;
};

/*
 * Does one attempt on a resolved endpoint: makes queues and connects. 0, or -1 with *err, and
 * everything that it made in context undone but for the endpoint itself.
 */
typedef int (*client_attempt)(void *context, struct endpoint *endpoint, int64_t deadline,
                              struct error *err);

/*
 * Looks the host up, and for each of its addresses resolves it and makes the attempt, until one
 * succeeds. With target->wait, all of it again while the server is not there. On success the
 * endpoint is connected, and the caller's to close. An error that a server's answer caused is not
 * tried again elsewhere.
 */
int client_connect(const struct client_target *target, client_attempt attempt, void *context,
                   struct endpoint *endpoint, struct error *err);

/* Where a server listens for RDMA, as it told itself by another way. */
struct client_places {
    unsigned count;
    struct address addresses[WIRE_MAX_ADDRESSES]; /* numeric, with a port, without a name */
};

/* Takes in lines ADDR:PORT, which are changed: no more of them than there is room for. -1 with *err
 * (ERROR_PROTOCOL, of peer) for a line that is none: a name would be looked up in the server's stead. */
int client_parse_places(const char *peer, char *lines, struct client_places *places,
                        struct error *err);

/* client_connect to places instead of target's host, first those in a subnet of this host, until one
 * can be reached. The server is there, so that nothing is waited for. */
int client_connect_places(const struct client_places *places, const struct client_target *target,
                          client_attempt attempt, void *context, struct endpoint *endpoint,
                          struct error *err);

/* Tries one address. 0, or -1 with *err, and *answered set when the server was reached and answered,
 * so that other addresses would not help. */
typedef int (*client_try)(void *context, const struct sockaddr *dest, int64_t deadline,
                          bool *answered, struct error *err);

/* What client_connect does, for any kind of connection: tries the addresses of target's host, each
 * with a deadline of its own, and all of them again while the server is not there. */
int client_reach(const struct client_target *target, client_try try, void *context,
                 struct error *err);

/*
 * endpoint_connect with a HELLO, or with no private data at all (NULL), and what comes back
 * understood: a REFUSAL is in *err, a WELCOME in *welcome. A writer and a check need a WELCOME, and one
 * that says to have a secret one that says so too; not a `post`: exposed memory may be any listener's.
 */
int client_greet(struct endpoint *endpoint, const struct wire_hello *hello, int64_t deadline,
                 struct wire_welcome *welcome, struct endpoint_answer *answer, struct error *err);

/* The error of a server that speaks that version of the protocol. Always -1. */
int client_other_version(const char *peer, unsigned version, struct error *err);

/* Puts what a REFUSAL says in the place of *err, which stays as it is when data is none. Always
 * -1. */
int client_understand_refusal(const char *peer, const void *data, size_t len, struct error *err);

/* Hints at the secret in a writer's or a check's refusal (ERROR_UNAVAILABLE) that has no hint: a server with a
 * secret gives none. */
void client_hint_secret(struct error *err);

/*
 * Whether somebody still listens where the endpoint was connected to: makes another connection for
 * a moment, which is ended before anything is sent. Tells a connection that the far adapter ended
 * from one whose peer died. At most ns.
 */
bool client_still_listens(const struct endpoint *endpoint, uint64_t ns);

/* Looks up a numeric address of this host for --bind. 64 when it is none. */
int client_parse_bind(const char *text, struct sockaddr_storage *addr, struct error *err);

#endif

/*
 * server.h - the server's end of a session with `rdmaput write`, `rdmaput post`, or the test of a path.
 */
#ifndef HOSTILE_SERVER_H
#define HOSTILE_SERVER_H

#include "object.h"
#include "proof.h"
#include "talk.h"

#define SERVER_SLOTS 4
#define SERVER_SLOT_BYTES ((size_t)128 << 10)

struct server_job {
    const struct object *object;       /* what the client is to deliver, each time */
    const struct proof_secret *secret; /* NULL: none */
    unsigned receives;
    const struct stream *exchange; /* listens for one, which goes before; NULL: none does */
    const char *address;           /* where this side listens for RDMA, as a MEET has it */
};

/* Memory for the slots and, behind them, for a placed object or a `post`; or for a check. */
size_t server_data_bytes(const struct object *object);

/* Answers one connect request, and goes through the session until it is over. */
void server_run(struct talk *talk, struct link_listener *listener, const struct server_job *job);

#endif

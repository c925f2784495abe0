/*
 * handshake.h - both ends of a session prove to each other that they know the secret (wire.h).
 */
#ifndef RDMAPUT_HANDSHAKE_H
#define RDMAPUT_HANDSHAKE_H

#include "error.h"
#include "secret.h"
#include "session.h"
#include "wire.h"

/* What the two sides said when they connected. */
struct handshake {
    const struct secret *secret; /* not owned */
    struct wire_hello hello;
    struct wire_welcome welcome;
};

/* Fills in the WELCOME of a server with the secret, or without one (NULL). 0, or -1 with *err. */
int handshake_welcome(struct handshake *handshake, struct error *err);

/* The server's part in connecting: makes what the adopted endpoint wants, opens the session with so many
 * slots and objects (session_open), welcomes the client, and begins. */
int handshake_accept(struct handshake *handshake, struct session *session,
                     struct endpoint *endpoint, const struct endpoint_wants *wants, unsigned slots,
                     unsigned objects, struct error *err);

/* The client's part, first of all in its session: proves, and has the server prove. 0, at once where
 * there is no secret; -1 with *err, ERROR_UNAVAILABLE when the peer does not know the secret. */
int handshake_as_client(const struct handshake *handshake, struct session *session,
                        struct error *err);

/* The server's part, likewise. The client that does not know the secret learns only that access was
 * refused. */
int handshake_as_server(const struct handshake *handshake, struct session *session,
                        struct error *err);

#endif

/*
 * client.h - the client's end of a session with `rdmaput serve`.
 */
#ifndef HOSTILE_CLIENT_H
#define HOSTILE_CLIENT_H

#include "object.h"
#include "proof.h"
#include "talk.h"

struct client_job {
    const struct sockaddr *dest;
    const char *name;
    const struct object *object;
    uint32_t chunk_limit;
    unsigned receives;
    bool many; /* the object twice, under two names */
    bool map;
    bool checks;                       /* a check session */
    const struct sockaddr *exchange;   /* goes before, by TCP; NULL: none does */
    const void *token;                 /* of WIRE_TOKEN_BYTES; NULL: none, or the exchange's */
    const struct proof_secret *secret; /* NULL: none */
    bool proves_later;                 /* client_connect does not */
    bool stays;                        /* client_post does not disconnect */
    uint64_t region_addr;              /* of client_post; 0: a write session */
    uint32_t region_rkey;              /* likewise */
};

struct client {
    struct talk *talk; /* not owned */
    const struct client_job *job;
    struct proof_session proof;
    struct digest_value digest;
    bool meets; /* READY is to come by TCP */
    uint8_t token[WIRE_TOKEN_BYTES];
    unsigned slot_count;
    uint64_t slot_size;
    uint64_t remote_addr;
    uint32_t rkey;
    bool ready, opened, placed;
    bool granted[WIRE_MAX_SLOTS];
    struct {
        uint64_t offset, length, remote_addr;
        uint32_t rkey;
    } places[WIRE_MAX_SLOTS]; /* length 0: an ordinary slot */
    unsigned said_objects, done_objects;
};

/* The private data of its connect request. */
void client_put_hello(struct message *hello, const struct client_job *job);

/* Each does its part, and says whether the conversation goes on. */
bool client_connect(struct client *client, struct talk *talk, const struct client_job *job);
bool client_say_open(struct client *client);
bool client_open(struct client *client);
bool client_write(struct client *client, unsigned slot, const uint8_t *data, uint64_t len);
bool client_send(struct client *client);
bool client_end(struct client *client);
bool client_await_done(struct client *client);

/* All of it, to the DONE. */
void client_run(struct talk *talk, const struct client_job *job);

/* As `rdmaput post`: connects, writes the first bytes of the object into a region, disconnects. */
void client_post(struct talk *talk, const struct client_job *job);

#endif

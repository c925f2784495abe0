/*
 * observer.h - what a server's session has taken and said, held against wire.h: the server refuses what
 * breaks the protocol, and nothing else for that reason; what it says keeps to the protocol; and an
 * object may only be committed as its client said it.
 */
#ifndef RDMAPUT_TEST_OBSERVER_H
#define RDMAPUT_TEST_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "../unit/fake-provider.h"
#include "secret.h"
#include "window.h"
#include "wire.h"

#define OBSERVER_OBJECTS 64 /* in a session, at most */

/* Exit statuses. */
#define OBSERVER_DATA 65
#define OBSERVER_UNAVAILABLE 69
#define OBSERVER_PROTOCOL 76

struct observed_object {
    uint32_t flags; /* of its OPEN */
    uint64_t size;
    char name[WIRE_MAX_NAME + 1];
    struct wire_extent *extents; /* of its CHUNKs, and of RECALLs that were right */
    unsigned extent_count, extent_room;
    struct digest_value told; /* by its END */
    bool ended, abandoned;
    bool failed, done, reported; /* as the server said */
};

struct observed_slot {
    bool sent;
    struct window_place place;
};

struct observer {
    const struct fake_provider *fake; /* the server's */
    bool many;                        /* objects, as HELLO said */
    bool deaf;                        /* the client goes on before it has heard the server */
    const struct secret *secret;      /* NULL: none */
    struct wire_hello hello;          /* with it */
    struct wire_welcome welcome;      /* likewise; the caller's to fill in when it is said */
    struct wire_message proof;        /* the client's; type 0 before */
    bool proved, answered;            /* it was right; the server's followed */
    bool violated;                    /* the client broke the protocol */
    bool closed;                      /* CLOSE came */
    bool over;                        /* the server has said its last word */
    unsigned opened, done;            /* objects */
    struct observed_object objects[OBSERVER_OBJECTS];
    uint16_t slot_limit, object_limit; /* of the first OPEN */
    uint32_t chunk_limit;
    struct wire_message ready; /* type 0 before */
    struct observed_slot slots[WINDOW_MAX_SLOTS];
    uint64_t acknowledged;
    unsigned pings, server_pings; /* unanswered */
    /* Of the object that was opened last. */
    bool opened_due, recalling, got_chunk;
    struct wire_message recall;
    uint64_t kept, expected, place_at;
    bool placed;
};

/* A session begins, with what its client said as it connected. */
void observer_begin(struct observer *observer, const struct fake_provider *fake,
                    const struct wire_hello *hello, const struct secret *secret);

/* The server takes a message; NULL: bytes that are none. */
void observer_take(struct observer *observer, const struct wire_message *message);

/* The server says something. */
void observer_hear(struct observer *observer, const struct wire_message *message);

/* Whether this content is what the client's END of an object says. */
bool observer_matches(const struct observed_object *object, const uint8_t *content, uint64_t size);

/* The server reports an object as committed: which one it is. */
struct observed_object *observer_report(struct observer *observer, const char *name,
                                        const struct digest_value *digest);

/* The session is over: how many objects were reported. */
unsigned observer_end(const struct observer *observer);

#endif

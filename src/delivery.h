/*
 * delivery.h - what `rdmaput write` delivers: objects made of segments, their names, and which of them
 * an attempt is for.
 */
#ifndef RDMAPUT_DELIVERY_H
#define RDMAPUT_DELIVERY_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>

#include "address.h"
#include "error.h"
#include "options.h"
#include "plan.h"
#include "progress.h"
#include "remote.h"
#include "segment.h"
#include "sender.h"
#include "source.h"

/* One object's name and sources. */
struct delivery_object {
    char *name; /* owned; empty: none */
    const struct segment *segments;
    size_t segment_count;
    struct source *source; /* while they are open */
    struct plan *plan;
    enum error_class failure; /* of many: what it failed of, by itself */
    struct error *cause;      /* owned; of that, or what its session failed of, where documents are
                               * wanted */
    bool committed;
    struct digest_value digest; /* of what was committed */
    uint64_t kept;              /* bytes of it that were there before */
    bool begun;                 /* the attempt's session has come to it */
    bool spent;                 /* it has a stream, and that may have been read */
};

struct delivery {
    const char *dest;             /* as it was given */
    struct progress *progress;    /* not owned */
    struct progress_state state;  /* of that, as it was told last */
    struct json_object *document; /* not owned; what is told of it; NULL: nothing */
    bool dense, preserve, resume;
    bool remote; /* to a server that is to be started at place; else one that is at address */
    struct remote_place place;
    struct address address;
    struct options_segment_list list;
    bool many; /* each segment is an object */
    struct delivery_object *objects;
    size_t count;
    size_t *order; /* the objects that an attempt is for, by their index */
    size_t order_count;
};

/* dest is the address, or the place, and says whether there are many objects. -1 with *err (64). */
int delivery_parse_destination(struct delivery *delivery, struct error *err);

/* The server that was started at place serves a directory there, or a file: a single object is named
 * after its file in the one, and has no name in the other. -1 with *err (73) when it has no name. */
int delivery_name_single(struct delivery *delivery, bool directory, struct error *err);

/* Makes objects of the list, for a first attempt. -1 with *err: 64 for names that cannot be, or that
 * are equal, and segments that cannot be of many; 71. */
int delivery_list(struct delivery *delivery, struct error *err);

/* Fine when zeroed. */
void delivery_free(struct delivery *delivery);

/* Opens an object's files, and seals its plan. -1 with *err as options_plan. */
int delivery_open_sources(const struct delivery *delivery, struct delivery_object *object,
                          struct error *err);
void delivery_close_sources(struct delivery_object *object);

/* Finds out before anybody connects whether a single object can be opened; it stays open. */
int delivery_check(struct delivery *delivery, struct error *err);

/* A sender_open, sender_close and sender_settled; the context is the delivery. */
int delivery_open(void *context, size_t index, struct sender_object *result, struct error *err);
void delivery_close(void *context, size_t index, struct sender_object *result);
void delivery_settled(void *context, size_t index, const struct digest_value *digest, uint64_t kept,
                      const struct error *cause);

/* A sender_progressed: tells delivery->progress. */
int64_t delivery_progressed(void *context, const struct sender_state *now);

/* Adds what was delivered so far to a document, each object by its name. */
void delivery_describe(const struct delivery *delivery, struct json_object *document);

/* An attempt failed of *err. Whether some of it can be tried again, for which the next attempt is
 * prepared; *passing is *err, and ERROR_TEMPORARY when any object failed of that. What has begun to
 * read a stream, is committed or failed for good is not in it; the first of these has then failed of
 * *err. */
bool delivery_try_again(struct delivery *delivery, const struct error *err, struct error *passing);

/* What all attempts together came to, the last with *err: 0 when all is committed, or -1 with *err of
 * the first object that is not. */
int delivery_sum_up(const struct delivery *delivery, struct error *err);

#endif

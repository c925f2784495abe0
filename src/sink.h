/*
 * sink.h - where a server puts what arrives: a table of operations for each kind of place.
 */
#ifndef RDMAPUT_SINK_H
#define RDMAPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"

struct sink;
struct sink_object; /* one object on its way in; each kind has its own */

struct sink_ops {
    const char *kind; /* "file", for messages */
    bool stores;      /* what arrives is kept: not everybody may write */
    bool exclusive;   /* one session at a time */

    /*
     * Begins an object. name: what the client asked for, empty for none. size: bytes, or
     * WIRE_UNKNOWN. NULL with *err: nothing was made then. All of these may be called from several
     * threads, for different objects.
     */
    struct sink_object *(*begin)(struct sink *sink, const char *name, uint64_t size,
                                 struct error *err);

    /* Stores len bytes at an offset; offsets never go back. -1 with *err. */
    int (*store)(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                 struct error *err);

    /* The object is whole and verified, of size bytes: it appears. Frees the object in any
     * case. -1 with *err, and nothing appeared. */
    int (*commit)(struct sink_object *object, uint64_t size, struct error *err);

    /* The object came to nothing: what was made goes. Frees the object. */
    void (*abandon)(struct sink_object *object);

    void (*free)(struct sink *sink);
};

/* The beginning of every sink. */
struct sink {
    const struct sink_ops *ops;
    char description[512]; /* "file '/srv/x'", for the line at the start */
};

/* The refusal of a client that named an object where the sink takes none. Always -1. */
int sink_refuse_name(const struct sink *sink, const char *name, struct error *err);

#endif

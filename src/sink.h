/*
 * sink.h - where a server puts what arrives: a table of operations for each kind of place.
 */
#ifndef RDMAPUT_SINK_H
#define RDMAPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "error.h"

#define SINK_IDENTITY_BYTES 16

struct sink;
struct sink_object; /* one object on its way in; each kind has its own */

/* What a client asks for. It lives as long as the object does. */
struct sink_request {
    const char *name; /* of the object; empty: none */
    uint64_t size;    /* bytes, or WIRE_UNKNOWN */
    uint64_t bytes;   /* of data in it, without holes and gaps; WIRE_UNKNOWN with size */
    bool sync;        /* commit returns when all is on stable storage */
    bool preserve;    /* the object gets mode and times */
    mode_t mode;      /* permissions alone: set-user-id, set-group-id and sticky are left out */
    struct timespec accessed, modified;
    bool resume; /* what an earlier session kept is gone on from; what breaks is kept */
    uint8_t identity[SINK_IDENTITY_BYTES]; /* of the source, with resume */
};

struct sink_ops {
    const char *kind;   /* "file", for messages */
    bool stores;        /* what arrives is kept: not everybody may write */
    bool exclusive;     /* one session at a time */
    bool single;        /* one session, and the server ends */
    bool irrevocable;   /* what was stored stays there when an object fails */
    bool keeps_content; /* gaps keep what was there, so that holes of a source come as zeros */

    /*
     * Begins an object. Waiting ends when stop_fd becomes readable (ERROR_INTERRUPTED; -1: it
     * never does), here and below. NULL with *err: nothing was made then. All of these may be
     * called from several threads, for different objects.
     */
    struct sink_object *(*begin)(struct sink *sink, const struct sink_request *request, int stop_fd,
                                 struct error *err);

    /* How many bytes of the object an earlier session left, from its start. NULL, as the next two:
     * this kind keeps nothing, and begin refuses request->resume. */
    uint64_t (*kept)(const struct sink_object *object);

    /* Reads what was kept; offsets never go back. What is passed over is to be a gap, of zeros: no
     * checksum covers it. -1 with *err. */
    int (*recall)(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                  struct error *err);

    /* Goes on behind the first bytes of what was kept: the rest of it goes. To be called before
     * anything is stored or committed where anything was kept, also with 0. -1 with *err. */
    int (*resume_at)(struct sink_object *object, uint64_t bytes, struct error *err);

    /*
     * The descriptor of a file of at least size bytes, open for reading and writing, whose pages a
     * device may write to in place of store; or -1, and *why says why not (static). NULL: this kind
     * has none. To be called before the first store.
     */
    int (*map)(struct sink_object *object, uint64_t size, const char **why);

    /* Stores len bytes at an offset; offsets never go back. -1 with *err. */
    int (*store)(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                 int stop_fd, struct error *err);

    /* The object is whole and verified, of size bytes: it appears. Frees the object in any
     * case. -1 with *err, and nothing appeared (unless irrevocable). */
    int (*commit)(struct sink_object *object, uint64_t size, int stop_fd, struct error *err);

    /* The object came to nothing: what was made goes. keep: what was stored is good, and is kept
     * if the request said resume. Frees the object. */
    void (*abandon)(struct sink_object *object, bool keep);

    void (*free)(struct sink *sink);
};

/* The beginning of every sink. */
struct sink {
    const struct sink_ops *ops;
    char description[512]; /* "file '/srv/x'", for the line at the start */
    bool never_map;        /* map is not to be used */
};

/* How files are to be made: the server's own options. */
struct sink_options {
    bool sync;        /* as if every client asked for it */
    bool no_clobber;  /* what exists is not replaced */
    uint64_t keep_ns; /* how long what was kept for resuming stays there */
};

/* Refuses what a kind of sink does not have: a name, or resuming. 0, or -1 with *err. */
int sink_refuse_extras(const struct sink *sink, const struct sink_request *request,
                       struct error *err);

/* The refusal of sync where nothing gets onto stable storage. Always -1. */
int sink_refuse_sync(const struct sink *sink, struct error *err);

#endif

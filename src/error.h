/*
 * error.h - what failed, where, why, and what mends it.
 *
 * Callees fill a struct error; only main and the session loops print it. The table from error
 * class to exit status stands in error.c and nowhere else.
 */
#ifndef RDMAPUT_ERROR_H
#define RDMAPUT_ERROR_H

#include <stdbool.h>
#include <stddef.h>

/* One class per exit status (sysexits(3)); DESIGN: "Exit status". */
enum error_class {
    ERROR_NONE = 0,
    ERROR_CHECK,       /* 1: a test of `check` failed */
    ERROR_USAGE,       /* 64: the command line is wrong */
    ERROR_DATA,        /* 65: data arrived wrong, or a source changed while it was read */
    ERROR_SOURCE,      /* 66: a source cannot be opened or is too short */
    ERROR_UNAVAILABLE, /* 69: no device, no route, nobody listening, refused */
    ERROR_BUG,         /* 70: an internal error of rdmaput */
    ERROR_RESOURCE,    /* 71: memory, memlock or queue entries ran out here */
    ERROR_CANNOT_CREATE, /* 73: the destination cannot be created */
    ERROR_STORAGE,     /* 74: reading or writing storage failed */
    ERROR_TEMPORARY,   /* 75: timed out, peer busy or gone */
    ERROR_PROTOCOL,    /* 76: the peer speaks another protocol or version, or broke it */
    ERROR_INTERRUPTED, /* a signal ended it: the process dies by that signal */
};

/* The part of the work that failed. */
enum error_stage {
    STAGE_NONE = 0,
    STAGE_OPEN,
    STAGE_RESOLVE_ADDRESS,
    STAGE_RESOLVE_ROUTE,
    STAGE_LISTEN,
    STAGE_CONNECT,
    STAGE_REGISTER,
    STAGE_POST,
    STAGE_COMPLETION,
    STAGE_TRANSFER,
    STAGE_COMMIT,
};

struct error {
    enum error_class class;
    enum error_stage stage;
    char subject[192]; /* the peer, device or file it concerns; may be empty */
    char text[448];    /* what failed and why, with the system's own words */
    char hint[320];    /* what mends it; may be empty */
    int errnum;        /* the system's errno that it came of; 0: none */
    const char *status; /* a completion's or an event's name that it came of; static; NULL: none */
};

/*
 * Fills *err. subject may be NULL or empty. The text is made from fmt. The first error filled in
 * wins: a struct error that already holds one is left as it is, so that a cleanup's failure never
 * hides the cause. One of ERROR_NONE would count as none, and a failure as a success: it becomes
 * ERROR_BUG. Always returns -1, for "return error_set(...)".
 */
int error_set(struct error *err, enum error_class class, enum error_stage stage,
              const char *subject, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* As error_set, with ": " and strerror(errnum) appended. A negative errnum is taken as its absolute
 * value, since some providers return negative errno (siw's ibv_post_send). The class is that of
 * error_class_of_errno: where descriptors or memory ran out, that is what mends it. */
int error_set_errno(struct error *err, enum error_class class, enum error_stage stage,
                    const char *subject, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* Notes the completion's status or the event, by its name in the API, that an error came of, unless
 * it has one. Always returns -1. */
int error_status(struct error *err, const char *status);

/* Sets the hint of an error unless it has one. Always returns -1. */
int error_hint(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts another subject, such as a peer, before what failed: the present one becomes part of the
 * text, unless it is the same. */
void error_nest(struct error *err, const char *subject);

/* Appends to the text of an error that is set. */
void error_append(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static inline void error_clear(struct error *err) { *err = (struct error){.class = ERROR_NONE}; }
static inline bool error_is_set(const struct error *err) { return err->class != ERROR_NONE; }

/* The exit status of a class: 0 for ERROR_NONE. For ERROR_INTERRUPTED 70, which nobody should see:
 * main raises the signal again instead. */
int error_exit_status(enum error_class class);

/* The class of an exit status as a peer sent it; ERROR_PROTOCOL for one that is not in the table
 * or that a peer has no business to send (0, usage). */
enum error_class error_class_of_status(unsigned status);

/* ERROR_RESOURCE where errnum says that descriptors or memory ran out here, or else otherwise. */
enum error_class error_class_of_errno(int errnum, enum error_class otherwise);

/* A word for the class, for programs: "temporary". Static storage. */
const char *error_class_name(enum error_class class);

/* A short word for the stage ("connect"), or "" for STAGE_NONE. Static storage. */
const char *error_stage_name(enum error_stage stage);

/*
 * Replaces control characters, DEL and bytes that are not valid UTF-8 in text by '?', in place.
 * For text that came from a peer or a name from outside, before it is printed.
 */
void error_mask(char *text);

#endif

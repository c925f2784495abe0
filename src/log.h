/*
 * log.h - lines for people, on standard error.
 *
 * One write(2) per line, so that lines of threads do not mix. Each line begins with "rdmaput: ", is
 * masked (error_mask), cut at 4096 bytes, and needs no line end. errno is kept. A signal
 * (signals.h) ends the wait for a standard error that nobody reads: the line is then lost.
 */
#ifndef RDMAPUT_LOG_H
#define RDMAPUT_LOG_H

#include "error.h"

enum log_level {
    LOG_SILENT = -2, /* not even errors: what is done is told otherwise */
    LOG_QUIET = -1,  /* -q: errors only */
    LOG_NORMAL = 0,
    LOG_VERBOSE = 1, /* -v */
    LOG_TRACE = 2,   /* --trace: each work request and completion */
};

void log_set_level(enum log_level level);
enum log_level log_level(void);

/* Prints an error and its hint, unless silent; nothing for an error that is not set:
 *     rdmaput: SUBJECT: TEXT
 *     rdmaput: hint: HINT */
void log_error(const struct error *err);

/* A line of another program's, from where says, also with -q; where it is one of rdmaput's, its prefix
 * is left out. */
void log_relayed(const char *where, const char *line);

/* A line that is printed unless -q was given. */
void log_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line that is printed with -v, or when standard error is a terminal, unless -q was given
 * (success messages). */
void log_success(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line that is printed with -v. */
void log_verbose(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line that stays the last one on a terminal, drawn at once, and again below each line that is printed;
 * cut at 255 bytes. An empty one takes it away. */
void log_status(const char *text);

/* It is not there any more: others write on the terminal. */
void log_status_lost(void);

/* A line that is printed with --trace. */
void log_trace(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif

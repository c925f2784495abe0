/*
 * progress.h - how far a transfer is, while it goes on: from bytes that the far end has acknowledged.
 *
 * For people a line on standard error, drawn anew, which messages go above; where that is no terminal,
 * if it is wanted all the same, a line now and then. For programs a line of JSON now and then, on a
 * descriptor of theirs: one that nobody reads loses lines, and never holds the transfer up.
 */
#ifndef RDMAPUT_PROGRESS_H
#define RDMAPUT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_UNKNOWN UINT64_MAX

enum progress_when {
    PROGRESS_AUTO, /* on a terminal, of what takes longer than a second, unless -q was given */
    PROGRESS_ALWAYS,
    PROGRESS_NEVER,
};

/* How far it is. */
struct progress_state {
    uint64_t bytes;    /* acknowledged, or there before */
    uint64_t before;   /* of them, the latter: they are no speed */
    uint64_t total;    /* PROGRESS_UNKNOWN: not known */
    size_t objects;    /* committed */
    size_t of_objects; /* 0 or 1: not told */
};

struct progress {
    bool shown, on_terminal;
    bool with_output; /* on the terminal that standard output is, too */
    int fd;           /* not owned; -1: none */
    int64_t began_at; /* clock.h */
    int64_t next_at;  /* when it is told again */
    bool begun;
};

/* What is to be told, and on which descriptor for programs (-1: none). Nothing is told yet. */
void progress_init(struct progress *progress, enum progress_when when, int fd);

/* How far it is now: tells it if it is time to. To be called at each step, and at the moment (clock.h)
 * that it returns; CLOCK_NEVER: nobody is told. */
int64_t progress_note(struct progress *progress, const struct progress_state *state);

/* Something is about to be printed on standard output: takes the line out of its way, until it is drawn
 * again. */
void progress_give_way(const struct progress *progress);

/* It has ended: takes the line away, and tells the last state to programs. */
void progress_end(struct progress *progress, const struct progress_state *state);

/* The line for people: "disk.img" would be too long for 80 columns, so it has none. ns since it
 * began. Cut to width columns; buf has size bytes. Returns buf. */
char *progress_format(const struct progress_state *state, uint64_t ns, unsigned width, char *buf,
                      size_t size);

#endif

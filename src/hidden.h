/*
 * hidden.h - files that nobody sees yet, in the directory where they are to appear: without a name,
 * or with one of name.h's. One that has a name is locked (flock) while it is in use, so that a sweep
 * can tell what a killed process left. Only its owner may read it.
 *
 * All of these fail with -1 and errno.
 */
#ifndef RDMAPUT_HIDDEN_H
#define RDMAPUT_HIDDEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "name.h"

struct hidden {
    int directory; /* the caller's, O_PATH will do */
    int fd;        /* to read and write; -1: not open */
    bool named;    /* under name */
    char name[NAME_MOST + 1];
    mode_t new_mode; /* what the umask leaves of 0666 here */
};

/* Makes a new, empty one for the leaf: without a name where the file system can. */
int hidden_open_temporary(struct hidden *hidden, int directory, const char *leaf);

/*
 * Opens the partial of that digest, which is made when there is none. While another holds it, waits
 * for up to wait_ns (then EWOULDBLOCK), or until stop_fd is readable (ECANCELED). EEXIST: what is in
 * its place is not ours.
 */
int hidden_open_partial(struct hidden *hidden, int directory, const char *leaf,
                        const uint8_t digest[NAME_DIGEST_BYTES], uint64_t wait_ns, int stop_fd);

/* Gives it its name, unless it has it already. */
int hidden_give_name(struct hidden *hidden);

/* Closes it, and removes its name if it has one. Nothing is done when it is not open. */
void hidden_discard(struct hidden *hidden);

/* Closes it, for a later hidden_open_partial: without space beyond its end, its age counted from
 * now. */
void hidden_keep(struct hidden *hidden);

/*
 * Removes an entry of a directory when it is a temporary that nobody holds, or a partial that nobody
 * holds and that was last written more than keep_ns ago. Only regular files of our own user. Whether
 * it went.
 */
bool hidden_sweep(int directory, const char *entry, uint64_t keep_ns);

#endif

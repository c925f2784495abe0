/*
 * sweeper.h - a thread that removes what killed servers left (hidden.h), and what was kept for
 * resuming and has expired.
 */
#ifndef RDMAPUT_SWEEPER_H
#define RDMAPUT_SWEEPER_H

#include <stdint.h>

#include "error.h"

struct sweeper; /* opaque */

/*
 * Sweeps a directory (O_PATH will do; duplicated) now and then: with a leaf, what belongs to it, the
 * first time before this returns; with NULL, the whole tree below it, through no symbolic link and
 * on the same file system. Partials go that were not written for keep_ns. NULL with *err.
 */
struct sweeper *sweeper_start(int directory, const char *leaf, uint64_t keep_ns, struct error *err);

/* Ends it at once, also amid a sweep. NULL is fine. */
void sweeper_stop(struct sweeper *sweeper);

#endif

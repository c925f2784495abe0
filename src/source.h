/*
 * source.h - the files that segments name, opened for reading and watched for changes.
 *
 * A file is opened, measured and remembered when it is added; at most a fixed number stay open at
 * a time, so that ten thousand segments need no ten thousand descriptors. A file that is opened
 * again later must be the same one.
 */
#ifndef RDMAPUT_SOURCE_H
#define RDMAPUT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "plan.h"
#include "segment.h"

struct source; /* opaque: all the files of one object */

struct source *source_new(struct error *err);
void source_free(struct source *source);

/*
 * Opens the segment's file, works out its range, and adds it to the plan as a piece. "-" is
 * standard input. What cannot seek, or has size 0 yet content, is a stream: read from its start,
 * without OFFSET, up to LENGTH or its end. -1 with *err: 66 (cannot be opened, too short, a
 * directory), 64 (OFFSET for a stream).
 */
int source_add(struct source *source, const struct segment *segment, struct plan *plan,
               struct error *err);

/* The path of a file, as it was given. */
const char *source_path(const struct source *source, unsigned file);

/*
 * Reads up to len bytes of a file at offset (streams: the next bytes, at least one unless it
 * ends). *ended: a stream gave its last byte. Waiting for a stream ends when stop_fd becomes
 * readable (ERROR_INTERRUPTED). The count, or -1 with *err: 65 when a file became shorter or
 * another one, 74.
 */
ssize_t source_read(struct source *source, unsigned file, uint64_t offset, void *buf, size_t len,
                    int stop_fd, bool *ended, struct error *err);

/* Whether every file is still what it was when it was added. -1 with *err (65) otherwise. */
int source_verify(struct source *source, struct error *err);

#endif

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
#include <time.h>

#include "error.h"
#include "plan.h"
#include "segment.h"

#define SOURCE_IDENTITY_BYTES 16

struct source; /* opaque: all the files of one object */

struct source *source_new(struct error *err);
void source_free(struct source *source);

/*
 * Opens the segment's file, works out its range, and adds it to the plan as a piece. "-" is
 * standard input. What cannot seek, or has size 0 yet content, is a stream: read from its start,
 * without OFFSET, up to LENGTH or its end.
 *
 * sparse: the range of a regular file becomes a piece for each hole of 64 KiB or more that the file
 * system tells of, and one for what lies before, between and behind them. They follow one another.
 *
 * A file that was written a moment ago is waited for, some milliseconds (source_verify needs it).
 * -1 with *err: 66 (cannot be opened, too short, a directory), 64 (OFFSET for a stream), 65 (it
 * changed since another segment of it was added), 74 (cannot be read). Some pieces may be added.
 */
int source_add(struct source *source, const struct segment *segment, bool sparse, struct plan *plan,
               struct error *err);

/* The path of a stream, which can be read only once; NULL when there is none. */
const char *source_stream(const struct source *source);

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

/*
 * Whether every file is still what it was when it was added, by size and times: then what was read
 * is what one reading at a single moment could have given. -1 with *err (65) otherwise, also when a
 * file got another mode, name or link, or was replaced. Block devices and streams tell nothing; nor
 * does memory that another process has mapped and written before.
 */
int source_verify(struct source *source, struct error *err);

struct source_attributes {
    mode_t mode;                        /* permissions alone */
    struct timespec accessed, modified; /* when the file was added, before it was read */
};

/* The attributes of the one regular file that all segments are of. -1 with *err (64) when they are
 * of several, or of what is no regular file. */
int source_attributes(const struct source *source, struct source_attributes *attributes,
                      struct error *err);

/*
 * What tells one state of the sources, and one sealed plan of them, from any other: the same in two
 * runs over files that did not change, but not across a change of a file, of what is sent of it or
 * of its place. A digest of what stat(2) tells (device, inode, size, times) and of the plan, not of
 * content, nor of paths. -1 with *err: 64 when there is a stream, 71.
 */
int source_identity(const struct source *source, const struct plan *plan,
                    uint8_t identity[SOURCE_IDENTITY_BYTES], struct error *err);

#endif

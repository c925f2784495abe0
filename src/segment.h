/*
 * segment.h - the grammar of a segment: PATH[@[OFFSET][+LENGTH][=REMOTE]].
 *
 * Pure: whether a file exists is for the caller to find out.
 */
#ifndef RDMAPUT_SEGMENT_H
#define RDMAPUT_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEGMENT_MAX_BYTES INT64_MAX /* offsets, lengths and their sums stay below this */

struct segment {
    char *path;         /* owned; never empty */
    bool has_suffix;    /* the argument had an '@' suffix, even an empty one */
    bool from_end;      /* offset counts backwards from the end of the file */
    uint64_t offset;    /* bytes; a distance from the end when from_end */
    bool has_offset;
    bool has_length;
    uint64_t length;    /* bytes; valid when has_length */
    bool has_remote;
    uint64_t remote;    /* offset in the destination; valid when has_remote */
};

enum segment_result {
    SEGMENT_OK = 0,
    SEGMENT_EMPTY,     /* the argument, or its PATH, is empty */
    SEGMENT_MALFORMED, /* what follows the last '@' begins like a suffix and is none */
    SEGMENT_MEMORY,
};

/*
 * Parses one argument. The suffix is what follows the last '@', when it is a whole, valid suffix
 * (an empty one too). A tail that begins with a digit, '-', '+' or '=' but is not valid gives
 * SEGMENT_MALFORMED, with what is wrong in problem ("OFFSET '4X' is not a size"); the caller may
 * still find that the whole argument names a file and use segment_literal. Any other tail
 * ("user@host.txt") belongs to the path.
 * problem is set for SEGMENT_EMPTY and SEGMENT_MALFORMED. On success segment->path is owned by the
 * caller: segment_free.
 */
enum segment_result segment_parse(const char *argument, struct segment *segment, char *problem,
                                  size_t problem_size);

/* The whole argument as a path, without a suffix (--literal, or a file that has such a name). */
enum segment_result segment_literal(const char *argument, struct segment *segment);

/* "-": standard input. "./-" is a file. */
bool segment_is_stdin(const struct segment *segment);

void segment_free(struct segment *segment);

enum segment_range {
    SEGMENT_RANGE_OK = 0,
    SEGMENT_BEFORE_START, /* a negative OFFSET goes back past the file's start */
    SEGMENT_PAST_END,     /* OFFSET or OFFSET+LENGTH lies past the file's end */
    SEGMENT_OVERFLOW,     /* a sum past SEGMENT_MAX_BYTES */
};

/* The range of a file of file_size bytes that the segment names: *offset and *length, in bytes. */
enum segment_range segment_resolve(const struct segment *segment, uint64_t file_size,
                                   uint64_t *offset, uint64_t *length);

/* Whether remote+length is past SEGMENT_MAX_BYTES. */
bool segment_remote_overflows(uint64_t remote, uint64_t length);

#endif

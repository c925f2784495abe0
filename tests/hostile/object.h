/*
 * object.h - what a hostile client delivers and a hostile server takes in, and its checksum, made
 * with xxHash as src/digest.h defines it.
 */
#ifndef HOSTILE_OBJECT_H
#define HOSTILE_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

#include "digest.h"
#include "talk.h"

#define OBJECT_MOST_EXTENTS 4

struct object {
    uint8_t *data;
    uint64_t size;
    struct wire_extent extents[OBJECT_MOST_EXTENTS]; /* zeros between them */
    unsigned extent_count;
};

/* Of bytes that tell their places apart, with a gap or without. -1 without memory. */
int object_make(struct object *object, uint64_t size, bool with_gap);
/* What a file holds; -1 when it cannot be read, which is said. */
int object_read(struct object *object, const char *path);
void object_free(struct object *object);

/* A checksum in the making: of extents that never go back. To be ended or discarded. */
struct checksum {
    XXH3_state_t *data, *map;
    uint64_t start, end, bytes;
};

/* Anew; the first time it is zeros. -1 without memory. */
int checksum_begin(struct checksum *checksum);
void checksum_discard(struct checksum *checksum);
void checksum_add(struct checksum *checksum, uint64_t offset, const uint8_t *data, uint64_t len);
/* Of what was added; nothing may be added any more. */
struct digest_value checksum_end(struct checksum *checksum);

/* Size, bytes and both digests, as messages have them. */
void message_put_digest(struct message *message, const struct digest_value *digest);

/* Whether a message has this digest at that place. */
bool message_has_digest(const struct message *message, size_t offset,
                        const struct digest_value *digest);

#endif

/*
 * digest.h - the checksum of an object: XXH3-128 of its data bytes in order of their offset, and
 * XXH3-128 of its extent map. Gaps are described by the map, not hashed as zeros. Of an object
 * without gaps, the data digest is what "xxh128sum" prints for a file of the same content. The map
 * is, per extent (a longest run of bytes without a gap), its offset u64 and length u64, big-endian.
 *
 * Pure but for xxHash. Both ends of a session feed the same calls and compare.
 */
#ifndef RDMAPUT_DIGEST_H
#define RDMAPUT_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIGEST_BYTES 16

struct digest_value {
    uint8_t data[DIGEST_BYTES]; /* canonical (big-endian) form */
    uint8_t map[DIGEST_BYTES];
    uint64_t size;  /* bytes of the object: where its last extent ends */
    uint64_t bytes; /* bytes of data in it, gaps left out */
};

struct digest; /* opaque */

/* NULL when memory ran out. */
struct digest *digest_new(void);
void digest_free(struct digest *digest);

/* Forgets all that was added. */
void digest_reset(struct digest *digest);

/* Adds data at an offset. Offsets never go back: false, and nothing is added, when offset lies
 * before the end of what was added, or the sum overflows. Adjacent ranges count as one extent.
 * len 0 adds nothing. */
bool digest_add(struct digest *digest, uint64_t offset, const void *data, size_t len);

/* Where the last range ended: the least offset that digest_add takes. */
uint64_t digest_end(const struct digest *digest);

/* The bytes that were added so far. */
uint64_t digest_bytes(const struct digest *digest);

/* The value of all that was added so far; more may be added after. */
void digest_value(const struct digest *digest, struct digest_value *value);

bool digest_equal(const struct digest_value *a, const struct digest_value *b);

/* The data digest in hexadecimal. */
char *digest_format(const struct digest_value *value, char buf[2 * DIGEST_BYTES + 1]);

#endif

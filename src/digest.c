/*
 * digest.c - the checksum of an object: its data, and its extent map.
 */
#include "config.h"

#include "digest.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define RECORD_BYTES 16

struct digest {
    XXH3_state_t *data;
    XXH3_state_t *map;     /* the extents before the last one */
    XXH3_state_t *scratch; /* for digest_value, which so cannot run out of memory */
    uint64_t start;        /* of the last extent, which may still grow */
    uint64_t end;
    uint64_t bytes;
};

static void put_u64(uint8_t *buf, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        buf[i] = (uint8_t)value;
}

static void map_extent(XXH3_state_t *map, uint64_t start, uint64_t end)
{
    uint8_t record[RECORD_BYTES];

    if (start == end)
        return;
    put_u64(record, start);
    put_u64(record + 8, end - start);
    XXH3_128bits_update(map, record, sizeof(record));
}

static void finish(const XXH3_state_t *state, uint8_t out[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out, canonical.digest, DIGEST_BYTES);
}

struct digest *digest_new(void)
{
    struct digest *digest = calloc(1, sizeof(*digest));

    if (!digest)
        return NULL;
    digest->data = XXH3_createState();
    digest->map = XXH3_createState();
    digest->scratch = XXH3_createState();
    if (!digest->data || !digest->map || !digest->scratch) {
        digest_free(digest);
        return NULL;
    }
    digest_reset(digest);
    return digest;
}

void digest_reset(struct digest *digest)
{
    XXH3_128bits_reset(digest->data);
    XXH3_128bits_reset(digest->map);
    digest->start = digest->end = digest->bytes = 0;
}

void digest_free(struct digest *digest)
{
    if (!digest)
        return;
    XXH3_freeState(digest->data);
    XXH3_freeState(digest->map);
    XXH3_freeState(digest->scratch);
    free(digest);
}

bool digest_add(struct digest *digest, uint64_t offset, const void *data, size_t len)
{
    uint64_t end;

    if (offset < digest->end || __builtin_add_overflow(offset, len, &end))
        return false;
    if (len == 0)
        return true;
    if (offset != digest->end) {
        map_extent(digest->map, digest->start, digest->end);
        digest->start = offset;
    }
    digest->end = end;
    digest->bytes += len;
    XXH3_128bits_update(digest->data, data, len);
    return true;
}

uint64_t digest_end(const struct digest *digest)
{
    return digest->end;
}

uint64_t digest_bytes(const struct digest *digest)
{
    return digest->bytes;
}

void digest_value(const struct digest *digest, struct digest_value *value)
{
    value->size = digest->end;
    value->bytes = digest->bytes;
    finish(digest->data, value->data);
    XXH3_copyState(digest->scratch, digest->map);
    map_extent(digest->scratch, digest->start, digest->end);
    finish(digest->scratch, value->map);
}

bool digest_equal(const struct digest_value *a, const struct digest_value *b)
{
    return a->size == b->size && a->bytes == b->bytes &&
           memcmp(a->data, b->data, DIGEST_BYTES) == 0 && memcmp(a->map, b->map, DIGEST_BYTES) == 0;
}

char *digest_format(const struct digest_value *value, char buf[2 * DIGEST_BYTES + 1])
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        buf[2 * i] = hex[value->data[i] >> 4];
        buf[2 * i + 1] = hex[value->data[i] & 15];
    }
    buf[2 * DIGEST_BYTES] = '\0';
    return buf;
}

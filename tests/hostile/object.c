#include "config.h"

#include "object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP_AT 12000
#define GAP_BYTES 384

int object_make(struct object *object, uint64_t size, bool with_gap)
{
    *object = (struct object){.data = calloc(1, size), .size = size, .extent_count = 1};
    if (!object->data)
        return -1;
    object->extents[0] = (struct wire_extent){0, size};
    if (with_gap) {
        object->extents[0].length = GAP_AT;
        object->extents[1] = (struct wire_extent){GAP_AT + GAP_BYTES, size - GAP_AT - GAP_BYTES};
        object->extent_count = 2;
    }
    for (unsigned i = 0; i < object->extent_count; i++)
        for (uint64_t k = 0; k < object->extents[i].length; k++) {
            uint64_t at = object->extents[i].offset + k;
            object->data[at] = (uint8_t)(at * 31 + at / 251 + 1);
        }
    return 0;
}

int object_read(struct object *object, const char *path)
{
    FILE *file = fopen(path, "rb");
    *object = (struct object){.extent_count = 0};
    if (!file || fseek(file, 0, SEEK_END) < 0)
        goto fail;
    object->size = (uint64_t)ftell(file);
    object->data = malloc(object->size + 1);
    rewind(file);
    if (!object->data || fread(object->data, 1, object->size, file) != object->size)
        goto fail;
    fclose(file);
    if (object->size > 0)
        object->extents[object->extent_count++] = (struct wire_extent){0, object->size};
    return 0;
fail:
    perror(path);
    if (file)
        fclose(file);
    object_free(object);
    return -1;
}

void object_free(struct object *object)
{
    free(object->data);
    *object = (struct object){.data = NULL};
}

void checksum_discard(struct checksum *checksum)
{
    XXH3_freeState(checksum->data);
    XXH3_freeState(checksum->map);
    *checksum = (struct checksum){.data = NULL};
}

int checksum_begin(struct checksum *checksum)
{
    checksum_discard(checksum);
    *checksum = (struct checksum){.data = XXH3_createState(), .map = XXH3_createState()};
    if (!checksum->data || !checksum->map)
        return -1;
    XXH3_128bits_reset(checksum->data);
    XXH3_128bits_reset(checksum->map);
    return 0;
}

static void map_last(struct checksum *checksum)
{
    struct message record = {.len = 0};
    if (checksum->start == checksum->end)
        return;
    message_put(&record, 8, checksum->start);
    message_put(&record, 8, checksum->end - checksum->start);
    XXH3_128bits_update(checksum->map, record.bytes, record.len);
}

void checksum_add(struct checksum *checksum, uint64_t offset, const uint8_t *data, uint64_t len)
{
    if (offset != checksum->end) {
        map_last(checksum);
        checksum->start = offset;
    }
    checksum->end = offset + len;
    checksum->bytes += len;
    XXH3_128bits_update(checksum->data, data, len);
}

static void finish(XXH3_state_t *state, uint8_t digest[DIGEST_BYTES])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(digest, canonical.digest, DIGEST_BYTES);
    XXH3_freeState(state);
}

struct digest_value checksum_end(struct checksum *checksum)
{
    struct digest_value value = {.size = checksum->end, .bytes = checksum->bytes};
    map_last(checksum);
    finish(checksum->data, value.data);
    finish(checksum->map, value.map);
    *checksum = (struct checksum){.data = NULL};
    return value;
}

void message_put_digest(struct message *message, const struct digest_value *digest)
{
    message_put(message, 8, digest->size);
    message_put(message, 8, digest->bytes);
    message_put_bytes(message, digest->data, DIGEST_BYTES);
    message_put_bytes(message, digest->map, DIGEST_BYTES);
}

bool message_has_digest(const struct message *message, size_t offset,
                        const struct digest_value *digest)
{
    struct message expected = {.len = 0};
    message_put_digest(&expected, digest);
    return offset + expected.len <= message->len &&
           memcmp(message->bytes + offset, expected.bytes, expected.len) == 0;
}

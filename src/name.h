/*
 * name.h - the names of objects as clients give them, and the hidden names of files on their way:
 *
 *     .LEAF.rdmaput-<16 hex>         a temporary
 *     .LEAF.rdmaput-part-<32 hex>    a partial, which is kept for resuming
 *
 * LEAF is cut, between characters, so that the whole has at most NAME_MOST bytes. Pure.
 */
#ifndef RDMAPUT_NAME_H
#define RDMAPUT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_MOST 255 /* bytes of one component */
#define NAME_DIGEST_BYTES 16

enum name_kind {
    NAME_PLAIN,
    NAME_TEMPORARY,
    NAME_PARTIAL,
};

/*
 * Whether name may be an object's: a relative path of components that are neither empty, "." nor
 * "..", of at most NAME_MOST bytes, without control characters, and not of the hidden kinds above.
 * If not, problem says why ("it has an empty part").
 */
bool name_check(const char *name, char *problem, size_t size);

/* The kind of one component. */
enum name_kind name_kind(const char *component);

/* Whether a hidden component was made for the leaf, or for one that is cut to the same. */
bool name_is_of(const char *hidden, const char *leaf);

void name_make_temporary(char hidden[NAME_MOST + 1], const char *leaf, uint64_t random);
void name_make_partial(char hidden[NAME_MOST + 1], const char *leaf,
                       const uint8_t digest[NAME_DIGEST_BYTES]);

#endif

/*
 * pattern.h - bytes that tell their places apart, and what is wrong with those that arrived: the
 * patterns of check sessions (wire.h).
 */
#ifndef RDMAPUT_PATTERN_H
#define RDMAPUT_PATTERN_H

#include <stddef.h>
#include <stdint.h>

/* The first wrong byte. */
struct pattern_mismatch {
    size_t at; /* from the start of what was compared */
    uint8_t found, expected;
};

/* Byte number position of the pattern of seed. */
uint8_t pattern_byte(uint64_t seed, uint64_t position);

/* Fills len bytes with those of the pattern from position on. */
void pattern_fill(uint8_t *bytes, size_t len, uint64_t seed, uint64_t position);

/* How many of len bytes are not those of the pattern from position on; of more than 0, *first is the
 * first one. The bytes may change meanwhile: each is read once. */
size_t pattern_compare(const uint8_t *bytes, size_t len, uint64_t seed, uint64_t position,
                       struct pattern_mismatch *first);

#endif

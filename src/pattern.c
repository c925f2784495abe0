#include "config.h"

#include "pattern.h"

#include <string.h>

#define WORD 8

/* Bytes of one word of the pattern. */
struct piece {
    uint8_t bytes[WORD];
    size_t start, len;
};

static uint64_t word_of(uint64_t seed, uint64_t index)
{
    uint64_t x = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Those from position on, at most most. */
static struct piece piece_at(uint64_t seed, uint64_t position, size_t most)
{
    struct piece piece = {.start = position % WORD};
    uint64_t word = word_of(seed, position / WORD);
    for (unsigned i = 0; i < WORD; i++, word >>= 8)
        piece.bytes[i] = (uint8_t)word;
    piece.len = WORD - piece.start < most ? WORD - piece.start : most;
    return piece;
}

uint8_t pattern_byte(uint64_t seed, uint64_t position)
{
    struct piece piece = piece_at(seed, position, 1);
    return piece.bytes[piece.start];
}

void pattern_fill(uint8_t *bytes, size_t len, uint64_t seed, uint64_t position)
{
    for (size_t done = 0; done < len;) {
        struct piece piece = piece_at(seed, position + done, len - done);
        memcpy(bytes + done, piece.bytes + piece.start, piece.len);
        done += piece.len;
    }
}

size_t pattern_compare(const uint8_t *bytes, size_t len, uint64_t seed, uint64_t position,
                       struct pattern_mismatch *first)
{
    size_t wrong = 0;
    for (size_t done = 0; done < len;) {
        uint8_t found[WORD];
        struct piece piece = piece_at(seed, position + done, len - done);
        const uint8_t *expected = piece.bytes + piece.start;
        memcpy(found, bytes + done, piece.len);
        for (size_t i = 0; memcmp(found, expected, piece.len) != 0 && i < piece.len; i++) {
            if (found[i] == expected[i])
                continue;
            if (wrong++ == 0)
                *first = (struct pattern_mismatch){
                    .at = done + i, .found = found[i], .expected = expected[i]};
        }
        done += piece.len;
    }
    return wrong;
}

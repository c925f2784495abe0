/*
 * units.h - sizes, times, rates and numbers as people write and read them.
 *
 * Sizes: decimal or 0x hexadecimal, then nothing, K M G T (or k m g t) or KiB MiB GiB TiB: powers
 * of 1024. "KB" and the like are refused as ambiguous. Times: a decimal number, fractions allowed,
 * and ns, us, ms, s, m or h; plain numbers are seconds. Rates: a decimal number, fractions allowed, and
 * a unit: b/s are bits and B/s bytes in a second, with K M G T (or k) before them for powers of 1000, and
 * Ki Mi Gi Ti for those of 1024.
 */
#ifndef RDMAPUT_UNITS_H
#define RDMAPUT_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum units_result {
    UNITS_OK = 0,
    UNITS_EMPTY,     /* nothing there */
    UNITS_MALFORMED, /* not a number, or an unknown unit */
    UNITS_AMBIGUOUS, /* KB, MB, GB, TB: write K or KiB */
    UNITS_RANGE,     /* does not fit */
};

/* Parses the len bytes at text as a size in bytes, at most INT64_MAX. No sign, no white space. */
enum units_result units_size(const char *text, size_t len, uint64_t *bytes);

/* Parses text as a time, in nanoseconds; at most INT64_MAX. */
enum units_result units_time(const char *text, uint64_t *ns);

/* Parses text as a rate, in bytes in a second, at most INT64_MAX; bits that make no byte count
 * as one. */
enum units_result units_rate(const char *text, uint64_t *bytes_per_second);

/* Parses text as an unsigned number, decimal or 0x hexadecimal, without a unit, at most max. */
enum units_result units_number(const char *text, uint64_t max, uint64_t *value);

/* What is wrong, as the end of a sentence: "is not a size", "is ambiguous: write K or KiB, ...".
 * what is "a size", "a time" or "a number". Writes to buf and returns it. */
const char *units_problem(enum units_result result, const char *what, char *buf, size_t size);

#define UNITS_TEXT 32
/* A size for people: "512 B", "1.50 MiB". buf has UNITS_TEXT bytes; returns it. */
char *units_format_size(uint64_t bytes, char buf[UNITS_TEXT]);
/* A time for people: "850 ms", "12.3 s", "16 m 40 s", "2 h 5 m". */
char *units_format_time(uint64_t ns, char buf[UNITS_TEXT]);

/* A rate for people, in bits as fabrics are sold by and in bytes: "98.4 Gb/s (11.46 GiB/s)". */
#define UNITS_RATE_TEXT 64
char *units_format_rate(uint64_t bytes_per_second, char buf[UNITS_RATE_TEXT]);

#endif

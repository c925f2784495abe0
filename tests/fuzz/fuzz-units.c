/*
 * fuzz-units.c - sizes, times, rates and numbers: what is parsed is within its limits, is what the digits
 * say, and can be shown.
 */
#include "config.h"

#include "units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define PROBLEM 96

static void assert_explained(enum units_result result)
{
    char problem[PROBLEM];
    FUZZ_ASSERT(units_problem(result, "a size", problem, sizeof problem) == problem);
    fuzz_assert_told(problem, sizeof problem);
}

static void assert_shown(uint64_t value)
{
    char text[UNITS_TEXT];
    fuzz_assert_told(units_format_size(value, text), sizeof text);
    fuzz_assert_told(units_format_time(value, text), sizeof text);
}

static uint64_t read_integer(const char *text, char **end)
{
    bool is_hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    return strtoull(text, end, is_hexadecimal ? 16 : 10);
}

static uint64_t unit_of(char letter)
{
    static const char letters[] = "kmgt";
    const char *at = letter ? strchr(letters, tolower((uint8_t)letter)) : NULL;
    return at ? UINT64_C(1) << 10 * (at - letters + 1) : 1;
}

/* What is parsed is in memory of exactly its size, without a NUL. */
static void try_size(const uint8_t *data, size_t size, const char *text)
{
    char plain[UNITS_TEXT], *unit;
    uint64_t bytes, again;
    enum units_result result = units_size((const char *)data, size, &bytes);
    assert_explained(result);
    if (result != UNITS_OK)
        return;
    FUZZ_ASSERT(bytes <= INT64_MAX);
    FUZZ_ASSERT(bytes == read_integer(text, &unit) * unit_of(*unit));
    assert_shown(bytes);
    int len = snprintf(plain, sizeof plain, "%" PRIu64, bytes);
    FUZZ_ASSERT(units_size(plain, (size_t)len, &again) == UNITS_OK && again == bytes);
}

static void try_time(const char *text)
{
    char plain[UNITS_TEXT];
    uint64_t ns, again;
    enum units_result result = units_time(text, &ns);
    assert_explained(result);
    if (result != UNITS_OK)
        return;
    FUZZ_ASSERT(ns <= INT64_MAX);
    assert_shown(ns);
    snprintf(plain, sizeof plain, "%" PRIu64 ".%09" PRIu64 "s", ns / 1000000000, ns % 1000000000);
    FUZZ_ASSERT(units_time(plain, &again) == UNITS_OK && again == ns);
}

static void try_rate(const char *text)
{
    char plain[UNITS_TEXT], shown[UNITS_RATE_TEXT];
    uint64_t rate, again;
    enum units_result result = units_rate(text, &rate);
    assert_explained(result);
    if (result != UNITS_OK)
        return;
    FUZZ_ASSERT(rate <= INT64_MAX);
    fuzz_assert_told(units_format_rate(rate, shown), sizeof shown);
    snprintf(plain, sizeof plain, "%" PRIu64 "B/s", rate);
    result = units_rate(plain, &again);
    /* What was rounded up may be a bit too many. */
    FUZZ_ASSERT(rate > UINT64_MAX / 8 || (result == UNITS_OK && again == rate));
}

static void try_number(const char *text)
{
    uint64_t number, again;
    enum units_result result = units_number(text, UINT64_MAX, &number);
    assert_explained(result);
    if (result != UNITS_OK)
        return;
    FUZZ_ASSERT(number == read_integer(text, NULL));
    FUZZ_ASSERT(units_number(text, number, &again) == UNITS_OK && again == number);
    if (number > 0)
        FUZZ_ASSERT(units_number(text, number - 1, &again) == UNITS_RANGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    try_size(data, size, text);
    try_time(text);
    try_rate(text);
    try_number(text);
    free(text);
    return 0;
}

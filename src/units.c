/*
 * units.c - sizes, times, rates and numbers as people write and read them.
 */
#include "config.h"

#include "units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What is left to read. */
struct text {
    const char *at;
    size_t len;
};

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

static void skip(struct text *text, size_t count)
{
    text->at += count;
    text->len -= count;
}

/* Reads digits as far as they go. A number that does not fit sets *overflow, and is read to its
 * end all the same, so that what follows it can be judged. */
static enum units_result read_digits(struct text *text, unsigned base, uint64_t *value,
                                     bool *overflow)
{
    size_t count = 0;

    *value = 0;
    while (count < text->len && (unsigned)digit_value(text->at[count]) < base) {
        *overflow |= __builtin_mul_overflow(*value, base, value);
        *overflow |= __builtin_add_overflow(*value, digit_value(text->at[count]), value);
        count++;
    }
    skip(text, count);
    return count ? UNITS_OK : UNITS_MALFORMED;
}

static enum units_result read_number(struct text *text, uint64_t *value, bool *overflow)
{
    unsigned base = 10;

    if (text->len == 0)
        return UNITS_EMPTY;
    if (text->len >= 2 && text->at[0] == '0' && (text->at[1] == 'x' || text->at[1] == 'X')) {
        base = 16;
        skip(text, 2);
    }
    return read_digits(text, base, value, overflow);
}

static bool text_is(const struct text *text, const char *word)
{
    return text->len == strlen(word) && memcmp(text->at, word, text->len) == 0;
}

static enum units_result read_size_unit(struct text text, uint64_t *unit)
{
    static const char letters[] = "KMGTkmgt";
    const char *letter;

    *unit = 1;
    if (text.len == 0)
        return UNITS_OK;
    letter = memchr(letters, text.at[0], strlen(letters));
    if (!letter)
        return UNITS_MALFORMED;
    *unit = UINT64_C(1) << (10 * ((letter - letters) % 4 + 1));
    skip(&text, 1);
    if (text_is(&text, "B") || text_is(&text, "b"))
        return UNITS_AMBIGUOUS;
    return text.len == 0 || text_is(&text, "iB") ? UNITS_OK : UNITS_MALFORMED;
}

enum units_result units_size(const char *text, size_t len, uint64_t *bytes)
{
    struct text rest = {text, len};
    bool overflow = false;
    enum units_result result;
    uint64_t number, unit, product;

    result = read_number(&rest, &number, &overflow);
    if (result == UNITS_OK)
        result = read_size_unit(rest, &unit);
    if (result != UNITS_OK)
        return result;
    overflow |= __builtin_mul_overflow(number, unit, &product);
    if (overflow || product > INT64_MAX)
        return UNITS_RANGE;
    *bytes = product;
    return UNITS_OK;
}

static enum units_result read_time_unit(struct text *text, uint64_t *unit)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {
        {"", UINT64_C(1000000000)},     {"ns", 1},
        {"us", UINT64_C(1000)},         {"ms", UINT64_C(1000000)},
        {"s", UINT64_C(1000000000)},    {"m", UINT64_C(60000000000)},
        {"h", UINT64_C(3600000000000)},
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (text_is(text, units[i].name)) {
            *unit = units[i].ns;
            return UNITS_OK;
        }
    }
    return UNITS_MALFORMED;
}

static uint64_t fraction_of(uint64_t unit, struct text digits)
{
    uint64_t sum = 0;

    /* From the last digit on, nothing is lost but what is less than 1. */
    for (size_t i = digits.len; i > 0; i--)
        sum = (unit * (uint64_t)digit_value(digits.at[i - 1]) + sum) / 10;
    return sum;
}

/* Reads ".DIGITS", if that follows. */
static enum units_result read_fraction(struct text *text, struct text *digits)
{
    bool overflow = false;
    uint64_t unused;

    *digits = (struct text){text->at, 0};
    if (text->len == 0 || text->at[0] != '.')
        return UNITS_OK;
    skip(text, 1);
    *digits = *text;
    if (read_digits(text, 10, &unused, &overflow) != UNITS_OK)
        return UNITS_MALFORMED;
    digits->len -= text->len;
    return UNITS_OK;
}

/* "DIGITS[.DIGITS]UNIT", to its end, in what the unit is told in. */
static enum units_result read_decimal(const char *text,
                                      enum units_result (*read_unit)(struct text *, uint64_t *),
                                      uint64_t *sum)
{
    struct text rest = {text, strlen(text)}, digits;
    bool overflow = false;
    uint64_t whole, unit;

    if (rest.len == 0)
        return UNITS_EMPTY;
    if (read_digits(&rest, 10, &whole, &overflow) != UNITS_OK ||
        read_fraction(&rest, &digits) != UNITS_OK || read_unit(&rest, &unit) != UNITS_OK)
        return UNITS_MALFORMED;
    overflow |= __builtin_mul_overflow(whole, unit, sum);
    overflow |= __builtin_add_overflow(*sum, fraction_of(unit, digits), sum);
    return overflow ? UNITS_RANGE : UNITS_OK;
}

enum units_result units_time(const char *text, uint64_t *ns)
{
    uint64_t sum;
    enum units_result result = read_decimal(text, read_time_unit, &sum);

    if (result == UNITS_OK && sum > INT64_MAX)
        return UNITS_RANGE;
    if (result == UNITS_OK)
        *ns = sum;
    return result;
}

/* A prefix, which is taken off: its factor. */
static uint64_t read_prefix(struct text *text)
{
    static const char letters[] = "KMGT";
    char first = text->len == 0 ? '\0' : text->at[0] == 'k' ? 'K' : text->at[0];
    const char *letter = first ? strchr(letters, first) : NULL;
    uint64_t base = 1000, factor = 1;

    if (!letter)
        return 1;
    skip(text, 1);
    if (text->len > 0 && text->at[0] == 'i') {
        skip(text, 1);
        base = 1024;
    }
    for (ptrdiff_t i = 0; i <= letter - letters; i++)
        factor *= base;
    return factor;
}

/* In bits a second. */
static enum units_result read_rate_unit(struct text *text, uint64_t *unit)
{
    *unit = read_prefix(text);
    if (text_is(text, "B/s"))
        *unit *= 8;
    else if (!text_is(text, "b/s"))
        return UNITS_MALFORMED;
    return UNITS_OK;
}

enum units_result units_rate(const char *text, uint64_t *bytes_per_second)
{
    uint64_t bits;
    enum units_result result = read_decimal(text, read_rate_unit, &bits);

    if (result == UNITS_OK)
        *bytes_per_second = bits / 8 + (bits % 8 != 0);
    return result;
}

enum units_result units_number(const char *text, uint64_t max, uint64_t *value)
{
    struct text rest = {text, strlen(text)};
    bool overflow = false;
    enum units_result result;
    uint64_t number;

    result = read_number(&rest, &number, &overflow);
    if (result != UNITS_OK)
        return result;
    if (rest.len > 0)
        return UNITS_MALFORMED;
    if (overflow || number > max)
        return UNITS_RANGE;
    *value = number;
    return UNITS_OK;
}

const char *units_problem(enum units_result result, const char *what, char *buf, size_t size)
{
    switch (result) {
    case UNITS_OK:
        snprintf(buf, size, "is %s", what);
        break;
    case UNITS_EMPTY:
        snprintf(buf, size, "is empty");
        break;
    case UNITS_MALFORMED:
        snprintf(buf, size, "is not %s", what);
        break;
    case UNITS_AMBIGUOUS:
        snprintf(buf, size, "is ambiguous: write K or KiB, powers of 1024 (likewise M, G, T)");
        break;
    case UNITS_RANGE:
        snprintf(buf, size, "is too large");
        break;
    }
    return buf;
}

char *units_format_size(uint64_t bytes, char buf[UNITS_TEXT])
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(buf, UNITS_TEXT, "%" PRIu64 " B", bytes);
        return buf;
    }
    /* What would be rounded to 1024.00 is 1.00 of the next unit. */
    while (value >= 1023.995) {
        value /= 1024;
        unit++;
    }
    snprintf(buf, UNITS_TEXT, "%.2f %s", value, names[unit]);
    return buf;
}

static char *format_long_time(uint64_t seconds, char buf[UNITS_TEXT])
{
    if (seconds < 3600)
        snprintf(buf, UNITS_TEXT, "%" PRIu64 " m %" PRIu64 " s", seconds / 60, seconds % 60);
    else
        snprintf(buf, UNITS_TEXT, "%" PRIu64 " h %" PRIu64 " m", seconds / 3600, seconds / 60 % 60);
    return buf;
}

char *units_format_time(uint64_t ns, char buf[UNITS_TEXT])
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    double value = (double)ns;

    for (size_t unit = 0; unit < sizeof(names) / sizeof(names[0]); unit++) {
        if (value < 999.5) {
            snprintf(buf, UNITS_TEXT, "%.3g %s", value, names[unit]);
            return buf;
        }
        value /= 1000;
    }
    return format_long_time(ns / UINT64_C(1000000000), buf);
}

char *units_format_rate(uint64_t bytes_per_second, char buf[UNITS_RATE_TEXT])
{
    static const char *const names[] = {"b/s", "Kb/s", "Mb/s", "Gb/s", "Tb/s"};
    char bytes[UNITS_TEXT];
    double value = 8.0 * (double)bytes_per_second;
    size_t unit = 0;

    while (value >= 999.5 && unit + 1 < sizeof(names) / sizeof(names[0])) {
        value /= 1000;
        unit++;
    }
    snprintf(buf, UNITS_RATE_TEXT, "%.3g %s (%s/s)", value, names[unit],
             units_format_size(bytes_per_second, bytes));
    return buf;
}

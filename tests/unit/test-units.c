/*
 * test-units.c - sizes, times, rates and numbers as people write and read them.
 */
#include "config.h"

#include "units.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)
#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define M (60 * S)
#define H (60 * M)
#define UNTOUCHED UINT64_C(0x5555)

struct row {
    const char *text;
    enum units_result result;
    uint64_t value;
};

static void check(const struct row *row, enum units_result result, const uint64_t *value)
{
    if (result != row->result)
        fail_msg("'%s' gives result %d, not %d", row->text, (int)result, (int)row->result);
    if (*value != (row->result == UNITS_OK ? row->value : UNTOUCHED))
        fail_msg("'%s' gives %" PRIu64, row->text, *value);
}

static void test_sizes(void **state)
{
    static const struct row rows[] = {
        {"0", UNITS_OK, 0},
        {"1", UNITS_OK, 1},
        {"007", UNITS_OK, 7},
        {"4096", UNITS_OK, 4096},
        {"4K", UNITS_OK, 4 * KIB},
        {"4k", UNITS_OK, 4 * KIB},
        {"4KiB", UNITS_OK, 4 * KIB},
        {"4kiB", UNITS_OK, 4 * KIB},
        {"3M", UNITS_OK, 3 * MIB},
        {"3m", UNITS_OK, 3 * MIB},
        {"3MiB", UNITS_OK, 3 * MIB},
        {"2G", UNITS_OK, 2 * GIB},
        {"2g", UNITS_OK, 2 * GIB},
        {"2GiB", UNITS_OK, 2 * GIB},
        {"5T", UNITS_OK, 5 * TIB},
        {"5t", UNITS_OK, 5 * TIB},
        {"5TiB", UNITS_OK, 5 * TIB},
        {"0K", UNITS_OK, 0},
        {"0x0", UNITS_OK, 0},
        {"0x10", UNITS_OK, 16},
        {"0X1f", UNITS_OK, 31},
        {"0xaBcDeF", UNITS_OK, 0xabcdef},
        {"0x10K", UNITS_OK, 16 * KIB},
        {"0x10KiB", UNITS_OK, 16 * KIB},
        {"0xBK", UNITS_OK, 11 * KIB},
        {"0x10B", UNITS_OK, 0x10b},
        {"4294967295", UNITS_OK, UINT64_C(4294967295)},
        {"4294967296", UNITS_OK, UINT64_C(4294967296)},
        {"4194304K", UNITS_OK, UINT64_C(4294967296)},
        {"9223372036854775807", UNITS_OK, INT64_MAX},
        {"0x7fffffffffffffff", UNITS_OK, INT64_MAX},
        {"0000000000000000000000000000000000012", UNITS_OK, 12},
        {"9223372036854775808", UNITS_RANGE, 0},
        {"0x8000000000000000", UNITS_RANGE, 0},
        {"18446744073709551615", UNITS_RANGE, 0},
        {"18446744073709551616", UNITS_RANGE, 0},
        {"18446744073709551617", UNITS_RANGE, 0},
        {"0x10000000000000001", UNITS_RANGE, 0},
        {"184467440737095516160", UNITS_RANGE, 0},
        {"9007199254740991K", UNITS_OK, UINT64_C(9007199254740991) * KIB},
        {"9007199254740992K", UNITS_RANGE, 0},
        {"8388607T", UNITS_OK, 8388607 * TIB},
        {"8388608T", UNITS_RANGE, 0},
        {"16777216T", UNITS_RANGE, 0},
        {"16777217T", UNITS_RANGE, 0},
        {"99999999999999999999999999999999999999T", UNITS_RANGE, 0},
        {"", UNITS_EMPTY, 0},
        {"4KB", UNITS_AMBIGUOUS, 0},
        {"4kB", UNITS_AMBIGUOUS, 0},
        {"4kb", UNITS_AMBIGUOUS, 0},
        {"4MB", UNITS_AMBIGUOUS, 0},
        {"4GB", UNITS_AMBIGUOUS, 0},
        {"4TB", UNITS_AMBIGUOUS, 0},
        {"0x4KB", UNITS_AMBIGUOUS, 0},
        {"99999999999999999999999KB", UNITS_AMBIGUOUS, 0},
        {"K", UNITS_MALFORMED, 0},
        {"KB", UNITS_MALFORMED, 0},
        {"x", UNITS_MALFORMED, 0},
        {"0x", UNITS_MALFORMED, 0},
        {"0xK", UNITS_MALFORMED, 0},
        {"0xg", UNITS_MALFORMED, 0},
        {"x10", UNITS_MALFORMED, 0},
        {"ff", UNITS_MALFORMED, 0},
        {"10B", UNITS_MALFORMED, 0},
        {"1b", UNITS_MALFORMED, 0},
        {"1P", UNITS_MALFORMED, 0},
        {"1iB", UNITS_MALFORMED, 0},
        {"1Ki", UNITS_MALFORMED, 0},
        {"1KIB", UNITS_MALFORMED, 0},
        {"1KiBs", UNITS_MALFORMED, 0},
        {"1KBs", UNITS_MALFORMED, 0},
        {"1KK", UNITS_MALFORMED, 0},
        {"1K1", UNITS_MALFORMED, 0},
        {"1.5K", UNITS_MALFORMED, 0},
        {"1,000", UNITS_MALFORMED, 0},
        {"1_000", UNITS_MALFORMED, 0},
        {"-1", UNITS_MALFORMED, 0},
        {"+1", UNITS_MALFORMED, 0},
        {" 1", UNITS_MALFORMED, 0},
        {"1 ", UNITS_MALFORMED, 0},
        {"1 K", UNITS_MALFORMED, 0},
        {"1\n", UNITS_MALFORMED, 0},
        {"1e3", UNITS_MALFORMED, 0},
        {"\xd9\xa1", UNITS_MALFORMED, 0},
        {"99999999999999999999999999x", UNITS_MALFORMED, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t value = UNTOUCHED;

        check(&rows[i], units_size(rows[i].text, strlen(rows[i].text), &value), &value);
    }
}

static void test_size_reads_no_more_than_its_length(void **state)
{
    static const char text[] = {'0', 'x', '1', '2', 'K', 'i', 'B'};
    static const struct {
        size_t len;
        enum units_result result;
        uint64_t value;
    } rows[] = {
        {0, UNITS_EMPTY, 0},     {1, UNITS_OK, 0},          {2, UNITS_MALFORMED, 0},
        {3, UNITS_OK, 1},        {4, UNITS_OK, 0x12},       {5, UNITS_OK, 0x12 * KIB},
        {6, UNITS_MALFORMED, 0}, {7, UNITS_OK, 0x12 * KIB},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *exact = malloc(rows[i].len + 1);
        uint64_t value = 0;

        assert_non_null(exact);
        memcpy(exact, text, rows[i].len);
        exact[rows[i].len] = '9';
        assert_int_equal(units_size(exact, rows[i].len, &value), rows[i].result);
        assert_int_equal(value, rows[i].value);
        free(exact);
    }
    assert_int_equal(units_size("1\0", 2, &(uint64_t){0}), UNITS_MALFORMED);
}

static void test_very_long_numbers_are_out_of_range(void **state)
{
    size_t len = 1000000;
    char *text = malloc(len + 1);
    uint64_t value;

    (void)state;
    assert_non_null(text);
    memset(text, '7', len);
    text[len] = '\0';
    assert_int_equal(units_size(text, len, &value), UNITS_RANGE);
    assert_int_equal(units_number(text, UINT64_MAX, &value), UNITS_RANGE);
    assert_int_equal(units_time(text, &value), UNITS_RANGE);
    text[1] = '.';
    assert_int_equal(units_time(text, &value), UNITS_OK);
    assert_int_equal(value, 7777777777);
    free(text);
}

static void test_times(void **state)
{
    static const struct row rows[] = {
        {"0", UNITS_OK, 0},
        {"30", UNITS_OK, 30 * S},
        {"30s", UNITS_OK, 30 * S},
        {"250ms", UNITS_OK, 250 * MS},
        {"2m", UNITS_OK, 2 * M},
        {"3h", UNITS_OK, 3 * H},
        {"1.5", UNITS_OK, 1500 * MS},
        {"1.5s", UNITS_OK, 1500 * MS},
        {"0.5m", UNITS_OK, 30 * S},
        {"1.25h", UNITS_OK, 75 * M},
        {"0.001ms", UNITS_OK, 1000},
        {"0.000001ms", UNITS_OK, 1},
        {"0.0000019ms", UNITS_OK, 1},
        {"0.000000001", UNITS_OK, 1},
        {"0.0000000001", UNITS_OK, 0},
        {"0.999999999s", UNITS_OK, 999999999},
        {"1.0000000000000000000000000000001", UNITS_OK, S},
        {"9223372036", UNITS_OK, 9223372036 * S},
        {"9223372036.854775807", UNITS_OK, INT64_MAX},
        {"9223372036.854775808", UNITS_RANGE, 0},
        {"9223372037", UNITS_RANGE, 0},
        {"18446744073", UNITS_RANGE, 0},
        {"18446744074", UNITS_RANGE, 0},
        {"18446744073.709551616", UNITS_RANGE, 0},
        {"18446744073.999999999", UNITS_RANGE, 0},
        {"18446744073709551616", UNITS_RANGE, 0},
        {"2562047h", UNITS_OK, 2562047 * H},
        {"2562048h", UNITS_RANGE, 0},
        {"", UNITS_EMPTY, 0},
        {".5", UNITS_MALFORMED, 0},
        {"1.", UNITS_MALFORMED, 0},
        {"1.s", UNITS_MALFORMED, 0},
        {"1.5.5", UNITS_MALFORMED, 0},
        {"1,5", UNITS_MALFORMED, 0},
        {".", UNITS_MALFORMED, 0},
        {"s", UNITS_MALFORMED, 0},
        {"-1", UNITS_MALFORMED, 0},
        {"-0", UNITS_MALFORMED, 0},
        {"+1", UNITS_MALFORMED, 0},
        {" 1", UNITS_MALFORMED, 0},
        {"1 s", UNITS_MALFORMED, 0},
        {"1s ", UNITS_MALFORMED, 0},
        {"1S", UNITS_MALFORMED, 0},
        {"1ns", UNITS_OK, 1},
        {"10us", UNITS_OK, 10000},
        {"1.5us", UNITS_OK, 1500},
        {"1u", UNITS_MALFORMED, 0},
        {"1n", UNITS_MALFORMED, 0},
        {"1d", UNITS_MALFORMED, 0},
        {"1min", UNITS_MALFORMED, 0},
        {"1m30s", UNITS_MALFORMED, 0},
        {"0x10", UNITS_MALFORMED, 0},
        {"1e3", UNITS_MALFORMED, 0},
        {"inf", UNITS_MALFORMED, 0},
        {"99999999999999999999x", UNITS_MALFORMED, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t value = UNTOUCHED;

        check(&rows[i], units_time(rows[i].text, &value), &value);
    }
}

static void test_rates(void **state)
{
    static const struct row rows[] = {
        {"0b/s", UNITS_OK, 0},
        {"8b/s", UNITS_OK, 1},
        {"9b/s", UNITS_OK, 2},
        {"1B/s", UNITS_OK, 1},
        {"0.2B/s", UNITS_OK, 1},
        {"90Gb/s", UNITS_OK, UINT64_C(11250000000)},
        {"90GB/s", UNITS_OK, UINT64_C(90000000000)},
        {"1.5GiB/s", UNITS_OK, UINT64_C(1610612736)},
        {"1.25Kib/s", UNITS_OK, 160},
        {"1.3KiB/s", UNITS_OK, 1332},
        {"12kb/s", UNITS_OK, 1500},
        {"12Kb/s", UNITS_OK, 1500},
        {"1MB/s", UNITS_OK, 1000000},
        {"1MiB/s", UNITS_OK, MIB},
        {"0.4Tb/s", UNITS_OK, UINT64_C(50000000000)},
        {"1TiB/s", UNITS_OK, TIB},
        {"18446744073709551615b/s", UNITS_OK, UINT64_C(2305843009213693952)},
        {"18446744073709551616b/s", UNITS_RANGE, 0},
        {"2305843009213693952B/s", UNITS_RANGE, 0},
        {"20000000Tb/s", UNITS_RANGE, 0},
        {"", UNITS_EMPTY, 0},
        {"90", UNITS_MALFORMED, 0},
        {"90G", UNITS_MALFORMED, 0},
        {"90Gb", UNITS_MALFORMED, 0},
        {"90Gbps", UNITS_MALFORMED, 0},
        {"90Gb/h", UNITS_MALFORMED, 0},
        {"90gb/s", UNITS_MALFORMED, 0},
        {"90ib/s", UNITS_MALFORMED, 0},
        {"90Gib", UNITS_MALFORMED, 0},
        {"90 Gb/s", UNITS_MALFORMED, 0},
        {"90Gb/s ", UNITS_MALFORMED, 0},
        {".5Gb/s", UNITS_MALFORMED, 0},
        {"1.Gb/s", UNITS_MALFORMED, 0},
        {"-1Gb/s", UNITS_MALFORMED, 0},
        {"0x10b/s", UNITS_MALFORMED, 0},
        {"Gb/s", UNITS_MALFORMED, 0},
        {"1/s", UNITS_MALFORMED, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t value = UNTOUCHED;

        check(&rows[i], units_rate(rows[i].text, &value), &value);
    }
}

static void test_numbers(void **state)
{
    static const struct {
        uint64_t max;
        struct row row;
    } rows[] = {
        {UINT64_MAX, {"0", UNITS_OK, 0}},
        {UINT64_MAX, {"18446744073709551615", UNITS_OK, UINT64_MAX}},
        {UINT64_MAX, {"0xffffffffffffffff", UNITS_OK, UINT64_MAX}},
        {UINT64_MAX, {"0XFFFFFFFFFFFFFFFF", UNITS_OK, UINT64_MAX}},
        {UINT64_MAX, {"18446744073709551616", UNITS_RANGE, 0}},
        {UINT64_MAX, {"0x10000000000000000", UNITS_RANGE, 0}},
        {UINT32_MAX, {"4294967295", UNITS_OK, UINT32_MAX}},
        {UINT32_MAX, {"4294967296", UNITS_RANGE, 0}},
        {65535, {"65535", UNITS_OK, 65535}},
        {65535, {"65536", UNITS_RANGE, 0}},
        {65535, {"18446744073709551617", UNITS_RANGE, 0}},
        {INT64_MAX, {"9223372036854775807", UNITS_OK, INT64_MAX}},
        {INT64_MAX, {"9223372036854775808", UNITS_RANGE, 0}},
        {0, {"0", UNITS_OK, 0}},
        {0, {"1", UNITS_RANGE, 0}},
        {UINT64_MAX, {"", UNITS_EMPTY, 0}},
        {UINT64_MAX, {"1K", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"0x", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"-1", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"+1", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {" 1", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"1 ", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"1.0", UNITS_MALFORMED, 0}},
        {UINT64_MAX, {"12ab", UNITS_MALFORMED, 0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t value = UNTOUCHED;

        check(&rows[i].row, units_number(rows[i].row.text, rows[i].max, &value), &value);
    }
}

static void test_problems_end_a_sentence(void **state)
{
    char buf[96];

    (void)state;
    assert_string_equal(units_problem(UNITS_EMPTY, "a size", buf, sizeof(buf)), "is empty");
    assert_string_equal(units_problem(UNITS_MALFORMED, "a time", buf, sizeof(buf)),
                        "is not a time");
    assert_string_equal(units_problem(UNITS_AMBIGUOUS, "a size", buf, sizeof(buf)),
                        "is ambiguous: write K or KiB, powers of 1024 (likewise M, G, T)");
    assert_string_equal(units_problem(UNITS_RANGE, "a number", buf, sizeof(buf)), "is too large");
    assert_string_equal(units_problem(UNITS_MALFORMED, "a number", buf, 6), "is no");
}

static void test_sizes_for_people(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {MIB - 1, "1.00 MiB"},
        {MIB - 6, "1023.99 KiB"},
        {MIB + MIB / 2, "1.50 MiB"},
        {UINT64_C(4294967296), "4.00 GiB"},
        {TIB, "1.00 TiB"},
        {1024 * TIB, "1.00 PiB"},
        {INT64_MAX, "8.00 EiB"},
        {UINT64_MAX, "16.00 EiB"},
    };
    char buf[UNITS_TEXT];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(units_format_size(rows[i].bytes, buf), rows[i].text);
}

static void test_rates_for_people(void **state)
{
    static const struct {
        uint64_t bytes_per_second;
        const char *text;
    } rows[] = {
        {0, "0 b/s (0 B/s)"},
        {100, "800 b/s (100 B/s)"},
        {125, "1 Kb/s (125 B/s)"},
        {UINT64_C(12300000000), "98.4 Gb/s (11.46 GiB/s)"},
        {UINT64_C(124950000), "1 Gb/s (119.16 MiB/s)"},
        {UINT64_C(125000000000), "1 Tb/s (116.42 GiB/s)"},
        {UINT64_MAX, "1.48e+08 Tb/s (16.00 EiB/s)"},
    };
    char buf[UNITS_RATE_TEXT];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(units_format_rate(rows[i].bytes_per_second, buf), rows[i].text);
}

static void test_times_for_people(void **state)
{
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0 ns"},
        {999, "999 ns"},
        {1000, "1 us"},
        {12345, "12.3 us"},
        {850 * MS, "850 ms"},
        {999499999, "999 ms"},
        {999500000, "1 s"},
        {1500 * MS, "1.5 s"},
        {12345 * MS, "12.3 s"},
        {30 * S, "30 s"},
        {999 * S, "999 s"},
        {1000 * S, "16 m 40 s"},
        {3599 * S, "59 m 59 s"},
        {H, "1 h 0 m"},
        {2 * H + 5 * M + 59 * S, "2 h 5 m"},
        {UINT64_MAX, "5124095 h 34 m"},
    };
    char buf[UNITS_TEXT];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_string_equal(units_format_time(rows[i].ns, buf), rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_size_reads_no_more_than_its_length),
        cmocka_unit_test(test_very_long_numbers_are_out_of_range),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_problems_end_a_sentence),
        cmocka_unit_test(test_sizes_for_people),
        cmocka_unit_test(test_times_for_people),
        cmocka_unit_test(test_rates_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

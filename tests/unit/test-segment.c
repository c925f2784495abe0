/*
 * test-segment.c - the grammar of a segment, and the range of a file that it names.
 */
#include "config.h"

#include "segment.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX ((uint64_t)INT64_MAX)
#define AMBIGUOUS "is ambiguous: write K or KiB, powers of 1024"

/* For expectations: "offset", "from the end", and so on. */
#define OFFSET(n) .has_offset = true, .offset = (n)
#define FROM_END(n) .has_offset = true, .from_end = true, .offset = (n)
#define LENGTH(n) .has_length = true, .length = (n)
#define REMOTE(n) .has_remote = true, .remote = (n)

static void check_equal(const char *argument, const struct segment *got,
                        const struct segment *expected, const char *path)
{
    if (strcmp(got->path, path) != 0)
        fail_msg("'%s': path '%s'", argument, got->path);
    if (got->has_suffix != expected->has_suffix)
        fail_msg("'%s': has_suffix", argument);
    if (got->has_offset != expected->has_offset || got->from_end != expected->from_end ||
        got->offset != expected->offset)
        fail_msg("'%s': offset %" PRIu64, argument, got->offset);
    if (got->has_length != expected->has_length || got->length != expected->length)
        fail_msg("'%s': length %" PRIu64, argument, got->length);
    if (got->has_remote != expected->has_remote || got->remote != expected->remote)
        fail_msg("'%s': remote %" PRIu64, argument, got->remote);
}

static void test_segments(void **state)
{
    static const struct {
        const char *argument, *path;
        struct segment expected;
    } rows[] = {
        {"disk.img", "disk.img", {.has_suffix = false}},
        {"disk.img@4K+1M", "disk.img", {.has_suffix = true, OFFSET(4096), LENGTH(1 << 20)}},
        {"log@-64K", "log", {.has_suffix = true, FROM_END(65536)}},
        {"head@+512", "head", {.has_suffix = true, LENGTH(512)}},
        {"patch@=1M", "patch", {.has_suffix = true, REMOTE(1 << 20)}},
        {"table@0x200+0x40=0x1000",
         "table",
         {.has_suffix = true, OFFSET(0x200), LENGTH(0x40), REMOTE(0x1000)}},
        {"a@12", "a", {.has_suffix = true, OFFSET(12)}},
        {"a@12@", "a@12", {.has_suffix = true}},
        {"a@12@34", "a@12", {.has_suffix = true, OFFSET(34)}},
        {"a@4KB@", "a@4KB", {.has_suffix = true}},
        {"a@", "a", {.has_suffix = true}},
        {"a@@", "a@", {.has_suffix = true}},
        {"@@", "@", {.has_suffix = true}},
        {"a@0", "a", {.has_suffix = true, OFFSET(0)}},
        {"a@+0", "a", {.has_suffix = true, LENGTH(0)}},
        {"a@=0", "a", {.has_suffix = true, REMOTE(0)}},
        {"a@-0", "a", {.has_suffix = true, FROM_END(0)}},
        {"a@-0x10+0x8", "a", {.has_suffix = true, FROM_END(16), LENGTH(8)}},
        {"a@-1KiB=4k", "a", {.has_suffix = true, FROM_END(1024), REMOTE(4096)}},
        {"a@1=2", "a", {.has_suffix = true, OFFSET(1), REMOTE(2)}},
        {"a@+1=2", "a", {.has_suffix = true, LENGTH(1), REMOTE(2)}},
        {"a@4294967296", "a", {.has_suffix = true, OFFSET(UINT64_C(4294967296))}},
        {"a@9223372036854775807+9223372036854775807=0x7fffffffffffffff",
         "a",
         {.has_suffix = true, OFFSET(INT64_MAX), LENGTH(INT64_MAX), REMOTE(INT64_MAX)}},
        {"-", "-", {.has_suffix = false}},
        {"-@+4K", "-", {.has_suffix = true, LENGTH(4096)}},
        {"./-", "./-", {.has_suffix = false}},
        {"user@host.txt", "user@host.txt", {.has_suffix = false}},
        {"a@b@c", "a@b@c", {.has_suffix = false}},
        {"@home", "@home", {.has_suffix = false}},
        {"a@ 1", "a@ 1", {.has_suffix = false}},
        {"a@.5", "a@.5", {.has_suffix = false}},
        {"a@K", "a@K", {.has_suffix = false}},
        {"a=1+2", "a=1+2", {.has_suffix = false}},
        {"dir with space/\xc3\xa9\n@1",
         "dir with space/\xc3\xa9\n",
         {.has_suffix = true, OFFSET(1)}},
        {"\xff\xfe@1", "\xff\xfe", {.has_suffix = true, OFFSET(1)}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[256] = "";
        struct segment got;
        enum segment_result result = segment_parse(rows[i].argument, &got, problem,
                                                   sizeof(problem));

        if (result != SEGMENT_OK)
            fail_msg("'%s': %s", rows[i].argument, problem);
        check_equal(rows[i].argument, &got, &rows[i].expected, rows[i].path);
        segment_free(&got);
        assert_null(got.path);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *argument;
        enum segment_result result;
        const char *problem;
    } rows[] = {
        {"", SEGMENT_EMPTY, "PATH is empty"},
        {"@", SEGMENT_EMPTY, "PATH is empty"},
        {"@12", SEGMENT_EMPTY, "PATH is empty"},
        {"@+12=3", SEGMENT_EMPTY, "PATH is empty"},
        {"a@4KB", SEGMENT_MALFORMED, "OFFSET '4KB' " AMBIGUOUS},
        {"a@-4KB", SEGMENT_MALFORMED, "OFFSET '-4KB' " AMBIGUOUS},
        {"a@+4MB", SEGMENT_MALFORMED, "LENGTH '4MB' " AMBIGUOUS},
        {"a@=4kB", SEGMENT_MALFORMED, "REMOTE '4kB' " AMBIGUOUS},
        {"a@1x", SEGMENT_MALFORMED, "OFFSET '1x' is not a size"},
        {"a@12.txt", SEGMENT_MALFORMED, "OFFSET '12.txt' is not a size"},
        {"a@4K/b", SEGMENT_MALFORMED, "OFFSET '4K/b' is not a size"},
        {"a@-", SEGMENT_MALFORMED, "OFFSET '-' is not a size"},
        {"a@--1", SEGMENT_MALFORMED, "OFFSET '--1' is not a size"},
        {"a@-+1", SEGMENT_MALFORMED, "OFFSET '-' is not a size"},
        {"a@+", SEGMENT_MALFORMED, "LENGTH '' is empty"},
        {"a@1+", SEGMENT_MALFORMED, "LENGTH '' is empty"},
        {"a@+=1", SEGMENT_MALFORMED, "LENGTH '' is empty"},
        {"a@+-1", SEGMENT_MALFORMED, "LENGTH '-1' is not a size"},
        {"a@1+-1", SEGMENT_MALFORMED, "LENGTH '-1' is not a size"},
        {"a@1+2+3", SEGMENT_MALFORMED, "LENGTH '2+3' is not a size"},
        {"a@++1", SEGMENT_MALFORMED, "LENGTH '+1' is not a size"},
        {"a@=", SEGMENT_MALFORMED, "REMOTE '' is empty"},
        {"a@1+2=", SEGMENT_MALFORMED, "REMOTE '' is empty"},
        {"a@=-1", SEGMENT_MALFORMED, "REMOTE '-1' is not a size"},
        {"a@=1=2", SEGMENT_MALFORMED, "REMOTE '1=2' is not a size"},
        {"a@=1+2", SEGMENT_MALFORMED, "REMOTE '1+2' is not a size"},
        {"a@1+2=3 ", SEGMENT_MALFORMED, "REMOTE '3 ' is not a size"},
        {"a@9223372036854775808", SEGMENT_MALFORMED, "OFFSET '9223372036854775808' is too large"},
        {"a@-9223372036854775808", SEGMENT_MALFORMED, "OFFSET '-9223372036854775808' is too large"},
        {"a@+18446744073709551616", SEGMENT_MALFORMED,
         "LENGTH '18446744073709551616' is too large"},
        {"a@=8388608T", SEGMENT_MALFORMED, "REMOTE '8388608T' is too large"},
        {"@4KB", SEGMENT_MALFORMED, "OFFSET '4KB' " AMBIGUOUS},
        {"a@b@4KB", SEGMENT_MALFORMED, "OFFSET '4KB' " AMBIGUOUS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[256] = "";
        struct segment got;
        enum segment_result result = segment_parse(rows[i].argument, &got, problem,
                                                   sizeof(problem));

        if (result != rows[i].result)
            fail_msg("'%s' gives %d", rows[i].argument, (int)result);
        if (strncmp(problem, rows[i].problem, strlen(rows[i].problem)) != 0)
            fail_msg("'%s': \"%s\"", rows[i].argument, problem);
    }
}

static void test_very_long_arguments(void **state)
{
    size_t len = 1000000;
    char *argument = malloc(len + 1);
    char problem[16];
    struct segment got;

    (void)state;
    assert_non_null(argument);
    memset(argument, 'a', len);
    argument[len] = '\0';
    memcpy(argument + len - 3, "@4K", 3);
    assert_int_equal(segment_parse(argument, &got, problem, sizeof(problem)), SEGMENT_OK);
    assert_int_equal(strlen(got.path), len - 3);
    assert_int_equal(got.offset, 4096);
    segment_free(&got);
    memset(argument + 2, '9', len - 2);
    argument[1] = '@';
    assert_int_equal(segment_parse(argument, &got, problem, sizeof(problem)), SEGMENT_MALFORMED);
    assert_string_equal(problem, "OFFSET '9999999");
    free(argument);
}

static void test_literal_knows_no_suffix(void **state)
{
    static const char *const arguments[] = {"a@12", "a@4KB", "@", "a@", "-", "a"};
    static const struct segment none;
    struct segment got;

    (void)state;
    for (size_t i = 0; i < COUNT(arguments); i++) {
        assert_int_equal(segment_literal(arguments[i], &got), SEGMENT_OK);
        check_equal(arguments[i], &got, &none, arguments[i]);
        segment_free(&got);
    }
    assert_int_equal(segment_literal("", &got), SEGMENT_EMPTY);
}

static void test_standard_input_is_a_lone_minus(void **state)
{
    static const struct {
        const char *argument;
        bool is_stdin;
    } rows[] = {
        {"-", true},   {"-@+4K", true}, {"-@", true},  {"./-", false},
        {"--", false}, {"-a", false},   {"a-", false}, {"-@-@", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[128];
        struct segment got;

        assert_int_equal(segment_parse(rows[i].argument, &got, problem, sizeof(problem)),
                         SEGMENT_OK);
        if (segment_is_stdin(&got) != rows[i].is_stdin)
            fail_msg("'%s'", rows[i].argument);
        segment_free(&got);
    }
}

static void test_ranges(void **state)
{
    static const struct {
        struct segment segment;
        uint64_t file_size;
        enum segment_range result;
        uint64_t offset, length;
    } rows[] = {
        {{.has_offset = false}, 0, SEGMENT_RANGE_OK, 0, 0},
        {{.has_offset = false}, 100, SEGMENT_RANGE_OK, 0, 100},
        {{.has_offset = false}, MAX, SEGMENT_RANGE_OK, 0, MAX},
        {{OFFSET(0)}, 100, SEGMENT_RANGE_OK, 0, 100},
        {{OFFSET(99)}, 100, SEGMENT_RANGE_OK, 99, 1},
        {{OFFSET(100)}, 100, SEGMENT_RANGE_OK, 100, 0},
        {{OFFSET(101)}, 100, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(1)}, 0, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(MAX)}, MAX, SEGMENT_RANGE_OK, MAX, 0},
        {{OFFSET(MAX)}, MAX - 1, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(UINT64_C(4294967296))},
         UINT64_C(4294967297),
         SEGMENT_RANGE_OK,
         UINT64_C(4294967296),
         1},
        {{OFFSET(UINT64_MAX)}, MAX, SEGMENT_PAST_END, 0, 0},
        {{LENGTH(0)}, 0, SEGMENT_RANGE_OK, 0, 0},
        {{LENGTH(0)}, 100, SEGMENT_RANGE_OK, 0, 0},
        {{LENGTH(100)}, 100, SEGMENT_RANGE_OK, 0, 100},
        {{LENGTH(101)}, 100, SEGMENT_PAST_END, 0, 0},
        {{LENGTH(MAX)}, MAX, SEGMENT_RANGE_OK, 0, MAX},
        {{LENGTH(MAX)}, MAX - 1, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(100), LENGTH(0)}, 100, SEGMENT_RANGE_OK, 100, 0},
        {{OFFSET(101), LENGTH(0)}, 100, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(10), LENGTH(90)}, 100, SEGMENT_RANGE_OK, 10, 90},
        {{OFFSET(10), LENGTH(91)}, 100, SEGMENT_PAST_END, 0, 0},
        {{OFFSET(MAX - 1), LENGTH(1)}, MAX, SEGMENT_RANGE_OK, MAX - 1, 1},
        {{OFFSET(1), LENGTH(MAX - 1)}, MAX, SEGMENT_RANGE_OK, 1, MAX - 1},
        {{OFFSET(1), LENGTH(MAX)}, MAX, SEGMENT_OVERFLOW, 0, 0},
        {{OFFSET(1), LENGTH(MAX)}, 0, SEGMENT_OVERFLOW, 0, 0},
        {{OFFSET(MAX), LENGTH(MAX)}, MAX, SEGMENT_OVERFLOW, 0, 0},
        {{OFFSET(UINT64_MAX), LENGTH(2)}, 100, SEGMENT_OVERFLOW, 0, 0},
        {{FROM_END(0)}, 0, SEGMENT_RANGE_OK, 0, 0},
        {{FROM_END(0)}, 100, SEGMENT_RANGE_OK, 100, 0},
        {{FROM_END(1)}, 100, SEGMENT_RANGE_OK, 99, 1},
        {{FROM_END(100)}, 100, SEGMENT_RANGE_OK, 0, 100},
        {{FROM_END(101)}, 100, SEGMENT_BEFORE_START, 0, 0},
        {{FROM_END(1)}, 0, SEGMENT_BEFORE_START, 0, 0},
        {{FROM_END(MAX)}, MAX, SEGMENT_RANGE_OK, 0, MAX},
        {{FROM_END(MAX)}, MAX - 1, SEGMENT_BEFORE_START, 0, 0},
        {{FROM_END(10), LENGTH(10)}, 100, SEGMENT_RANGE_OK, 90, 10},
        {{FROM_END(10), LENGTH(0)}, 100, SEGMENT_RANGE_OK, 90, 0},
        {{FROM_END(10), LENGTH(11)}, 100, SEGMENT_PAST_END, 0, 0},
        {{FROM_END(0), LENGTH(1)}, 100, SEGMENT_PAST_END, 0, 0},
        {{FROM_END(0), LENGTH(MAX)}, 100, SEGMENT_OVERFLOW, 0, 0},
        {{FROM_END(100), LENGTH(MAX)}, 100, SEGMENT_PAST_END, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t offset = 0, length = 0;
        enum segment_range result = segment_resolve(&rows[i].segment, rows[i].file_size, &offset,
                                                    &length);

        if (result != rows[i].result)
            fail_msg("row %zu gives result %d", i, (int)result);
        if (offset != rows[i].offset || length != rows[i].length)
            fail_msg("row %zu gives %" PRIu64 "+%" PRIu64, i, offset, length);
    }
}

static void test_remote_ends_at_the_largest_offset(void **state)
{
    static const struct {
        uint64_t remote, length;
        bool overflows;
    } rows[] = {
        {0, 0, false},         {0, MAX, false},          {MAX, 0, false},
        {MAX - 1, 1, false},   {MAX, 1, true},           {1, MAX, true},
        {MAX, MAX, true},      {UINT64_MAX, 0, true},    {UINT64_MAX, 1, true},
        {1, UINT64_MAX, true}, {MAX + 1, MAX + 1, true}, {UINT64_MAX, UINT64_MAX, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (segment_remote_overflows(rows[i].remote, rows[i].length) != rows[i].overflows)
            fail_msg("row %zu", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_very_long_arguments),
        cmocka_unit_test(test_literal_knows_no_suffix),
        cmocka_unit_test(test_standard_input_is_a_lone_minus),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_remote_ends_at_the_largest_offset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

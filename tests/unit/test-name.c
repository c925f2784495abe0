/*
 * test-name.c - which names a client may give, and the hidden ones that it may not.
 */
#include "config.h"

#include "name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define HEX16 "0123456789abcdef"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint8_t digest[NAME_DIGEST_BYTES] = {0x00, 0x01, 0xfe, 0xff, 0x10};

static void test_hostile_names_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name, *reason;
    } rows[] = {
        {"", "empty"},
        {"/", "absolute"},
        {"/etc/passwd", "absolute"},
        {"//a", "absolute"},
        {".", "'.'"},
        {"..", "'..'"},
        {"./a", "'.'"},
        {"../a", "'..'"},
        {"a/..", "'..'"},
        {"a/../b", "'..'"},
        {"a/.", "'.'"},
        {"a/./b", "'.'"},
        {"a//b", "empty part"},
        {"a/", "empty part"},
        {"a/b/", "empty part"},
        {"a\nb", "control"},
        {"a/\x01", "control"},
        {"\x1f/a", "control"},
        {"a\x7f", "control"},
        {"\x1b[2J", "control"},
        {".a.rdmaput-" HEX16, "hidden"},
        {"a/.b.rdmaput-" HEX16 "/c", "hidden"},
        {".a.rdmaput-part-" HEX16 HEX16, "hidden"},
        {"a/..b.rdmaput-part-" HEX16 HEX16, "hidden"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[128] = "";

        if (name_check(rows[i].name, problem, sizeof(problem)))
            fail_msg("'%s' was taken", rows[i].name);
        if (!strstr(problem, rows[i].reason))
            fail_msg("'%s': '%s'", rows[i].name, problem);
    }
}

static void test_other_names_are_taken(void **state)
{
    static const char *const names[] = {
        "a",
        "a/b/c.img",
        "...",
        "..a/b..",
        ".hidden",
        "a b",
        "~root",
        "-rf",
        "a\\..\\b",
        "%2e%2e",
        "\xc3\xa4/\xff\xfe",
        ".a.rdmaput-",
        ".a.rdmaput-0123456789abcde",
        ".a.rdmaput-0123456789abcdeg",
        "a.rdmaput-" HEX16,
        ".a.rdmaput-" HEX16 ".txt",
        ".rdmaput-" HEX16,
        ".a.rdmaput-part-" HEX16,
    };

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        char problem[128] = "";

        if (!name_check(names[i], problem, sizeof(problem)))
            fail_msg("'%s': %s", names[i], problem);
    }
}

static void test_a_part_has_at_most_255_bytes(void **state)
{
    char name[600], problem[128] = "";

    (void)state;
    memset(name, 'n', sizeof(name));
    name[255] = '/';
    name[511] = '\0';
    assert_true(name_check(name, problem, sizeof(problem)));
    name[511] = 'n';
    name[512] = '\0';
    assert_false(name_check(name, problem, sizeof(problem)));
    assert_non_null(strstr(problem, "255"));
}

static void test_hidden_names_are_made_and_known(void **state)
{
    char temporary[NAME_MOST + 1], partial[NAME_MOST + 1];

    (void)state;
    name_make_temporary(temporary, "disk.img", 0xfedcba9876543210);
    assert_string_equal(temporary, ".disk.img.rdmaput-fedcba9876543210");
    assert_int_equal(name_kind(temporary), NAME_TEMPORARY);
    name_make_partial(partial, "disk.img", digest);
    assert_string_equal(partial, ".disk.img.rdmaput-part-0001feff100000000000000000000000");
    assert_int_equal(name_kind(partial), NAME_PARTIAL);
    assert_int_equal(name_kind("disk.img"), NAME_PLAIN);
}

static void test_a_long_leaf_is_cut(void **state)
{
    char leaf[NAME_MOST + 1], hidden[NAME_MOST + 1];

    (void)state;
    memset(leaf, 'n', NAME_MOST);
    leaf[NAME_MOST] = '\0';
    name_make_temporary(hidden, leaf, 1);
    assert_int_equal(strlen(hidden), NAME_MOST);
    assert_int_equal(name_kind(hidden), NAME_TEMPORARY);
    assert_true(name_is_of(hidden, leaf));
    name_make_partial(hidden, leaf, digest);
    assert_int_equal(strlen(hidden), NAME_MOST);
    assert_int_equal(name_kind(hidden), NAME_PARTIAL);
    assert_true(name_is_of(hidden, leaf));
}

static void test_a_leaf_is_cut_between_characters(void **state)
{
    char leaf[NAME_MOST + 1] = "x", hidden[NAME_MOST + 1];

    (void)state;
    for (size_t i = 1; i + 2 <= NAME_MOST; i += 2)
        memcpy(leaf + i, "\xc3\xa4", 3);
    name_make_partial(hidden, leaf, digest); /* 208 bytes of it would fit */
    assert_int_equal(strlen(hidden), NAME_MOST - 1);
    assert_memory_equal(hidden + 1, leaf, 207);
    assert_true(name_is_of(hidden, leaf));
}

static void test_whose_a_hidden_name_is(void **state)
{
    char hidden[NAME_MOST + 1];

    (void)state;
    name_make_temporary(hidden, "a", 1);
    assert_true(name_is_of(hidden, "a"));
    assert_false(name_is_of(hidden, "b"));
    assert_false(name_is_of(hidden, "ab"));
    assert_false(name_is_of(hidden, ""));
    assert_false(name_is_of("a", "a"));
    name_make_partial(hidden, "a", digest);
    assert_true(name_is_of(hidden, "a"));
    assert_false(name_is_of(hidden, "a.rdmaput-part"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_names_are_refused_with_a_reason),
        cmocka_unit_test(test_other_names_are_taken),
        cmocka_unit_test(test_a_part_has_at_most_255_bytes),
        cmocka_unit_test(test_hidden_names_are_made_and_known),
        cmocka_unit_test(test_a_long_leaf_is_cut),
        cmocka_unit_test(test_a_leaf_is_cut_between_characters),
        cmocka_unit_test(test_whose_a_hidden_name_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test-suggest.c - how far words are apart, and which of several is meant.
 */
#include "config.h"

#include "suggest.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_distance(const char *a, const char *b, unsigned distance)
{
    assert_int_equal(suggest_distance(a, b), distance);
    assert_int_equal(suggest_distance(b, a), distance);
}

static void each_slip_counts_once(void **state)
{
    (void)state;
    assert_distance("", "", 0);
    assert_distance("write", "write", 0);
    assert_distance("", "write", 5);
    assert_distance("wrte", "write", 1);
    assert_distance("wriite", "write", 1);
    assert_distance("wrote", "write", 1);
    assert_distance("wirte", "write", 1);
    assert_distance("wrtie", "write", 1);
    assert_distance("rwite", "write", 1);
    assert_distance("kitten", "sitting", 3);
    assert_distance("abcdef", "badcfe", 3);
    assert_distance("abc", "xyz", 3);
    /* No letter is touched twice, or it would be 2. */
    assert_distance("ca", "abc", 3);
}

static void words_that_are_too_long_are_far_from_all(void **state)
{
    char longest[SUGGEST_MOST + 1], longer[SUGGEST_MOST + 2];
    (void)state;
    memset(longest, 'a', SUGGEST_MOST);
    longest[SUGGEST_MOST] = '\0';
    memset(longer, 'a', SUGGEST_MOST + 1);
    longer[SUGGEST_MOST + 1] = '\0';
    assert_distance(longest, "", SUGGEST_MOST);
    assert_distance(longest, longest + 1, 1);
    assert_distance(longest, longer, UINT_MAX);
    assert_distance("", longer, UINT_MAX);
}

static const char *meant_by(const char *written)
{
    static const char *const words[] = {"serve",   "write",       "post",
                                        "devices", "secret-file", "segments-from"};
    struct suggestion suggestion = {.word = NULL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        suggestion_weigh(&suggestion, written, words[i]);
    return suggestion.word;
}

static void a_near_word_is_meant(void **state)
{
    (void)state;
    assert_string_equal(meant_by("wirte"), "write");
    assert_string_equal(meant_by("srve"), "serve");
    assert_string_equal(meant_by("pots"), "post");
    assert_string_equal(meant_by("device"), "devices");
    assert_string_equal(meant_by("secretfile"), "secret-file");
    assert_string_equal(meant_by("segment-form"), "segments-from");
    assert_string_equal(meant_by("secrte-flie"), "secret-file");
}

static void the_beginning_of_a_word_is_near(void **state)
{
    (void)state;
    assert_string_equal(meant_by("dev"), "devices");
    assert_string_equal(meant_by("secret"), "secret-file");
    assert_null(meant_by("d"));
}

static void a_word_that_is_far_from_all_is_none(void **state)
{
    (void)state;
    assert_null(meant_by(""));
    assert_null(meant_by("check"));
    assert_null(meant_by("wrong"));
    assert_null(meant_by("frobnicate"));
    assert_null(meant_by("Servers"));
}

static void of_equally_near_words_the_first_is_meant(void **state)
{
    struct suggestion suggestion = {.word = NULL};
    (void)state;
    suggestion_weigh(&suggestion, "map", "tap");
    suggestion_weigh(&suggestion, "map", "mop");
    assert_string_equal(suggestion.word, "tap");
    suggestion_weigh(&suggestion, "map", "map");
    assert_string_equal(suggestion.word, "map");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slip_counts_once),
        cmocka_unit_test(words_that_are_too_long_are_far_from_all),
        cmocka_unit_test(a_near_word_is_meant),
        cmocka_unit_test(the_beginning_of_a_word_is_near),
        cmocka_unit_test(a_word_that_is_far_from_all_is_none),
        cmocka_unit_test(of_equally_near_words_the_first_is_meant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

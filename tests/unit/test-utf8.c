/*
 * test-utf8.c - which bytes are characters.
 */
#include "config.h"

#include "utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void characters_have_a_length(void **state)
{
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"", 1},
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        /* lone, overlong, cut off, surrogates, too far */
        {"\x80", 0},
        {"\xc1\x81", 0},
        {"\xc2", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xe2\x82", 0},
        {"\xed\xa0\x80", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xf0\x90\x80", 0},
        {"\xf4\x90\x80\x80", 0},
        {"\xff", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(utf8_length(cases[i].text), cases[i].length);
        assert_true(utf8_is_valid(cases[i].text) == (cases[i].length > 0));
    }
}

static void controls_are_those_of_both_sets(void **state)
{
    (void)state;
    assert_true(utf8_is_control("\n", 1));
    assert_true(utf8_is_control("\x7f", 1));
    assert_true(utf8_is_control("\xc2\x9f", 2));
    assert_false(utf8_is_control(" ", 1));
    assert_false(utf8_is_control("\xc2\xa0", 2));
    assert_false(utf8_is_control("\xc3\x80", 2));
}

static void assert_repaired(const char *text, const char *expected)
{
    char *repaired = utf8_repair(text);
    assert_string_equal(repaired, expected);
    free(repaired);
}

static void what_is_no_text_is_replaced(void **state)
{
    (void)state;
    assert_repaired("", "");
    assert_repaired("na\xc3\xafve\n", "na\xc3\xafve\n");
    assert_repaired("\xff", "\xef\xbf\xbd");
    assert_repaired("a\xe2\x82z\x80", "a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_a_length),
        cmocka_unit_test(controls_are_those_of_both_sets),
        cmocka_unit_test(what_is_no_text_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

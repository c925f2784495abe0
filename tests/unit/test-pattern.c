/*
 * test-pattern.c - the bytes of a pattern, as wire.h specifies them, and what is found wrong with others.
 */
#include "config.h"

#include "pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LEN 300
#define SEED UINT64_C(0x123456789abcdef0)

/* SplitMix64's first outputs for the seed 1234567 are widely published. */
static void bytes_are_those_of_splitmix64(void **state)
{
    static const uint64_t words[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                     UINT64_C(9817491932198370423), UINT64_C(4593380528125082431)};
    uint8_t bytes[sizeof words];

    (void)state;
    pattern_fill(bytes, sizeof bytes, 1234567, 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_int_equal(bytes[i], (uint8_t)(words[i / 8] >> 8 * (i % 8)));
        assert_int_equal(pattern_byte(1234567, i), bytes[i]);
    }
}

static void a_part_is_that_part_of_the_whole(void **state)
{
    uint8_t whole[LEN], part[LEN + 1];

    (void)state;
    pattern_fill(whole, LEN, SEED, 0);
    for (size_t from = 0; from < 20; from++)
        for (size_t len = 0; len <= LEN - from; len++) {
            memset(part, 0x5a, sizeof part);
            pattern_fill(part, len, SEED, from);
            assert_memory_equal(part, whole + from, len);
            assert_int_equal(part[len], 0x5a);
        }
}

static void patterns_of_other_seeds_are_others(void **state)
{
    uint8_t one[LEN], other[LEN];
    size_t same = 0;

    (void)state;
    pattern_fill(one, LEN, SEED, 0);
    pattern_fill(other, LEN, SEED + 1, 0);
    for (size_t i = 0; i < LEN; i++)
        same += one[i] == other[i];
    assert_in_range(same, 0, LEN / 20);
}

static void what_was_filled_is_right(void **state)
{
    uint8_t bytes[LEN];
    struct pattern_mismatch first;

    (void)state;
    for (uint64_t position = 0; position < 20; position++) {
        pattern_fill(bytes, LEN, SEED, position);
        assert_int_equal(pattern_compare(bytes, LEN, SEED, position, &first), 0);
    }
    assert_int_equal(pattern_compare(NULL, 0, SEED, 0, &first), 0);
}

static void each_wrong_bit_is_found_where_it_is(void **state)
{
    uint8_t bytes[LEN];
    struct pattern_mismatch first;

    (void)state;
    for (size_t at = 0; at < LEN; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            pattern_fill(bytes, LEN, SEED, 3);
            bytes[at] ^= (uint8_t)(1 << bit);
            assert_int_equal(pattern_compare(bytes, LEN, SEED, 3, &first), 1);
            assert_int_equal(first.at, at);
            assert_int_equal(first.found, bytes[at]);
            assert_int_equal(first.expected, pattern_byte(SEED, at + 3));
        }
}

static void wrong_bytes_are_counted(void **state)
{
    static const size_t at[] = {7, 8, 9, 15, 100, LEN - 1};
    uint8_t bytes[LEN];
    struct pattern_mismatch first;

    (void)state;
    pattern_fill(bytes, LEN, SEED, 5);
    for (size_t i = sizeof at / sizeof at[0]; i-- > 0;) {
        bytes[at[i]] ^= 0xff;
        assert_int_equal(pattern_compare(bytes, LEN, SEED, 5, &first),
                         sizeof at / sizeof at[0] - i);
        assert_int_equal(first.at, at[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_splitmix64),
        cmocka_unit_test(a_part_is_that_part_of_the_whole),
        cmocka_unit_test(patterns_of_other_seeds_are_others),
        cmocka_unit_test(what_was_filled_is_right),
        cmocka_unit_test(each_wrong_bit_is_found_where_it_is),
        cmocka_unit_test(wrong_bytes_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test-samples.c - percentiles, of few numbers and of more than are kept.
 */
#include "config.h"

#include "samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROOM 1000

static uint64_t items[ROOM];

/* COUNT numbers from 1 on, each after what is at that distance from it. */
static struct samples add_numbers(uint64_t count, uint64_t distance)
{
    struct samples samples = {.items = items, .room = ROOM};
    for (uint64_t i = 0; i < count; i++)
        samples_add(&samples, i * distance % count + 1);
    samples_sort(&samples);
    return samples;
}

static void percentiles_are_by_nearest_rank(void **state)
{
    struct samples one = add_numbers(1, 1);
    (void)state;
    assert_int_equal(samples_percentile(&one, 500), 1);
    assert_int_equal(samples_percentile(&one, 999), 1);
    struct samples four = add_numbers(4, 3);
    assert_int_equal(samples_percentile(&four, 500), 2);
    assert_int_equal(samples_percentile(&four, 501), 3);
    assert_int_equal(samples_percentile(&four, 990), 4);
    struct samples all = add_numbers(ROOM, 7);
    assert_int_equal(samples_percentile(&all, 500), 500);
    assert_int_equal(samples_percentile(&all, 999), 999);
    assert_int_equal(all.count, ROOM);
}

static void assert_near(uint64_t is, uint64_t due, uint64_t tolerance)
{
    assert_in_range(is, due - tolerance, due + tolerance);
}

/* From first to last, as they come in or out of order. */
static void of_more_than_are_kept_each_counts(void **state)
{
    static const uint64_t distances[] = {1, 7, 999999};
    (void)state;
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++) {
        struct samples samples = add_numbers(1000000, distances[i]);
        assert_int_equal(samples.count, 1000000);
        assert_near(samples_percentile(&samples, 100), 100000, 40000);
        assert_near(samples_percentile(&samples, 500), 500000, 60000);
        assert_near(samples_percentile(&samples, 900), 900000, 40000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_by_nearest_rank),
        cmocka_unit_test(of_more_than_are_kept_each_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

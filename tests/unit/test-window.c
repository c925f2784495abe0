/*
 * test-window.c - every step of a slot, and every step that is refused.
 */
#include "config.h"

#include "window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Slots 0 to 2 are GRANTED, FILLING and SENT, slot 3 is the one nothing happens to. */
#define GRANTED 0
#define FILLING 1
#define SENT 2
#define COUNT 4

static struct window make_window(void)
{
    struct window window;

    assert_true(window_init(&window, COUNT));
    assert_int_equal(window_take(&window), 0);
    assert_int_equal(window_take(&window), FILLING);
    assert_true(window_put_back(&window, GRANTED));
    assert_true(window_sent(&window, SENT, 100));
    return window;
}

static void count_must_be_in_range(void **state)
{
    struct window window;

    (void)state;
    assert_false(window_init(&window, 0));
    assert_false(window_init(&window, WINDOW_MAX_SLOTS + 1));
    assert_true(window_init(&window, 1));
    assert_true(window_init(&window, WINDOW_MAX_SLOTS));
    assert_int_equal(window_in_state(&window, WINDOW_GRANTED), WINDOW_MAX_SLOTS);
    assert_int_equal(window_in_state(&window, WINDOW_FREE), 0);
}

static void take_gives_the_lowest_granted_slot(void **state)
{
    struct window window;

    (void)state;
    assert_true(window_init(&window, WINDOW_MAX_SLOTS));
    for (int i = 0; i < WINDOW_MAX_SLOTS; i++)
        assert_int_equal(window_take(&window), i);
    assert_int_equal(window_take(&window), -1);
    assert_true(window_put_back(&window, 7));
    assert_true(window_put_back(&window, 3));
    assert_int_equal(window_take(&window), 3);
    assert_int_equal(window_take(&window), 7);
    assert_int_equal(window_take(&window), -1);
}

static void states_are_counted(void **state)
{
    struct window window = make_window();

    (void)state;
    assert_int_equal(window_in_state(&window, WINDOW_GRANTED), 2);
    assert_int_equal(window_in_state(&window, WINDOW_FILLING), 1);
    assert_int_equal(window_in_state(&window, WINDOW_SENT), 1);
    assert_int_equal(window_in_state(&window, WINDOW_FREE), 0);
}

static void a_slot_goes_round(void **state)
{
    struct window window;

    (void)state;
    assert_true(window_init(&window, 1));
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(window_take(&window), 0);
        assert_true(window_sent(&window, 0, 10 * i));
        assert_int_equal(window_take(&window), -1);
        assert_true(window_granted(&window, 0));
    }
    assert_int_equal(window.acknowledged, 10 + 20 + 30);
    assert_int_equal(window.bytes[0], 0);
    assert_int_equal(window_in_state(&window, WINDOW_GRANTED), 1);
}

static void a_server_sees_no_filling(void **state)
{
    struct window window;

    (void)state;
    assert_true(window_init(&window, 2));
    assert_true(window_sent(&window, 1, 5));
    assert_int_equal(window_in_state(&window, WINDOW_SENT), 1);
    assert_true(window_granted(&window, 1));
    assert_int_equal(window.acknowledged, 5);
}

static void bytes_of_slots_are_told_apart(void **state)
{
    struct window window;

    (void)state;
    assert_true(window_init(&window, 2));
    assert_true(window_sent(&window, 0, 5));
    assert_true(window_sent(&window, 1, 7));
    assert_int_equal(window.acknowledged, 0);
    assert_true(window_granted(&window, 1));
    assert_int_equal(window.acknowledged, 7);
    assert_true(window_granted(&window, 0));
    assert_int_equal(window.acknowledged, 12);
}

static void assert_unchanged(const struct window *window, const struct window *before)
{
    assert_memory_equal(window, before, sizeof(*window));
}

static void a_sent_slot_is_not_sent_again(void **state)
{
    struct window window = make_window(), before = window;

    (void)state;
    assert_false(window_sent(&window, SENT, 1));
    assert_unchanged(&window, &before);
}

static void only_a_sent_slot_is_granted_again(void **state)
{
    struct window window = make_window(), before = window;

    (void)state;
    assert_false(window_granted(&window, GRANTED));
    assert_false(window_granted(&window, FILLING));
    assert_unchanged(&window, &before);
    assert_true(window_granted(&window, SENT));
    assert_false(window_granted(&window, SENT));
}

static void only_a_filling_slot_is_put_back(void **state)
{
    struct window window = make_window(), before = window;

    (void)state;
    assert_false(window_put_back(&window, GRANTED));
    assert_false(window_put_back(&window, SENT));
    assert_unchanged(&window, &before);
    assert_true(window_put_back(&window, FILLING));
    assert_false(window_put_back(&window, FILLING));
}

static void a_free_slot_can_do_nothing(void **state)
{
    struct window window = make_window(), before;

    (void)state;
    window.state[3] = WINDOW_FREE;
    before = window;
    assert_int_equal(window_in_state(&window, WINDOW_FREE), 1);
    assert_false(window_sent(&window, 3, 1));
    assert_false(window_granted(&window, 3));
    assert_false(window_put_back(&window, 3));
    assert_unchanged(&window, &before);
    assert_int_equal(window_take(&window), GRANTED);
    assert_int_equal(window_take(&window), -1);
}

static void slots_that_do_not_exist_are_refused(void **state)
{
    static const unsigned slots[] = {COUNT, WINDOW_MAX_SLOTS - 1, WINDOW_MAX_SLOTS, 65535,
                                     UINT32_MAX};
    struct window window = make_window(), before;

    (void)state;
    memset(window.state + COUNT, WINDOW_GRANTED, WINDOW_MAX_SLOTS - COUNT);
    before = window;
    for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
        assert_false(window_sent(&window, slots[i], 1));
        assert_false(window_granted(&window, slots[i]));
        assert_false(window_put_back(&window, slots[i]));
    }
    assert_unchanged(&window, &before);
    assert_int_equal(window_in_state(&window, WINDOW_GRANTED), 2);
}

static void an_overflow_of_acknowledged_bytes_is_refused(void **state)
{
    struct window window, before;

    (void)state;
    assert_true(window_init(&window, 2));
    assert_true(window_sent(&window, 0, UINT64_MAX));
    assert_true(window_sent(&window, 1, 1));
    assert_true(window_granted(&window, 0));
    before = window;
    assert_false(window_granted(&window, 1));
    assert_unchanged(&window, &before);
}

static void a_slot_is_a_range_until_it_is_sent(void **state)
{
    const struct window_place range = {
        .offset = 4096, .length = 100, .remote_addr = 7, .rkey = 9};
    struct window window;

    (void)state;
    assert_true(window_init(&window, 3));
    window_place(&window, 1, &range);
    window_place(&window, 2, &range);
    assert_int_equal(window.places[0].length, 0);
    assert_int_equal(window.places[1].offset, 4096);
    assert_int_equal(window.places[1].rkey, 9);
    assert_true(window_take_slot(&window, 1));
    assert_int_equal(window.places[1].length, 100);
    assert_true(window_sent(&window, 1, 100));
    assert_int_equal(window.places[1].length, 0);
    assert_int_equal(window.places[2].length, 100);
    window_unplace(&window);
    assert_int_equal(window.places[2].length, 0);
}

static void a_slot_is_taken_by_its_number(void **state)
{
    struct window window;

    (void)state;
    assert_true(window_init(&window, 3));
    assert_true(window_take_slot(&window, 2));
    assert_false(window_take_slot(&window, 2));
    assert_false(window_take_slot(&window, 3));
    assert_int_equal(window_take(&window), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(count_must_be_in_range),
        cmocka_unit_test(take_gives_the_lowest_granted_slot),
        cmocka_unit_test(states_are_counted),
        cmocka_unit_test(a_slot_goes_round),
        cmocka_unit_test(a_server_sees_no_filling),
        cmocka_unit_test(bytes_of_slots_are_told_apart),
        cmocka_unit_test(a_sent_slot_is_not_sent_again),
        cmocka_unit_test(only_a_sent_slot_is_granted_again),
        cmocka_unit_test(only_a_filling_slot_is_put_back),
        cmocka_unit_test(a_free_slot_can_do_nothing),
        cmocka_unit_test(slots_that_do_not_exist_are_refused),
        cmocka_unit_test(an_overflow_of_acknowledged_bytes_is_refused),
        cmocka_unit_test(a_slot_is_a_range_until_it_is_sent),
        cmocka_unit_test(a_slot_is_taken_by_its_number),
    };

    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}

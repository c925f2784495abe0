/*
 * test-progress.c - the line that says how far a transfer is.
 */
#include "config.h"

#include "progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"

#define MIB ((uint64_t)1 << 20)

static void assert_line(const struct progress_state *state, uint64_t ns, const char *expected)
{
    char line[128];
    assert_string_equal(progress_format(state, ns, 100, line, sizeof line), expected);
}

static void a_line_has_percent_bytes_rate_and_time_left(void **state)
{
    struct progress_state at = {.bytes = 10 * MIB, .total = 40 * MIB};
    (void)state;
    assert_line(&at, 2 * (uint64_t)CLOCK_NS_PER_S, " 25 %  10.00 MiB, 5.00 MiB/s, 6 s left");
    at.bytes = 40 * MIB;
    assert_line(&at, 8 * (uint64_t)CLOCK_NS_PER_S, "100 %  40.00 MiB, 5.00 MiB/s");
    at.total = PROGRESS_UNKNOWN;
    assert_line(&at, 8 * (uint64_t)CLOCK_NS_PER_S, "40.00 MiB, 5.00 MiB/s");
}

static void what_was_there_before_is_no_speed(void **state)
{
    const struct progress_state at = {.bytes = 30 * MIB, .before = 20 * MIB, .total = 40 * MIB};
    (void)state;
    assert_line(&at, (uint64_t)CLOCK_NS_PER_S, " 75 %  30.00 MiB, 10.00 MiB/s, 1 s left");
}

static void many_objects_are_counted(void **state)
{
    const struct progress_state at = {
        .bytes = MIB, .total = PROGRESS_UNKNOWN, .objects = 3, .of_objects = 12};
    (void)state;
    assert_line(&at, (uint64_t)CLOCK_NS_PER_S, "3 of 12 objects, 1.00 MiB, 1.00 MiB/s");
}

static void nothing_divides_by_nothing(void **state)
{
    struct progress_state at = {.bytes = 0, .total = 0};
    (void)state;
    assert_line(&at, 0, "100 %  0 B, 0 B/s");
    at.total = MIB;
    assert_line(&at, 0, "  0 %  0 B, 0 B/s");
}

static void a_narrow_terminal_gets_less(void **state)
{
    const struct progress_state at = {.bytes = 10 * MIB, .total = 40 * MIB};
    char line[128];
    (void)state;
    progress_format(&at, 2 * (uint64_t)CLOCK_NS_PER_S, 12, line, sizeof line);
    assert_string_equal(line, " 25 %  10.00");
    progress_format(&at, 2 * (uint64_t)CLOCK_NS_PER_S, 0, line, sizeof line);
    assert_string_equal(line, "");
}

/* It would stand in the way of the transfer. */
static void a_program_that_does_not_read_loses_lines(void **state)
{
    const struct progress_state at = {.bytes = 1, .total = 2};
    struct progress progress;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    progress_init(&progress, PROGRESS_NEVER, ends[1]);
    alarm(10);
    for (int i = 0; i < 2000; i++) {
        progress_note(&progress, &at);
        progress_end(&progress, &at);
    }
    alarm(0);
    assert_int_equal(progress.fd, ends[1]);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_percent_bytes_rate_and_time_left),
        cmocka_unit_test(what_was_there_before_is_no_speed),
        cmocka_unit_test(many_objects_are_counted),
        cmocka_unit_test(nothing_divides_by_nothing),
        cmocka_unit_test(a_narrow_terminal_gets_less),
        cmocka_unit_test(a_program_that_does_not_read_loses_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

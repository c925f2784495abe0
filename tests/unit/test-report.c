/*
 * test-report.c - what is said to have held a transfer back.
 */
#include "config.h"

#include "report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"

static char said[4096];

/* Sets said to what report_sent prints of a transfer that took 100 ns. */
static void report(uint64_t bytes, uint64_t source, uint64_t fabric, uint64_t destination)
{
    const struct sender_result result = {
        .committed = 1,
        .committed_bytes = bytes,
        .duration_ns = 100,
        .waits = {.source = source, .fabric = fabric, .destination = destination},
    };
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);

    assert_non_null(file);
    assert_true(saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    report_sent("there", &result);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(said, "there: delivered "));
}

static void what_was_waited_for_most_is_named(void **state)
{
    (void)state;
    report(1, 50, 30, 10);
    assert_non_null(strstr(said, "held back most by the source: waited for the source 50 %"));
    report(1, 30, 50, 10);
    assert_non_null(strstr(said, "held back most by the fabric: waited"));
    report(1, 30, 10, 50);
    assert_non_null(strstr(said, "held back most by the destination: waited"));
}

static void where_it_was_busy_itself_for_longer_that_is_said(void **state)
{
    (void)state;
    report(1, 0, 6, 1);
    assert_non_null(strstr(said, "held back most by this host: its own work took 93 %; waited for "
                                 "the source 0 %, the fabric 6 %, the destination 1 % "));
    report(1, 40, 15, 5);
    assert_non_null(strstr(said, "held back most by the source: "));
}

static void nothing_held_back_what_has_no_bytes(void **state)
{
    (void)state;
    report(0, 10, 10, 10);
    assert_null(strstr(said, "held back"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_waited_for_most_is_named),
        cmocka_unit_test(where_it_was_busy_itself_for_longer_that_is_said),
        cmocka_unit_test(nothing_held_back_what_has_no_bytes),
    };

    log_set_level(LOG_VERBOSE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

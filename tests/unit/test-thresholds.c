/*
 * test-thresholds.c - a figure that is as good as it has to be, and one that is missed by one.
 */
#include "config.h"

#include "thresholds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct checker_figures figures = {
    .latency_measured = true,
    .bandwidth_measured = true,
    .latency_median_ns = 1000,
    .latency_99_ns = 2000,
    .latency_999_ns = 3000,
    .samples = 1000,
    .bytes_per_second = 1000000,
};

static void assert_result(const struct thresholds *thresholds, const struct checker_figures *of,
                          const char *name, enum finding_result result, const char *text)
{
    struct findings findings = {.items = NULL};
    thresholds_add(thresholds, of, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.items[0].name, name);
    assert_int_equal(findings.items[0].result, result);
    assert_string_equal(findings.items[0].text, text);
    assert_int_equal(findings.items[0].hint[0] != '\0', result == FINDING_FAILED);
    findings_free(&findings);
}

static void a_bandwidth_is_no_less(void **state)
{
    struct thresholds thresholds = {.has_bandwidth = true, .least_bytes_per_second = 1000000};
    (void)state;
    assert_result(&thresholds, &figures, "min-bandwidth", FINDING_OK,
                  "8 Mb/s (976.56 KiB/s), no less than 8 Mb/s (976.56 KiB/s)");
    thresholds.least_bytes_per_second = 1000001;
    assert_result(&thresholds, &figures, "min-bandwidth", FINDING_FAILED,
                  "8 Mb/s (976.56 KiB/s), less than 8 Mb/s (976.56 KiB/s)");
}

static void a_latency_is_no_more(void **state)
{
    static const struct {
        enum thresholds_percentile percentile;
        uint64_t ns;
        const char *met, *missed;
    } rows[] = {
        {PERCENTILE_50, 1000, "50 % within 1 us, no more than 1 us",
         "50 % within 1 us, more than 999 ns"},
        {PERCENTILE_99, 2000, "99 % within 2 us, no more than 2 us",
         "99 % within 2 us, more than 2 us"},
        {PERCENTILE_999, 3000, "99.9 % within 3 us, no more than 3 us",
         "99.9 % within 3 us, more than 3 us"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct thresholds thresholds = {
            .has_latency = true, .percentile = rows[i].percentile, .most_latency_ns = rows[i].ns};
        assert_result(&thresholds, &figures, "max-latency", FINDING_OK, rows[i].met);
        thresholds.most_latency_ns--;
        assert_result(&thresholds, &figures, "max-latency", FINDING_FAILED, rows[i].missed);
    }
}

static void a_percentile_takes_so_many_round_trips(void **state)
{
    static const struct {
        enum thresholds_percentile percentile;
        uint64_t least;
        const char *lacking;
    } rows[] = {
        {PERCENTILE_50, 2, "50 % takes 2 round trips, and there were 1"},
        {PERCENTILE_99, 100, "99 % takes 100 round trips, and there were 99"},
        {PERCENTILE_999, 1000, "99.9 % takes 1000 round trips, and there were 999"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct thresholds thresholds = {
            .has_latency = true, .percentile = rows[i].percentile, .most_latency_ns = UINT64_MAX};
        struct checker_figures few = figures;
        struct findings findings = {.items = NULL};
        few.samples = rows[i].least;
        thresholds_add(&thresholds, &few, &findings);
        assert_int_equal(findings.items[0].result, FINDING_OK);
        findings_free(&findings);
        few.samples--;
        assert_result(&thresholds, &few, "max-latency", FINDING_FAILED, rows[i].lacking);
    }
}

static void what_was_not_measured_is_missed(void **state)
{
    static const struct checker_figures none = {.samples = 0};
    struct thresholds bandwidth = {.has_bandwidth = true};
    struct thresholds latency = {.has_latency = true, .most_latency_ns = 1};
    (void)state;
    assert_result(&bandwidth, &none, "min-bandwidth", FINDING_FAILED, "no bandwidth was measured");
    assert_result(&latency, &none, "max-latency", FINDING_FAILED, "no latency was measured");
}

static void what_was_not_measured_since_something_failed_is_skipped(void **state)
{
    static const struct checker_figures none = {.samples = 0};
    struct thresholds thresholds = {.has_bandwidth = true, .has_latency = true};
    struct findings findings = {.items = NULL};
    (void)state;
    findings_add(&findings, FINDING_FAILED, "connect", NULL, 0, "no");
    thresholds_add(&thresholds, &none, &findings);
    assert_int_equal(findings.count, 3);
    assert_int_equal(findings.items[1].result, FINDING_SKIPPED);
    assert_int_equal(findings.items[2].result, FINDING_SKIPPED);
    findings_free(&findings);
}

static void without_thresholds_there_is_nothing_to_reach(void **state)
{
    static const struct thresholds none = {.percentile = PERCENTILE_99};
    struct findings findings = {.items = NULL};
    (void)state;
    thresholds_add(&none, &figures, &findings);
    assert_int_equal(findings.count, 0);
}

static void percentiles_are_named_by_their_number(void **state)
{
    static const char *const wrong[] = {"", "0", "5", "50.0", "99.9 ", "999", "100"};
    enum thresholds_percentile percentile = PERCENTILE_50;
    (void)state;
    assert_true(thresholds_parse_percentile("99", &percentile));
    assert_int_equal(percentile, PERCENTILE_99);
    assert_true(thresholds_parse_percentile("99.9", &percentile));
    assert_int_equal(percentile, PERCENTILE_999);
    assert_true(thresholds_parse_percentile("50", &percentile));
    assert_int_equal(percentile, PERCENTILE_50);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(thresholds_parse_percentile(wrong[i], &percentile));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bandwidth_is_no_less),
        cmocka_unit_test(a_latency_is_no_more),
        cmocka_unit_test(a_percentile_takes_so_many_round_trips),
        cmocka_unit_test(what_was_not_measured_is_missed),
        cmocka_unit_test(what_was_not_measured_since_something_failed_is_skipped),
        cmocka_unit_test(without_thresholds_there_is_nothing_to_reach),
        cmocka_unit_test(percentiles_are_named_by_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

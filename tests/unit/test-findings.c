/*
 * test-findings.c - what `check` has found out is kept, in order.
 */
#include "config.h"

#include "findings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void findings_are_kept_in_order(void **state)
{
    struct findings findings = {.items = NULL};
    (void)state;
    for (int i = 0; i < 100; i++)
        findings_add(&findings, i % 2 ? FINDING_OK : FINDING_SKIPPED, "name", NULL, 0, "number %d",
                     i);
    assert_int_equal(findings.count, 100);
    assert_string_equal(findings.items[99].text, "number 99");
    assert_string_equal(findings.items[99].hint, "");
    assert_int_equal(findings_count(&findings, FINDING_OK), 50);
    assert_int_equal(findings_count(&findings, FINDING_FAILED), 0);
    findings_free(&findings);
    assert_int_equal(findings.count, 0);
}

static void an_error_is_a_failed_one(void **state)
{
    struct findings findings = {.items = NULL};
    struct error err = {.class = ERROR_NONE};
    (void)state;
    error_set(&err, ERROR_UNAVAILABLE, STAGE_CONNECT, "10.0.0.1:1", "nobody\nlistens");
    error_hint(&err, "start it");
    findings_add_error(&findings, "connect", 7, &err);
    assert_int_equal(findings.items[0].result, FINDING_FAILED);
    assert_string_equal(findings.items[0].text, "10.0.0.1:1: nobody?listens");
    assert_string_equal(findings.items[0].hint, "start it");
    assert_int_equal(findings.items[0].ns, 7);
    findings_free(&findings);
}

static void note(void *context, const struct finding *finding)
{
    strcat(context, finding->name);
    strcat(context, finding_result_name(finding->result));
}

static void each_is_told_as_it_comes(void **state)
{
    char told[64] = "";
    struct findings findings = {.added = note, .context = told};
    (void)state;
    findings_add(&findings, FINDING_OK, "a", NULL, 0, "fine");
    findings_add(&findings, FINDING_FAILED, "b", "mend it", 0, "broken");
    findings_add(&findings, FINDING_WARNING, "c", NULL, 0, "odd");
    assert_string_equal(told, "aokbFAILcwarning");
    findings_free(&findings);
}

static void names_are_for_programs(void **state)
{
    char name[] = "port-MLX5_0.1:[fe80::1%eth0]";
    (void)state;
    findings_name(name);
    assert_string_equal(name, "port-mlx5-0-1--fe80--1-eth0-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_kept_in_order),
        cmocka_unit_test(an_error_is_a_failed_one),
        cmocka_unit_test(each_is_told_as_it_comes),
        cmocka_unit_test(names_are_for_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * test-findings-tap.c - what is written as TAP, of all that a finding may hold.
 */
#include "config.h"

#include "findings-tap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What is written of one finding. */
static void assert_written(enum finding_result result, const char *text, const char *hint,
                           uint64_t ns, const char *expected)
{
    struct findings findings = {.items = NULL};
    char *written = NULL;
    size_t size;
    FILE *out = open_memstream(&written, &size);
    assert_non_null(out);
    findings_add(&findings, result, "name", hint, ns, "%s", text);
    findings_tap(out, &findings);
    fclose(out);
    assert_string_equal(written, expected);
    free(written);
    findings_free(&findings);
}

static void each_result(void **state)
{
    (void)state;
    assert_written(FINDING_OK, "fine", NULL, 7,
                   "TAP version 13\n1..1\nok 1 - name: fine\n  ---\n  result: \"ok\"\n"
                   "  message: \"fine\"\n  duration_ns: 7\n  ...\n");
    assert_written(FINDING_WARNING, "slow", "mend it", 0,
                   "TAP version 13\n1..1\nok 1 - name: slow\n  ---\n  result: \"warning\"\n"
                   "  message: \"slow\"\n  hint: \"mend it\"\n  ...\n");
    assert_written(FINDING_SKIPPED, "for a reason", NULL, 0,
                   "TAP version 13\n1..1\nok 1 - name # SKIP for a reason\n  ---\n"
                   "  result: \"skipped\"\n  message: \"for a reason\"\n  ...\n");
    assert_written(FINDING_FAILED, "broken", "mend it", 0,
                   "TAP version 13\n1..1\nnot ok 1 - name: broken\n  ---\n  result: \"FAIL\"\n"
                   "  message: \"broken\"\n  hint: \"mend it\"\n  ...\n");
}

/* No text makes a directive, or ends its string. */
static void text_from_outside(void **state)
{
    (void)state;
    assert_written(FINDING_FAILED, "a # SKIP \\ \"b\"\n...", NULL, 0,
                   "TAP version 13\n1..1\nnot ok 1 - name: a \\# SKIP \\\\ \"b\"?...\n  ---\n"
                   "  result: \"FAIL\"\n  message: \"a # SKIP \\\\ \\\"b\\\"?...\"\n  ...\n");
    assert_written(FINDING_FAILED, "a\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", NULL, 0,
                   "TAP version 13\n1..1\n"
                   "not ok 1 - name: a\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd\n  ---\n"
                   "  result: \"FAIL\"\n  message: \"a??\xef\xbf\xbd\"\n  ...\n");
}

static void none_at_all(void **state)
{
    struct findings findings = {.items = NULL};
    char *written = NULL;
    size_t size;
    FILE *out = open_memstream(&written, &size);
    (void)state;
    findings_tap(out, &findings);
    fclose(out);
    assert_string_equal(written, "TAP version 13\n1..0\n");
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_result),
        cmocka_unit_test(text_from_outside),
        cmocka_unit_test(none_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

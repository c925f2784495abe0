/*
 * test-findings-junit.c - what is written as JUnit's XML, of all that a finding may hold.
 */
#include "config.h"

#include "findings-junit.h"

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
                           const char *counts, const char *expected)
{
    struct findings findings = {.items = NULL};
    char *written = NULL, whole[4096];
    size_t size;
    FILE *out = open_memstream(&written, &size);
    assert_non_null(out);
    findings_add(&findings, result, "name", hint, 1500000000, "%s", text);
    findings_junit(out, &findings, "SUITE", 2);
    fclose(out);
    snprintf(whole, sizeof whole,
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<testsuites name=\"%s\" tests=\"1\" %s errors=\"0\" time=\"0.000000002\">\n"
             "  <testsuite name=\"%s\" tests=\"1\" %s errors=\"0\" time=\"0.000000002\" "
             "skipped=\"%d\">\n"
             "    <testcase classname=\"rdmaput.check\" name=\"name\" time=\"1.500000000\">\n"
             "      %s\n    </testcase>\n  </testsuite>\n</testsuites>\n",
             "SUITE", counts, "SUITE", counts, result == FINDING_SKIPPED, expected);
    assert_string_equal(written, whole);
    free(written);
    findings_free(&findings);
}

static void each_result(void **state)
{
    (void)state;
    assert_written(FINDING_OK, "fine", NULL, "failures=\"0\"", "<system-out>fine</system-out>");
    assert_written(FINDING_WARNING, "slow", "mend it", "failures=\"0\"",
                   "<system-out>warning: slow\nhint: mend it</system-out>");
    assert_written(FINDING_SKIPPED, "reason", NULL, "failures=\"0\"",
                   "<skipped message=\"reason\"/>");
    assert_written(FINDING_FAILED, "broken", "mend it", "failures=\"1\"",
                   "<failure type=\"failed\" message=\"broken\">broken\nhint: mend it</failure>");
}

/* No text ends its element or attribute, nor is it what XML cannot have. */
static void text_from_outside(void **state)
{
    (void)state;
    assert_written(FINDING_FAILED,
                   "<a b='c' & \"d\">\n\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd\xc3\xa9", NULL,
                   "failures=\"1\"",
                   "<failure type=\"failed\" message=\"&lt;a b=&apos;c&apos; &amp; "
                   "&quot;d&quot;&gt;???\xef\xbf\xbd\xc3\xa9\">&lt;a b=&apos;c&apos; &amp; "
                   "&quot;d&quot;&gt;???\xef\xbf\xbd\xc3\xa9</failure>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_result),
        cmocka_unit_test(text_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

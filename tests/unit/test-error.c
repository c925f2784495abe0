/*
 * test-error.c - errors, their classes, and how they are printed.
 */
#include "config.h"

#include "error.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fdio.h"
#include "log.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_the_first_error_wins(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    assert_false(error_is_set(&err));
    assert_int_equal(error_set(&err, ERROR_STORAGE, STAGE_COMMIT, "a", "number %d", 1), -1);
    assert_int_equal(error_set(&err, ERROR_BUG, STAGE_POST, "b", "number %d", 2), -1);
    assert_int_equal(error_set_errno(&err, ERROR_BUG, STAGE_POST, "c", EIO, "number %d", 3), -1);
    assert_true(error_is_set(&err));
    assert_int_equal(err.class, ERROR_STORAGE);
    assert_int_equal(err.stage, STAGE_COMMIT);
    assert_string_equal(err.subject, "a");
    assert_string_equal(err.text, "number 1");
    assert_string_equal(err.hint, "");
    error_clear(&err);
    assert_false(error_is_set(&err));
    error_set(&err, ERROR_BUG, STAGE_NONE, NULL, "again");
    assert_string_equal(err.subject, "");
    assert_string_equal(err.text, "again");
}

static void test_a_failure_of_no_class_is_no_success(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    error_set(&err, ERROR_NONE, STAGE_NONE, NULL, "failed of what?");
    assert_int_equal(err.class, ERROR_BUG);
    error_clear(&err);
    error_set_errno(&err, ERROR_NONE, STAGE_NONE, NULL, EIO, "failed of what?");
    assert_int_equal(err.class, ERROR_BUG);
}

static void test_the_first_hint_wins(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    assert_int_equal(error_hint(&err, "too early"), -1);
    assert_string_equal(err.hint, "");
    error_set(&err, ERROR_USAGE, STAGE_NONE, NULL, "wrong");
    assert_int_equal(error_hint(&err, "try %s", "this"), -1);
    assert_int_equal(error_hint(&err, "or that"), -1);
    assert_string_equal(err.hint, "try this");
}

static void test_the_system_says_why(void **state)
{
    static const int numbers[] = {ENOENT, -ENOENT};
    struct error err;

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        error_clear(&err);
        assert_int_equal(error_set_errno(&err, ERROR_SOURCE, STAGE_OPEN, "f", numbers[i],
                                         "cannot open it (%d)", 7),
                         -1);
        assert_string_equal(err.text, "cannot open it (7): No such file or directory");
        assert_string_equal(err.subject, "f");
        assert_int_equal(err.class, ERROR_SOURCE);
        assert_int_equal(err.stage, STAGE_OPEN);
    }
}

static void test_what_ran_out_here_is_no_fault_of_the_place(void **state)
{
    static const int numbers[] = {ENOMEM, -ENOMEM, EMFILE, ENFILE};
    struct error err;

    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        error_clear(&err);
        error_set_errno(&err, ERROR_CANNOT_CREATE, STAGE_OPEN, "f", numbers[i], "cannot create");
        assert_int_equal(err.class, ERROR_RESOURCE);
    }
}

static void test_long_texts_are_cut_and_the_reason_stays(void **state)
{
    static const char reason[] = ": No space left on device";
    char text[1000];
    struct error err = {.class = ERROR_NONE};

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set_errno(&err, ERROR_STORAGE, STAGE_COMMIT, text, ENOSPC, "%s", text);
    error_hint(&err, "%s", text);
    assert_int_equal(strlen(err.subject), sizeof(err.subject) - 1);
    assert_int_equal(strlen(err.hint), sizeof(err.hint) - 1);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_string_equal(err.text + strlen(err.text) - strlen(reason), reason);
    error_clear(&err);
    error_set(&err, ERROR_STORAGE, STAGE_COMMIT, "", "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void test_another_subject_goes_before_the_first(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    error_set(&err, ERROR_STORAGE, STAGE_COMMIT, "/srv/x", "cannot write");
    error_hint(&err, "make room");
    error_nest(&err, "10.0.0.2:7475");
    assert_int_equal(err.class, ERROR_STORAGE);
    assert_int_equal(err.stage, STAGE_COMMIT);
    assert_string_equal(err.subject, "10.0.0.2:7475");
    assert_string_equal(err.text, "/srv/x: cannot write");
    assert_string_equal(err.hint, "make room");
    error_nest(&err, "10.0.0.2:7475");
    assert_string_equal(err.text, "/srv/x: cannot write");
    error_nest(&err, "outer");
    assert_string_equal(err.subject, "outer");
    assert_string_equal(err.text, "10.0.0.2:7475: /srv/x: cannot write");
}

static void test_an_error_without_a_subject_gets_one(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    error_set(&err, ERROR_STORAGE, STAGE_NONE, NULL, "cannot write");
    error_nest(&err, "file");
    assert_string_equal(err.subject, "file");
    assert_string_equal(err.text, "cannot write");
}

static void test_long_errors_nest(void **state)
{
    struct error err = {.class = ERROR_NONE};
    char subject[sizeof(err.subject) + 10], text[sizeof(err.text)];

    (void)state;
    memset(subject, 's', sizeof(subject) - 1);
    subject[sizeof(subject) - 1] = '\0';
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(&err, ERROR_STORAGE, STAGE_NONE, subject, "%s", text);
    error_nest(&err, "file");
    assert_string_equal(err.subject, "file");
    assert_in_range(strlen(err.text), sizeof(err.text) / 2, sizeof(err.text) - 1);
    assert_memory_equal(err.text, subject, sizeof(err.subject) - 1);
    assert_memory_equal(err.text + sizeof(err.subject) - 1, ": ttt", 5);
    error_nest(&err, subject);
    assert_int_equal(strlen(err.subject), sizeof(err.subject) - 1);
}

/* What fits is not cut. */
static void test_a_short_subject_leaves_the_text_whole(void **state)
{
    struct error err = {.class = ERROR_NONE};
    char text[sizeof(err.text) - 6];

    (void)state;
    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    error_set(&err, ERROR_STORAGE, STAGE_NONE, "name", "%s", text);
    error_nest(&err, "peer");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_memory_equal(err.text, "name: t", 7);
}

static void test_a_text_is_appended_where_there_is_one(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    error_append(&err, "; %d more", 1);
    assert_string_equal(err.text, "");
    error_set(&err, ERROR_STORAGE, STAGE_NONE, NULL, "cannot write");
    error_append(&err, "; %d more", 2);
    assert_string_equal(err.text, "cannot write; 2 more");
}

static void test_exit_statuses(void **state)
{
    static const struct {
        enum error_class class;
        int status;
    } rows[] = {
        {ERROR_NONE, 0},       {ERROR_USAGE, 64},         {ERROR_DATA, 65},
        {ERROR_SOURCE, 66},    {ERROR_UNAVAILABLE, 69},   {ERROR_BUG, 70},
        {ERROR_RESOURCE, 71},  {ERROR_CANNOT_CREATE, 73}, {ERROR_STORAGE, 74},
        {ERROR_TEMPORARY, 75}, {ERROR_PROTOCOL, 76},      {ERROR_INTERRUPTED, 70},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(error_exit_status(rows[i].class), rows[i].status);
}

static void test_statuses_from_a_peer(void **state)
{
    static const enum error_class classes[] = {
        [65] = ERROR_DATA,    [66] = ERROR_SOURCE,    [69] = ERROR_UNAVAILABLE,
        [70] = ERROR_BUG,     [71] = ERROR_RESOURCE,  [73] = ERROR_CANNOT_CREATE,
        [74] = ERROR_STORAGE, [75] = ERROR_TEMPORARY, [76] = ERROR_PROTOCOL,
    };

    (void)state;
    for (unsigned status = 0; status < 1000; status++) {
        bool known = status < COUNT(classes) && classes[status] != ERROR_NONE;

        assert_int_equal(error_class_of_status(status), known ? classes[status] : ERROR_PROTOCOL);
    }
    assert_int_equal(error_class_of_status(UINT_MAX), ERROR_PROTOCOL);
    assert_int_equal(error_class_of_status(UINT_MAX - 190), ERROR_PROTOCOL);
}

static void test_programs_are_told_errno_and_status(void **state)
{
    struct error err = {.class = ERROR_NONE};
    (void)state;
    error_status(&err, "of no error");
    assert_null(err.status);
    error_set_errno(&err, ERROR_STORAGE, STAGE_COMMIT, "f", -ENOSPC, "cannot write");
    assert_int_equal(err.errnum, ENOSPC);
    assert_null(err.status);
    error_status(&err, "first");
    error_status(&err, "second");
    assert_string_equal(err.status, "first");
    error_clear(&err);
    error_set(&err, ERROR_TEMPORARY, STAGE_CONNECT, NULL, "busy");
    assert_int_equal(err.errnum, 0);
    assert_null(err.status);
}

static void test_classes_have_names(void **state)
{
    (void)state;
    for (int class = ERROR_NONE; class <= ERROR_INTERRUPTED; class++)
        for (int other = ERROR_NONE; other < class; other++)
            assert_string_not_equal(error_class_name(class), error_class_name(other));
    assert_string_equal(error_class_name(ERROR_CANNOT_CREATE), "cannot-create");
}

static void test_stages_have_names(void **state)
{
    (void)state;
    assert_string_equal(error_stage_name(STAGE_NONE), "");
    assert_string_equal(error_stage_name(STAGE_RESOLVE_ADDRESS), "resolve address");
    for (int stage = STAGE_OPEN; stage <= STAGE_COMMIT; stage++)
        assert_int_not_equal(strlen(error_stage_name((enum error_stage)stage)), 0);
    assert_string_equal(error_stage_name(STAGE_COMMIT), "commit");
}

static void test_masking(void **state)
{
    static const struct {
        const char *text, *masked;
    } rows[] = {
        {"", ""},
        {"plain ~ text", "plain ~ text"},
        {"a\nb\tc\rd", "a?b?c?d"},
        {"\033[31mred", "?[31mred"},
        {"\001\037\177", "???"},
        {"\xc3\xa9t\xc3\xa9", "\xc3\xa9t\xc3\xa9"},
        {"\xe2\x82\xac", "\xe2\x82\xac"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xef\xbf\xbd", "\xef\xbf\xbd"},
        {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
        {"\xc2\xa0\xdf\xbf\xe0\xa0\x80\xf0\x90\x80\x80",
         "\xc2\xa0\xdf\xbf\xe0\xa0\x80\xf0\x90\x80\x80"},
        {"\xc2\x80\xc2\x9b\xc2\x9f", "??????"},
        {"\xff\xfe", "??"},
        {"\x80", "?"},
        {"\xbf"
         "a",
         "?a"},
        {"\xc0\x80", "??"},
        {"\xc1\xbf", "??"},
        {"\xe0\x9f\xbf", "???"},
        {"\xed\xa0\x80", "???"},
        {"\xf0\x8f\xbf\xbf", "????"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xf5\x80\x80\x80", "????"},
        {"\xc3", "?"},
        {"\xc3"
         "a",
         "?a"},
        {"\xe2\x82", "??"},
        {"\xe2\x82\n", "???"},
        {"\xe2\x82\xc3\xa9", "??\xc3\xa9"},
        {"\xf0\x9f\x98", "???"},
        {"\xf0\x9f\x98x", "???x"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *text = strdup(rows[i].text);

        assert_non_null(text);
        error_mask(text);
        if (strcmp(text, rows[i].masked) != 0)
            fail_msg("row %zu gives '%s'", i, text);
        free(text);
    }
}

/* Standard error goes to a file while a test prints. */
static FILE *capture;
static int real_stderr;

static int start_capture(void **state)
{
    (void)state;
    capture = tmpfile();
    real_stderr = dup(STDERR_FILENO);
    return capture && dup2(fileno(capture), STDERR_FILENO) >= 0 ? 0 : -1;
}

static int end_capture(void **state)
{
    (void)state;
    log_set_level(LOG_NORMAL);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    return fclose(capture);
}

/* What was printed since the last time; to be freed. */
static char *printed(void)
{
    size_t len;
    char *text;

    assert_true(lseek(fileno(capture), 0, SEEK_SET) == 0);
    text = fdio_slurp(fileno(capture), 1000000, &len);
    assert_non_null(text);
    assert_int_equal(ftruncate(fileno(capture), 0), 0);
    assert_true(lseek(fileno(capture), 0, SEEK_SET) == 0);
    return text;
}

static void assert_printed(const char *expected)
{
    char *text = printed();

    assert_string_equal(text, expected);
    free(text);
}

static void test_an_error_is_two_lines(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    log_error(&err);
    assert_printed("");
    error_set(&err, ERROR_UNAVAILABLE, STAGE_CONNECT, "10.0.0.2:7475", "nobody listens");
    log_error(&err);
    assert_printed("rdmaput: 10.0.0.2:7475: nobody listens\n");
    error_hint(&err, "start it");
    log_set_level(LOG_QUIET);
    errno = EBADMSG;
    log_error(&err);
    assert_int_equal(errno, EBADMSG);
    assert_printed("rdmaput: 10.0.0.2:7475: nobody listens\nrdmaput: hint: start it\n");
    error_clear(&err);
    error_set(&err, ERROR_STORAGE, STAGE_OPEN, NULL, "evil\n\033name");
    log_error(&err);
    assert_printed("rdmaput: evil??name\n");
}

static void test_levels_choose_what_is_printed(void **state)
{
    static const struct {
        enum log_level level;
        const char *expected;
    } rows[] = {
        {LOG_QUIET, ""},
        {LOG_NORMAL, "rdmaput: note 1\n"},
        {LOG_VERBOSE, "rdmaput: note 1\nrdmaput: success 2\nrdmaput: verbose 3\n"},
        {LOG_TRACE, "rdmaput: note 1\nrdmaput: success 2\nrdmaput: verbose 3\nrdmaput: trace 4\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        log_set_level(rows[i].level);
        assert_int_equal(log_level(), rows[i].level);
        log_note("note %d", 1);
        log_success("success %d", 2);
        log_verbose("verbose %d", 3);
        log_trace("trace %d", 4);
        assert_printed(rows[i].expected);
    }
}

static void test_errno_is_kept(void **state)
{
    (void)state;
    errno = EBADMSG;
    log_success("to a file");
    assert_int_equal(errno, EBADMSG);
    close(STDERR_FILENO);
    log_note("to nothing");
    log_success("to nothing");
    assert_int_equal(errno, EBADMSG);
}

static void test_long_lines_are_cut_and_ended(void **state)
{
    char text[10000];
    char *line;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_note("%s", text);
    line = printed();
    assert_int_equal(strlen(line), 4095);
    assert_int_equal(line[4094], '\n');
    assert_int_equal(line[4093], 'x');
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_error_wins),
        cmocka_unit_test(test_a_failure_of_no_class_is_no_success),
        cmocka_unit_test(test_the_first_hint_wins),
        cmocka_unit_test(test_the_system_says_why),
        cmocka_unit_test(test_what_ran_out_here_is_no_fault_of_the_place),
        cmocka_unit_test(test_long_texts_are_cut_and_the_reason_stays),
        cmocka_unit_test(test_another_subject_goes_before_the_first),
        cmocka_unit_test(test_an_error_without_a_subject_gets_one),
        cmocka_unit_test(test_long_errors_nest),
        cmocka_unit_test(test_a_short_subject_leaves_the_text_whole),
        cmocka_unit_test(test_a_text_is_appended_where_there_is_one),
        cmocka_unit_test(test_exit_statuses),
        cmocka_unit_test(test_statuses_from_a_peer),
        cmocka_unit_test(test_programs_are_told_errno_and_status),
        cmocka_unit_test(test_classes_have_names),
        cmocka_unit_test(test_stages_have_names),
        cmocka_unit_test(test_masking),
        cmocka_unit_test_setup_teardown(test_an_error_is_two_lines, start_capture, end_capture),
        cmocka_unit_test_setup_teardown(test_levels_choose_what_is_printed, start_capture,
                                        end_capture),
        cmocka_unit_test_setup_teardown(test_errno_is_kept, start_capture, end_capture),
        cmocka_unit_test_setup_teardown(test_long_lines_are_cut_and_ended, start_capture,
                                        end_capture),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

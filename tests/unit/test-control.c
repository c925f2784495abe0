/*
 * test-control.c - what the ends of `write -e` say to each other on standard streams.
 */
#include "config.h"

#include "control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "signals.h"
#include "wire.h"

#define SECOND 1000000000u
#define SECRET "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Copied, so that what lies behind it is seen to be left alone. */
static enum control_result understand(const char *said, size_t len, struct control_answer *answer)
{
    static char text[512];

    assert_true(len < sizeof text);
    memcpy(text, said, len);
    memset(text + len, 'x', sizeof text - len);
    return control_understand(text, len, answer);
}

#define UNDERSTAND(said, answer) understand(said, sizeof(said) - 1, answer)

static void an_answer_says_where_and_what(void **state)
{
    struct control_answer answer;

    (void)state;
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1 file\n10.0.0.1:7\n[fd00::1]:7\n\n", &answer),
                     CONTROL_OK);
    assert_int_equal(answer.version, WIRE_VERSION);
    assert_false(answer.directory);
    assert_string_equal(answer.addresses, "10.0.0.1:7\n[fd00::1]:7");
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1 directory\n10.0.0.1:7\n\nmore", &answer),
                     CONTROL_OK);
    assert_true(answer.directory);
    assert_string_equal(answer.addresses, "10.0.0.1:7");
}

static void each_start_of_an_answer_is_one(void **state)
{
    static const char whole[] = "rdmaput-control 1 1 file\n10.0.0.1:7\n\n";
    struct control_answer answer;

    (void)state;
    for (size_t len = 0; len < sizeof whole - 1; len++)
        assert_int_equal(understand(whole, len, &answer), CONTROL_PARTIAL);
}

static void other_versions_are_told_from_strangers(void **state)
{
    struct control_answer answer;

    (void)state;
    assert_int_equal(UNDERSTAND("rdmaput-control 2", &answer), CONTROL_OTHER_VERSION);
    assert_int_equal(answer.version, 0);
    assert_int_equal(UNDERSTAND("rdmaput-control 12 ", &answer), CONTROL_OTHER_VERSION);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 77 file\n1.1.1.1:1\n\n", &answer),
                     CONTROL_OTHER_VERSION);
    assert_int_equal(answer.version, 77);
    assert_int_equal(UNDERSTAND("Welcome", &answer), CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("\n", &answer), CONTROL_FOREIGN);
}

static void what_is_malformed_is_foreign(void **state)
{
    struct control_answer answer;

    (void)state;
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1\n1.1.1.1:1\n\n", &answer), CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1 files\n1.1.1.1:1\n\n", &answer),
                     CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 -1 file\n1.1.1.1:1\n\n", &answer),
                     CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1  1 file\n1.1.1.1:1\n\n", &answer),
                     CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 file\n1.1.1.1:1\n\n", &answer), CONTROL_FOREIGN);
    assert_int_equal(
        UNDERSTAND("rdmaput-control 1 99999999999999999999 file\n1.1.1.1:1\n\n", &answer),
        CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1 file\n\n", &answer), CONTROL_FOREIGN);
    assert_int_equal(UNDERSTAND("rdmaput-control 1 1 file\n1.1\0.1.1:1\n\n", &answer),
                     CONTROL_FOREIGN);
}

/* The ends of standard input and output, while a test has others there. */
static int saved_input, saved_output, input, output;

static int put_pipes(void **state)
{
    int in[2], out[2];

    (void)state;
    if (pipe(in) < 0 || pipe(out) < 0)
        return -1;
    saved_input = dup(STDIN_FILENO);
    saved_output = dup(STDOUT_FILENO);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    close(in[0]);
    close(out[1]);
    input = in[1];
    output = out[0];
    return 0;
}

static int take_pipes(void **state)
{
    (void)state;
    dup2(saved_input, STDIN_FILENO);
    dup2(saved_output, STDOUT_FILENO);
    close(saved_input);
    close(saved_output);
    close(output);
    return input >= 0 ? close(input) : 0;
}

static void say(const void *text, size_t len)
{
    assert_int_equal(write(input, text, len), len);
}

static void what_one_end_says_the_other_understands(void **state)
{
    struct secret secret, taken;
    struct error err = {.class = ERROR_NONE};
    struct control_answer answer;
    char request[CONTROL_REQUEST_BYTES], text[256];
    size_t len;

    (void)state;
    assert_int_equal(secret_make(&secret, &err), 0);
    assert_int_equal(secret.len, SECRET_FRESH_CHARS);
    len = control_request(&secret, request);
    say(request, len);
    assert_int_equal(control_take_secret(SECOND, &taken, &err), 0);
    assert_int_equal(taken.len, secret.len);
    assert_memory_equal(taken.bytes, secret.bytes, secret.len);
    assert_int_equal(secret_make(&taken, &err), 0);
    assert_memory_not_equal(taken.bytes, secret.bytes, secret.len);

    assert_int_equal(control_announce("10.0.0.1:7475\n", true, &err), 0);
    len = (size_t)read(output, text, sizeof text - 1);
    assert_int_equal(control_understand(text, len, &answer), CONTROL_OK);
    assert_true(answer.directory);
    assert_string_equal(answer.addresses, "10.0.0.1:7475");
}

static void assert_not_taken(const char *said, enum error_class class, const char *text)
{
    struct error err = {.class = ERROR_NONE};
    struct secret secret;

    say(said, strlen(said));
    assert_int_equal(control_take_secret(SECOND / 10, &secret, &err), -1);
    assert_int_equal(err.class, class);
    if (!strstr(err.text, text))
        fail_msg("'%s' is not in: %s", text, err.text);
}

static void what_is_no_secret_is_not_taken(void **state)
{
    char line[CONTROL_REQUEST_BYTES + 1];

    (void)state;
    assert_not_taken("hello\n", ERROR_PROTOCOL, "no secret");
    assert_not_taken("rdmaput-control 1 abc\n", ERROR_PROTOCOL, "no secret");
    assert_not_taken("rdmaput-control 2 " SECRET "\n", ERROR_PROTOCOL, "another version");
    memset(line, '0', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_not_taken(line, ERROR_PROTOCOL, "no secret");
    assert_not_taken("rdmaput-control 1 " SECRET, ERROR_TEMPORARY, "no secret");
}

static void no_address_is_no_announcement(void **state)
{
    struct error err = {.class = ERROR_NONE};

    (void)state;
    assert_int_equal(control_announce("", false, &err), -1);
    assert_int_equal(err.class, ERROR_UNAVAILABLE);
}

static void only_the_end_of_standard_input_is_its_end(void **state)
{
    (void)state;
    assert_false(control_has_ended());
    say("x", 1);
    assert_false(control_has_ended());
    assert_false(control_has_ended());
    close(input);
    input = -1;
    assert_true(control_has_ended());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_says_where_and_what),
        cmocka_unit_test(each_start_of_an_answer_is_one),
        cmocka_unit_test(other_versions_are_told_from_strangers),
        cmocka_unit_test(what_is_malformed_is_foreign),
        cmocka_unit_test_setup_teardown(what_one_end_says_the_other_understands, put_pipes,
                                        take_pipes),
        cmocka_unit_test_setup_teardown(what_is_no_secret_is_not_taken, put_pipes, take_pipes),
        cmocka_unit_test_setup_teardown(no_address_is_no_announcement, put_pipes, take_pipes),
        cmocka_unit_test_setup_teardown(only_the_end_of_standard_input_is_its_end, put_pipes,
                                        take_pipes),
    };

    return signals_init() == 0 ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}

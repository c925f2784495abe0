/*
 * test-options.c - what the commands' command lines share: options, segments and lists of them.
 */
#include "config.h"

#include "options.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "address.h"
#include "clock.h"
#include "cmd-devices.h"
#include "cmd-post.h"
#include "cmd-serve.h"
#include "cmd-write.h"
#include "log.h"
#include "sandbox.h"
#include "signals.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_S 60 /* a test that waits longer ends the program */

static int enter_directory(void **state)
{
    argp_err_exit_status = EX_USAGE; /* as main does */
    return sandbox_enter(state);
}

struct bench {
    struct options_segments options;
    struct options_segment_list list;
    struct source *source;
    struct plan *plan;
    struct error err;
    int saved_stdin;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    alarm(PATIENCE_S);
    if (!bench)
        return -1;
    bench->saved_stdin = -1;
    sandbox_make("digits", "0123456789", 10, 0600);
    *state = bench;
    return 0;
}

static void forget(struct bench *bench)
{
    options_free_segments(&bench->list);
    plan_free(bench->plan);
    source_free(bench->source);
    bench->plan = NULL;
    bench->source = NULL;
    error_clear(&bench->err);
}

static void restore_stdin(struct bench *bench)
{
    if (bench->saved_stdin < 0)
        return;
    dup2(bench->saved_stdin, STDIN_FILENO);
    close(bench->saved_stdin);
    bench->saved_stdin = -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    restore_stdin(bench);
    forget(bench);
    free(bench);
    sandbox_empty();
    return 0;
}

/*
 * Options, each in a process of its own, since a wrong one ends it
 */

struct all_options {
    struct options_common common;
    struct options_connect connect;
    struct options_segments segments;
};

static error_t parse_all(int key, char *arg, struct argp_state *state)
{
    struct all_options *options = state->input;

    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &options->common;
    state->child_inputs[1] = &options->connect;
    state->child_inputs[2] = &options->connect;
    state->child_inputs[3] = &options->segments;
    return 0;
}

static const struct argp_child all_children[] = {
    {&options_common_argp, 0, NULL, 0},
    {&options_connect_argp, 0, NULL, 0},
    {&options_retry_argp, 0, NULL, 0},
    {&options_segments_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
};

static const struct argp all_argp = {.parser = parse_all, .children = all_children};

/* The options point into words. */
static struct all_options parse_words(const char *first, const char *second)
{
    static char words[3][64];
    char *argv[] = {words[0], words[1], second ? words[2] : NULL, NULL};
    struct all_options options = {.connect = {.port = 0}};

    snprintf(words[0], sizeof(words[0]), "rdmaput test");
    snprintf(words[1], sizeof(words[1]), "%s", first);
    snprintf(words[2], sizeof(words[2]), "%s", second ? second : "");
    options_common_init(&options.common);
    assert_int_equal(argp_parse(&all_argp, second ? 3 : 2, argv, 0, NULL, &options), 0);
    return options;
}

/* The exit status of a process that parses one or two words, and what it wrote to standard error. */
static int parse_apart(const char *first, const char *second, char *text, size_t size)
{
    char program[] = "rdmaput test";
    char *argv[] = {program, strdup(first), second ? strdup(second) : NULL, NULL};
    struct all_options options = {.connect = {.port = 0}};
    int fds[2], status;
    size_t used = 0;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        options_common_init(&options.common);
        argp_parse(&all_argp, second ? 3 : 2, argv, 0, NULL, &options);
        exit(0);
    }
    assert_true(pid > 0);
    close(fds[1]);
    while (used < size - 1 && (n = read(fds[0], text + used, size - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    free(argv[1]);
    free(argv[2]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_options_have_their_values(void **state)
{
    struct all_options options;

    (void)state;
    options = parse_words("--timeout=1.5", NULL);
    assert_int_equal(options.common.timeout, 1500 * CLOCK_NS_PER_MS);
    options = parse_words("--timeout", "100ms");
    assert_int_equal(options.common.timeout, 100 * CLOCK_NS_PER_MS);
    options = parse_words("--bind=192.0.2.1", "--port=65535");
    assert_string_equal(options.connect.bind, "192.0.2.1");
    assert_int_equal(options.connect.port, 65535);
    options = parse_words("--wait", "2m");
    assert_int_equal(options.connect.wait, 120 * CLOCK_NS_PER_S);
    options = parse_words("--tos=184", "--retry=5");
    assert_true(options.connect.has_tos);
    assert_int_equal(options.connect.tos, 184);
    assert_int_equal(options.connect.retry, 5);
    options = parse_words("-0", "--segments-from=list");
    assert_true(options.segments.nul);
    assert_string_equal(options.segments.from, "list");
    assert_false(options.segments.literal);
    options = parse_words("--literal", NULL);
    assert_true(options.segments.literal);
}

static void test_options_not_given_have_their_defaults(void **state)
{
    struct all_options options = parse_words("--literal", NULL);

    (void)state;
    assert_int_equal(options.common.timeout, 30 * CLOCK_NS_PER_S);
    assert_int_equal(options.common.level, LOG_NORMAL);
    assert_null(options.connect.bind);
    assert_int_equal(options.connect.port, 0);
    assert_int_equal(options.connect.wait, 0);
    assert_false(options.connect.has_tos);
    assert_null(options.segments.from);
    assert_false(options.segments.nul);
}

static void test_the_last_word_on_the_level_counts(void **state)
{
    (void)state;
    assert_int_equal(parse_words("-v", NULL).common.level, LOG_VERBOSE);
    assert_int_equal(parse_words("-v", "-q").common.level, LOG_QUIET);
    assert_int_equal(parse_words("-q", "--verbose").common.level, LOG_VERBOSE);
    assert_int_equal(parse_words("--quiet", "--trace").common.level, LOG_TRACE);
}

static void test_values_that_are_wrong_name_their_option(void **state)
{
    static const struct {
        const char *word, *part;
    } rows[] = {
        {"--timeout=", "--timeout: ''"},     {"--timeout=5x", "--timeout: '5x'"},
        {"--timeout=-1", "--timeout: '-1'"}, {"--timeout=99ms", "less than 100ms"},
        {"--timeout=0", "less than 100ms"},  {"--port=http", "--port: 'http'"},
        {"--port=65536", "--port: '65536'"}, {"--port=0", "no port to connect to"},
        {"--wait=soon", "--wait: 'soon'"},   {"-0", "-0 goes with --segments-from"},
        {"--tos=256", "--tos: '256'"},       {"--no-such", "--no-such"},
    };
    char text[1024];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int status = parse_apart(rows[i].word, NULL, text, sizeof(text));

        if (status != EX_USAGE || !strstr(text, rows[i].part))
            fail_msg("'%s': status %d, '%s'", rows[i].word, status, text);
    }
    assert_int_equal(parse_apart("--timeout", "1h", text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

static void test_a_target_has_the_port_that_stands_nearest(void **state)
{
    struct options_common common = {.timeout = 5};
    struct options_connect connect = {.bind = "192.0.2.1", .has_tos = true, .tos = 8, .wait = 7};
    struct client_target target = options_target("host", false, 0, &connect, &common);

    (void)state;
    assert_string_equal(target.host, "host");
    assert_string_equal(target.bind, "192.0.2.1");
    assert_int_equal(target.timeout, 5);
    assert_int_equal(target.wait, 7);
    assert_true(target.has_tos && target.tos == 8);
    assert_int_equal(target.port, ADDRESS_DEFAULT_PORT);
    connect.port = 8000;
    assert_int_equal(options_target("host", false, 0, &connect, &common).port, 8000);
    assert_int_equal(options_target("host", true, 9000, &connect, &common).port, 9000);
}

static void test_a_destination_that_is_wrong_is_a_usage_error(void **state)
{
    struct address address = {.name = NULL};
    struct error err = {.class = ERROR_NONE};

    (void)state;
    assert_int_equal(options_parse_destination("192.0.2.1:80/name", &address, &err), 0);
    assert_string_equal(address.host, "192.0.2.1");
    assert_int_equal(address.port, 80);
    assert_string_equal(address.name, "name");
    address_free(&address);
    assert_int_equal(options_parse_destination("user@host", &address, &err), -1);
    assert_int_equal(error_exit_status(err.class), EX_USAGE);
    assert_string_equal(err.subject, "user@host");
    assert_true(err.text[0] != '\0' && err.hint[0] != '\0');
}

static void test_arguments_are_kept_in_order(void **state)
{
    struct options_arguments arguments = {.items = NULL};
    static char words[100][8];

    (void)state;
    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        snprintf(words[i], sizeof(words[i]), "%u", i);
        options_add_argument(NULL, &arguments, words[i]);
    }
    assert_int_equal(arguments.count, COUNT_OF(words));
    for (unsigned i = 0; i < COUNT_OF(words); i++)
        assert_ptr_equal(arguments.items[i], words[i]);
    free(arguments.items);
}

/*
 * No two options of a command are the same: argp says nothing about it
 */

#define ALL_IS_WELL 42

struct option_set {
    const struct argp_option *options[128];
    size_t count;
};

static void collect(const struct argp *argp, struct option_set *set)
{
    const struct argp_option *option = argp->options;

    for (; option && (option->name || option->key || option->doc || option->group); option++)
        if (option->name && !(option->flags & OPTION_DOC)) {
            if (set->count == COUNT_OF(set->options))
                abort();
            set->options[set->count++] = option;
        }
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        collect(child->argp, set);
}

/* As argp_program_version_hook: the one place where a command's whole argp can be had, argp's own
 * options in it. */
static void check_options(FILE *stream, struct argp_state *state)
{
    struct option_set set = {.count = 0};
    int status = ALL_IS_WELL;

    (void)stream;
    collect(state->root_argp, &set);
    for (size_t i = 0; i < set.count; i++) {
        const struct argp_option *a = set.options[i];

        if (a->key == 0) {
            fprintf(stderr, "%s: --%s has no key\n", state->name, a->name);
            status = EXIT_FAILURE;
        }
        for (size_t j = 0; j < i; j++) {
            const struct argp_option *b = set.options[j];

            if (a->key != b->key && strcmp(a->name, b->name) != 0)
                continue;
            fprintf(stderr, "%s: --%s (key %d) and --%s (key %d)\n", state->name, a->name, a->key,
                    b->name, b->key);
            status = EXIT_FAILURE;
        }
    }
    exit(set.count >= 5 + 4 ? status : EXIT_FAILURE); /* argp's own, and those of every command */
}

static void assert_options_are_unique(const char *name,
                                      int (*command)(int, char **, struct error *))
{
    char program[32], version[] = "--version";
    char *argv[] = {program, version, NULL};
    struct error err = {.class = ERROR_NONE};
    int status;
    pid_t pid;

    snprintf(program, sizeof(program), "rdmaput %s", name);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        argp_program_version_hook = check_options;
        command(2, argv, &err);
        exit(EXIT_FAILURE);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != ALL_IS_WELL)
        fail_msg("two options of 'rdmaput %s' are the same", name);
}

static void test_no_two_options_of_a_command_are_the_same(void **state)
{
    (void)state;
    assert_options_are_unique("serve", cmd_serve);
    assert_options_are_unique("write", cmd_write);
    assert_options_are_unique("post", cmd_post);
    assert_options_are_unique("devices", cmd_devices);
}

/*
 * Segments
 */

static int parse(struct bench *bench, char *first, char *second)
{
    char *arguments[] = {first, second};
    size_t count = (first != NULL) + (second != NULL);

    options_free_segments(&bench->list);
    error_clear(&bench->err);
    return options_parse_segments(&bench->options, arguments, count, &bench->list, &bench->err);
}

static void assert_refused_text(const struct bench *bench, int status, const char *part)
{
    if (error_exit_status(bench->err.class) != status || !strstr(bench->err.text, part))
        fail_msg("status %d, '%s'", error_exit_status(bench->err.class), bench->err.text);
}

static void assert_parses(struct bench *bench, const char *argument)
{
    char *copy = strdup(argument);
    int rc = parse(bench, copy, NULL);

    free(copy);
    if (rc < 0)
        fail_msg("'%s': %s", argument, bench->err.text);
    assert_int_equal(bench->list.count, 1);
}

static void assert_refused(struct bench *bench, const char *argument, const char *part)
{
    char *copy = strdup(argument);
    int rc = parse(bench, copy, NULL);

    free(copy);
    if (rc == 0)
        fail_msg("'%s' was taken", argument);
    assert_refused_text(bench, EX_USAGE, part);
    assert_string_equal(bench->err.subject, argument);
    assert_true(bench->err.hint[0] != '\0');
    assert_int_equal(bench->list.count, 0);
}

static void test_arguments_become_segments_in_order(void **state)
{
    struct bench *bench = *state;
    char first[] = "digits@4+2=1K", second[] = "user@host.txt";

    assert_int_equal(parse(bench, first, second), 0);
    assert_int_equal(bench->list.count, 2);
    assert_string_equal(bench->list.items[0].path, "digits");
    assert_int_equal(bench->list.items[0].offset, 4);
    assert_int_equal(bench->list.items[0].length, 2);
    assert_int_equal(bench->list.items[0].remote, 1024);
    assert_string_equal(bench->list.items[1].path, "user@host.txt");
    assert_false(bench->list.items[1].has_suffix);
}

static void test_malformed_segments_are_usage_errors(void **state)
{
    struct bench *bench = *state;

    assert_refused(bench, "digits@4X", "OFFSET '4X'");
    assert_refused(bench, "digits@4KB", "ambiguous");
    assert_refused(bench, "digits@--4", "OFFSET");
    assert_refused(bench, "digits@+", "LENGTH");
    assert_refused(bench, "digits@+-1", "LENGTH");
    assert_refused(bench, "digits@=", "REMOTE");
    assert_refused(bench, "digits@=1+2", "REMOTE");
    assert_refused(bench, "digits@9223372036854775808", "OFFSET");
    assert_refused(bench, "missing@4X", "OFFSET '4X'");
    assert_refused(bench, "", "no PATH");
    assert_refused(bench, "@4K", "no PATH");
}

static void test_a_malformed_segment_that_is_a_file_is_that_file(void **state)
{
    struct bench *bench = *state;

    sandbox_make("digits@4X", "x", 1, 0600);
    assert_parses(bench, "digits@4X");
    assert_string_equal(bench->list.items[0].path, "digits@4X");
    assert_false(bench->list.items[0].has_suffix);
}

static void test_a_segment_that_is_a_file_too_is_ambiguous(void **state)
{
    struct bench *bench = *state;

    sandbox_make("digits@4", "x", 1, 0600);
    assert_refused(bench, "digits@4", "ambiguous");
    assert_non_null(strstr(bench->err.hint, "'digits@4@'"));
    assert_non_null(strstr(bench->err.hint, "--literal"));
    assert_parses(bench, "digits@4@");
    assert_string_equal(bench->list.items[0].path, "digits@4");
    assert_false(bench->list.items[0].has_offset);
    sandbox_make("digits@", "x", 1, 0600);
    assert_refused(bench, "digits@", "ambiguous");
    assert_refused(bench, "./digits@4", "ambiguous");
}

static void test_literal_arguments_are_paths_whatever_they_look_like(void **state)
{
    static const char *const arguments[] = {"digits@4", "digits@4X", "@", "a@+=", "digits"};
    struct bench *bench = *state;

    bench->options.literal = true;
    sandbox_make("digits@4", "x", 1, 0600);
    for (size_t i = 0; i < COUNT_OF(arguments); i++) {
        assert_parses(bench, arguments[i]);
        assert_string_equal(bench->list.items[0].path, arguments[i]);
        assert_false(bench->list.items[0].has_suffix);
        assert_false(bench->list.items[0].has_offset);
    }
    assert_refused(bench, "", "no PATH");
}

static void test_no_segment_at_all_is_a_usage_error(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "no segment");
}

static void test_what_was_taken_before_an_error_can_be_freed(void **state)
{
    struct bench *bench = *state;
    char first[] = "digits", second[] = "digits@4X";

    assert_int_equal(parse(bench, first, second), -1);
    assert_int_equal(bench->list.count, 1);
    options_free_segments(&bench->list);
    assert_null(bench->list.items);
    options_free_segments(&bench->list);
}

static void test_many_segments_are_taken(void **state)
{
    struct bench *bench = *state;
    static char words[1000][16];
    static char *arguments[COUNT_OF(words)];

    for (unsigned i = 0; i < COUNT_OF(words); i++) {
        snprintf(words[i], sizeof(words[i]), "digits@%u", i);
        arguments[i] = words[i];
    }
    assert_int_equal(options_parse_segments(&bench->options, arguments, COUNT_OF(words),
                                            &bench->list, &bench->err),
                     0);
    assert_int_equal(bench->list.count, COUNT_OF(words));
    for (unsigned i = 0; i < COUNT_OF(words); i++)
        assert_int_equal(bench->list.items[i].offset, i);
}

/*
 * Standard input
 */

static void test_standard_input_stands_alone(void **state)
{
    struct bench *bench = *state;
    char stdin_twice[2][8] = {"-", "-@+4"}, file[] = "digits";

    assert_parses(bench, "-");
    assert_parses(bench, "-@+4=5");
    assert_int_equal(parse(bench, stdin_twice[0], file), -1);
    assert_refused_text(bench, EX_USAGE, "stands alone");
    assert_non_null(strstr(bench->err.hint, "'./-'"));
    assert_int_equal(parse(bench, file, stdin_twice[1]), -1);
    assert_refused_text(bench, EX_USAGE, "stands alone");
    assert_int_equal(parse(bench, stdin_twice[0], stdin_twice[1]), -1);
    assert_refused_text(bench, EX_USAGE, "stands alone");
}

static void test_a_file_named_like_standard_input_is_none(void **state)
{
    struct bench *bench = *state;
    char dash[] = "./-", file[] = "digits";

    sandbox_make("-", "dash", 4, 0600);
    assert_int_equal(parse(bench, dash, file), 0);
    assert_int_equal(bench->list.count, 2);
}

/* Standard input gives content. */
static void set_stdin(struct bench *bench, const char *content, size_t len)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], content, len), len);
    close(fds[1]);
    if (bench->saved_stdin < 0)
        bench->saved_stdin = dup(STDIN_FILENO);
    assert_true(dup2(fds[0], STDIN_FILENO) == STDIN_FILENO);
    close(fds[0]);
}

static void assert_content(struct bench *bench, const char *expected)
{
    size_t len = strlen(expected);
    char buf[64];
    bool ended;

    assert_int_equal(options_plan(&bench->list, PLAN_AS_GIVEN, PLAN_TARGET_SLOT, false,
                                  &bench->source, &bench->plan, &bench->err),
                     0);
    assert_int_equal(source_read(bench->source, 0, 0, buf, len, -1, &ended, &bench->err), len);
    assert_memory_equal(buf, expected, len);
}

static void test_a_literal_dash_is_a_file(void **state)
{
    struct bench *bench = *state;
    char dash[] = "-", file[] = "digits";

    bench->options.literal = true;
    sandbox_make("-", "dash", 4, 0600);
    set_stdin(bench, "stdin", 5);
    assert_int_equal(parse(bench, dash, file), 0);
    assert_content(bench, "dash");
}

/*
 * Lists
 */

static void assert_paths(const struct bench *bench, const char *const *paths, size_t count)
{
    if (error_is_set(&bench->err))
        fail_msg("%s", bench->err.text);
    assert_int_equal(bench->list.count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(bench->list.items[i].path, paths[i]);
}

static void test_a_list_has_a_segment_on_each_line(void **state)
{
    static const char *const paths[] = {"one", "digits", " two words", "last"};
    static const char content[] = "one\n\ndigits@4+2\n two words\n\n\nlast";
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", content, strlen(content), 0600);
    assert_int_equal(parse(bench, NULL, NULL), 0);
    assert_paths(bench, paths, COUNT_OF(paths));
    assert_int_equal(bench->list.items[1].offset, 4);
    assert_int_equal(bench->list.items[1].length, 2);
}

static void test_a_lists_last_line_may_end(void **state)
{
    static const char *const paths[] = {"one", "two"};
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", "one\ntwo\n", 8, 0600);
    assert_int_equal(parse(bench, NULL, NULL), 0);
    assert_paths(bench, paths, 2);
}

static void test_a_lists_segments_come_before_those_named(void **state)
{
    static const char *const paths[] = {"one", "two", "three", "four"};
    struct bench *bench = *state;
    char three[] = "three", four[] = "four";

    bench->options.from = "list";
    sandbox_make("list", "one\ntwo\n", 8, 0600);
    assert_int_equal(parse(bench, three, four), 0);
    assert_paths(bench, paths, 4);
}

static void test_a_list_may_be_separated_by_nul(void **state)
{
    static const char *const paths[] = {"one", "two\nlines", "last"};
    struct bench *bench = *state;

    bench->options.from = "list";
    bench->options.nul = true;
    sandbox_make("list", "one\0\0two\nlines\0last", 19, 0600);
    assert_int_equal(parse(bench, NULL, NULL), 0);
    assert_paths(bench, paths, 3);
}

static void test_a_list_of_literal_paths(void **state)
{
    static const char *const paths[] = {"digits@4", "@4K", "./-"};
    struct bench *bench = *state;

    bench->options.from = "list";
    bench->options.literal = true;
    sandbox_make("list", "digits@4\n@4K\n./-\n", 17, 0600);
    assert_int_equal(parse(bench, NULL, NULL), 0);
    assert_paths(bench, paths, COUNT_OF(paths));
}

static void test_a_nul_in_a_line_asks_for_the_option(void **state)
{
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", "one\0two\0", 8, 0600);
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "-0");
    assert_string_equal(bench->err.subject, "list");
}

static void test_a_malformed_line_is_told_by_itself(void **state)
{
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", "one\ndigits@4X\nlast\n", 19, 0600);
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "'4X'");
    assert_string_equal(bench->err.subject, "digits@4X");
}

static void test_an_empty_list_is_no_segment(void **state)
{
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", "\n\n", 2, 0600);
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "no segment");
    bench->options.from = "/dev/null";
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "no segment");
}

static void test_a_list_that_cannot_be_read_is_told(void **state)
{
    struct bench *bench = *state;

    bench->options.from = "missing";
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_NOINPUT, strerror(ENOENT));
    assert_string_equal(bench->err.subject, "missing");
    bench->options.from = ".";
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_NOINPUT, strerror(EISDIR));
}

static void test_a_list_may_be_standard_input(void **state)
{
    static const char *const paths[] = {"one", "two", "digits"};
    struct bench *bench = *state;
    char file[] = "digits", dash[] = "-";

    bench->options.from = "-";
    set_stdin(bench, "one\ntwo\n", 8);
    assert_int_equal(parse(bench, file, NULL), 0);
    assert_paths(bench, paths, 3);
    set_stdin(bench, "", 0);
    assert_int_equal(parse(bench, dash, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "stands alone");
    set_stdin(bench, "-\n", 2);
    assert_int_equal(parse(bench, NULL, NULL), -1);
    assert_refused_text(bench, EX_USAGE, "stands alone");
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

/* What ended the wait of a process for a list that never comes, after a signal. */
static enum error_class wait_for_list_with_signal(void)
{
    const struct options_segments options = {.from = "-"};
    struct options_segment_list list = {.items = NULL};
    struct error err = {.class = ERROR_NONE};
    int fds[2], status;
    pid_t pid;

    assert_int_equal(pipe(fds), 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(fds[0], STDIN_FILENO);
        if (signals_init() == 0 && raise(SIGTERM) == 0)
            options_parse_segments(&options, NULL, 0, &list, &err);
        exit((int)err.class);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(fds[0]);
    close(fds[1]);
    assert_true(WIFEXITED(status));
    return (enum error_class)WEXITSTATUS(status);
}

static void test_a_signal_ends_the_wait_for_a_list(void **state)
{
    (void)state;
    assert_int_equal(wait_for_list_with_signal(), ERROR_INTERRUPTED);
}

static void test_a_list_may_name_standard_input(void **state)
{
    struct bench *bench = *state;

    bench->options.from = "list";
    sandbox_make("list", "-\n", 2, 0600);
    assert_int_equal(parse(bench, NULL, NULL), 0);
    assert_int_equal(bench->list.count, 1);
}

/*
 * Plans
 */

static int plan_as(struct bench *bench, const char *first, const char *second,
                   enum plan_order order, bool sparse)
{
    char *a = strdup(first), *b = second ? strdup(second) : NULL;
    int rc;

    forget(bench);
    assert_int_equal(parse(bench, a, b), 0);
    rc = options_plan(&bench->list, order, PLAN_TARGET_SLOT, sparse, &bench->source, &bench->plan,
                      &bench->err);
    free(a);
    free(b);
    return rc;
}

static int plan(struct bench *bench, const char *first, const char *second, enum plan_order order)
{
    return plan_as(bench, first, second, order, false);
}

static void test_segments_become_a_plan(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece;
    size_t added_as;

    assert_int_equal(plan(bench, "digits@=100", "digits@-2+1=0", PLAN_BY_DEST), 0);
    assert_int_equal(plan_count(bench->plan), 2);
    assert_int_equal(plan_size(bench->plan), 110);
    assert_int_equal(plan_bytes(bench->plan), 11);
    piece = plan_piece(bench->plan, 0, &added_as);
    assert_int_equal(added_as, 1);
    assert_int_equal(piece->offset, 8);
    assert_string_equal(source_path(bench->source, piece->source), "digits");
}

static void test_segments_that_overlap_are_refused_by_name(void **state)
{
    struct bench *bench = *state;

    sandbox_make("other", "abc", 3, 0600);
    assert_int_equal(plan(bench, "digits", "other@=9", PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_USAGE, "overlaps 'digits'");
    assert_string_equal(bench->err.subject, "other");
    assert_true(bench->err.hint[0] != '\0');
    assert_int_equal(plan(bench, "other@=9", "digits@=0", PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_USAGE, "overlaps 'other'");
    assert_int_equal(plan(bench, "digits", "other@=9", PLAN_AS_GIVEN), 0);
    assert_int_equal(plan(bench, "digits", "other@=10", PLAN_BY_DEST), 0);
}

/* 3 MiB, with data at the start and the end. */
static void make_sparse(const char *path)
{
    int fd;

    sandbox_make(path, "start", 5, 0600);
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "end", 3, 3 * 1048576 - 3), 3);
    close(fd);
}

/* Whether its file system does. */
static bool tells_holes(const char *path)
{
    int fd = open(path, O_RDONLY);
    bool is_hole = lseek(fd, 1048576, SEEK_HOLE) == 1048576;

    close(fd);
    return is_hole;
}

static void test_sparse_segments_are_planned_with_their_holes(void **state)
{
    struct bench *bench = *state;

    make_sparse("sparse");
    assert_int_equal(plan_as(bench, "sparse", "digits", PLAN_BY_DEST, true), 0);
    assert_int_equal(plan_size(bench->plan), 3 * 1048576 + 10);
    if (!tells_holes("sparse"))
        skip();
    assert_true(plan_bytes(bench->plan) < 1048576);
    assert_int_equal(plan(bench, "sparse", "digits", PLAN_BY_DEST), 0);
    assert_int_equal(plan_bytes(bench->plan), 3 * 1048576 + 10);
}

static void test_sparse_segments_that_overlap_are_refused_by_name(void **state)
{
    static const char *const overlaps[] = {"digits@=0", "digits@=1M", "digits@=3145727"};
    struct bench *bench = *state;

    make_sparse("sparse");
    for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
        assert_int_equal(plan_as(bench, "sparse", overlaps[i], PLAN_BY_DEST, true), -1);
        assert_refused_text(bench, EX_USAGE, "overlaps 'sparse'");
        assert_string_equal(bench->err.subject, "digits");
        assert_int_equal(plan_as(bench, overlaps[i], "sparse@=0", PLAN_BY_DEST, true), -1);
        assert_refused_text(bench, EX_USAGE, "overlaps 'digits'");
        assert_string_equal(bench->err.subject, "sparse");
    }
}

static void test_an_object_that_is_too_large_is_refused(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(plan(bench, "digits@=9223372036854775800", NULL, PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_USAGE, "2^63");
}

static void test_a_stream_before_a_place_is_refused(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(plan(bench, "/proc/version", "digits@=100", PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_USAGE, "unknown length");
}

static void test_files_that_cannot_be_sources_have_their_status(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(plan(bench, "digits", "missing", PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_NOINPUT, strerror(ENOENT));
    assert_string_equal(bench->err.subject, "missing");
    assert_int_equal(plan(bench, "digits", "digits@5+6", PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_NOINPUT, "too short");
    assert_int_equal(mkdir("dir", 0700), 0);
    assert_int_equal(plan(bench, "dir", NULL, PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_NOINPUT, "is a directory");
    assert_non_null(strstr(bench->err.hint, "tar c dir"));
    assert_int_equal(plan(bench, "/proc/version@1", NULL, PLAN_BY_DEST), -1);
    assert_refused_text(bench, EX_USAGE, "OFFSET");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_two_options_of_a_command_are_the_same),
        cmocka_unit_test(test_options_have_their_values),
        cmocka_unit_test(test_options_not_given_have_their_defaults),
        cmocka_unit_test(test_the_last_word_on_the_level_counts),
        cmocka_unit_test(test_values_that_are_wrong_name_their_option),
        cmocka_unit_test(test_a_target_has_the_port_that_stands_nearest),
        cmocka_unit_test(test_a_destination_that_is_wrong_is_a_usage_error),
        cmocka_unit_test(test_arguments_are_kept_in_order),
        TEST(test_arguments_become_segments_in_order),
        TEST(test_malformed_segments_are_usage_errors),
        TEST(test_a_malformed_segment_that_is_a_file_is_that_file),
        TEST(test_a_segment_that_is_a_file_too_is_ambiguous),
        TEST(test_literal_arguments_are_paths_whatever_they_look_like),
        TEST(test_no_segment_at_all_is_a_usage_error),
        TEST(test_what_was_taken_before_an_error_can_be_freed),
        TEST(test_many_segments_are_taken),
        TEST(test_standard_input_stands_alone),
        TEST(test_a_file_named_like_standard_input_is_none),
        TEST(test_a_literal_dash_is_a_file),
        TEST(test_a_list_has_a_segment_on_each_line),
        TEST(test_a_lists_last_line_may_end),
        TEST(test_a_lists_segments_come_before_those_named),
        TEST(test_a_list_may_be_separated_by_nul),
        TEST(test_a_list_of_literal_paths),
        TEST(test_a_nul_in_a_line_asks_for_the_option),
        TEST(test_a_malformed_line_is_told_by_itself),
        TEST(test_an_empty_list_is_no_segment),
        TEST(test_a_list_that_cannot_be_read_is_told),
        TEST(test_a_list_may_be_standard_input),
        TEST(test_a_signal_ends_the_wait_for_a_list),
        TEST(test_a_list_may_name_standard_input),
        TEST(test_segments_become_a_plan),
        TEST(test_segments_that_overlap_are_refused_by_name),
        TEST(test_sparse_segments_are_planned_with_their_holes),
        TEST(test_sparse_segments_that_overlap_are_refused_by_name),
        TEST(test_an_object_that_is_too_large_is_refused),
        TEST(test_a_stream_before_a_place_is_refused),
        TEST(test_files_that_cannot_be_sources_have_their_status),
    };

    return cmocka_run_group_tests(tests, enter_directory, sandbox_leave);
}

/*
 * test-sink-dir.c - files below a directory, and nothing outside.
 */
#include "config.h"

#include "sink-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "name.h"
#include "sandbox.h"

#define LIMIT_NS (20 * CLOCK_NS_PER_S)

struct bench {
    struct sink *sink;
    struct sink_options options;
    struct sink_request request;
    struct error err;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench || mkdir("dir", 0755) < 0 || mkdir("outside", 0755) < 0)
        return -1;
    bench->options.keep_ns = 3600 * (uint64_t)CLOCK_NS_PER_S;
    bench->sink = sink_dir_new("dir", &bench->options, &bench->err);
    *state = bench;
    return bench->sink ? 0 : -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    if (bench->sink)
        bench->sink->ops->free(bench->sink);
    free(bench);
    sandbox_empty();
    return 0;
}

static struct sink_object *try_begin(struct bench *bench, const char *name)
{
    bench->request.name = name;
    bench->request.size = bench->request.bytes = 3;
    return bench->sink->ops->begin(bench->sink, &bench->request, -1, &bench->err);
}

static struct sink_object *begin(struct bench *bench, const char *name)
{
    struct sink_object *object = try_begin(bench, name);

    if (!object)
        fail_msg("%s: %s", name, bench->err.text);
    assert_int_equal(bench->sink->ops->store(object, 0, "new", 3, -1, &bench->err), 0);
    return object;
}

static void deliver(struct bench *bench, const char *name)
{
    if (bench->sink->ops->commit(begin(bench, name), 3, -1, &bench->err) < 0)
        fail_msg("%s: %s", name, bench->err.text);
}

static void assert_refused(struct bench *bench, const char *name, const char *part)
{
    error_clear(&bench->err);
    if (try_begin(bench, name))
        fail_msg("'%s' was taken", name);
    if (bench->err.class != ERROR_CANNOT_CREATE || !strstr(bench->err.text, part))
        fail_msg("'%s': class %d, '%s'", name, (int)bench->err.class, bench->err.text);
}

static void assert_new(const char *path)
{
    char buf[8];
    int fd = open(path, O_RDONLY);

    if (fd < 0)
        fail_msg("'%s': %s", path, strerror(errno));
    assert_int_equal(read(fd, buf, sizeof(buf)), 3);
    assert_memory_equal(buf, "new", 3);
    close(fd);
}

static void test_a_sink_says_what_it_is(void **state)
{
    struct bench *bench = *state;

    assert_string_equal(bench->sink->ops->kind, "directory");
    assert_true(bench->sink->ops->stores);
    assert_false(bench->sink->ops->exclusive);
    assert_string_equal(bench->sink->description, "directory 'dir'");
}

static void test_objects_appear_below(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(mkdir("dir/sub", 0755), 0);
    deliver(bench, "x");
    deliver(bench, "sub/y");
    deliver(bench, "made/for/it/z");
    deliver(bench, "x");
    assert_new("dir/x");
    assert_new("dir/sub/y");
    assert_new("dir/made/for/it/z");
    assert_int_equal(sandbox_count_all("dir"), 7);
}

static void test_the_directory_is_opened_once(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(rename("dir", "moved"), 0);
    assert_int_equal(symlink("outside", "dir"), 0);
    deliver(bench, "x");
    assert_new("moved/x");
    assert_int_equal(sandbox_count_all("outside"), 0);
}

static void test_a_directory_that_was_removed_takes_nothing(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(rmdir("dir"), 0);
    assert_refused(bench, "a", "that directory was removed");
    assert_int_equal(mkdir("dir", 0755), 0);
    assert_refused(bench, "a", "that directory was removed");
}

static void test_an_object_without_a_name_is_refused(void **state)
{
    struct bench *bench = *state;

    assert_null(try_begin(bench, ""));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_string_equal(bench->err.text, "the server serves a directory, and no object was named");
    assert_string_equal(bench->err.hint, "name it: HOST[:PORT]/NAME");
}

static void test_hostile_names_are_refused(void **state)
{
    struct bench *bench = *state;
    char outside[128];

    snprintf(outside, sizeof(outside), "%s/outside/x", sandbox_path);
    assert_refused(bench, "../outside/x", "'..'");
    assert_refused(bench, "a/../../outside/x", "'..'");
    assert_refused(bench, outside, "absolute");
    assert_refused(bench, "a//b", "empty part");
    assert_refused(bench, "a/", "empty part");
    assert_refused(bench, "a\x1b[2J", "'a?[2J'");
    assert_refused(bench, ".x.rdmaput-0123456789abcdef", "hidden");
    assert_int_equal(sandbox_count_all("."), 2);
}

static void test_names_through_or_to_links_are_refused(void **state)
{
    struct bench *bench = *state;
    struct stat st;

    assert_int_equal(mkdir("dir/real", 0755), 0);
    assert_int_equal(symlink("../outside", "dir/out"), 0);
    assert_int_equal(symlink("real", "dir/in"), 0);
    sandbox_make("outside/x", "", 0, 0600);
    assert_int_equal(symlink("../outside/x", "dir/x"), 0);
    sandbox_make("dir/file", "", 0, 0600);
    assert_refused(bench, "out/y", "symbolic link");
    assert_refused(bench, "out/y/z", "symbolic link");
    assert_refused(bench, "in/y", "symbolic link");
    assert_refused(bench, "file/y", "is a file");
    assert_refused(bench, "x", "symbolic link");
    assert_refused(bench, "out", "symbolic link");
    assert_refused(bench, "real", "directory");
    assert_int_equal(stat("outside/x", &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(sandbox_count_all("outside"), 1);
    assert_int_equal(sandbox_count_all("dir/real"), 0);
}

static void test_a_directory_swapped_for_a_link_leads_nowhere(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    assert_int_equal(mkdir("dir/sub", 0755), 0);
    object = begin(bench, "sub/x");
    assert_int_equal(rename("dir/sub", "moved"), 0);
    assert_int_equal(symlink("../outside", "dir/sub"), 0);
    assert_int_equal(bench->sink->ops->commit(object, 3, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_CANNOT_CREATE);
    assert_string_equal(bench->err.subject, "dir/sub/x");
    assert_int_equal(sandbox_count_all("outside"), 0);
    assert_int_equal(sandbox_count_all("moved"), 0);
}

static void test_a_failed_object_leaves_nothing(void **state)
{
    struct bench *bench = *state;

    bench->sink->ops->abandon(begin(bench, "a/b/x"), true);
    assert_int_equal(sandbox_count_all("dir"), 0);
}

static void test_objects_of_one_name_are_each_whole(void **state)
{
    struct bench *bench = *state;
    struct sink_object *first = begin(bench, "a/x"), *second = begin(bench, "a/x");

    assert_int_equal(bench->sink->ops->commit(second, 3, -1, &bench->err), 0);
    assert_new("dir/a/x");
    assert_int_equal(bench->sink->ops->commit(first, 3, -1, &bench->err), 0);
    assert_new("dir/a/x");
    assert_int_equal(sandbox_count_all("dir"), 2);
}

static void test_an_object_is_resumed(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    bench->request.resume = true;
    bench->sink->ops->abandon(begin(bench, "a/x"), true);
    assert_int_equal(sandbox_count_all("dir"), 1);
    object = try_begin(bench, "a/x");
    assert_non_null(object);
    assert_int_equal(bench->sink->ops->kept(object), 3);
    assert_int_equal(bench->sink->ops->resume_at(object, 3, &bench->err), 0);
    assert_int_equal(bench->sink->ops->commit(object, 3, -1, &bench->err), 0);
    assert_new("dir/a/x");
    assert_int_equal(sandbox_count_all("dir"), 2);
}

static void test_nothing_is_clobbered(void **state)
{
    struct bench *bench = *state;

    bench->options.no_clobber = true;
    bench->sink->ops->free(bench->sink);
    bench->sink = sink_dir_new("dir/", &bench->options, &bench->err);
    assert_non_null(bench->sink);
    deliver(bench, "x");
    assert_refused(bench, "x", "exists already");
    assert_string_equal(bench->err.subject, "dir/x");
}

static void test_what_a_killed_server_left_goes(void **state)
{
    static const char left[] = "dir/sub/.x.rdmaput-0123456789abcdef";
    struct bench *bench = *state;
    int64_t limit = clock_after(LIMIT_NS);

    bench->sink->ops->free(bench->sink);
    assert_int_equal(mkdir("dir/sub", 0755), 0);
    sandbox_make(left, "", 0, 0600);
    bench->sink = sink_dir_new("dir", &bench->options, &bench->err);
    assert_non_null(bench->sink);
    while (access(left, F_OK) == 0) {
        if (clock_now() > limit)
            fail_msg("it is still there");
        usleep(10000);
    }
}

static void assert_no_sink(const char *path, int errnum)
{
    static const struct sink_options none;
    struct error err = {.class = ERROR_NONE};

    assert_null(sink_dir_new(path, &none, &err));
    assert_int_equal(err.class, ERROR_CANNOT_CREATE);
    assert_string_equal(err.subject, path);
    assert_non_null(strstr(err.text, strerror(errnum)));
    assert_true(err.hint[0] != '\0');
}

static void test_what_is_no_directory_is_refused(void **state)
{
    (void)state;
    sandbox_make("file", "", 0, 0600);
    assert_no_sink("file", ENOTDIR);
    assert_no_sink("file/", ENOTDIR);
    assert_no_sink("none", ENOENT);
    assert_no_sink("", ENOENT);
}

static void test_a_directory_that_cannot_be_written_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root may write everywhere */
    assert_int_equal(mkdir("closed", 0500), 0);
    assert_no_sink("closed", EACCES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_sink_says_what_it_is),
        TEST(test_objects_appear_below),
        TEST(test_the_directory_is_opened_once),
        TEST(test_a_directory_that_was_removed_takes_nothing),
        TEST(test_an_object_without_a_name_is_refused),
        TEST(test_hostile_names_are_refused),
        TEST(test_names_through_or_to_links_are_refused),
        TEST(test_a_directory_swapped_for_a_link_leads_nowhere),
        TEST(test_a_failed_object_leaves_nothing),
        TEST(test_objects_of_one_name_are_each_whole),
        TEST(test_an_object_is_resumed),
        TEST(test_nothing_is_clobbered),
        TEST(test_what_a_killed_server_left_goes),
        TEST(test_what_is_no_directory_is_refused),
        TEST(test_a_directory_that_cannot_be_written_is_refused),
    };

    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

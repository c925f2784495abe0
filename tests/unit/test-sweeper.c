/*
 * test-sweeper.c - what was left goes, at the start and later.
 */
#include "config.h"

#include "sweeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "sandbox.h"

#define HOUR (3600 * (uint64_t)CLOCK_NS_PER_S)
#define LIMIT_NS (20 * CLOCK_NS_PER_S)

#define TEMPORARY ".x.rdmaput-0123456789abcdef"
#define PARTIAL ".x.rdmaput-part-0123456789abcdef0123456789abcdef"
#define OTHERS ".y.rdmaput-0123456789abcdef"

static int here = -1;

static int enter(void **state)
{
    (void)state;
    if (sandbox_enter(state) < 0 || mkdir("tree", 0755) < 0 || mkdir("outside", 0755) < 0)
        return -1;
    here = open("tree", O_PATH | O_DIRECTORY);
    return here >= 0 ? 0 : -1;
}

static int leave(void **state)
{
    close(here);
    return sandbox_leave(state);
}

static int make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

    if (fd < 0)
        fail_msg("%s", path);
    return fd;
}

static void leave_file(const char *path)
{
    close(make_file(path));
}

static void leave_old_file(const char *path)
{
    struct timespec times[2];

    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= 7200;
    times[1] = times[0];
    leave_file(path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void assert_goes(const char *path)
{
    int64_t limit = clock_after(LIMIT_NS);

    while (exists(path)) {
        if (clock_now() > limit)
            fail_msg("'%s' is still there", path);
        usleep(10000);
    }
}

static struct sweeper *start(const char *leaf, uint64_t keep_ns)
{
    struct error err = {.class = ERROR_NONE};
    struct sweeper *sweeper = sweeper_start(here, leaf, keep_ns, &err);

    if (!sweeper)
        fail_msg("%s", err.text);
    return sweeper;
}

static void test_a_leafs_own_go_before_it_returns(void **state)
{
    struct sweeper *sweeper;

    (void)state;
    leave_file("tree/" TEMPORARY);
    leave_old_file("tree/" PARTIAL);
    leave_file("tree/" OTHERS);
    leave_file("tree/x");
    assert_int_equal(mkdir("tree/sub", 0755), 0);
    leave_file("tree/sub/" TEMPORARY);
    sweeper = start("x", HOUR);
    assert_false(exists("tree/" TEMPORARY));
    assert_false(exists("tree/" PARTIAL));
    sweeper_stop(sweeper);
    assert_int_equal(unlink("tree/" OTHERS), 0);
    assert_int_equal(unlink("tree/x"), 0);
    assert_int_equal(unlink("tree/sub/" TEMPORARY), 0);
    assert_int_equal(rmdir("tree/sub"), 0);
}

static void test_the_whole_tree_is_swept(void **state)
{
    struct sweeper *sweeper;

    (void)state;
    assert_int_equal(mkdir("tree/a", 0755), 0);
    assert_int_equal(mkdir("tree/a/b", 0755), 0);
    assert_int_equal(mkdir("tree/c", 0755), 0);
    leave_file("tree/" TEMPORARY);
    leave_file("tree/a/b/" OTHERS);
    leave_old_file("tree/a/" PARTIAL);
    leave_file("tree/a/b/x");
    leave_file("tree/c/" PARTIAL);
    sweeper = start(NULL, HOUR);
    assert_goes("tree/" TEMPORARY);
    assert_goes("tree/a/b/" OTHERS);
    assert_goes("tree/a/" PARTIAL);
    sweeper_stop(sweeper);
    assert_int_equal(unlink("tree/c/" PARTIAL), 0);
    assert_int_equal(unlink("tree/a/b/x"), 0);
    assert_int_equal(rmdir("tree/a/b"), 0);
    assert_int_equal(rmdir("tree/a"), 0);
    assert_int_equal(rmdir("tree/c"), 0);
}

static void test_a_tree_may_be_deep_and_wide(void **state)
{
    enum { DEPTH = 300, WIDTH = 100 };
    struct sweeper *sweeper;
    char path[2048] = "tree";
    size_t used = 4;

    (void)state;
    for (unsigned i = 0; i < WIDTH; i++) {
        snprintf(path, sizeof(path), "tree/w%u", i);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(path, sizeof(path), "tree");
    for (unsigned i = 0; i < DEPTH; i++, used += 2) {
        snprintf(path + used, sizeof(path) - used, "/d");
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(path + used, sizeof(path) - used, "/" TEMPORARY);
    leave_file(path);
    leave_file("tree/w0/" TEMPORARY);
    leave_file("tree/w99/" TEMPORARY);
    sweeper = start(NULL, HOUR);
    assert_goes(path);
    assert_goes("tree/w0/" TEMPORARY);
    assert_goes("tree/w99/" TEMPORARY);
    sweeper_stop(sweeper);
    for (unsigned i = 0; i < DEPTH; i++, used -= 2) {
        path[used] = '\0';
        assert_int_equal(rmdir(path), 0);
    }
    for (unsigned i = 0; i < WIDTH; i++) {
        snprintf(path, sizeof(path), "tree/w%u", i);
        assert_int_equal(rmdir(path), 0);
    }
}

/* The last entry goes by the second sweep, when the first has been all over. */
static void test_links_are_not_followed_and_files_in_use_stay(void **state)
{
    struct sweeper *sweeper;
    int fd;

    (void)state;
    leave_file("outside/" TEMPORARY);
    assert_int_equal(symlink("../outside", "tree/link"), 0);
    fd = make_file("tree/" TEMPORARY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    leave_file("tree/" OTHERS);
    sweeper = start(NULL, 0);
    assert_goes("tree/" OTHERS);
    leave_file("tree/" OTHERS);
    assert_goes("tree/" OTHERS);
    assert_true(exists("outside/" TEMPORARY));
    assert_true(exists("tree/" TEMPORARY));
    close(fd);
    assert_goes("tree/" TEMPORARY);
    sweeper_stop(sweeper);
    assert_true(exists("outside/" TEMPORARY));
    assert_int_equal(unlink("outside/" TEMPORARY), 0);
    assert_int_equal(unlink("tree/link"), 0);
}

static void test_other_file_systems_are_left_alone(void **state)
{
    struct sweeper *sweeper;

    (void)state;
    assert_int_equal(mkdir("tree/mount", 0755), 0);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", "", MS_REC | MS_PRIVATE, NULL) < 0 ||
        chdir(sandbox_path) < 0 || mount("none", "tree/mount", "tmpfs", 0, "size=64k") < 0) {
        rmdir("tree/mount");
        skip(); /* mounting takes privileges */
    }
    close(here);
    here = open("tree", O_PATH | O_DIRECTORY); /* where the mount is seen */
    assert_true(here >= 0);
    leave_file("tree/mount/" TEMPORARY);
    leave_file("tree/" OTHERS);
    sweeper = start(NULL, 0);
    assert_goes("tree/" OTHERS);
    leave_file("tree/" OTHERS);
    assert_goes("tree/" OTHERS);
    sweeper_stop(sweeper);
    assert_true(exists("tree/mount/" TEMPORARY));
    assert_int_equal(umount("tree/mount"), 0);
    assert_int_equal(rmdir("tree/mount"), 0);
}

static void test_what_expires_later_goes_later(void **state)
{
    struct sweeper *sweeper;

    (void)state;
    leave_file("tree/" PARTIAL);
    sweeper = start("x", CLOCK_NS_PER_S);
    assert_true(exists("tree/" PARTIAL));
    assert_goes("tree/" PARTIAL);
    sweeper_stop(sweeper);
}

static void test_it_ends_at_once(void **state)
{
    int64_t begin = clock_now();

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        sweeper_stop(start(NULL, HOUR));
        sweeper_stop(start("x", HOUR));
    }
    sweeper_stop(NULL);
    assert_true(clock_now() - begin < LIMIT_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leafs_own_go_before_it_returns),
        cmocka_unit_test(test_the_whole_tree_is_swept),
        cmocka_unit_test(test_a_tree_may_be_deep_and_wide),
        cmocka_unit_test(test_links_are_not_followed_and_files_in_use_stay),
        cmocka_unit_test(test_other_file_systems_are_left_alone),
        cmocka_unit_test(test_what_expires_later_goes_later),
        cmocka_unit_test(test_it_ends_at_once),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}

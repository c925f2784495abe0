/*
 * test-beneath.c - directories below a root, with openat2(2) and without.
 */
#include "config.h"

#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

static int root = -1;
static int without_openat2; /* the errno of a kernel or sandbox that lacks it */
static unsigned refused;

/* The linker puts the one in the place of the other (--wrap). */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long args[6];
    va_list list;

#ifdef SYS_openat2
    if (number == SYS_openat2 && without_openat2) {
        refused++;
        errno = without_openat2;
        return -1;
    }
#endif
    va_start(list, number);
    for (size_t i = 0; i < 6; i++)
        args[i] = va_arg(list, long);
    va_end(list);
    return __real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

/*
 * top/root/a/b, and links in it that lead to top/outside
 */
static int make_tree(void **state)
{
    int fd;

    (void)state;
    if (sandbox_enter(state) < 0 || mkdir("root", 0755) < 0 || mkdir("root/a", 0755) < 0 ||
        mkdir("root/a/b", 0755) < 0 || mkdir("outside", 0755) < 0 || mkdir("outside/b", 0755) < 0 ||
        symlink("../outside", "root/link") < 0 || symlink("a", "root/inner") < 0)
        return -1;
    fd = open("root/file", O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || close(fd) < 0)
        return -1;
    root = open("root", O_PATH | O_DIRECTORY);
    return root >= 0 ? 0 : -1;
}

static int remove_tree(void **state)
{
    close(root);
    return sandbox_leave(state);
}

static int with_it(void **state)
{
    (void)state;
    without_openat2 = 0;
    return 0;
}

static int without_it(void **state)
{
    (void)state;
    without_openat2 = ENOSYS;
    refused = 0;
    return 0;
}

static int forbidden(void **state)
{
    (void)state;
    without_openat2 = EPERM;
    refused = 0;
    return 0;
}

/* A case that means to test the walk must have come to it. */
static int check_refused(void **state)
{
    (void)state;
    return without_openat2 && refused == 0 ? -1 : 0;
}

static void assert_is(int fd, const char *path)
{
    struct stat a, b;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &a), 0);
    assert_int_equal(stat(path, &b), 0);
    assert_true(a.st_ino == b.st_ino && a.st_dev == b.st_dev);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

static void assert_fails(const char *path, int first, int second)
{
    int fd = beneath_open(root, path, strlen(path));

    if (fd >= 0)
        fail_msg("'%s' was opened", path);
    if (errno != first && errno != second)
        fail_msg("'%s': %s", path, strerror(errno));
}

static void test_directories_below_are_opened(void **state)
{
    (void)state;
    assert_is(beneath_open(root, "", 0), "root");
    assert_is(beneath_open(root, "a", 1), "root/a");
    assert_is(beneath_open(root, "a/b", 3), "root/a/b");
    assert_is(beneath_open(root, "a/b/c", 3), "root/a/b");
}

static void test_nothing_else_is(void **state)
{
    (void)state;
    assert_fails("no", ENOENT, 0);
    assert_fails("a/no/b", ENOENT, 0);
    assert_fails("file", ENOTDIR, 0);
    assert_fails("file/b", ENOTDIR, 0);
    assert_fails("link", ELOOP, ENOTDIR);
    assert_fails("link/b", ELOOP, ENOTDIR);
    assert_fails("inner", ELOOP, ENOTDIR);
    assert_fails("inner/b", ELOOP, ENOTDIR);
    assert_fails("..", EXDEV, 0);
    assert_fails("../outside", EXDEV, 0);
    assert_fails("a/../../outside", EXDEV, 0);
}

static void test_the_deepest_directory_is_found(void **state)
{
    static const struct {
        const char *name, *directory, *rest;
    } rows[] = {
        {"x", "root", "x"},           {"a", "root", "a"},           {"a/x", "root/a", "x"},
        {"a/b/x", "root/a/b", "x"},   {"a/c/d/x", "root/a", "c/d/x"}, {"c/d/x", "root", "c/d/x"},
        {"a/b/c/x", "root/a/b", "c/x"},
    };
    const char *rest;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_is(beneath_open_deepest(root, rows[i].name, &rest), rows[i].directory);
        assert_string_equal(rest, rows[i].rest);
    }
}

static void test_a_link_or_a_file_in_the_middle_is_an_error(void **state)
{
    const char *rest;

    (void)state;
    assert_int_equal(beneath_open_deepest(root, "link/b/x", &rest), -1);
    assert_true(errno == ELOOP || errno == ENOTDIR);
    assert_int_equal(beneath_open_deepest(root, "link/no/x", &rest), -1);
    assert_true(errno == ELOOP || errno == ENOTDIR);
    assert_int_equal(beneath_open_deepest(root, "file/no/x", &rest), -1);
    assert_int_equal(errno, ENOTDIR);
}

int main(void)
{
#define ALL(test)                                                                                  \
    {#test, test, with_it, check_refused, NULL},                                                   \
        {#test " (without openat2)", test, without_it, check_refused, NULL},                       \
    {                                                                                              \
        #test " (openat2 forbidden)", test, forbidden, check_refused, NULL                         \
    }
    const struct CMUnitTest tests[] = {
        ALL(test_directories_below_are_opened),
        ALL(test_nothing_else_is),
        ALL(test_the_deepest_directory_is_found),
        ALL(test_a_link_or_a_file_in_the_middle_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}

/*
 * test-hidden.c - files that nobody sees yet, and sweeping those that were left.
 */
#include "config.h"

#include "hidden.h"

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
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "sandbox.h"

#define MS CLOCK_NS_PER_MS
#define HOUR (3600 * (uint64_t)CLOCK_NS_PER_S)

static bool without_tmpfile; /* as on a file system that has no files without a name */
static bool swept_at_once;   /* a sweep comes between the making of a name and its lock */
static int lock_error;
static const uint8_t digest[NAME_DIGEST_BYTES] = {0xab};

int openat(int at, const char *path, int flags, ...)
{
    mode_t mode = 0;

    if (without_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list args;

        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

int flock(int fd, int operation)
{
    if (lock_error) {
        errno = lock_error;
        return -1;
    }
    if (swept_at_once) {
        DIR *dir = opendir(".");
        const struct dirent *entry;

        swept_at_once = false;
        while ((entry = readdir(dir)))
            hidden_sweep(sandbox, entry->d_name, 0);
        closedir(dir);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static int teardown(void **state)
{
    (void)state;
    without_tmpfile = swept_at_once = false;
    lock_error = 0;
    sandbox_empty();
    return 0;
}

static mode_t mode_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return st.st_mode & 07777;
}

static bool exists(const char *name)
{
    return faccessat(sandbox, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void set_age(const char *name, int64_t ns)
{
    struct timespec times[2];

    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= ns / CLOCK_NS_PER_S;
    times[1] = times[0];
    assert_int_equal(utimensat(sandbox, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

static int open_partial(struct hidden *hidden)
{
    return hidden_open_partial(hidden, sandbox, "leaf", digest, 0, -1);
}

static void assert_partial(struct hidden *hidden)
{
    if (open_partial(hidden) < 0)
        fail_msg("%s", strerror(errno));
}

/*
 * Temporaries
 */

static void test_a_temporary_has_no_name_until_it_is_given(void **state)
{
    struct hidden hidden;

    (void)state;
    assert_int_equal(hidden_open_temporary(&hidden, sandbox, "leaf"), 0);
    assert_int_equal(sandbox_count("."), 0);
    assert_int_equal(mode_of(hidden.fd), 0600);
    assert_int_equal(hidden.new_mode, 0644);
    assert_int_equal(hidden_give_name(&hidden), 0);
    assert_int_equal(sandbox_count("."), 1);
    assert_true(exists(hidden.name));
    assert_true(name_is_of(hidden.name, "leaf"));
    hidden_discard(&hidden);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_a_named_temporary_is_its_owners_alone(void **state)
{
    struct hidden hidden;

    (void)state;
    without_tmpfile = true;
    umask(027);
    assert_int_equal(hidden_open_temporary(&hidden, sandbox, "leaf"), 0);
    umask(022);
    assert_true(exists(hidden.name));
    assert_int_equal(mode_of(hidden.fd), 0600);
    assert_int_equal(hidden.new_mode, 0640);
    hidden_discard(&hidden);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_a_temporary_that_a_sweep_took_is_made_again(void **state)
{
    struct hidden hidden;

    (void)state;
    without_tmpfile = swept_at_once = true;
    assert_int_equal(hidden_open_temporary(&hidden, sandbox, "leaf"), 0);
    assert_false(swept_at_once);
    assert_true(exists(hidden.name));
    assert_int_equal(sandbox_count("."), 1);
    hidden_discard(&hidden);
}

static void test_a_temporary_needs_no_locks(void **state)
{
    struct hidden hidden;

    (void)state;
    without_tmpfile = true;
    lock_error = ENOLCK;
    assert_int_equal(hidden_open_temporary(&hidden, sandbox, "leaf"), 0);
    assert_false(hidden_sweep(sandbox, hidden.name, 0));
    hidden_discard(&hidden);
}

/*
 * Partials
 */

static void test_a_partial_is_found_again(void **state)
{
    struct hidden hidden;
    char buf[8] = "";

    (void)state;
    assert_partial(&hidden);
    assert_int_equal(mode_of(hidden.fd), 0600);
    assert_int_equal(write(hidden.fd, "half", 4), 4);
    assert_int_equal(fchmod(hidden.fd, 0444), 0);
    set_age(hidden.name, HOUR);
    hidden_keep(&hidden);
    assert_int_equal(hidden.fd, -1);
    assert_int_equal(sandbox_count("."), 1);
    assert_false(hidden_sweep(sandbox, hidden.name, HOUR / 2)); /* its age counts from hidden_keep */
    assert_partial(&hidden);
    assert_int_equal(mode_of(hidden.fd), 0600);
    assert_int_equal(pread(hidden.fd, buf, sizeof(buf), 0), 4);
    assert_string_equal(buf, "half");
    hidden_discard(&hidden);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_what_is_kept_holds_no_reserved_space(void **state)
{
    struct hidden hidden;
    struct stat st;

    (void)state;
    assert_partial(&hidden);
    assert_int_equal(write(hidden.fd, "half", 4), 4);
    if (fallocate(hidden.fd, FALLOC_FL_KEEP_SIZE, 0, 1 << 20) < 0)
        skip();
    assert_int_equal(fstat(hidden.fd, &st), 0);
    assert_true(st.st_blocks >= 2048);
    hidden_keep(&hidden);
    assert_int_equal(fstatat(sandbox, hidden.name, &st, 0), 0);
    assert_true(st.st_blocks < 2048);
    assert_int_equal(st.st_size, 4);
}

static void test_another_digest_is_another_partial(void **state)
{
    static const uint8_t other[NAME_DIGEST_BYTES] = {0xac};
    struct hidden a, b;

    (void)state;
    assert_partial(&a);
    assert_int_equal(hidden_open_partial(&b, sandbox, "leaf", other, 0, -1), 0);
    assert_int_equal(sandbox_count("."), 2);
    hidden_discard(&a);
    hidden_discard(&b);
}

static void test_a_partial_is_one_sessions_at_a_time(void **state)
{
    struct hidden first, second;
    int64_t start = clock_now();

    (void)state;
    assert_partial(&first);
    assert_int_equal(hidden_open_partial(&second, sandbox, "leaf", digest, 120 * MS, -1), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_true(clock_now() - start >= 120 * MS);
    hidden_keep(&first);
    assert_partial(&second);
    hidden_discard(&second);
}

static void test_waiting_for_a_partial_is_stopped(void **state)
{
    struct hidden first, second;
    int stop_fd = eventfd(1, EFD_CLOEXEC);

    (void)state;
    assert_partial(&first);
    assert_int_equal(hidden_open_partial(&second, sandbox, "leaf", digest, HOUR, stop_fd), -1);
    assert_int_equal(errno, ECANCELED);
    hidden_discard(&first);
    close(stop_fd);
}

static void test_a_partial_that_a_sweep_took_is_made_again(void **state)
{
    struct hidden hidden;

    (void)state;
    assert_partial(&hidden);
    hidden_keep(&hidden);
    set_age(hidden.name, HOUR);
    swept_at_once = true;
    assert_int_equal(hidden_open_partial(&hidden, sandbox, "leaf", digest, HOUR, -1), 0);
    assert_true(exists(hidden.name));
    hidden_discard(&hidden);
}

static void assert_in_the_way(const char *name)
{
    struct hidden hidden;

    assert_int_equal(open_partial(&hidden), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(hidden.fd, -1);
    assert_true(exists(name));
    unlinkat(sandbox, name, 0);
}

static void test_what_is_not_ours_is_no_partial(void **state)
{
    char name[NAME_MOST + 1];

    (void)state;
    name_make_partial(name, "leaf", digest);
    assert_int_equal(symlinkat("target", sandbox, name), 0);
    assert_in_the_way(name);
    assert_false(exists("target"));
    assert_int_equal(mkfifoat(sandbox, name, 0600), 0);
    assert_in_the_way(name);
    sandbox_make("other", "", 0, 0600);
    assert_int_equal(linkat(sandbox, "other", sandbox, name, 0), 0);
    assert_in_the_way(name);
    if (geteuid() == 0) {
        sandbox_make(name, "", 0, 0600);
        assert_int_equal(fchownat(sandbox, name, 12345, 12345, 0), 0);
        assert_in_the_way(name);
    }
}

static void test_a_partial_needs_locks(void **state)
{
    struct hidden hidden;

    (void)state;
    lock_error = ENOLCK;
    assert_int_equal(open_partial(&hidden), -1);
    assert_int_equal(errno, ENOLCK);
}

/*
 * Sweeps
 */

static void test_what_a_killed_process_left_goes(void **state)
{
    char names[2][NAME_MOST + 1];
    int status, ends[2];
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        struct hidden hidden[2];
        bool ok;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        without_tmpfile = true;
        ok = hidden_open_temporary(&hidden[0], sandbox, "leaf") == 0 && open_partial(&hidden[1]) == 0;
        for (size_t i = 0; ok && i < 2; i++)
            ok = write(ends[1], hidden[i].name, sizeof(hidden[i].name)) > 0;
        close(ends[1]);
        pause();
    }
    assert_true(pid > 0);
    close(ends[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read(ends[0], names[i], sizeof(names[i])), sizeof(names[i]));
        set_age(names[i], HOUR);
        assert_false(hidden_sweep(sandbox, names[i], 0));
        assert_true(exists(names[i]));
    }
    close(ends[0]);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(sandbox_count("."), 2);
    assert_true(hidden_sweep(sandbox, names[0], HOUR * 2));
    assert_false(hidden_sweep(sandbox, names[1], HOUR * 2));
    assert_true(hidden_sweep(sandbox, names[1], HOUR / 2));
    assert_int_equal(sandbox_count("."), 0);
}

static void test_a_file_that_was_just_given_its_name_is_left_alone(void **state)
{
    struct hidden hidden;

    (void)state;
    assert_int_equal(hidden_open_temporary(&hidden, sandbox, "leaf"), 0);
    assert_int_equal(hidden_give_name(&hidden), 0);
    assert_false(hidden_sweep(sandbox, hidden.name, 0));
    hidden_discard(&hidden);
}

static void test_other_entries_are_left_alone(void **state)
{
    char name[NAME_MOST + 1];

    (void)state;
    name_make_temporary(name, "leaf", 1);
    sandbox_make("leaf", "", 0, 0600);
    sandbox_make(".leaf.rdmaput-1", "", 0, 0600);
    assert_false(hidden_sweep(sandbox, "leaf", 0));
    assert_false(hidden_sweep(sandbox, ".leaf.rdmaput-1", 0));
    assert_int_equal(symlinkat("leaf", sandbox, name), 0);
    assert_false(hidden_sweep(sandbox, name, 0));
    unlinkat(sandbox, name, 0);
    assert_int_equal(mkfifoat(sandbox, name, 0600), 0);
    assert_false(hidden_sweep(sandbox, name, 0));
    unlinkat(sandbox, name, 0);
    assert_int_equal(mkdirat(sandbox, name, 0700), 0);
    assert_false(hidden_sweep(sandbox, name, 0));
    unlinkat(sandbox, name, AT_REMOVEDIR);
    assert_false(hidden_sweep(sandbox, name, 0));
    if (geteuid() == 0) {
        sandbox_make(name, "", 0, 0600);
        assert_int_equal(fchownat(sandbox, name, 12345, 12345, 0), 0);
        assert_false(hidden_sweep(sandbox, name, 0));
    }
}

static void test_ages_are_compared_exactly(void **state)
{
    char name[NAME_MOST + 1];

    (void)state;
    name_make_partial(name, "leaf", digest);
    sandbox_make(name, "", 0, 0600);
    assert_false(hidden_sweep(sandbox, name, HOUR));
    set_age(name, (int64_t)HOUR - CLOCK_NS_PER_S * 60);
    assert_false(hidden_sweep(sandbox, name, HOUR));
    assert_false(hidden_sweep(sandbox, name, UINT64_MAX));
    set_age(name, (int64_t)HOUR + CLOCK_NS_PER_S * 60);
    assert_true(hidden_sweep(sandbox, name, HOUR));
    sandbox_make(name, "", 0, 0600);
    set_age(name, -2 * (int64_t)HOUR);
    assert_false(hidden_sweep(sandbox, name, 0)); /* in the future */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_temporary_has_no_name_until_it_is_given),
        TEST(test_a_named_temporary_is_its_owners_alone),
        TEST(test_a_temporary_that_a_sweep_took_is_made_again),
        TEST(test_a_temporary_needs_no_locks),
        TEST(test_a_partial_is_found_again),
        TEST(test_what_is_kept_holds_no_reserved_space),
        TEST(test_another_digest_is_another_partial),
        TEST(test_a_partial_is_one_sessions_at_a_time),
        TEST(test_waiting_for_a_partial_is_stopped),
        TEST(test_a_partial_that_a_sweep_took_is_made_again),
        TEST(test_what_is_not_ours_is_no_partial),
        TEST(test_a_partial_needs_locks),
        TEST(test_what_a_killed_process_left_goes),
        TEST(test_a_file_that_was_just_given_its_name_is_left_alone),
        TEST(test_other_entries_are_left_alone),
        TEST(test_ages_are_compared_exactly),
    };

    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

/*
 * test-fdio.c - whole reads and writes, and files that appear by rename.
 */
#include "config.h"

#include "fdio.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

#define STREAM_BYTES (1 << 20) /* more than a pipe takes at once */
#define UNREACHABLE UINT64_C(0x7fffffffffffffff)

static int enter_directory(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    return sandbox_enter(state);
}

static int temporary_file(void)
{
    int fd = open(sandbox_path, O_RDWR | O_TMPFILE, 0600);

    assert_true(fd >= 0);
    return fd;
}

static void test_reads_at_an_offset(void **state)
{
    char buf[16] = "................";
    int fd = temporary_file();

    (void)state;
    assert_int_equal(fdio_pread(fd, buf, sizeof(buf), 0), 0);
    assert_int_equal(fdio_pwrite(fd, "0123456789", 10, 0), 0);
    assert_int_equal(fdio_pread(fd, buf, 4, 3), 4);
    assert_memory_equal(buf, "3456.", 5);
    assert_int_equal(fdio_pread(fd, buf, sizeof(buf), 7), 3);
    assert_memory_equal(buf, "7896.", 5);
    assert_int_equal(fdio_pread(fd, buf, sizeof(buf), 10), 0);
    assert_int_equal(fdio_pread(fd, buf, sizeof(buf), 11), 0);
    assert_int_equal(fdio_pread(fd, buf, 0, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    close(fd);
}

static void test_writes_at_an_offset(void **state)
{
    static const uint64_t far = UINT64_C(4294967296);
    char buf[8];
    struct stat st;
    int fd = temporary_file();

    (void)state;
    assert_int_equal(fdio_pwrite(fd, "abcd", 4, far), 0);
    assert_int_equal(fdio_pwrite(fd, "XY", 2, far + 1), 0);
    assert_int_equal(fdio_pwrite(fd, "", 0, far + 100), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, far + 4);
    assert_int_equal(fdio_pread(fd, buf, sizeof(buf), far - 1), 5);
    assert_memory_equal(buf, "\0aXYd", 5);
    close(fd);
}

static void test_offsets_that_do_not_fit(void **state)
{
    static const struct {
        uint64_t offset;
        size_t len;
    } rows[] = {
        {UNREACHABLE, 1}, {UNREACHABLE - 1, 2}, {UNREACHABLE + 1, 0},       {UNREACHABLE + 1, 1},
        {UINT64_MAX, 1},  {UINT64_MAX - 1, 2},  {0, (size_t)SSIZE_MAX + 1},
    };
    char byte[2] = "";
    int fd = temporary_file();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        errno = 0;
        assert_int_equal(fdio_pread(fd, byte, rows[i].len, rows[i].offset), -1);
        assert_int_equal(errno, EOVERFLOW);
        errno = 0;
        assert_int_equal(fdio_pwrite(fd, byte, rows[i].len, rows[i].offset), -1);
        assert_int_equal(errno, EOVERFLOW);
    }
    assert_int_equal(fdio_pread(fd, byte, 1, UNREACHABLE - 1), 0);
    close(fd);
}

static void test_failures_come_with_errno(void **state)
{
    char byte;
    size_t len;

    (void)state;
    assert_int_equal(fdio_pread(-1, &byte, 1, 0), -1);
    assert_int_equal(errno, EBADF);
    errno = 0;
    assert_int_equal(fdio_pwrite(-1, "x", 1, 0), -1);
    assert_int_equal(errno, EBADF);
    errno = 0;
    assert_int_equal(fdio_write(-1, "x", 1), -1);
    assert_int_equal(errno, EBADF);
    errno = 0;
    assert_null(fdio_slurp(-1, 10, &len));
    assert_int_equal(errno, EBADF);
}

static void test_a_full_device_is_told(void **state)
{
    int fd = open("/dev/full", O_WRONLY);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(fdio_write(fd, "x", 1), -1);
    assert_int_equal(errno, ENOSPC);
    errno = 0;
    assert_int_equal(fdio_pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8));
}

/* Reads the whole stream from the descriptor at argument; the bytes that were not as written. */
static void *read_slowly(void *argument)
{
    int fd = *(int *)argument;
    uint8_t buf[1000];
    size_t at = 0, wrong = 0;
    ssize_t n;

    while ((n = read(fd, buf, sizeof(buf))) > 0)
        for (ssize_t i = 0; i < n; i++)
            wrong += buf[i] != pattern(at++);
    return (void *)(wrong + (at != STREAM_BYTES));
}

static void *write_in_parts(void *argument)
{
    int fd = *(int *)argument;

    for (size_t at = 0; at < STREAM_BYTES;) {
        uint8_t buf[997];
        size_t len = 0;

        while (len < sizeof(buf) && at < STREAM_BYTES)
            buf[len++] = pattern(at++);
        if (write(fd, buf, len) != (ssize_t)len)
            break;
    }
    close(fd);
    return NULL;
}

static void check_stream_write(int flags)
{
    uint8_t *data = malloc(STREAM_BYTES);
    pthread_t reader;
    void *wrong;
    int fds[2];

    assert_non_null(data);
    for (size_t i = 0; i < STREAM_BYTES; i++)
        data[i] = pattern(i);
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, flags), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &fds[0]), 0);
    assert_int_equal(fdio_write(fds[1], data, STREAM_BYTES), 0);
    close(fds[1]);
    pthread_join(reader, &wrong);
    assert_null(wrong);
    close(fds[0]);
    free(data);
}

static void test_writes_a_stream_whole(void **state)
{
    (void)state;
    check_stream_write(0);
    check_stream_write(O_NONBLOCK);
}

static void check_stream_slurp(int flags)
{
    pthread_t writer;
    size_t len = 0;
    char *text;
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fcntl(fds[0], F_SETFL, flags), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_in_parts, &fds[1]), 0);
    text = fdio_slurp(fds[0], STREAM_BYTES, &len);
    pthread_join(writer, NULL);
    assert_non_null(text);
    assert_int_equal(len, STREAM_BYTES);
    for (size_t i = 0; i < len; i++)
        assert_int_equal((uint8_t)text[i], pattern(i));
    assert_int_equal(text[len], '\0');
    free(text);
    close(fds[0]);
}

static void test_slurps_a_stream_whole(void **state)
{
    (void)state;
    check_stream_slurp(0);
    check_stream_slurp(O_NONBLOCK);
}

static void test_slurp_keeps_its_limit(void **state)
{
    static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 8191, 8192, 100000};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int fd = temporary_file();
        size_t len = 4711;
        char *text;

        assert_int_equal(ftruncate(fd, (off_t)sizes[i]), 0);
        text = fdio_slurp(fd, sizes[i], &len);
        assert_non_null(text);
        assert_int_equal(len, sizes[i]);
        assert_int_equal(text[len], '\0');
        free(text);
        if (sizes[i] > 0) {
            assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
            errno = 0;
            assert_null(fdio_slurp(fd, sizes[i] - 1, &len));
            assert_int_equal(errno, EFBIG);
        }
        close(fd);
    }
}

static void on_alarm(int number)
{
    (void)number;
}

/* Interrupts the calling thread until end_interrupts. */
static void begin_interrupts(timer_t *timer)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerspec ticks = {.it_value.tv_nsec = 10000000, .it_interval.tv_nsec = 10000000};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, timer), 0);
    assert_int_equal(timer_settime(*timer, 0, &ticks, NULL), 0);
}

static void test_a_signal_ends_the_wait_for_a_stream(void **state)
{
    uint8_t *data = calloc(1, STREAM_BYTES);
    timer_t timer;
    size_t len;
    int fds[2];

    (void)state;
    assert_non_null(data);
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        assert_int_equal(pipe2(fds, nonblocking ? O_NONBLOCK : 0), 0);
        begin_interrupts(&timer);
        errno = 0;
        assert_null(fdio_slurp(fds[0], 10, &len));
        assert_int_equal(errno, EINTR);
        errno = 0;
        assert_int_equal(fdio_write(fds[1], data, STREAM_BYTES), -1);
        assert_int_equal(errno, EINTR);
        timer_delete(timer);
        close(fds[0]);
        close(fds[1]);
    }
    free(data);
}

static void test_a_closed_pipe_is_told(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    assert_int_equal(fdio_write(fds[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    close(fds[1]);
}

static void assert_content(const char *path, const char *expected)
{
    int fd = open(path, O_RDONLY);
    size_t len;
    char *text;

    assert_true(fd >= 0);
    text = fdio_slurp(fd, 1000, &len);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    close(fd);
}

static unsigned entries_of(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2; /* . and .. */
}

static void test_a_published_file_appears_whole(void **state)
{
    char absolute[256];
    struct stat before, after;

    (void)state;
    assert_int_equal(fdio_publish("ready", "one\n", 4, 0666), 0);
    assert_content("ready", "one\n");
    assert_int_equal(stat("ready", &before), 0);
    assert_int_equal(before.st_mode & 07777, 0644);
    snprintf(absolute, sizeof(absolute), "%s/ready", sandbox_path);
    assert_int_equal(fdio_publish(absolute, "two\n", 4, 0600), 0);
    assert_content("ready", "two\n");
    assert_int_equal(stat("ready", &after), 0);
    assert_int_equal(after.st_mode & 07777, 0600);
    assert_int_not_equal(after.st_ino, before.st_ino);
    assert_int_equal(fdio_publish("./ready", "", 0, 0600), 0);
    assert_content("ready", "");
    assert_int_equal(entries_of("."), 1);
    unlink("ready");
}

static void test_a_published_name_may_be_as_long_as_any(void **state)
{
    char name[NAME_MAX + 1];

    (void)state;
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_int_equal(fdio_publish(name, "x", 1, 0600), 0);
    assert_content(name, "x");
    unlink(name);
}

static void test_the_temporary_is_beside_the_file(void **state)
{
    char absolute[256];

    (void)state;
    snprintf(absolute, sizeof(absolute), "%s/ready", sandbox_path);
    /* In a removed directory, nothing can be created. */
    assert_int_equal(mkdir("gone", 0700), 0);
    assert_int_equal(chdir("gone"), 0);
    assert_int_equal(rmdir("../gone"), 0);
    assert_int_equal(fdio_publish(absolute, "x", 1, 0600), 0);
    assert_int_equal(chdir(sandbox_path), 0);
    assert_content("ready", "x");
    unlink("ready");
}

static void test_what_is_no_regular_file_is_not_replaced(void **state)
{
    static const struct {
        const char *path;
        int error;
    } rows[] = {
        {"fifo", EEXIST},      {"link", EEXIST},       {"dangling", EEXIST},
        {"directory", EISDIR}, {"directory/", EISDIR},
    };

    (void)state;
    assert_int_equal(fdio_publish("target", "old", 3, 0600), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(symlink("target", "link"), 0);
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    assert_int_equal(mkdir("directory", 0700), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        errno = 0;
        assert_int_equal(fdio_publish(rows[i].path, "new", 3, 0600), -1);
        assert_int_equal(errno, rows[i].error);
    }
    assert_content("target", "old");
    assert_int_equal(entries_of("."), 5);
    assert_int_equal(entries_of("directory"), 0);
    unlink("target");
    unlink("fifo");
    unlink("link");
    unlink("dangling");
    rmdir("directory");
}

static void test_a_failed_publication_leaves_nothing(void **state)
{
    struct rlimit limit, old_limit;

    (void)state;
    assert_int_equal(fdio_publish("no/such", "x", 1, 0600), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fdio_publish("", "x", 1, 0600), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(fdio_publish("kept", "old", 3, 0600), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 5;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    errno = 0;
    assert_int_equal(fdio_publish("kept", "0123456789", 10, 0600), -1);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    assert_content("kept", "old");
    assert_int_equal(entries_of("."), 1);
    unlink("kept");
}

static void test_close_once_and_keep_errno(void **state)
{
    int fd = temporary_file(), same = fd;

    (void)state;
    errno = EXDEV;
    fdio_close(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(fcntl(same, F_GETFD), -1);
    errno = EXDEV;
    fdio_close(&same);
    assert_int_equal(same, -1);
    assert_int_equal(errno, EXDEV);
    errno = EXDEV;
    fdio_close(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(errno, EXDEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_at_an_offset),
        cmocka_unit_test(test_writes_at_an_offset),
        cmocka_unit_test(test_offsets_that_do_not_fit),
        cmocka_unit_test(test_failures_come_with_errno),
        cmocka_unit_test(test_a_full_device_is_told),
        cmocka_unit_test(test_writes_a_stream_whole),
        cmocka_unit_test(test_slurps_a_stream_whole),
        cmocka_unit_test(test_slurp_keeps_its_limit),
        cmocka_unit_test(test_a_signal_ends_the_wait_for_a_stream),
        cmocka_unit_test(test_a_closed_pipe_is_told),
        cmocka_unit_test(test_a_published_file_appears_whole),
        cmocka_unit_test(test_a_published_name_may_be_as_long_as_any),
        cmocka_unit_test(test_the_temporary_is_beside_the_file),
        cmocka_unit_test(test_what_is_no_regular_file_is_not_replaced),
        cmocka_unit_test(test_a_failed_publication_leaves_nothing),
        cmocka_unit_test(test_close_once_and_keep_errno),
    };

    return cmocka_run_group_tests(tests, enter_directory, sandbox_leave);
}

/*
 * test-sink-stdout.c - standard output, in order, however slow its reader is.
 */
#include "config.h"

#include "sink-stdout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire.h"

#define HANG_SECONDS 120
#define MUCH ((size_t)1 << 20) /* more than a pipe or socket takes at once */

struct reader {
    pthread_t thread;
    bool runs;
    int fd;
    size_t piece;   /* bytes of a read */
    size_t stop_at; /* when so many are read, stop_fd is told; 0: never */
    int stop_fd;
    size_t leave_at; /* when so many are read, it closes its end; 0: never */
    uint8_t *data;   /* up to MUCH */
    size_t len;      /* all that came */
};

struct bench {
    int saved_stdout;
    int far; /* the reader's end */
    int stop[2];
    struct reader reader;
    struct sink *sink;
    struct error err;
};

/*
 * What the system is made to say
 */

static int write_errno; /* of the next write to standard output */
static size_t write_limit = SIZE_MAX;
static int fsync_errno;
static unsigned fsyncs, largest_write;

ssize_t write(int fd, const void *buf, size_t len)
{
    struct iovec piece = {(void *)(uintptr_t)buf, len};
    if (fd == STDOUT_FILENO) {
        if (write_errno) {
            errno = write_errno;
            write_errno = 0;
            return -1;
        }
        if (len > write_limit)
            piece.iov_len = write_limit;
        if (len > largest_write)
            largest_write = (unsigned)len;
    }
    return writev(fd, &piece, 1);
}

int fsync(int fd)
{
    assert_int_equal(fd, STDOUT_FILENO);
    fsyncs++;
    errno = fsync_errno;
    return fsync_errno ? -1 : 0;
}

/*
 * Bench
 */

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    if (!bench || !(bench->reader.data = malloc(MUCH)) || pipe(bench->stop) < 0)
        return -1;
    alarm(HANG_SECONDS);
    fflush(stdout);
    bench->saved_stdout = dup(STDOUT_FILENO);
    bench->far = -1;
    write_errno = fsync_errno = 0;
    write_limit = SIZE_MAX;
    fsyncs = largest_write = 0;
    *state = bench;
    return bench->saved_stdout < 0 ? -1 : 0;
}

static void restore_stdout(struct bench *bench)
{
    dup2(bench->saved_stdout, STDOUT_FILENO);
}

/* Until the reader has all that will come. */
static void finish_reader(struct bench *bench)
{
    restore_stdout(bench);
    if (bench->reader.runs)
        pthread_join(bench->reader.thread, NULL);
    bench->reader.runs = false;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    finish_reader(bench);
    if (bench->sink)
        bench->sink->ops->free(bench->sink);
    close(bench->saved_stdout);
    if (bench->far >= 0)
        close(bench->far);
    close(bench->stop[0]);
    close(bench->stop[1]);
    free(bench->reader.data);
    free(bench);
    alarm(0);
    return 0;
}

static void become_stdout(int fd)
{
    assert_true(fd >= 0);
    assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
    close(fd);
}

static void use_pipe(struct bench *bench)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    bench->far = fds[0];
    become_stdout(fds[1]);
}

/* Of one page: it takes a single small write until its reader reads. */
static void use_small_pipe(struct bench *bench)
{
    use_pipe(bench);
    assert_true(fcntl(STDOUT_FILENO, F_SETPIPE_SZ, PIPE_BUF) > 0);
}

static void use_socket(struct bench *bench)
{
    int fds[2], bytes = 8192;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes), 0);
    bench->far = fds[0];
    become_stdout(fds[1]);
}

static void (*const kinds[])(struct bench *) = {use_pipe, use_socket};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* In the place of another. */
static void use_kind(struct bench *bench, void (*use)(struct bench *))
{
    if (bench->sink)
        bench->sink->ops->free(bench->sink);
    bench->sink = NULL;
    use(bench);
}

static void use_file(struct bench *bench, int flags)
{
    char path[] = "/tmp/test-sink-stdout.XXXXXX";
    bench->far = mkstemp(path);
    assert_true(bench->far >= 0);
    int fd = open(path, O_WRONLY | flags);
    unlink(path);
    become_stdout(fd);
}

static void use_path(const char *path, int flags)
{
    become_stdout(open(path, flags | O_NOCTTY));
}

static int stdout_flags(void)
{
    return fcntl(STDOUT_FILENO, F_GETFL);
}

static void use_nonblocking(void)
{
    assert_int_equal(fcntl(STDOUT_FILENO, F_SETFL, stdout_flags() | O_NONBLOCK), 0);
}

static void tell_stop(int fd)
{
    if (write(fd, "", 1) != 1)
        abort();
}

static void *read_all(void *arg)
{
    struct reader *reader = arg;
    uint8_t buf[65536];
    ssize_t n;
    while ((n = read(reader->fd, buf, reader->piece)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (reader->len + (size_t)i < MUCH)
                reader->data[reader->len + (size_t)i] = buf[i];
        bool stops = reader->len < reader->stop_at;
        reader->len += (size_t)n;
        if (stops && reader->len >= reader->stop_at)
            tell_stop(reader->stop_fd);
        if (reader->leave_at && reader->len >= reader->leave_at)
            break;
    }
    close(reader->fd);
    return NULL;
}

/* Takes the far end over. */
static void start_reader(struct bench *bench, size_t piece)
{
    struct reader *reader = &bench->reader;
    reader->fd = bench->far;
    reader->piece = piece;
    reader->stop_fd = bench->stop[1];
    bench->far = -1;
    assert_int_equal(pthread_create(&reader->thread, NULL, read_all, reader), 0);
    reader->runs = true;
}

static void open_sink(struct bench *bench)
{
    bench->sink = sink_stdout_new(&bench->err);
    if (!bench->sink)
        fail_msg("%s", bench->err.text);
}

static struct sink_object *begin_synced(struct bench *bench, bool sync)
{
    struct sink_request request = {.name = "", .size = WIRE_UNKNOWN, .sync = sync};
    struct sink_object *object = bench->sink->ops->begin(bench->sink, &request, -1, &bench->err);
    if (!object)
        fail_msg("%s", bench->err.text);
    return object;
}

static struct sink_object *begin(struct bench *bench)
{
    if (!bench->sink)
        open_sink(bench);
    return begin_synced(bench, false);
}

static int try_store(struct bench *bench, struct sink_object *object, uint64_t offset,
                     const void *data, size_t len)
{
    return bench->sink->ops->store(object, offset, data, len, bench->stop[0], &bench->err);
}

static void store(struct bench *bench, struct sink_object *object, uint64_t offset,
                  const char *data)
{
    if (try_store(bench, object, offset, data, strlen(data)) < 0)
        fail_msg("%s", bench->err.text);
}

static int try_commit(struct bench *bench, struct sink_object *object, uint64_t size)
{
    return bench->sink->ops->commit(object, size, bench->stop[0], &bench->err);
}

static void commit(struct bench *bench, struct sink_object *object, uint64_t size)
{
    if (try_commit(bench, object, size) < 0)
        fail_msg("%s", bench->err.text);
}

static void abandon(struct bench *bench, struct sink_object *object)
{
    bench->sink->ops->abandon(object, false);
}

/* Everything that came. */
static void assert_came(struct bench *bench, const void *content, size_t len)
{
    if (!bench->reader.runs)
        start_reader(bench, 65536);
    finish_reader(bench);
    assert_int_equal(bench->reader.len, len);
    assert_memory_equal(bench->reader.data, content, len);
}

static void assert_error(const struct bench *bench, enum error_class class, enum error_stage stage,
                         const char *part)
{
    if (bench->err.class != class || bench->err.stage != stage || !strstr(bench->err.text, part))
        fail_msg("class %d, stage %d, '%s'", (int)bench->err.class, (int)bench->err.stage,
                 bench->err.text);
    assert_string_equal(bench->err.subject, "standard output");
}

static uint8_t *much_data(void)
{
    uint8_t *data = malloc(MUCH);
    assert_non_null(data);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = (uint8_t)(i ^ (i >> 8) ^ (i >> 16));
    return data;
}

static void deliver_much(struct bench *bench)
{
    static const size_t pieces[] = {1, 4095, 4097, 100000, MUCH};
    uint8_t *data = much_data();
    struct sink_object *object = begin(bench);
    size_t done = 0;
    for (size_t i = 0; done < MUCH; i++) {
        size_t len = pieces[i] < MUCH - done ? pieces[i] : MUCH - done;
        if (try_store(bench, object, done, data + done, len) < 0)
            fail_msg("%s", bench->err.text);
        done += len;
    }
    commit(bench, object, MUCH);
    assert_came(bench, data, MUCH);
    free(data);
}

/*
 * What comes out
 */

static void test_what_is_stored_comes_out_in_order(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    store(bench, object, 0, "hel");
    store(bench, object, 3, "lo");
    store(bench, object, 5, "");
    commit(bench, object, 5);
    assert_came(bench, "hello", 5);
}

static void test_an_empty_object_is_nothing(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    commit(bench, begin(bench), 0);
    assert_came(bench, "", 0);
}

static void test_gaps_come_out_as_zeros_also_at_the_end(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    store(bench, object, 2, "a");
    store(bench, object, 5, "b");
    commit(bench, object, 10);
    assert_came(bench, "\0\0a\0\0b\0\0\0\0", 10);
}

static void test_a_gap_may_be_larger_than_any_buffer(void **state)
{
    struct bench *bench = *state;
    uint8_t *expected = calloc(1, MUCH);
    assert_non_null(expected);
    expected[700001] = 'x';
    use_pipe(bench);
    start_reader(bench, 65536);
    struct sink_object *object = begin(bench);
    store(bench, object, 700001, "x");
    commit(bench, object, MUCH - 1);
    assert_came(bench, expected, MUCH - 1);
    free(expected);
}

static void test_a_slow_reader_of_a_pipe_gets_everything(void **state)
{
    struct bench *bench = *state;
    use_small_pipe(bench);
    start_reader(bench, 1000);
    deliver_much(bench);
    assert_true(largest_write <= PIPE_BUF);
}

static void test_a_slow_reader_of_a_socket_gets_everything(void **state)
{
    struct bench *bench = *state;
    use_socket(bench);
    start_reader(bench, 1000);
    deliver_much(bench);
}

static void test_a_non_blocking_pipe_gets_everything(void **state)
{
    struct bench *bench = *state;
    use_small_pipe(bench);
    use_nonblocking();
    start_reader(bench, 1000);
    deliver_much(bench);
}

static void test_a_non_blocking_socket_gets_everything(void **state)
{
    struct bench *bench = *state;
    use_socket(bench);
    use_nonblocking();
    start_reader(bench, 1000);
    deliver_much(bench);
}

static void test_writes_that_are_cut_short_go_on(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    write_limit = 2;
    store(bench, object, 0, "hello");
    write_errno = EINTR;
    store(bench, object, 5, ", ");
    write_errno = EAGAIN;
    store(bench, object, 7, "world");
    commit(bench, object, 12);
    assert_came(bench, "hello, world", 12);
}

static void test_a_file_is_written_from_where_it_stands(void **state)
{
    static const int flags[] = {0, O_APPEND};
    for (size_t i = 0; i < 2; i++) {
        struct bench *bench = *state;
        char buf[16];
        use_file(bench, flags[i]);
        assert_int_equal(write(STDOUT_FILENO, "head", 4), 4);
        struct sink_object *object = begin(bench);
        store(bench, object, 1, "a");
        commit(bench, object, 3);
        assert_int_equal(pread(bench->far, buf, sizeof buf, 0), 7);
        assert_memory_equal(buf, "head\0a\0", 7);
        close(bench->far);
        bench->far = -1;
    }
}

static void test_an_abandoned_object_writes_nothing_more(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    store(bench, object, 0, "half");
    abandon(bench, object);
    assert_came(bench, "half", 4);
}

static void test_the_shared_description_stays_as_it_was(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < KINDS; i++) {
        use_kind(bench, kinds[i]);
        int flags = stdout_flags();
        struct sink_object *object = begin(bench);
        store(bench, object, 0, "x");
        assert_int_equal(stdout_flags(), flags);
        commit(bench, object, 1);
        assert_int_equal(stdout_flags(), flags);
        close(bench->far);
        bench->far = -1;
    }
}

/*
 * Waits that end
 */

static int bytes_in_pipe(int fd)
{
    int bytes = 0;
    return ioctl(fd, FIONREAD, &bytes) < 0 ? 0 : bytes;
}

/* When the stream takes no more, it tells stop_fd or leaves. */
static void *act_when_full(void *arg)
{
    struct reader *reader = arg;
    struct pollfd full = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (poll(&full, 1, 0) > 0)
        poll(NULL, 0, 1);
    if (reader->leave_at)
        close(reader->fd);
    else
        tell_stop(reader->stop_fd);
    return NULL;
}

static void start_when_full(struct bench *bench, bool leaves)
{
    struct reader *reader = &bench->reader;
    reader->fd = bench->far;
    reader->stop_fd = bench->stop[1];
    reader->leave_at = leaves;
    if (leaves)
        bench->far = -1;
    assert_int_equal(pthread_create(&reader->thread, NULL, act_when_full, reader), 0);
    reader->runs = true;
}

static void store_much_until(struct bench *bench, bool leaves)
{
    uint8_t *data = much_data();
    struct sink_object *object = begin(bench);
    start_when_full(bench, leaves);
    assert_int_equal(try_store(bench, object, 0, data, MUCH), -1);
    pthread_join(bench->reader.thread, NULL);
    bench->reader.runs = false;
    abandon(bench, object);
    free(data);
}

static void test_stopping_ends_the_wait_for_a_pipe(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    store_much_until(bench, false);
    assert_int_equal(bytes_in_pipe(bench->far), fcntl(STDOUT_FILENO, F_GETPIPE_SZ));
    assert_error(bench, ERROR_INTERRUPTED, STAGE_TRANSFER, "interrupted");
}

static void test_stopping_ends_the_wait_for_a_socket(void **state)
{
    struct bench *bench = *state;
    use_socket(bench);
    store_much_until(bench, false);
    assert_error(bench, ERROR_INTERRUPTED, STAGE_TRANSFER, "interrupted");
}

static void test_stopping_ends_a_gap_that_would_take_for_ever(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    bench->reader.stop_at = MUCH;
    start_reader(bench, 65536);
    struct sink_object *object = begin(bench);
    assert_int_equal(try_store(bench, object, UINT64_C(1) << 62, "x", 1), -1);
    assert_error(bench, ERROR_INTERRUPTED, STAGE_TRANSFER, "interrupted");
    abandon(bench, object);
}

static void test_stopping_ends_a_commit_that_would_take_for_ever(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    bench->reader.stop_at = MUCH;
    start_reader(bench, 65536);
    assert_int_equal(try_commit(bench, begin(bench), UINT64_C(1) << 62), -1);
    assert_error(bench, ERROR_INTERRUPTED, STAGE_COMMIT, "interrupted");
}

static void test_stopping_ends_a_gap_in_what_never_waits(void **state)
{
    struct bench *bench = *state;
    use_path("/dev/null", O_WRONLY);
    struct sink_object *object = begin(bench);
    tell_stop(bench->stop[1]);
    assert_int_equal(try_store(bench, object, UINT64_C(1) << 62, "x", 1), -1);
    assert_error(bench, ERROR_INTERRUPTED, STAGE_TRANSFER, "interrupted");
    abandon(bench, object);
}

/*
 * Readers that leave, and storage that fails
 */

static void test_a_reader_that_leaves_in_the_middle_is_told(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < KINDS; i++) {
        use_kind(bench, kinds[i]);
        struct sink_object *object = begin(bench);
        store(bench, object, 0, "x");
        close(bench->far);
        bench->far = -1;
        assert_int_equal(try_store(bench, object, 1, "y", 1), -1);
        assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, "its reader has gone");
        assert_non_null(strstr(bench->err.text, strerror(EPIPE)));
        error_clear(&bench->err);
        abandon(bench, object);
    }
}

static void test_a_reader_that_leaves_after_some_is_told(void **state)
{
    struct bench *bench = *state;
    uint8_t *data = much_data();
    use_small_pipe(bench);
    bench->reader.leave_at = 100000;
    start_reader(bench, 1000);
    struct sink_object *object = begin(bench);
    assert_int_equal(try_store(bench, object, 0, data, MUCH), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, strerror(EPIPE));
    abandon(bench, object);
    free(data);
}

static void test_a_reader_that_leaves_ends_the_wait_for_it(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < KINDS; i++) {
        use_kind(bench, kinds[i]);
        store_much_until(bench, true);
        assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, "its reader has gone");
        error_clear(&bench->err);
    }
}

static void test_a_reader_that_leaves_before_commit_is_told(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < KINDS; i++) {
        use_kind(bench, kinds[i]);
        struct sink_object *object = begin(bench);
        store(bench, object, 0, "x");
        close(bench->far);
        bench->far = -1;
        assert_int_equal(try_commit(bench, object, 1), -1);
        assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, "its reader has gone");
        assert_non_null(
            strstr(bench->err.text, strerror(kinds[i] == use_pipe ? EPIPE : ECONNRESET)));
        error_clear(&bench->err);
    }
}

static void test_a_full_pipe_is_committed_without_waiting(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    size_t size = (size_t)fcntl(STDOUT_FILENO, F_GETPIPE_SZ);
    uint8_t *data = much_data();
    struct sink_object *object = begin(bench);
    assert_int_equal(try_store(bench, object, 0, data, size), 0);
    commit(bench, object, size);
    assert_came(bench, data, size);
    free(data);
}

static void test_a_full_device_is_told(void **state)
{
    struct bench *bench = *state;
    use_path("/dev/full", O_WRONLY);
    struct sink_object *object = begin(bench);
    assert_int_equal(try_store(bench, object, 0, "x", 1), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, strerror(ENOSPC));
    error_clear(&bench->err);
    assert_int_equal(try_commit(bench, object, 2), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, strerror(ENOSPC));
}

static void test_a_write_that_fails_is_told(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    write_errno = EIO;
    assert_int_equal(try_store(bench, object, 0, "x", 1), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, strerror(EIO));
    error_clear(&bench->err);
    write_limit = 0;
    assert_int_equal(try_store(bench, object, 0, "x", 1), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, strerror(ENOSPC));
    abandon(bench, object);
}

static void test_an_offset_that_goes_back_is_a_bug(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    struct sink_object *object = begin(bench);
    store(bench, object, 0, "hello");
    assert_int_equal(try_store(bench, object, 4, "x", 1), -1);
    assert_error(bench, ERROR_BUG, STAGE_TRANSFER, "goes back");
    error_clear(&bench->err);
    assert_int_equal(try_commit(bench, object, 4), -1);
    assert_error(bench, ERROR_BUG, STAGE_COMMIT, "goes back");
    assert_came(bench, "hello", 5);
}

/*
 * Stable storage
 */

static void test_only_a_client_that_asks_waits_for_stable_storage(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    open_sink(bench);
    commit(bench, begin_synced(bench, false), 0);
    assert_int_equal(fsyncs, 0);
    commit(bench, begin_synced(bench, true), 0);
    assert_int_equal(fsyncs, 1);
}

static void test_what_cannot_sync_need_not(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    open_sink(bench);
    fsync_errno = EINVAL;
    commit(bench, begin_synced(bench, true), 0);
    fsync_errno = EROFS;
    commit(bench, begin_synced(bench, true), 0);
    assert_int_equal(fsyncs, 2);
}

static void test_a_sync_that_fails_is_told(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    open_sink(bench);
    fsync_errno = EIO;
    assert_int_equal(try_commit(bench, begin_synced(bench, true), 0), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, strerror(EIO));
}

/*
 * What is refused
 */

static void assert_refused(struct bench *bench, enum error_class class, const char *part)
{
    assert_null(sink_stdout_new(&bench->err));
    restore_stdout(bench);
    assert_error(bench, class, STAGE_OPEN, part);
    assert_true(bench->err.hint[0] != '\0');
}

static void test_a_terminal_is_refused(void **state)
{
    struct bench *bench = *state;
    bench->far = posix_openpt(O_RDWR | O_NOCTTY);
    if (bench->far < 0 || grantpt(bench->far) < 0 || unlockpt(bench->far) < 0)
        skip(); /* no pseudo-terminals here */
    use_path(ptsname(bench->far), O_RDWR);
    assert_refused(bench, ERROR_USAGE, "is a terminal");
}

static void test_a_closed_standard_output_is_refused(void **state)
{
    close(STDOUT_FILENO);
    assert_refused(*state, ERROR_STORAGE, strerror(EBADF));
}

static void test_a_standard_output_for_reading_is_refused(void **state)
{
    use_path("/dev/null", O_RDONLY);
    assert_refused(*state, ERROR_STORAGE, strerror(EBADF));
}

static void test_names_and_resuming_are_refused(void **state)
{
    const struct sink_request named = {.name = "x"}, resuming = {.name = "", .resume = true};
    struct bench *bench = *state;
    use_pipe(bench);
    open_sink(bench);
    assert_null(bench->sink->ops->begin(bench->sink, &named, -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    error_clear(&bench->err);
    assert_null(bench->sink->ops->begin(bench->sink, &resuming, -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
}

static void test_a_sink_says_what_it_is(void **state)
{
    struct bench *bench = *state;
    use_pipe(bench);
    open_sink(bench);
    const struct sink_ops *ops = bench->sink->ops;
    assert_string_equal(ops->kind, "standard output");
    assert_string_equal(bench->sink->description, "standard output");
    assert_true(ops->stores && ops->exclusive && ops->single && ops->irrevocable);
    assert_false(ops->keeps_content);
    assert_null(ops->kept);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_stored_comes_out_in_order),
        TEST(test_an_empty_object_is_nothing),
        TEST(test_gaps_come_out_as_zeros_also_at_the_end),
        TEST(test_a_gap_may_be_larger_than_any_buffer),
        TEST(test_a_slow_reader_of_a_pipe_gets_everything),
        TEST(test_a_slow_reader_of_a_socket_gets_everything),
        TEST(test_a_non_blocking_pipe_gets_everything),
        TEST(test_a_non_blocking_socket_gets_everything),
        TEST(test_writes_that_are_cut_short_go_on),
        TEST(test_a_file_is_written_from_where_it_stands),
        TEST(test_an_abandoned_object_writes_nothing_more),
        TEST(test_the_shared_description_stays_as_it_was),
        TEST(test_stopping_ends_the_wait_for_a_pipe),
        TEST(test_stopping_ends_the_wait_for_a_socket),
        TEST(test_stopping_ends_a_gap_that_would_take_for_ever),
        TEST(test_stopping_ends_a_commit_that_would_take_for_ever),
        TEST(test_stopping_ends_a_gap_in_what_never_waits),
        TEST(test_a_reader_that_leaves_in_the_middle_is_told),
        TEST(test_a_reader_that_leaves_after_some_is_told),
        TEST(test_a_reader_that_leaves_ends_the_wait_for_it),
        TEST(test_a_reader_that_leaves_before_commit_is_told),
        TEST(test_a_full_pipe_is_committed_without_waiting),
        TEST(test_a_full_device_is_told),
        TEST(test_a_write_that_fails_is_told),
        TEST(test_an_offset_that_goes_back_is_a_bug),
        TEST(test_only_a_client_that_asks_waits_for_stable_storage),
        TEST(test_what_cannot_sync_need_not),
        TEST(test_a_sync_that_fails_is_told),
        TEST(test_a_terminal_is_refused),
        TEST(test_a_closed_standard_output_is_refused),
        TEST(test_a_standard_output_for_reading_is_refused),
        TEST(test_names_and_resuming_are_refused),
        TEST(test_a_sink_says_what_it_is),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

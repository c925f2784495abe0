/*
 * test-sink-in-place.c - what exists is written where clients say, and nowhere else.
 *
 * A block device here is a regular file that the system calls below take for one.
 */
#include "config.h"

#include "sink-in-place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"
#include "wire.h"

#define DEVICE_BYTES 16

struct bench {
    struct sink *sink;
    struct error err;
};

/*
 * What the system is made to say
 */

static bool files_are_devices, device_is_read_only;
static int open_errno, ioctl_errno, fsync_errno, close_errno;
static unsigned fsyncs;
static int last_flags; /* of open */

static int as_device(int rc, struct stat *st)
{
    if (rc == 0 && files_are_devices && S_ISREG(st->st_mode))
        st->st_mode = (st->st_mode & ~(mode_t)S_IFMT) | S_IFBLK;
    return rc;
}

static int interposed_stat(const char *path, struct stat *st)
{
    return as_device(fstatat(AT_FDCWD, path, st, 0), st);
}

static int interposed_fstat(int fd, struct stat *st)
{
    return as_device(fstatat(fd, "", st, AT_EMPTY_PATH), st);
}

/* Before 2.33, glibc's headers have stat and fstat as inline functions that call others. */
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 33)
int __xstat(int version, const char *path, struct stat *st);
int __xstat(int version, const char *path, struct stat *st)
{
    (void)version;
    return interposed_stat(path, st);
}

int __fxstat(int version, int fd, struct stat *st);
int __fxstat(int version, int fd, struct stat *st)
{
    (void)version;
    return interposed_fstat(fd, st);
}
#else
int stat(const char *path, struct stat *st)
{
    return interposed_stat(path, st);
}

int fstat(int fd, struct stat *st)
{
    return interposed_fstat(fd, st);
}
#endif

int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    last_flags = flags;
    if (open_errno) {
        errno = open_errno;
        return -1;
    }
    return openat(AT_FDCWD, path, flags, mode);
}

#ifdef __GLIBC__
int ioctl(int fd, unsigned long request, ...)
#else
int ioctl(int fd, int request, ...)
#endif
{
    va_list args;
    (void)fd;
    va_start(args, request);
    void *answer = va_arg(args, void *);
    va_end(args);
    errno = ioctl_errno;
    if (errno)
        return -1;
    if ((unsigned)request == (unsigned)BLKGETSIZE64)
        memcpy(answer, &(uint64_t){DEVICE_BYTES}, sizeof(uint64_t));
    else if ((unsigned)request == (unsigned)BLKROGET)
        memcpy(answer, &(int){device_is_read_only}, sizeof(int));
    else
        abort();
    return 0;
}

int fsync(int fd)
{
    (void)fd;
    fsyncs++;
    errno = fsync_errno;
    return fsync_errno ? -1 : 0;
}

int close(int fd)
{
    int rc = (int)syscall(SYS_close, fd);
    if (rc == 0 && close_errno) {
        errno = close_errno;
        return -1;
    }
    return rc;
}

/*
 * Bench
 */

static int setup(void **state)
{
    files_are_devices = device_is_read_only = false;
    open_errno = ioctl_errno = fsync_errno = close_errno = 0;
    fsyncs = 0;
    *state = calloc(1, sizeof(struct bench));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"file", "fifo", "socket", "link"};
    struct bench *bench = *state;
    open_errno = close_errno = 0;
    if (bench->sink)
        bench->sink->ops->free(bench->sink);
    free(bench);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unlink(names[i]);
    rmdir("dir");
    return 0;
}

static void make_file(const char *content)
{
    int fd = open("file", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static void open_sink(struct bench *bench, bool sync)
{
    bench->sink = sink_in_place_new("file", sync, &bench->err);
    if (!bench->sink)
        fail_msg("%s", bench->err.text);
}

static void serve_file(struct bench *bench, const char *content)
{
    make_file(content);
    open_sink(bench, false);
}

/* Of DEVICE_BYTES. */
static void serve_device(struct bench *bench)
{
    files_are_devices = true;
    serve_file(bench, "0123456789abcdef");
}

static struct sink_object *try_begin(struct bench *bench, uint64_t size, bool sync)
{
    struct sink_request request = {.name = "", .size = size, .bytes = size, .sync = sync};
    return bench->sink->ops->begin(bench->sink, &request, -1, &bench->err);
}

static struct sink_object *begin(struct bench *bench, uint64_t size)
{
    struct sink_object *object = try_begin(bench, size, false);
    if (!object)
        fail_msg("%s", bench->err.text);
    return object;
}

static int try_store(struct bench *bench, struct sink_object *object, uint64_t offset,
                     const char *data)
{
    return bench->sink->ops->store(object, offset, data, strlen(data), -1, &bench->err);
}

static void store(struct bench *bench, struct sink_object *object, uint64_t offset,
                  const char *data)
{
    if (try_store(bench, object, offset, data) < 0)
        fail_msg("%s", bench->err.text);
}

static int try_commit(struct bench *bench, struct sink_object *object, uint64_t size)
{
    return bench->sink->ops->commit(object, size, -1, &bench->err);
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

static void assert_error(struct bench *bench, enum error_class class, enum error_stage stage,
                         const char *part)
{
    if (bench->err.class != class || bench->err.stage != stage || !strstr(bench->err.text, part))
        fail_msg("class %d, stage %d, '%s'", (int)bench->err.class, (int)bench->err.stage,
                 bench->err.text);
    assert_string_equal(bench->err.subject, "file");
    error_clear(&bench->err);
}

static void assert_refused(const char *path, enum error_class class, const char *part,
                           const char *hint)
{
    struct error err = {.class = ERROR_NONE};
    struct sink *sink = sink_in_place_new(path, false, &err);
    if (sink)
        fail_msg("'%s' was taken", path);
    if (err.class != class || !strstr(err.text, part) || !strstr(err.hint, hint))
        fail_msg("'%s': class %d, '%s', '%s'", path, (int)err.class, err.text, err.hint);
}

/*
 * Regular files
 */

static void test_data_goes_where_the_client_says(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "..........");
    struct sink_object *object = begin(bench, 9);
    store(bench, object, 2, "ab");
    store(bench, object, 7, "cd");
    sandbox_assert_content("file", "..ab...cd.", 10);
    commit(bench, object, 9);
    sandbox_assert_content("file", "..ab...cd.", 10);
}

static void test_a_file_never_shrinks(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "..........");
    commit(bench, begin(bench, 0), 0);
    sandbox_assert_content("file", "..........", 10);
    struct sink_object *object = begin(bench, 1);
    store(bench, object, 0, "x");
    commit(bench, object, 1);
    sandbox_assert_content("file", "x.........", 10);
}

static void test_a_file_grows(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    struct sink_object *object = begin(bench, WIRE_UNKNOWN);
    store(bench, object, 2, "ab");
    store(bench, object, 6, "c");
    commit(bench, object, 7);
    sandbox_assert_content("file", "..ab\0\0c", 7);
}

static void test_a_file_grows_to_a_size_that_ends_in_a_gap(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    struct sink_object *object = begin(bench, 6);
    store(bench, object, 0, "x");
    commit(bench, object, 6);
    sandbox_assert_content("file", "x..\0\0\0", 6);
}

static void test_one_object_goes_over_another(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "......");
    struct sink_object *object = begin(bench, 4);
    store(bench, object, 0, "aaaa");
    commit(bench, object, 4);
    object = begin(bench, 6);
    store(bench, object, 3, "bbb");
    commit(bench, object, 6);
    sandbox_assert_content("file", "aaabbb", 6);
}

static void test_what_was_stored_stays_when_an_object_fails(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "....");
    struct sink_object *object = begin(bench, 4);
    store(bench, object, 1, "x");
    abandon(bench, object);
    sandbox_assert_content("file", ".x..", 4);
}

static void test_mode_and_inode_stay(void **state)
{
    struct bench *bench = *state;
    struct stat before, after;
    serve_file(bench, "....");
    assert_int_equal(chmod("file", 0640), 0);
    assert_int_equal(lstat("file", &before), 0);
    struct sink_object *object = begin(bench, 1);
    store(bench, object, 0, "x");
    commit(bench, object, 1);
    assert_int_equal(lstat("file", &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mode == after.st_mode);
}

static void test_a_symbolic_link_is_followed(void **state)
{
    struct bench *bench = *state;
    make_file("....");
    assert_int_equal(symlink("file", "link"), 0);
    bench->sink = sink_in_place_new("link", false, &bench->err);
    assert_non_null(bench->sink);
    struct sink_object *object = begin(bench, 1);
    store(bench, object, 0, "x");
    commit(bench, object, 1);
    sandbox_assert_content("file", "x...", 4);
}

static void test_what_has_the_name_by_then_is_written(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "old");
    unlink("file");
    make_file("new");
    struct sink_object *object = begin(bench, 1);
    store(bench, object, 0, "x");
    commit(bench, object, 1);
    sandbox_assert_content("file", "xew", 3);
}

static void test_a_file_that_went_is_told_before_any_data(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "old");
    unlink("file");
    assert_null(try_begin(bench, 1, false));
    assert_error(bench, ERROR_CANNOT_CREATE, STAGE_OPEN, strerror(ENOENT));
    assert_int_equal(access("file", F_OK), -1);
}

static void test_storage_that_fails_is_told(void **state)
{
    struct bench *bench = *state;
    struct rlimit limit, old_limit;
    serve_file(bench, "...");
    struct sink_object *object = begin(bench, WIRE_UNKNOWN);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 5;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int stored = try_store(bench, object, 5, "x");
    struct error store_error = bench->err;
    error_clear(&bench->err);
    int committed = try_commit(bench, object, 6);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    assert_int_equal(committed, -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, strerror(EFBIG));
    bench->err = store_error;
    assert_int_equal(stored, -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, strerror(EFBIG));
}

static void test_a_close_that_fails_is_told(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    struct sink_object *object = begin(bench, 0);
    close_errno = EDQUOT;
    assert_int_equal(try_commit(bench, object, 0), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, strerror(EDQUOT));
    close_errno = EINTR;
    commit(bench, begin(bench, 0), 0);
}

/*
 * Stable storage
 */

static void test_nobody_waits_for_stable_storage_unasked(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    commit(bench, begin(bench, 0), 0);
    assert_int_equal(fsyncs, 0);
}

static void test_a_client_may_ask_for_stable_storage(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    commit(bench, try_begin(bench, 0, true), 0);
    assert_int_equal(fsyncs, 1);
}

static void test_a_server_may_ask_for_stable_storage(void **state)
{
    struct bench *bench = *state;
    make_file("...");
    open_sink(bench, true);
    commit(bench, begin(bench, 0), 0);
    assert_int_equal(fsyncs, 1);
}

static void test_a_sync_that_fails_is_told(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    fsync_errno = EIO;
    assert_int_equal(try_commit(bench, try_begin(bench, 0, true), 0), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, strerror(EIO));
}

/*
 * Block devices
 */

static void test_a_device_is_filled_to_its_end(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    struct sink_object *object = begin(bench, DEVICE_BYTES);
    store(bench, object, 12, "xxxx");
    commit(bench, object, DEVICE_BYTES);
    sandbox_assert_content("file", "0123456789abxxxx", DEVICE_BYTES);
}

static void test_an_object_that_a_device_cannot_hold_is_refused_before_any_data(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    assert_null(try_begin(bench, DEVICE_BYTES + 1, false));
    assert_non_null(strstr(bench->err.text, "17 bytes"));
    assert_error(bench, ERROR_CANNOT_CREATE, STAGE_OPEN, "the device has 16");
}

static void test_an_object_of_unknown_size_fails_where_the_device_ends(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    struct sink_object *object = begin(bench, WIRE_UNKNOWN);
    store(bench, object, 12, "xxxx");
    assert_int_equal(try_store(bench, object, 13, "yyyy"), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_TRANSFER, "the device has 16");
    assert_int_equal(try_commit(bench, object, DEVICE_BYTES + 1), -1);
    assert_error(bench, ERROR_STORAGE, STAGE_COMMIT, "the device has 16");
    sandbox_assert_content("file", "0123456789abxxxx", DEVICE_BYTES);
}

static void test_a_device_is_opened_for_nobody_else(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    assert_int_equal(last_flags, O_WRONLY | O_CLOEXEC);
    bench->sink->ops->free(bench->sink);
    bench->sink = NULL;
    serve_device(bench);
    assert_int_equal(last_flags, O_WRONLY | O_CLOEXEC | O_EXCL);
    last_flags = 0;
    abandon(bench, begin(bench, 1));
    assert_int_equal(last_flags, O_WRONLY | O_CLOEXEC | O_EXCL);
}

static void test_a_device_in_use_is_refused(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    open_errno = EBUSY;
    assert_refused("file", ERROR_CANNOT_CREATE, strerror(EBUSY), "unmount");
    assert_null(try_begin(bench, 1, false));
    assert_error(bench, ERROR_CANNOT_CREATE, STAGE_OPEN, strerror(EBUSY));
}

static void test_a_read_only_device_is_refused(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    device_is_read_only = true;
    assert_refused("file", ERROR_CANNOT_CREATE, strerror(EROFS), "");
    assert_null(try_begin(bench, 1, false));
    assert_error(bench, ERROR_CANNOT_CREATE, STAGE_OPEN, strerror(EROFS));
}

static void test_a_device_that_does_not_tell_its_size_is_refused(void **state)
{
    struct bench *bench = *state;
    serve_device(bench);
    ioctl_errno = EIO;
    assert_null(try_begin(bench, 1, false));
    assert_error(bench, ERROR_CANNOT_CREATE, STAGE_OPEN, strerror(EIO));
}

/*
 * What is refused
 */

static void test_what_does_not_exist_is_refused_and_not_made(void **state)
{
    (void)state;
    assert_refused("file", ERROR_CANNOT_CREATE, strerror(ENOENT), "truncate -s SIZE FILE");
    assert_int_equal(access("file", F_OK), -1);
    make_file("");
    assert_refused("file/below", ERROR_CANNOT_CREATE, strerror(ENOTDIR), "");
    assert_refused("", ERROR_USAGE, "empty", "");
}

static void test_what_has_no_offsets_is_refused(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    close(fd);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(mkdir("dir", 0700), 0);
    assert_refused("dir", ERROR_CANNOT_CREATE, "is a directory", "serve DIR");
    assert_refused("fifo", ERROR_CANNOT_CREATE, "is a FIFO", "rdmaput serve -");
    assert_refused("/dev/null", ERROR_CANNOT_CREATE, "is a character device", "rdmaput serve -");
    assert_refused("socket", ERROR_CANNOT_CREATE, "is a socket", "rdmaput serve -");
}

static void test_what_may_not_be_written_is_refused(void **state)
{
    static const int errnos[] = {EACCES, EPERM, EROFS, ETXTBSY};
    (void)state;
    make_file("...");
    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++) {
        open_errno = errnos[i];
        assert_refused("file", ERROR_CANNOT_CREATE, strerror(errnos[i]),
                       i < 2 ? "must be allowed" : "");
    }
}

static void test_names_and_resuming_are_refused(void **state)
{
    const struct sink_request named = {.name = "x"}, resuming = {.name = "", .resume = true};
    struct bench *bench = *state;
    serve_file(bench, "...");
    assert_null(bench->sink->ops->begin(bench->sink, &named, -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    error_clear(&bench->err);
    assert_null(bench->sink->ops->begin(bench->sink, &resuming, -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
}

static void assert_ops(const struct sink *sink, const char *kind)
{
    const struct sink_ops *ops = sink->ops;
    assert_string_equal(ops->kind, kind);
    assert_true(ops->stores && ops->exclusive && ops->irrevocable && ops->keeps_content);
    assert_false(ops->single);
    assert_null(ops->kept);
}

static void test_a_sink_says_what_it_is(void **state)
{
    struct bench *bench = *state;
    serve_file(bench, "...");
    assert_ops(bench->sink, "file in place");
    assert_string_equal(bench->sink->description, "file in place 'file'");
    bench->sink->ops->free(bench->sink);
    serve_device(bench);
    assert_ops(bench->sink, "device in place");
    assert_string_equal(bench->sink->description, "device in place 'file'");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_data_goes_where_the_client_says),
        TEST(test_a_file_never_shrinks),
        TEST(test_a_file_grows),
        TEST(test_a_file_grows_to_a_size_that_ends_in_a_gap),
        TEST(test_one_object_goes_over_another),
        TEST(test_what_was_stored_stays_when_an_object_fails),
        TEST(test_mode_and_inode_stay),
        TEST(test_a_symbolic_link_is_followed),
        TEST(test_what_has_the_name_by_then_is_written),
        TEST(test_a_file_that_went_is_told_before_any_data),
        TEST(test_storage_that_fails_is_told),
        TEST(test_a_close_that_fails_is_told),
        TEST(test_nobody_waits_for_stable_storage_unasked),
        TEST(test_a_client_may_ask_for_stable_storage),
        TEST(test_a_server_may_ask_for_stable_storage),
        TEST(test_a_sync_that_fails_is_told),
        TEST(test_a_device_is_filled_to_its_end),
        TEST(test_an_object_that_a_device_cannot_hold_is_refused_before_any_data),
        TEST(test_an_object_of_unknown_size_fails_where_the_device_ends),
        TEST(test_a_device_is_opened_for_nobody_else),
        TEST(test_a_device_in_use_is_refused),
        TEST(test_a_read_only_device_is_refused),
        TEST(test_a_device_that_does_not_tell_its_size_is_refused),
        TEST(test_what_does_not_exist_is_refused_and_not_made),
        TEST(test_what_has_no_offsets_is_refused),
        TEST(test_what_may_not_be_written_is_refused),
        TEST(test_names_and_resuming_are_refused),
        TEST(test_a_sink_says_what_it_is),
    };

    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

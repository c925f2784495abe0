/*
 * test-sink-file.c - a file that is replaced whole, or left alone.
 */
#include "config.h"

#include "sink-file.h"

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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "sandbox.h"

static struct sink_options options; /* of the next sink */

struct bench {
    struct sink *sink;
    struct error err;
};

/* Valid until the next call. */
static const struct sink_request *request_for(const char *name, uint64_t size)
{
    static struct sink_request request;

    request = (struct sink_request){.name = name, .size = size, .bytes = size};
    return &request;
}

static bool without_tmpfile; /* as on a file system that has no files without a name */

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

static int enter_directory(void **state)
{
    options.keep_ns = 3600 * (uint64_t)CLOCK_NS_PER_S;
    return sandbox_enter(state);
}

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct bench));
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    if (bench->sink)
        bench->sink->ops->free(bench->sink);
    free(bench);
    without_tmpfile = false;
    options = (struct sink_options){.keep_ns = 3600 * (uint64_t)CLOCK_NS_PER_S};
    sandbox_empty();
    return 0;
}

static void assert_mode(const char *path, mode_t mode)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_mode & 07777, mode);
}

static void open_sink(struct bench *bench, const char *path)
{
    bench->sink = sink_file_new(path, &options, &bench->err);
    if (!bench->sink)
        fail_msg("%s", bench->err.text);
}

static struct sink_object *begin_request(struct bench *bench, const struct sink_request *request)
{
    struct sink_object *object = bench->sink->ops->begin(bench->sink, request, -1, &bench->err);

    if (!object)
        fail_msg("%s", bench->err.text);
    return object;
}

static struct sink_object *begin(struct bench *bench)
{
    return begin_request(bench, request_for("", 5));
}

static void store(struct bench *bench, struct sink_object *object, uint64_t offset,
                  const char *data)
{
    assert_int_equal(bench->sink->ops->store(object, offset, data, strlen(data), -1, &bench->err), 0);
}

static void commit(struct bench *bench, struct sink_object *object, uint64_t size)
{
    if (bench->sink->ops->commit(object, size, -1, &bench->err) < 0)
        fail_msg("%s", bench->err.text);
}

static void deliver(struct bench *bench, const char *data)
{
    struct sink_object *object = begin(bench);

    store(bench, object, 0, data);
    commit(bench, object, strlen(data));
}

static void assert_refused(const char *path, enum error_class class, const char *part)
{
    struct error err = {.class = ERROR_NONE};
    struct sink *sink = sink_file_new(path, &options, &err);

    if (sink)
        fail_msg("'%s' was taken", path);
    if (err.class != class || !strstr(err.text, part))
        fail_msg("'%s': class %d, '%s'", path, (int)err.class, err.text);
}

/*
 * What appears
 */

static void test_an_object_appears_when_it_is_whole(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    open_sink(bench, "new");
    assert_int_equal(sandbox_count("."), 0);
    object = begin(bench);
    store(bench, object, 0, "hel");
    store(bench, object, 3, "lo");
    assert_int_equal(access("new", F_OK), -1);
    commit(bench, object, 5);
    sandbox_assert_content("new", "hello", 5);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_an_absolute_path_is_one_too(void **state)
{
    struct bench *bench = *state;
    char path[SANDBOX_PATH + 16];

    snprintf(path, sizeof(path), "%s/absolute", sandbox_path);
    open_sink(bench, path);
    deliver(bench, "x");
    sandbox_assert_content("absolute", "x", 1);
}

static void test_a_new_file_has_what_the_umask_left(void **state)
{
    static const mode_t masks[] = {022, 077, 0, 027};
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++) {
        mode_t old = umask(masks[i]);

        open_sink(bench, "new");
        deliver(bench, "x");
        umask(old);
        assert_mode("new", 0666 & ~masks[i]);
        bench->sink->ops->free(bench->sink);
        bench->sink = NULL;
        unlink("new");
    }
}

static void test_a_replaced_file_keeps_its_mode(void **state)
{
    static const mode_t modes[] = {0600, 0755, 0666, 0400};
    struct bench *bench = *state;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        sandbox_make("old", "old content", sizeof("old content") - 1, modes[i]);
        open_sink(bench, "old");
        deliver(bench, "new");
        sandbox_assert_content("old", "new", 3);
        assert_mode("old", modes[i]);
        bench->sink->ops->free(bench->sink);
        bench->sink = NULL;
        unlink("old");
    }
}

static void test_special_mode_bits_are_not_kept(void **state)
{
    struct bench *bench = *state;

    sandbox_make("old", "#!", sizeof("#!") - 1, 04755);
    open_sink(bench, "old");
    deliver(bench, "x");
    assert_mode("old", 0755);
}

static void test_whoever_has_the_old_file_open_keeps_it(void **state)
{
    struct bench *bench = *state;
    char buf[16] = "";
    int fd;

    sandbox_make("old", "old", sizeof("old") - 1, 0600);
    fd = open("old", O_RDONLY);
    open_sink(bench, "old");
    deliver(bench, "new and longer");
    assert_int_equal(read(fd, buf, sizeof(buf)), 3);
    assert_string_equal(buf, "old");
    close(fd);
}

static void test_gaps_are_zeros_also_at_the_end(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    open_sink(bench, "gaps");
    object = begin(bench);
    store(bench, object, 2, "a");
    store(bench, object, 5, "b");
    commit(bench, object, 10);
    sandbox_assert_content("gaps", "\0\0a\0\0b\0\0\0\0", 10);
}

static void test_an_object_has_the_size_that_it_was_committed_with(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;
    struct stat st;

    open_sink(bench, "sized");
    object = begin(bench);
    store(bench, object, 0, "0123456789");
    commit(bench, object, 4);
    sandbox_assert_content("sized", "0123", 4);
    commit(bench, begin(bench), 0);
    sandbox_assert_content("sized", "", 0);
    object = begin_request(bench, &(struct sink_request){.name = "", .size = UINT64_C(1) << 33});
    commit(bench, object, UINT64_C(1) << 33);
    assert_int_equal(stat("sized", &st), 0);
    assert_true(st.st_size == (off_t)1 << 33 && st.st_blocks == 0);
}

static void test_one_object_after_another_replaces(void **state)
{
    struct bench *bench = *state;

    open_sink(bench, "again");
    deliver(bench, "the first");
    deliver(bench, "second");
    sandbox_assert_content("again", "second", 6);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_objects_at_once_do_not_mix(void **state)
{
    struct bench *bench = *state;
    struct sink_object *first, *second;

    open_sink(bench, "both");
    first = begin(bench);
    second = begin(bench);
    store(bench, first, 0, "first");
    store(bench, second, 0, "second");
    commit(bench, second, 6);
    sandbox_assert_content("both", "second", 6);
    commit(bench, first, 5);
    sandbox_assert_content("both", "first", 5);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_a_name_may_be_as_long_as_any(void **state)
{
    struct bench *bench = *state;
    char name[256];

    memset(name, 'n', 255);
    name[255] = '\0';
    open_sink(bench, name);
    deliver(bench, "x");
    sandbox_assert_content(name, "x", 1);
}

static void test_a_symbolic_link_is_followed(void **state)
{
    struct bench *bench = *state;
    struct stat st;

    assert_int_equal(mkdir("sub", 0755), 0);
    sandbox_make("sub/target", "old", sizeof("old") - 1, 0640);
    assert_int_equal(symlink("sub/target", "link"), 0);
    open_sink(bench, "link");
    deliver(bench, "new");
    sandbox_assert_content("sub/target", "new", 3);
    assert_mode("sub/target", 0640);
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(sandbox_count("sub"), 1);
    unlink("sub/target");
}

static void test_a_symbolic_link_to_nothing_yet_is_followed(void **state)
{
    struct bench *bench = *state;
    struct stat st;

    assert_int_equal(mkdir("sub", 0755), 0);
    assert_int_equal(symlink("sub/target", "link"), 0);
    open_sink(bench, "link");
    deliver(bench, "new");
    assert_int_equal(lstat("link", &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    sandbox_assert_content("sub/target", "new", 3);
    unlink("sub/target");
}

/*
 * What does not
 */

static void test_an_abandoned_object_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    open_sink(bench, "none");
    object = begin(bench);
    store(bench, object, 0, "half");
    bench->sink->ops->abandon(object, false);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_an_abandoned_object_leaves_the_old_file(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    sandbox_make("old", "old", sizeof("old") - 1, 0600);
    open_sink(bench, "old");
    object = begin(bench);
    store(bench, object, 0, "half");
    bench->sink->ops->abandon(object, false);
    sandbox_assert_content("old", "old", 3);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_a_name_from_the_client_is_refused(void **state)
{
    struct bench *bench = *state;

    open_sink(bench, "named");
    assert_null(bench->sink->ops->begin(bench->sink, request_for("boot\033.img", 5), -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_non_null(strstr(bench->err.text, "'boot?.img'"));
    assert_true(bench->err.hint[0] != '\0');
    assert_int_equal(sandbox_count("."), 0);
}

static void test_storage_that_fails_is_told_and_leaves_nothing(void **state)
{
    struct bench *bench = *state;
    struct rlimit limit, old_limit;
    struct sink_object *object;
    char path[SANDBOX_PATH + 16];

    sandbox_make("old", "old", sizeof("old") - 1, 0600);
    open_sink(bench, "old");
    object = begin(bench);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 5;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(bench->sink->ops->store(object, 0, "0123456789", 10, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_STORAGE);
    snprintf(path, sizeof(path), "%s/old", sandbox_path);
    assert_string_equal(bench->err.subject, path);
    assert_non_null(strstr(bench->err.text, strerror(EFBIG)));
    error_clear(&bench->err);
    assert_int_equal(bench->sink->ops->commit(object, 10, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_STORAGE);
    assert_int_equal(bench->err.stage, STAGE_COMMIT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    sandbox_assert_content("old", "old", 3);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_a_target_that_became_a_directory_is_told_at_commit(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    open_sink(bench, "late");
    object = begin(bench);
    assert_int_equal(mkdir("late", 0755), 0);
    assert_int_equal(bench->sink->ops->commit(object, 0, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_STORAGE);
    assert_int_equal(bench->err.stage, STAGE_COMMIT);
    assert_non_null(strstr(bench->err.text, strerror(EISDIR)));
    assert_int_equal(sandbox_count("."), 1);
}

static void test_a_directory_that_went_is_told_at_begin(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(mkdir("gone", 0755), 0);
    open_sink(bench, "gone/x");
    assert_int_equal(rmdir("gone"), 0);
    assert_null(bench->sink->ops->begin(bench->sink, request_for("", 5), -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_CANNOT_CREATE);
    assert_non_null(strstr(bench->err.text, strerror(ENOENT)));
}

/*
 * Where the file system has no files without a name
 */

static void test_a_hidden_file_serves_as_well(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    without_tmpfile = true;
    sandbox_make("old", "old", sizeof("old") - 1, 0640);
    open_sink(bench, "old");
    object = begin(bench);
    store(bench, object, 0, "hello");
    assert_int_equal(sandbox_count("."), 2);
    sandbox_assert_content("old", "old", 3);
    commit(bench, object, 5);
    sandbox_assert_content("old", "hello", 5);
    assert_mode("old", 0640);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_a_new_hidden_file_has_what_the_umask_left(void **state)
{
    struct bench *bench = *state;

    without_tmpfile = true;
    open_sink(bench, "new");
    deliver(bench, "x");
    assert_mode("new", 0644);
}

static void test_an_abandoned_hidden_file_goes(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object, *other;

    without_tmpfile = true;
    open_sink(bench, "none");
    object = begin(bench);
    other = begin(bench);
    store(bench, object, 0, "half");
    assert_int_equal(sandbox_count("."), 2);
    bench->sink->ops->abandon(object, false);
    assert_int_equal(sandbox_count("."), 1);
    bench->sink->ops->abandon(other, false);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_a_hidden_file_that_cannot_replace_goes(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    without_tmpfile = true;
    open_sink(bench, "late");
    object = begin(bench);
    assert_int_equal(mkdir("late", 0755), 0);
    assert_int_equal(bench->sink->ops->commit(object, 0, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_STORAGE);
    assert_int_equal(sandbox_count("."), 1);
}

/*
 * Options, and what is left
 */

static void test_a_file_that_exists_is_refused_without_clobbering(void **state)
{
    struct bench *bench = *state;
    struct sink_object *object;

    sandbox_make("old", "old", sizeof("old") - 1, 0600);
    options.no_clobber = true;
    assert_refused("old", ERROR_CANNOT_CREATE, "exists already");
    open_sink(bench, "new");
    object = begin(bench);
    store(bench, object, 0, "first");
    deliver(bench, "second");
    assert_int_equal(bench->sink->ops->commit(object, 5, -1, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_CANNOT_CREATE);
    sandbox_assert_content("new", "second", 6);
    sandbox_assert_content("old", "old", 3);
    assert_int_equal(sandbox_count("."), 2);
}

static void test_an_object_is_resumed(void **state)
{
    struct sink_request request = {.name = "", .size = 5, .bytes = 5, .resume = true};
    struct bench *bench = *state;
    struct sink_object *object;

    open_sink(bench, "new");
    object = begin_request(bench, &request);
    store(bench, object, 0, "hel");
    bench->sink->ops->abandon(object, true);
    assert_int_equal(sandbox_count("."), 1);
    bench->sink->ops->free(bench->sink);
    open_sink(bench, "new"); /* which sweeps, and leaves it */
    object = begin_request(bench, &request);
    assert_int_equal(bench->sink->ops->kept(object), 3);
    assert_int_equal(bench->sink->ops->resume_at(object, 3, &bench->err), 0);
    store(bench, object, 3, "lo");
    commit(bench, object, 5);
    sandbox_assert_content("new", "hello", 5);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_what_a_killed_server_left_of_it_goes(void **state)
{
    struct bench *bench = *state;

    sandbox_make(".new.rdmaput-0123456789abcdef", "left", sizeof("left") - 1, 0600);
    sandbox_make(".other.rdmaput-0123456789abcdef", "left", sizeof("left") - 1, 0600);
    open_sink(bench, "new");
    assert_int_equal(sandbox_count("."), 1);
    assert_int_equal(access(".other.rdmaput-0123456789abcdef", F_OK), 0);
}

/*
 * Places that cannot be one
 */

static void test_an_empty_path_is_refused(void **state)
{
    (void)state;
    assert_refused("", ERROR_USAGE, "empty");
}

static void test_a_directory_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir("dir", 0755), 0);
    assert_refused("dir", ERROR_CANNOT_CREATE, "is a directory");
    assert_refused("dir/", ERROR_CANNOT_CREATE, "is a directory");
    assert_refused(".", ERROR_CANNOT_CREATE, "is a directory");
    assert_refused("/", ERROR_CANNOT_CREATE, "is a directory");
}

static void test_a_fifo_a_device_and_a_socket_are_refused(void **state)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)state;
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(symlink("fifo", "to-fifo"), 0);
    assert_refused("fifo", ERROR_CANNOT_CREATE, "FIFO");
    assert_refused("to-fifo", ERROR_CANNOT_CREATE, "FIFO");
    assert_refused("socket", ERROR_CANNOT_CREATE, "socket");
    assert_refused("/dev/null", ERROR_CANNOT_CREATE, "device");
    close(fd);
}

static void test_a_directory_that_is_not_there_is_refused(void **state)
{
    (void)state;
    sandbox_make("file", "", sizeof("") - 1, 0600);
    assert_refused("no/such", ERROR_CANNOT_CREATE, strerror(ENOENT));
    assert_refused("file/below", ERROR_CANNOT_CREATE, strerror(ENOTDIR));
    assert_refused("file/", ERROR_CANNOT_CREATE, strerror(ENOTDIR));
    assert_refused("new/", ERROR_CANNOT_CREATE, strerror(ENOTDIR));
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_refused("loop", ERROR_CANNOT_CREATE, strerror(ELOOP));
}

static void test_a_directory_that_takes_no_files_is_told(void **state)
{
    struct bench *bench = *state;

    /* Nobody, not even root, makes a file there; root learns it only by trying. */
    bench->sink = sink_file_new("/proc/rdmaput-test", &options, &bench->err);
    if (bench->sink)
        assert_null(bench->sink->ops->begin(bench->sink, request_for("", 5), -1, &bench->err));
    assert_int_equal(bench->err.class, ERROR_CANNOT_CREATE);
    assert_string_equal(bench->err.subject, "/proc/rdmaput-test");
    assert_true(bench->err.hint[0] != '\0');
}

static void test_a_directory_without_permission_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0)
        skip(); /* root may write everywhere */
    assert_int_equal(mkdir("closed", 0500), 0);
    assert_refused("closed/x", ERROR_CANNOT_CREATE, strerror(EACCES));
}

static void test_a_sink_says_what_it_is(void **state)
{
    struct bench *bench = *state;

    open_sink(bench, "new");
    assert_string_equal(bench->sink->ops->kind, "file");
    assert_true(bench->sink->ops->stores);
    assert_false(bench->sink->ops->exclusive);
    assert_string_equal(bench->sink->description, "file 'new'");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_an_object_appears_when_it_is_whole),
        TEST(test_an_absolute_path_is_one_too),
        TEST(test_a_new_file_has_what_the_umask_left),
        TEST(test_a_replaced_file_keeps_its_mode),
        TEST(test_special_mode_bits_are_not_kept),
        TEST(test_whoever_has_the_old_file_open_keeps_it),
        TEST(test_gaps_are_zeros_also_at_the_end),
        TEST(test_an_object_has_the_size_that_it_was_committed_with),
        TEST(test_one_object_after_another_replaces),
        TEST(test_objects_at_once_do_not_mix),
        TEST(test_a_name_may_be_as_long_as_any),
        TEST(test_a_symbolic_link_is_followed),
        TEST(test_a_symbolic_link_to_nothing_yet_is_followed),
        TEST(test_an_abandoned_object_leaves_nothing),
        TEST(test_an_abandoned_object_leaves_the_old_file),
        TEST(test_a_name_from_the_client_is_refused),
        TEST(test_storage_that_fails_is_told_and_leaves_nothing),
        TEST(test_a_target_that_became_a_directory_is_told_at_commit),
        TEST(test_a_directory_that_went_is_told_at_begin),
        TEST(test_a_hidden_file_serves_as_well),
        TEST(test_a_new_hidden_file_has_what_the_umask_left),
        TEST(test_an_abandoned_hidden_file_goes),
        TEST(test_a_hidden_file_that_cannot_replace_goes),
        TEST(test_a_file_that_exists_is_refused_without_clobbering),
        TEST(test_an_object_is_resumed),
        TEST(test_what_a_killed_server_left_of_it_goes),
        TEST(test_an_empty_path_is_refused),
        TEST(test_a_directory_is_refused),
        TEST(test_a_fifo_a_device_and_a_socket_are_refused),
        TEST(test_a_directory_that_is_not_there_is_refused),
        TEST(test_a_directory_that_takes_no_files_is_told),
        TEST(test_a_directory_without_permission_is_refused),
        TEST(test_a_sink_says_what_it_is),
    };

    return cmocka_run_group_tests(tests, enter_directory, sandbox_leave);
}

/*
 * test-replacement.c - a file on its way: space, mode, times, order, and what a failure leaves.
 */
#include "config.h"

#include "replacement.h"

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
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "name.h"
#include "sandbox.h"
#include "wire.h"

#define HOUR (3600 * (uint64_t)CLOCK_NS_PER_S)

static struct error err;
static struct sink_options options;
static struct sink_request request;

/* What the system is to fail with; 0: nothing. */
static int fallocate_error, rename_error, rename_new_error, fsync_error, close_error, unreadable;
static uint64_t free_bytes; /* 0: as many as there are */
static uint64_t allocated;
static const char *late_target; /* appears just before a rename that replaces nothing */
static char order[256]; /* of calls that matter for durability */

static void note(const char *what)
{
    size_t used = strlen(order);

    snprintf(order + used, sizeof(order) - used, "%s%s", used ? " " : "", what);
}

static void make_file(const char *path, const char *content, mode_t mode)
{
    sandbox_make(path, content, strlen(content), mode);
}

static void assert_content(const char *path, const char *content)
{
    sandbox_assert_content(path, content, strlen(content));
}

static int fails(int errnum)
{
    errno = errnum;
    return errnum ? -1 : 0;
}

int fallocate(int fd, int mode, off_t offset, off_t len)
{
    allocated = (uint64_t)len;
    if (fails(fallocate_error) < 0)
        return -1;
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int fstatvfs(int fd, struct statvfs *fs)
{
    (void)fd;
    *fs = (struct statvfs){.f_frsize = 4096, .f_blocks = free_bytes ? 1 << 30 : 0};
    fs->f_bavail = fs->f_bfree = free_bytes / 4096;
    return 0;
}

/* Of a file that was written to. */
int close(int fd)
{
    struct stat st;
    bool written = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0;
    int rc = (int)syscall(SYS_close, fd);

    return written && fails(close_error) < 0 ? -1 : rc;
}

int renameat(int from, const char *name, int to, const char *leaf)
{
    note("rename");
    if (fails(rename_error) < 0)
        return -1;
    return (int)syscall(SYS_renameat2, from, name, to, leaf, 0);
}

int renameat2(int from, const char *name, int to, const char *leaf, unsigned flags)
{
    note("rename-new");
    if (late_target)
        make_file(late_target, "old", 0600);
    late_target = NULL;
    if (fails(rename_new_error) < 0)
        return -1;
    return (int)syscall(SYS_renameat2, from, name, to, leaf, flags);
}

int fsync(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    note(S_ISDIR(st.st_mode) ? "sync-directory" : "sync-file");
    if (S_ISDIR(st.st_mode) && fails(fsync_error) < 0)
        return -1;
    return (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
    note("sync-all");
    return (int)syscall(SYS_syncfs, fd);
}

int openat(int at, const char *path, int flags, ...)
{
    mode_t mode = 0;

    if (unreadable && strcmp(path, ".") == 0 && flags == (O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        errno = EACCES;
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

static int enter(void **state)
{
    signal(SIGXFSZ, SIG_IGN);
    return sandbox_enter(state);
}

static int setup(void **state)
{
    (void)state;
    error_clear(&err);
    options = (struct sink_options){.keep_ns = HOUR};
    request = (struct sink_request){.name = "", .size = WIRE_UNKNOWN, .bytes = WIRE_UNKNOWN};
    fallocate_error = rename_error = rename_new_error = fsync_error = close_error = unreadable = 0;
    free_bytes = allocated = 0;
    late_target = NULL;
    order[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sandbox_empty();
    return 0;
}

static struct sink_object *try_begin(const char *name)
{
    struct replacement_place place = {.root = sandbox, .name = name, .shown = name, .confined = true};

    return replacement_begin(&place, &request, &options, -1, &err);
}

static struct sink_object *begin(const char *name)
{
    struct sink_object *object = try_begin(name);

    if (!object)
        fail_msg("%s: %s", err.subject, err.text);
    return object;
}

static struct sink_object *begin_with(const char *name, const char *data)
{
    struct sink_object *object = begin(name);

    assert_int_equal(replacement_store(object, 0, data, strlen(data), -1, &err), 0);
    return object;
}

static void deliver(const char *name, const char *data)
{
    if (replacement_commit(begin_with(name, data), strlen(data), -1, &err) < 0)
        fail_msg("%s: %s", err.subject, err.text);
}

static void assert_error(enum error_class class, const char *part)
{
    if (err.class != class || !strstr(err.text, part))
        fail_msg("class %d, '%s'", (int)err.class, err.text);
    error_clear(&err);
}

static void assert_refused(const char *name, enum error_class class, const char *part)
{
    struct sink_object *object = try_begin(name);

    if (object)
        fail_msg("'%s' was taken", name);
    assert_error(class, part);
}

static void assert_commit_fails(struct sink_object *object, enum error_class class,
                                const char *part)
{
    assert_int_equal(replacement_commit(object, 3, -1, &err), -1);
    assert_int_equal(err.stage, STAGE_COMMIT);
    assert_error(class, part);
}

/*
 * Mode and times
 */

static void test_preserved_mode_and_times_are_set(void **state)
{
    struct stat st;

    (void)state;
    make_file("x", "old", 0600);
    request.preserve = true;
    request.mode = 07751;
    request.accessed = (struct timespec){1000000001, 123456789};
    request.modified = (struct timespec){1000000002, 987654321};
    options.sync = true;
    deliver("x", "new");
    assert_int_equal(sandbox_mode("x"), 0751);
    assert_int_equal(stat("x", &st), 0);
    assert_true(st.st_mtim.tv_sec == 1000000002 && st.st_mtim.tv_nsec == 987654321);
    assert_true(st.st_atim.tv_sec == 1000000001 && st.st_atim.tv_nsec == 123456789);
}

static void test_mode_and_times_are_not_taken_without_preserve(void **state)
{
    struct stat st;

    (void)state;
    request.mode = 0777;
    request.modified.tv_sec = 1000;
    deliver("x", "new");
    assert_int_equal(sandbox_mode("x"), 0644);
    assert_int_equal(stat("x", &st), 0);
    assert_true(st.st_mtim.tv_sec > 1000);
}

static void test_a_resumed_new_file_has_what_the_umask_leaves(void **state)
{
    (void)state;
    request.resume = true;
    umask(027);
    deliver("x", "new");
    umask(022);
    assert_int_equal(sandbox_mode("x"), 0640);
}

static void test_a_replaced_file_keeps_its_permissions(void **state)
{
    (void)state;
    make_file("x", "old", 06604);
    deliver("x", "new");
    assert_int_equal(sandbox_mode("x"), 0604);
    assert_content("x", "new");
}

/*
 * What is refused, and what is not replaced
 */

static void test_only_regular_files_are_replaced(void **state)
{
    (void)state;
    assert_int_equal(mkdir("dir", 0755), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    assert_int_equal(symlink("target", "link"), 0);
    assert_refused("dir", ERROR_CANNOT_CREATE, "directory");
    assert_refused("fifo", ERROR_CANNOT_CREATE, "FIFO");
    assert_refused("link", ERROR_CANNOT_CREATE, "symbolic link");
    assert_int_equal(sandbox_count("."), 3);
}

static void test_what_came_meanwhile_is_not_replaced_either(void **state)
{
    struct sink_object *object;

    (void)state;
    object = begin_with("x", "new");
    assert_int_equal(symlink("target", "x"), 0);
    assert_commit_fails(object, ERROR_CANNOT_CREATE, "symbolic link");
    assert_int_equal(sandbox_count("."), 1);
}

static void test_without_clobbering_what_exists_is_refused(void **state)
{
    (void)state;
    make_file("x", "old", 0600);
    assert_int_equal(symlink("nothing", "link"), 0);
    options.no_clobber = true;
    assert_null(try_begin("x"));
    assert_true(err.hint[0] != '\0');
    assert_error(ERROR_CANNOT_CREATE, "exists already");
    assert_refused("link", ERROR_CANNOT_CREATE, "exists already");
    assert_content("x", "old");
    deliver("y", "new");
    assert_content("y", "new");
    assert_non_null(strstr(order, "rename-new"));
    assert_int_equal(sandbox_count("."), 3);
}

static void test_a_target_that_came_meanwhile_is_not_clobbered(void **state)
{
    struct sink_object *object;

    (void)state;
    options.no_clobber = true;
    object = begin_with("x", "new");
    make_file("x", "old", 0600);
    assert_commit_fails(object, ERROR_CANNOT_CREATE, "exists already");
    assert_content("x", "old");
    assert_int_equal(sandbox_count("."), 1);
}

/* After the last check, so that only the rename itself can see it. */
static void test_a_target_that_came_at_the_last_moment_is_not_clobbered(void **state)
{
    static const int errors[] = {0, EINVAL};

    (void)state;
    options.no_clobber = true;
    for (size_t i = 0; i < 2; i++) {
        struct sink_object *object = begin_with("x", "new");

        rename_new_error = errors[i];
        late_target = "x";
        assert_commit_fails(object, ERROR_CANNOT_CREATE, "exists already");
        assert_null(late_target);
        assert_content("x", "old");
        assert_int_equal(sandbox_count("."), 1);
        unlink("x");
    }
}

static void test_two_sessions_without_clobbering_make_one_object(void **state)
{
    struct sink_object *first, *second;

    (void)state;
    options.no_clobber = true;
    first = begin_with("x", "one");
    second = begin_with("x", "two");
    assert_int_equal(replacement_commit(second, 3, -1, &err), 0);
    assert_commit_fails(first, ERROR_CANNOT_CREATE, "exists already");
    assert_content("x", "two");
    assert_int_equal(sandbox_count("."), 1);
}

static void test_no_clobbering_works_by_links_too(void **state)
{
    static const int errors[] = {EINVAL, ENOSYS};

    (void)state;
    options.no_clobber = true;
    for (size_t i = 0; i < 2; i++) {
        rename_new_error = errors[i];
        deliver("x", "new");
        assert_content("x", "new");
        assert_int_equal(sandbox_count("."), 1);
        unlink("x");
    }
}

/*
 * Space
 */

static void test_space_is_reserved_for_a_dense_object(void **state)
{
    struct sink_object *object;
    struct stat st;

    (void)state;
    request.size = request.bytes = 1 << 20;
    request.resume = true;
    replacement_abandon(begin_with("x", "abc"), true);
    assert_int_equal(allocated, 1 << 20);
    allocated = 0;
    object = begin("x");
    assert_int_equal(replacement_kept(object), 3); /* what is reserved does not count */
    replacement_abandon(object, false);
    assert_int_equal(allocated, 1 << 20);
    request.resume = false;
    assert_int_equal(replacement_commit(begin_with("x", "abc"), 3, -1, &err), 0);
    assert_int_equal(stat("x", &st), 0);
    assert_int_equal(st.st_size, 3);
}

static void test_holes_stay_holes(void **state)
{
    struct sink_object *object;
    struct stat st;

    (void)state;
    free_bytes = 1 << 30;
    request.size = UINT64_C(1) << 33;
    request.bytes = 2;
    object = begin("x");
    assert_int_equal(allocated, 0);
    assert_int_equal(replacement_store(object, 1 << 20, "a", 1, -1, &err), 0);
    assert_int_equal(replacement_store(object, UINT64_C(1) << 32, "b", 1, -1, &err), 0);
    assert_int_equal(replacement_commit(object, request.size, -1, &err), 0);
    assert_int_equal(stat("x", &st), 0);
    assert_true(st.st_size == (off_t)1 << 33);
    assert_true(st.st_blocks * 512 < 1 << 20);
}

static void test_no_room_is_told_before_anything_arrives(void **state)
{
    static const int errors[] = {ENOSPC, EDQUOT, EFBIG};

    (void)state;
    request.size = request.bytes = 4096;
    for (size_t i = 0; i < 3; i++) {
        fallocate_error = errors[i];
        assert_refused("x", ERROR_CANNOT_CREATE, strerror(errors[i]));
        request.resume = true;
        assert_refused("x", ERROR_CANNOT_CREATE, strerror(errors[i]));
        request.resume = false;
    }
    assert_int_equal(sandbox_count("."), 0);
}

/* Begins and commits with so many descriptors more. */
static bool succeeds_with(rlim_t descriptors)
{
    struct rlimit old, limit;
    int next = dup(sandbox);

    close(next);
    error_clear(&err);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    limit.rlim_cur = (rlim_t)next + descriptors;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct sink_object *object = try_begin("made/new/x");
    bool committed = object && replacement_commit(object, 0, -1, &err) == 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    return committed;
}

static void test_no_descriptor_left_is_a_resource_error(void **state)
{
    rlim_t descriptors = 0;

    (void)state;
    assert_int_equal(mkdir("made", 0777), 0);
    request.size = request.bytes = 0;
    for (; !succeeds_with(descriptors); descriptors++) {
        assert_int_equal(err.class, ERROR_RESOURCE);
        assert_non_null(strstr(err.text, strerror(EMFILE)));
        assert_string_equal(err.hint, "");
        assert_int_equal(sandbox_count("made"), 0);
    }
    assert_true(descriptors > 3);
}

static void test_a_file_system_that_reserves_nothing_will_do(void **state)
{
    static const int errors[] = {EOPNOTSUPP, ENOSYS, EINVAL, ENODEV};

    (void)state;
    request.size = request.bytes = 3;
    for (size_t i = 0; i < 4; i++) {
        fallocate_error = errors[i];
        deliver("x", "abc");
        assert_content("x", "abc");
    }
    free_bytes = 4096;
    request.size = request.bytes = 4097;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(ENOSPC));
}

static void test_an_object_with_holes_must_fit_too(void **state)
{
    (void)state;
    free_bytes = 8192;
    request.size = 1 << 30;
    request.bytes = 8193;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(ENOSPC));
    request.bytes = 8192;
    replacement_abandon(begin("x"), false);
}

/* Else it takes, before it fails, what others count on. */
static void test_what_does_not_fit_is_not_begun_to_be_reserved(void **state)
{
    (void)state;
    free_bytes = 8192;
    request.size = request.bytes = 8193;
    allocated = 0;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(ENOSPC));
    assert_true(allocated == 0);
    request.size = request.bytes = 8192;
    replacement_abandon(begin("x"), false);
    assert_true(allocated == 8192);
}

static void test_the_limit_of_file_sizes_is_told_at_once(void **state)
{
    struct rlimit limit, old;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    request.size = 1001;
    request.bytes = 1;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(EFBIG));
    request.size = request.bytes = 1001;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(EFBIG));
    request.size = request.bytes = 1000;
    replacement_abandon(begin("x"), false);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    request.size = UINT64_C(1) << 63;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(EFBIG));
}

/*
 * Directories
 */

static void test_missing_directories_are_made_at_the_commit(void **state)
{
    struct sink_object *object;

    (void)state;
    umask(027);
    object = begin_with("a/b/c/x", "new");
    assert_int_equal(sandbox_count("."), 0);
    assert_int_equal(replacement_commit(object, 3, -1, &err), 0);
    umask(022);
    assert_content("a/b/c/x", "new");
    assert_int_equal(sandbox_mode("a/b/c/x"), 0640);
    assert_int_equal(sandbox_mode("a/b"), 0750);
    assert_int_equal(sandbox_count("."), 1);
    assert_int_equal(sandbox_count("a/b/c"), 1);
}

static void test_an_abandoned_object_makes_no_directories(void **state)
{
    (void)state;
    replacement_abandon(begin_with("a/b/x", "new"), false);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_a_failed_commit_removes_the_directories_it_made(void **state)
{
    (void)state;
    assert_int_equal(mkdir("a", 0755), 0);
    rename_error = EIO;
    assert_commit_fails(begin_with("a/b/c/x", "new"), ERROR_STORAGE, strerror(EIO));
    assert_int_equal(sandbox_count("."), 1);
    assert_int_equal(sandbox_count("a"), 0);
    assert_commit_fails(begin_with("n/x", "new"), ERROR_STORAGE, strerror(EIO));
    assert_int_equal(sandbox_count("."), 1);
}

static void test_directories_that_others_made_stay(void **state)
{
    struct sink_object *object;

    (void)state;
    object = begin_with("a/b/x", "new");
    assert_int_equal(mkdir("a", 0755), 0);
    rename_error = EIO;
    assert_commit_fails(object, ERROR_STORAGE, strerror(EIO));
    assert_int_equal(sandbox_count("a"), 0);
    rename_error = 0;
    object = begin_with("c/x", "new");
    deliver("c/y", "other");
    assert_int_equal(replacement_commit(object, 3, -1, &err), 0);
    assert_content("c/x", "new");
    assert_content("c/y", "other");
}

static void test_links_and_files_that_came_for_directories_are_refused(void **state)
{
    struct sink_object *object;

    (void)state;
    assert_int_equal(mkdir("outside", 0755), 0);
    object = begin_with("a/b/x", "new");
    assert_int_equal(symlink("outside", "a"), 0);
    assert_commit_fails(object, ERROR_CANNOT_CREATE, "cannot make its directory");
    object = begin_with("c/x", "new");
    make_file("c", "", 0600);
    assert_commit_fails(object, ERROR_CANNOT_CREATE, strerror(ENOTDIR));
    assert_int_equal(sandbox_count("outside"), 0);
    assert_int_equal(sandbox_count("."), 3);
}

static void test_a_directory_that_was_swapped_gets_nothing(void **state)
{
    struct sink_object *object;

    (void)state;
    assert_int_equal(mkdir("outside", 0755), 0);
    assert_int_equal(mkdir("a", 0755), 0);
    object = begin_with("a/x", "new");
    assert_int_equal(rename("a", "moved"), 0);
    assert_int_equal(symlink("outside", "a"), 0);
    assert_commit_fails(object, ERROR_CANNOT_CREATE, "moved");
    assert_int_equal(sandbox_count("outside"), 0);
    assert_int_equal(sandbox_count("moved"), 0);
}

/*
 * Durability
 */

static void assert_order(const char *expected)
{
    if (strcmp(order, expected) != 0)
        fail_msg("'%s'", order);
    order[0] = '\0';
}

static void test_nothing_is_synced_unasked(void **state)
{
    (void)state;
    deliver("a/x", "new");
    assert_order("rename");
}

static void test_file_then_rename_then_directory_are_synced(void **state)
{
    (void)state;
    request.sync = true;
    deliver("x", "new");
    assert_order("sync-file rename sync-directory");
    request.sync = false;
    options.sync = options.no_clobber = true;
    deliver("y", "new");
    assert_order("sync-file rename-new sync-directory");
}

static void test_directories_that_were_made_are_synced(void **state)
{
    (void)state;
    request.sync = true;
    deliver("a/b/x", "new");
    assert_order("sync-directory sync-directory sync-file rename sync-directory");
}

static void test_a_directory_that_cannot_be_synced(void **state)
{
    (void)state;
    request.sync = true;
    fsync_error = EINVAL;
    deliver("x", "new");
    fsync_error = 0;
    unreadable = 1;
    order[0] = '\0';
    deliver("x", "new");
    assert_order("sync-file rename sync-all");
    unreadable = 0;
    fsync_error = EIO;
    assert_commit_fails(begin_with("y", "new"), ERROR_STORAGE, "it is there");
    assert_content("y", "new");
}

/* As on a network file system whose server has no room, and says so late. */
static void test_a_write_that_fails_at_the_close_fails_the_commit(void **state)
{
    (void)state;
    make_file("x", "old", 0600);
    close_error = EDQUOT;
    assert_commit_fails(begin_with("x", "new"), ERROR_STORAGE, strerror(EDQUOT));
    close_error = 0;
    assert_content("x", "old");
    assert_int_equal(sandbox_count("."), 1);
}

/*
 * Resuming
 */

static const char *partial_in(const char *path)
{
    static char name[NAME_MOST + 1];
    DIR *dir = opendir(path);
    const struct dirent *entry;

    assert_non_null(dir);
    name[0] = '\0';
    while ((entry = readdir(dir)))
        if (name_kind(entry->d_name) == NAME_PARTIAL)
            snprintf(name, sizeof(name), "%s", entry->d_name);
    closedir(dir);
    return name[0] ? name : NULL;
}

static void test_what_was_kept_is_gone_on_from(void **state)
{
    struct sink_object *object;
    char buf[8] = "";

    (void)state;
    request.resume = true;
    object = begin_with("x", "hello");
    assert_int_equal(replacement_kept(object), 0);
    replacement_abandon(object, true);
    assert_non_null(partial_in("."));
    object = begin("x");
    assert_int_equal(replacement_kept(object), 5);
    assert_int_equal(replacement_recall(object, 0, buf, 4, &err), 0);
    assert_string_equal(buf, "hell");
    assert_int_equal(replacement_recall(object, 4, buf, 1, &err), 0);
    assert_string_equal(buf, "oell");
    assert_int_equal(replacement_resume_at(object, 5, &err), 0);
    assert_int_equal(replacement_store(object, 5, " you", 4, -1, &err), 0);
    assert_int_equal(replacement_commit(object, 9, -1, &err), 0);
    assert_content("x", "hello you");
    assert_int_equal(sandbox_mode("x"), 0644);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_what_was_kept_in_a_gap_is_told(void **state)
{
    struct sink_object *object;
    char buf[8] = "";

    (void)state;
    request.resume = true;
    object = begin("x");
    assert_int_equal(replacement_store(object, 10000, "end", 3, -1, &err), 0);
    replacement_abandon(object, true);
    object = begin("x");
    assert_int_equal(replacement_recall(object, 10000, buf, 3, &err), 0);
    assert_string_equal(buf, "end");
    replacement_abandon(object, true);
    object = begin("x");
    assert_int_equal(replacement_recall(object, 10001, buf, 2, &err), -1);
    assert_int_equal(err.class, ERROR_STORAGE);
    error_clear(&err);
    replacement_abandon(object, false);
}

static void test_the_rest_of_what_was_kept_goes(void **state)
{
    struct sink_object *object;

    (void)state;
    request.resume = true;
    replacement_abandon(begin_with("x", "0123456789"), true);
    object = begin("x");
    assert_int_equal(replacement_resume_at(object, 11, &err), -1);
    assert_error(ERROR_BUG, "behind");
    assert_int_equal(replacement_resume_at(object, 2, &err), 0);
    assert_int_equal(replacement_recall(object, 0, order, 3, &err), -1);
    assert_error(ERROR_STORAGE, "shorter");
    assert_int_equal(replacement_store(object, 4, "x", 1, -1, &err), 0);
    assert_int_equal(replacement_commit(object, 5, -1, &err), 0);
    assert_int_equal(sandbox_count("."), 1);
    order[0] = '\0';
    {
        char buf[8];
        int fd = open("x", O_RDONLY);

        assert_int_equal(read(fd, buf, sizeof(buf)), 5);
        assert_memory_equal(buf, "01\0\0x", 5);
        close(fd);
    }
}

static void test_what_was_kept_never_shows_in_a_gap(void **state)
{
    struct sink_object *object;
    char buf[8];
    int fd;

    (void)state;
    request.resume = true;
    replacement_abandon(begin_with("x", "0123456789"), true);
    object = begin("x");
    assert_int_equal(replacement_resume_at(object, 0, &err), 0);
    assert_int_equal(replacement_store(object, 3, "x", 1, -1, &err), 0);
    assert_int_equal(replacement_commit(object, 6, -1, &err), 0);
    fd = open("x", O_RDONLY);
    assert_int_equal(read(fd, buf, sizeof(buf)), 6);
    assert_memory_equal(buf, "\0\0\0x\0\0", 6);
    close(fd);
}

static void test_only_what_is_good_is_kept(void **state)
{
    (void)state;
    request.resume = true;
    replacement_abandon(begin_with("x", "bad"), false);
    assert_int_equal(sandbox_count("."), 0);
    replacement_abandon(begin("x"), true);
    assert_int_equal(sandbox_count("."), 0);
    request.resume = false;
    replacement_abandon(begin_with("x", "good"), true);
    assert_int_equal(sandbox_count("."), 0);
}

static void test_another_source_or_name_begins_anew(void **state)
{
    struct sink_object *object;

    (void)state;
    assert_int_equal(mkdir("a", 0755), 0);
    request.resume = true;
    replacement_abandon(begin_with("a/x", "kept"), true);
    assert_non_null(partial_in("a"));
    object = begin("x");
    assert_int_equal(replacement_kept(object), 0);
    replacement_abandon(object, false);
    request.identity[15] = 1;
    object = begin("a/x");
    assert_int_equal(replacement_kept(object), 0);
    replacement_abandon(object, false);
    request.identity[15] = 0;
    object = begin("a/x");
    assert_int_equal(replacement_kept(object), 4);
    replacement_abandon(object, false);
}

static void test_no_more_is_kept_than_the_object_has(void **state)
{
    struct sink_object *object;

    (void)state;
    request.resume = true;
    replacement_abandon(begin_with("x", "0123456789"), true);
    request.size = request.bytes = 4;
    object = begin("x");
    assert_int_equal(replacement_kept(object), 4);
    assert_int_equal(replacement_resume_at(object, 4, &err), 0);
    assert_int_equal(replacement_commit(object, 4, -1, &err), 0);
    assert_content("x", "0123");
}

static void test_an_object_that_is_being_written_is_busy(void **state)
{
    struct sink_object *object;

    (void)state;
    request.resume = true;
    object = begin_with("x", "half");
    assert_refused("x", ERROR_TEMPORARY, "another session");
    request.resume = false;
    deliver("x", "whole"); /* the same name without resuming */
    assert_int_equal(replacement_commit(object, 4, -1, &err), 0);
    assert_content("x", "half");
}

static void test_a_failed_commit_keeps_what_may_be_resumed(void **state)
{
    struct sink_object *object;

    (void)state;
    request.resume = request.preserve = true;
    request.mode = 0400;
    rename_error = EIO;
    assert_commit_fails(begin_with("a/x", "new"), ERROR_STORAGE, strerror(EIO));
    assert_int_equal(sandbox_count("."), 1);
    assert_int_equal(sandbox_mode(partial_in(".")), 0600);
    rename_error = 0;
    object = begin("a/x");
    assert_int_equal(replacement_kept(object), 3);
    assert_int_equal(replacement_resume_at(object, 3, &err), 0);
    assert_int_equal(replacement_commit(object, 3, -1, &err), 0);
    assert_content("a/x", "new");
    assert_int_equal(sandbox_mode("a/x"), 0400);
    assert_int_equal(sandbox_count("."), 1);
}

static void test_what_lacks_room_stays_kept(void **state)
{
    struct sink_object *object;

    (void)state;
    request.resume = true;
    replacement_abandon(begin_with("x", "kept"), true);
    request.size = request.bytes = 8;
    fallocate_error = ENOSPC;
    assert_refused("x", ERROR_CANNOT_CREATE, strerror(ENOSPC));
    fallocate_error = 0;
    object = begin("x");
    assert_int_equal(replacement_kept(object), 4);
    fallocate_error = ENOSPC;
    assert_int_equal(replacement_resume_at(object, 0, &err), -1);
    assert_error(ERROR_CANNOT_CREATE, strerror(ENOSPC));
    replacement_abandon(object, false);
    assert_int_equal(sandbox_count("."), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_preserved_mode_and_times_are_set),
        TEST(test_mode_and_times_are_not_taken_without_preserve),
        TEST(test_a_resumed_new_file_has_what_the_umask_leaves),
        TEST(test_a_replaced_file_keeps_its_permissions),
        TEST(test_only_regular_files_are_replaced),
        TEST(test_what_came_meanwhile_is_not_replaced_either),
        TEST(test_without_clobbering_what_exists_is_refused),
        TEST(test_a_target_that_came_meanwhile_is_not_clobbered),
        TEST(test_a_target_that_came_at_the_last_moment_is_not_clobbered),
        TEST(test_two_sessions_without_clobbering_make_one_object),
        TEST(test_no_clobbering_works_by_links_too),
        TEST(test_space_is_reserved_for_a_dense_object),
        TEST(test_holes_stay_holes),
        TEST(test_no_room_is_told_before_anything_arrives),
        TEST(test_no_descriptor_left_is_a_resource_error),
        TEST(test_a_file_system_that_reserves_nothing_will_do),
        TEST(test_an_object_with_holes_must_fit_too),
        TEST(test_what_does_not_fit_is_not_begun_to_be_reserved),
        TEST(test_the_limit_of_file_sizes_is_told_at_once),
        TEST(test_missing_directories_are_made_at_the_commit),
        TEST(test_an_abandoned_object_makes_no_directories),
        TEST(test_a_failed_commit_removes_the_directories_it_made),
        TEST(test_directories_that_others_made_stay),
        TEST(test_links_and_files_that_came_for_directories_are_refused),
        TEST(test_a_directory_that_was_swapped_gets_nothing),
        TEST(test_nothing_is_synced_unasked),
        TEST(test_file_then_rename_then_directory_are_synced),
        TEST(test_directories_that_were_made_are_synced),
        TEST(test_a_directory_that_cannot_be_synced),
        TEST(test_a_write_that_fails_at_the_close_fails_the_commit),
        TEST(test_what_was_kept_is_gone_on_from),
        TEST(test_what_was_kept_in_a_gap_is_told),
        TEST(test_the_rest_of_what_was_kept_goes),
        TEST(test_what_was_kept_never_shows_in_a_gap),
        TEST(test_only_what_is_good_is_kept),
        TEST(test_another_source_or_name_begins_anew),
        TEST(test_no_more_is_kept_than_the_object_has),
        TEST(test_an_object_that_is_being_written_is_busy),
        TEST(test_a_failed_commit_keeps_what_may_be_resumed),
        TEST(test_what_lacks_room_stays_kept),
    };

    return cmocka_run_group_tests(tests, enter, sandbox_leave);
}

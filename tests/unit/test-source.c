/*
 * test-source.c - files and streams that segments name, and how they change.
 */
#include "config.h"

#include "source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define MANY 200      /* more than stay open */
#define MOST_OPEN 64
#define LARGEST "9223372036854775807"

static char directory[] = "/tmp/test-source.XXXXXX";

struct bench {
    struct source *source;
    struct plan *plan;
    struct error err;
    int stop[2];  /* stop_fd, and its other end */
    int input[2]; /* a pipe */
};

static int enter_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? chdir(directory) : -1;
}

static int leave_directory(void **state)
{
    (void)state;
    return chdir("/") == 0 ? rmdir(directory) : -1;
}

static void make_file(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    alarm(PATIENCE_S);
    if (!bench || pipe(bench->stop) < 0 || pipe(bench->input) < 0)
        return -1;
    bench->source = source_new(&bench->err);
    bench->plan = plan_new(PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    make_file("digits", "0123456789");
    *state = bench;
    return bench->source && bench->plan ? 0 : -1;
}

static void empty_directory(void)
{
    DIR *dir = opendir(".");
    const struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlink(entry->d_name) < 0)
            rmdir(entry->d_name);
    closedir(dir);
}

static void close_if_open(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    source_free(bench->source);
    plan_free(bench->plan);
    for (int i = 0; i < 2; i++) {
        close_if_open(&bench->stop[i]);
        close_if_open(&bench->input[i]);
    }
    free(bench);
    empty_directory();
    return 0;
}

static int add(struct bench *bench, const char *argument)
{
    struct segment segment;
    char problem[128];
    int rc;

    assert_int_equal(segment_parse(argument, &segment, problem, sizeof(problem)), SEGMENT_OK);
    error_clear(&bench->err);
    rc = source_add(bench->source, &segment, bench->plan, &bench->err);
    segment_free(&segment);
    return rc;
}

/* Adds a segment that is in order, and returns its piece. */
static const struct plan_piece *added(struct bench *bench, const char *argument)
{
    if (add(bench, argument) < 0)
        fail_msg("'%s': %s", argument, bench->err.text);
    return plan_piece(bench->plan, plan_count(bench->plan) - 1, NULL);
}

static ssize_t read_at(struct bench *bench, unsigned file, uint64_t offset, void *buf, size_t len,
                       bool *ended)
{
    return source_read(bench->source, file, offset, buf, len, bench->stop[0], ended, &bench->err);
}

static void assert_reads(struct bench *bench, unsigned file, uint64_t offset, const char *expected)
{
    char buf[64];
    bool ended = true;
    size_t len = strlen(expected);

    assert_true(len < sizeof(buf));
    if (read_at(bench, file, offset, buf, len, &ended) != (ssize_t)len)
        fail_msg("%s: %s", source_path(bench->source, file), bench->err.text);
    assert_memory_equal(buf, expected, len);
    assert_false(ended);
}

static void assert_error(const struct bench *bench, enum error_class class, const char *subject,
                         const char *part)
{
    if (bench->err.class != class || strcmp(bench->err.subject, subject) != 0 ||
        !strstr(bench->err.text, part))
        fail_msg("class %d, '%s': '%s' in place of class %d, '%s': '%s'", (int)bench->err.class,
                 bench->err.subject, bench->err.text, (int)class, subject, part);
}

static void assert_refused(struct bench *bench, const char *argument, enum error_class class,
                           const char *part)
{
    char *path = strndup(argument, strcspn(argument, "@"));
    size_t count = plan_count(bench->plan);

    assert_int_equal(add(bench, argument), -1);
    assert_error(bench, class, path, part);
    assert_int_equal(plan_count(bench->plan), count);
    free(path);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Another time of modification than any that a file got by itself. */
static void touch(const char *path)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000, .tv_nsec = 7}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/*
 * Ranges of files
 */

static void test_a_segment_is_a_range_of_its_file(void **state)
{
    static const struct {
        const char *argument;
        uint64_t offset, length;
        const char *content;
    } rows[] = {
        {"digits", 0, 10, "0123456789"},
        {"digits@", 0, 10, "0123456789"},
        {"digits@4", 4, 6, "456789"},
        {"digits@+3", 0, 3, "012"},
        {"digits@2+3", 2, 3, "234"},
        {"digits@0x2+0x3", 2, 3, "234"},
        {"digits@-4", 6, 4, "6789"},
        {"digits@-4+2", 6, 2, "67"},
        {"digits@-10", 0, 10, "0123456789"},
        {"digits@10", 10, 0, ""},
        {"digits@3+0", 3, 0, ""},
        {"digits@-0", 10, 0, ""},
    };
    struct bench *bench = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct plan_piece *piece = added(bench, rows[i].argument);

        if (piece->offset != rows[i].offset || piece->length != rows[i].length)
            fail_msg("'%s': %d+%d", rows[i].argument, (int)piece->offset, (int)piece->length);
        assert_true(piece->dest == PLAN_UNKNOWN);
        assert_reads(bench, piece->source, piece->offset, rows[i].content);
    }
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
}

static void test_a_remote_offset_becomes_the_pieces_place(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(added(bench, "digits@=4K")->dest, 4096);
    assert_int_equal(added(bench, "digits@1+2=0")->dest, 0);
}

static void test_a_range_that_the_file_does_not_have_is_too_short(void **state)
{
    struct bench *bench = *state;

    assert_refused(bench, "digits@11", ERROR_SOURCE, "too short");
    assert_refused(bench, "digits@+11", ERROR_SOURCE, "past its 10 bytes");
    assert_refused(bench, "digits@5+6", ERROR_SOURCE, "too short");
    assert_refused(bench, "digits@-4+5", ERROR_SOURCE, "too short");
    assert_refused(bench, "digits@-11", ERROR_SOURCE, "OFFSET -11 lies before the start");
    assert_refused(bench, "digits@1+" LARGEST, ERROR_USAGE, "2^63");
}

static void test_more_bytes_than_an_object_may_have_are_a_usage_error(void **state)
{
    struct bench *bench = *state;

    added(bench, "/dev/zero@+" LARGEST);
    assert_int_equal(add(bench, "digits"), -1);
    assert_int_equal(bench->err.class, ERROR_USAGE);
    assert_non_null(strstr(bench->err.text, "2^63"));
}

static void test_an_empty_file_is_no_stream(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece;

    make_file("empty", "");
    piece = added(bench, "empty");
    assert_int_equal(piece->offset, 0);
    assert_int_equal(piece->length, 0);
    added(bench, "empty"); /* a stream could be named only once */
    assert_refused(bench, "empty@1", ERROR_SOURCE, "too short");
    piece = added(bench, "/dev/null");
    assert_int_equal(piece->length, 0);
}

static void test_segments_of_one_file_share_it(void **state)
{
    struct bench *bench = *state;
    unsigned first = added(bench, "digits@5")->source;
    int open = open_descriptors();

    make_file("other", "x");
    assert_int_equal(added(bench, "digits@+5")->source, first);
    assert_int_equal(open_descriptors(), open);
    assert_true(added(bench, "other")->source != first);
    assert_string_equal(source_path(bench->source, first), "digits");
}

static void test_what_cannot_be_opened_is_told(void **state)
{
    struct bench *bench = *state;

    assert_refused(bench, "missing", ERROR_SOURCE, strerror(ENOENT));
    assert_string_equal(bench->err.hint, "");
    assert_refused(bench, "digits/below", ERROR_SOURCE, strerror(ENOTDIR));
    assert_int_equal(add(bench, "user@host"), -1);
    assert_error(bench, ERROR_SOURCE, "user@host", strerror(ENOENT));
    assert_non_null(strstr(bench->err.hint, "PATH[@"));
}

static void test_a_directory_is_refused_with_the_way_to_send_one(void **state)
{
    struct bench *bench = *state;

    assert_int_equal(mkdir("dir", 0700), 0);
    assert_refused(bench, "dir", ERROR_SOURCE, "is a directory");
    assert_non_null(strstr(bench->err.hint, "tar c dir"));
}

static void test_no_descriptor_left_is_a_resource_error(void **state)
{
    struct bench *bench = *state;
    struct rlimit limit, old_limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(add(bench, "digits"), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    assert_error(bench, ERROR_RESOURCE, "digits", strerror(EMFILE));
}

/*
 * Files that change
 */

static void test_a_file_that_shrinks_is_an_error(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;
    char buf[10];
    bool ended;

    assert_int_equal(truncate("digits", 4), 0);
    assert_reads(bench, file, 0, "0123");
    assert_int_equal(read_at(bench, file, 0, buf, 10, &ended), -1);
    assert_error(bench, ERROR_DATA, "digits", "became shorter");
    assert_false(ended);
    error_clear(&bench->err);
    assert_int_equal(read_at(bench, file, 4, buf, 1, &ended), -1);
    assert_error(bench, ERROR_DATA, "digits", "became shorter");
    assert_non_null(strstr(bench->err.hint, "nothing was committed"));
}

static void test_a_change_of_size_shows_at_the_end(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;

    make_file("other", "x");
    added(bench, "other");
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
    assert_int_equal(truncate("digits", 11), 0);
    assert_reads(bench, file, 0, "0123456789");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

static void test_a_change_of_time_shows_at_the_end(void **state)
{
    struct bench *bench = *state;

    added(bench, "digits");
    touch("digits");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

static void test_errno_of_a_failed_read_is_told(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;
    char buf[4];
    bool ended;

    assert_int_equal(read_at(bench, file, UINT64_MAX, buf, 4, &ended), -1);
    assert_error(bench, ERROR_STORAGE, "digits", strerror(EOVERFLOW));
}

/*
 * Many files
 */

static void many_names(unsigned i, char path[16], char content[24])
{
    snprintf(path, 16, "many-%u", i);
    snprintf(content, 24, "content %u", i);
}

static void add_many(struct bench *bench)
{
    char path[16], content[24];

    for (unsigned i = 0; i < MANY; i++) {
        many_names(i, path, content);
        make_file(path, content);
        assert_int_equal(added(bench, path)->source, i);
    }
}

static void assert_reads_many(struct bench *bench, unsigned i)
{
    char path[16], content[24];

    many_names(i, path, content);
    assert_reads(bench, i, 0, content);
}

static void test_many_files_are_read_though_few_stay_open(void **state)
{
    struct bench *bench = *state;
    int before = open_descriptors();

    add_many(bench);
    assert_true(open_descriptors() <= before + MOST_OPEN);
    for (unsigned i = 0; i < MANY; i++)
        assert_reads_many(bench, i);
    for (unsigned i = MANY; i-- > 0;)
        assert_reads_many(bench, i);
    for (unsigned i = 0; i < 3 * MANY; i++)
        assert_reads_many(bench, i * 37 % MANY);
    assert_true(open_descriptors() <= before + MOST_OPEN);
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
    source_free(bench->source);
    bench->source = NULL;
    assert_int_equal(open_descriptors(), before);
}

static void test_a_stream_stays_open_among_many_files(void **state)
{
    struct bench *bench = *state;
    char path[32], buf[8];
    unsigned stream;
    bool ended;

    add_many(bench);
    snprintf(path, sizeof(path), "/dev/fd/%d", bench->input[0]);
    stream = added(bench, path)->source;
    close_if_open(&bench->input[0]);
    for (unsigned i = 0; i < MANY; i++)
        assert_reads_many(bench, i);
    assert_int_equal(write(bench->input[1], "abc", 3), 3);
    assert_int_equal(read_at(bench, stream, 0, buf, sizeof(buf), &ended), 3);
    assert_memory_equal(buf, "abc", 3);
}

/* many-0 is closed once all of them were added. */
static void assert_reopening_tells_a_change(struct bench *bench)
{
    char buf[1];
    bool ended;

    assert_int_equal(read_at(bench, 0, 0, buf, 1, &ended), -1);
    assert_error(bench, ERROR_DATA, "many-0", "changed");
    error_clear(&bench->err);
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "many-0", "changed");
}

static void test_a_replaced_file_is_told_when_it_is_opened_again(void **state)
{
    struct bench *bench = *state;
    struct timespec times[2];
    struct stat st;

    add_many(bench);
    assert_int_equal(stat("many-0", &st), 0);
    make_file("replacement", "content X");
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, "replacement", times, 0), 0);
    assert_int_equal(rename("replacement", "many-0"), 0);
    assert_reopening_tells_a_change(bench);
}

static void test_a_touched_file_is_told_when_it_is_opened_again(void **state)
{
    struct bench *bench = *state;

    add_many(bench);
    touch("many-0");
    assert_reopening_tells_a_change(bench);
}

static void test_a_closed_file_that_changed_is_told_at_the_end(void **state)
{
    struct bench *bench = *state;

    add_many(bench);
    touch("many-0");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "many-0", "changed");
}

static void test_a_closed_file_that_went_is_told(void **state)
{
    struct bench *bench = *state;
    char buf[1];
    bool ended;

    add_many(bench);
    unlink("many-0");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "many-0", "changed");
    error_clear(&bench->err);
    assert_int_equal(read_at(bench, 0, 0, buf, 1, &ended), -1);
    assert_error(bench, ERROR_SOURCE, "many-0", strerror(ENOENT));
}

/*
 * Streams
 */

/* Adds the pipe with a suffix. */
static const struct plan_piece *add_pipe(struct bench *bench, const char *suffix)
{
    char argument[64];

    snprintf(argument, sizeof(argument), "/dev/fd/%d%s", bench->input[0], suffix);
    return added(bench, argument);
}

static void feed(struct bench *bench, const char *text)
{
    assert_int_equal(write(bench->input[1], text, strlen(text)), strlen(text));
}

/* The stream gives expected, and no more now. */
static void assert_stream_gives(struct bench *bench, unsigned file, const char *expected,
                                bool at_end)
{
    char buf[64];
    bool ended = !at_end;

    assert_int_equal(read_at(bench, file, 0, buf, sizeof(buf), &ended), strlen(expected));
    assert_memory_equal(buf, expected, strlen(expected));
    assert_true(ended == at_end);
}

static void test_a_pipe_is_a_stream_of_unknown_length(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece = add_pipe(bench, "");

    assert_int_equal(piece->offset, 0);
    assert_true(piece->length == PLAN_UNKNOWN);
    feed(bench, "abc");
    assert_stream_gives(bench, piece->source, "abc", false);
    feed(bench, "de");
    feed(bench, "f");
    assert_stream_gives(bench, piece->source, "def", false);
    feed(bench, "last");
    close_if_open(&bench->input[1]);
    assert_stream_gives(bench, piece->source, "last", true);
    assert_stream_gives(bench, piece->source, "", true);
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
}

static void test_a_read_of_a_stream_takes_no_more_than_asked(void **state)
{
    struct bench *bench = *state;
    unsigned file = add_pipe(bench, "")->source;
    char buf[4];
    bool ended = true;

    feed(bench, "abcdef");
    close_if_open(&bench->input[1]);
    assert_int_equal(read_at(bench, file, 0, buf, 4, &ended), 4);
    assert_memory_equal(buf, "abcd", 4);
    assert_false(ended);
    assert_stream_gives(bench, file, "ef", true);
}

static void test_a_non_blocking_pipe_is_read_as_any(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece;
    int saved = dup(STDIN_FILENO);

    assert_true(fcntl(bench->input[0], F_SETFL, O_NONBLOCK) == 0);
    assert_true(dup2(bench->input[0], STDIN_FILENO) == STDIN_FILENO);
    piece = added(bench, "-");
    feed(bench, "abc");
    assert_stream_gives(bench, piece->source, "abc", false);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
}

static void test_a_stream_may_have_a_length(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece = add_pipe(bench, "@+4=100");

    assert_int_equal(piece->offset, 0);
    assert_int_equal(piece->length, 4);
    assert_int_equal(piece->dest, 100);
}

static void test_a_stream_has_no_offset(void **state)
{
    struct bench *bench = *state;
    char argument[64];

    snprintf(argument, sizeof(argument), "/dev/fd/%d@4", bench->input[0]);
    assert_refused(bench, argument, ERROR_USAGE, "OFFSET");
    assert_non_null(strstr(bench->err.hint, "@+LENGTH"));
    snprintf(argument, sizeof(argument), "/proc/self/fd/%d@-4", bench->input[0]);
    assert_refused(bench, argument, ERROR_USAGE, "OFFSET");
    assert_refused(bench, "-@0", ERROR_USAGE, "OFFSET");
    assert_refused(bench, "/proc/self/maps@1", ERROR_USAGE, "OFFSET");
}

static void test_a_stream_is_named_once(void **state)
{
    struct bench *bench = *state;
    char argument[64];

    add_pipe(bench, "@+1");
    snprintf(argument, sizeof(argument), "/dev/fd/%d", bench->input[0]);
    assert_refused(bench, argument, ERROR_USAGE, "named twice");
}

/* Reads a stream to its end. */
static size_t read_whole(struct bench *bench, unsigned file, char *buf, size_t size)
{
    size_t used = 0;
    bool ended = false;

    while (!ended && used < size) {
        ssize_t n = read_at(bench, file, used, buf + used, size - used, &ended);

        assert_true(n >= 0);
        used += (size_t)n;
    }
    assert_true(ended);
    return used;
}

static void test_files_of_proc_are_streams(void **state)
{
    static const char *const paths[] = {"/proc/version", "/proc/filesystems", "/proc/self/limits"};
    struct bench *bench = *state;
    static char expected[65536], buf[65536];

    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const struct plan_piece *piece = added(bench, paths[i]);
        int fd = open(paths[i], O_RDONLY);
        ssize_t len = read(fd, expected, sizeof(expected));

        close(fd);
        assert_true(piece->length == PLAN_UNKNOWN);
        assert_true(len > 0);
        assert_int_equal(read_whole(bench, piece->source, buf, sizeof(buf)), len);
        assert_memory_equal(buf, expected, (size_t)len);
    }
    added(bench, "/proc/self/maps");
}

static void test_an_endless_device_is_a_stream(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece *piece = added(bench, "/dev/zero@+5");
    char buf[5] = "xxxxx";
    bool ended = true;

    assert_int_equal(piece->length, 5);
    assert_int_equal(read_at(bench, piece->source, 0, buf, 5, &ended), 5);
    assert_memory_equal(buf, "\0\0\0\0\0", 5);
    assert_false(ended);
}

static void test_standard_input_is_a_stream_from_where_it_stands(void **state)
{
    struct bench *bench = *state;
    int saved = dup(STDIN_FILENO), fd = open("digits", O_RDONLY);
    const struct plan_piece *piece;

    assert_int_equal(lseek(fd, 6, SEEK_SET), 6);
    assert_true(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
    piece = added(bench, "-");
    assert_true(piece->length == PLAN_UNKNOWN);
    assert_string_equal(source_path(bench->source, piece->source), "-");
    assert_stream_gives(bench, piece->source, "6789", true);
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
    source_free(bench->source);
    bench->source = NULL;
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
}

static void test_standard_input_that_is_closed_is_told(void **state)
{
    struct bench *bench = *state;
    int saved = dup(STDIN_FILENO);

    close(STDIN_FILENO);
    assert_int_equal(add(bench, "-"), -1);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
    assert_error(bench, ERROR_SOURCE, "-", strerror(EBADF));
}

static void test_a_stream_that_fails_did_not_end(void **state)
{
    struct bench *bench = *state;
    int saved = dup(STDIN_FILENO);
    unsigned file;
    char buf[4];
    bool ended = true;

    /* The end of a pipe that cannot be read; poll(2) tells an error once the other one is closed. */
    assert_true(dup2(bench->input[1], STDIN_FILENO) == STDIN_FILENO);
    file = added(bench, "-")->source;
    close_if_open(&bench->input[0]);
    assert_int_equal(read_at(bench, file, 0, buf, 4, &ended), -1);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
    assert_false(ended);
    assert_error(bench, ERROR_STORAGE, "-", strerror(EBADF));
}

static void test_waiting_for_a_stream_can_be_stopped(void **state)
{
    struct bench *bench = *state;
    unsigned file = add_pipe(bench, "")->source;
    char buf[4];
    bool ended = true;

    assert_int_equal(write(bench->stop[1], "", 1), 1);
    assert_int_equal(read_at(bench, file, 0, buf, 4, &ended), -1);
    assert_int_equal(bench->err.class, ERROR_INTERRUPTED);
    assert_false(ended);
}

static void test_files_are_read_though_a_stop_is_due(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;

    assert_int_equal(write(bench->stop[1], "", 1), 1);
    assert_reads(bench, file, 0, "0123456789");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_segment_is_a_range_of_its_file),
        TEST(test_a_remote_offset_becomes_the_pieces_place),
        TEST(test_a_range_that_the_file_does_not_have_is_too_short),
        TEST(test_more_bytes_than_an_object_may_have_are_a_usage_error),
        TEST(test_an_empty_file_is_no_stream),
        TEST(test_segments_of_one_file_share_it),
        TEST(test_what_cannot_be_opened_is_told),
        TEST(test_a_directory_is_refused_with_the_way_to_send_one),
        TEST(test_no_descriptor_left_is_a_resource_error),
        TEST(test_a_file_that_shrinks_is_an_error),
        TEST(test_a_change_of_size_shows_at_the_end),
        TEST(test_a_change_of_time_shows_at_the_end),
        TEST(test_errno_of_a_failed_read_is_told),
        TEST(test_many_files_are_read_though_few_stay_open),
        TEST(test_a_stream_stays_open_among_many_files),
        TEST(test_a_replaced_file_is_told_when_it_is_opened_again),
        TEST(test_a_touched_file_is_told_when_it_is_opened_again),
        TEST(test_a_closed_file_that_changed_is_told_at_the_end),
        TEST(test_a_closed_file_that_went_is_told),
        TEST(test_a_pipe_is_a_stream_of_unknown_length),
        TEST(test_a_read_of_a_stream_takes_no_more_than_asked),
        TEST(test_a_non_blocking_pipe_is_read_as_any),
        TEST(test_a_stream_may_have_a_length),
        TEST(test_a_stream_has_no_offset),
        TEST(test_a_stream_is_named_once),
        TEST(test_files_of_proc_are_streams),
        TEST(test_an_endless_device_is_a_stream),
        TEST(test_standard_input_is_a_stream_from_where_it_stands),
        TEST(test_standard_input_that_is_closed_is_told),
        TEST(test_a_stream_that_fails_did_not_end),
        TEST(test_waiting_for_a_stream_can_be_stopped),
        TEST(test_files_are_read_though_a_stop_is_due),
    };

    return cmocka_run_group_tests(tests, enter_directory, leave_directory);
}

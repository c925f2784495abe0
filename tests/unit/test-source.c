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
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_S 60 /* a test that waits longer ends the program */
#define MANY 200      /* more than stay open */
#define MOST_OPEN 64
#define LARGEST "9223372036854775807"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define NS_PER_S INT64_C(1000000000)
#define TICK_NS INT64_C(4000000)
#define MOST_TICKS 20 /* that a file is waited for */

/*
 * System calls that a test may answer itself
 */

struct range {
    uint64_t start, end;
};

static struct {
    bool seeks; /* SEEK_DATA and SEEK_HOLE go by what follows */
    int seek_errno;
    bool is_stuck; /* each byte is a hole and data */
    struct range data[4];
    uint64_t file_end;
    int seek_calls;

    int read_errno; /* of reads at read_from and behind, unless 0 */
    off_t read_from;

    bool times;         /* clock and files' times go by what follows, in ns */
    int64_t now;        /* the clock, which only sleep moves */
    int64_t written;    /* the time of all files */
    int64_t lead;       /* how much later they were modified than changed */
    bool is_block;      /* all files are block devices */
    bool is_rewritten;  /* in each sleep */
    const char *growth; /* is appended to "digits" in the first sleep */
    int sleeps;
} fake;

static off_t seek_fake(uint64_t offset, int whence)
{
    fake.seek_calls++;
    errno = fake.seek_errno;
    if (fake.seek_errno)
        return -1;
    if (fake.is_stuck)
        return (off_t)offset;
    errno = ENXIO;
    if (offset >= fake.file_end)
        return -1;
    for (size_t i = 0; i < COUNT_OF(fake.data); i++) {
        const struct range *data = &fake.data[i];

        if (whence == SEEK_DATA && offset < data->end)
            return (off_t)(offset > data->start ? offset : data->start);
        if (whence == SEEK_HOLE && offset >= data->start && offset < data->end)
            offset = data->end;
    }
    return whence == SEEK_HOLE ? (off_t)offset : -1;
}

off_t lseek(int fd, off_t offset, int whence)
{
    if (fake.seeks && (whence == SEEK_DATA || whence == SEEK_HOLE))
        return seek_fake((uint64_t)offset, whence);
    return lseek64(fd, offset, whence);
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    if (fake.read_errno && offset >= fake.read_from) {
        errno = fake.read_errno;
        return -1;
    }
    if (fake.read_errno && (off_t)len > fake.read_from - offset)
        iov.iov_len = (size_t)(fake.read_from - offset);
    return preadv(fd, &iov, 1, offset);
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

static int64_t coarse_now(void)
{
    return fake.now - fake.now % TICK_NS;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!fake.times || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return (int)syscall(SYS_clock_gettime, clock, time);
    *time = to_timespec(clock == CLOCK_REALTIME ? fake.now : coarse_now());
    return 0;
}

int clock_getres(clockid_t clock, struct timespec *resolution)
{
    if (!fake.times)
        return (int)syscall(SYS_clock_getres, clock, resolution);
    assert_int_equal(clock, CLOCK_REALTIME_COARSE);
    *resolution = to_timespec(TICK_NS);
    return 0;
}

int fstat(int fd, struct stat *st)
{
    int rc = fstatat(fd, "", st, AT_EMPTY_PATH);

    if (rc == 0 && fake.times) {
        st->st_ctim = to_timespec(fake.written);
        st->st_mtim = to_timespec(fake.written + fake.lead);
    }
    if (rc == 0 && fake.is_block)
        st->st_mode = S_IFBLK | 0600;
    return rc;
}

static void append_to(const char *path, const char *content);

int nanosleep(const struct timespec *time, struct timespec *left)
{
    if (!fake.times)
        return clock_nanosleep(CLOCK_MONOTONIC, 0, time, left);
    fake.now += time->tv_sec * NS_PER_S + time->tv_nsec;
    fake.sleeps++;
    if (fake.is_rewritten)
        fake.written = coarse_now();
    if (fake.growth && fake.sleeps == 1)
        append_to("digits", fake.growth);
    return 0;
}

struct bench {
    struct source *source;
    struct plan *plan;
    struct error err;
    int stop[2];  /* stop_fd, and its other end */
    int input[2]; /* a pipe */
};

static void make_file(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static void append_to(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_APPEND);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    close(fd);
}

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    alarm(PATIENCE_S);
    memset(&fake, 0, sizeof(fake));
    if (!bench || pipe(bench->stop) < 0 || pipe(bench->input) < 0)
        return -1;
    bench->source = source_new(&bench->err);
    bench->plan = plan_new(PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    make_file("digits", "0123456789");
    *state = bench;
    return bench->source && bench->plan ? 0 : -1;
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

    memset(&fake, 0, sizeof(fake));
    source_free(bench->source);
    plan_free(bench->plan);
    for (int i = 0; i < 2; i++) {
        close_if_open(&bench->stop[i]);
        close_if_open(&bench->input[i]);
    }
    free(bench);
    sandbox_empty();
    return 0;
}

static int add_as(struct bench *bench, const char *argument, bool sparse)
{
    struct segment segment;
    char problem[128];
    int rc;

    assert_int_equal(segment_parse(argument, &segment, problem, sizeof(problem)), SEGMENT_OK);
    error_clear(&bench->err);
    rc = source_add(bench->source, &segment, sparse, bench->plan, &bench->err);
    segment_free(&segment);
    return rc;
}

static int add(struct bench *bench, const char *argument)
{
    return add_as(bench, argument, false);
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
    assert_non_null(strstr(bench->err.hint, "try again"));
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

/* Fails at the third byte; the first two are there. */
static void test_a_read_that_fails_halfway_is_no_end(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;
    char buf[10];
    bool ended = true;

    fake.read_errno = EIO;
    fake.read_from = 2;
    assert_int_equal(read_at(bench, file, 0, buf, 10, &ended), -1);
    assert_error(bench, ERROR_STORAGE, "digits", strerror(EIO));
    assert_false(ended);
}

static void test_a_file_that_cannot_be_read_is_not_empty(void **state)
{
    struct bench *bench = *state;

    make_file("empty", "");
    fake.read_errno = EIO;
    assert_refused(bench, "empty", ERROR_STORAGE, strerror(EIO));
}

static void test_a_file_rewritten_in_place_shows_at_the_end(void **state)
{
    struct bench *bench = *state;
    int fd = open("digits", O_WRONLY);
    unsigned file = added(bench, "digits")->source;

    assert_int_equal(pwrite(fd, "9", 1, 9), 1);
    close(fd);
    assert_reads(bench, file, 0, "0123456789");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

/* What is read is the old file still, whose content is as it was; it lost its name, however. */
static void test_a_file_replaced_while_it_is_open_shows_at_the_end(void **state)
{
    struct bench *bench = *state;
    unsigned file = added(bench, "digits")->source;

    make_file("replacement", "9876543210");
    assert_int_equal(rename("replacement", "digits"), 0);
    assert_reads(bench, file, 0, "0123456789");
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

/*
 * Times that advance in ticks
 */

static void set_clock(void)
{
    fake.times = true;
    fake.now = 1000 * NS_PER_S + TICK_NS / 2;
}

static void test_a_file_is_waited_for_until_its_times_lie_back(void **state)
{
    static const struct {
        int64_t age; /* ns before the last tick */
        int sleeps;
    } rows[] = {
        {0, 3},
        {1, 2},
        {TICK_NS, 2},
        {2 * TICK_NS, 1},
        {2 * TICK_NS + 1, 0},
        {NS_PER_S, 0},
        {-TICK_NS / 2, 3}, /* as a clock with finer ticks has it */
        {-TICK_NS / 2 - 1, 0},
        {-NS_PER_S, 0},
    };
    struct bench *bench = *state;
    char path[16];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(path, sizeof(path), "file-%zu", i);
        make_file(path, "x");
        set_clock();
        fake.sleeps = 0;
        fake.written = coarse_now() - rows[i].age;
        added(bench, path);
        if (fake.sleeps != rows[i].sleeps)
            fail_msg("%d ns: %d ticks, not %d", (int)rows[i].age, fake.sleeps, rows[i].sleeps);
    }
}

static void test_a_change_in_the_tick_of_the_one_before_it_shows_at_the_end(void **state)
{
    struct bench *bench = *state;

    set_clock();
    fake.written = coarse_now();
    added(bench, "digits");
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
    fake.written = coarse_now(); /* written as soon as it was added */
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

static void test_a_file_written_all_the_time_has_changed(void **state)
{
    struct bench *bench = *state;

    set_clock();
    fake.written = coarse_now();
    fake.is_rewritten = true;
    added(bench, "digits");
    assert_int_equal(fake.sleeps, MOST_TICKS);
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

static void test_a_file_has_the_size_that_it_came_to(void **state)
{
    struct bench *bench = *state;

    set_clock();
    fake.written = coarse_now();
    fake.growth = "abc";
    assert_int_equal(added(bench, "digits")->length, 13);
    assert_int_equal(source_verify(bench->source, &bench->err), 0);
}

static void test_a_file_is_waited_for_by_either_time(void **state)
{
    struct bench *bench = *state;

    set_clock();
    fake.written = coarse_now();
    fake.lead = -NS_PER_S;
    added(bench, "digits");
    assert_int_equal(fake.sleeps, 3);
    make_file("other", "x");
    fake.written = coarse_now() - NS_PER_S;
    fake.lead = NS_PER_S;
    added(bench, "other");
    assert_int_equal(fake.sleeps, 6);
}

static void test_either_time_tells_a_change(void **state)
{
    struct bench *bench = *state;

    set_clock();
    fake.written = NS_PER_S;
    added(bench, "digits");
    fake.lead = 1;
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    error_clear(&bench->err);
    fake.written++;
    fake.lead = -1;
    assert_int_equal(source_verify(bench->source, &bench->err), -1);
    assert_error(bench, ERROR_DATA, "digits", "changed");
}

static void test_only_regular_files_are_waited_for(void **state)
{
    struct bench *bench = *state;
    char path[32];

    set_clock();
    fake.written = coarse_now();
    snprintf(path, sizeof(path), "/dev/fd/%d", bench->input[0]);
    added(bench, path);
    added(bench, "/proc/version");
    added(bench, "/dev/zero@+1");
    added(bench, "/dev/null");
    assert_int_equal(fake.sleeps, 0);
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
    }
    for (unsigned i = 0; i < MANY; i++) {
        many_names(i, path, content);
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
 * Holes
 */

static void make_hole(const char *path, uint64_t size)
{
    make_file(path, "");
    assert_int_equal(truncate(path, (off_t)size), 0);
}

/* A file of size bytes, of which the file system says that it has data in these ranges. */
static void make_layout(uint64_t size, const struct range *data, size_t count)
{
    make_hole("layout", size);
    memset(&fake, 0, sizeof(fake));
    fake.seeks = true;
    fake.file_end = size;
    for (size_t i = 0; i < count; i++)
        fake.data[i] = data[i];
}

static void make_one_layout(uint64_t size, uint64_t start, uint64_t end)
{
    make_layout(size, &(struct range){start, end}, 1);
}

static void begin_plan(struct bench *bench, enum plan_order order)
{
    plan_free(bench->plan);
    source_free(bench->source);
    bench->plan = plan_new(order, PLAN_TARGET_SLOT);
    bench->source = source_new(&bench->err);
    assert_non_null(bench->plan);
    assert_non_null(bench->source);
}

static void add_sparse(struct bench *bench, const char *argument)
{
    if (add_as(bench, argument, true) < 0)
        fail_msg("'%s': %s", argument, bench->err.text);
}

struct part {
    uint64_t offset, length, dest;
    bool hole;
};

#define HERE PLAN_UNKNOWN /* right behind the part before it */

static void assert_parts(struct bench *bench, const struct part *parts, size_t count)
{
    assert_int_equal(plan_count(bench->plan), count);
    for (size_t i = 0; i < count; i++) {
        const struct plan_piece *piece = plan_piece(bench->plan, i, NULL);

        if (piece->offset != parts[i].offset || piece->length != parts[i].length ||
            piece->dest != parts[i].dest || piece->hole != parts[i].hole)
            fail_msg("part %zu: %s %ju+%ju", i, piece->hole ? "hole" : "data",
                     (uintmax_t)piece->offset, (uintmax_t)piece->length);
    }
}

#define ASSERT_PARTS(bench, ...)                            \
    assert_parts(bench, (const struct part[]){__VA_ARGS__}, \
                 COUNT_OF(((const struct part[]){__VA_ARGS__})))

static void test_a_sparse_file_becomes_data_and_holes(void **state)
{
    static const struct range data[] = {{MIB, 2 * MIB}, {3 * MIB, 4 * MIB}};
    struct bench *bench = *state;

    make_layout(5 * MIB, data, 2);
    add_sparse(bench, "layout@=7");
    ASSERT_PARTS(bench, {0, MIB, 7, true}, {MIB, MIB, HERE, false}, {2 * MIB, MIB, HERE, true},
                 {3 * MIB, MIB, HERE, false}, {4 * MIB, MIB, HERE, true});

    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout@1500K+3M");
    ASSERT_PARTS(bench, {1500 * KIB, 548 * KIB, HERE, false}, {2 * MIB, MIB, HERE, true},
                 {3 * MIB, MIB, HERE, false}, {4 * MIB, 476 * KIB, HERE, true});

    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout@2500K+500K"); /* before data, as another hole is */
    ASSERT_PARTS(bench, {2500 * KIB, 500 * KIB, HERE, true});

    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout@1M+1M");
    ASSERT_PARTS(bench, {MIB, MIB, HERE, false});

    begin_plan(bench, PLAN_AS_GIVEN);
    added(bench, "layout");
    ASSERT_PARTS(bench, {0, 5 * MIB, HERE, false});
}

static void test_a_file_that_is_one_hole_is_one_piece(void **state)
{
    struct bench *bench = *state;

    make_layout(3 * MIB, NULL, 0);
    add_sparse(bench, "layout");
    add_sparse(bench, "layout@1M=0");
    ASSERT_PARTS(bench, {0, 3 * MIB, HERE, true}, {MIB, 2 * MIB, 0, true});
}

static void test_small_holes_are_sent(void **state)
{
    static const struct range comb[] = {
        {0, 1}, {64 * KIB, 64 * KIB + 1}, {128 * KIB + 1, 128 * KIB + 2}, {130 * KIB, 131 * KIB}};
    struct bench *bench = *state;

    make_layout(195 * KIB - 1, comb, 4);
    add_sparse(bench, "layout"); /* 64 KiB - 1, 64 KiB, less, 64 KiB - 1 */
    ASSERT_PARTS(bench, {0, 64 * KIB + 1, HERE, false}, {64 * KIB + 1, 64 * KIB, HERE, true},
                 {128 * KIB + 1, 67 * KIB - 2, HERE, false});

    make_layout(64 * KIB - 1, NULL, 0);
    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout");
    ASSERT_PARTS(bench, {0, 64 * KIB - 1, HERE, false});

    make_one_layout(MIB, 64 * KIB, MIB);
    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout@1"); /* what the segment has of the hole counts */
    ASSERT_PARTS(bench, {1, MIB - 1, HERE, false});
    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout");
    ASSERT_PARTS(bench, {0, 64 * KIB, HERE, true}, {64 * KIB, MIB - 64 * KIB, HERE, false});
}

static void test_an_empty_segment_is_an_empty_piece(void **state)
{
    struct bench *bench = *state;

    make_layout(MIB, NULL, 0);
    add_sparse(bench, "layout@+0=5");
    add_sparse(bench, "layout@1M");
    ASSERT_PARTS(bench, {0, 0, 5, false}, {MIB, 0, HERE, false});
}

static void test_parts_of_segments_follow_one_another(void **state)
{
    struct bench *bench = *state;
    size_t a, b;

    make_one_layout(2 * MIB, 0, MIB);
    begin_plan(bench, PLAN_BY_DEST);
    add_sparse(bench, "layout@=10M");
    add_sparse(bench, "digits");
    add_sparse(bench, "layout@=0");
    add_sparse(bench, "digits");
    assert_int_equal(plan_seal(bench->plan, &a, &b), PLAN_OK);
    ASSERT_PARTS(bench, {0, MIB, 0, false}, {MIB, MIB, MIB, true}, {0, 10, 2 * MIB, false},
                 {0, MIB, 10 * MIB, false}, {MIB, MIB, 11 * MIB, true}, {0, 10, 12 * MIB, false});
    assert_int_equal(plan_bytes(bench->plan), 2 * MIB + 20);
}

static void test_where_no_holes_are_told_all_is_data(void **state)
{
    static const int errnums[] = {EINVAL, ENXIO, EOPNOTSUPP, EIO};
    struct bench *bench = *state;

    make_layout(MIB, NULL, 0);
    for (size_t i = 0; i < COUNT_OF(errnums); i++) {
        begin_plan(bench, PLAN_AS_GIVEN);
        fake.seek_errno = errnums[i];
        add_sparse(bench, "layout@=3");
        ASSERT_PARTS(bench, {0, MIB, 3, false});
    }
    fake.seek_errno = 0;
    fake.is_stuck = true;
    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout");
    ASSERT_PARTS(bench, {0, MIB, HERE, false});
}

static void test_only_regular_files_are_asked_for_holes(void **state)
{
    struct bench *bench = *state;
    char path[32];

    make_layout(MIB, NULL, 0);
    snprintf(path, sizeof(path), "/dev/fd/%d@+1M", bench->input[0]);
    add_sparse(bench, path);
    add_sparse(bench, "/dev/zero@+1M");
    add_sparse(bench, "/proc/version");
    add_sparse(bench, "/dev/null");
    assert_int_equal(fake.seek_calls, 0);
    assert_int_equal(plan_piece(bench->plan, 0, NULL)->length, MIB);
    assert_true(plan_piece(bench->plan, 2, NULL)->length == PLAN_UNKNOWN);
    fake.is_block = true;
    begin_plan(bench, PLAN_AS_GIVEN);
    add_sparse(bench, "layout");
    ASSERT_PARTS(bench, {0, MIB, HERE, false});
    assert_int_equal(fake.seek_calls, 0);
}

/* Adds a file of 1 MiB, and so many others that it was closed since. */
static void add_closed(struct bench *bench)
{
    char path[16], content[24];

    make_hole("closed", MIB);
    added(bench, "closed");
    for (unsigned i = 0; i < MOST_OPEN; i++) {
        many_names(i, path, content);
        make_file(path, content);
    }
    for (unsigned i = 0; i < MOST_OPEN; i++) {
        many_names(i, path, content);
        added(bench, path);
    }
    make_one_layout(MIB, 0, 512 * KIB);
}

static void test_holes_of_a_file_that_was_closed_are_found(void **state)
{
    struct bench *bench = *state;

    add_closed(bench);
    add_sparse(bench, "closed");
    assert_int_equal(plan_count(bench->plan), MOST_OPEN + 3);
    assert_true(plan_piece(bench->plan, MOST_OPEN + 2, NULL)->hole);
}

static void test_holes_of_a_file_that_was_replaced_are_not_looked_for(void **state)
{
    struct bench *bench = *state;

    add_closed(bench);
    touch("closed");
    assert_int_equal(add_as(bench, "closed", true), -1);
    assert_error(bench, ERROR_DATA, "closed", "changed");
}

/* The file system's own word. */
static void test_what_a_file_holds_is_in_its_data(void **state)
{
    static const uint64_t written[] = {300000, 2 * MIB - 1, 2 * MIB, 7 * MIB};
    struct bench *bench = *state;
    int fd = open("real", O_RDWR | O_CREAT, 0600);
    uint64_t end = 0, holes = 0;

    assert_int_equal(ftruncate(fd, 10 * MIB), 0);
    for (size_t i = 0; i < COUNT_OF(written); i++)
        assert_int_equal(pwrite(fd, "x", 1, (off_t)written[i]), 1);
    add_sparse(bench, "real");
    if (lseek(fd, 4 * MIB, SEEK_HOLE) != (off_t)(4 * MIB)) {
        close(fd);
        skip(); /* the file system tells of no holes */
    }
    close(fd);
    for (size_t i = 0; i < plan_count(bench->plan); i++) {
        const struct plan_piece *piece = plan_piece(bench->plan, i, NULL);

        assert_int_equal(piece->offset, end);
        end += piece->length;
        for (size_t k = 0; piece->hole && k < COUNT_OF(written); k++)
            assert_false(written[k] >= piece->offset && written[k] < end);
        holes += piece->hole ? piece->length : 0;
    }
    assert_int_equal(end, 10 * MIB);
    assert_true(holes >= 4 * MIB);
}

/*
 * Attributes
 */

static int attributes(struct bench *bench, struct source_attributes *attributes)
{
    error_clear(&bench->err);
    return source_attributes(bench->source, attributes, &bench->err);
}

static void test_attributes_are_those_before_reading(void **state)
{
    const struct timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 7}, {.tv_sec = 2000000000}};
    const struct timespec later[2] = {{.tv_sec = 5}, {.tv_sec = 6}};
    struct bench *bench = *state;
    struct source_attributes found = {.mode = 0};

    assert_int_equal(chmod("digits", 07641), 0);
    assert_int_equal(utimensat(AT_FDCWD, "digits", times, 0), 0);
    added(bench, "digits");
    added(bench, "digits@5");
    added(bench, "./digits@+3");
    assert_int_equal(utimensat(AT_FDCWD, "digits", later, 0), 0);
    assert_int_equal(attributes(bench, &found), 0);
    assert_int_equal(found.mode, 0641);
    assert_int_equal(found.accessed.tv_sec, 1000);
    assert_int_equal(found.accessed.tv_nsec, 7);
    assert_int_equal(found.modified.tv_sec, 2000000000);
    assert_int_equal(found.modified.tv_nsec, 0);
}

static void test_several_files_have_no_attributes(void **state)
{
    struct bench *bench = *state;
    struct source_attributes found;

    make_file("other", "x");
    added(bench, "digits");
    added(bench, "other");
    assert_int_equal(attributes(bench, &found), -1);
    assert_error(bench, ERROR_USAGE, "", "--preserve goes with segments of one file");
}

static void test_what_is_no_regular_file_has_no_attributes(void **state)
{
    struct bench *bench = *state;
    struct source_attributes found;

    added(bench, "/dev/null");
    assert_int_equal(attributes(bench, &found), -1);
    assert_error(bench, ERROR_USAGE, "/dev/null", "no regular file");
    begin_plan(bench, PLAN_AS_GIVEN);
    added(bench, "/proc/version");
    assert_int_equal(attributes(bench, &found), -1);
    assert_error(bench, ERROR_USAGE, "/proc/version", "a stream has no mode");
    begin_plan(bench, PLAN_AS_GIVEN);
    added(bench, "-");
    assert_int_equal(attributes(bench, &found), -1);
    assert_error(bench, ERROR_USAGE, "-", "a stream has no mode");
}

/*
 * Identity
 */

struct identity {
    uint8_t bytes[SOURCE_IDENTITY_BYTES];
};

/* Of these segments, with spaces between. */
static struct identity identity_of(struct bench *bench, const char *segments, bool sparse)
{
    struct identity identity = {{0}};
    char *copy = strdup(segments);
    size_t a, b;

    begin_plan(bench, PLAN_BY_DEST);
    for (char *rest = copy, *segment; (segment = strsep(&rest, " "));)
        if (add_as(bench, segment, sparse) < 0)
            fail_msg("'%s': %s", segment, bench->err.text);
    free(copy);
    assert_int_equal(plan_seal(bench->plan, &a, &b), PLAN_OK);
    assert_int_equal(source_identity(bench->source, bench->plan, identity.bytes, &bench->err), 0);
    return identity;
}

static bool equal(struct identity a, struct identity b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void test_unchanged_files_are_the_same(void **state)
{
    struct bench *bench = *state;
    struct identity identity;

    make_file("other", "x");
    identity = identity_of(bench, "digits other digits@5=1K", true);
    assert_true(equal(identity, identity_of(bench, "digits other digits@5=1K", true)));
    assert_true(equal(identity, identity_of(bench, "./digits ./other ./digits@5=1K", true)));
    assert_reads(bench, 0, 0, "0123456789");
    assert_true(equal(identity, identity_of(bench, "digits other digits@5+5=1K", false)));
}

static void test_each_plan_is_another(void **state)
{
    static const char *const plans[] = {
        "digits",
        "digits@+9",
        "digits@1",
        "digits@=1",
        "digits digits",
        "digits@+0",
        "digits other",
        "other digits",
        "digits other@=10K",
        "other digits@=10K",
        "digits third",
        "third digits",
        "digits@3+3",
        "digits@4+3",
        "digits@3+3=9",
        "digits@=0 other@=100 third@=200",
        "digits@=0 third@=100 other@=200",
        "other@=0 third@=100",
        "other@=100 third@=0",
        "digits@+1=0 digits@+1=3 digits@+1=9",
        "digits@+1=0 digits@+1=4 digits@+1=9",
    };
    struct bench *bench = *state;
    struct identity found[COUNT_OF(plans)];

    make_file("other", "x");
    make_file("third", "x");
    for (size_t i = 0; i < COUNT_OF(plans); i++) {
        found[i] = identity_of(bench, plans[i], false);
        for (size_t k = 0; k < i; k++)
            if (equal(found[i], found[k]))
                fail_msg("'%s' and '%s'", plans[k], plans[i]);
    }
}

static void test_holes_make_another_plan(void **state)
{
    struct bench *bench = *state;
    struct identity filled, shorter;

    make_one_layout(3 * MIB, 0, MIB);
    filled = identity_of(bench, "layout", false);
    shorter = identity_of(bench, "layout@+2M", true);
    assert_false(equal(identity_of(bench, "layout", true), filled));
    assert_false(equal(identity_of(bench, "layout", true), shorter)); /* by the size alone */
    assert_true(equal(identity_of(bench, "layout", true), identity_of(bench, "layout", true)));
}

static void test_a_hole_is_the_gap_that_it_makes(void **state)
{
    static const struct range data[] = {{0, MIB}, {2 * MIB, 3 * MIB}};
    struct bench *bench = *state;

    make_layout(3 * MIB, data, 2);
    assert_true(equal(identity_of(bench, "layout", true),
                      identity_of(bench, "layout@+1M layout@2M=2M", false)));
}

static void test_a_changed_file_is_another(void **state)
{
    struct bench *bench = *state;
    struct identity before = identity_of(bench, "digits", true), after;
    struct timespec times[2];
    struct stat st;

    assert_int_equal(chmod("digits", 0640), 0); /* changes no time but ctime */
    after = identity_of(bench, "digits", true);
    assert_false(equal(before, after));
    before = after;

    make_file("digits", "9876543210");
    after = identity_of(bench, "digits", true);
    assert_false(equal(before, after));
    before = after;

    assert_int_equal(stat("digits", &st), 0);
    times[0] = st.st_atim;
    times[1] = st.st_mtim;
    append_to("digits", "x");
    assert_int_equal(utimensat(AT_FDCWD, "digits", times, 0), 0);
    after = identity_of(bench, "digits@+10", true);
    assert_false(equal(before, after));
}

/* Each of what stat tells counts, though all else be the same. */
static void test_a_file_is_known_by_inode_size_and_times(void **state)
{
    struct bench *bench = *state;
    struct identity before;

    make_file("other", "0123456789");
    set_clock();
    fake.written = NS_PER_S;
    before = identity_of(bench, "digits", true);
    assert_true(equal(before, identity_of(bench, "digits", true)));
    assert_false(equal(before, identity_of(bench, "other", true)));
    fake.written++;
    assert_false(equal(before, identity_of(bench, "digits", true)));
    fake.lead = -1;
    assert_false(equal(before, identity_of(bench, "digits", true)));
    fake.written = NS_PER_S;
    fake.lead = 1;
    assert_false(equal(before, identity_of(bench, "digits", true)));
    fake.lead = 0;
    fake.written += NS_PER_S;
    assert_false(equal(before, identity_of(bench, "digits", true)));
    fake.written = NS_PER_S;
    append_to("digits", "x");
    assert_false(equal(before, identity_of(bench, "digits@+10", true)));
}

static void test_a_block_device_is_known_without_its_times(void **state)
{
    struct bench *bench = *state;
    struct identity before;

    make_file("other", "0123456789");
    set_clock();
    fake.is_block = true;
    before = identity_of(bench, "digits", true);
    fake.written += NS_PER_S;
    assert_true(equal(before, identity_of(bench, "digits", true)));
    assert_false(equal(before, identity_of(bench, "other", true)));
}

static void test_a_stream_is_never_the_same(void **state)
{
    static const char *const streams[] = {"-", "/proc/version", "/dev/zero@+1"};
    struct bench *bench = *state;
    uint8_t identity[SOURCE_IDENTITY_BYTES];

    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        char *path = strndup(streams[i], strcspn(streams[i], "@"));

        begin_plan(bench, PLAN_AS_GIVEN);
        added(bench, "digits");
        added(bench, streams[i]);
        assert_int_equal(source_identity(bench->source, bench->plan, identity, &bench->err), -1);
        assert_error(bench, ERROR_USAGE, path, "a stream cannot be resumed");
        free(path);
    }
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

static void test_a_fifo_is_opened_before_its_writer(void **state)
{
    struct bench *bench = *state;
    unsigned file;
    char buf[4];
    bool ended;

    assert_int_equal(mkfifo("fifo", 0600), 0);
    file = added(bench, "fifo")->source;
    assert_int_equal(write(bench->stop[1], "!", 1), 1);
    assert_int_equal(read_at(bench, file, 0, buf, sizeof(buf), &ended), -1);
    assert_error(bench, ERROR_INTERRUPTED, "fifo", "interrupted");
    error_clear(&bench->err);
    assert_int_equal(read(bench->stop[0], buf, 1), 1);
    close_if_open(&bench->input[1]);
    bench->input[1] = open("fifo", O_WRONLY);
    feed(bench, "abc");
    assert_stream_gives(bench, file, "abc", false);
    close_if_open(&bench->input[1]);
    assert_stream_gives(bench, file, "", true);
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

/* As a terminal does that hangs up. */
static void test_a_stream_that_fails_later_did_not_end(void **state)
{
    struct bench *bench = *state;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), saved = dup(STDIN_FILENO), other;
    unsigned file;
    char buf[8];
    bool ended = true;

    assert_int_equal(grantpt(terminal), 0);
    assert_int_equal(unlockpt(terminal), 0);
    other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_int_equal(write(other, "abc", 3), 3);
    close(other);
    assert_true(dup2(terminal, STDIN_FILENO) == STDIN_FILENO);
    close(terminal);
    file = added(bench, "-")->source;
    assert_int_equal(read_at(bench, file, 0, buf, 3, &ended), 3);
    assert_false(ended);
    assert_int_equal(read_at(bench, file, 3, buf, 3, &ended), -1);
    assert_true(dup2(saved, STDIN_FILENO) == STDIN_FILENO);
    close(saved);
    assert_false(ended);
    assert_error(bench, ERROR_STORAGE, "-", strerror(EIO));
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
        TEST(test_a_read_that_fails_halfway_is_no_end),
        TEST(test_a_file_that_cannot_be_read_is_not_empty),
        TEST(test_a_file_rewritten_in_place_shows_at_the_end),
        TEST(test_a_file_replaced_while_it_is_open_shows_at_the_end),
        TEST(test_a_file_is_waited_for_until_its_times_lie_back),
        TEST(test_a_change_in_the_tick_of_the_one_before_it_shows_at_the_end),
        TEST(test_a_file_written_all_the_time_has_changed),
        TEST(test_a_file_has_the_size_that_it_came_to),
        TEST(test_a_file_is_waited_for_by_either_time),
        TEST(test_either_time_tells_a_change),
        TEST(test_only_regular_files_are_waited_for),
        TEST(test_many_files_are_read_though_few_stay_open),
        TEST(test_a_stream_stays_open_among_many_files),
        TEST(test_a_replaced_file_is_told_when_it_is_opened_again),
        TEST(test_a_touched_file_is_told_when_it_is_opened_again),
        TEST(test_a_closed_file_that_changed_is_told_at_the_end),
        TEST(test_a_closed_file_that_went_is_told),
        TEST(test_a_sparse_file_becomes_data_and_holes),
        TEST(test_a_file_that_is_one_hole_is_one_piece),
        TEST(test_small_holes_are_sent),
        TEST(test_an_empty_segment_is_an_empty_piece),
        TEST(test_parts_of_segments_follow_one_another),
        TEST(test_where_no_holes_are_told_all_is_data),
        TEST(test_only_regular_files_are_asked_for_holes),
        TEST(test_holes_of_a_file_that_was_closed_are_found),
        TEST(test_holes_of_a_file_that_was_replaced_are_not_looked_for),
        TEST(test_what_a_file_holds_is_in_its_data),
        TEST(test_attributes_are_those_before_reading),
        TEST(test_several_files_have_no_attributes),
        TEST(test_what_is_no_regular_file_has_no_attributes),
        TEST(test_unchanged_files_are_the_same),
        TEST(test_each_plan_is_another),
        TEST(test_holes_make_another_plan),
        TEST(test_a_hole_is_the_gap_that_it_makes),
        TEST(test_a_changed_file_is_another),
        TEST(test_a_file_is_known_by_inode_size_and_times),
        TEST(test_a_block_device_is_known_without_its_times),
        TEST(test_a_stream_is_never_the_same),
        TEST(test_a_pipe_is_a_stream_of_unknown_length),
        TEST(test_a_read_of_a_stream_takes_no_more_than_asked),
        TEST(test_a_non_blocking_pipe_is_read_as_any),
        TEST(test_a_fifo_is_opened_before_its_writer),
        TEST(test_a_stream_may_have_a_length),
        TEST(test_a_stream_has_no_offset),
        TEST(test_a_stream_is_named_once),
        TEST(test_files_of_proc_are_streams),
        TEST(test_an_endless_device_is_a_stream),
        TEST(test_standard_input_is_a_stream_from_where_it_stands),
        TEST(test_standard_input_that_is_closed_is_told),
        TEST(test_a_stream_that_fails_did_not_end),
        TEST(test_a_stream_that_fails_later_did_not_end),
        TEST(test_waiting_for_a_stream_can_be_stopped),
        TEST(test_files_are_read_though_a_stop_is_due),
    };

    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

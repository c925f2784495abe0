#include "config.h"

#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST_OPEN 16

int sandbox = -1;

char sandbox_path[SANDBOX_PATH];
static int found[2]; /* in a directory, and below it */

int sandbox_enter(void **state)
{
    (void)state;
    umask(022);
    snprintf(sandbox_path, sizeof(sandbox_path), "/tmp/%.40s.XXXXXX",
             program_invocation_short_name);
    if (!mkdtemp(sandbox_path) || chdir(sandbox_path) < 0)
        return -1;
    sandbox = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return sandbox >= 0 ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type;
    return ftw->level > 0 ? remove(path) : 0;
}

static int empty(void)
{
    return nftw(".", remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

void sandbox_empty(void)
{
    assert_int_equal(empty(), 0);
}

int sandbox_leave(void **state)
{
    (void)state;
    close(sandbox);
    if (chdir(sandbox_path) < 0 || empty() < 0 || chdir("/") < 0)
        return -1;
    return rmdir(sandbox_path);
}

static int count_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path, (void)st, (void)type;
    found[ftw->level > 1] += ftw->level > 0;
    return 0;
}

static void count(const char *path)
{
    found[0] = found[1] = 0;
    assert_int_equal(nftw(path, count_entry, MOST_OPEN, FTW_PHYS), 0);
}

int sandbox_count(const char *path)
{
    count(path);
    return found[0];
}

int sandbox_count_all(const char *path)
{
    count(path);
    return found[0] + found[1];
}

void sandbox_make(const char *path, const void *content, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        fail_msg("cannot make %s", path);
    assert_int_equal(write(fd, content, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

void sandbox_assert_content(const char *path, const void *content, size_t len)
{
    char buf[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        fail_msg("cannot open %s", path);
    assert_true(len < sizeof(buf));
    assert_int_equal(read(fd, buf, sizeof(buf)), len);
    assert_memory_equal(buf, content, len);
    close(fd);
}

mode_t sandbox_mode(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

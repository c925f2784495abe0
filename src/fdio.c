/*
 * fdio.c - whole reads and writes on file descriptors, and files that appear by rename.
 */
#include "config.h"

#include "fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == sizeof(int64_t), "off_t has 64 bits");

static bool range_fits(size_t len, uint64_t offset)
{
    uint64_t end;

    if (len <= SSIZE_MAX && !__builtin_add_overflow(offset, len, &end) && end <= INT64_MAX)
        return true;
    errno = EOVERFLOW;
    return false;
}

ssize_t fdio_pread(int fd, void *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    if (!range_fits(len, offset))
        return -1;
    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(offset + done));

        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR)
            return -1;
    }
    return (ssize_t)done;
}

int fdio_pwrite(int fd, const void *buf, size_t len, uint64_t offset)
{
    size_t done = 0;

    if (!range_fits(len, offset))
        return -1;
    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)buf + done, len - done, (off_t)(offset + done));

        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            errno = ENOSPC;
            return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* After EAGAIN: a stream may have come to us non-blocking. */
static int wait_for(int fd, short events)
{
    struct pollfd pollfd = {.fd = fd, .events = events};

    return poll(&pollfd, 1, -1) < 0 ? -1 : 0;
}

int fdio_write(int fd, const void *buf, size_t len)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = write(fd, (const char *)buf + done, len - done);

        if (n >= 0)
            done += (size_t)n;
        else if (errno != EAGAIN || wait_for(fd, POLLOUT) < 0)
            return -1;
    }
    return 0;
}

static int grow(char **text, size_t *size)
{
    size_t new_size;
    char *new_text;

    if (__builtin_mul_overflow(*size ? *size : 2048, 2, &new_size)) {
        errno = ENOMEM;
        return -1;
    }
    new_text = realloc(*text, new_size);
    if (!new_text)
        return -1;
    *text = new_text;
    *size = new_size;
    return 0;
}

char *fdio_slurp(int fd, size_t limit, size_t *len)
{
    char *text = NULL;
    size_t size = 0, used = 0;

    for (;;) {
        ssize_t n;

        if (used == size && grow(&text, &size) < 0)
            goto fail;
        n = read(fd, text + used, size - used);
        if (n == 0)
            break;
        if (n > 0)
            used += (size_t)n;
        else if (errno != EAGAIN || wait_for(fd, POLLIN) < 0)
            goto fail;
        if (used > limit) {
            errno = EFBIG;
            goto fail;
        }
    }
    text[used] = '\0';
    *len = used;
    return text;

fail:
    free(text);
    return NULL;
}

/* A rename must not put a file in the place of a device or of a link such as /dev/stdout. */
static bool replaceable(const char *path)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT;
    if (S_ISREG(st.st_mode))
        return true;
    errno = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
    return false;
}

static char *name_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    int directory_len = slash ? (int)(slash + 1 - path) : 0;
    uint64_t random;
    char *name;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return NULL;
    if (asprintf(&name, "%.*s.rdmaput-%016" PRIx64, directory_len, path, random) < 0)
        return NULL;
    return name;
}

static int write_new(const char *path, const void *buf, size_t len, mode_t mode, bool durable)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

    if (fd < 0)
        return -1;
    if (fdio_write(fd, buf, len) < 0 || (durable && fsync(fd) < 0)) {
        fdio_close(&fd);
        return -1;
    }
    return close(fd);
}

static int sync_directory_of(const char *path)
{
    char *copy = strdup(path);
    int fd, rc;

    if (!copy)
        return -1;
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd < 0)
        return -1;
    rc = fsync(fd);
    fdio_close(&fd);
    return rc;
}

static int publish(const char *path, const void *buf, size_t len, mode_t mode, bool durable)
{
    char *temporary = NULL;
    int saved_errno;

    if (!replaceable(path))
        return -1;
    temporary = name_beside(path);
    if (!temporary)
        return -1;
    if (write_new(temporary, buf, len, mode, durable) < 0 || rename(temporary, path) < 0) {
        saved_errno = errno;
        unlink(temporary);
        free(temporary);
        errno = saved_errno;
        return -1;
    }
    free(temporary);
    return durable ? sync_directory_of(path) : 0;
}

int fdio_publish(const char *path, const void *buf, size_t len, mode_t mode)
{
    return publish(path, buf, len, mode, false);
}

int fdio_publish_durable(const char *path, const void *buf, size_t len, mode_t mode)
{
    return publish(path, buf, len, mode, true);
}

bool fdio_can_map(int fd, const char **why)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC)
        return true;
    *why = "its file system keeps no files in memory that a device may write to";
    return false;
}

void fdio_close(int *fd)
{
    int saved_errno = errno;

    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    errno = saved_errno;
}

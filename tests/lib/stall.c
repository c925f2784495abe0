/*
 * stall.c - a library to preload: reading and writing at an offset stand still while a file exists,
 * as on storage that does not answer. No signal ends that.
 *
 * RDMAPUT_TEST_STALL     the file
 * RDMAPUT_TEST_STALL_AT  the least offset at which they do, 0 when not set
 */
#define _GNU_SOURCE
/* They would rename what is defined here. */
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#undef _FORTIFY_SOURCE

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static void stall(int64_t offset)
{
    static const struct timespec moment = {.tv_nsec = 10000000};
    const char *path = getenv("RDMAPUT_TEST_STALL"), *at = getenv("RDMAPUT_TEST_STALL_AT");
    int saved_errno = errno;
    while (path && offset >= (at ? strtoll(at, NULL, 0) : 0) && access(path, F_OK) == 0)
        nanosleep(&moment, NULL);
    errno = saved_errno;
}

/* By functions that are not replaced here. */
static ssize_t read_at(int fd, void *buf, size_t len, int64_t offset)
{
    struct iovec piece = {buf, len};
    stall(offset);
#ifdef __GLIBC__
    return preadv64(fd, &piece, 1, offset);
#else
    return preadv(fd, &piece, 1, offset);
#endif
}

static ssize_t write_at(int fd, const void *buf, size_t len, int64_t offset)
{
    struct iovec piece = {(void *)(uintptr_t)buf, len};
    stall(offset);
#ifdef __GLIBC__
    return pwritev64(fd, &piece, 1, offset);
#else
    return pwritev(fd, &piece, 1, offset);
#endif
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    return read_at(fd, buf, len, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t len, off_t offset)
{
    return write_at(fd, buf, len, offset);
}

#ifdef __GLIBC__
/* What the calls become with _FILE_OFFSET_BITS=64, and with _FORTIFY_SOURCE. */
ssize_t __pread_chk(int fd, void *buf, size_t len, off_t offset, size_t size);
ssize_t __pread64_chk(int fd, void *buf, size_t len, off64_t offset, size_t size);

ssize_t pread64(int fd, void *buf, size_t len, off64_t offset)
{
    return read_at(fd, buf, len, offset);
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off64_t offset)
{
    return write_at(fd, buf, len, offset);
}

ssize_t __pread_chk(int fd, void *buf, size_t len, off_t offset, size_t size)
{
    return len <= size ? read_at(fd, buf, len, offset) : (abort(), -1);
}

ssize_t __pread64_chk(int fd, void *buf, size_t len, off64_t offset, size_t size)
{
    return len <= size ? read_at(fd, buf, len, offset) : (abort(), -1);
}
#endif

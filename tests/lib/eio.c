/*
 * eio.c - a library to preload: reading one file fails with EIO, as on a disk with a bad sector.
 *
 * RDMAPUT_TEST_EIO_FILE  the file, whatever name it is opened by
 * RDMAPUT_TEST_EIO_AT    the first byte that cannot be read, 0 when not set: the offset for
 *                        pread(2); for read(2) the count of bytes that all of these have read
 *
 * What comes before that byte is read, by a short read if need be. A program with the address
 * sanitizer also needs ASAN_OPTIONS=verify_asan_link_order=0.
 */
#define _GNU_SOURCE
/* They would rename what is defined here. */
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#undef _FORTIFY_SOURCE

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic uint64_t bytes_read; /* of the file, by read */

static bool is_the_file(int fd)
{
    const char *path = getenv("RDMAPUT_TEST_EIO_FILE");
    struct stat file, st;
    return path && stat(path, &file) == 0 && fstat(fd, &st) == 0 && st.st_dev == file.st_dev &&
           st.st_ino == file.st_ino;
}

/* How many bytes of len can be read at an offset; -1 with errno: none. */
static ssize_t readable(int fd, uint64_t offset, size_t len)
{
    int saved_errno = errno;
    const char *text = getenv("RDMAPUT_TEST_EIO_AT");
    uint64_t at = text ? strtoull(text, NULL, 0) : 0;
    bool fails = len > 0 && is_the_file(fd);
    errno = saved_errno;
    if (!fails || offset + len <= at)
        return (ssize_t)len;
    if (offset < at)
        return (ssize_t)(at - offset);
    errno = EIO;
    return -1;
}

/* By functions that are not replaced here. */
static ssize_t read_at(int fd, void *buf, size_t len, int64_t offset)
{
    ssize_t n = readable(fd, (uint64_t)offset, len);
    if (n < 0)
        return -1;
    struct iovec piece = {buf, (size_t)n};
#ifdef __GLIBC__
    return preadv64(fd, &piece, 1, offset);
#else
    return preadv(fd, &piece, 1, offset);
#endif
}

ssize_t read(int fd, void *buf, size_t len)
{
    ssize_t n = readable(fd, bytes_read, len);
    if (n < 0)
        return -1;
    struct iovec piece = {buf, (size_t)n};
    n = readv(fd, &piece, 1);
    if (n > 0 && is_the_file(fd))
        bytes_read += (uint64_t)n;
    return n;
}

ssize_t pread(int fd, void *buf, size_t len, off_t offset)
{
    return read_at(fd, buf, len, offset);
}

#ifdef __GLIBC__
/* What the call becomes with _FILE_OFFSET_BITS=64, and with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __pread_chk(int fd, void *buf, size_t len, off_t offset, size_t size);
ssize_t __pread64_chk(int fd, void *buf, size_t len, off64_t offset, size_t size);

ssize_t pread64(int fd, void *buf, size_t len, off64_t offset)
{
    return read_at(fd, buf, len, offset);
}

ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
    return len <= size ? read(fd, buf, len) : (abort(), -1);
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

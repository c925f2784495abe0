/*
 * fdio.h - whole reads and writes on file descriptors, and files that appear by rename.
 */
#ifndef RDMAPUT_FDIO_H
#define RDMAPUT_FDIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to len bytes at offset, going on after short reads and EINTR. Returns the count, less
 * than len only at the end of the file, or -1 with errno. */
ssize_t fdio_pread(int fd, void *buf, size_t len, uint64_t offset);

/* Writes len bytes at offset, going on after short writes and EINTR. 0, or -1 with errno (ENOSPC
 * when a write makes no progress). */
int fdio_pwrite(int fd, const void *buf, size_t len, uint64_t offset);

/* Writes len bytes to a stream, also to a non-blocking one. 0, or -1 with errno. EINTR is passed
 * on, so that a signal (signals.h) ends the wait for a reader; some bytes may then be written. */
int fdio_write(int fd, const void *buf, size_t len);

/* Reads a whole file or stream into memory that the caller frees; at most limit bytes (EFBIG past
 * that). A NUL that is not counted is appended. NULL with errno; EINTR is passed on, as above. */
char *fdio_slurp(int fd, size_t limit, size_t *len);

/* Writes len bytes to a file that appears at path whole, by rename from a temporary beside it;
 * mode as in open(2), under the umask. Replaces a regular file and nothing else: EISDIR for a
 * directory, EEXIST for a device, FIFO, socket or symbolic link. 0, or -1 with errno and nothing
 * left. */
int fdio_publish(const char *path, const void *buf, size_t len, mode_t mode);

/* The same, and file and directory are on stable storage (fsync(2)) when it returns 0. */
int fdio_publish_durable(const char *path, const void *buf, size_t len, mode_t mode);

/* Whether a device may go on writing to pages of this file while it is mapped: the file lives in
 * memory (tmpfs, memfd). Elsewhere the kernel refuses to pin them, or writes could get lost (a file
 * system that follows its pages' changes does not see a device's). If not, *why says so. */
bool fdio_can_map(int fd, const char **why);

/* Closes *fd unless it is negative, and makes it -1. errno is kept. */
void fdio_close(int *fd);

#endif

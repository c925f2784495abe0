/*
 * hidden.c - files that nobody sees yet.
 */
#include "config.h"

#include "hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fdio.h"

#define OWNER_ONLY 0600
#define EVERYBODY 0666
#define PERMISSIONS 0777
#define STATUS_LIMIT 65536
#define ATTEMPTS 100
#define POLL_NS (50 * CLOCK_NS_PER_MS)

/* Kept apart from umask(2), which changes it for all threads. */
static mode_t umask_of_process(void)
{
    mode_t mask = 077;
    size_t len;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    char *status = fd >= 0 ? fdio_slurp(fd, STATUS_LIMIT, &len) : NULL;
    const char *line = status ? strstr(status, "\nUmask:") : NULL;
    if (line)
        mask = (mode_t)strtoul(line + strlen("\nUmask:"), NULL, 8);
    free(status);
    fdio_close(&fd);
    return mask;
}

static int lock(int fd)
{
    int rc;
    while ((rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EINTR)
        ;
    return rc;
}

/* Whether the name still stands for the file: before it was locked, a sweep may have taken it, or a
 * commit have moved it away. */
static bool is_named(int fd, int directory, const char *name)
{
    struct stat file, entry;
    return fstat(fd, &file) == 0 && fstatat(directory, name, &entry, AT_SYMLINK_NOFOLLOW) == 0 &&
           file.st_dev == entry.st_dev && file.st_ino == entry.st_ino;
}

static void self_path(int fd, char path[64])
{
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static int random_name(struct hidden *hidden, const char *leaf)
{
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -1;
    name_make_temporary(hidden->name, leaf, random);
    return 0;
}

/* 1, or 0 where there is no such thing. */
static int open_nameless(struct hidden *hidden)
{
    struct stat st;
    /* The name is given through /proc. */
    if (access("/proc/self/fd", X_OK) < 0)
        return 0;
    hidden->fd = openat(hidden->directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, EVERYBODY);
    if (hidden->fd < 0)
        return errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT || errno == EINVAL ? 0
                                                                                            : -1;
    if (fstat(hidden->fd, &st) < 0 || fchmod(hidden->fd, OWNER_ONLY) < 0) {
        fdio_close(&hidden->fd);
        return -1;
    }
    hidden->new_mode = st.st_mode & PERMISSIONS;
    return 1;
}

/* Without locks nothing guards it from a sweep, but then a sweep cannot lock it either. */
static bool is_ours(const struct hidden *hidden)
{
    return (lock(hidden->fd) == 0 || errno != EWOULDBLOCK) &&
           is_named(hidden->fd, hidden->directory, hidden->name);
}

static int open_named(struct hidden *hidden, const char *leaf)
{
    hidden->new_mode = EVERYBODY & ~umask_of_process();
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        if (random_name(hidden, leaf) < 0)
            return -1;
        hidden->fd = openat(hidden->directory, hidden->name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC,
                            OWNER_ONLY);
        if (hidden->fd < 0 && errno != EEXIST)
            return -1;
        hidden->named = hidden->fd >= 0;
        if (hidden->named && is_ours(hidden))
            return 0;
        hidden_discard(hidden);
    }
    errno = EEXIST;
    return -1;
}

int hidden_open_temporary(struct hidden *hidden, int directory, const char *leaf)
{
    *hidden = (struct hidden){.directory = directory, .fd = -1};
    int rc = open_nameless(hidden);
    if (rc == 0)
        return open_named(hidden, leaf);
    return rc < 0 ? -1 : random_name(hidden, leaf);
}

static bool is_own_file(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* 1, 0 when another holds it or it went meanwhile, or -1. */
static int try_partial(struct hidden *hidden)
{
    struct stat st;
    int rc = 0;
    hidden->fd = openat(hidden->directory, hidden->name,
                        O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, OWNER_ONLY);
    if (hidden->fd < 0) {
        if (errno == ELOOP || errno == EISDIR || errno == ENXIO)
            errno = EEXIST;
        return -1;
    }
    if (lock(hidden->fd) < 0) {
        rc = errno == EWOULDBLOCK ? 0 : -1;
    } else if (is_named(hidden->fd, hidden->directory, hidden->name)) {
        errno = EEXIST;
        rc = fstat(hidden->fd, &st) == 0 && is_own_file(&st) ? 1 : -1;
    }
    if (rc < 1)
        fdio_close(&hidden->fd);
    return rc;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int hidden_open_partial(struct hidden *hidden, int directory, const char *leaf,
                        const uint8_t digest[NAME_DIGEST_BYTES], uint64_t wait_ns, int stop_fd)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    int64_t deadline = clock_after(wait_ns);
    int rc;
    *hidden = (struct hidden){.directory = directory, .fd = -1};
    hidden->new_mode = EVERYBODY & ~umask_of_process();
    name_make_partial(hidden->name, leaf, digest);
    while ((rc = try_partial(hidden)) == 0) {
        if (clock_now() >= deadline) {
            errno = EWOULDBLOCK;
            return -1;
        }
        if (poll(&stop, 1, clock_poll_ms(sooner(deadline, clock_after(POLL_NS)))) > 0) {
            errno = ECANCELED;
            return -1;
        }
    }
    hidden->named = rc > 0;
    return rc < 0 ? -1 : 0;
}

int hidden_give_name(struct hidden *hidden)
{
    char self[64];
    if (hidden->named)
        return 0;
    self_path(hidden->fd, self);
    lock(hidden->fd);
    if (linkat(AT_FDCWD, self, hidden->directory, hidden->name, AT_SYMLINK_FOLLOW) < 0)
        return -1;
    hidden->named = true;
    return 0;
}

void hidden_discard(struct hidden *hidden)
{
    if (hidden->fd >= 0 && hidden->named)
        unlinkat(hidden->directory, hidden->name, 0);
    hidden->named = false;
    fdio_close(&hidden->fd);
}

void hidden_keep(struct hidden *hidden)
{
    static const struct timespec now[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
    struct stat st;
    /* Cut to the size that it has, it loses the space that was reserved beyond. */
    if (fstat(hidden->fd, &st) < 0 || ftruncate(hidden->fd, st.st_size) < 0 ||
        fchmod(hidden->fd, OWNER_ONLY) < 0 || futimens(hidden->fd, now) < 0)
        hidden_discard(hidden);
    fdio_close(&hidden->fd);
}

static bool is_older(const struct stat *st, uint64_t age_ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t seconds = now.tv_sec - st->st_mtim.tv_sec;
    if (seconds < 0 || (uint64_t)seconds > UINT64_MAX / CLOCK_NS_PER_S - 1)
        return seconds > 0;
    int64_t rest = now.tv_nsec - st->st_mtim.tv_nsec;
    uint64_t age = (uint64_t)seconds * CLOCK_NS_PER_S;
    if (rest < 0 && seconds == 0)
        return false;
    return age + (uint64_t)rest > age_ns;
}

/* A lock on NFS needs a descriptor to write; a file with its final mode may not grant that. */
static int open_to_lock(int directory, const char *entry)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(directory, entry, O_RDWR | flags);
    if (fd < 0 && errno == EACCES)
        fd = openat(directory, entry, O_RDONLY | flags);
    return fd;
}

static bool is_left(enum name_kind kind, const struct stat *st, uint64_t keep_ns)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
           (kind == NAME_TEMPORARY || is_older(st, keep_ns));
}

bool hidden_sweep(int directory, const char *entry, uint64_t keep_ns)
{
    enum name_kind kind = name_kind(entry);
    struct stat st;
    if (kind == NAME_PLAIN || fstatat(directory, entry, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !is_left(kind, &st, keep_ns))
        return false;
    int fd = open_to_lock(directory, entry);
    bool gone = fd >= 0 && lock(fd) == 0 && is_named(fd, directory, entry) && fstat(fd, &st) == 0 &&
                is_left(kind, &st, keep_ns) && unlinkat(directory, entry, 0) == 0;
    fdio_close(&fd);
    return gone;
}

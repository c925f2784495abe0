/*
 * sweeper.c - a thread that removes what was left.
 */
#include "config.h"

#include "sweeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "beneath.h"
#include "clock.h"
#include "fdio.h"
#include "hidden.h"
#include "worker.h"

#define SHORTEST_NS ((uint64_t)CLOCK_NS_PER_S)
#define LONGEST_NS (3600 * (uint64_t)CLOCK_NS_PER_S)

struct sweeper {
    int directory;
    char *leaf;
    uint64_t keep_ns;
    dev_t device;
    struct worker *worker; /* its one job ends with it */
};

/* Directories that are still to be swept, below the first one. */
struct pending {
    char **paths;
    size_t count, capacity;
};

/* Takes the path over. */
static void push(struct pending *pending, char *path)
{
    if (path && pending->count == pending->capacity) {
        size_t capacity = pending->capacity ? 2 * pending->capacity : 16;
        char **grown = realloc(pending->paths, capacity * sizeof *grown);
        if (grown) {
            pending->paths = grown;
            pending->capacity = capacity;
        }
    }
    /* Without memory this one is left for the next time. */
    if (path && pending->count < pending->capacity)
        pending->paths[pending->count++] = path;
    else
        free(path);
}

static void push_child(struct pending *pending, const char *path, const char *name)
{
    char *child;
    if (asprintf(&child, "%s%s%s", path, path[0] ? "/" : "", name) >= 0)
        push(pending, child);
}

static bool stopped(int stop_fd, int64_t until)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    return poll(&stop, 1, clock_poll_ms(until)) > 0;
}

static bool is_directory(int directory, const struct dirent *entry)
{
    struct stat st;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return false;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static void sweep_entry(const struct sweeper *sweeper, int directory, const char *name)
{
    if (!sweeper->leaf || name_is_of(name, sweeper->leaf))
        hidden_sweep(directory, name, sweeper->keep_ns);
}

static DIR *read_directory(const struct sweeper *sweeper, const char *path)
{
    struct stat st;
    int at = beneath_open(sweeper->directory, path, strlen(path));
    int fd = at >= 0 ? openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    fdio_close(&at);
    DIR *dir = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == sweeper->device ? fdopendir(fd)
                                                                              : NULL;
    if (!dir)
        fdio_close(&fd);
    return dir;
}

static void sweep_directory(const struct sweeper *sweeper, const char *path,
                            struct pending *pending, int stop_fd)
{
    DIR *dir = read_directory(sweeper, path);
    const struct dirent *entry;
    while (dir && !stopped(stop_fd, 0) && (entry = readdir(dir))) {
        if (name_kind(entry->d_name) != NAME_PLAIN)
            sweep_entry(sweeper, dirfd(dir), entry->d_name);
        if (!sweeper->leaf && is_directory(dirfd(dir), entry))
            push_child(pending, path, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

/* By a list instead of recursion: neither stack nor descriptors grow with the depth. */
static void sweep(const struct sweeper *sweeper, int stop_fd)
{
    struct pending pending = {.count = 0};
    push(&pending, strdup(""));
    while (pending.count > 0) {
        char *path = pending.paths[--pending.count];
        if (!stopped(stop_fd, 0))
            sweep_directory(sweeper, path, &pending, stop_fd);
        free(path);
    }
    free(pending.paths);
}

static uint64_t interval(uint64_t keep_ns)
{
    uint64_t ns = keep_ns / 4 < LONGEST_NS ? keep_ns / 4 : LONGEST_NS;
    return ns > SHORTEST_NS ? ns : SHORTEST_NS;
}

/* A worker_function. */
static void sweep_until_stopped(void *context, void *job, int stop_fd)
{
    const struct sweeper *sweeper = context;
    (void)job;
    if (!sweeper->leaf)
        sweep(sweeper, stop_fd);
    while (!stopped(stop_fd, clock_after(interval(sweeper->keep_ns))))
        sweep(sweeper, stop_fd);
}

static void release(struct sweeper *sweeper)
{
    fdio_close(&sweeper->directory);
    free(sweeper->leaf);
    free(sweeper);
}

static struct sweeper *allocate(int directory, const char *leaf, uint64_t keep_ns)
{
    struct sweeper *sweeper = calloc(1, sizeof *sweeper);
    struct stat st;
    if (!sweeper)
        return NULL;
    sweeper->keep_ns = keep_ns;
    sweeper->directory = fcntl(directory, F_DUPFD_CLOEXEC, 0);
    sweeper->leaf = leaf ? strdup(leaf) : NULL;
    if (sweeper->directory >= 0 && (!leaf || sweeper->leaf) &&
        fstat(sweeper->directory, &st) == 0) {
        sweeper->device = st.st_dev;
        return sweeper;
    }
    release(sweeper);
    return NULL;
}

struct sweeper *sweeper_start(int directory, const char *leaf, uint64_t keep_ns, struct error *err)
{
    struct sweeper *sweeper = allocate(directory, leaf, keep_ns);
    if (!sweeper) {
        error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, NULL, errno,
                        "cannot sweep the directory");
        return NULL;
    }
    if (leaf)
        sweep(sweeper, -1);
    sweeper->worker = worker_start(sweep_until_stopped, sweeper, 1, err);
    if (!sweeper->worker) {
        release(sweeper);
        return NULL;
    }
    worker_submit(sweeper->worker, sweeper);
    return sweeper;
}

void sweeper_stop(struct sweeper *sweeper)
{
    if (!sweeper)
        return;
    worker_stop(sweeper->worker);
    release(sweeper);
}

#include "config.h"

#include "source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"
#include "signals.h"

#define MOST_OPEN 64

struct file {
    char *path;
    unsigned index;
    int fd; /* -1: closed for now */
    bool stream;
    bool is_stdin;
    uint64_t size; /* bytes, of what is no stream */
    struct stat stat;
};

struct source {
    void *by_path; /* tsearch(3) tree of the files */
    struct file **files;
    unsigned count, capacity;
    unsigned open[MOST_OPEN]; /* ring of the files that are open and can be closed */
    unsigned open_head, open_count;
};

struct source *source_new(struct error *err)
{
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno, "cannot open the sources");
    return source;
}

static void keep_node(void *node)
{
    (void)node;
}

void source_free(struct source *source)
{
    if (!source)
        return;
    tdestroy(source->by_path, keep_node);
    for (unsigned i = 0; i < source->count; i++) {
        if (!source->files[i]->is_stdin)
            fdio_close(&source->files[i]->fd);
        free(source->files[i]->path);
        free(source->files[i]);
    }
    free(source->files);
    free(source);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

static int open_error(const char *path, struct error *err)
{
    int errnum = errno;
    if (errnum == EINTR && signals_count() > 0)
        return error_set(err, ERROR_INTERRUPTED, STAGE_OPEN, path, "interrupted by a signal");
    error_set_errno(err, errnum == EMFILE || errnum == ENFILE ? ERROR_RESOURCE : ERROR_SOURCE,
                    STAGE_OPEN, path, errnum, "cannot open");
    if (strchr(path, '@') && errnum == ENOENT)
        return error_hint(err, "a segment is PATH[@[OFFSET][+LENGTH][=REMOTE]]");
    return -1;
}

/* What the size says: *stream for what is read from its start to its end. */
static int measure(struct file *file, struct error *err)
{
    char byte;
    if (fstat(file->fd, &file->stat) < 0)
        return open_error(file->path, err);
    if (S_ISDIR(file->stat.st_mode)) {
        error_set(err, ERROR_SOURCE, STAGE_OPEN, file->path, "is a directory");
        return error_hint(err, "pack it: 'tar c %s | rdmaput write - DEST'", file->path);
    }
    off_t end = file->is_stdin ? -1 : lseek(file->fd, 0, SEEK_END);
    file->stream = end < 0 || (end == 0 && pread(file->fd, &byte, 1, 0) > 0);
    file->size = file->stream ? 0 : (uint64_t)end;
    if (file->stream && end == 0)
        (void)lseek(file->fd, 0, SEEK_SET);
    return 0;
}

/* Makes room among the open files, and counts one more. */
static void remember_open(struct source *source, struct file *file)
{
    if (file->stream || file->is_stdin)
        return;
    if (source->open_count == MOST_OPEN) {
        fdio_close(&source->files[source->open[source->open_head]]->fd);
        source->open_head = (source->open_head + 1) % MOST_OPEN;
        source->open_count--;
    }
    source->open[(source->open_head + source->open_count) % MOST_OPEN] = file->index;
    source->open_count++;
}

static int append(struct source *source, struct file *file, struct error *err)
{
    if (source->count == source->capacity) {
        unsigned capacity = source->capacity ? 2 * source->capacity : 16;
        struct file **grown = realloc(source->files, capacity * sizeof *grown);
        if (!grown)
            return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno,
                                   "cannot keep account of %u sources", capacity);
        source->files = grown;
        source->capacity = capacity;
    }
    file->index = source->count;
    source->files[source->count++] = file;
    return 0;
}

static void file_free(struct file *file)
{
    if (!file->is_stdin)
        fdio_close(&file->fd);
    free(file->path);
    free(file);
}

static struct file *open_file(struct source *source, const char *path, bool is_stdin,
                              struct error *err)
{
    struct file *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot open");
        return NULL;
    }
    file->is_stdin = is_stdin;
    file->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file->fd < 0) {
        open_error(path, err);
        goto fail;
    }
    if (measure(file, err) < 0 || append(source, file, err) < 0)
        goto fail;
    if (!tsearch(file, &source->by_path, compare_paths)) {
        source->count--;
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot open");
        goto fail;
    }
    remember_open(source, file);
    return file;
fail:
    file_free(file);
    return NULL;
}

static struct file *find_or_open(struct source *source, const struct segment *segment,
                                 struct error *err)
{
    struct file key = {.path = segment->path};
    struct file *const *found = tfind(&key, &source->by_path, compare_paths);
    if (!found)
        return open_file(source, segment->path, segment_is_stdin(segment), err);
    if ((*found)->stream) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, segment->path,
                  "named twice, and can be read only once");
        return NULL;
    }
    return *found;
}

/* The part of the file that the segment names. */
static int resolve(const struct file *file, const struct segment *segment, uint64_t *offset,
                   uint64_t *length, struct error *err)
{
    if (file->stream) {
        if (segment->has_offset) {
            error_set(err, ERROR_USAGE, STAGE_OPEN, file->path,
                      "OFFSET, where the source cannot seek");
            return error_hint(err, "it is read from its start: '%s@+LENGTH' stops it",
                              file->is_stdin ? "/dev/stdin" : file->path);
        }
        *offset = 0;
        *length = segment->has_length ? segment->length : PLAN_UNKNOWN;
        return 0;
    }
    switch (segment_resolve(segment, file->size, offset, length)) {
    case SEGMENT_RANGE_OK:
        return 0;
    case SEGMENT_BEFORE_START:
        return error_set(err, ERROR_SOURCE, STAGE_OPEN, file->path,
                         "too short: OFFSET -%" PRIu64 " lies before the start of its %" PRIu64
                         " bytes",
                         segment->offset, file->size);
    case SEGMENT_PAST_END:
        return error_set(err, ERROR_SOURCE, STAGE_OPEN, file->path,
                         "too short: the segment ends past its %" PRIu64 " bytes", file->size);
    case SEGMENT_OVERFLOW:
        break;
    }
    return error_set(err, ERROR_USAGE, STAGE_OPEN, file->path, "the segment ends past 2^63 bytes");
}

int source_add(struct source *source, const struct segment *segment, struct plan *plan,
               struct error *err)
{
    struct plan_piece piece = {.dest = segment->has_remote ? segment->remote : PLAN_UNKNOWN};
    const struct file *file = find_or_open(source, segment, err);
    if (!file || resolve(file, segment, &piece.offset, &piece.length, err) < 0)
        return -1;
    piece.source = file->index;
    switch (plan_add(plan, &piece)) {
    case PLAN_OK:
        return 0;
    case PLAN_OVERFLOW:
        return error_set(err, ERROR_USAGE, STAGE_OPEN, file->path,
                         "with it the segments come to more than 2^63 bytes");
    default:
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot plan %zu segments", plan_count(plan) + 1);
    }
}

const char *source_path(const struct source *source, unsigned file)
{
    return source->files[file]->path;
}

static int changed(const struct file *file, const char *how, struct error *err)
{
    error_set(err, ERROR_DATA, STAGE_TRANSFER, file->path, "%s while it was read", how);
    return error_hint(err, "nothing was committed: try again when nobody writes to it");
}

static bool same(const struct stat *a, const struct stat *b)
{
    if (S_ISBLK(b->st_mode)) /* has no times of its own */
        return a->st_rdev == b->st_rdev;
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Opens a file again that was closed to spare descriptors. */
static int reopen(struct source *source, struct file *file, struct error *err)
{
    struct stat now;
    if (file->fd >= 0)
        return 0;
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file->fd < 0)
        return open_error(file->path, err);
    remember_open(source, file);
    if (fstat(file->fd, &now) < 0)
        return open_error(file->path, err);
    return same(&now, &file->stat) ? 0 : changed(file, "changed", err);
}

/* Whether the stream has something to read: waits for it, or for stop_fd. */
static int await_stream(const struct file *file, int stop_fd, int timeout, struct error *err)
{
    struct pollfd fds[] = {{.fd = file->fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
    int n;
    do
        n = poll(fds, 2, timeout);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return error_set_errno(err, ERROR_STORAGE, STAGE_TRANSFER, file->path, errno,
                               "cannot wait for it");
    if (n > 0 && fds[1].revents)
        return error_set(err, ERROR_INTERRUPTED, STAGE_TRANSFER, file->path,
                         "interrupted while waiting for it");
    return n > 0;
}

/* Fills the buffer as far as the stream has something to give now, but waits for the first byte. */
static ssize_t read_stream(const struct file *file, void *buf, size_t len, int stop_fd, bool *ended,
                           struct error *err)
{
    size_t done = 0;
    while (done < len) {
        int ready = await_stream(file, stop_fd, done == 0 ? -1 : 0, err);
        if (ready < 0)
            return -1;
        if (ready == 0)
            break;
        ssize_t n = read(file->fd, (char *)buf + done, len - done);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return error_set_errno(err, ERROR_STORAGE, STAGE_TRANSFER, file->path, errno,
                                   "cannot read");
        if (n == 0) {
            *ended = true;
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t source_read(struct source *source, unsigned index, uint64_t offset, void *buf, size_t len,
                    int stop_fd, bool *ended, struct error *err)
{
    struct file *file = source->files[index];
    *ended = false;
    if (file->stream)
        return read_stream(file, buf, len, stop_fd, ended, err);
    if (reopen(source, file, err) < 0)
        return -1;
    ssize_t n = fdio_pread(file->fd, buf, len, offset);
    if (n < 0)
        return error_set_errno(err, ERROR_STORAGE, STAGE_TRANSFER, file->path, errno,
                               "cannot read");
    if ((size_t)n < len)
        return changed(file, "became shorter", err);
    return n;
}

int source_verify(struct source *source, struct error *err)
{
    for (unsigned i = 0; i < source->count; i++) {
        const struct file *file = source->files[i];
        struct stat now;
        if (file->stream)
            continue;
        if ((file->fd >= 0 ? fstat(file->fd, &now) : stat(file->path, &now)) < 0 ||
            !same(&now, &file->stat))
            return changed(file, "changed", err);
    }
    return 0;
}

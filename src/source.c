#include "config.h"

#include "source.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest.h"
#include "fdio.h"
#include "signals.h"
#include "stamp.h"

#define MOST_OPEN 64
#define LEAST_HOLE ((uint64_t)64 * 1024) /* a smaller one is cheaper to send than to keep apart */

struct file {
    char *path;
    unsigned index;
    int fd; /* -1: closed for now */
    bool stream;
    bool is_stdin;
    uint64_t size; /* bytes, of what is no stream */
    struct stamp stamp;
};

_Static_assert(SOURCE_IDENTITY_BYTES == DIGEST_BYTES, "sizes agree");

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
    error_set_errno(err, ERROR_SOURCE, STAGE_OPEN, path, errnum, "cannot open");
    if (strchr(path, '@') && errnum == ENOENT)
        return error_hint(err, "a segment is PATH[@[OFFSET][+LENGTH][=REMOTE]]");
    return -1;
}

/* Whether what says that it has no size has content. -1 with *err. */
static int has_content(const struct file *file, struct error *err)
{
    char byte;
    ssize_t n = pread(file->fd, &byte, 1, 0);
    if (n >= 0)
        return n > 0;
    if (errno == EINTR)
        return open_error(file->path, err);
    return error_set_errno(err, ERROR_STORAGE, STAGE_OPEN, file->path, errno, "cannot read");
}

/* What cannot seek (EINVAL: some of /proc), or has no size yet content, is a stream. */
static int tell_stream(struct file *file, off_t *end, struct error *err)
{
    *end = file->is_stdin ? -1 : lseek(file->fd, 0, SEEK_END);
    if (*end < 0 && !file->is_stdin && errno != ESPIPE && errno != EINVAL)
        return open_error(file->path, err);
    int content = *end == 0 ? has_content(file, err) : 0;
    if (content < 0)
        return -1;
    file->stream = *end < 0 || content > 0;
    if (content > 0)
        (void)lseek(file->fd, 0, SEEK_SET);
    return 0;
}

static int measure(struct file *file, struct error *err)
{
    off_t end;
    if (fstat(file->fd, &file->stamp.stat) < 0)
        return open_error(file->path, err);
    if (S_ISDIR(file->stamp.stat.st_mode)) {
        error_set(err, ERROR_SOURCE, STAGE_OPEN, file->path, "is a directory");
        return error_hint(err, "pack it: 'tar c %s | rdmaput write - DEST'", file->path);
    }
    if (tell_stream(file, &end, err) < 0)
        return -1;
    if (file->stream)
        return 0;
    if (stamp_take(file->fd, &file->stamp) < 0)
        return open_error(file->path, err);
    file->size = (uint64_t)(S_ISREG(file->stamp.stat.st_mode) ? file->stamp.stat.st_size : end);
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

/* Opening a FIFO would wait for its writer, and nothing could end that: reading waits instead. */
static int open_path(const char *path)
{
    struct stat st;
    bool is_fifo = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_fifo ? O_NONBLOCK : 0));
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
    file->fd = is_stdin ? STDIN_FILENO : open_path(path);
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

static int changed(const struct file *file, const char *how, struct error *err)
{
    error_set(err, ERROR_DATA, STAGE_TRANSFER, file->path, "%s while it was read", how);
    return error_hint(err, "try again when nobody writes to it");
}

/* Opens a file again that was closed to spare descriptors. */
static int reopen(struct source *source, struct file *file, struct error *err)
{
    struct stat now;
    if (file->fd >= 0)
        return 0;
    file->fd = open_path(file->path);
    if (file->fd < 0)
        return open_error(file->path, err);
    remember_open(source, file);
    if (fstat(file->fd, &now) < 0)
        return open_error(file->path, err);
    return stamp_is(&file->stamp, &now) ? 0 : changed(file, "changed", err);
}

static int add_piece(const struct file *file, const struct plan_piece *piece, struct plan *plan,
                     struct error *err)
{
    switch (plan_add(plan, piece)) {
    case PLAN_OK:
        return 0;
    case PLAN_OVERFLOW:
        return error_set(err, ERROR_USAGE, STAGE_OPEN, file->path,
                         "with it the segments come to more than 2^63 bytes");
    default:
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot plan more than %zu parts of files", plan_count(plan));
    }
}

/* The next hole in a range that is large enough. Where the file system has no good answer, there
 * is none: what is no hole is read, and reading tells what is wrong. */
static bool find_hole(int fd, uint64_t at, uint64_t range_end, uint64_t *start, uint64_t *end)
{
    while (at < range_end) {
        off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
        if (hole < (off_t)at || hole >= (off_t)range_end)
            return false;
        off_t data = lseek(fd, hole, SEEK_DATA);
        if ((data < 0 && errno == ENXIO) || data > (off_t)range_end)
            data = (off_t)range_end;
        if (data <= hole)
            return false;
        *start = (uint64_t)hole;
        *end = at = (uint64_t)data;
        if (*end - *start >= LEAST_HOLE)
            return true;
    }
    return false;
}

/* Adds the first bytes of a range, if any, and leaves the rest of it to follow. */
static int add_part(const struct file *file, struct plan_piece *range, uint64_t length, bool hole,
                    struct plan *plan, struct error *err)
{
    struct plan_piece part = *range;
    part.length = length;
    part.hole = hole;
    if (length == 0)
        return 0;
    range->offset += length;
    range->length -= length;
    range->dest = PLAN_UNKNOWN;
    return add_piece(file, &part, plan, err);
}

static int add_sparse(const struct file *file, const struct plan_piece *whole, struct plan *plan,
                      struct error *err)
{
    struct plan_piece range = *whole;
    uint64_t range_end = whole->offset + whole->length, start, end;
    while (find_hole(file->fd, range.offset, range_end, &start, &end))
        if (add_part(file, &range, start - range.offset, false, plan, err) < 0 ||
            add_part(file, &range, end - start, true, plan, err) < 0)
            return -1;
    return add_part(file, &range, range.length, false, plan, err);
}

static bool may_have_holes(const struct file *file, const struct plan_piece *piece)
{
    return !file->stream && S_ISREG(file->stamp.stat.st_mode) && piece->length >= LEAST_HOLE;
}

int source_add(struct source *source, const struct segment *segment, bool sparse, struct plan *plan,
               struct error *err)
{
    struct plan_piece piece = {.dest = segment->has_remote ? segment->remote : PLAN_UNKNOWN};
    struct file *file = find_or_open(source, segment, err);
    if (!file || resolve(file, segment, &piece.offset, &piece.length, err) < 0)
        return -1;
    piece.source = file->index;
    if (!sparse || !may_have_holes(file, &piece))
        return add_piece(file, &piece, plan, err);
    if (reopen(source, file, err) < 0)
        return -1;
    return add_sparse(file, &piece, plan, err);
}

const char *source_path(const struct source *source, unsigned file)
{
    return source->files[file]->path;
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
        int rc = file->fd >= 0 ? fstat(file->fd, &now) : stat(file->path, &now);
        if (rc < 0 && errno != ENOENT)
            return error_set_errno(err, ERROR_STORAGE, STAGE_TRANSFER, file->path, errno,
                                   "cannot find out whether it changed");
        if (rc < 0 || !stamp_is(&file->stamp, &now))
            return changed(file, "changed", err);
    }
    return 0;
}

static const struct file *find_stream(const struct source *source)
{
    for (unsigned i = 0; i < source->count; i++)
        if (source->files[i]->stream)
            return source->files[i];
    return NULL;
}

const char *source_stream(const struct source *source)
{
    const struct file *stream = find_stream(source);
    return stream ? stream->path : NULL;
}

/* By whatever paths. */
static bool are_one_file(const struct source *source)
{
    for (unsigned i = 1; i < source->count; i++)
        if (source->files[i]->stamp.stat.st_dev != source->files[0]->stamp.stat.st_dev ||
            source->files[i]->stamp.stat.st_ino != source->files[0]->stamp.stat.st_ino)
            return false;
    return source->count > 0;
}

int source_attributes(const struct source *source, struct source_attributes *attributes,
                      struct error *err)
{
    const struct file *stream = find_stream(source);
    if (stream)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, stream->path,
                         "a stream has no mode and times: --preserve goes with segments of one "
                         "file");
    if (!are_one_file(source))
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL,
                         "--preserve goes with segments of one file");
    const struct file *file = source->files[0];
    if (!S_ISREG(file->stamp.stat.st_mode))
        return error_set(err, ERROR_USAGE, STAGE_OPEN, file->path,
                         "is no regular file: --preserve goes with segments of one");
    *attributes = (struct source_attributes){
        .mode = file->stamp.stat.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO),
        .accessed = file->stamp.stat.st_atim,
        .modified = file->stamp.stat.st_mtim,
    };
    return 0;
}

static void hash_number(struct digest *digest, uint64_t number)
{
    uint64_t big_endian = htobe64(number);
    digest_add(digest, digest_end(digest), &big_endian, sizeof big_endian);
}

static void hash_time(struct digest *digest, const struct timespec *time)
{
    hash_number(digest, (uint64_t)time->tv_sec);
    hash_number(digest, (uint64_t)time->tv_nsec);
}

static void hash_file(struct digest *digest, const struct file *file)
{
    const struct stat *stat = &file->stamp.stat;
    hash_number(digest, stat->st_dev);
    hash_number(digest, stat->st_ino);
    hash_number(digest, stat->st_rdev);
    hash_number(digest, file->size);
    if (S_ISBLK(stat->st_mode)) /* its times are not those of its content */
        return;
    hash_time(digest, &stat->st_mtim);
    hash_time(digest, &stat->st_ctim);
}

static void hash_plan(struct digest *digest, const struct plan *plan)
{
    hash_number(digest, plan_size(plan));
    for (size_t i = 0; i < plan_count(plan); i++) {
        const struct plan_piece *piece = plan_piece(plan, i, NULL);
        if (piece->hole)
            continue;
        hash_number(digest, piece->source);
        hash_number(digest, piece->offset);
        hash_number(digest, piece->length);
        hash_number(digest, piece->dest);
    }
}

int source_identity(const struct source *source, const struct plan *plan,
                    uint8_t identity[SOURCE_IDENTITY_BYTES], struct error *err)
{
    const struct file *stream = find_stream(source);
    if (stream)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, stream->path,
                         "a stream cannot be resumed: --resume goes with files");
    struct digest_value value;
    struct digest *digest = digest_new();
    if (!digest)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot tell the sources from others");
    hash_number(digest, source->count);
    for (unsigned i = 0; i < source->count; i++)
        hash_file(digest, source->files[i]);
    hash_plan(digest, plan);
    digest_value(digest, &value);
    digest_free(digest);
    memcpy(identity, value.data, SOURCE_IDENTITY_BYTES);
    return 0;
}

/* sink-in-place.c - an existing file or block device, written where clients say. */
#include "config.h"

#include "sink-in-place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"
#include "wire.h"

struct sink_in_place {
    struct sink sink;
    char *path;
    bool sync;
};

struct sink_object {
    const char *path; /* the sink's */
    int fd;
    bool is_device;
    uint64_t device_bytes;
    bool sync;
};

static int storage_error(const struct sink_object *object, const char *what, enum error_stage stage,
                         struct error *err)
{
    return error_set_errno(err, ERROR_STORAGE, stage, object->path, errno, "%s", what);
}

static int cannot_open(const char *path, int errnum, struct error *err)
{
    error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path, errnum, "cannot open for writing");
    switch (errnum) {
    case ENOENT:
        return error_hint(err, "what is written in place must exist: 'truncate -s SIZE FILE' makes "
                               "a file of zeros");
    case EBUSY:
        return error_hint(err, "a device that is mounted or in use is not written: unmount it, or "
                               "stop what uses it");
    case EACCES:
    case EPERM:
        return error_hint(err, "the user who serves it must be allowed to write it");
    default:
        return -1;
    }
}

static int refuse_kind(const char *path, const char *kind, const char *hint, struct error *err)
{
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
              "is a %s, and only a regular file or a block device is written in place", kind);
    return error_hint(err, "%s", hint);
}

/* 0 for what can be written at an offset. */
static int check_kind(const char *path, mode_t mode, struct error *err)
{
    static const char redirect[] = "data goes there in order by standard output: "
                                   "'rdmaput serve - > FILE'";
    switch (mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
        return 0;
    case S_IFDIR:
        return refuse_kind(path, "directory", "name a file in it, or serve it: 'rdmaput serve DIR'",
                           err);
    case S_IFIFO:
        return refuse_kind(path, "FIFO", redirect, err);
    case S_IFCHR:
        return refuse_kind(path, "character device", redirect, err);
    default:
        return refuse_kind(path, "socket", "pipe it there: 'rdmaput serve - | COMMAND'", err);
    }
}

/* Looks first, since the mere opening of a FIFO waits, and that of a character device may act. */
static int look(const char *path, bool *is_device, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return cannot_open(path, errno, err);
    *is_device = S_ISBLK(st.st_mode);
    return check_kind(path, st.st_mode, err);
}

/* The kernel opens a read-only device for writing all the same, and fails the writes. */
static bool is_read_only(int fd)
{
    int read_only = 0;
    return ioctl(fd, BLKROGET, &read_only) == 0 && read_only;
}

static int open_path(const char *path, bool is_device, struct error *err)
{
    /* With a block device, O_EXCL asks for one that nobody else uses. */
    int fd = open(path, O_WRONLY | O_CLOEXEC | (is_device ? O_EXCL : 0));
    if (fd < 0)
        return cannot_open(path, errno, err);
    if (is_device && is_read_only(fd)) {
        fdio_close(&fd);
        return cannot_open(path, EROFS, err);
    }
    return fd;
}

static int measure_device(struct sink_object *object, struct error *err)
{
    if (!object->is_device)
        return 0;
    if (ioctl(object->fd, BLKGETSIZE64, &object->device_bytes) < 0)
        return error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, object->path, errno,
                               "cannot find out its size");
    return 0;
}

static int check_fits(const struct sink_object *object, uint64_t end, enum error_class class,
                      enum error_stage stage, struct error *err)
{
    if (!object->is_device || end <= object->device_bytes)
        return 0;
    return error_set(err, class, stage, object->path,
                     "the object needs %" PRIu64 " bytes, and the device has %" PRIu64, end,
                     object->device_bytes);
}

/* close(2) is where some network file systems tell that a write failed. */
static int object_free(struct sink_object *object)
{
    int fd = object->fd;
    free(object);
    return fd >= 0 && close(fd) < 0 && errno != EINTR ? -1 : 0;
}

static struct sink_object *new_object(const struct sink_in_place *sink, struct error *err)
{
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, sink->path, errno,
                        "cannot begin an object");
        return NULL;
    }
    object->path = sink->path;
    object->fd = -1;
    if (look(sink->path, &object->is_device, err) == 0 &&
        (object->fd = open_path(sink->path, object->is_device, err)) >= 0 &&
        measure_device(object, err) == 0)
        return object;
    object_free(object);
    return NULL;
}

static struct sink_object *in_place_begin(struct sink *base, const struct sink_request *request,
                                          int stop_fd, struct error *err)
{
    const struct sink_in_place *sink = (struct sink_in_place *)base;
    (void)stop_fd;
    if (sink_refuse_extras(base, request, err) < 0)
        return NULL;
    struct sink_object *object = new_object(sink, err);
    if (!object)
        return NULL;
    object->sync = sink->sync || request->sync;
    if (request->size == WIRE_UNKNOWN ||
        check_fits(object, request->size, ERROR_CANNOT_CREATE, STAGE_OPEN, err) == 0)
        return object;
    object_free(object);
    return NULL;
}

static int in_place_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                          int stop_fd, struct error *err)
{
    (void)stop_fd;
    if (check_fits(object, offset + len, ERROR_STORAGE, STAGE_TRANSFER, err) < 0)
        return -1;
    if (fdio_pwrite(object->fd, data, len, offset) < 0)
        return storage_error(object, "cannot write", STAGE_TRANSFER, err);
    return 0;
}

/* An object may end in a gap. */
static int extend(const struct sink_object *object, uint64_t size)
{
    struct stat st;
    if (object->is_device)
        return 0;
    if (fstat(object->fd, &st) < 0)
        return -1;
    return size > (uint64_t)st.st_size ? ftruncate(object->fd, (off_t)size) : 0;
}

static int finish(const struct sink_object *object, uint64_t size, struct error *err)
{
    if (check_fits(object, size, ERROR_STORAGE, STAGE_COMMIT, err) < 0)
        return -1;
    if (extend(object, size) < 0)
        return storage_error(object, "cannot extend", STAGE_COMMIT, err);
    if (object->sync && fsync(object->fd) < 0)
        return storage_error(object, "cannot sync", STAGE_COMMIT, err);
    return 0;
}

static int in_place_commit(struct sink_object *object, uint64_t size, int stop_fd,
                           struct error *err)
{
    const char *path = object->path;
    (void)stop_fd;
    int rc = finish(object, size, err);
    if (object_free(object) < 0)
        rc = error_set_errno(err, ERROR_STORAGE, STAGE_COMMIT, path, errno, "cannot finish");
    return rc;
}

static void in_place_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    object_free(object);
}

static void in_place_free(struct sink *base)
{
    struct sink_in_place *sink = (struct sink_in_place *)base;
    free(sink->path);
    free(sink);
}

#define IN_PLACE_OPS(KIND)                                                             \
    {                                                                                  \
        .kind = KIND, .stores = true, .exclusive = true, .irrevocable = true,          \
        .keeps_content = true, .begin = in_place_begin, .store = in_place_store,       \
        .commit = in_place_commit, .abandon = in_place_abandon, .free = in_place_free, \
    }

static const struct sink_ops file_ops = IN_PLACE_OPS("file in place");
static const struct sink_ops device_ops = IN_PLACE_OPS("device in place");

static int check_path(const char *path, const struct sink_ops **ops, struct error *err)
{
    bool is_device;
    if (path[0] == '\0')
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "FILE is empty");
    if (look(path, &is_device, err) < 0)
        return -1;
    int fd = open_path(path, is_device, err);
    if (fd < 0)
        return -1;
    close(fd);
    if (is_device)
        *ops = &device_ops;
    return 0;
}

struct sink *sink_in_place_new(const char *path, bool sync, struct error *err)
{
    const struct sink_ops *ops = &file_ops;
    if (check_path(path, &ops, err) < 0)
        return NULL;
    struct sink_in_place *sink = calloc(1, sizeof *sink);
    if (!sink || !(sink->path = strdup(path))) {
        free(sink);
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot serve it");
        return NULL;
    }
    sink->sink.ops = ops;
    sink->sync = sync;
    snprintf(sink->sink.description, sizeof sink->sink.description, "%s '%.400s'", ops->kind, path);
    return &sink->sink;
}

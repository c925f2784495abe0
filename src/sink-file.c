/*
 * sink-file.c - a regular file that is replaced whole.
 *
 * An object grows in a file without a name (O_TMPFILE), so that even a killed server leaves
 * nothing; where the file system has none, in a hidden one beside the target. Both end in a
 * rename.
 */
#include "config.h"

#include "sink-file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"

#define PERMISSIONS 0777
#define MOST_LINKS 40 /* as many as the kernel follows */

struct sink_file {
    struct sink sink;
    char *path; /* where symbolic links lead */
    char *directory;
    char *name; /* the last component */
};

struct sink_object {
    struct sink_file *file;
    int fd;
    bool named;      /* temporary exists under its name */
    char *temporary; /* beside the target */
};

static int cannot_create(const char *path, int errnum, struct error *err)
{
    error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path, errnum, "cannot create");
    return error_hint(err, "the directory must exist, be writable and have room");
}

static int storage_error(const struct sink_object *object, const char *what, enum error_stage stage,
                         struct error *err)
{
    return error_set_errno(err, ERROR_STORAGE, stage, object->file->path, errno, "%s", what);
}

static void object_free(struct sink_object *object)
{
    fdio_close(&object->fd);
    if (object->named)
        unlink(object->temporary);
    free(object->temporary);
    free(object);
}

static char *temporary_name(const struct sink_file *file)
{
    char *name;
    unsigned long long random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random ||
        asprintf(&name, "%s/.%.200s.rdmaput-%016llx", file->directory, file->name, random) < 0)
        return NULL;
    return name;
}

static int open_temporary(struct sink_object *object)
{
    object->fd = open(object->file->directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (object->fd >= 0 ||
        (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL))
        return object->fd;
    object->fd = open(object->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    object->named = object->fd >= 0;
    return object->fd;
}

static struct sink_object *file_begin(struct sink *sink, const struct sink_request *request,
                                      int stop_fd, struct error *err)
{
    struct sink_file *file = (struct sink_file *)sink;
    (void)stop_fd;
    if (sink_refuse_extras(sink, request, err) < 0)
        return NULL;
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object || !(object->temporary = temporary_name(file))) {
        free(object);
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, file->path, ENOMEM, "cannot create");
        return NULL;
    }
    object->file = file;
    object->fd = -1;
    if (open_temporary(object) < 0) {
        cannot_create(file->path, errno, err);
        object_free(object);
        return NULL;
    }
    return object;
}

static int file_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err)
{
    (void)stop_fd;
    if (fdio_pwrite(object->fd, data, len, offset) < 0)
        return storage_error(object, "cannot write", STAGE_TRANSFER, err);
    return 0;
}

/* A replaced file keeps its mode; a new one has what the umask left. */
static int keep_mode(const struct sink_object *object)
{
    struct stat old;
    if (stat(object->file->path, &old) < 0)
        return errno == ENOENT ? 0 : -1;
    return fchmod(object->fd, old.st_mode & PERMISSIONS);
}

/* Gives the file without a name its temporary one, since linkat(2) replaces nothing. */
static int give_name(struct sink_object *object)
{
    char self[64];
    if (object->named)
        return 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", object->fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, object->temporary, AT_SYMLINK_FOLLOW) < 0)
        return -1;
    object->named = true;
    return 0;
}

static int file_commit(struct sink_object *object, uint64_t size, int stop_fd,
                       struct error *err)
{
    int rc = 0;
    (void)stop_fd;
    if (ftruncate(object->fd, (off_t)size) < 0 || keep_mode(object) < 0 || give_name(object) < 0)
        rc = storage_error(object, "cannot finish", STAGE_COMMIT, err);
    else if (rename(object->temporary, object->file->path) < 0)
        rc = storage_error(object, "cannot replace", STAGE_COMMIT, err);
    else
        object->named = false;
    object_free(object);
    return rc;
}

static void file_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    object_free(object);
}

static void file_free(struct sink *sink)
{
    struct sink_file *file = (struct sink_file *)sink;
    free(file->path);
    free(file->directory);
    free(file->name);
    free(file);
}

static const struct sink_ops file_ops = {
    .kind = "file",
    .stores = true,
    .begin = file_begin,
    .store = file_store,
    .commit = file_commit,
    .abandon = file_abandon,
    .free = file_free,
};

/* Where a symbolic link at path points. NULL with errno EINVAL when there is none. */
static char *read_link(const char *path)
{
    char target[PATH_MAX], *next = NULL;
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len < 0)
        return NULL;
    target[len] = '\0';
    if (target[0] == '/')
        return strdup(target);
    char *copy = strdup(path);
    if (!copy || asprintf(&next, "%s/%s", dirname(copy), target) < 0)
        next = NULL;
    free(copy);
    return next;
}

/* Where symbolic links lead from path, also when nothing is there yet. */
static char *follow_links(const char *path)
{
    char *at = realpath(path, NULL), *next;
    if (at)
        return at;
    at = strdup(path);
    for (unsigned count = 0; at && count < MOST_LINKS && (next = read_link(at)); count++) {
        free(at);
        at = next;
    }
    return at;
}

/* Splits the path; a symbolic link is followed, so that what it points to is replaced. */
static int find_target(struct sink_file *file, const char *path)
{
    file->path = follow_links(path);
    char *a = file->path ? strdup(file->path) : NULL, *b = a ? strdup(file->path) : NULL;
    if (b) {
        file->directory = strdup(dirname(a));
        file->name = strdup(basename(b));
    }
    free(a);
    free(b);
    return file->directory && file->name ? 0 : -1;
}

static int check_target(const struct sink_file *file, const char *path, struct error *err)
{
    struct stat st;
    if (path[0] == '\0')
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "SINK is empty");
    if (stat(path, &st) < 0) {
        if (errno != ENOENT || path[strlen(path) - 1] == '/')
            return cannot_create(path, errno == ENOENT ? ENOTDIR : errno, err);
    } else if (S_ISDIR(st.st_mode)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
                  "is a directory, and one FILE is due");
        return error_hint(err, "name a file in it");
    } else if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
                  "is a device, FIFO or socket, and only a regular file can be replaced");
        return error_hint(err, "name a regular file, or one that does not exist yet");
    }
    if (access(file->directory, W_OK | X_OK) < 0)
        return cannot_create(path, errno, err);
    return 0;
}

struct sink *sink_file_new(const char *path, struct error *err)
{
    struct sink_file *file = calloc(1, sizeof *file);
    if (!file || find_target(file, path) < 0) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot serve it");
        goto fail;
    }
    file->sink.ops = &file_ops;
    snprintf(file->sink.description, sizeof file->sink.description, "file '%.400s'", path);
    if (check_target(file, path, err) == 0)
        return &file->sink;
fail:
    if (file)
        file_free(&file->sink);
    return NULL;
}

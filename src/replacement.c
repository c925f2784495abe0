/*
 * replacement.c - a file on its way to replace another one.
 */
#include "config.h"

#include "replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "beneath.h"
#include "clock.h"
#include "digest.h"
#include "fdio.h"
#include "hidden.h"
#include "wire.h"

#define PERMISSIONS 0777
#define BLOCK 512 /* the unit of st_blocks */
#define PARTIAL_WAIT_NS (2 * CLOCK_NS_PER_S)
#define GAP_BYTES 4096 /* of a gap are compared at a time */

_Static_assert(SINK_IDENTITY_BYTES == 16 && NAME_DIGEST_BYTES == DIGEST_BYTES, "sizes agree");

struct sink_object {
    struct sink_request request; /* name is not used */
    bool sync, no_clobber, confined;
    int root;
    char *shown;
    char *name;       /* below root */
    const char *rest; /* of name: missing directories, and the leaf */
    const char *leaf;
    bool *made;    /* by the offset in rest of the slash that ends it: this directory is ours */
    int directory; /* before rest; here the file grows */
    struct hidden file;
    uint64_t kept;
    uint64_t recalled; /* where the last replacement_recall ended */
};

/* What mends it. */
static const char *remedy(int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        return "its directory must exist";
    case EACCES:
    case EPERM:
    case EROFS:
        return "the directory must be writable";
    case ENOSPC:
    case EDQUOT:
        return "make room there";
    case EFBIG:
        return "raise the limit of a file's size: 'ulimit -f', or that of the file system";
    default:
        return "the directory must exist, be writable and have room";
    }
}

int replacement_cannot_create(const char *shown, int errnum, struct error *err)
{
    error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, shown, errnum, "cannot create");
    if (err->class == ERROR_RESOURCE)
        return -1;
    return error_hint(err, "%s", remedy(errnum));
}

int replacement_exists(const char *shown, enum error_stage stage, struct error *err)
{
    error_set(err, ERROR_CANNOT_CREATE, stage, shown,
              "exists already, and the server replaces nothing");
    return error_hint(err, "take another name, or serve without --no-clobber");
}

static int cannot_create(const struct sink_object *object, struct error *err)
{
    return replacement_cannot_create(object->shown, errno, err);
}

static int storage_error(const struct sink_object *object, const char *what, enum error_stage stage,
                         struct error *err)
{
    return error_set_errno(err, ERROR_STORAGE, stage, object->shown, errno, "%s", what);
}

static void object_free(struct sink_object *object)
{
    hidden_discard(&object->file);
    fdio_close(&object->directory);
    fdio_close(&object->root);
    free(object->made);
    free(object->name);
    free(object->shown);
    free(object);
}

static struct sink_object *object_new(const struct replacement_place *place,
                                      const struct sink_request *request,
                                      const struct sink_options *options, struct error *err)
{
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object)
        goto fail;
    object->directory = object->file.fd = -1;
    object->request = *request;
    object->sync = request->sync || options->sync;
    object->no_clobber = options->no_clobber;
    object->confined = place->confined;
    object->root = fcntl(place->root, F_DUPFD_CLOEXEC, 0);
    object->shown = strdup(place->shown);
    object->name = strdup(place->name);
    object->made = calloc(strlen(place->name) + 1, sizeof *object->made);
    if (object->root >= 0 && object->shown && object->name && object->made)
        return object;
fail:
    error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, place->shown, errno, "cannot begin an object");
    if (object)
        object_free(object);
    return NULL;
}

static int find_directory(struct sink_object *object, struct error *err)
{
    const char *slash = strrchr(object->name, '/');
    object->leaf = slash ? slash + 1 : object->name;
    object->directory = beneath_open_deepest(object->root, object->name, &object->rest);
    if (object->directory >= 0)
        return 0;
    if (errno != ENOTDIR && errno != ELOOP)
        return cannot_create(object, err);
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, object->shown,
              "a part of it is a file or a symbolic link, and a directory is due");
    return error_hint(err, "no symbolic link below the directory that is served is followed");
}

/* Why a file of that mode cannot be replaced; NULL: it can. */
static const char *kind_problem(mode_t mode)
{
    if (S_ISREG(mode))
        return NULL;
    if (S_ISDIR(mode))
        return "is a directory, and a file is due";
    if (S_ISLNK(mode))
        return "is a symbolic link, and only a regular file can be replaced";
    return "is a device, FIFO or socket, and only a regular file can be replaced";
}

/* Refuses what must not be replaced. mode: of what will be, or 0. */
static int check_target(const struct sink_object *object, int parent, enum error_stage stage,
                        mode_t *mode, struct error *err)
{
    struct stat st;
    *mode = 0;
    if (object->no_clobber && fstatat(parent, object->leaf, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return replacement_exists(object->shown, stage, err);
    if (fstatat(parent, object->leaf, &st, object->confined ? AT_SYMLINK_NOFOLLOW : 0) < 0)
        return errno == ENOENT ? 0
                               : error_set_errno(err, ERROR_CANNOT_CREATE, stage, object->shown,
                                                 errno, "cannot create");
    *mode = st.st_mode;
    const char *problem = kind_problem(st.st_mode);
    if (!problem || (S_ISDIR(st.st_mode) && stage == STAGE_COMMIT))
        return 0; /* rename(2) itself refuses a directory */
    return error_set(err, ERROR_CANNOT_CREATE, stage, object->shown, "%s", problem);
}

static int check_target_at_begin(const struct sink_object *object, struct error *err)
{
    mode_t mode;
    if (object->rest != object->leaf)
        return 0; /* not even its directory is there */
    return check_target(object, object->directory, STAGE_OPEN, &mode, err);
}

static int partial_digest(const struct sink_object *object, uint8_t out[DIGEST_BYTES])
{
    struct digest_value value;
    struct digest *digest = digest_new();
    size_t len = strlen(object->name) + 1;
    if (!digest) {
        errno = ENOMEM;
        return -1;
    }
    digest_add(digest, 0, object->name, len);
    digest_add(digest, len, object->request.identity, SINK_IDENTITY_BYTES);
    digest_value(digest, &value);
    memcpy(out, value.data, DIGEST_BYTES);
    digest_free(digest);
    return 0;
}

static int partial_error(const struct sink_object *object, struct error *err)
{
    switch (errno) {
    case EWOULDBLOCK:
        error_set(err, ERROR_TEMPORARY, STAGE_OPEN, object->shown,
                  "another session is writing this object");
        return error_hint(err, "try again when it has ended, or without --resume");
    case ECANCELED:
        return error_set(err, ERROR_INTERRUPTED, STAGE_OPEN, object->shown, "interrupted");
    case EEXIST:
        return error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, object->shown,
                         "what is in the place of the file '%s' to resume from is not the server's",
                         object->file.name);
    default:
        return cannot_create(object, err);
    }
}

static int open_partial(struct sink_object *object, int stop_fd, struct error *err)
{
    uint8_t digest[DIGEST_BYTES];
    struct stat st;
    if (partial_digest(object, digest) < 0)
        return cannot_create(object, err);
    if (hidden_open_partial(&object->file, object->directory, object->leaf, digest, PARTIAL_WAIT_NS,
                            stop_fd) < 0)
        return partial_error(object, err);
    if (fstat(object->file.fd, &st) < 0)
        return cannot_create(object, err);
    object->kept = (uint64_t)st.st_size;
    return 0;
}

static int open_file(struct sink_object *object, int stop_fd, struct error *err)
{
    if (object->request.resume)
        return open_partial(object, stop_fd, err);
    if (hidden_open_temporary(&object->file, object->directory, object->leaf) < 0)
        return cannot_create(object, err);
    return 0;
}

/* Whether bytes more than the file has fit into the file system. -1 with errno. */
static int check_room(int fd, uint64_t bytes)
{
    struct statvfs fs;
    struct stat st;
    uint64_t room, has;
    if (fstatvfs(fd, &fs) < 0 || fstat(fd, &st) < 0 || fs.f_blocks == 0)
        return 0; /* it cannot be told */
    uint64_t blocks = geteuid() == 0 ? fs.f_bfree : fs.f_bavail;
    has = (uint64_t)st.st_blocks * BLOCK;
    if (__builtin_mul_overflow(blocks, (uint64_t)fs.f_frsize, &room) || bytes <= has ||
        bytes - has <= room)
        return 0;
    errno = ENOSPC;
    return -1;
}

/* Of all file sizes. -1 with errno. */
static int check_size(uint64_t size)
{
    struct rlimit limit;
    if (size <= INT64_MAX && (getrlimit(RLIMIT_FSIZE, &limit) < 0 ||
                              limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur))
        return 0;
    errno = EFBIG;
    return -1;
}

/* Space for all of it, unless it has holes, which must stay some, and where there is such a thing. */
static int allocate(int fd, uint64_t size)
{
    int rc;
    while ((rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size)) < 0 && errno == EINTR)
        ;
    return rc < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) ? -1 : 0;
}

/* The room is looked at first: on its way to fail for want of it, fallocate takes all there is from
 * other sessions. */
static int reserve(const struct sink_object *object)
{
    uint64_t size = object->request.size, bytes = object->request.bytes;
    if (size == WIRE_UNKNOWN || size == 0)
        return 0;
    if (check_size(size) < 0 || check_room(object->file.fd, bytes) < 0)
        return -1;
    return bytes == size ? allocate(object->file.fd, size) : 0;
}

/* Ends the object; what was stored is kept if it may be, and there is any. */
static void end(struct sink_object *object, bool keep)
{
    struct stat st;
    if (keep && object->request.resume && object->file.named && fstat(object->file.fd, &st) == 0 &&
        st.st_size > 0)
        hidden_keep(&object->file);
    object_free(object);
}

struct sink_object *replacement_begin(const struct replacement_place *place,
                                      const struct sink_request *request,
                                      const struct sink_options *options, int stop_fd,
                                      struct error *err)
{
    struct sink_object *object = object_new(place, request, options, err);
    if (!object)
        return NULL;
    if (find_directory(object, err) == 0 && check_target_at_begin(object, err) == 0 &&
        open_file(object, stop_fd, err) == 0) {
        if (reserve(object) == 0)
            return object;
        cannot_create(object, err);
    }
    end(object, true);
    return NULL;
}

uint64_t replacement_kept(const struct sink_object *object)
{
    return object->kept < object->request.size ? object->kept : object->request.size;
}

/* 1 when the file has nothing but zeros there, 0, or -1 with errno. What is a hole is not read. */
static int is_gap(int fd, uint64_t offset, uint64_t end)
{
    static const uint8_t zeros[GAP_BYTES];
    uint8_t block[GAP_BYTES];
    while (offset < end) {
        off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
        if (data >= 0)
            offset = (uint64_t)data;
        if ((data < 0 && errno == ENXIO) || offset >= end)
            return 1;
        size_t len = end - offset < GAP_BYTES ? (size_t)(end - offset) : GAP_BYTES;
        ssize_t n = fdio_pread(fd, block, len, offset);
        if (n <= 0)
            return n == 0 ? 1 : -1;
        if (memcmp(block, zeros, (size_t)n) != 0)
            return 0;
        offset += (uint64_t)n;
    }
    return 1;
}

static int check_gap(const struct sink_object *object, uint64_t end, struct error *err)
{
    int rc = is_gap(object->file.fd, object->recalled, end);
    if (rc < 0)
        return storage_error(object, "cannot read what was kept", STAGE_TRANSFER, err);
    return rc > 0 ? 0
                  : error_set(err, ERROR_STORAGE, STAGE_TRANSFER, object->shown,
                              "what was kept has something in a gap");
}

int replacement_recall(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                       struct error *err)
{
    if (check_gap(object, offset, err) < 0)
        return -1;
    object->recalled = offset + len;
    ssize_t n = fdio_pread(object->file.fd, buf, len, offset);
    if (n < 0)
        return storage_error(object, "cannot read what was kept", STAGE_TRANSFER, err);
    if ((size_t)n < len)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, object->shown,
                         "what was kept became shorter");
    return 0;
}

int replacement_resume_at(struct sink_object *object, uint64_t bytes, struct error *err)
{
    if (bytes > object->kept)
        return error_set(err, ERROR_BUG, STAGE_TRANSFER, object->shown,
                         "resumed behind what was kept");
    if (bytes == object->kept)
        return 0;
    if (ftruncate(object->file.fd, (off_t)bytes) < 0)
        return storage_error(object, "cannot cut what was kept", STAGE_TRANSFER, err);
    object->kept = bytes;
    return reserve(object) < 0 ? cannot_create(object, err) : 0;
}

int replacement_map(struct sink_object *object, uint64_t size, const char **why)
{
    if (!fdio_can_map(object->file.fd, why))
        return -1;
    if (ftruncate(object->file.fd, (off_t)size) == 0)
        return object->file.fd;
    *why = "the file cannot be made so large";
    return -1;
}

int replacement_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err)
{
    (void)stop_fd;
    if (fdio_pwrite(object->file.fd, data, len, offset) < 0)
        return storage_error(object, "cannot write", STAGE_TRANSFER, err);
    return 0;
}

/* Makes a directory durable: with its descriptor to read, or, where it cannot be read, with all of
 * the file system. */
static int sync_directory(const struct sink_object *object, int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? syncfs(object->file.fd) : -1;
    int rc = fsync(fd);
    if (rc < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
        rc = 0; /* this file system has no such thing */
    fdio_close(&fd);
    return rc;
}

/* Makes one directory, unless it is there by now, and goes on in it. -1 with errno. */
static int descend(struct sink_object *object, int at, const char *component, bool *made)
{
    *made = mkdirat(at, component, PERMISSIONS) == 0;
    if (!*made && errno != EEXIST)
        return -1;
    if (object->sync && sync_directory(object, at) < 0)
        return -1;
    return openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The directory of the leaf, made as far as it is missing. -1 with errno. */
static int open_parent(struct sink_object *object)
{
    char *component = object->name + (object->rest - object->name), *slash;
    int at = fcntl(object->directory, F_DUPFD_CLOEXEC, 0);
    for (; at >= 0 && (slash = strchr(component, '/')); component = slash + 1) {
        *slash = '\0';
        int next = descend(object, at, component, &object->made[slash - object->rest]);
        *slash = '/';
        fdio_close(&at);
        at = next;
    }
    return at;
}

/* The deepest first. What is no longer empty stays. */
static void unmake_directories(struct sink_object *object)
{
    const char *rest = object->rest;
    for (size_t len = strlen(rest); len > 0; len--) {
        if (!object->made[len])
            continue;
        const char *slash = memrchr(rest, '/', len);
        size_t parent_len = slash ? (size_t)(slash - rest) : 0;
        char *component = strndup(slash ? slash + 1 : rest, len - parent_len - (slash ? 1 : 0));
        int parent = beneath_open(object->directory, rest, parent_len);
        if (component && parent >= 0)
            unlinkat(parent, component, AT_REMOVEDIR);
        fdio_close(&parent);
        free(component);
    }
}

/* Whether the name leads to where the file has grown: someone may have moved that. */
static int check_place(const struct sink_object *object, struct error *err)
{
    struct stat was, is;
    if (object->rest == object->name)
        return 0;
    int fd = beneath_open(object->root, object->name, (size_t)(object->rest - object->name - 1));
    if (fd < 0 && error_class_of_errno(errno, ERROR_NONE) == ERROR_RESOURCE)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_COMMIT, object->shown, errno,
                               "cannot open its directory");
    bool same = fd >= 0 && fstat(fd, &is) == 0 && fstat(object->directory, &was) == 0 &&
                is.st_dev == was.st_dev && is.st_ino == was.st_ino;
    fdio_close(&fd);
    return same ? 0
                : error_set(err, ERROR_CANNOT_CREATE, STAGE_COMMIT, object->shown,
                            "its directory was moved or replaced meanwhile");
}

static mode_t final_mode(const struct sink_object *object, mode_t replaced)
{
    if (object->request.preserve)
        return object->request.mode & PERMISSIONS;
    return (replaced ? replaced : object->file.new_mode) & PERMISSIONS;
}

/* close(2), of any descriptor of it, is where some network file systems tell that a write failed. -1
 * with errno. */
static int flush(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy >= 0 && (close(copy) == 0 || errno == EINTR) ? 0 : -1;
}

/* All that the file has besides its content; nothing may change its times after. */
static int finish(struct sink_object *object, mode_t replaced, struct error *err)
{
    const struct timespec times[] = {object->request.accessed, object->request.modified};
    int fd = object->file.fd;
    if (flush(fd) < 0 || hidden_give_name(&object->file) < 0 ||
        fchmod(fd, final_mode(object, replaced)) < 0 ||
        (object->request.preserve && futimens(fd, times) < 0) || (object->sync && fsync(fd) < 0))
        return storage_error(object, "cannot finish", STAGE_COMMIT, err);
    return 0;
}

/* Renames unless there is something. -1 with errno. */
static int rename_new(int from, const char *name, int to, const char *leaf)
{
    if (renameat2(from, name, to, leaf, RENAME_NOREPLACE) == 0)
        return 0;
    if ((errno != EINVAL && errno != ENOSYS) || linkat(from, name, to, leaf, 0) < 0)
        return -1;
    unlinkat(from, name, 0);
    return 0;
}

static int appear(struct sink_object *object, int parent, struct error *err)
{
    struct hidden *file = &object->file;
    int rc = object->no_clobber ? rename_new(file->directory, file->name, parent, object->leaf)
                                : renameat(file->directory, file->name, parent, object->leaf);
    if (rc < 0 && errno == EEXIST && object->no_clobber)
        return replacement_exists(object->shown, STAGE_COMMIT, err);
    if (rc < 0)
        return storage_error(object, "cannot replace", STAGE_COMMIT, err);
    file->named = false;
    return 0;
}

static int commit_in(struct sink_object *object, int parent, struct error *err)
{
    mode_t replaced;
    if (check_target(object, parent, STAGE_COMMIT, &replaced, err) < 0 ||
        finish(object, replaced, err) < 0 || appear(object, parent, err) < 0)
        return -1;
    if (object->sync && sync_directory(object, parent) < 0)
        return storage_error(object, "it is there, but may not be on stable storage yet",
                             STAGE_COMMIT, err);
    return 0;
}

static int commit(struct sink_object *object, uint64_t size, struct error *err)
{
    if (ftruncate(object->file.fd, (off_t)size) < 0)
        return storage_error(object, "cannot finish", STAGE_COMMIT, err);
    if (check_place(object, err) < 0)
        return -1;
    int parent = open_parent(object);
    if (parent < 0)
        return error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_COMMIT, object->shown, errno,
                               "cannot make its directory");
    int rc = commit_in(object, parent, err);
    fdio_close(&parent);
    return rc;
}

int replacement_commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err)
{
    (void)stop_fd;
    int rc = commit(object, size, err);
    if (rc < 0)
        unmake_directories(object);
    end(object, rc < 0);
    return rc;
}

void replacement_abandon(struct sink_object *object, bool keep)
{
    end(object, keep);
}

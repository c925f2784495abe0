/*
 * sink-file.c - a regular file that is replaced whole.
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
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"
#include "replacement.h"
#include "sweeper.h"

#define MOST_LINKS 40 /* as many as the kernel follows */

struct sink_file {
    struct sink sink;
    struct sink_options options;
    char *path; /* where symbolic links lead */
    char *directory;
    char *name; /* the last component */
    struct sweeper *sweeper;
};

static int open_directory(const struct sink_file *file, struct error *err)
{
    int fd = open(file->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return replacement_cannot_create(file->path, errno, err);
    return fd;
}

static struct sink_object *file_begin(struct sink *sink, const struct sink_request *request,
                                      int stop_fd, struct error *err)
{
    struct sink_file *file = (struct sink_file *)sink;
    if (sink_refuse_extras(sink, request, err) < 0)
        return NULL;
    int directory = open_directory(file, err);
    if (directory < 0)
        return NULL;
    struct replacement_place place = {
        .root = directory,
        .name = file->name,
        .shown = file->path,
    };
    struct sink_object *object = replacement_begin(&place, request, &file->options, stop_fd, err);
    fdio_close(&directory);
    return object;
}

static void file_free(struct sink *sink)
{
    struct sink_file *file = (struct sink_file *)sink;
    sweeper_stop(file->sweeper);
    free(file->path);
    free(file->directory);
    free(file->name);
    free(file);
}

static const struct sink_ops file_ops = {
    .kind = "file",
    .stores = true,
    .begin = file_begin,
    .kept = replacement_kept,
    .recall = replacement_recall,
    .resume_at = replacement_resume_at,
    .map = replacement_map,
    .store = replacement_store,
    .commit = replacement_commit,
    .abandon = replacement_abandon,
    .free = file_free,
};

/* Whether there is a symbolic link at path; then *next is where it points, NULL when memory is
 * short. */
static bool read_link(const char *path, char **next)
{
    char target[PATH_MAX];
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len < 0)
        return false;
    target[len] = '\0';
    if (target[0] == '/') {
        *next = strdup(target);
        return true;
    }
    char *copy = strdup(path);
    if (!copy || asprintf(next, "%s/%s", dirname(copy), target) < 0)
        *next = NULL;
    free(copy);
    return true;
}

/* Where symbolic links lead from path, also when nothing is there yet. */
static char *follow_links(const char *path)
{
    char *at = realpath(path, NULL), *next;
    if (at)
        return at;
    at = strdup(path);
    for (unsigned count = 0; at && count < MOST_LINKS && read_link(at, &next); count++) {
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
            return replacement_cannot_create(path, errno == ENOENT ? ENOTDIR : errno, err);
    } else if (S_ISDIR(st.st_mode)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
                  "is a directory, and one FILE is due");
        return error_hint(err, "name a file in it");
    } else if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
                  "is a device, FIFO or socket, and only a regular file can be replaced");
        return error_hint(err, "a block device is written with --in-place, and what takes data in "
                               "order by standard output: 'rdmaput serve - > %s'",
                          path);
    } else if (file->options.no_clobber) {
        return replacement_exists(path, STAGE_OPEN, err);
    }
    if (access(file->directory, W_OK | X_OK) < 0)
        return replacement_cannot_create(path, errno, err);
    return 0;
}

static int start_sweeper(struct sink_file *file, struct error *err)
{
    int directory = open_directory(file, err);
    if (directory < 0)
        return -1;
    file->sweeper = sweeper_start(directory, file->name, file->options.keep_ns, err);
    fdio_close(&directory);
    return file->sweeper ? 0 : -1;
}

struct sink *sink_file_new(const char *path, const struct sink_options *options, struct error *err)
{
    struct sink_file *file = calloc(1, sizeof *file);
    if (!file || find_target(file, path) < 0) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot serve it");
        goto fail;
    }
    file->sink.ops = &file_ops;
    file->options = *options;
    snprintf(file->sink.description, sizeof file->sink.description, "file '%.400s'", path);
    if (check_target(file, path, err) == 0 && start_sweeper(file, err) == 0)
        return &file->sink;
fail:
    if (file)
        file_free(&file->sink);
    return NULL;
}

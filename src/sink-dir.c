/*
 * sink-dir.c - a directory below which clients name files.
 */
#include "config.h"

#include "sink-dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"
#include "name.h"
#include "replacement.h"
#include "sweeper.h"

struct sink_dir {
    struct sink sink;
    struct sink_options options;
    char *path;
    int fd;
    struct sweeper *sweeper;
};

static int check_name(const struct sink_dir *dir, const char *name, struct error *err)
{
    char problem[128], masked[192];
    if (name[0] == '\0') {
        error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
                  "the server serves a directory, and no object was named");
        return error_hint(err, "name it: HOST[:PORT]/NAME");
    }
    if (name_check(name, problem, sizeof problem))
        return 0;
    snprintf(masked, sizeof masked, "%s", name);
    error_mask(masked);
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, dir->path, "'%s' can be no object's name: %s",
              masked, problem);
    return error_hint(err, "a name is a path below the server's directory: a/b/c");
}

/* The descriptor stays good, and nothing can be found through it any more. */
static int check_root(const struct sink_dir *dir, struct error *err)
{
    struct stat st;
    if (fstat(dir->fd, &st) < 0 || st.st_nlink > 0)
        return 0;
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, dir->path, "that directory was removed");
    return error_hint(err, "make it again, and start the server anew");
}

static struct sink_object *dir_begin(struct sink *sink, const struct sink_request *request,
                                     int stop_fd, struct error *err)
{
    struct sink_dir *dir = (struct sink_dir *)sink;
    char shown[192];
    size_t len = strlen(dir->path);
    if (check_name(dir, request->name, err) < 0 || check_root(dir, err) < 0)
        return NULL;
    snprintf(shown, sizeof shown, "%s%s%s", dir->path, dir->path[len - 1] == '/' ? "" : "/",
             request->name);
    error_mask(shown);
    struct replacement_place place = {
        .root = dir->fd,
        .name = request->name,
        .shown = shown,
        .confined = true,
    };
    return replacement_begin(&place, request, &dir->options, stop_fd, err);
}

static void dir_free(struct sink *sink)
{
    struct sink_dir *dir = (struct sink_dir *)sink;
    sweeper_stop(dir->sweeper);
    fdio_close(&dir->fd);
    free(dir->path);
    free(dir);
}

static const struct sink_ops dir_ops = {
    .kind = "directory",
    .stores = true,
    .begin = dir_begin,
    .kept = replacement_kept,
    .recall = replacement_recall,
    .resume_at = replacement_resume_at,
    .map = replacement_map,
    .store = replacement_store,
    .commit = replacement_commit,
    .abandon = replacement_abandon,
    .free = dir_free,
};

static int open_root(struct sink_dir *dir, struct error *err)
{
    dir->fd = open(dir->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd >= 0 && faccessat(dir->fd, ".", W_OK | X_OK, 0) == 0)
        return 0;
    error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, dir->path, errno,
                    "cannot serve this directory");
    return error_hint(err, "it must exist and be writable");
}

struct sink *sink_dir_new(const char *path, const struct sink_options *options, struct error *err)
{
    struct sink_dir *dir = calloc(1, sizeof *dir);
    if (!dir || !(dir->path = strdup(path))) {
        free(dir);
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, path, ENOMEM, "cannot serve it");
        return NULL;
    }
    dir->sink.ops = &dir_ops;
    dir->options = *options;
    snprintf(dir->sink.description, sizeof dir->sink.description, "directory '%.400s'", path);
    if (open_root(dir, err) == 0 &&
        (dir->sweeper = sweeper_start(dir->fd, NULL, options->keep_ns, err)))
        return &dir->sink;
    dir_free(&dir->sink);
    return NULL;
}

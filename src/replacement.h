/*
 * replacement.h - a file on its way to replace, whole, whatever has a name in a directory: the
 * objects of the sinks FILE and DIR, with the operations of sink.h.
 *
 * It grows in the deepest directory of its name that exists: without a name of its own where the
 * file system can do that, so that even a killed server leaves nothing; otherwise, and when it may
 * be kept for resuming, under a hidden one (name.h), which is locked (flock) while it is in use.
 * Until the commit only its owner may read it. Missing directories are made at the commit, and go
 * again if that fails.
 */
#ifndef RDMAPUT_REPLACEMENT_H
#define RDMAPUT_REPLACEMENT_H

#include "sink.h"

struct replacement_place {
    int root;          /* a directory, O_PATH will do; duplicated */
    const char *name;  /* below it, good by name_check; copied */
    const char *shown; /* for messages; copied */
    bool confined;     /* a symbolic link of that name is refused */
};

/*
 * Begins an object. Its space is reserved, or at least there. Refuses (73) what has no room, a
 * target that is no regular file, and with no_clobber one that exists. With resume, what an earlier
 * session kept for the same name and identity is gone on from; while another session is at it, waits
 * for up to 2 s (75). NULL with *err: nothing was made. request and options are copied.
 */
struct sink_object *replacement_begin(const struct replacement_place *place,
                                      const struct sink_request *request,
                                      const struct sink_options *options, int stop_fd,
                                      struct error *err);

/* As sink.h has them. */
int replacement_map(struct sink_object *object, uint64_t size, const char **why);
uint64_t replacement_kept(const struct sink_object *object);
int replacement_recall(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                       struct error *err);
int replacement_resume_at(struct sink_object *object, uint64_t bytes, struct error *err);
int replacement_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err);

/*
 * The mode is the request's with preserve, else that of the file it replaces, else what the umask
 * leaves; never set-user-id, set-group-id or sticky. With sync, the file is on stable storage
 * before it appears, and directories after it; should that last step alone fail, the error says
 * that the object is there. A failure otherwise leaves what is kept for resuming, and nothing else.
 */
int replacement_commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err);
void replacement_abandon(struct sink_object *object, bool keep);

/* The error of a place where nothing can be made, with its hint; -1. */
int replacement_cannot_create(const char *shown, int errnum, struct error *err);

/* The error of a target that exists, under no_clobber, with its hint; -1. */
int replacement_exists(const char *shown, enum error_stage stage, struct error *err);

#endif

#include "config.h"

#include "model-sink.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

struct sink_object {
    struct model_sink *sink;
    uint64_t end; /* of what was stored last */
    bool resumes;
};

static bool is_due(bool *failure)
{
    bool due = *failure;
    *failure = false;
    return due;
}

uint8_t model_kept(uint64_t offset)
{
    return (uint8_t)(offset % 251);
}

static void set_size(struct model_sink *sink, size_t size)
{
    if (ftruncate(sink->fd, (off_t)size) < 0)
        abort();
}

void model_cut(struct model_sink *sink)
{
    set_size(sink, 0);
    sink->cut = true;
}

static struct sink_object *begin(struct sink *base, const struct sink_request *request, int stop_fd,
                                 struct error *err)
{
    struct model_sink *sink = (struct model_sink *)base;
    (void)stop_fd;
    FUZZ_ASSERT(sink->alive == 0);
    sink->begun++;
    if (is_due(&sink->fail_begin)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, "file", "it is told to fail");
        return NULL;
    }
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object)
        abort();
    *object = (struct sink_object){.sink = sink, .resumes = request->resume};
    sink->alive++;
    if (sink->cut)
        set_size(sink, MODEL_BYTES);
    sink->cut = false;
    memset(sink->content, 0, sink->used);
    sink->used = request->resume ? sink->kept : 0;
    sink->resumed_at = UINT64_MAX;
    for (uint64_t i = 0; i < sink->used; i++)
        sink->content[i] = model_kept(i);
    return object;
}

static uint64_t kept(const struct sink_object *object)
{
    return object->sink->kept;
}

static int recall(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                  struct error *err)
{
    FUZZ_ASSERT(object->resumes && object->sink->resumed_at == UINT64_MAX);
    FUZZ_ASSERT(offset <= object->sink->kept && len <= object->sink->kept - offset);
    if (is_due(&object->sink->fail_recall) || object->sink->cut)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "it is told to fail");
    memcpy(buf, object->sink->content + offset, len);
    return 0;
}

static int resume_at(struct sink_object *object, uint64_t bytes, struct error *err)
{
    struct model_sink *sink = object->sink;
    (void)err;
    FUZZ_ASSERT(object->resumes && sink->resumed_at == UINT64_MAX && bytes <= sink->kept);
    sink->resumed_at = bytes;
    if (!sink->cut)
        memset(sink->content + bytes, 0, sink->kept - bytes);
    return 0;
}

static void note_used(struct model_sink *sink, uint64_t end)
{
    if (end > sink->used)
        sink->used = end;
}

static int map(struct sink_object *object, uint64_t size, const char **why)
{
    *why = "it is told to fail";
    if (is_due(&object->sink->fail_map) || size > MODEL_BYTES)
        return -1;
    note_used(object->sink, size);
    return object->sink->fd;
}

static int store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                 int stop_fd, struct error *err)
{
    struct model_sink *sink = object->sink;
    (void)stop_fd;
    FUZZ_ASSERT(len > 0 && offset >= object->end);
    FUZZ_ASSERT(!object->resumes || sink->kept == 0 ||
                (sink->resumed_at != UINT64_MAX && offset >= sink->resumed_at));
    if (is_due(&sink->fail_store) || sink->cut || offset > MODEL_BYTES ||
        len > MODEL_BYTES - offset)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "it is told to fail");
    memcpy(sink->content + offset, data, len);
    object->end = offset + len;
    note_used(sink, object->end);
    return 0;
}

static void end(struct sink_object *object)
{
    object->sink->alive--;
    free(object);
}

static int commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err)
{
    struct model_sink *sink = object->sink;
    bool fails = is_due(&sink->fail_commit);
    (void)stop_fd;
    if (!sink->cut)
        sink->committing(sink->begun - 1, sink->content, size);
    FUZZ_ASSERT(!object->resumes || sink->kept == 0 || sink->resumed_at != UINT64_MAX);
    sink->committed += !fails;
    end(object);
    return fails ? error_set(err, ERROR_STORAGE, STAGE_COMMIT, "file", "it is told to fail") : 0;
}

static void abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    end(object);
}

static const struct sink_ops model_ops = {
    .kind = "model",
    .stores = true,
    .begin = begin,
    .kept = kept,
    .recall = recall,
    .resume_at = resume_at,
    .map = map,
    .store = store,
    .commit = commit,
    .abandon = abandon,
};

void model_open(struct model_sink *sink)
{
    *sink = (struct model_sink){.fd = memfd_create("model", MFD_CLOEXEC)};
    if (sink->fd < 0)
        abort();
    set_size(sink, MODEL_BYTES);
    sink->sink.ops = &model_ops;
    sink->content = mmap(NULL, MODEL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, sink->fd, 0);
    if (sink->content == MAP_FAILED)
        abort();
}

void model_reset(struct model_sink *sink, uint64_t kept_bytes)
{
    sink->kept = kept_bytes;
    sink->begun = sink->committed = 0;
    sink->fail_begin = sink->fail_store = sink->fail_commit = sink->fail_map = sink->fail_recall =
        false;
}

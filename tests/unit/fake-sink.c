#include "config.h"

#include "fake-sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct sink_object {
    struct fake_sink *sink;
    uint64_t kept;
};

static struct sink_object *fake_begin(struct sink *base, const struct sink_request *request,
                                      int stop_fd, struct error *err)
{
    struct fake_sink *sink = (struct fake_sink *)base;
    struct sink_object *object;

    (void)stop_fd;
    if (sink->fail_begin) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, request->name, "no room");
        return NULL;
    }
    object = calloc(1, sizeof *object);
    assert_non_null(object);
    object->sink = sink;
    object->kept = sink->kept;
    sink->begun++;
    return object;
}

static uint64_t fake_kept(const struct sink_object *object)
{
    return object->kept;
}

static int fake_recall(struct sink_object *object, uint64_t offset, void *buf, size_t len,
                       struct error *err)
{
    struct fake_sink *sink = object->sink;

    sink->recalls++;
    if (sink->fail_recall)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "cannot read");
    assert_true(offset + len <= object->kept);
    if (sink->content)
        memcpy(buf, sink->content + offset, len);
    else
        memset(buf, 'k', len);
    return 0;
}

static int fake_resume_at(struct sink_object *object, uint64_t bytes, struct error *err)
{
    struct fake_sink *sink = object->sink;

    sink->resumed++;
    sink->resumed_at = bytes;
    sink->stores_before_resume = sink->stores;
    if (sink->fail_resume)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "cannot truncate");
    return 0;
}

static int fake_map(struct sink_object *object, uint64_t size, const char **why)
{
    (void)size;
    *why = "the test says so";
    return object->sink->map_fd;
}

static int fake_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                      int stop_fd, struct error *err)
{
    struct fake_sink *sink = object->sink;

    (void)stop_fd;
    if (++sink->stores == sink->fail_store)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "no space");
    if (sink->map_fd >= 0 && pwrite(sink->map_fd, data, len, (off_t)offset) != (ssize_t)len)
        return error_set(err, ERROR_STORAGE, STAGE_TRANSFER, "file", "cannot be written");
    sink->stored_end = offset + len;
    return 0;
}

static int fake_commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err)
{
    struct fake_sink *sink = object->sink;

    (void)stop_fd;
    free(object);
    if (sink->fail_commit)
        return error_set(err, ERROR_STORAGE, STAGE_COMMIT, "file", "cannot rename");
    sink->committed++;
    sink->committed_size = size;
    return 0;
}

static void fake_abandon(struct sink_object *object, bool keep)
{
    object->sink->abandoned++;
    object->sink->kept_again += keep;
    free(object);
}

void fake_sink_open(struct fake_sink *sink)
{
    static const struct sink_ops ops = {
        .kind = "fake",
        .begin = fake_begin,
        .kept = fake_kept,
        .recall = fake_recall,
        .resume_at = fake_resume_at,
        .map = fake_map,
        .store = fake_store,
        .commit = fake_commit,
        .abandon = fake_abandon,
    };

    *sink = (struct fake_sink){.sink = {.ops = &ops}, .map_fd = -1, .resumed_at = UINT64_MAX};
}

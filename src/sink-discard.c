/* sink-discard.c - sinks that keep nothing: --discard, and no sink at all. */
#include "config.h"

#include "sink-discard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct sink_object {
    char nothing;
};

static struct sink_object *discard_begin(struct sink *sink, const struct sink_request *request,
                                         int stop_fd, struct error *err)
{
    (void)stop_fd;
    if (sink_refuse_extras(sink, request, err) < 0)
        return NULL;
    if (request->sync) {
        sink_refuse_sync(sink, err);
        return NULL;
    }
    struct sink_object *object = malloc(sizeof *object);
    if (!object)
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno, "cannot begin an object");
    return object;
}

static int discard_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                         int stop_fd, struct error *err)
{
    (void)object, (void)offset, (void)data, (void)len, (void)stop_fd, (void)err;
    return 0;
}

static int discard_commit(struct sink_object *object, uint64_t size, int stop_fd,
                          struct error *err)
{
    (void)size, (void)stop_fd, (void)err;
    free(object);
    return 0;
}

static void discard_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    free(object);
}

static void discard_free(struct sink *sink)
{
    free(sink);
}

static struct sink_object *none_begin(struct sink *sink, const struct sink_request *request,
                                      int stop_fd, struct error *err)
{
    (void)sink, (void)request, (void)stop_fd;
    error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, "the server stores nothing");
    error_hint(err, "start it with a place to write to: 'rdmaput serve SINK', SINK being FILE, DIR or "
                    "-, or with --in-place, --region or --discard");
    return NULL;
}

static const struct sink_ops discard_ops = {
    .kind = "discarding sink",
    .begin = discard_begin,
    .store = discard_store,
    .commit = discard_commit,
    .abandon = discard_abandon,
    .free = discard_free,
};

static const struct sink_ops none_ops = {
    .kind = "server without a sink",
    .begin = none_begin,
    .store = discard_store,
    .commit = discard_commit,
    .abandon = discard_abandon,
    .free = discard_free,
};

static struct sink *new_sink(const struct sink_ops *ops, const char *description, struct error *err)
{
    struct sink *sink = calloc(1, sizeof *sink);
    if (!sink) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno, "cannot make a sink");
        return NULL;
    }
    sink->ops = ops;
    snprintf(sink->description, sizeof sink->description, "%s", description);
    return sink;
}

struct sink *sink_discard_new(struct error *err)
{
    return new_sink(&discard_ops, "verifies and discards", err);
}

struct sink *sink_none_new(struct error *err)
{
    return new_sink(&none_ops, "stores nothing", err);
}

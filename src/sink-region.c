#include "config.h"

#include "sink-region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "wire.h"

struct sink_region {
    struct sink sink;
    struct region *region;
};

struct sink_object {
    struct sink_region *sink;
    uint64_t end; /* of what was stored so far */
    bool sync;
};

static int too_large(const struct sink_region *sink, uint64_t end, struct error *err)
{
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, NULL,
              "an object of %" PRIu64 " bytes does not fit into the region of %zu bytes", end,
              sink->region->memory.bytes);
    return error_hint(err, "serve a larger --region");
}

static struct sink_object *region_begin(struct sink *base, const struct sink_request *request,
                                        int stop_fd, struct error *err)
{
    struct sink_region *sink = (struct sink_region *)base;
    (void)stop_fd;
    if (sink_refuse_extras(base, request, err) < 0)
        return NULL;
    if (request->sync && !sink->region->dump) {
        sink_refuse_sync(base, err);
        return NULL;
    }
    if (request->size != WIRE_UNKNOWN && request->size > sink->region->memory.bytes) {
        too_large(sink, request->size, err);
        return NULL;
    }
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno, "cannot begin an object");
        return NULL;
    }
    object->sink = sink;
    object->sync = request->sync;
    return object;
}

/* Gaps read as zeros, whatever an earlier object left there. */
static void clear_gap(struct sink_object *object, uint64_t to)
{
    if (to > object->end)
        memset(object->sink->region->memory.addr + object->end, 0, to - object->end);
}

static int region_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                        int stop_fd, struct error *err)
{
    (void)stop_fd;
    uint64_t room = object->sink->region->memory.bytes;
    if (offset > room || len > room - offset)
        return too_large(object->sink, offset + len, err);
    clear_gap(object, offset);
    memcpy(object->sink->region->memory.addr + offset, data, len);
    object->end = offset + len;
    return 0;
}

static int region_commit(struct sink_object *object, uint64_t size, int stop_fd,
                         struct error *err)
{
    int rc = 0;
    (void)stop_fd;
    if (size > object->sink->region->memory.bytes)
        rc = too_large(object->sink, size, err);
    else
        clear_gap(object, size);
    if (rc == 0)
        rc = region_dump(object->sink->region, object->sync, err);
    free(object);
    return rc;
}

static void region_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    free(object);
}

static void sink_region_free(struct sink *sink)
{
    free(sink);
}

static const struct sink_ops region_ops = {
    .kind = "region",
    .stores = true,
    .exclusive = true,
    .begin = region_begin,
    .store = region_store,
    .commit = region_commit,
    .abandon = region_abandon,
    .free = sink_region_free,
};

struct sink *sink_region_new(struct region *region, struct error *err)
{
    char size[UNITS_TEXT];
    struct sink_region *sink = calloc(1, sizeof *sink);
    if (!sink) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno, "cannot make a sink");
        return NULL;
    }
    sink->sink.ops = &region_ops;
    sink->region = region;
    snprintf(sink->sink.description, sizeof sink->sink.description, "region of %s",
             units_format_size(region->memory.bytes, size));
    return &sink->sink;
}

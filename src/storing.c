#include "config.h"

#include "storing.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "guard.h"
#include "log.h"

#define READ_BACK_BYTES ((size_t)256 << 10)

/* Makes a slot the object's next range, if there is one that can be registered. */
static void place_slot(struct storing *storing, unsigned slot)
{
    struct storing_placement *placement = &storing->placements[slot];
    struct error why = {.class = ERROR_NONE};
    uint64_t left = storing->place_to - storing->place_at;
    if (left == 0)
        return;
    size_t len = left < storing->slot_size ? (size_t)left : storing->slot_size;
    if (memory_map_file(&placement->memory, storing->map_fd, storing->place_at, len, &why) == 0 &&
        memory_register_write(&placement->memory, storing->endpoint->id, "a part of the file",
                              &why) == 0) {
        placement->place = (struct window_place){
            .offset = storing->place_at,
            .length = len,
            .remote_addr = (uint64_t)(uintptr_t)placement->memory.addr,
            .rkey = placement->memory.mr->rkey,
        };
        storing->place_at += len;
        return;
    }
    log_verbose("%s: not mapped any more: %s", storing->endpoint->peer, why.text);
    memory_free(&placement->memory);
    storing->place_to = storing->place_at;
}

/* Whether device and destination can do without a copy; then slots are placed. */
static void place_slots(struct storing *storing, const struct storing_job *job)
{
    const char *why = "it is no file";
    storing->place_at = storing->place_to = 0;
    if (!job->map)
        return;
    storing->map_fd = -1;
    if (storing->sink->never_map)
        why = "--map=never";
    else if (storing->sink->ops->map)
        storing->map_fd = storing->sink->ops->map(storing->object, job->request->size, &why);
    if (storing->map_fd < 0) {
        log_verbose("%s: not mapped: %s", storing->endpoint->peer, why);
        return;
    }
    storing->place_to = job->request->size;
    for (unsigned i = 0; i < storing->slot_count; i++)
        place_slot(storing, i);
}

/* The client can write there no more. */
static void unplace_slot(struct storing *storing, unsigned slot)
{
    struct storing_placement *placement = &storing->placements[slot];
    memory_free(&placement->memory);
    placement->place = (struct window_place){.length = 0};
}

static void unplace_slots(struct storing *storing)
{
    for (unsigned i = 0; i < storing->slot_count; i++)
        unplace_slot(storing, i);
}

static int need_buffer(struct storing *storing, struct error *err)
{
    if (!storing->buffer && !(storing->buffer = malloc(READ_BACK_BYTES)))
        return error_set_errno(err, ERROR_RESOURCE, STAGE_TRANSFER, NULL, ENOMEM,
                               "cannot read back what was kept");
    return 0;
}

struct hashing {
    struct digest *digest;
    uint64_t offset;
    const struct memory *memory;
};

static void hash_mapped(void *argument)
{
    struct hashing *hashing = argument;
    digest_add(hashing->digest, hashing->offset, hashing->memory->addr, hashing->memory->bytes);
}

/* The range is hashed where it lies, once the device can write there no more. */
static void store_placed(struct storing *storing, struct storing_job *job)
{
    struct storing_placement *placement = &storing->placements[job->slot];
    struct hashing hashing = {
        .digest = storing->digest, .offset = placement->place.offset, .memory = &placement->memory};
    memory_deregister(&placement->memory);
    if (guard_run(hash_mapped, &hashing) < 0) {
        error_set(&job->error, ERROR_STORAGE, STAGE_TRANSFER, storing->sink->description,
                  "the file became shorter while it was written");
        error_hint(&job->error, "nobody else may change it meanwhile");
        return;
    }
    job->stored = placement->place.length;
    unplace_slot(storing, job->slot);
    place_slot(storing, job->slot);
    job->place = placement->place;
}

static void begin_object(struct storing *storing, struct storing_job *job, int stop_fd)
{
    const struct sink_ops *ops = storing->sink->ops;
    digest_reset(storing->digest);
    storing->object = ops->begin(storing->sink, job->request, stop_fd, &job->error);
    job->kept = storing->object && job->request->resume ? ops->kept(storing->object) : 0;
    storing->cut_due = job->kept > 0;
    if (storing->object)
        place_slots(storing, job);
}

static int read_back(struct storing *storing, const struct wire_extent *extent, int stop_fd,
                     struct error *err)
{
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    uint64_t done = 0;
    while (done < extent->length && poll(&stop, 1, 0) == 0) {
        uint64_t left = extent->length - done;
        size_t len = left < READ_BACK_BYTES ? (size_t)left : READ_BACK_BYTES;
        if (storing->sink->ops->recall(storing->object, extent->offset + done, storing->buffer, len,
                                       err) < 0)
            return -1;
        digest_add(storing->digest, extent->offset + done, storing->buffer, len);
        done += len;
    }
    return 0;
}

/* Hashes what was kept. Where it is not what the client has, or cannot be read, it is no use. */
static void recall(struct storing *storing, struct storing_job *job, int stop_fd)
{
    struct error unreadable = {.class = ERROR_NONE};
    if (need_buffer(storing, &job->error) < 0)
        return;
    for (unsigned i = 0; i < job->extent_count && !error_is_set(&unreadable); i++)
        read_back(storing, &job->extents[i], stop_fd, &unreadable);
    digest_value(storing->digest, &job->own);
    if (!digest_equal(&job->own, &job->told))
        digest_reset(storing->digest);
}

/* Before the first byte that is stored anew. */
static int cut_kept(struct storing *storing, struct error *err)
{
    if (!storing->cut_due)
        return 0;
    storing->cut_due = false;
    return storing->sink->ops->resume_at(storing->object, digest_end(storing->digest), err);
}

static void store_slot(struct storing *storing, struct storing_job *job, int stop_fd)
{
    const uint8_t *at = job->data;
    if (job->placed) {
        store_placed(storing, job);
        return;
    }
    if (cut_kept(storing, &job->error) < 0)
        return;
    for (unsigned i = 0; i < job->extent_count; i++) {
        const struct wire_extent *extent = &job->extents[i];
        digest_add(storing->digest, extent->offset, at, extent->length);
        if (storing->sink->ops->store(storing->object, extent->offset, at, extent->length, stop_fd,
                                      &job->error) < 0)
            return;
        at += extent->length;
    }
    job->stored = (uint64_t)(at - job->data);
}

static int verify(struct storing *storing, struct storing_job *job)
{
    digest_value(storing->digest, &job->own);
    if (job->told.size >= job->own.size)
        job->own.size = job->told.size;
    if (digest_equal(&job->own, &job->told))
        return 0;
    return error_set(&job->error, ERROR_DATA, STAGE_COMMIT, storing->endpoint->peer,
                     "the data arrived wrong: the checksums differ");
}

static void commit_object(struct storing *storing, struct storing_job *job, int stop_fd)
{
    struct sink_object *object = storing->object;
    if (verify(storing, job) < 0 || cut_kept(storing, &job->error) < 0)
        return;
    storing->object = NULL;
    job->committed = storing->sink->ops->commit(object, job->told.size, stop_fd, &job->error) == 0;
}

static void abandon_object(struct storing *storing, bool keep)
{
    if (storing->object)
        storing->sink->ops->abandon(storing->object, keep);
    storing->object = NULL;
}

static void end_object(struct storing *storing, struct storing_job *job, int stop_fd)
{
    unplace_slots(storing);
    if (!job->abandoned && !storing->failed)
        commit_object(storing, job, stop_fd);
    abandon_object(storing, false);
}

int storing_open(struct storing *storing, struct sink *sink, const struct endpoint *endpoint,
                 unsigned slot_count, size_t slot_size, struct error *err)
{
    *storing = (struct storing){.sink = sink,
                                .endpoint = endpoint,
                                .slot_count = slot_count,
                                .slot_size = slot_size,
                                .digest = digest_new()};
    if (!storing->digest)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, ENOMEM,
                               "cannot make a checksum");
    return 0;
}

void storing_do(void *context, void *item, int stop_fd)
{
    static void (*const functions[])(struct storing *, struct storing_job *, int) = {
        [STORING_BEGIN] = begin_object,
        [STORING_STORE] = store_slot,
        [STORING_RECALL] = recall,
        [STORING_END] = end_object,
    };
    struct storing *storing = context;
    struct storing_job *job = item;
    error_clear(&job->error);
    if (job->kind == STORING_BEGIN)
        storing->failed = false;
    else if (storing->failed && job->kind != STORING_END)
        return;
    functions[job->kind](storing, job, stop_fd);
    storing->failed |= error_is_set(&job->error);
}

void storing_close(struct storing *storing, bool keep)
{
    unplace_slots(storing);
    abandon_object(storing, keep && !storing->failed);
    digest_free(storing->digest);
    free(storing->buffer);
    *storing = (struct storing){.sink = NULL};
}

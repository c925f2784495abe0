#include "config.h"

#include "loader.h"

#include <errno.h>
#include <stdlib.h>

#define RECALL_BUFFER ((uint32_t)256 << 10)

int loader_open(struct loader *loader, struct plan *plan, struct source *source,
                const struct plan_limits *limits, unsigned most_works, bool with_digest,
                struct error *err)
{
    *loader = (struct loader){
        .plan = plan, .source = source, .limits = *limits, .most_works = most_works};
    loader->scratch = calloc(limits->max_sge, sizeof *loader->scratch);
    if (with_digest)
        loader->digest = digest_new();
    if (loader->scratch && (loader->digest || !with_digest))
        return 0;
    loader_close(loader);
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                           "cannot prepare the reading");
}

void loader_close(struct loader *loader)
{
    digest_free(loader->digest);
    free(loader->scratch);
    free(loader->buffer);
    *loader = (struct loader){.plan = NULL};
}

void loader_begin(struct loader *loader, struct plan *plan, struct source *source)
{
    loader->plan = plan;
    loader->source = source;
    loader->failed = false;
    loader->recalled = (struct plan_position){.index = 0};
    if (loader->digest)
        digest_reset(loader->digest);
}

int loader_prepare(const struct loader *loader, struct load *load, struct error *err)
{
    load->works = calloc(loader->most_works, sizeof *load->works);
    load->entries = calloc((size_t)loader->most_works * loader->limits.max_sge,
                           sizeof *load->entries);
    if (!load->works || !load->entries) {
        loader_release(load);
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot prepare the reading");
    }
    return 0;
}

void loader_release(struct load *load)
{
    free(load->works);
    free(load->entries);
    load->works = NULL;
    load->entries = NULL;
}

/* False when it would be one extent too many. */
static bool note_extent(struct wire_extent *extents, unsigned *count, unsigned most, uint64_t dest,
                        uint64_t length)
{
    struct wire_extent *last = *count ? &extents[*count - 1] : NULL;
    if (last && last->offset + last->length == dest)
        last->length += length;
    else if (*count < most)
        extents[(*count)++] = (struct wire_extent){.offset = dest, .length = length};
    else
        return false;
    return true;
}

/* Reads one gather entry. The bytes there were, fewer only at the end of a stream; -1 with *err. */
static int64_t read_entry(struct loader *loader, const struct plan_entry *entry, uint8_t *to,
                          bool open_ended, int stop_fd, bool *ended, struct error *err)
{
    uint64_t done = 0;
    *ended = false;
    while (done < entry->length && !*ended) {
        ssize_t n = source_read(loader->source, entry->source, entry->offset + done, to + done,
                                entry->length - done, stop_fd, ended, err);
        if (n < 0)
            return -1;
        done += (uint64_t)n;
        if (open_ended)
            return (int64_t)done;
    }
    if (done < entry->length)
        return error_set(err, ERROR_SOURCE, STAGE_TRANSFER,
                         source_path(loader->source, entry->source),
                         "too short: it ended before LENGTH");
    return (int64_t)done;
}

/* A piece of unknown length was read: what there was of it becomes the plan's. */
static int tell_plan(struct loader *loader, struct plan_slot *slot, uint64_t got, bool ended,
                     struct error *err)
{
    if (plan_got(loader->plan, slot, got, ended) != PLAN_OK)
        return error_set(err, ERROR_SOURCE, STAGE_TRANSFER, NULL,
                         "the object grows past 2^63 bytes");
    return 0;
}

static int add_entry(struct loader *loader, struct load *load, struct loader_work *work,
                     const struct plan_entry *entry, struct plan_slot *slot, int stop_fd)
{
    const struct plan_piece *piece = plan_piece(loader->plan, entry->piece, NULL);
    bool open_ended = piece->length == PLAN_UNKNOWN, ended = false;
    uint8_t *to = load->buffer + load->bytes;
    int64_t got = read_entry(loader, entry, to, open_ended, stop_fd, &ended, &load->error);
    if (got < 0)
        return -1;
    if (open_ended && tell_plan(loader, slot, (uint64_t)got, ended, &load->error) < 0)
        return -1;
    if (got == 0)
        return 0;
    if (loader->digest && !digest_add(loader->digest, entry->dest, to, (size_t)got))
        return error_set(&load->error, ERROR_USAGE, STAGE_TRANSFER,
                         source_path(loader->source, entry->source),
                         "overlaps a segment that was sent before it");
    work->entries[work->count++] = (struct ibv_sge){
        .addr = (uint64_t)(uintptr_t)to, .length = (uint32_t)got, .lkey = load->lkey};
    work->bytes += (uint64_t)got;
    load->bytes += (uint64_t)got;
    note_extent(load->extents, &load->extent_count, WIRE_MAX_EXTENTS, entry->dest, (uint64_t)got);
    return 0;
}

/* Reads one planned work request. */
static int add_work(struct loader *loader, struct load *load, const struct plan_work *planned,
                    struct plan_slot *slot, int stop_fd)
{
    struct loader_work *work = &load->works[load->work_count];
    *work = (struct loader_work){
        .entries = load->entries + (size_t)load->work_count * loader->limits.max_sge,
        .at = load->bytes,
        .dest = planned->entries[0].dest,
    };
    for (unsigned i = 0; i < planned->count; i++)
        if (add_entry(loader, load, work, &planned->entries[i], slot, stop_fd) < 0)
            return -1;
    if (work->count > 0)
        load->work_count++;
    return 0;
}

/* Whether a stream that gave something should not keep it back while it waits for more. */
static bool enough(const struct loader *loader, const struct load *load,
                   const struct plan_work *planned)
{
    unsigned piece = planned->entries[planned->count - 1].piece;
    return load->bytes > 0 && plan_piece(loader->plan, piece, NULL)->length == PLAN_UNKNOWN;
}

void loader_fill(void *context, void *job, int stop_fd)
{
    struct loader *loader = context;
    struct load *load = job;
    struct plan_slot slot;
    struct plan_work planned = {.entries = loader->scratch};
    plan_slot_reset(&slot);
    error_clear(&load->error);
    load->work_count = load->extent_count = 0;
    load->bytes = 0;
    load->last = false;
    while (!loader->failed && load->work_count < loader->most_works) {
        if (!plan_next(loader->plan, &loader->limits, load->size, &slot, &planned)) {
            load->last = true;
            return;
        }
        if (planned.count == 0)
            return;
        loader->failed = add_work(loader, load, &planned, &slot, stop_fd) < 0;
        if (loader->failed || enough(loader, load, &planned))
            return;
    }
}

/* Hashes one range of a source. */
static int recall_entry(struct loader *loader, const struct plan_entry *entry, int stop_fd,
                        struct error *err)
{
    bool ended;
    if (read_entry(loader, entry, loader->buffer, false, stop_fd, &ended, err) < 0)
        return -1;
    digest_add(loader->digest, entry->dest, loader->buffer, entry->length);
    return 0;
}

/* The bytes to hash at once, when so many were hashed before. */
static uint32_t recall_size(uint64_t bytes)
{
    uint64_t left = LOADER_RECALL_BYTES - bytes;
    return left < RECALL_BUFFER ? (uint32_t)left : RECALL_BUFFER;
}

int loader_recall(struct loader *loader, uint64_t dest, struct wire_extent *extents,
                  unsigned most_extents, int stop_fd, struct error *err)
{
    unsigned count = 0;
    uint64_t bytes = 0;
    struct plan_position next = loader->recalled;
    struct plan_entry entry;
    if (!loader->buffer && !(loader->buffer = malloc(RECALL_BUFFER)))
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot compare what was kept");
    while (bytes < LOADER_RECALL_BYTES &&
           plan_walk(loader->plan, &next, dest, recall_size(bytes), &entry) &&
           note_extent(extents, &count, most_extents, entry.dest, entry.length)) {
        if (recall_entry(loader, &entry, stop_fd, err) < 0)
            return -1;
        bytes += entry.length;
        loader->recalled = next;
    }
    return (int)count;
}

#include "config.h"

#include "writer.h"

#include <assert.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

int writer_init(struct writer *writer, struct rdma_cm_id *id, const char *peer, unsigned depth,
                unsigned max_sge, struct error *err)
{
    *writer = (struct writer){.id = id, .peer = peer, .depth = depth, .max_sge = max_sge};
    writer->posted = calloc(depth, sizeof *writer->posted);
    if (!writer->posted)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_POST, NULL, errno,
                               "cannot keep account of %u work requests", depth);
    return 0;
}

void writer_close(struct writer *writer)
{
    free(writer->posted);
    *writer = (struct writer){.posted = NULL};
}

unsigned writer_room(const struct writer *writer)
{
    return writer->depth - writer->used;
}

static void remember(struct writer *writer, uint64_t wr_id, uint64_t bytes, bool is_write)
{
    unsigned at = (writer->head + writer->used) % writer->depth;
    writer->posted[at] = (struct writer_request){
        .wr_id = wr_id, .bytes = bytes, .is_write = is_write};
    writer->used++;
}

/* The errno of a failed rdma_post_*: siw returns it negative. */
static int post_error(const struct writer *writer, int errnum, const char *what, struct error *err)
{
    int number = abs(errnum);
    if (number == ENOMEM)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_POST, writer->peer, number,
                               "cannot post %s: the send queue of %u entries is full, or memory "
                               "ran out",
                               what, writer->depth);
    if (number == EINVAL)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_POST, writer->peer, number,
                               "cannot post %s: the device refuses its size, its number of gather "
                               "entries, or the queue pair's state",
                               what);
    return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_POST, writer->peer, number,
                           "cannot post %s", what);
}

int writer_write(struct writer *writer, uint64_t wr_id, struct ibv_sge *entries, unsigned count,
                 int flags, uint64_t remote_addr, uint32_t rkey, struct error *err)
{
    uint64_t bytes = 0;
    assert(writer_room(writer) > 0 && count <= writer->max_sge);
    for (unsigned i = 0; i < count; i++)
        bytes += entries[i].length;
    if (rdma_post_writev(writer->id, (void *)(uintptr_t)wr_id, entries, (int)count, flags,
                         remote_addr, rkey) != 0)
        return post_error(writer, errno, "an RDMA write", err);
    remember(writer, wr_id, bytes, true);
    writer->work_requests++;
    writer->gather_entries += count;
    writer->bytes_posted += bytes;
    return 0;
}

int writer_send(struct writer *writer, uint64_t wr_id, void *addr, size_t len, struct ibv_mr *mr,
                struct error *err)
{
    assert(writer_room(writer) > 0);
    if (rdma_post_send(writer->id, (void *)(uintptr_t)wr_id, addr, len, mr, IBV_SEND_SIGNALED) != 0)
        return post_error(writer, errno, "a message", err);
    remember(writer, wr_id, 0, false);
    return 0;
}

static int post_read(struct writer *writer, uint64_t wr_id, struct ibv_sge *entries, int count,
                     uint64_t remote_addr, uint32_t rkey, struct error *err)
{
    assert(writer_room(writer) > 0);
    if (rdma_post_readv(writer->id, (void *)(uintptr_t)wr_id, entries, count, IBV_SEND_SIGNALED,
                        remote_addr, rkey) != 0)
        return post_error(writer, errno, "an RDMA read", err);
    remember(writer, wr_id, 0, false);
    return 0;
}

int writer_read_nothing(struct writer *writer, uint64_t wr_id, struct error *err)
{
    struct ibv_sge nothing = {.length = 0};
    return post_read(writer, wr_id, &nothing, writer->nothing_needs_entry, 0, 0, err);
}

int writer_read(struct writer *writer, uint64_t wr_id, struct ibv_sge *entry, uint64_t remote_addr,
                uint32_t rkey, struct error *err)
{
    return post_read(writer, wr_id, entry, 1, remote_addr, rkey, err);
}

bool writer_retire(struct writer *writer, uint64_t wr_id, bool succeeded,
                   struct writer_request *request)
{
    unsigned n = 0;
    while (n < writer->used && writer->posted[(writer->head + n) % writer->depth].wr_id != wr_id)
        n++;
    if (n == writer->used)
        return false;
    for (unsigned i = 0; i < n; i++)
        writer->bytes_retired += writer->posted[(writer->head + i) % writer->depth].bytes;
    *request = writer->posted[(writer->head + n) % writer->depth];
    if (succeeded)
        writer->bytes_retired += request->bytes;
    writer->head = (writer->head + n + 1) % writer->depth;
    writer->used -= n + 1;
    return true;
}

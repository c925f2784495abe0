#include "config.h"

#include "receiver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "memory.h"
#include "session.h"
#include "units.h"
#include "window.h"
#include "wire.h"
#include "worker.h"

#define SLOT_COUNT 4
#define SLOT_SIZE ((size_t)256 << 10)

/* What the worker does: store a slot's extents, or, for the last one, compare and commit. */
struct store {
    bool commit;
    unsigned slot;
    const uint8_t *data;
    struct wire_extent extents[WIRE_MAX_EXTENTS];
    unsigned extent_count;
    struct digest_value told; /* what the client says it sent; commit only */
    struct error error;
};

struct receiver {
    struct sink *sink;
    struct receiver_result *result;
    struct endpoint *endpoint;
    struct session session;
    struct memory memory; /* the slots */
    unsigned slot_count;
    size_t slot_size;
    struct window window;
    struct sink_object *object; /* the worker's, once it runs */
    struct digest *digest;      /* likewise */
    bool store_failed;          /* likewise */
    uint64_t declared;          /* size as opened, or WIRE_UNKNOWN */
    uint64_t expected;          /* the least offset that may come */
    bool ended;                 /* END came */
    struct store stores[WINDOW_MAX_SLOTS], commit;
    struct worker *worker;
};

static int verify(struct receiver *receiver, struct store *store)
{
    struct digest_value own;
    digest_value(receiver->digest, &own);
    if (store->told.size >= own.size)
        own.size = store->told.size;
    if (digest_equal(&own, &store->told))
        return 0;
    return error_set(&store->error, ERROR_DATA, STAGE_COMMIT, receiver->endpoint->peer,
                     "the data arrived wrong: the checksums differ; nothing was committed");
}

static void commit_object(struct receiver *receiver, struct store *store)
{
    struct sink_object *object = receiver->object;
    if (verify(receiver, store) < 0)
        return;
    receiver->object = NULL;
    if (receiver->sink->ops->commit(object, store->told.size, -1, &store->error) == 0)
        receiver->result->committed = true;
}

static void store_slot(struct receiver *receiver, struct store *store, int stop_fd)
{
    const uint8_t *at = store->data;
    for (unsigned i = 0; i < store->extent_count; i++) {
        const struct wire_extent *extent = &store->extents[i];
        digest_add(receiver->digest, extent->offset, at, extent->length);
        if (receiver->sink->ops->store(receiver->object, extent->offset, at, extent->length, stop_fd,
                                       &store->error) < 0)
            return;
        at += extent->length;
    }
}

/* A worker_function. After a failure nothing more is done, least of all a commit: the session
 * ends by the job that failed, which is taken first. */
static void do_store(void *context, void *job, int stop_fd)
{
    struct receiver *receiver = context;
    struct store *store = job;
    error_clear(&store->error);
    if (receiver->store_failed)
        return;
    if (store->commit)
        commit_object(receiver, store);
    else
        store_slot(receiver, store, stop_fd);
    receiver->store_failed = error_is_set(&store->error);
}

static int begin_object(struct receiver *receiver, struct error *err)
{
    struct wire_message open;
    if (session_expect(&receiver->session, WIRE_OPEN, &open, err) < 0)
        return -1;
    receiver->declared = open.open.size;
    if (receiver->slot_count > open.open.slot_limit)
        receiver->slot_count = open.open.slot_limit;
    struct sink_request request = {
        .name = open.open.name, .size = open.open.size, .bytes = open.open.size};
    receiver->object = receiver->sink->ops->begin(receiver->sink, &request, -1, err);
    if (!receiver->object)
        return -1;
    receiver->result->admitted = true;
    return 0;
}

static int grant_slots(struct receiver *receiver, struct error *err)
{
    struct wire_message ready = {.type = WIRE_READY};
    if (memory_register_buffers(&receiver->memory, receiver->endpoint->id, true,
                                &receiver->slot_count, &receiver->slot_size, "the slots", err) < 0)
        return -1;
    receiver->result->pinned = receiver->memory.bytes + receiver->session.messages.memory.bytes;
    window_init(&receiver->window, receiver->slot_count);
    receiver->digest = digest_new();
    if (!receiver->digest)
        return error_set(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, "out of memory");
    receiver->worker = worker_start(do_store, receiver, receiver->slot_count + 1, err);
    if (!receiver->worker)
        return -1;
    ready.ready.slot_count = (uint16_t)receiver->slot_count;
    ready.ready.slot_size = (uint32_t)receiver->slot_size;
    ready.ready.remote_addr = (uint64_t)(uintptr_t)receiver->memory.addr;
    ready.ready.rkey = receiver->memory.mr->rkey;
    return session_send(&receiver->session, &ready, err);
}

static int broke(const struct receiver *receiver, const char *how, struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, receiver->endpoint->peer,
                     "the peer broke the protocol: %s", how);
}

/* Whether the extents of a chunk may come now; moves the least offset on. */
static int check_extents(struct receiver *receiver, const struct wire_message *chunk,
                         struct error *err)
{
    if (wire_chunk_bytes(chunk) > receiver->slot_size)
        return broke(receiver, "a chunk larger than its slot", err);
    for (unsigned i = 0; i < chunk->chunk.extent_count; i++) {
        const struct wire_extent *extent = &chunk->chunk.extents[i];
        if (extent->offset < receiver->expected)
            return broke(receiver, "a chunk that goes back", err);
        receiver->expected = extent->offset + extent->length;
        if (receiver->declared != WIRE_UNKNOWN && receiver->expected > receiver->declared)
            return broke(receiver, "a chunk past the object's size", err);
    }
    return 0;
}

static int take_chunk(struct receiver *receiver, const struct wire_message *chunk,
                      struct error *err)
{
    unsigned slot = chunk->chunk.slot;
    if (receiver->ended || !window_sent(&receiver->window, slot, wire_chunk_bytes(chunk)))
        return broke(receiver, "a chunk in a slot that is not granted", err);
    if (check_extents(receiver, chunk, err) < 0)
        return -1;
    struct store *store = &receiver->stores[slot];
    *store = (struct store){
        .slot = slot,
        .data = receiver->memory.addr + slot * receiver->slot_size,
        .extent_count = chunk->chunk.extent_count,
    };
    memcpy(store->extents, chunk->chunk.extents,
           chunk->chunk.extent_count * sizeof store->extents[0]);
    worker_submit(receiver->worker, store);
    return 0;
}

static int take_end(struct receiver *receiver, const struct wire_message *end, struct error *err)
{
    if (receiver->ended)
        return broke(receiver, "END twice", err);
    if (receiver->declared != WIRE_UNKNOWN && end->digest.size != receiver->declared)
        return broke(receiver, "an END of another size than OPEN's", err);
    receiver->ended = true;
    receiver->commit = (struct store){.commit = true, .told = end->digest};
    worker_submit(receiver->worker, &receiver->commit);
    return 0;
}

static int take_message(struct receiver *receiver, const struct wire_message *message,
                        struct error *err)
{
    switch (message->type) {
    case WIRE_CHUNK:
        return take_chunk(receiver, message, err);
    case WIRE_END:
        return take_end(receiver, message, err);
    default:
        return session_unexpected(&receiver->session, message, err);
    }
}

static int send_grant(struct receiver *receiver, unsigned slot, struct error *err)
{
    struct wire_message grant = {.type = WIRE_GRANT};
    window_granted(&receiver->window, slot);
    receiver->result->stored = receiver->window.acknowledged;
    grant.grant.slot = (uint16_t)slot;
    grant.grant.acknowledged = receiver->window.acknowledged;
    return session_send(&receiver->session, &grant, err);
}

static int send_done(struct receiver *receiver, struct error *err)
{
    struct wire_message done = {.type = WIRE_DONE};
    digest_value(receiver->digest, &done.digest);
    done.digest.size = receiver->commit.told.size;
    receiver->result->digest = done.digest;
    return session_send(&receiver->session, &done, err);
}

/* Answers what the worker has finished. 1 when the object is committed, 0, or -1 with *err. */
static int take_stores(struct receiver *receiver, struct error *err)
{
    struct store *store;
    while ((store = worker_take(receiver->worker)) != NULL) {
        if (error_is_set(&store->error)) {
            *err = store->error;
            return -1;
        }
        if (store->commit)
            return send_done(receiver, err) < 0 ? -1 : 1;
        if (send_grant(receiver, store->slot, err) < 0)
            return -1;
    }
    return 0;
}

static int transfer(struct receiver *receiver, struct error *err)
{
    struct wire_message message;
    for (;;) {
        int done = take_stores(receiver, err);
        if (done != 0)
            return done < 0 ? -1 : 0;
        switch (session_next(&receiver->session, worker_fd(receiver->worker), &message, err)) {
        case SESSION_ERROR:
            return -1;
        case SESSION_MESSAGE:
            if (take_message(receiver, &message, err) < 0)
                return -1;
            break;
        case SESSION_WORKER:
            break;
        }
    }
}

static int connect_session(struct receiver *receiver, struct error *err)
{
    static const struct wire_welcome welcome = {.version = WIRE_VERSION};
    uint8_t data[WIRE_WELCOME_BYTES];
    struct endpoint *endpoint = receiver->endpoint;
    struct endpoint_wants wants = session_wants(receiver->slot_count, 0);
    unsigned len = (unsigned)wire_encode_welcome(&welcome, data);
    wants.max_sge = 1;
    if (endpoint_create_queues(endpoint, &wants, NULL, err) < 0 ||
        session_open(&receiver->session, endpoint, receiver->slot_count, endpoint->timeout, err) <
            0 ||
        endpoint_accept(endpoint, data, len, clock_after(endpoint->timeout), err) < 0)
        return -1;
    session_begin(&receiver->session);
    return 0;
}

static int run(struct receiver *receiver, struct error *err)
{
    int64_t start = clock_now();
    if (connect_session(receiver, err) < 0)
        return -1;
    int rc = begin_object(receiver, err) == 0 && grant_slots(receiver, err) == 0 &&
                     transfer(receiver, err) == 0
                 ? 0
                 : -1;
    receiver->result->duration_ns = (uint64_t)(clock_now() - start);
    if (rc == 0)
        session_linger(&receiver->session);
    else
        session_give_up(&receiver->session, err);
    return rc;
}

static void clean_up(struct receiver *receiver)
{
    session_close(&receiver->session);
    worker_stop(receiver->worker);
    if (receiver->object)
        receiver->sink->ops->abandon(receiver->object, false);
    digest_free(receiver->digest);
    memory_free(&receiver->memory);
}

int receiver_run(struct endpoint *endpoint, struct sink *sink, struct receiver_result *result,
                 struct error *err)
{
    *result = (struct receiver_result){.admitted = false};
    struct receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return error_set(err, ERROR_RESOURCE, STAGE_CONNECT, endpoint->peer, "out of memory");
    receiver->sink = sink;
    receiver->result = result;
    receiver->endpoint = endpoint;
    receiver->slot_count = SLOT_COUNT;
    receiver->slot_size = SLOT_SIZE;
    int rc = run(receiver, err);
    clean_up(receiver);
    if (rc < 0 && result->committed) {
        /* The object is there, and only the client may not know: for this side it is a success. */
        error_clear(err);
        rc = 0;
    }
    free(receiver);
    return rc;
}

#include "config.h"

#include "receiver.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "exchange-stream.h"
#include "handshake.h"
#include "log.h"
#include "memory.h"
#include "session.h"
#include "storing.h"
#include "units.h"
#include "window.h"
#include "wire.h"
#include "worker.h"

#define SLOT_COUNT 4
#define SLOT_SIZE ((size_t)256 << 10)
/* How long storage may take at least once a session has failed. */
#define STORAGE_NS (500 * CLOCK_NS_PER_MS)

/* An object that has no DONE yet. */
struct opened {
    struct sink_request request;
    char name[WIRE_MAX_NAME + 1];
    bool confirm;
    bool failed; /* and the client was told */
    enum error_class failure;
    uint64_t kept;
    int64_t began_at; /* clock.h */
    struct storing_job begin, end;
};

/* What the client can keep track of, as each OPEN says. */
struct limits {
    uint16_t slots, objects;
    uint32_t chunk; /* bytes */
};

struct receiver {
    struct sink *sink;
    bool many, others;
    int ready_fd;
    receiver_settled settled;
    void *context; /* of that */
    struct receiver_result *result;
    uint64_t memory_limit;
    bool may_map; /* placed slots fit besides the ordinary ones */
    struct endpoint *endpoint;
    struct handshake handshake;
    struct session session;
    struct memory memory; /* the slots */
    unsigned slot_count;
    size_t slot_size;
    unsigned object_limit;
    struct limits limits; /* of the first OPEN */
    struct window window;
    struct worker *worker;
    struct storing storing;
    struct opened opened[WIRE_MAX_OBJECTS]; /* by an object's number, modulo */
    uint32_t opened_count, done_count;      /* objects */
    bool is_open;                           /* the last one has had no END */
    bool began;                             /* the last one was begun: STORING_BEGIN came back */
    bool got_chunk;                         /* the last one has */
    bool recalling;                         /* a RECALL is unanswered */
    bool closed;                            /* CLOSE came */
    uint64_t expected;                      /* the least offset that may come */
    struct storing_job stores[WINDOW_MAX_SLOTS], recall;
    struct error first_failure; /* of many objects */
    int64_t got_all_at;         /* clock.h: when the last END came; 0: none did */
};

static struct opened *find_opened(struct receiver *receiver, uint32_t object)
{
    return &receiver->opened[object % WIRE_MAX_OBJECTS];
}

/* ---- messages from the client -------------------------------------------------------------- */

static int broke(const struct receiver *receiver, const char *how, struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, receiver->endpoint->peer,
                     "the peer broke the protocol: %s", how);
}

/* Memory for slots, and the thread that stores: when the client has said how much it can use. */
static int prepare(struct receiver *receiver, const struct wire_message *open, struct error *err)
{
    if (receiver->slot_count > open->open.slot_limit)
        receiver->slot_count = open->open.slot_limit;
    if (receiver->slot_size > open->open.chunk_limit)
        receiver->slot_size = open->open.chunk_limit / WIRE_MIN_SLOT_SIZE * WIRE_MIN_SLOT_SIZE;
    receiver->object_limit = receiver->session.objects;
    int64_t start = clock_now();
    if (receiver->object_limit > open->open.object_limit)
        receiver->object_limit = open->open.object_limit;
    if (memory_register_buffers(&receiver->memory, receiver->endpoint->id, true,
                                &receiver->slot_count, &receiver->slot_size, "the slots", err) < 0)
        return -1;
    struct facts *facts = &receiver->endpoint->facts;
    facts_took(facts, FACTS_REGISTER, start);
    facts->slots = receiver->slot_count;
    facts->slot_size = receiver->slot_size;
    facts->pinned = receiver->memory.bytes + receiver->session.messages.memory.bytes;
    window_init(&receiver->window, receiver->slot_count);
    if (storing_open(&receiver->storing, receiver->sink, receiver->endpoint, receiver->slot_count,
                     receiver->slot_size, err) < 0)
        return -1;
    receiver->worker = worker_start(storing_do, &receiver->storing,
                                    receiver->slot_count + 2 * WIRE_MAX_OBJECTS + 1, err);
    return receiver->worker ? 0 : -1;
}

static struct timespec time_of(const struct wire_time *time)
{
    return (struct timespec){.tv_sec = time->seconds, .tv_nsec = time->nanoseconds};
}

static void note_request(struct opened *opened, const struct wire_message *open)
{
    *opened = (struct opened){
        .confirm = (open->open.flags & WIRE_OPEN_CONFIRM) != 0,
        .began_at = clock_now(),
        .request = {.name = opened->name,
                    .size = open->open.size,
                    .bytes = open->open.bytes,
                    .sync = (open->open.flags & WIRE_OPEN_SYNC) != 0,
                    .preserve = (open->open.flags & WIRE_OPEN_PRESERVE) != 0,
                    .mode = open->open.mode,
                    .accessed = time_of(&open->open.accessed),
                    .modified = time_of(&open->open.modified),
                    .resume = (open->open.flags & WIRE_OPEN_RESUME) != 0},
    };
    memcpy(opened->request.identity, open->open.identity, sizeof opened->request.identity);
    memcpy(opened->name, open->open.name, sizeof opened->name);
}

/* A client with room for one alone has no room for a FAILED either (wire_extra_messages). */
static int check_limits(const struct receiver *receiver, const struct wire_message *open,
                        struct error *err)
{
    if (receiver->many && open->open.object_limit < 2)
        return broke(receiver, "several objects, and no two at a time", err);
    if (receiver->opened_count > 0 && (open->open.slot_limit != receiver->limits.slots ||
                                       open->open.object_limit != receiver->limits.objects ||
                                       open->open.chunk_limit != receiver->limits.chunk))
        return broke(receiver, "limits other than those of the OPEN before", err);
    return 0;
}

static int take_open(struct receiver *receiver, const struct wire_message *open, struct error *err)
{
    if (receiver->is_open || receiver->closed || (!receiver->many && receiver->opened_count > 0))
        return session_unexpected(&receiver->session, open, err);
    if (check_limits(receiver, open, err) < 0)
        return -1;
    if (receiver->worker &&
        receiver->opened_count - receiver->done_count >= receiver->object_limit)
        return broke(receiver, "more objects at a time than were allowed", err);
    receiver->limits = (struct limits){.slots = open->open.slot_limit,
                                       .objects = open->open.object_limit,
                                       .chunk = open->open.chunk_limit};
    uint32_t object = receiver->opened_count++;
    struct opened *opened = find_opened(receiver, object);
    note_request(opened, open);
    receiver->is_open = true;
    receiver->began = receiver->got_chunk = false;
    receiver->expected = 0;
    if (!receiver->worker && prepare(receiver, open, err) < 0)
        return -1;
    opened->begin = (struct storing_job){.kind = STORING_BEGIN,
                                         .object = object,
                                         .request = &opened->request,
                                         .map = receiver->may_map &&
                                                (open->open.flags & WIRE_OPEN_MAP) != 0};
    worker_submit(receiver->worker, &opened->begin);
    return 0;
}

/* Whether the client had to wait, and did not. */
static bool too_early(struct receiver *receiver)
{
    uint32_t object = receiver->opened_count - 1;
    bool awaits = object == 0 || find_opened(receiver, object)->confirm;
    return !receiver->is_open || receiver->recalling || (awaits && !receiver->began);
}

/* A chunk in a placed slot is that range, no more and no less. */
static int check_placed(const struct receiver *receiver, unsigned slot,
                        const struct wire_message *chunk, struct error *err)
{
    const struct window_place *place = &receiver->window.places[slot];
    const struct wire_extent *extent = &chunk->chunk.extents[0];
    if (place->length == 0 || (chunk->chunk.extent_count == 1 && extent->offset == place->offset &&
                               extent->length == place->length))
        return 0;
    return broke(receiver, "a chunk that is not what its slot was placed for", err);
}

/* Whether extents may come now; moves the least offset on. */
static int check_extents(struct receiver *receiver, const struct wire_extent *extents,
                         unsigned count, uint64_t size, struct error *err)
{
    for (unsigned i = 0; i < count; i++) {
        if (extents[i].offset < receiver->expected)
            return broke(receiver, "extents that go back", err);
        receiver->expected = extents[i].offset + extents[i].length;
        if (size != WIRE_UNKNOWN && receiver->expected > size)
            return broke(receiver, "extents past the object's size", err);
    }
    return 0;
}

static int take_chunk(struct receiver *receiver, const struct wire_message *chunk,
                      struct error *err)
{
    unsigned slot = chunk->chunk.slot;
    if (too_early(receiver))
        return session_unexpected(&receiver->session, chunk, err);
    uint32_t object = receiver->opened_count - 1;
    if (wire_chunk_bytes(chunk) > receiver->slot_size)
        return broke(receiver, "a chunk larger than its slot", err);
    if (check_placed(receiver, slot, chunk, err) < 0 ||
        check_extents(receiver, chunk->chunk.extents, chunk->chunk.extent_count,
                      find_opened(receiver, object)->request.size, err) < 0)
        return -1;
    bool placed = receiver->window.places[slot].length > 0;
    if (!window_sent(&receiver->window, slot, wire_chunk_bytes(chunk)))
        return broke(receiver, "a chunk in a slot that is not granted", err);
    struct storing_job *job = &receiver->stores[slot];
    *job = (struct storing_job){
        .kind = STORING_STORE,
        .object = object,
        .slot = slot,
        .placed = placed,
        .data = receiver->memory.addr + slot * receiver->slot_size,
        .extent_count = chunk->chunk.extent_count,
    };
    memcpy(job->extents, chunk->chunk.extents, job->extent_count * sizeof job->extents[0]);
    receiver->got_chunk = true;
    worker_submit(receiver->worker, job);
    return 0;
}

static int take_recall(struct receiver *receiver, const struct wire_message *message,
                       struct error *err)
{
    if (too_early(receiver) || receiver->got_chunk)
        return session_unexpected(&receiver->session, message, err);
    uint32_t object = receiver->opened_count - 1;
    struct opened *opened = find_opened(receiver, object);
    if (check_extents(receiver, message->recall.extents, message->recall.extent_count, opened->kept,
                      err) < 0)
        return -1;
    struct storing_job *job = &receiver->recall;
    *job = (struct storing_job){
        .kind = STORING_RECALL,
        .object = object,
        .told = message->recall.digest,
        .extent_count = message->recall.extent_count,
    };
    memcpy(job->extents, message->recall.extents, job->extent_count * sizeof job->extents[0]);
    receiver->recalling = true;
    worker_submit(receiver->worker, job);
    return 0;
}

static int take_end(struct receiver *receiver, const struct wire_message *end, struct error *err)
{
    if (too_early(receiver))
        return session_unexpected(&receiver->session, end, err);
    uint32_t object = receiver->opened_count - 1;
    struct opened *opened = find_opened(receiver, object);
    bool abandoned = (end->end.flags & WIRE_END_ABANDONED) != 0;
    if (abandoned && !receiver->many)
        return session_unexpected(&receiver->session, end, err);
    if (!abandoned && opened->request.size != WIRE_UNKNOWN &&
        end->end.digest.size != opened->request.size)
        return broke(receiver, "an END of another size than OPEN's", err);
    receiver->is_open = false;
    receiver->got_all_at = clock_now();
    window_unplace(&receiver->window);
    opened->end = (struct storing_job){
        .kind = STORING_END, .object = object, .abandoned = abandoned, .told = end->end.digest};
    worker_submit(receiver->worker, &opened->end);
    return 0;
}

static int take_close(struct receiver *receiver, const struct wire_message *close,
                      struct error *err)
{
    if (!receiver->many || receiver->is_open || receiver->done_count < receiver->opened_count)
        return session_unexpected(&receiver->session, close, err);
    receiver->closed = true;
    return 0;
}

static int take_message(struct receiver *receiver, const struct wire_message *message,
                        struct error *err)
{
    switch (message->type) {
    case WIRE_OPEN:
        return take_open(receiver, message, err);
    case WIRE_CHUNK:
        return take_chunk(receiver, message, err);
    case WIRE_RECALL:
        return take_recall(receiver, message, err);
    case WIRE_END:
        return take_end(receiver, message, err);
    case WIRE_CLOSE:
        return take_close(receiver, message, err);
    default:
        return session_unexpected(&receiver->session, message, err);
    }
}

/* ---- what the worker has done -------------------------------------------------------------- */

static void settle_failed(struct receiver *receiver, struct opened *opened,
                          const struct error *cause)
{
    const struct receiver_object told = {.name = opened->name};
    opened->failed = true;
    opened->failure = cause->class;
    receiver->result->failed++;
    receiver->settled(receiver->context, receiver->endpoint->peer, &told, cause);
}

static void note_failed(struct receiver *receiver, uint32_t object, const struct error *cause)
{
    struct error named = *cause;
    if (!error_is_set(&receiver->first_failure))
        receiver->first_failure = *cause;
    error_nest(&named, receiver->endpoint->peer);
    log_error(&named);
    settle_failed(receiver, find_opened(receiver, object), cause);
}

/* What went wrong with an object ends the session, or concerns this one of many alone. */
static int fail_object(struct receiver *receiver, uint32_t object, const struct error *cause,
                       struct error *err)
{
    struct wire_message failed = {.type = WIRE_FAILED};
    if (!receiver->many) {
        *err = *cause;
        return -1;
    }
    if (find_opened(receiver, object)->failed)
        return 0;
    note_failed(receiver, object, cause);
    session_describe(&receiver->session, cause, &failed);
    failed.error.object = object;
    return session_send(&receiver->session, &failed, err);
}

static int send_ready(struct receiver *receiver, struct error *err)
{
    struct wire_message ready = {.type = WIRE_READY};
    ready.ready.slot_count = (uint16_t)receiver->slot_count;
    ready.ready.object_limit = (uint16_t)receiver->object_limit;
    ready.ready.slot_size = (uint32_t)receiver->slot_size;
    ready.ready.remote_addr = (uint64_t)(uintptr_t)receiver->memory.addr;
    ready.ready.rkey = receiver->memory.mr->rkey;
    ready.ready.flags = receiver->sink->ops->keeps_content ? WIRE_READY_DENSE : 0;
    if (receiver->ready_fd < 0)
        return session_send(&receiver->session, &ready, err);
    struct exchange_stream stream = {.fd = receiver->ready_fd,
                                     .stop_fd = receiver->endpoint->stop_fd,
                                     .deadline = clock_after(receiver->endpoint->timeout),
                                     .peer = receiver->endpoint->peer};
    return exchange_send(&stream, &ready, err);
}

static int send_place(struct receiver *receiver, unsigned slot, const struct window_place *place,
                      struct error *err)
{
    struct wire_message message = {.type = WIRE_PLACE};
    window_place(&receiver->window, slot, place);
    message.place.slot = (uint16_t)slot;
    message.place.rkey = place->rkey;
    message.place.remote_addr = place->remote_addr;
    message.place.offset = place->offset;
    message.place.length = place->length;
    message.place.acknowledged = receiver->result->stored;
    return session_send(&receiver->session, &message, err);
}

/* Tells of what the worker placed as it began the object; it has no other work for it yet. */
static int send_places(struct receiver *receiver, struct error *err)
{
    for (unsigned i = 0; i < receiver->slot_count; i++) {
        const struct window_place *place = &receiver->storing.placements[i].place;
        if (place->length > 0 && send_place(receiver, i, place, err) < 0)
            return -1;
    }
    return 0;
}

static int answer_begin(struct receiver *receiver, const struct storing_job *job, struct error *err)
{
    struct opened *opened = find_opened(receiver, job->object);
    bool failed = error_is_set(&job->error);
    receiver->began = receiver->is_open && job->object == receiver->opened_count - 1;
    if (failed && fail_object(receiver, job->object, &job->error, err) < 0)
        return -1;
    if (!failed)
        receiver->result->admitted = true;
    opened->kept = job->kept;
    if (job->object == 0 && send_ready(receiver, err) < 0)
        return -1;
    if (failed || !opened->confirm)
        return 0;
    struct wire_message message = {.type = WIRE_OPENED,
                                   .opened = {.object = job->object, .kept = job->kept}};
    if (receiver->storing.placements[0].place.length > 0)
        message.opened.flags = WIRE_OPENED_PLACED;
    if (session_send(&receiver->session, &message, err) < 0)
        return -1;
    return send_places(receiver, err);
}

static int answer_store(struct receiver *receiver, const struct storing_job *job, struct error *err)
{
    struct wire_message grant = {.type = WIRE_GRANT};
    window_granted(&receiver->window, job->slot);
    receiver->result->stored += job->stored;
    if (error_is_set(&job->error) && fail_object(receiver, job->object, &job->error, err) < 0)
        return -1;
    if (job->place.length > 0 && receiver->is_open && job->object == receiver->opened_count - 1)
        return send_place(receiver, job->slot, &job->place, err);
    grant.grant.slot = (uint16_t)job->slot;
    grant.grant.acknowledged = receiver->result->stored;
    return session_send(&receiver->session, &grant, err);
}

static int answer_recall(struct receiver *receiver, const struct storing_job *job,
                         struct error *err)
{
    struct wire_message message = {.type = WIRE_RECALLED,
                                   .recalled = {.object = job->object, .digest = job->own}};
    receiver->recalling = false;
    if (error_is_set(&job->error))
        return fail_object(receiver, job->object, &job->error, err);
    if (!digest_equal(&job->own, &job->told)) {
        log_verbose("%s: what was kept differs from the source: starting anew",
                    receiver->endpoint->peer);
        receiver->expected = 0;
        find_opened(receiver, job->object)->kept = 0;
    }
    return session_send(&receiver->session, &message, err);
}

static void note_abandoned(struct receiver *receiver, uint32_t object)
{
    struct error cause = {.class = ERROR_NONE};
    char name[WIRE_MAX_NAME + 1];
    snprintf(name, sizeof name, "%s", find_opened(receiver, object)->name);
    error_mask(name);
    error_set(&cause, ERROR_TEMPORARY, STAGE_TRANSFER, name, "the client gave it up");
    note_failed(receiver, object, &cause);
}

static void report_committed(struct receiver *receiver, const struct storing_job *job)
{
    const struct opened *opened = find_opened(receiver, job->object);
    struct receiver_object object = {
        .name = opened->name,
        .digest = job->own,
        .kept = opened->kept,
        .pinned = receiver->endpoint->facts.pinned,
        .duration_ns = (uint64_t)(clock_now() - opened->began_at),
    };
    receiver->result->committed++;
    receiver->settled(receiver->context, receiver->endpoint->peer, &object, NULL);
}

static int answer_end(struct receiver *receiver, const struct storing_job *job, struct error *err)
{
    struct wire_message done = {.type = WIRE_DONE, .done = {.object = job->object}};
    const struct opened *opened = find_opened(receiver, job->object);
    if (error_is_set(&job->error) && fail_object(receiver, job->object, &job->error, err) < 0)
        return -1;
    receiver->done_count++;
    if (!job->committed && !opened->failed)
        note_abandoned(receiver, job->object);
    if (job->committed)
        done.done.digest = job->own;
    else
        done.done.status = (uint8_t)error_exit_status(opened->failure);
    int rc = session_send(&receiver->session, &done, err);
    /* The client hears of it first: nobody may read what is said here. */
    if (job->committed)
        report_committed(receiver, job);
    return rc;
}

static int answer_job(struct receiver *receiver, const struct storing_job *job, struct error *err)
{
    switch (job->kind) {
    case STORING_BEGIN:
        return answer_begin(receiver, job, err);
    case STORING_STORE:
        return answer_store(receiver, job, err);
    case STORING_RECALL:
        return answer_recall(receiver, job, err);
    case STORING_END:
        return answer_end(receiver, job, err);
    }
    return 0;
}

static int take_jobs(struct receiver *receiver, struct error *err)
{
    struct storing_job *job;
    while (receiver->worker && (job = worker_take(receiver->worker)) != NULL)
        if (answer_job(receiver, job, err) < 0)
            return -1;
    return 0;
}

/* ---- the session --------------------------------------------------------------------------- */

static bool is_finished(const struct receiver *receiver)
{
    return receiver->many ? receiver->closed : receiver->done_count > 0;
}

static int transfer(struct receiver *receiver, struct error *err)
{
    struct wire_message message;
    if (session_await(&receiver->session, &message, err) < 0 ||
        take_message(receiver, &message, err) < 0)
        return -1;
    for (;;) {
        if (take_jobs(receiver, err) < 0)
            return -1;
        if (is_finished(receiver))
            return 0;
        int fd = receiver->worker ? worker_fd(receiver->worker) : -1;
        switch (session_next(&receiver->session, fd, &message, err)) {
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

uint64_t receiver_least_memory(void)
{
    return session_memory(SLOT_COUNT, 2) + WIRE_MIN_SLOT_SIZE;
}

uint64_t receiver_single_memory(void)
{
    return session_memory(SLOT_COUNT, 1) + WIRE_MIN_SLOT_SIZE;
}

uint64_t receiver_wanted_memory(void)
{
    return session_memory(SLOT_COUNT, WIRE_MAX_OBJECTS) + 2 * SLOT_COUNT * SLOT_SIZE;
}

/* Fewer objects at a time, and fewer and smaller slots, where there is not the memory for all. Returns
 * how many objects. */
static unsigned fit_memory(struct receiver *receiver)
{
    unsigned objects = receiver->many ? WIRE_MAX_OBJECTS : 1;
    uint64_t limit = receiver->memory_limit;
    while (objects > 2 && session_memory(SLOT_COUNT, objects) > limit / 4)
        objects /= 2;
    uint64_t messages = session_memory(SLOT_COUNT, objects);
    uint64_t left = limit > messages ? limit - messages : 0;
    memory_fit_buffers(&receiver->slot_count, &receiver->slot_size, left);
    receiver->may_map = left >= 2 * receiver->slot_count * receiver->slot_size;
    return objects;
}

static int connect_session(struct receiver *receiver, struct error *err)
{
    unsigned objects = fit_memory(receiver);
    struct endpoint_wants wants = session_wants(receiver->slot_count, objects, 0);
    wants.max_sge = 1;
    return handshake_accept(&receiver->handshake, &receiver->session, receiver->endpoint, &wants,
                            receiver->slot_count, objects, err);
}

/* Whether what is there already may be gone on from: nothing was found wrong with it, nor has its
 * source changed. */
static bool is_worth_keeping(const struct receiver *receiver, const struct error *err)
{
    return err->class == ERROR_TEMPORARY || err->class == ERROR_INTERRUPTED ||
           (receiver->session.peer_gave_up && err->class != ERROR_DATA);
}

/* What was announced before the session broke is stored yet, where it will be kept. false when it
 * takes longer than to the deadline. */
static bool finish_stores(struct receiver *receiver, int64_t deadline)
{
    struct pollfd fds[] = {{.fd = worker_fd(receiver->worker), .events = POLLIN},
                           {.fd = receiver->endpoint->stop_fd, .events = POLLIN}};
    while (window_in_state(&receiver->window, WINDOW_SENT) > 0) {
        struct storing_job *job;
        int n = poll(fds, 2, clock_poll_ms(deadline));
        if (n == 0)
            return false;
        if (n < 0 || fds[1].revents)
            break;
        while ((job = worker_take(receiver->worker)) != NULL)
            if (job->kind == STORING_STORE)
                window_granted(&receiver->window, job->slot);
    }
    return true;
}

/* Bytes that were announced in slots and that the worker has not come back with. */
static uint64_t unanswered_bytes(const struct window *window)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < window->count; i++)
        if (window->state[i] == WINDOW_SENT)
            bytes += window->bytes[i];
    return bytes;
}

/* What stays in place although the session failed is said. The worker may be at some of it. */
static void note_leftovers(const struct receiver *receiver, struct error *err)
{
    uint64_t stored = receiver->result->stored, unsure = unanswered_bytes(&receiver->window);
    if (receiver->sink->ops->irrevocable && stored + unsure > 0)
        error_append(err, "; what was written before (%s%" PRIu64 " bytes) stays",
                     unsure > 0 ? "up to " : "", stored + unsure);
}

static int count_failures(const struct receiver *receiver, struct error *err)
{
    const struct receiver_result *result = receiver->result;
    if (result->failed == 0)
        return 0;
    return error_set(err, receiver->first_failure.class, STAGE_COMMIT, receiver->endpoint->peer,
                     "%u of %u objects were not committed", result->failed,
                     result->failed + result->committed);
}

/* What was committed while other objects were still coming counts as transfer. */
static void note_times(struct receiver *receiver, int64_t start)
{
    int64_t now = clock_now(), got = receiver->got_all_at ? receiver->got_all_at : now;
    struct facts *facts = &receiver->endpoint->facts;
    facts->ns[FACTS_TRANSFER] = (uint64_t)(got - start);
    facts->ns[FACTS_COMMIT] = (uint64_t)(now - got);
}

static int run(struct receiver *receiver, struct error *err)
{
    if (connect_session(receiver, err) < 0) {
        if (receiver->others)
            session_blame_others(err);
        return -1;
    }
    int64_t start = clock_now();
    int rc = handshake_as_server(&receiver->handshake, &receiver->session, err) == 0 &&
                     transfer(receiver, err) == 0
                 ? 0
                 : -1;
    note_times(receiver, start);
    if (rc == 0) {
        session_linger(&receiver->session);
        return count_failures(receiver, err);
    }
    note_leftovers(receiver, err);
    if (receiver->others)
        session_blame_others(err);
    session_give_up(&receiver->session, err);
    return -1;
}

/* What the worker has committed since it was last heard of. */
static void count_commits(struct receiver *receiver)
{
    for (uint32_t i = receiver->done_count; i != receiver->opened_count; i++) {
        const struct storing_job *end = &find_opened(receiver, i)->end;
        if (end->committed)
            report_committed(receiver, end);
    }
}

/* What the session was at when it failed has failed with it. What the worker still has it may commit
 * yet, and is not looked at. */
static void fail_unfinished(struct receiver *receiver, bool worker_ended, const struct error *err)
{
    for (uint32_t i = receiver->done_count; i != receiver->opened_count; i++) {
        struct opened *opened = find_opened(receiver, i);
        if (!opened->failed && !(worker_ended && opened->end.committed))
            settle_failed(receiver, opened, err);
    }
}

static bool storage_ends(struct receiver *receiver, bool keep, int64_t deadline)
{
    if (!receiver->worker)
        return true;
    if (keep && receiver->opened_count > 0 &&
        find_opened(receiver, receiver->opened_count - 1)->request.resume &&
        !finish_stores(receiver, deadline))
        return false;
    return worker_ends(receiver->worker, deadline);
}

/* How long storage may take once the session has failed: as long as the peer might have, as what it
 * is at may be a commit. */
static int64_t storage_deadline(const struct receiver *receiver, const struct error *err)
{
    int64_t least = clock_after(STORAGE_NS);
    int64_t most = receiver->session.heard_at + (int64_t)receiver->endpoint->timeout;
    return err->class == ERROR_INTERRUPTED || most < least ? least : most;
}

static void clean_up(struct receiver *receiver, const struct receiver_job *job, bool keep,
                     const struct error *err)
{
    int64_t deadline = storage_deadline(receiver, err);
    session_close(&receiver->session);
    if (!storage_ends(receiver, keep, deadline)) {
        fail_unfinished(receiver, false, err);
        job->stuck(job->context, err);
        storage_ends(receiver, keep, CLOCK_NEVER);
    }
    worker_stop(receiver->worker);
    count_commits(receiver);
    fail_unfinished(receiver, true, err);
    storing_close(&receiver->storing, keep);
    memory_free(&receiver->memory);
}

int receiver_run(struct endpoint *endpoint, const struct receiver_job *job,
                 struct receiver_result *result, struct error *err)
{
    *result = (struct receiver_result){.admitted = false};
    struct receiver *receiver = calloc(1, sizeof *receiver);
    if (!receiver)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, endpoint->peer, ENOMEM,
                               "cannot begin a session");
    receiver->sink = job->sink;
    receiver->many = (job->hello->flags & WIRE_HELLO_MANY) != 0;
    receiver->handshake = (struct handshake){.secret = job->secret, .hello = *job->hello};
    receiver->memory_limit = job->memory;
    receiver->others = job->others;
    receiver->ready_fd = job->ready_fd;
    receiver->settled = job->settled;
    receiver->context = job->context;
    receiver->result = result;
    receiver->endpoint = endpoint;
    receiver->slot_count = SLOT_COUNT;
    receiver->slot_size = SLOT_SIZE;
    int rc = run(receiver, err);
    clean_up(receiver, job, rc < 0 && is_worth_keeping(receiver, err), err);
    if (rc < 0 && !receiver->many && result->committed > 0) {
        /* The object is there, and only the client may not know: for this side it is a success. */
        error_clear(err);
        rc = 0;
    }
    free(receiver);
    return rc;
}

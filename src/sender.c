#include "config.h"

#include "sender.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "exchange-stream.h"
#include "handshake.h"
#include "loader.h"
#include "log.h"
#include "memory.h"
#include "report.h"
#include "session.h"
#include "units.h"
#include "window.h"
#include "worker.h"

#define SLOT_COUNT 4
#define MOST_HELD (SLOT_COUNT + 4)
#define SLOT_SIZE ((size_t)256 << 10)
#define MOST_WORKS 64
/* What is under way when a session breaks is sent again: this part of an object at most. */
#define RESUME_PARTS 320
#define RESUME_LEAST_BUFFER ((uint64_t)32 << 10)
/* Where an object has more, the buffers of few work requests might not fill a placed slot. */
#define MAP_MOST_PIECES 32
#define MAP_LEAST_BYTES ((uint64_t)1 << 20)
/* How long a read of a file may take once the session has ended. */
#define READ_ENDS_NS (500 * CLOCK_NS_PER_MS)

enum task_kind {
    TASK_OPEN,
    TASK_READY,
    TASK_RECALL,
    TASK_LOAD,
};

/* One thing for the worker to do, and what came of it. */
struct task {
    enum task_kind kind;
    struct load load; /* TASK_LOAD */
    struct error error;
};

/* Where the object that was opened last stands. */
enum state {
    STATE_NONE,    /* there is none, or its END was sent */
    STATE_OPENING, /* at the worker */
    STATE_WAITING, /* for READY or OPENED */
    STATE_RECALLING,
    STATE_SENDING,
    STATE_DROPPING, /* it failed: what is at the worker is to come back */
};

/* An object that was opened at the server and has no DONE yet. */
struct pending {
    size_t index;               /* of the job's objects */
    bool failed;                /* and was reported */
    struct digest_value digest; /* with its END */
    uint64_t kept;
    char name[WIRE_MAX_NAME + 1];
};

struct sender {
    const struct sender_job *job;
    struct client_target target; /* the job's, with the result's facts */
    struct sender_result *result;
    struct endpoint endpoint;
    struct handshake handshake;
    struct session session;
    struct wire_message ready; /* the slots that were granted; type 0 before */
    struct memory memory;      /* the buffers to read into */
    unsigned buffer_count;
    size_t buffer_size;   /* in use: no more than a slot's, once these are known */
    uint32_t chunk_limit; /* what it was before that: the same in every OPEN */
    struct window window;
    struct loader loader;
    struct worker *worker;
    struct task tasks[WINDOW_MAX_SLOTS]; /* one for each slot */
    struct task open_task, ready_task, recall_task;
    struct wire_message met_ready;       /* what ready_task got */
    struct wire_message recall;          /* what recall_task hashed */
    struct wire_message held[MOST_HELD]; /* came before READY, which takes another way */
    unsigned held_count;
    struct sender_object object; /* the worker's, while it opens */
    bool object_is_open;         /* likewise */
    bool load_ended;             /* the worker's: the object has been read to its end */
    struct digest_value digest;  /* of what was read, once load_ended */
    enum state state;
    size_t next;           /* index of the next object to be opened */
    uint32_t opened, done; /* objects at the server */
    struct pending pending[WIRE_MAX_OBJECTS];
    bool confirmed;       /* the server need not confirm the present object */
    uint64_t kept;        /* bytes the server has of the present object */
    uint64_t kept_in_all; /* and had of all that were begun, as both ends have found */
    uint64_t unread;      /* bytes of the present object, PLAN_UNKNOWN for a stream */
    uint64_t total;       /* likewise, with those that were read: of one object, once it begins */
    bool placing;         /* slots are ranges of the present object */
    bool placed_all;      /* an ordinary slot came back: the server places no more */
    uint64_t load_at;     /* while placing: where the next load begins */
    uint64_t place_at;    /* likewise: where the next range does */
    uint32_t placed;      /* objects: once so many have a DONE, no PLACE of them comes any more */
    bool loaded_all;      /* the last load came back */
    unsigned loading;     /* loads at the worker */
    bool hashing;         /* recall_task is at the worker */
    struct error first_failure; /* of many objects */
    int64_t sent_all_at;        /* clock.h: when the last END was sent; 0: none was */
};

static struct pending *find_pending(struct sender *sender, uint32_t object)
{
    return &sender->pending[object % WIRE_MAX_OBJECTS];
}

static struct pending *present(struct sender *sender)
{
    return find_pending(sender, sender->opened - 1);
}

/* ---- the worker ---------------------------------------------------------------------------- */

static void close_object(struct sender *sender)
{
    if (sender->object_is_open)
        sender->job->close(sender->job->context, sender->next - 1, &sender->object);
    sender->object_is_open = false;
}

static void open_object(struct sender *sender, struct task *task)
{
    sender->object = (struct sender_object){.name = ""};
    sender->load_ended = false;
    if (sender->job->open(sender->job->context, sender->next - 1, &sender->object, &task->error) <
        0)
        return;
    sender->object_is_open = true;
    loader_begin(&sender->loader, sender->object.plan, sender->object.source);
}

/* Once all of it was read, the sources must still be what they were. */
static void end_reading(struct sender *sender, struct task *task)
{
    uint64_t size = plan_size(sender->object.plan);
    sender->load_ended = true;
    if (source_verify(sender->object.source, &task->error) < 0)
        return;
    digest_value(sender->loader.digest, &sender->digest);
    if (size != PLAN_UNKNOWN && size > sender->digest.size)
        sender->digest.size = size;
}

static void load(struct sender *sender, struct task *task, int stop_fd)
{
    loader_fill(&sender->loader, &task->load, stop_fd);
    task->error = task->load.error;
    if (task->load.last && !sender->load_ended && !error_is_set(&task->error))
        end_reading(sender, task);
}

static void recall(struct sender *sender, struct task *task, int stop_fd)
{
    struct wire_message *message = &sender->recall;
    *message = (struct wire_message){.type = WIRE_RECALL};
    int count = loader_recall(&sender->loader, sender->kept, message->recall.extents,
                              WIRE_MAX_RECALLED, stop_fd, &task->error);
    if (count < 0)
        return;
    message->recall.extent_count = (uint16_t)count;
    digest_value(sender->loader.digest, &message->recall.digest);
}

/* READY comes over the connection of the exchange, which the kernel keeps an eye on; the session has
 * its own on the server. Once it has begun to come, nothing keeps the rest of it. */
static void receive_ready(struct sender *sender, struct task *task, int stop_fd)
{
    struct exchange_stream stream = {.fd = sender->job->meeting->fd,
                                     .stop_fd = stop_fd,
                                     .deadline = CLOCK_NEVER,
                                     .peer = sender->job->meeting->peer};
    if (exchange_wait(&stream, POLLIN, &task->error) < 0)
        return;
    stream.deadline = clock_after(sender->job->target.timeout);
    if (exchange_receive(&stream, &sender->met_ready, &task->error) == 0 &&
        sender->met_ready.type != WIRE_READY)
        session_unexpected(&sender->session, &sender->met_ready, &task->error);
}

/* A worker_function. */
static void do_task(void *context, void *item, int stop_fd)
{
    struct sender *sender = context;
    struct task *task = item;
    error_clear(&task->error);
    switch (task->kind) {
    case TASK_OPEN:
        open_object(sender, task);
        break;
    case TASK_READY:
        receive_ready(sender, task, stop_fd);
        break;
    case TASK_RECALL:
        recall(sender, task, stop_fd);
        break;
    case TASK_LOAD:
        load(sender, task, stop_fd);
        break;
    }
}

/* ---- connecting ---------------------------------------------------------------------------- */

/* One attempt to connect (client_attempt). */
static int attempt(void *context, struct endpoint *endpoint, int64_t deadline, struct error *err)
{
    struct sender *sender = context;
    const struct sender_job *job = sender->job;
    unsigned objects = job->many ? WIRE_MAX_OBJECTS : 1;
    struct wire_hello *hello = &sender->handshake.hello;
    struct endpoint_answer answer;
    struct endpoint_wants wants = session_wants(SLOT_COUNT, objects, MOST_WORKS + 1);
    sender->handshake.secret = job->secret;
    *hello = (struct wire_hello){.version = WIRE_VERSION,
                                 .role = WIRE_ROLE_WRITE,
                                 .flags = (job->many ? WIRE_HELLO_MANY : 0) |
                                          (job->secret ? WIRE_HELLO_SECRET : 0)};
    if (job->meeting)
        memcpy(hello->token, job->meeting->token, WIRE_TOKEN_BYTES);
    if (endpoint_create_queues(endpoint, &wants, NULL, err) == 0 &&
        session_open(&sender->session, endpoint, SLOT_COUNT, objects, job->target.timeout, err) ==
            0 &&
        client_greet(endpoint, hello, deadline, &sender->handshake.welcome, &answer, err) == 0)
        return 0;
    session_close(&sender->session);
    return -1;
}

static int connect_server(struct sender *sender, struct error *err)
{
    const struct sender_job *job = sender->job;
    if (job->places)
        return client_connect_places(job->places, &sender->target, attempt, sender,
                                     &sender->endpoint, err);
    return client_connect(&sender->target, attempt, sender, &sender->endpoint, err);
}

/* The writes of a load are unsignalled until its message follows: all of them must fit the
 * queue. */
static unsigned most_works(const struct sender *sender)
{
    unsigned messages = session_messages(SLOT_COUNT, sender->job->many ? WIRE_MAX_OBJECTS : 1);
    unsigned depth = sender->endpoint.send_depth;
    unsigned room = depth > messages ? depth - messages : 1;
    return room < MOST_WORKS ? room : MOST_WORKS;
}

/* The thread that reads. */
static int start_worker(struct sender *sender, struct error *err)
{
    struct plan_limits limits = {
        .max_sge = sender->endpoint.max_sge,
        .max_bytes = sender->endpoint.max_msg_sz,
        .max_extents = WIRE_MAX_EXTENTS,
    };
    if (loader_open(&sender->loader, NULL, NULL, &limits, most_works(sender), true, err) < 0)
        return -1;
    sender->ready_task.kind = TASK_READY;
    sender->worker = worker_start(do_task, sender, WINDOW_MAX_SLOTS + 3, err);
    return sender->worker ? 0 : -1;
}

uint64_t sender_wanted_memory(void)
{
    return session_memory(SLOT_COUNT, WIRE_MAX_OBJECTS) + SLOT_COUNT * SLOT_SIZE;
}

/* Memory to read into. */
static int prepare_loads(struct sender *sender, struct error *err)
{
    sender->buffer_count = SLOT_COUNT;
    sender->buffer_size = SLOT_SIZE;
    if (memory_register_buffers(&sender->memory, sender->endpoint.id, false, &sender->buffer_count,
                                &sender->buffer_size, "reading the segments", err) < 0)
        return -1;
    sender->chunk_limit = (uint32_t)sender->buffer_size;
    sender->endpoint.facts.pinned = sender->memory.bytes + sender->session.messages.memory.bytes;
    for (unsigned i = 0; i < sender->buffer_count; i++) {
        struct task *task = &sender->tasks[i];
        task->kind = TASK_LOAD;
        task->load = (struct load){.index = i,
                                   .buffer = sender->memory.addr + i * sender->buffer_size,
                                   .lkey = sender->memory.mr->lkey};
        if (loader_prepare(&sender->loader, &task->load, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- an object fails ----------------------------------------------------------------------- */

/* Of many objects one that fails is reported, and the session goes on. */
static int fail_object(struct sender *sender, size_t index, const char *name,
                       const struct error *cause, struct error *err)
{
    if (!sender->job->many) {
        *err = *cause;
        return -1;
    }
    struct error named = *cause;
    if (name[0])
        error_nest(&named, name);
    log_error(&named);
    sender->job->settled(sender->job->context, index, NULL, 0, cause);
    sender->result->failed++;
    if (!error_is_set(&sender->first_failure))
        sender->first_failure = named;
    return 0;
}

static int fail_present(struct sender *sender, const struct error *cause, struct error *err)
{
    present(sender)->failed = true;
    sender->state = STATE_DROPPING;
    return fail_object(sender, present(sender)->index, present(sender)->name, cause, err);
}

/* ---- what goes to the server --------------------------------------------------------------- */

static unsigned object_limit(const struct sender *sender)
{
    unsigned limit = sender->session.objects;
    if (sender->ready.type != WIRE_READY)
        return 1;
    return limit < sender->ready.ready.object_limit ? limit : sender->ready.ready.object_limit;
}

/* The bytes of the present object in one load. */
static uint64_t load_size(const struct sender *sender)
{
    uint64_t part = plan_size(sender->object.plan) / RESUME_PARTS / sender->window.count;
    if (!sender->job->resume || part >= sender->buffer_size)
        return sender->buffer_size;
    part = part / RESUME_LEAST_BUFFER * RESUME_LEAST_BUFFER;
    if (part < RESUME_LEAST_BUFFER)
        part = RESUME_LEAST_BUFFER;
    return part < sender->buffer_size ? part : sender->buffer_size;
}

/* The server is ready for the present object's data, behind what was recalled of it. */
static void begin_sending(struct sender *sender)
{
    struct plan *plan = sender->object.plan;
    uint64_t size = load_size(sender);
    if (sender->ready.ready.flags & WIRE_READY_DENSE)
        plan_fill_holes(plan);
    if (sender->job->resume)
        plan_start_at(plan, digest_end(sender->loader.digest));
    for (unsigned i = 0; i < sender->window.count; i++)
        sender->tasks[i].load.size = size;
    present(sender)->kept = digest_bytes(sender->loader.digest);
    sender->kept_in_all += present(sender)->kept;
    sender->unread = plan_bytes(plan);
    if (!sender->job->many)
        sender->total = sender->unread;
    if (sender->unread != PLAN_UNKNOWN)
        sender->unread -= present(sender)->kept;
    sender->loaded_all = sender->placed_all = false;
    sender->load_at = sender->place_at = 0;
    sender->loader.limits.fill_slots = sender->placing;
    sender->state = STATE_SENDING;
}

static struct wire_time time_of(const struct timespec *time)
{
    return (struct wire_time){.seconds = time->tv_sec, .nanoseconds = (uint32_t)time->tv_nsec};
}

/* Whether the present object may be written without a copy at the server. */
static bool may_map(const struct sender *sender)
{
    const struct plan *plan = sender->object.plan;
    uint64_t bytes = plan_bytes(plan);
    return sender->job->map && !sender->job->resume && bytes != PLAN_UNKNOWN &&
           bytes == plan_size(plan) && bytes >= MAP_LEAST_BYTES &&
           plan_count(plan) <= MAP_MOST_PIECES;
}

/* Whether the server is to make room before data flows: small objects do not wait for that. */
static bool is_to_confirm(const struct sender *sender, uint64_t bytes)
{
    return sender->job->resume || (sender->ready.type == WIRE_READY &&
                                   (bytes == PLAN_UNKNOWN || bytes > sender->buffer_size));
}

static int send_open(struct sender *sender, struct error *err)
{
    const struct sender_object *object = &sender->object;
    struct wire_message open = {.type = WIRE_OPEN};
    uint64_t bytes = plan_bytes(object->plan);
    bool map = may_map(sender), confirm = map || is_to_confirm(sender, bytes);
    open.open.flags = (sender->job->sync ? WIRE_OPEN_SYNC : 0) |
                      (object->preserve ? WIRE_OPEN_PRESERVE : 0) |
                      (sender->job->resume ? WIRE_OPEN_RESUME : 0) |
                      (confirm ? WIRE_OPEN_CONFIRM : 0) | (map ? WIRE_OPEN_MAP : 0);
    open.open.size = plan_size(object->plan);
    open.open.bytes = bytes;
    open.open.slot_limit = (uint16_t)sender->buffer_count;
    open.open.chunk_limit = sender->chunk_limit;
    open.open.object_limit = (uint16_t)sender->session.objects;
    if (object->preserve) {
        open.open.mode = object->mode;
        open.open.accessed = time_of(&object->accessed);
        open.open.modified = time_of(&object->modified);
    }
    if (sender->job->resume)
        memcpy(open.open.identity, object->identity, sizeof open.open.identity);
    snprintf(open.open.name, sizeof open.open.name, "%s", object->name);
    struct pending *pending = find_pending(sender, sender->opened++);
    *pending = (struct pending){.index = sender->next - 1};
    snprintf(pending->name, sizeof pending->name, "%s", object->name);
    error_mask(pending->name);
    sender->kept = 0;
    sender->confirmed = !confirm;
    sender->state = STATE_WAITING;
    if (session_send(&sender->session, &open, err) < 0)
        return -1;
    if (sender->ready.type == WIRE_READY && !confirm)
        begin_sending(sender);
    return 0;
}

/* Whether one more load finds something to read, as far as one can tell. */
static bool is_worth_loading(const struct sender *sender)
{
    if (sender->placing)
        return sender->load_at < plan_size(sender->object.plan);
    return sender->loading == 0 || sender->unread == PLAN_UNKNOWN ||
           sender->unread > sender->loading * sender->tasks[0].load.size;
}

/* While placing, loads go in order, each into the slot that is its range; and when there are no more
 * of these, into ordinary ones. */
static int take_placed_slot(struct sender *sender)
{
    for (unsigned i = 0; i < sender->window.count; i++) {
        const struct window_place *place = &sender->window.places[i];
        bool fits = place->length > 0 ? place->offset == sender->load_at : sender->placed_all;
        if (fits && window_take_slot(&sender->window, i)) {
            sender->tasks[i].load.size = place->length > 0 ? place->length : sender->buffer_size;
            sender->load_at += sender->tasks[i].load.size;
            return (int)i;
        }
    }
    return -1;
}

static int take_slot(struct sender *sender)
{
    return sender->placing ? take_placed_slot(sender) : window_take(&sender->window);
}

/* Has granted slots' buffers filled, while there is something left. */
static void load_more(struct sender *sender)
{
    int slot;
    while (!sender->loaded_all && is_worth_loading(sender) && (slot = take_slot(sender)) >= 0) {
        worker_submit(sender->worker, &sender->tasks[slot]);
        sender->loading++;
    }
}

/* Where a slot is, and the key for it. */
static struct window_place find_slot(const struct sender *sender, unsigned slot)
{
    const struct wire_message *ready = &sender->ready;
    if (sender->window.places[slot].length > 0)
        return sender->window.places[slot];
    return (struct window_place){
        .remote_addr = ready->ready.remote_addr + (uint64_t)slot * ready->ready.slot_size,
        .rkey = ready->ready.rkey,
    };
}

/* Writes a filled buffer into its slot and announces it. */
static int send_load(struct sender *sender, struct load *load, struct error *err)
{
    struct wire_message chunk = {.type = WIRE_CHUNK};
    const struct window_place place = find_slot(sender, load->index);
    if (place.length > 0 && load->bytes != place.length)
        return error_set(err, ERROR_BUG, STAGE_TRANSFER, sender->endpoint.peer,
                         "a placed slot was not filled");
    for (unsigned i = 0; i < load->work_count; i++) {
        struct loader_work *work = &load->works[i];
        if (session_write(&sender->session, work->entries, work->count, 0,
                          place.remote_addr + work->at, place.rkey, err) < 0)
            return -1;
    }
    chunk.chunk.slot = (uint16_t)load->index;
    chunk.chunk.extent_count = (uint16_t)load->extent_count;
    memcpy(chunk.chunk.extents, load->extents, load->extent_count * sizeof load->extents[0]);
    window_sent(&sender->window, load->index, load->bytes);
    sender->result->chunks++;
    sender->result->sent += load->bytes;
    return session_send(&sender->session, &chunk, err);
}

static int send_end(struct sender *sender, struct error *err)
{
    struct wire_message end = {.type = WIRE_END};
    if (present(sender)->failed)
        end.end.flags = WIRE_END_ABANDONED;
    else
        end.end.digest = present(sender)->digest = sender->digest;
    sender->state = STATE_NONE;
    sender->sent_all_at = clock_now();
    sender->placing = false;
    window_unplace(&sender->window);
    return session_send(&sender->session, &end, err);
}

/* ---- what the worker has done -------------------------------------------------------------- */

static int take_opened_sources(struct sender *sender, struct task *task, struct error *err)
{
    if (!error_is_set(&task->error)) {
        if (sender->opened == 0 && sender->job->meeting)
            worker_submit(sender->worker, &sender->ready_task);
        return send_open(sender, err);
    }
    sender->state = STATE_NONE;
    return fail_object(sender, sender->next - 1, "", &task->error, err);
}

static int take_recall(struct sender *sender, struct task *task, struct error *err)
{
    sender->hashing = false;
    if (sender->state != STATE_RECALLING)
        return 0;
    if (error_is_set(&task->error))
        return fail_present(sender, &task->error, err);
    if (sender->recall.recall.extent_count > 0)
        return session_send(&sender->session, &sender->recall, err);
    begin_sending(sender);
    return 0;
}

static int take_load(struct sender *sender, struct task *task, struct error *err)
{
    struct load *load = &task->load;
    sender->loading--;
    if (error_is_set(&task->error) && sender->state == STATE_SENDING &&
        fail_present(sender, &task->error, err) < 0)
        return -1;
    sender->loaded_all |= load->last;
    if (sender->unread != PLAN_UNKNOWN)
        sender->unread -= load->bytes;
    if (load->bytes > 0 && sender->state == STATE_SENDING)
        return send_load(sender, load, err);
    window_put_back(&sender->window, load->index);
    return 0;
}

/* ---- what the server says ------------------------------------------------------------------ */

static int take_ready(struct sender *sender, const struct wire_message *message, struct error *err)
{
    if (sender->ready.type == WIRE_READY || sender->opened == 0 ||
        message->ready.slot_count > sender->buffer_count ||
        message->ready.slot_size > sender->buffer_size)
        return session_unexpected(&sender->session, message, err);
    sender->ready = *message;
    sender->buffer_size = message->ready.slot_size;
    window_init(&sender->window, message->ready.slot_count);
    sender->endpoint.facts.slots = message->ready.slot_count;
    sender->endpoint.facts.slot_size = message->ready.slot_size;
    report_connection(&sender->endpoint.facts, "slots");
    if (sender->state == STATE_WAITING && sender->confirmed)
        begin_sending(sender);
    return 0;
}

static void start_recall(struct sender *sender)
{
    sender->state = STATE_RECALLING;
    sender->hashing = true;
    sender->recall_task.kind = TASK_RECALL;
    worker_submit(sender->worker, &sender->recall_task);
}

static int take_opened(struct sender *sender, const struct wire_message *message, struct error *err)
{
    bool placed = (message->opened.flags & WIRE_OPENED_PLACED) != 0;
    if (sender->state != STATE_WAITING || sender->ready.type != WIRE_READY || sender->confirmed ||
        (placed && !may_map(sender)) || message->opened.object != sender->opened - 1 ||
        (message->opened.kept > 0 && !sender->job->resume))
        return session_unexpected(&sender->session, message, err);
    sender->kept = message->opened.kept;
    sender->placing = placed;
    if (placed)
        sender->placed = sender->opened;
    if (sender->kept > 0)
        start_recall(sender);
    else
        begin_sending(sender);
    return 0;
}

/* Where the server has something else, it is all sent anew. */
static int take_recalled(struct sender *sender, const struct wire_message *message,
                         struct error *err)
{
    if (sender->state != STATE_RECALLING || sender->hashing ||
        message->recalled.object != sender->opened - 1)
        return session_unexpected(&sender->session, message, err);
    if (digest_equal(&message->recalled.digest, &sender->recall.recall.digest)) {
        start_recall(sender);
        return 0;
    }
    log_verbose("%s: what was kept differs: starting anew", sender->endpoint.peer);
    loader_begin(&sender->loader, sender->object.plan, sender->object.source);
    begin_sending(sender);
    return 0;
}

/* It has stored what it had, and no more than it was sent. */
static int take_acknowledged(struct sender *sender, uint64_t bytes, struct error *err)
{
    struct sender_result *result = sender->result;
    if (bytes < result->acknowledged || bytes > result->sent)
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, sender->endpoint.peer,
                         "the peer broke the protocol: it acknowledges %" PRIu64
                         " bytes, after %" PRIu64 ", of %" PRIu64 " that were sent",
                         bytes, result->acknowledged, result->sent);
    result->acknowledged = bytes;
    return 0;
}

static int take_grant(struct sender *sender, const struct wire_message *message, struct error *err)
{
    if (sender->ready.type != WIRE_READY || !window_granted(&sender->window, message->grant.slot))
        return session_unexpected(&sender->session, message, err);
    sender->placed_all = true;
    return take_acknowledged(sender, message->grant.acknowledged, err);
}

/* Whether the present object's next range may be this one. */
static bool is_range(const struct sender *sender, const struct wire_message *message)
{
    return !sender->placed_all && message->place.offset == sender->place_at &&
           message->place.length <= sender->buffer_size &&
           message->place.offset + message->place.length <= plan_size(sender->object.plan);
}

/* A slot is granted, or the first time changed, to be a range of the object. One that comes after
 * the object's end is an ordinary one. */
static int take_place(struct sender *sender, const struct wire_message *message, struct error *err)
{
    unsigned slot = message->place.slot;
    bool sending = sender->placing && sender->state == STATE_SENDING;
    if (sender->done >= sender->placed || slot >= sender->window.count ||
        (sending && !is_range(sender, message)))
        return session_unexpected(&sender->session, message, err);
    bool granted = window_granted(&sender->window, slot) ||
                   (window_take_slot(&sender->window, slot) &&
                    window_put_back(&sender->window, slot) &&
                    sender->window.places[slot].length == 0);
    if (sending && !granted)
        return session_unexpected(&sender->session, message, err);
    if (take_acknowledged(sender, message->place.acknowledged, err) < 0)
        return -1;
    if (!sending)
        return 0;
    sender->place_at += message->place.length;
    const struct window_place place = {.offset = message->place.offset,
                                       .length = message->place.length,
                                       .remote_addr = message->place.remote_addr,
                                       .rkey = message->place.rkey};
    window_place(&sender->window, slot, &place);
    return 0;
}

/* Whether the object that was opened last has had no END. */
static bool is_open(const struct sender *sender)
{
    return sender->state != STATE_NONE && sender->state != STATE_OPENING;
}

static int take_failed(struct sender *sender, const struct wire_message *message, struct error *err)
{
    uint32_t object = message->error.object;
    struct error cause = {.class = ERROR_NONE};
    if (!sender->job->many || object - sender->done >= sender->opened - sender->done)
        return session_unexpected(&sender->session, message, err);
    struct pending *pending = find_pending(sender, object);
    if (pending->failed)
        return 0;
    session_understand(&sender->session, message, &cause);
    if (object == sender->opened - 1 && is_open(sender))
        return fail_present(sender, &cause, err);
    pending->failed = true;
    return fail_object(sender, pending->index, pending->name, &cause, err);
}

static int take_done(struct sender *sender, const struct wire_message *message, struct error *err)
{
    struct pending *pending = find_pending(sender, sender->done);
    uint32_t ended = sender->opened - is_open(sender);
    if (sender->done == ended || message->done.object != sender->done ||
        (message->done.status != 0) != pending->failed)
        return session_unexpected(&sender->session, message, err);
    sender->done++;
    if (pending->failed)
        return 0;
    if (!digest_equal(&pending->digest, &message->done.digest)) {
        struct error cause = {.class = ERROR_NONE};
        error_set(&cause, ERROR_DATA, STAGE_COMMIT, sender->endpoint.peer,
                  "the server committed something else than was sent: the checksums differ");
        return fail_object(sender, pending->index, pending->name, &cause, err);
    }
    sender->job->settled(sender->job->context, pending->index, &message->done.digest, pending->kept,
                         NULL);
    sender->result->digest = message->done.digest;
    sender->result->committed++;
    sender->result->committed_bytes += message->done.digest.bytes;
    sender->result->kept += pending->kept;
    return 0;
}

static int take_message(struct sender *sender, const struct wire_message *message,
                        struct error *err)
{
    switch (message->type) {
    case WIRE_READY:
        return take_ready(sender, message, err);
    case WIRE_OPENED:
        return take_opened(sender, message, err);
    case WIRE_RECALLED:
        return take_recalled(sender, message, err);
    case WIRE_GRANT:
        return take_grant(sender, message, err);
    case WIRE_PLACE:
        return take_place(sender, message, err);
    case WIRE_FAILED:
        return take_failed(sender, message, err);
    case WIRE_DONE:
        return take_done(sender, message, err);
    default:
        return session_unexpected(&sender->session, message, err);
    }
}

/* What came before READY, which took another way, is dealt with now. */
static int take_met_ready(struct sender *sender, struct task *task, struct error *err)
{
    if (error_is_set(&task->error)) {
        *err = task->error;
        return -1;
    }
    if (take_ready(sender, &sender->met_ready, err) < 0)
        return -1;
    for (unsigned i = 0; i < sender->held_count; i++)
        if (take_message(sender, &sender->held[i], err) < 0)
            return -1;
    sender->held_count = 0;
    return 0;
}

static int hold_message(struct sender *sender, const struct wire_message *message,
                        struct error *err)
{
    if (message->type == WIRE_READY || sender->held_count == MOST_HELD)
        return session_unexpected(&sender->session, message, err);
    sender->held[sender->held_count++] = *message;
    return 0;
}

static int take_task(struct sender *sender, struct task *task, struct error *err)
{
    switch (task->kind) {
    case TASK_OPEN:
        return take_opened_sources(sender, task, err);
    case TASK_READY:
        return take_met_ready(sender, task, err);
    case TASK_RECALL:
        return take_recall(sender, task, err);
    case TASK_LOAD:
        return take_load(sender, task, err);
    }
    return 0;
}

static int take_tasks(struct sender *sender, struct error *err)
{
    struct task *task;
    while ((task = worker_take(sender->worker)) != NULL)
        if (take_task(sender, task, err) < 0)
            return -1;
    return 0;
}

/* ---- the session --------------------------------------------------------------------------- */

static bool may_open(const struct sender *sender)
{
    return sender->next < sender->job->count &&
           sender->opened - sender->done < object_limit(sender);
}

/* Does what can be done now without waiting. */
static int advance(struct sender *sender, struct error *err)
{
    bool all_back = sender->loading == 0 && !sender->hashing;
    if (sender->state == STATE_SENDING && !(sender->loaded_all && all_back))
        load_more(sender);
    else if (sender->state == STATE_SENDING || (sender->state == STATE_DROPPING && all_back)) {
        if (send_end(sender, err) < 0)
            return -1;
    }
    if (sender->state == STATE_NONE && may_open(sender)) {
        close_object(sender);
        sender->next++;
        sender->state = STATE_OPENING;
        sender->open_task.kind = TASK_OPEN;
        worker_submit(sender->worker, &sender->open_task);
    }
    return 0;
}

static bool is_finished(const struct sender *sender)
{
    return sender->state == STATE_NONE && sender->next == sender->job->count &&
           sender->done == sender->opened;
}

static bool awaits_exchange(const struct sender *sender)
{
    return sender->job->meeting && sender->ready.type != WIRE_READY;
}

/* What the session can go on with only then: files, where they hold up as many slots as everything
 * else does. */
static uint64_t *next_wait(struct sender *sender)
{
    struct sender_waits *waits = &sender->result->waits;
    unsigned sent = window_in_state(&sender->window, WINDOW_SENT);
    bool reading = sender->loading > 0 || sender->hashing || sender->state == STATE_OPENING;
    if (reading && sender->loading >= sent)
        return &waits->source;
    return sender->session.writer.used > 0 ? &waits->fabric : &waits->destination;
}

/* session_next, and the account of what it waited for. */
static enum session_next wait_next(struct sender *sender, struct wire_message *message,
                                   struct error *err)
{
    uint64_t *waited = next_wait(sender);
    int64_t start = clock_now();
    enum session_next next = session_next(&sender->session, worker_fd(sender->worker), message,
                                          err);
    *waited += (uint64_t)(clock_now() - start);
    return next;
}

static void tell_state(struct sender *sender)
{
    const struct sender_job *job = sender->job;
    const struct sender_state state = {.stored = sender->result->acknowledged,
                                       .kept = sender->kept_in_all,
                                       .total = sender->total,
                                       .committed = sender->result->committed};
    if (job->progressed)
        sender->session.wake_at = job->progressed(job->context, &state);
}

static int transfer(struct sender *sender, struct error *err)
{
    struct wire_message message;
    for (;;) {
        if (take_tasks(sender, err) < 0 || advance(sender, err) < 0)
            return -1;
        tell_state(sender);
        if (is_finished(sender))
            return 0;
        switch (wait_next(sender, &message, err)) {
        case SESSION_ERROR:
            return -1;
        case SESSION_MESSAGE:
            if ((awaits_exchange(sender) ? hold_message(sender, &message, err)
                                         : take_message(sender, &message, err)) < 0)
                return -1;
            break;
        case SESSION_WORKER:
            break;
        }
    }
}

/* Nothing more comes: for a server that might wait for another object. */
static int close_session(struct sender *sender, struct error *err)
{
    static const struct wire_message close = {.type = WIRE_CLOSE};
    if (!sender->job->many)
        return 0;
    if (session_send(&sender->session, &close, err) < 0)
        return -1;
    session_flush(&sender->session);
    return 0;
}

static int count_failures(const struct sender *sender, struct error *err)
{
    const struct sender_result *result = sender->result;
    if (result->failed == 0)
        return 0;
    return error_set(err, sender->first_failure.class, STAGE_NONE, sender->endpoint.peer,
                     "%zu of %zu objects were committed, and %zu were not", result->committed,
                     sender->job->count, result->failed);
}

/* Where the time went since the connection stood. What is committed while other objects are still being
 * sent counts as transfer. */
static void note_times(struct sender *sender, int64_t start, int64_t prepared)
{
    int64_t now = clock_now(), sent = sender->sent_all_at ? sender->sent_all_at : now;
    struct facts *facts = &sender->endpoint.facts;
    facts->ns[FACTS_REGISTER] += (uint64_t)(prepared - start);
    facts->ns[FACTS_TRANSFER] = (uint64_t)(sent - prepared);
    facts->ns[FACTS_COMMIT] = (uint64_t)(now - sent);
    sender->result->duration_ns = (uint64_t)(now - start);
    sender->result->facts = *facts;
}

static int run(struct sender *sender, struct error *err)
{
    int64_t start = clock_now();
    session_begin(&sender->session);
    int rc = handshake_as_client(&sender->handshake, &sender->session, err) == 0 &&
                     start_worker(sender, err) == 0 && prepare_loads(sender, err) == 0
                 ? 0
                 : -1;
    int64_t prepared = clock_now();
    if (rc == 0 && (transfer(sender, err) < 0 || close_session(sender, err) < 0))
        rc = -1;
    note_times(sender, start, prepared);
    sender->result->work_requests = sender->session.writer.work_requests;
    sender->result->gather_entries = sender->session.writer.gather_entries;
    return rc;
}

/* How far a session that broke had got. */
static void tell_progress(const struct sender *sender, struct error *err)
{
    report_progress(err, sender->result->acknowledged, "acknowledged");
    if (sender->job->many)
        error_append(err, "; %zu of %zu objects were committed", sender->result->committed,
                     sender->job->count);
}

static void clean_up(struct sender *sender, const struct error *err)
{
    session_close(&sender->session);
    if (!worker_ends(sender->worker, clock_after(READ_ENDS_NS)))
        sender->job->leave(err);
    worker_stop(sender->worker);
    close_object(sender);
    for (unsigned i = 0; i < WINDOW_MAX_SLOTS; i++)
        loader_release(&sender->tasks[i].load);
    loader_close(&sender->loader);
    memory_free(&sender->memory);
    endpoint_close(&sender->endpoint);
}

int sender_run(const struct sender_job *job, struct sender_result *result, struct error *err)
{
    struct sender *sender = calloc(1, sizeof *sender);
    *result = (struct sender_result){.acknowledged = 0};
    if (!sender)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot begin a session");
    sender->job = job;
    sender->total = PLAN_UNKNOWN;
    sender->target = job->target;
    sender->target.facts = &result->facts;
    sender->result = result;
    int rc = connect_server(sender, err);
    if (rc == 0) {
        rc = run(sender, err);
        if (rc < 0) {
            session_give_up(&sender->session, err);
            tell_progress(sender, err);
        } else {
            rc = count_failures(sender, err);
        }
    }
    clean_up(sender, err);
    free(sender);
    return rc;
}

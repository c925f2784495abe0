#include "config.h"

#include "sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "loader.h"
#include "log.h"
#include "memory.h"
#include "report.h"
#include "session.h"
#include "units.h"
#include "window.h"
#include "worker.h"

#define SLOT_LIMIT 8
#define MOST_WORKS 64

struct sender {
    const struct sender_job *job;
    struct sender_result *result;
    struct endpoint endpoint;
    struct session session;
    struct wire_message ready; /* the slots that were granted */
    struct memory memory;      /* as many buffers as slots are used */
    size_t buffer_size;
    struct window window;
    struct loader loader;
    struct load loads[WINDOW_MAX_SLOTS]; /* one for each slot */
    struct worker *worker;
    bool loaded_all;  /* the last load came back */
    unsigned loading; /* loads at the worker */
};

/* One attempt to connect (client_attempt). */
static int attempt(void *context, struct endpoint *endpoint, int64_t deadline, struct error *err)
{
    static const struct client_greeting greeting = {.role = WIRE_ROLE_WRITE};
    struct sender *sender = context;
    struct endpoint_answer answer;
    struct endpoint_wants wants = session_wants(SLOT_LIMIT, MOST_WORKS + 1);
    if (endpoint_create_queues(endpoint, &wants, NULL, err) == 0 &&
        session_open(&sender->session, endpoint, SLOT_LIMIT, sender->job->target.timeout, err) ==
            0 &&
        client_greet(endpoint, &greeting, deadline, &answer, err) == 0)
        return 0;
    session_close(&sender->session);
    return -1;
}

static int open_object(struct sender *sender, struct error *err)
{
    struct wire_message open = {.type = WIRE_OPEN};
    open.open.size = plan_size(sender->job->plan);
    open.open.slot_limit = SLOT_LIMIT;
    snprintf(open.open.name, sizeof open.open.name, "%s", sender->job->name);
    if (session_send(&sender->session, &open, err) < 0 ||
        session_expect(&sender->session, WIRE_READY, &sender->ready, err) < 0)
        return -1;
    if (sender->ready.ready.slot_count > SLOT_LIMIT)
        return session_unexpected(&sender->session, &sender->ready, err);
    return 0;
}

static int prepare_loads(struct sender *sender, unsigned count, struct error *err)
{
    for (unsigned i = 0; i < count; i++) {
        struct load *load = &sender->loads[i];
        *load = (struct load){.index = i,
                              .buffer = sender->memory.addr + i * sender->buffer_size,
                              .size = sender->buffer_size,
                              .lkey = sender->memory.mr->lkey};
        if (loader_prepare(&sender->loader, load, err) < 0)
            return -1;
    }
    return 0;
}

/* The writes of a load are unsignalled until its message follows: all of them must fit the
 * queue. */
static unsigned most_works(const struct endpoint *endpoint)
{
    unsigned messages = messages_count(SLOT_LIMIT);
    unsigned room = endpoint->send_depth > messages ? endpoint->send_depth - messages : 1;
    return room < MOST_WORKS ? room : MOST_WORKS;
}

/* Memory to read into, one buffer for each slot that will be used, and the thread that reads. */
static int prepare(struct sender *sender, struct error *err)
{
    unsigned count = sender->ready.ready.slot_count;
    sender->buffer_size = sender->ready.ready.slot_size;
    if (memory_register_buffers(&sender->memory, sender->endpoint.id, false, &count,
                                &sender->buffer_size, "reading the segments", err) < 0)
        return -1;
    sender->result->pinned = sender->memory.bytes + sender->session.messages.memory.bytes;
    struct plan_limits limits = {
        .max_sge = sender->endpoint.max_sge,
        .max_bytes = sender->endpoint.max_msg_sz,
        .max_extents = WIRE_MAX_EXTENTS,
    };
    window_init(&sender->window, count);
    if (loader_open(&sender->loader, sender->job->plan, sender->job->source, &limits,
                    most_works(&sender->endpoint), true, err) < 0 ||
        prepare_loads(sender, count, err) < 0)
        return -1;
    sender->worker = worker_start(loader_fill, &sender->loader, count, err);
    char size[UNITS_TEXT];
    log_verbose("%s: device %s, slots %u x %s, max_sge %u", sender->endpoint.peer,
                endpoint_device_name(&sender->endpoint), count,
                units_format_size(sender->buffer_size, size), sender->endpoint.max_sge);
    return sender->worker ? 0 : -1;
}

/* Has every granted slot's buffer filled, while there is something left. */
static void load_more(struct sender *sender)
{
    int slot;
    while (!sender->loaded_all && (slot = window_take(&sender->window)) >= 0) {
        worker_submit(sender->worker, &sender->loads[slot]);
        sender->loading++;
    }
}

/* Writes a filled buffer into its slot and announces it. */
static int send_load(struct sender *sender, struct load *load, struct error *err)
{
    struct wire_message chunk = {.type = WIRE_CHUNK};
    uint64_t slot_addr = sender->ready.ready.remote_addr +
                         (uint64_t)load->index * sender->ready.ready.slot_size;
    for (unsigned i = 0; i < load->work_count; i++) {
        struct loader_work *work = &load->works[i];
        if (session_write(&sender->session, work->entries, work->count, slot_addr + work->at,
                          sender->ready.ready.rkey, err) < 0)
            return -1;
    }
    chunk.chunk.slot = (uint16_t)load->index;
    chunk.chunk.extent_count = (uint16_t)load->extent_count;
    memcpy(chunk.chunk.extents, load->extents, load->extent_count * sizeof load->extents[0]);
    window_sent(&sender->window, load->index, load->bytes);
    sender->result->chunks++;
    return session_send(&sender->session, &chunk, err);
}

static int take_loads(struct sender *sender, struct error *err)
{
    struct load *load;
    while ((load = worker_take(sender->worker)) != NULL) {
        sender->loading--;
        if (error_is_set(&load->error)) {
            *err = load->error;
            return -1;
        }
        sender->loaded_all |= load->last;
        if (load->bytes == 0)
            window_put_back(&sender->window, load->index);
        else if (send_load(sender, load, err) < 0)
            return -1;
    }
    return 0;
}

static int take_grant(struct sender *sender, const struct wire_message *message, struct error *err)
{
    if (message->type != WIRE_GRANT || !window_granted(&sender->window, message->grant.slot))
        return session_unexpected(&sender->session, message, err);
    sender->result->acknowledged = sender->window.acknowledged;
    return 0;
}

static bool all_sent(const struct sender *sender)
{
    return sender->loaded_all && sender->loading == 0;
}

static int transfer(struct sender *sender, struct error *err)
{
    struct wire_message message;
    for (;;) {
        if (take_loads(sender, err) < 0)
            return -1;
        if (all_sent(sender))
            return 0;
        load_more(sender);
        switch (session_next(&sender->session, worker_fd(sender->worker), &message, err)) {
        case SESSION_ERROR:
            return -1;
        case SESSION_MESSAGE:
            if (take_grant(sender, &message, err) < 0)
                return -1;
            break;
        case SESSION_WORKER:
            break;
        }
    }
}

/* Tells the checksum, and waits until the server has committed what it has by its own account. */
static int finish(struct sender *sender, struct error *err)
{
    struct wire_message end = {.type = WIRE_END}, message;
    if (source_verify(sender->job->source, err) < 0)
        return -1;
    digest_value(sender->loader.digest, &end.digest);
    uint64_t size = plan_size(sender->job->plan);
    if (size != PLAN_UNKNOWN && size > end.digest.size)
        end.digest.size = size;
    if (session_send(&sender->session, &end, err) < 0)
        return -1;
    for (;;) {
        if (session_next(&sender->session, -1, &message, err) == SESSION_ERROR)
            return -1;
        if (message.type == WIRE_DONE)
            break;
        if (take_grant(sender, &message, err) < 0)
            return -1;
    }
    sender->result->digest = message.digest;
    if (!digest_equal(&end.digest, &message.digest))
        return error_set(err, ERROR_DATA, STAGE_COMMIT, sender->endpoint.peer,
                         "the server committed something else than was sent: the checksums differ");
    sender->result->acknowledged = message.digest.bytes;
    return 0;
}

static int run(struct sender *sender, struct error *err)
{
    int64_t start = clock_now();
    session_begin(&sender->session);
    int rc = open_object(sender, err) == 0 && prepare(sender, err) == 0 &&
                     transfer(sender, err) == 0 && finish(sender, err) == 0
                 ? 0
                 : -1;
    sender->result->duration_ns = (uint64_t)(clock_now() - start);
    sender->result->work_requests = sender->session.writer.work_requests;
    sender->result->gather_entries = sender->session.writer.gather_entries;
    return rc;
}

static void clean_up(struct sender *sender)
{
    session_close(&sender->session);
    worker_stop(sender->worker);
    for (unsigned i = 0; i < WINDOW_MAX_SLOTS; i++)
        loader_release(&sender->loads[i]);
    loader_close(&sender->loader);
    memory_free(&sender->memory);
    endpoint_close(&sender->endpoint);
}

int sender_run(const struct sender_job *job, struct sender_result *result, struct error *err)
{
    struct sender *sender = calloc(1, sizeof *sender);
    *result = (struct sender_result){.acknowledged = 0};
    if (!sender)
        return error_set(err, ERROR_RESOURCE, STAGE_OPEN, NULL, "out of memory");
    sender->job = job;
    sender->result = result;
    int rc = client_connect(&job->target, attempt, sender, &sender->endpoint, err);
    if (rc == 0) {
        rc = run(sender, err);
        if (rc < 0) {
            session_give_up(&sender->session, err);
            report_progress(err, result->acknowledged, "acknowledged");
        }
    }
    clean_up(sender);
    free(sender);
    return rc;
}

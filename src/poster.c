#include "config.h"

#include "poster.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "completion.h"
#include "loader.h"
#include "log.h"
#include "memory.h"
#include "report.h"
#include "signals.h"
#include "units.h"
#include "wire.h"
#include "worker.h"
#include "writer.h"

#define BUFFER_COUNT 4
#define BUFFER_SIZE ((size_t)1 << 20)
#define MOST_WORKS 128
#define SEND_DEPTH 512
#define INLINE_WANTED 512
/* How long a refused access takes at most to show as a disconnect, where no read can ask. */
#define SETTLE_NS (200 * CLOCK_NS_PER_MS)
#define DISCONNECT_NS (1 * CLOCK_NS_PER_S)
/* How long a read of a file may take once the session has ended. */
#define READ_ENDS_NS (500 * CLOCK_NS_PER_MS)
#define PROBE_NS (2 * CLOCK_NS_PER_S)
#define PROBE_LEAST_NS (250 * CLOCK_NS_PER_MS)

struct poster {
    const struct poster_job *job;
    struct poster_result *result;
    struct endpoint endpoint;
    struct writer writer;
    struct memory memory;
    struct memory probe; /* a byte that the server may read, to see that this host is there */
    unsigned buffer_count;
    size_t buffer_size;
    struct loader loader;
    struct load loads[BUFFER_COUNT];
    uint64_t ends_at[BUFFER_COUNT]; /* work requests posted when a buffer's last one was */
    bool at_worker[BUFFER_COUNT];
    struct worker *worker;
    bool loaded_all;
    bool refused;             /* by the far adapter: what completed may not have arrived */
    uint64_t posted, retired; /* work requests */
    bool read_done;           /* the read that confirms has completed */
    int64_t moved_at;         /* when the last completion came */
};

/* Without a byte to spare the server looks after itself. */
static bool offer_probe(struct poster *poster, struct endpoint *endpoint)
{
    struct error ignored = {.class = ERROR_NONE};
    if (memory_map(&poster->probe, 1, &ignored) == 0 &&
        memory_register_read(&poster->probe, endpoint->pd, "the probe", &ignored) == 0)
        return true;
    memory_free(&poster->probe);
    return false;
}

static int greet(struct poster *poster, struct endpoint *endpoint, int64_t deadline,
                 struct error *err)
{
    struct wire_hello hello = {.version = WIRE_VERSION, .role = WIRE_ROLE_POST};
    struct wire_welcome ignored;
    struct endpoint_answer answer;
    bool with_ticket = poster->job->length > 0;
    if (with_ticket && offer_probe(poster, endpoint)) {
        hello.probe_addr = (uint64_t)(uintptr_t)poster->probe.addr;
        hello.probe_rkey = poster->probe.mr->rkey;
    }
    if (poster->job->token)
        memcpy(hello.token, poster->job->token, WIRE_TOKEN_BYTES);
    return client_greet(endpoint, with_ticket ? &hello : NULL, deadline, &ignored, &answer, err);
}

/* One attempt to connect (client_attempt). */
static int attempt(void *context, struct endpoint *endpoint, int64_t deadline, struct error *err)
{
    struct poster *poster = context;
    struct endpoint_wants wants = {
        .send_depth = SEND_DEPTH,
        .max_inline = poster->job->flags & POSTER_INLINE ? INLINE_WANTED : 0,
    };
    if (endpoint_create_queues(endpoint, &wants, NULL, err) < 0 ||
        writer_init(&poster->writer, endpoint->id, endpoint->peer, endpoint->send_depth,
                    endpoint->max_sge, err) < 0)
        return -1;
    poster->writer.nothing_needs_entry = endpoint_is_iwarp(endpoint);
    if (greet(poster, endpoint, deadline, err) == 0)
        return 0;
    writer_close(&poster->writer);
    endpoint_destroy_queue_pair(endpoint);
    memory_free(&poster->probe);
    return -1;
}

static int find_limits(const struct poster *poster, struct plan_limits *limits, struct error *err)
{
    *limits = (struct plan_limits){
        .max_sge = poster->endpoint.max_sge,
        .max_bytes = poster->endpoint.max_msg_sz,
        .max_extents = 1,
    };
    if (!(poster->job->flags & POSTER_INLINE))
        return 0;
    if (poster->endpoint.max_inline == 0)
        return error_set(err, ERROR_UNAVAILABLE, STAGE_POST, poster->endpoint.peer,
                         "the device takes no inline data");
    limits->max_bytes = poster->endpoint.max_inline;
    return 0;
}

static int prepare_buffers(struct poster *poster, struct error *err)
{
    uint64_t bytes = plan_bytes(poster->job->plan);
    poster->buffer_size = BUFFER_SIZE;
    if (bytes != PLAN_UNKNOWN && bytes < BUFFER_SIZE)
        poster->buffer_size = bytes ? (size_t)bytes : 1;
    poster->buffer_count = BUFFER_COUNT;
    if (bytes <= (BUFFER_COUNT - 1) * (uint64_t)BUFFER_SIZE)
        poster->buffer_count = (unsigned)((bytes + BUFFER_SIZE - 1) / BUFFER_SIZE);
    if (poster->buffer_count == 0)
        poster->buffer_count = 1;
    if (memory_register_buffers(&poster->memory, poster->endpoint.id, false, &poster->buffer_count,
                                &poster->buffer_size, "reading the segments", err) < 0)
        return -1;
    for (unsigned i = 0; i < poster->buffer_count; i++) {
        struct load *load = &poster->loads[i];
        *load = (struct load){.index = i,
                              .buffer = poster->memory.addr + i * poster->buffer_size,
                              .size = poster->buffer_size,
                              .lkey = poster->memory.mr->lkey};
        if (loader_prepare(&poster->loader, load, err) < 0)
            return -1;
    }
    return 0;
}

static int prepare(struct poster *poster, struct error *err)
{
    struct plan_limits limits;
    struct facts *facts = &poster->endpoint.facts;
    if (find_limits(poster, &limits, err) < 0 ||
        loader_open(&poster->loader, poster->job->plan, poster->job->source, &limits, MOST_WORKS,
                    false, err) < 0 ||
        prepare_buffers(poster, err) < 0)
        return -1;
    poster->worker = worker_start(loader_fill, &poster->loader, BUFFER_COUNT, err);
    if (!poster->worker)
        return -1;
    facts->slots = poster->buffer_count;
    facts->slot_size = poster->buffer_size;
    facts->pinned = poster->memory.bytes + poster->probe.bytes;
    report_connection(facts, "buffers");
    return 0;
}

/* How long to ask whether the server still listens: not past the end of a silence that has begun
 * before. */
static uint64_t time_to_ask(const struct poster *poster)
{
    uint64_t left = clock_left(poster->moved_at + (int64_t)poster->job->target.timeout);
    return left < PROBE_LEAST_NS ? PROBE_LEAST_NS : left < PROBE_NS ? left : PROBE_NS;
}

/*
 * A work request failed, or the connection ended. A peer that dies and an adapter that refuses
 * access look alike: the first within moments as a disconnect, too, the second on iWARP only so.
 * If somebody still listens there, the peer did not die.
 */
static int broken(struct poster *poster, const struct ibv_wc *wc, struct error *err)
{
    struct endpoint *endpoint = &poster->endpoint;
    bool iwarp = endpoint_is_iwarp(endpoint);
    bool refused = wc && wc->status == IBV_WC_REM_ACCESS_ERR;
    if (!endpoint_await_end(endpoint, SETTLE_NS) && wc)
        return completion_error(wc, iwarp, endpoint->peer, "an RDMA write", err);
    if ((iwarp || refused) && client_still_listens(endpoint, time_to_ask(poster))) {
        poster->refused = true;
        error_set(err, ERROR_UNAVAILABLE, STAGE_COMPLETION, endpoint->peer,
                  "the far adapter refused access to the memory and ended the connection");
        return error_hint(err, "check the remote address and rkey: outside the region, of another "
                               "device or domain, or stale");
    }
    return endpoint_check(endpoint, err);
}

/* Posting failed: where the connection has ended, that is why. */
static int post_failed(struct poster *poster, struct error *err)
{
    if (!endpoint_await_end(&poster->endpoint, SETTLE_NS))
        return -1;
    error_clear(err);
    return broken(poster, NULL, err);
}

static int silent(const struct poster *poster, struct error *err)
{
    char time[UNITS_TEXT];
    error_set(err, ERROR_TEMPORARY, STAGE_COMPLETION, poster->endpoint.peer,
              "timed out: no completion for %s",
              units_format_time(poster->job->target.timeout, time));
    return error_hint(err, "the far host or its link is down; --timeout sets how long to wait");
}

/* Accounts for one completion. *failed becomes the first one that is no success. */
static void note(struct poster *poster, const struct ibv_wc *wc, struct ibv_wc *failed)
{
    struct writer_request request;
    bool succeeded = wc->status == IBV_WC_SUCCESS;
    if (!writer_retire(&poster->writer, wc->wr_id, succeeded, &request))
        return;
    poster->moved_at = clock_now();
    if (wc->wr_id - poster->job->context == poster->posted) {
        poster->read_done = succeeded;
    } else if (request.is_write && wc->wr_id - poster->job->context < poster->posted) {
        poster->job->completed(request.wr_id, request.bytes, ibv_wc_status_str(wc->status));
        poster->retired = request.wr_id - poster->job->context + 1;
    }
    if (!succeeded && failed->status == IBV_WC_SUCCESS)
        *failed = *wc;
}

/* Takes the completions that have come. Their count, or -1 with *err when one failed or the
 * connection ended. */
static int reap(struct poster *poster, struct error *err)
{
    struct ibv_wc wc, failed = {.status = IBV_WC_SUCCESS};
    struct error ended = {.class = ERROR_NONE};
    int count = 0, n;
    while ((n = completion_poll(&poster->endpoint.queue, &wc, err)) > 0) {
        log_trace("%s: completion, wr_id %" PRIu64 ": %s", poster->endpoint.peer, wc.wr_id,
                  ibv_wc_status_str(wc.status));
        note(poster, &wc, &failed);
        count++;
    }
    if (n < 0)
        return -1;
    if (failed.status != IBV_WC_SUCCESS)
        return broken(poster, &failed, err);
    if (count == 0 && endpoint_check(&poster->endpoint, &ended) < 0)
        return broken(poster, NULL, err);
    return count;
}

/* Whether completions are due, and none came for the timeout. */
static bool is_overdue(const struct poster *poster, bool completions_due)
{
    return completions_due &&
           clock_now() - poster->moved_at >= (int64_t)poster->job->target.timeout;
}

/* Waits for a completion, an event of the connection or, with for_loads, a loaded buffer, at most
 * until the moment. */
static int wait_for_more(struct poster *poster, bool completions_due, bool for_loads,
                         int64_t moment, struct error *err)
{
    struct endpoint *endpoint = &poster->endpoint;
    int64_t overdue = poster->moved_at + (int64_t)poster->job->target.timeout;
    if (completions_due && overdue < moment)
        moment = overdue;
    if (completion_arm(&endpoint->queue, err) < 0)
        return -1;
    int count = reap(poster, err);
    if (count != 0)
        return count < 0 ? -1 : 0;
    struct pollfd fds[] = {{.fd = endpoint_fd(endpoint), .events = POLLIN},
                           {.fd = completion_fd(&endpoint->queue), .events = POLLIN},
                           {.fd = endpoint->stop_fd, .events = POLLIN},
                           {.fd = for_loads ? worker_fd(poster->worker) : -1, .events = POLLIN}};
    int n = poll(fds, 4, completion_poll_ms(moment));
    if (n < 0 && errno != EINTR)
        return error_set_errno(err, ERROR_BUG, STAGE_COMPLETION, NULL, errno, "poll failed");
    if (n > 0 && fds[1].revents)
        completion_drain_events(&endpoint->queue);
    if (n > 0 && fds[2].revents)
        return error_set(err, ERROR_INTERRUPTED, STAGE_COMPLETION, endpoint->peer,
                         "interrupted by a signal");
    if (!is_overdue(poster, completions_due))
        return 0;
    count = reap(poster, err);
    if (count != 0)
        return count < 0 ? -1 : 0;
    return silent(poster, err);
}

/*
 * Whether a work request is to be signalled: as asked, and where its memory will be used again,
 * which only a completion allows; without asking, only the last, which then is the only one in
 * doubt.
 */
static bool is_signalled(const struct poster *poster, const struct load *load, unsigned work)
{
    return (poster->job->flags & POSTER_SIGNALED) || poster->buffer_count > 1 || !load->last ||
           work + 1 == load->work_count;
}

static int send_flags(const struct poster *poster, bool signalled)
{
    unsigned flags = poster->job->flags;
    return (signalled ? IBV_SEND_SIGNALED : 0) | (flags & POSTER_FENCE ? IBV_SEND_FENCE : 0) |
           (flags & POSTER_SOLICITED ? IBV_SEND_SOLICITED : 0) |
           (flags & POSTER_INLINE ? IBV_SEND_INLINE : 0);
}

static int await_room(struct poster *poster, struct error *err)
{
    while (writer_room(&poster->writer) == 0) {
        int count = reap(poster, err);
        if (count < 0 || (count == 0 && wait_for_more(poster, true, false, CLOCK_NEVER, err) < 0))
            return -1;
    }
    return 0;
}

static int post_load(struct poster *poster, struct load *load, struct error *err)
{
    for (unsigned i = 0; i < load->work_count; i++) {
        struct loader_work *work = &load->works[i];
        uint64_t wr_id = poster->job->context + poster->posted;
        uint64_t addr = poster->job->remote_addr + work->dest;
        if (await_room(poster, err) < 0)
            return -1;
        log_trace("%s: RDMA write, wr_id %" PRIu64 ", gather entries %u, bytes %" PRIu64
                  ", to %#" PRIx64 ", rkey %#" PRIx32,
                  poster->endpoint.peer, wr_id, work->count, work->bytes, addr, poster->job->rkey);
        if (writer_write(&poster->writer, wr_id, work->entries, work->count,
                         send_flags(poster, is_signalled(poster, load, i)), addr, poster->job->rkey,
                         err) < 0)
            return post_failed(poster, err);
        if (poster->writer.used == 1)
            poster->moved_at = clock_now();
        poster->posted++;
    }
    poster->ends_at[load->index] = poster->posted;
    return 0;
}

/* Has every buffer filled whose work requests have all completed. */
static void load_more(struct poster *poster)
{
    for (unsigned i = 0; i < poster->buffer_count && !poster->loaded_all; i++) {
        if (poster->at_worker[i] || poster->ends_at[i] > poster->retired)
            continue;
        poster->at_worker[i] = true;
        worker_submit(poster->worker, &poster->loads[i]);
    }
}

static int outside(const char *host, uint64_t end, uint64_t length, struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, STAGE_POST, host,
              "the segments end at byte %" PRIu64 ", outside the region of %" PRIu64 " bytes", end,
              length);
    return error_hint(err, "check the segments' LENGTH and =REMOTE, or serve a larger --region");
}

static int fits_region(const struct poster *poster, const struct load *load, struct error *err)
{
    uint64_t length = poster->job->length;
    for (unsigned i = 0; length > 0 && i < load->work_count; i++)
        if (load->works[i].dest > length || load->works[i].bytes > length - load->works[i].dest)
            return outside(poster->job->target.host, load->works[i].dest + load->works[i].bytes,
                           length, err);
    return 0;
}

static int take_loads(struct poster *poster, struct error *err)
{
    struct load *load;
    while ((load = worker_take(poster->worker)) != NULL) {
        poster->at_worker[load->index] = false;
        if (error_is_set(&load->error)) {
            *err = load->error;
            return -1;
        }
        poster->loaded_all |= load->last;
        if (fits_region(poster, load, err) < 0 || post_load(poster, load, err) < 0)
            return -1;
    }
    return 0;
}

static bool loading(const struct poster *poster)
{
    for (unsigned i = 0; i < poster->buffer_count; i++)
        if (poster->at_worker[i])
            return true;
    return false;
}

static int transfer(struct poster *poster, struct error *err)
{
    /* While there is a load, the plan is the loader's. */
    const uint64_t total = plan_bytes(poster->job->plan);
    for (;;) {
        if (endpoint_heed_stop(&poster->endpoint, STAGE_COMPLETION, err) < 0 ||
            take_loads(poster, err) < 0)
            return -1;
        load_more(poster);
        int64_t moment = poster->job->progressed(poster->writer.bytes_retired, total);
        bool due = poster->writer.used > 0;
        if (poster->loaded_all && !loading(poster) && !due)
            return 0;
        int count = reap(poster, err);
        if (count < 0)
            return -1;
        if (count == 0 && wait_for_more(poster, due, true, moment, err) < 0)
            return -1;
    }
}

/* siw may leave what arrives first on a connection lying until more comes. This is more: no
 * bytes, and no completion, since those of reads and writes may come out of order. */
static int write_nothing(struct poster *poster, struct error *err)
{
    struct ibv_sge nothing = {.length = 0};
    uint64_t wr_id = poster->job->context + poster->posted + 1;
    if (writer_write(&poster->writer, wr_id, &nothing, 1, 0, 0, 0, err) < 0)
        return post_failed(poster, err);
    poster->writer.work_requests--;
    poster->writer.gather_entries--;
    return 0;
}

/* Asks the far adapter whether it has carried out all the writes, or lets a refusal show. */
static int confirm(struct poster *poster, struct error *err)
{
    if (poster->endpoint.initiator_depth == 0) {
        if (endpoint_await_end(&poster->endpoint, SETTLE_NS))
            return broken(poster, NULL, err);
        return 0;
    }
    int64_t nudge_at = endpoint_is_iwarp(&poster->endpoint) ? clock_after(SETTLE_NS) : CLOCK_NEVER;
    poster->moved_at = clock_now();
    if (writer_read_nothing(&poster->writer, poster->job->context + poster->posted, err) < 0)
        return post_failed(poster, err);
    while (!poster->read_done) {
        if (wait_for_more(poster, true, false, nudge_at, err) < 0)
            return -1;
        if (!poster->read_done && clock_now() >= nudge_at) {
            nudge_at = CLOCK_NEVER;
            if (write_nothing(poster, err) < 0)
                return -1;
        }
    }
    poster->result->confirmed = true;
    return 0;
}

static int run(struct poster *poster, struct error *err)
{
    struct facts *facts = &poster->endpoint.facts;
    int64_t start = clock_now();
    poster->moved_at = start;
    int rc = prepare(poster, err);
    int64_t prepared = facts_took(facts, FACTS_REGISTER, start);
    if (rc == 0)
        rc = transfer(poster, err);
    int64_t completed = facts_took(facts, FACTS_TRANSFER, prepared);
    if (rc == 0 && (confirm(poster, err) < 0 || source_verify(poster->job->source, err) < 0))
        rc = -1;
    int64_t end = facts_took(facts, FACTS_COMMIT, completed);
    poster->result->duration_ns = (uint64_t)(end - start);
    poster->result->facts = *facts;
    poster->result->acknowledged = poster->refused ? 0 : poster->writer.bytes_retired;
    poster->result->work_requests = poster->writer.work_requests;
    poster->result->gather_entries = poster->writer.gather_entries;
    return rc;
}

static void clean_up(struct poster *poster, const struct error *err)
{
    endpoint_disconnect(&poster->endpoint, DISCONNECT_NS);
    if (!worker_ends(poster->worker, clock_after(READ_ENDS_NS)))
        poster->job->leave(err);
    worker_stop(poster->worker);
    for (unsigned i = 0; i < BUFFER_COUNT; i++)
        loader_release(&poster->loads[i]);
    loader_close(&poster->loader);
    endpoint_destroy_queue_pair(&poster->endpoint);
    memory_free(&poster->memory);
    memory_free(&poster->probe);
    writer_close(&poster->writer);
    endpoint_close(&poster->endpoint);
}

int poster_run(const struct poster_job *job, struct poster_result *result, struct error *err)
{
    *result = (struct poster_result){.confirmed = false};
    uint64_t size = plan_size(job->plan);
    if (job->length > 0 && size != PLAN_UNKNOWN && size > job->length)
        return outside(job->target.host, size, job->length, err);
    struct poster *poster = calloc(1, sizeof *poster);
    if (!poster)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot begin a session");
    poster->job = job;
    poster->result = result;
    struct client_target target = job->target;
    target.facts = &result->facts;
    int rc = client_connect(&target, attempt, poster, &poster->endpoint, err);
    if (rc == 0 && (rc = run(poster, err)) < 0)
        report_progress(err, result->acknowledged, "acknowledged");
    clean_up(poster, err);
    free(poster);
    return rc;
}

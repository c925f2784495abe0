#include "config.h"

#include "session.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "units.h"

/* How long to wait for DISCONNECTED before an error completion is taken for the cause. */
#define BLAME_NS (200 * CLOCK_NS_PER_MS)
/* RDMA writes under way: more only wait for room. */
#define MOST_WRITES 256
#define FIRST_PING_NS (200 * CLOCK_NS_PER_MS)
#define PING_NS (2 * CLOCK_NS_PER_S)
/* How long telling the peer and disconnecting take at most, where the peer may not be there. */
#define LEAVE_NS (1 * CLOCK_NS_PER_S)

unsigned session_messages(unsigned slots, unsigned objects)
{
    return slots + wire_extra_messages(objects);
}

uint64_t session_memory(unsigned slots, unsigned objects)
{
    return 2 * (uint64_t)session_messages(slots, objects) * WIRE_MESSAGE_BYTES;
}

struct endpoint_wants session_wants(unsigned slots, unsigned objects, unsigned works)
{
    unsigned messages = session_messages(slots, objects);
    unsigned writes = slots * works < MOST_WRITES ? slots * works : MOST_WRITES;
    return (struct endpoint_wants){
        .send_depth = writes + messages,
        .recv_depth = messages,
    };
}

/* Fewer objects at a time where the limit of locked memory is low: a session of several has at
 * least two. Not once a receive is posted, which the queue pair keeps. */
static int open_messages(struct session *session, unsigned slots, struct error *err)
{
    for (;;) {
        struct error attempt = {.class = ERROR_NONE};
        if (messages_open(&session->messages, session->endpoint->id,
                          session_messages(slots, session->objects), &attempt) == 0)
            return 0;
        if (attempt.class != ERROR_RESOURCE || session->objects <= 2 ||
            session->messages.free_count > 0) {
            *err = attempt;
            return -1;
        }
        session->objects /= 2;
    }
}

int session_open(struct session *session, struct endpoint *endpoint, unsigned slots,
                 unsigned objects, uint64_t timeout, struct error *err)
{
    *session = (struct session){
        .endpoint = endpoint, .objects = objects, .timeout = timeout, .leave_by = CLOCK_NEVER};
    if (writer_init(&session->writer, endpoint->id, endpoint->peer, endpoint->send_depth,
                    endpoint->max_sge, err) < 0)
        return -1;
    return open_messages(session, slots, err);
}

void session_begin(struct session *session)
{
    session->heard_at = clock_now();
    session->due_by = CLOCK_NEVER;
}

static void note_failure(struct session *session, const struct ibv_wc *wc)
{
    if (!session->failed ||
        (session->failure.status == IBV_WC_WR_FLUSH_ERR && wc->status != IBV_WC_WR_FLUSH_ERR))
        session->failure = *wc;
    session->failed = true;
}

static void note_sent(struct session *session, const struct ibv_wc *wc)
{
    struct writer_request request;
    bool succeeded = wc->status == IBV_WC_SUCCESS;
    if (writer_retire(&session->writer, wc->wr_id, succeeded, &request) && !request.is_write)
        messages_sent(&session->messages, wc->wr_id);
}

static void note_received(struct session *session, const struct ibv_wc *wc)
{
    unsigned at = (session->received_head + session->received_count) % MESSAGES_MAX;
    assert(session->received_count < MESSAGES_MAX);
    session->received[at] = (struct session_receive){
        .wr_id = wc->wr_id,
        .len = wc->byte_len,
        .is_message = wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM,
    };
    session->received_count++;
    session->heard_at = clock_now();
}

/* Takes all completions there are. Their count, or -1 with *err. */
static int reap(struct session *session, struct error *err)
{
    struct ibv_wc wc;
    int count = 0, n;
    while ((n = completion_poll(&session->endpoint->queue, &wc, err)) > 0) {
        bool is_receive = (wc.wr_id & MESSAGES_WRID_RECV) != 0;
        log_trace("%s: completion of %s, wr_id %#" PRIx64 ": %s", session->endpoint->peer,
                  is_receive ? "receive" : "send", wc.wr_id, ibv_wc_status_str(wc.status));
        if (wc.status != IBV_WC_SUCCESS)
            note_failure(session, &wc);
        else if (is_receive)
            note_received(session, &wc);
        if (!is_receive)
            note_sent(session, &wc);
        count++;
    }
    return n < 0 ? -1 : count;
}

void session_understand(const struct session *session, const struct wire_message *message,
                        struct error *err)
{
    char text[WIRE_MAX_TEXT + 1], hint[WIRE_MAX_TEXT + 1];
    snprintf(text, sizeof text, "%s", message->error.text);
    snprintf(hint, sizeof hint, "%s", message->error.hint);
    error_mask(text);
    error_mask(hint);
    error_set(err, error_class_of_status(message->error.status), STAGE_TRANSFER,
              session->endpoint->peer, "%s: %s",
              message->type == WIRE_FAILED ? "not committed" : "the peer gave up", text);
    if (hint[0])
        error_hint(err, "%s%s", err->class == ERROR_RESOURCE ? "on the peer's host: " : "", hint);
}

static int peer_error(struct session *session, const struct wire_message *message,
                      struct error *err)
{
    session->peer_gave_up = true;
    session_understand(session, message, err);
    return -1;
}

/* Takes a received message off the ring. 1 with *message, 0: none, -1 with *err. */
static int take_message(struct session *session, struct wire_message *message, struct error *err)
{
    if (session->received_count == 0)
        return 0;
    struct session_receive *receive = &session->received[session->received_head];
    session->received_head = (session->received_head + 1) % MESSAGES_MAX;
    session->received_count--;
    session->talking = session->heard = true;
    if (!receive->is_message)
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, session->endpoint->peer,
                         "the peer broke the protocol: immediate data");
    if (messages_received(&session->messages, receive->wr_id, receive->len, session->endpoint->peer,
                          message, err) < 0)
        return -1;
    log_trace("%s: received %s", session->endpoint->peer, wire_type_name(message->type));
    return 1;
}

/* Whether the peer said why, in a message that is still unread. */
static bool find_peer_error(struct session *session, struct error *err)
{
    struct wire_message message;
    struct error ignored = {.class = ERROR_NONE};
    reap(session, &ignored);
    while (take_message(session, &message, &ignored) > 0) {
        if (message.type == WIRE_ERROR) {
            peer_error(session, &message, err);
            return true;
        }
    }
    return false;
}

/* Whether a receive did not take what the peer sent. */
static bool got_misfit(const struct session *session)
{
    enum ibv_wc_status status = session->failure.status;
    return session->failed && (session->failure.wr_id & MESSAGES_WRID_RECV) != 0 &&
           (status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR ||
            status == IBV_WC_REM_INV_REQ_ERR);
}

/* Whether the adapter ended the connection for what the peer did. */
static bool was_violated(struct session *session)
{
    return (!session->failed || session->failure.status == IBV_WC_WR_FLUSH_ERR) &&
           !session->endpoint->removed && endpoint_refused_access(session->endpoint);
}

/*
 * The connection broke, or a completion failed. Which one is the cause shows only after a moment:
 * what the peer said before it left comes first, then its leaving, then the completion.
 */
static int broken(struct session *session, struct error *err)
{
    struct error gone = {.class = ERROR_NONE};
    if (find_peer_error(session, err))
        return -1;
    bool ended = endpoint_await_end(session->endpoint, BLAME_NS);
    if (find_peer_error(session, err))
        return -1;
    if (got_misfit(session))
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, session->endpoint->peer,
                         "the peer broke the protocol: a message larger than any");
    if (was_violated(session))
        return endpoint_access_error(session->endpoint, err);
    if (ended || !session->failed) {
        endpoint_check(session->endpoint, &gone);
        error_set(err, gone.class, gone.stage, gone.subject, "%s", gone.text);
        if (session->endpoint->removed)
            return -1;
        return error_hint(err,
                          "the peer ended without a word: look at its own messages, and try again");
    }
    return completion_error(&session->failure, endpoint_is_iwarp(session->endpoint),
                            session->endpoint->peer, "a work request", err);
}

static int silent(const struct session *session, struct error *err)
{
    char time[UNITS_TEXT];
    error_set(err, ERROR_TEMPORARY, STAGE_TRANSFER, session->endpoint->peer,
              "timed out: no sign of life from the peer for %s",
              units_format_time(session->timeout, time));
    return error_hint(err, "the peer is stopped, or its host or link is down; --timeout sets how "
                           "long to wait");
}

/* Looks for completions for a while, which is sooner than an event tells. Their count, or -1 with
 * *err. */
static int poll_briefly(struct session *session, struct error *err)
{
    int64_t until = clock_after(session->poll_ns);
    int count;
    do
        count = reap(session, err);
    while (count == 0 && clock_now() < until);
    return count;
}

/* Waits until a completion, an event, worker_fd or the moment. -1 with *err; else whether
 * worker_fd is readable. */
static int wait_until(struct session *session, int worker_fd, int64_t moment, struct error *err)
{
    struct endpoint *endpoint = session->endpoint;
    int count = session->poll_ns > 0 ? poll_briefly(session, err) : 0;
    if (count != 0)
        return count < 0 ? -1 : 0;
    if (completion_arm(&endpoint->queue, err) < 0)
        return -1;
    count = reap(session, err);
    if (count != 0)
        return count < 0 ? -1 : 0;
    struct pollfd fds[] = {{.fd = endpoint_fd(endpoint), .events = POLLIN},
                           {.fd = completion_fd(&endpoint->queue), .events = POLLIN},
                           {.fd = endpoint->stop_fd, .events = POLLIN},
                           {.fd = worker_fd, .events = POLLIN}};
    int n = poll(fds, 4, completion_poll_ms(moment));
    if (n < 0 && errno != EINTR)
        return error_set_errno(err, ERROR_BUG, STAGE_TRANSFER, endpoint->peer, errno,
                               "poll failed");
    if (n <= 0)
        return 0;
    if (fds[1].revents)
        completion_drain_events(&endpoint->queue);
    if (fds[2].revents)
        return error_set(err, ERROR_INTERRUPTED, STAGE_TRANSFER, endpoint->peer,
                         "interrupted by a signal");
    return fds[3].revents != 0;
}

static int64_t silence_ends(const struct session *session)
{
    return session->heard_at + (int64_t)session->timeout;
}

/* Whether something can still be sent, without waiting. -1 with *err when the session is over. */
static int check_sending(struct session *session, struct error *err)
{
    struct error ignored = {.class = ERROR_NONE};
    if (reap(session, err) < 0)
        return -1;
    if (session->failed || endpoint_check(session->endpoint, &ignored) < 0)
        return broken(session, err);
    if (clock_now() >= silence_ends(session))
        return silent(session, err);
    return 0;
}

/* As check_sending, but what the peer said before the session ended is heard first. */
static int check(struct session *session, struct error *err)
{
    if (reap(session, err) < 0)
        return -1;
    return session->received_count > 0 ? 0 : check_sending(session, err);
}

/* Posting failed: where the connection has ended, that is why. */
static int post_failed(struct session *session, struct error *err)
{
    if (!endpoint_await_end(session->endpoint, BLAME_NS))
        return -1;
    error_clear(err);
    return broken(session, err);
}

static int send_now(struct session *session, const struct wire_message *message, struct error *err)
{
    log_trace("%s: sending %s, wr_id %#" PRIx64, session->endpoint->peer,
              wire_type_name(message->type), messages_next_wr_id(&session->messages));
    session->talking = true;
    return messages_send(&session->messages, &session->writer, message, err);
}

int session_send(struct session *session, const struct wire_message *message, struct error *err)
{
    while (!messages_can_send(&session->messages, &session->writer)) {
        if (wait_until(session, -1, silence_ends(session), err) < 0 ||
            check_sending(session, err) < 0)
            return -1;
    }
    return send_now(session, message, err) < 0 ? post_failed(session, err) : 0;
}

static uint64_t bytes_of(const struct ibv_sge *entries, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += entries[i].length;
    return bytes;
}

int session_write(struct session *session, struct ibv_sge *entries, unsigned count, int flags,
                  uint64_t remote_addr, uint32_t rkey, struct error *err)
{
    while (writer_room(&session->writer) == 0) {
        if (wait_until(session, -1, silence_ends(session), err) < 0 ||
            check_sending(session, err) < 0)
            return -1;
    }
    log_trace("%s: RDMA write of %" PRIu64 " bytes, gather entries %u, to %#" PRIx64
              ", rkey %#" PRIx32 ", wr_id %#" PRIx64,
              session->endpoint->peer, bytes_of(entries, count), count, remote_addr, rkey,
              (uint64_t)SESSION_WRID_WRITE);
    if (writer_write(&session->writer, SESSION_WRID_WRITE, entries, count, flags, remote_addr, rkey,
                     err) < 0)
        return post_failed(session, err);
    return 0;
}

/* Deals with the messages that every session answers. 1: message is for the caller. */
static int answer(struct session *session, const struct wire_message *message, struct error *err)
{
    static const struct wire_message pong = {.type = WIRE_PONG};
    switch (message->type) {
    case WIRE_PING:
        return session_send(session, &pong, err);
    case WIRE_PONG:
        if (!session->ping_out)
            return session_unexpected(session, message, err);
        session->ping_out = false;
        return 0;
    case WIRE_ERROR:
        return peer_error(session, message, err);
    default:
        return 1;
    }
}

/* How long to hear nothing before asking. */
static int64_t ping_after(const struct session *session)
{
    int64_t most = session->heard ? PING_NS : FIRST_PING_NS;
    int64_t quarter = (int64_t)session->timeout / 4;
    return quarter < most ? quarter : most;
}

/* Sends PING when it is due. The moment of the next thing to do, or -1 with *err. */
static int64_t keep_alive(struct session *session, struct error *err)
{
    static const struct wire_message ping = {.type = WIRE_PING};
    int64_t due = session->heard_at + ping_after(session);
    if (session->ping_out || !session->talking)
        return silence_ends(session);
    if (clock_now() < due)
        return due;
    if (session_send(session, &ping, err) < 0)
        return -1;
    session->ping_out = true;
    return silence_ends(session);
}

static int check_due(const struct session *session, struct error *err)
{
    char time[UNITS_TEXT];
    if (clock_now() < session->due_by)
        return 0;
    return error_set(err, ERROR_TEMPORARY, STAGE_TRANSFER, session->endpoint->peer,
                     "timed out: the peer lives, but did not come to the point within %s",
                     units_format_time(session->timeout, time));
}

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) > 0;
}

enum session_next session_next(struct session *session, int worker_fd, struct wire_message *message,
                               struct error *err)
{
    for (;;) {
        if (endpoint_heed_stop(session->endpoint, STAGE_TRANSFER, err) < 0 ||
            check(session, err) < 0)
            return SESSION_ERROR;
        int got = take_message(session, message, err);
        if (got < 0)
            return SESSION_ERROR;
        if (got > 0) {
            int mine = answer(session, message, err);
            if (mine < 0)
                return SESSION_ERROR;
            if (mine > 0)
                return SESSION_MESSAGE;
            if (check_due(session, err) < 0)
                return SESSION_ERROR;
            if (is_readable(worker_fd))
                return SESSION_WORKER;
            continue;
        }
        int64_t moment = keep_alive(session, err);
        if (moment < 0 || check_due(session, err) < 0)
            return SESSION_ERROR;
        if (session->due_by < moment)
            moment = session->due_by;
        if (session->wake_at > 0 && session->wake_at < moment)
            moment = session->wake_at;
        int worker = wait_until(session, worker_fd, moment, err);
        if (worker < 0)
            return SESSION_ERROR;
        if (worker > 0 || (session->wake_at > 0 && clock_now() >= session->wake_at))
            return SESSION_WORKER;
    }
}

int session_unexpected(const struct session *session, const struct wire_message *message,
                       struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, session->endpoint->peer,
                     "the peer broke the protocol: %s out of order", wire_type_name(message->type));
}

int session_await(struct session *session, struct wire_message *message, struct error *err)
{
    session->due_by = clock_after(session->timeout);
    enum session_next next = session_next(session, -1, message, err);
    session->due_by = CLOCK_NEVER;
    return next == SESSION_ERROR ? -1 : 0;
}

/* stop_fd: ends the wait when readable; negative: none does. */
static void await_sends(struct session *session, int64_t deadline, int stop_fd)
{
    struct error ignored = {.class = ERROR_NONE};
    while (session->writer.used > 0 && !session->failed && clock_now() < deadline) {
        struct pollfd fds[] = {{.fd = completion_fd(&session->endpoint->queue), .events = POLLIN},
                               {.fd = stop_fd, .events = POLLIN}};
        if (completion_arm(&session->endpoint->queue, &ignored) < 0)
            return;
        int count = reap(session, &ignored);
        if (count < 0 || endpoint_check(session->endpoint, &ignored) < 0)
            return;
        if (count > 0 || poll(fds, 2, completion_poll_ms(deadline)) <= 0)
            continue;
        if (fds[1].revents)
            return;
        completion_drain_events(&session->endpoint->queue);
    }
}

void session_describe(const struct session *session, const struct error *reason,
                      struct wire_message *message)
{
    bool interrupted = reason->class == ERROR_INTERRUPTED;
    bool about_file = reason->subject[0] && strcmp(reason->subject, session->endpoint->peer) != 0;
    message->error.status = (uint8_t)error_exit_status(interrupted ? ERROR_TEMPORARY
                                                                   : reason->class);
    snprintf(message->error.text, sizeof message->error.text, "%.*s%s%.*s", WIRE_MAX_TEXT / 4,
             about_file ? reason->subject : "", about_file ? ": " : "", WIRE_MAX_TEXT / 2,
             reason->text);
    snprintf(message->error.hint, sizeof message->error.hint, "%s", reason->hint);
}

void session_blame_others(struct error *err)
{
    struct error cause = *err;
    if (cause.class != ERROR_RESOURCE)
        return;
    error_clear(err);
    error_set(err, ERROR_TEMPORARY, cause.stage, cause.subject, "busy with other sessions: %s",
              cause.text);
    error_hint(err, "try again when one has ended, or have --retry do so");
}

void session_give_up(struct session *session, const struct error *reason)
{
    struct wire_message message = {.type = WIRE_ERROR};
    struct error ignored = {.class = ERROR_NONE};
    if (!session->endpoint || !session->endpoint->connected || session->peer_gave_up ||
        session->failed || session->endpoint->gone)
        return;
    session->leave_by = clock_after(LEAVE_NS);
    reap(session, &ignored);
    if (!messages_can_send(&session->messages, &session->writer))
        return;
    session_describe(session, reason, &message);
    if (send_now(session, &message, &ignored) == 0)
        await_sends(session, session->leave_by, -1);
}

void session_flush(struct session *session)
{
    await_sends(session, clock_after(session->timeout), session->endpoint->stop_fd);
}

void session_linger(struct session *session)
{
    int64_t deadline = clock_after(session->timeout);
    await_sends(session, deadline, session->endpoint->stop_fd);
    endpoint_await_end(session->endpoint, clock_left(deadline));
}

void session_close(struct session *session)
{
    if (!session->endpoint)
        return;
    if (session->leave_by == CLOCK_NEVER)
        session->leave_by = clock_after(LEAVE_NS);
    endpoint_disconnect(session->endpoint, clock_left(session->leave_by));
    endpoint_destroy_queue_pair(session->endpoint);
    messages_close(&session->messages);
    writer_close(&session->writer);
    *session = (struct session){.endpoint = NULL};
}

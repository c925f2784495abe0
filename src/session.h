/*
 * session.h - what both ends of a session of messages share: messages in and out, signs of life,
 * deadlines, and the way a session fails.
 *
 * A peer is alive while messages of the protocol come from it: transport keepalives do not see a
 * frozen process. A side that has heard nothing for a while sends PING, and gives up when the
 * timeout has passed in silence. The first PING comes soon: siw may leave the first message of a
 * connection lying until the next one comes, when it arrives just as the server's side of the
 * connection is made.
 */
#ifndef RDMAPUT_SESSION_H
#define RDMAPUT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint.h"
#include "error.h"
#include "messages.h"
#include "wire.h"
#include "writer.h"

/* The wr_id of RDMA writes in a session: below the kinds of messages.h. */
#define SESSION_WRID_WRITE 0

/* For poll_ns, where a round trip is to take no longer than it must. */
#define SESSION_POLL_NS (50 * UINT64_C(1000))

struct session_receive {
    uint64_t wr_id;
    uint32_t len;
    bool is_message; /* else an RDMA write with immediate data, which left nothing in the buffer */
};

struct session {
    struct endpoint *endpoint; /* not owned */
    unsigned objects;          /* how many may be without a DONE at a time (wire.h) */
    struct messages messages;
    struct writer writer;
    uint64_t timeout;  /* ns */
    uint64_t poll_ns;  /* how long to look for completions before sleeping; 0: not at all */
    int64_t due_by;    /* clock.h: when a message must have come that is due; CLOCK_NEVER */
    int64_t heard_at;  /* clock.h: when the last message came */
    int64_t wake_at;   /* clock.h: when session_next returns at the latest; 0: not for the time */
    int64_t leave_by;  /* clock.h: when the connection is to be left; CLOCK_NEVER: it is not */
    bool talking;      /* a message went either way: before, only the client may speak (iWARP) */
    bool heard;        /* something came from the peer */
    bool ping_out;     /* a PING of ours is unanswered */
    bool peer_gave_up; /* an ERROR came: nothing is to be sent any more */
    bool failed;       /* a completion failed: failure is the first that was not a flush */
    struct ibv_wc failure;
    struct session_receive received[MESSAGES_MAX]; /* a ring: completed, not looked at yet */
    unsigned received_head, received_count;
};

/* How many messages may be under way in a session with that many slots and objects. */
unsigned session_messages(unsigned slots, unsigned objects);

/* The pinned memory of these messages, in bytes. */
uint64_t session_memory(unsigned slots, unsigned objects);

/* Queue entries for such a session, each slot filled by at most works work requests. */
struct endpoint_wants session_wants(unsigned slots, unsigned objects, unsigned works);

/* After endpoint_create_queues, before connecting or accepting: registers messages, posts
 * receives. objects is 1, or at most WIRE_MAX_OBJECTS for a session of several; session->objects
 * becomes fewer where the limit of locked memory allows no more. */
int session_open(struct session *session, struct endpoint *endpoint, unsigned slots,
                 unsigned objects, uint64_t timeout, struct error *err);

/* The connection stands: silence counts from now. */
void session_begin(struct session *session);

enum session_next {
    SESSION_ERROR = -1,
    SESSION_MESSAGE,
    SESSION_WORKER
};

/*
 * Waits for the next thing to do: a message (in *message; PING, PONG and ERROR are dealt with
 * here), or worker_fd (negative: none) is readable; SESSION_WORKER at session->wake_at, too. Messages that have come go first, but no flood
 * of PINGs keeps a caller from its worker, or from a deadline. SESSION_ERROR with *err when the
 * session is over: the peer gave up, went away, kept silent for the timeout, or a signal came.
 */
enum session_next session_next(struct session *session, int worker_fd, struct wire_message *message,
                               struct error *err);

/* As session_next for a time when a message is due: it has to come within the timeout, whatever
 * signs of life there are. */
int session_await(struct session *session, struct wire_message *message, struct error *err);

/* Sends a message, waiting for room where it must. */
int session_send(struct session *session, const struct wire_message *message, struct error *err);

/* Posts an unsignalled RDMA write, waiting for room. A message must follow it (which is
 * signalled). flags: 0 or IBV_SEND_INLINE. */
int session_write(struct session *session, struct ibv_sge *entries, unsigned count, int flags,
                  uint64_t remote_addr, uint32_t rkey, struct error *err);

/* The error of a message that has no place here. Always -1. */
int session_unexpected(const struct session *session, const struct wire_message *message,
                       struct error *err);

/* Fills in status, text and hint of an ERROR or FAILED. */
void session_describe(const struct session *session, const struct error *reason,
                      struct wire_message *message);

/* The error that an ERROR or FAILED of the peer tells of. */
void session_understand(const struct session *session, const struct wire_message *message,
                        struct error *err);

/* Tells the peer why this side gives up, if it can still be told: within a second, and
 * session_close has only the rest of that second then. */
void session_give_up(struct session *session, const struct error *reason);

/* Where something has run out here (ERROR_RESOURCE) and others are served, they have it: *err becomes
 * ERROR_TEMPORARY and says so. */
void session_blame_others(struct error *err);

/* Waits, within the timeout, until all that was posted has completed: disconnecting would take back
 * what is still under way. */
void session_flush(struct session *session);

/* As session_flush, and until the peer has disconnected: within the timeout in all. */
void session_linger(struct session *session);

/* Disconnects, destroys the queue pair, frees messages and accounts; the caller then frees
 * memory of its own and closes the endpoint. Fine when zeroed. */
void session_close(struct session *session);

#endif

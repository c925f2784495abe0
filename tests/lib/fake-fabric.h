/*
 * fake-fabric.h - a library to preload: RDMA between the processes of one host, without a device.
 *
 * fake-fabric.so stands in for librdmacm and libibverbs, as far as rdmaput and the helpers of its
 * tests use them, in every process that it is preloaded into. Every address of this host, 127.0.0.1
 * too, has the one device, fake0.
 *
 * FAKE_FABRIC_KIND    roce (the default), or iwarp: what the device says of itself, what private data
 *                     looks like, and how a connection is rejected
 * FAKE_FABRIC_REPORT  a file: at its end each process that used the fabric appends one line, "PID:"
 *                     and what it has not destroyed, "nothing" if all
 * FAKE_FABRIC_MAX_MSG, FAKE_FABRIC_MAX_INLINE
 *                     bytes in one work request (8 MiB), and of inline data (512), at most
 * FAKE_FABRIC_FLIP    LENGTH:PLACE: of each RDMA write of LENGTH bytes that comes in, a bit of the byte PLACE
 *                     from its start on is flipped, if that is registered: before the first byte or behind
 *                     the last one, too
 *
 * What it does as adapters do: a connection is reliable and in order. Memory is registered for a
 * domain; keys, bounds, domains and rights are checked by the process that owns the memory, at every
 * piece that is read or written, and memory that work requests name is read or written between
 * posting and completion. RDMA writes, reads and messages take effect without the program's
 * help, and complete once the far end has acknowledged them. Who disconnects takes back what is
 * under way. After DISCONNECTED nothing completes any more until the program disconnects, too.
 * A process that dies disconnects. An unsignalled request leaves the send queue when a later
 * completion is polled. Limits of entries, queues and private data are enforced.
 *
 * What it does otherwise: a stopped process answers nothing, as its adapter is a thread of its own. A
 * message without a posted receive fails at once, without retries. No atomics, no immediate data,
 * no shared receive queues, no events of the device, no limit of locked memory. With iwarp, too, a
 * refused access is told to the one who asked. Misuse that would hang or corrupt a real program
 * (events not acknowledged, an id without its channel) aborts.
 *
 * A connection is a stream socket; listening is an abstract AF_UNIX name with address and port. A thread
 * in each process carries out what comes (fake-fabric-link.c). One lock guards all.
 */
#ifndef FAKE_FABRIC_H
#define FAKE_FABRIC_H

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "fake-memory.h"

#define FAKE_MOST_ENTRIES 32
#define FAKE_MOST_INLINE 512
#define FAKE_MOST_PRIVATE 196

/* A descriptor that is readable while something waits to be taken. */
struct fake_bell {
    int fd;
    bool rung;
};

/* What is counted, and reported when it is left. */
enum fake_kind {
    FAKE_CHANNEL,
    FAKE_ID,
    FAKE_QUEUE_PAIR,
    FAKE_DOMAIN,
    FAKE_COMPLETION_CHANNEL,
    FAKE_COMPLETION_QUEUE,
    FAKE_CONTEXT,
    FAKE_DEVICE_LIST,
    FAKE_KINDS,
};

struct fake_event {
    struct rdma_cm_event event;
    struct fake_event *next;
    uint8_t private_data[FAKE_MOST_PRIVATE];
};

struct fake_channel {
    struct rdma_event_channel channel; /* its fd is the bell's */
    struct fake_bell bell;
    struct fake_event *events;
    unsigned ids;
};

/* On the socket: a frame, and length bytes after it. */
enum fake_frame_kind {
    FRAME_REQUEST, /* struct fake_request; so are the next two */
    FRAME_REPLY,
    FRAME_REJECTION,
    FRAME_ESTABLISHED,
    FRAME_SEND,
    FRAME_WRITE,
    FRAME_READ, /* length is what is to be read: no bytes follow */
    FRAME_DATA, /* what was read */
    FRAME_ACK,
};

struct fake_frame {
    uint8_t kind;
    uint8_t status; /* of an ACK: enum ibv_wc_status */
    uint32_t rkey;
    uint64_t remote_addr;
    uint64_t length;
};

struct fake_request {
    struct sockaddr_storage source, destination;
    uint8_t responder_resources, initiator_depth, private_len;
    uint8_t private_data[FAKE_MOST_PRIVATE];
};

/* A posted work request: a receive, or one that is sent. */
struct fake_work {
    struct fake_work *next;
    struct ibv_wc done; /* wr_id, opcode and byte_len of its completion */
    bool signalled;
    int access; /* that its entries need; -1: inline */
    uint64_t length;
    unsigned count;
    struct ibv_sge entries[FAKE_MOST_ENTRIES];
    uint8_t bytes[]; /* inline data */
};

/* What is to be sent. The bytes after the frame: of a work request, of memory that the peer
 * reads, or its own. */
struct fake_packet {
    struct fake_packet *next;
    struct fake_frame frame;
    size_t sent;
    struct fake_work *work;
    bool is_read;
    uint8_t bytes[];
};

struct fake_queue {
    struct fake_work *first, **last;
};

struct fake_qp {
    struct ibv_qp qp;
    struct ibv_qp_cap cap;
    struct fake_id *id;    /* NULL once it is destroyed */
    struct ibv_cq *own_cq; /* when it was created without one */
    struct fake_queue sends, receives;
    unsigned send_used, receive_used;
    unsigned finished; /* sends that no completion has told of */
};

enum fake_state {
    STATE_IDLE,
    STATE_LISTENING,
    STATE_ACCEPTED_SOCKET, /* no request has come yet: nobody knows of it */
    STATE_REQUESTED,
    STATE_CONNECTING,
    STATE_REPLIED,
    STATE_ESTABLISHED,
    STATE_DISCONNECTING,
    STATE_ENDED,
};

struct fake_id {
    struct rdma_cm_id id;
    struct fake_id *next;
    uint64_t serial;
    enum fake_state state;
    bool known; /* to the program */
    unsigned unacknowledged;
    uint64_t listener; /* serial of the one whose socket took it */
    uint8_t initiator_depth;
    /* The link. */
    int fd;          /* -1: none */
    bool ended;      /* nothing comes any more */
    bool mute;       /* nothing goes any more */
    bool wants_room; /* the socket is full */
    struct fake_packet *packets, **last_packet;
    struct fake_frame frame; /* that is coming in */
    size_t frame_got, got;   /* bytes of it, and after it */
    enum {
        INTO_NOWHERE,
        INTO_REQUEST,
        INTO_MEMORY,
        INTO_RECEIVE,
        INTO_READ
    } into;
    struct fake_request request;
};

extern pthread_mutex_t fake_lock;
extern struct fake_memory fake_memory;
extern struct fake_id *fake_ids;

/* Aborts with a message: the program did what would hang or corrupt it with a real library. */
_Noreturn void fake_abort(const char *what);

bool fake_is_iwarp(void);

/* What a variable says, or else otherwise. */
uint64_t fake_number(const char *variable, uint64_t otherwise);

/* Accounts for an object that was made (1) or destroyed (-1). */
void fake_count(enum fake_kind kind, int change);

int fake_bell_open(struct fake_bell *bell);
void fake_bell_close(struct fake_bell *bell);
void fake_bell_set(struct fake_bell *bell, bool ring);

/* After an empty look: waits for the bell as its descriptor says. -1 with errno. Without the
 * lock. */
int fake_bell_wait(const struct fake_bell *bell);

/* ---- the link: with the lock ---------------------------------------------------------------- */

/* The context that ids have; NULL with errno. */
struct ibv_context *fake_shared_context(void);

/* Has the thread look after the id's socket. -1 with errno. */
int fake_link_watch(struct fake_id *id);

/* Queues a frame with bytes, or with those of a work request. -1 with errno. */
int fake_link_send(struct fake_id *id, const struct fake_frame *frame, const void *bytes,
                   struct fake_work *work);

/* Drops what is still to be sent. */
void fake_link_silence(struct fake_id *id);

/* No more comes or goes. */
void fake_link_close(struct fake_id *id);

/* ---- the connection manager: with the lock ---------------------------------------------------- */

struct fake_id *fake_id_new(struct rdma_event_channel *channel, void *context);
void fake_id_free(struct fake_id *id);
struct fake_id *fake_id_find(uint64_t serial);

/* What came over the link. The first may free the id: it tells whether it did not. */
bool fake_cm_ended(struct fake_id *id);
void fake_cm_frame(struct fake_id *id);
void fake_cm_accept(struct fake_id *listener);

/* ---- queue pairs: with the lock ----------------------------------------------------------- */

struct fake_qp *fake_qp_of(const struct fake_id *id);

/* NULL with errno. */
struct fake_qp *fake_qp_new(struct fake_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void fake_qp_free(struct fake_qp *qp);

/* The first of a queue, taken off; NULL: none. */
struct fake_work *fake_qp_take(struct fake_queue *queue);

/* Completes a work request that was taken off its queue, and frees it. */
void fake_qp_complete(struct fake_qp *qp, struct fake_work *work, enum ibv_wc_status status);

/* Into the error state: all that is queued completes as flushed, and is not sent any more. */
void fake_qp_fail(struct fake_qp *qp);

#endif

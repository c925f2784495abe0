/*
 * link.h - one connection of the hostile peer, on librdmacm alone. Every wait has a deadline, in
 * milliseconds of link_now.
 */
#ifndef HOSTILE_LINK_H
#define HOSTILE_LINK_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_RECEIVES 48
#define LINK_RECEIVE_BYTES 2048
#define LINK_SENDS 16
#define LINK_SEND_BYTES 4096
#define LINK_PRIVATE_BYTES 256
#define LINK_NAME_BYTES 80

struct link {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    bool owns_pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *memory; /* receives, sends, data */
    uint8_t *data;   /* what RDMA writes come from, or go to */
    size_t data_bytes;
    unsigned sends, under_way;        /* posted in all, not completed yet */
    unsigned received[LINK_RECEIVES]; /* a ring of buffers that came, with their lengths */
    uint32_t lengths[LINK_RECEIVES];
    unsigned received_head, received_count;
    bool connected;
    bool ended;                       /* by the other side, or by a failure that an event told */
    enum ibv_wc_status failure;       /* of the first work request that did not succeed */
    uint8_t said[LINK_PRIVATE_BYTES]; /* private data of the other side */
    unsigned said_bytes;
};

struct link_listener {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    uint16_t port;
    /* What is exposed to all that connect, if anything is. */
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    uint8_t *exposed;
};

enum link_answer {
    LINK_ACCEPTED,
    LINK_REFUSED, /* by the program at the far end; said holds what it said */
    LINK_FAILED,
};

enum link_news {
    LINK_MESSAGE,
    LINK_ENDED,
    LINK_SILENCE, /* the deadline came first */
};

int64_t link_now(void);

/* -1 when the system has not what it takes; says so. */
int link_resolve(struct link *link, const struct sockaddr *dest, int64_t deadline);

/* Queues, and memory with data_bytes besides the messages'; posts that many receives. */
int link_prepare(struct link *link, unsigned receives, size_t data_bytes);

/* Asks for the connection, without waiting. */
int link_ask(struct link *link, const void *said, size_t len);
enum link_answer link_await_answer(struct link *link, int64_t deadline);

int link_listen(struct link_listener *listener, const struct sockaddr *addr);
/* Exposes memory of that size to those that will connect. */
int link_expose(struct link_listener *listener, size_t bytes);
void link_close_listener(struct link_listener *listener);

/* The next connect request, whose private data is in said. */
int link_await_request(struct link_listener *listener, struct link *link, int64_t deadline);
int link_accept(struct link *link, const void *said, size_t len, int64_t deadline);
int link_reject(struct link *link, const void *said, size_t len);

/* Copies and posts. -1 when the connection takes no more, or the deadline came. */
int link_send(struct link *link, const void *bytes, size_t len, int64_t deadline);
int link_write(struct link *link, const uint8_t *from, size_t len, uint64_t remote_addr,
               uint32_t rkey, int64_t deadline);

/* The next message, of which at most size bytes are copied to bytes; *len is what came. */
enum link_news link_next(struct link *link, void *bytes, size_t size, size_t *len,
                         int64_t deadline);

/* Waits for all that was posted, or a failure. Whether all has succeeded. */
bool link_settle(struct link *link, int64_t deadline);

/* Waits for the end of the connection. Whether it came. */
bool link_await_end(struct link *link, int64_t deadline);

bool link_is_iwarp(const struct link *link);

/* "ADDR:PORT" of this side, as the other one sees it. */
char *link_name(const struct link *link, char name[LINK_NAME_BYTES]);

/* Leaves in good order; link_close without it is a process that dies. Fine when zeroed. */
void link_disconnect(struct link *link);
void link_close(struct link *link);

#endif

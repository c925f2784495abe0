/*
 * endpoint.h - one connection: its id on an event channel of its own, domain, queue pair and
 * completion queue; connecting, accepting and ending, each with a deadline.
 *
 * Every wait ends on the connection's events, at its deadline (clock.h) and when stop_fd becomes
 * readable (ERROR_INTERRUPTED). librdmacm's synchronous mode has none of these.
 */
#ifndef RDMAPUT_ENDPOINT_H
#define RDMAPUT_ENDPOINT_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "address.h"
#include "completion.h"
#include "error.h"
#include "facts.h"

#define ENDPOINT_PRIVATE_BYTES 256
/* How many ports of this host are tried, where TCP connections may have them. */
#define ENDPOINT_PORT_TRIES 32

struct endpoint {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    bool owns_pd;
    bool adopted; /* the peer asked for the connection */
    bool bound;   /* the address that it goes from was chosen, and so the device */
    struct completion_queue queue;
    int stop_fd;      /* not owned */
    uint64_t timeout; /* ns: the transport's own retries are made to fit into it */
    char peer[ADDRESS_TEXT];
    bool
        port_taken; /* the port that the kernel chose here is another connection's: see endpoint_connect */
    bool asked;    /* the request to connect is on its way; on siw, the far host takes it */
    bool answered; /* this side, or the program at the far end, has accepted or refused */
    bool connected;
    bool gone;                  /* DISCONNECTED, or an event that ends the connection, was seen */
    bool removed;               /* gone because this host's device is */
    atomic_bool access_refused; /* an event of the device said so, perhaps to another thread */
    unsigned send_depth, max_sge, max_inline; /* of the queue pair */
    uint64_t max_msg_sz;                      /* bytes in one work request */
    unsigned initiator_depth;                 /* RDMA reads that may be under way from here */
    unsigned responder_resources;             /* and from the peer */
    struct facts facts; /* as far as it has come; slots and pinned are the sessions' to fill in */
};

/* What a queue pair is to have; the device's limits cut it down. */
struct endpoint_wants {
    unsigned send_depth; /* work requests under way */
    unsigned recv_depth; /* receives posted */
    unsigned max_sge;    /* gather entries, 0: as many as the device has */
    unsigned max_inline; /* bytes; stepped down until the device takes it */
};

/* What the other side said when it accepted or refused. */
struct endpoint_answer {
    bool refused; /* by the application at the far end; its private data may say why */
    uint8_t data[ENDPOINT_PRIVATE_BYTES];
    unsigned len;
};

/* A fresh endpoint that a client resolves. 0, or -1 with *err: also for a host without RDMA. */
int endpoint_open(struct endpoint *endpoint, uint64_t timeout, int stop_fd, struct error *err);

/* Has packets carry that type of service, or traffic class, from resolving on: before that. 0, or -1 with
 * *err. */
int endpoint_set_tos(struct endpoint *endpoint, uint8_t tos, struct error *err);

/* Binds to src (NULL: any) and resolves address and route to dest: chooses the device. */
int endpoint_resolve(struct endpoint *endpoint, const struct sockaddr *src,
                     const struct sockaddr *dest, int64_t deadline, struct error *err);

/* Takes over the id of a connect request, whose event was acknowledged, with the parameters
 * that the event had. The id belongs to the endpoint even on failure. */
int endpoint_adopt(struct endpoint *endpoint, struct rdma_cm_id *id,
                   const struct rdma_conn_param *offered, uint64_t timeout, int stop_fd,
                   struct error *err);

/* Makes domain (its own; or pd, not owned), completion queue and queue pair, and has the device's
 * events come without waiting. After resolving or adopting. */
int endpoint_create_queues(struct endpoint *endpoint, const struct endpoint_wants *wants,
                           struct ibv_pd *pd, struct error *err);

/*
 * Connects with private data of len bytes (NULL: none). 0 with *answer when accepted; -1 with *err
 * otherwise, and answer->refused set when the far application refused, with what it said in
 * answer->data (then *err says only that it refused). rdma_cm chooses this side's port from a list of its
 * own; on iWARP it may be that of a TCP connection, and then endpoint->port_taken is set: a fresh
 * endpoint gets another one.
 */
int endpoint_connect(struct endpoint *endpoint, const void *data, unsigned len, int64_t deadline,
                     struct endpoint_answer *answer, struct error *err);

/* Accepts with private data (NULL: none), and waits until the connection stands. */
int endpoint_accept(struct endpoint *endpoint, const void *data, unsigned len, int64_t deadline,
                    struct error *err);

/* Refuses with private data. For an adopted endpoint that was not accepted. */
void endpoint_refuse(struct endpoint *endpoint, const void *data, unsigned len);

/* Whether the connection's device is one for iWARP; else InfiniBand or RoCE. */
bool endpoint_is_iwarp(const struct endpoint *endpoint);

/* -1 with *err (ERROR_INTERRUPTED) once stop_fd is readable. For loops that may never wait. */
int endpoint_heed_stop(const struct endpoint *endpoint, enum error_stage stage, struct error *err);

/* The descriptor that becomes readable for an event of the connection. */
int endpoint_fd(const struct endpoint *endpoint);

/* Takes the events that have come, without waiting. 0 while the connection stands; -1 with *err
 * once it ended (endpoint->gone), ERROR_TEMPORARY unless the device went away. */
int endpoint_check(struct endpoint *endpoint, struct error *err);

/* Waits at most ns for the end of the connection, or until stop_fd is readable. Whether it
 * ended. */
bool endpoint_await_end(struct endpoint *endpoint, uint64_t ns);

/* Whether the adapter refused an access of the peer's to memory of this side, and so ended the
 * connection. Where it does not tell, false. To be asked before disconnecting. */
bool endpoint_refused_access(struct endpoint *endpoint);

/* The error of that. Always -1. */
int endpoint_access_error(const struct endpoint *endpoint, struct error *err);

/* Disconnects, if connected, and waits at most ns until the far end has confirmed it. */
void endpoint_disconnect(struct endpoint *endpoint, uint64_t ns);

/* Destroys the queue pair; memory that was registered in the endpoint's own domain must be freed
 * between this and endpoint_close. */
void endpoint_destroy_queue_pair(struct endpoint *endpoint);

/* Destroys all that is left. Fine when zeroed. */
void endpoint_close(struct endpoint *endpoint);

/* How long the transport's ACK timeout may be, as the exponent of rdma_set_option(3)'s
 * RDMA_OPTION_ID_ACK_TIMEOUT, for the retries to end within timeout ns. */
uint8_t endpoint_ack_timeout(uint64_t timeout);

/* How often a message for which the peer has no receive is tried again, for that to end within
 * timeout ns; at least once. */
uint8_t endpoint_rnr_retries(uint64_t timeout);

/* Makes an event channel non-blocking. NULL with *err. */
struct rdma_event_channel *endpoint_open_channel(struct error *err);

#endif

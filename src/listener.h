/*
 * listener.h - listens for connections on one address, or on all of this host.
 */
#ifndef RDMAPUT_LISTENER_H
#define RDMAPUT_LISTENER_H

#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <sys/socket.h>

#include "error.h"

struct listener {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *ids[2]; /* one for IPv4, one for IPv6, or one for a bound address */
    struct sockaddr_storage addr;
    uint16_t port;
};

/* Listens on addr (NULL: all addresses) and port (0: any free one). 0, or -1 with *err (69): no
 * such address, no device for it, the port is in use. */
int listener_open(struct listener *listener, const struct sockaddr *addr, uint16_t port,
                  struct error *err);

/* No more connections. Fine when zeroed. */
void listener_close(struct listener *listener);

/* The next connect request, without waiting: 1 with *event, which the caller acknowledges; 0:
 * none; -1 with *err when the device that the listener is bound to is gone. */
int listener_next(struct listener *listener, struct rdma_cm_event **event, struct error *err);

int listener_fd(const struct listener *listener);

#endif

#include "config.h"

#include "listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "device.h"
#include "endpoint.h"

#define BACKLOG 64

static int bind_error(const struct sockaddr *sa, int errnum, struct error *err)
{
    char text[ADDRESS_TEXT];
    address_format(sa, text);
    switch (errnum) {
    case ENODEV:
        error_set(err, ERROR_UNAVAILABLE, STAGE_LISTEN, text,
                  "cannot listen: no RDMA device has that address");
        return error_hint(err, "'rdmaput devices' lists the addresses that do");
    case EADDRNOTAVAIL:
        error_set_errno(err, ERROR_UNAVAILABLE, STAGE_LISTEN, text, errnum, "cannot listen");
        if (address_port(sa) == 0)
            return error_hint(err, "the address is not of this host: see 'rdmaput devices'");
        /* rdma_cm says so of a port that is in use, too. */
        return error_hint(err, "the address is not of this host (see 'rdmaput devices'), or the "
                               "port is in use (--port 0 takes a free one)");
    case EADDRINUSE:
        error_set_errno(err, ERROR_UNAVAILABLE, STAGE_LISTEN, text, errnum, "cannot listen");
        return error_hint(err, "the port is in use; --port 0 takes a free one");
    default:
        return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_LISTEN, text, errnum, "cannot listen");
    }
}

/* One try of listen_on. */
static struct rdma_cm_id *try_listening(struct listener *listener, struct sockaddr *sa,
                                        struct error *err)
{
    struct rdma_cm_id *id;
    int only_one_family = 1;
    if (rdma_create_id(listener->channel, &id, NULL, RDMA_PS_TCP) < 0) {
        device_missing_error(err, errno);
        return NULL;
    }
    if (sa->sa_family == AF_INET6)
        (void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only_one_family,
                              sizeof only_one_family);
    if (rdma_bind_addr(id, sa) < 0 || rdma_listen(id, BACKLOG) < 0) {
        bind_error(sa, errno, err);
        rdma_destroy_id(id);
        return NULL;
    }
    address_set_port(sa, ntohs(rdma_get_src_port(id)));
    return id;
}

/* Makes one listening id; *sa's port becomes the one it has. The port that rdma_cm chooses may be that of
 * a TCP connection, where iWARP cannot have it. */
static struct rdma_cm_id *listen_on(struct listener *listener, struct sockaddr *sa,
                                    struct error *err)
{
    for (unsigned tries = 1;; tries++) {
        struct rdma_cm_id *id = try_listening(listener, sa, err);
        if (id || address_port(sa) != 0 || err->errnum != EADDRINUSE ||
            tries == ENDPOINT_PORT_TRIES)
            return id;
        error_clear(err);
    }
}

static int listen_bound(struct listener *listener, const struct sockaddr *addr, uint16_t port,
                        struct error *err)
{
    struct sockaddr *sa = (struct sockaddr *)&listener->addr;
    memcpy(sa, addr, address_length(addr));
    address_set_port(sa, port);
    listener->ids[0] = listen_on(listener, sa, err);
    if (!listener->ids[0])
        return -1;
    listener->port = address_port(sa);
    if (!listener->ids[0]->verbs)
        return bind_error(sa, ENODEV, err);
    return 0;
}

static int listen_everywhere(struct listener *listener, uint16_t port, struct error *err)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct error ignored = {.class = ERROR_NONE};
    listener->ids[0] = listen_on(listener, (struct sockaddr *)&v4, err);
    if (!listener->ids[0])
        return -1;
    listener->port = ntohs(v4.sin_port);
    memcpy(&listener->addr, &v4, sizeof v4);
    v6.sin6_port = v4.sin_port;
    /* A host without IPv6 listens for IPv4 alone. */
    listener->ids[1] = listen_on(listener, (struct sockaddr *)&v6, &ignored);
    return 0;
}

int listener_open(struct listener *listener, const struct sockaddr *addr, uint16_t port,
                  struct error *err)
{
    *listener = (struct listener){.channel = NULL};
    if (device_check_any(err) < 0)
        return -1;
    listener->channel = endpoint_open_channel(err);
    if (!listener->channel)
        return -1;
    if ((addr ? listen_bound(listener, addr, port, err) : listen_everywhere(listener, port, err)) ==
        0)
        return 0;
    listener_close(listener);
    return -1;
}

void listener_close(struct listener *listener)
{
    for (int i = 0; i < 2; i++)
        if (listener->ids[i])
            rdma_destroy_id(listener->ids[i]);
    if (listener->channel)
        rdma_destroy_event_channel(listener->channel);
    *listener = (struct listener){.channel = NULL};
}

int listener_next(struct listener *listener, struct rdma_cm_event **event, struct error *err)
{
    while (rdma_get_cm_event(listener->channel, event) == 0) {
        enum rdma_cm_event_type type = (*event)->event;
        if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
            return 1;
        rdma_ack_cm_event(*event);
        if (type == RDMA_CM_EVENT_DEVICE_REMOVAL)
            return error_set(err, ERROR_UNAVAILABLE, STAGE_LISTEN, NULL,
                             "the RDMA device that the server listens on was removed");
    }
    return 0;
}

int listener_fd(const struct listener *listener)
{
    return listener->channel->fd;
}

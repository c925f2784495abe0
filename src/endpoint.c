#include "config.h"

#include "endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "device.h"
#include "memory.h"
#include "signals.h"

/* Finite everywhere: 7 means for ever as an RNR retry count, and on rxe as a retry count too. */
#define RETRY_COUNT 6
#define ACK_TIMEOUT_UNIT_NS 4096
/* What a receiver asks for between two tries of a message that it has no receive for: the kernel's
 * default, 0, means the longest there is. */
#define RNR_TIMER_NS (655360 * UINT64_C(1000))
#define IB_REJECT_NO_LISTENER 8
#define IB_REJECT_BY_CONSUMER 28

uint8_t endpoint_ack_timeout(uint64_t timeout)
{
    uint8_t exponent = 8;
    while (exponent < 22 &&
           ((uint64_t)ACK_TIMEOUT_UNIT_NS << (exponent + 1)) <= timeout / (RETRY_COUNT + 1))
        exponent++;
    return exponent;
}

uint8_t endpoint_rnr_retries(uint64_t timeout)
{
    uint64_t fitting = timeout / RNR_TIMER_NS;
    return (uint8_t)(fitting < 1 ? 1 : fitting < RETRY_COUNT ? fitting : RETRY_COUNT);
}

struct rdma_event_channel *endpoint_open_channel(struct error *err)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel) {
        device_missing_error(err, errno);
        return NULL;
    }
    int flags = fcntl(channel->fd, F_GETFL);
    if (flags < 0 || fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        error_set_errno(err, ERROR_BUG, STAGE_OPEN, NULL, errno,
                        "cannot make the event channel non-blocking");
        rdma_destroy_event_channel(channel);
        return NULL;
    }
    return channel;
}

int endpoint_open(struct endpoint *endpoint, uint64_t timeout, int stop_fd, struct error *err)
{
    *endpoint = (struct endpoint){.timeout = timeout, .stop_fd = stop_fd};
    endpoint->channel = endpoint_open_channel(err);
    if (!endpoint->channel)
        return -1;
    if (rdma_create_id(endpoint->channel, &endpoint->id, NULL, RDMA_PS_TCP) < 0) {
        device_missing_error(err, errno);
        endpoint_close(endpoint);
        return -1;
    }
    return 0;
}

int endpoint_set_tos(struct endpoint *endpoint, uint8_t tos, struct error *err)
{
    if (rdma_set_option(endpoint->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) < 0)
        return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS, NULL, errno,
                               "cannot set the type of service to %u", tos);
    return 0;
}

/* Which device it is, once the connection has one. */
static void note_device(struct endpoint *endpoint)
{
    struct facts *facts = &endpoint->facts;
    const union ibv_gid *gid = &endpoint->id->route.addr.addr.ibaddr.sgid;
    if (!endpoint_is_iwarp(endpoint))
        inet_ntop(AF_INET6, gid->raw, facts->gid, sizeof facts->gid);
    snprintf(facts->device, sizeof facts->device, "%s",
             ibv_get_device_name(endpoint->id->verbs->device));
    facts->port = endpoint->id->port_num;
    address_format(rdma_get_local_addr(endpoint->id), facts->local);
}

int endpoint_adopt(struct endpoint *endpoint, struct rdma_cm_id *id,
                   const struct rdma_conn_param *offered, uint64_t timeout, int stop_fd,
                   struct error *err)
{
    *endpoint = (struct endpoint){
        .timeout = timeout,
        .stop_fd = stop_fd,
        .id = id,
        .adopted = true,
        .initiator_depth = offered->initiator_depth,
        .responder_resources = offered->responder_resources,
    };
    address_format(rdma_get_peer_addr(id), endpoint->peer);
    memcpy(endpoint->facts.peer, endpoint->peer, sizeof endpoint->facts.peer);
    note_device(endpoint);
    endpoint->channel = endpoint_open_channel(err);
    if (!endpoint->channel)
        return -1;
    if (rdma_migrate_id(id, endpoint->channel) < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, endpoint->peer, errno,
                               "cannot take over the connection");
    return 0;
}

static int interrupted(const struct endpoint *endpoint, enum error_stage stage, struct error *err)
{
    return error_set(err, ERROR_INTERRUPTED, stage, endpoint->peer, "interrupted by a signal");
}

int endpoint_heed_stop(const struct endpoint *endpoint, enum error_stage stage, struct error *err)
{
    struct pollfd fd = {.fd = endpoint->stop_fd, .events = POLLIN};
    return poll(&fd, 1, 0) > 0 ? interrupted(endpoint, stage, err) : 0;
}

static int hint_unanswered(struct error *err)
{
    return error_hint(err,
                      "check that the host is up, that its server is not stopped, and that no "
                      "firewall drops its RDMA traffic (RoCE: UDP port 4791, iWARP: the TCP port)");
}

static int timed_out(const struct endpoint *endpoint, enum error_stage stage, struct error *err)
{
    error_set(err, ERROR_TEMPORARY, stage, endpoint->peer,
              "%s: timed out: the host does not answer", error_stage_name(stage));
    return hint_unanswered(err);
}

/* Waits for events of the connection. 1: there may be some; 0: the deadline; -1: *err. */
static int wait_events(struct endpoint *endpoint, int64_t deadline, enum error_stage stage,
                       struct error *err)
{
    struct pollfd fds[] = {{.fd = endpoint->channel->fd, .events = POLLIN},
                           {.fd = endpoint->stop_fd, .events = POLLIN}};
    int n = poll(fds, 2, clock_poll_ms(deadline));
    if (n < 0 && errno != EINTR)
        return error_set_errno(err, ERROR_BUG, stage, endpoint->peer, errno, "poll failed");
    if (n > 0 && fds[1].revents)
        return interrupted(endpoint, stage, err);
    return n == 0 ? 0 : 1;
}

/* rdma_get_cm_event(3) goes on with what was asked for, and where that fails, which it says in errno,
 * it tells -1 for a status. */
static int take_event(struct endpoint *endpoint, struct rdma_cm_event **event)
{
    errno = 0;
    if (rdma_get_cm_event(endpoint->channel, event) != 0)
        return -1;
    if ((*event)->status == -1 && errno != 0)
        (*event)->status = -errno;
    return 0;
}

/* Takes one event, or fails at the deadline. The caller acknowledges it. */
static struct rdma_cm_event *next_event(struct endpoint *endpoint, int64_t deadline,
                                        enum error_stage stage, struct error *err)
{
    struct rdma_cm_event *event;
    for (;;) {
        if (take_event(endpoint, &event) == 0)
            return event;
        if (errno != EAGAIN && errno != EINTR) {
            error_set_errno(err, ERROR_UNAVAILABLE, stage, endpoint->peer, errno,
                            "cannot read connection events");
            return NULL;
        }
        int ready = wait_events(endpoint, deadline, stage, err);
        if (ready < 0)
            return NULL;
        if (ready == 0) {
            timed_out(endpoint, stage, err);
            return NULL;
        }
    }
}

static int unreachable_error(const struct endpoint *endpoint, enum error_stage stage, int errnum,
                             struct error *err)
{
    int number = abs(errnum);
    enum error_class class = number == ETIMEDOUT ? ERROR_TEMPORARY : ERROR_UNAVAILABLE;
    error_set_errno(err, class, stage, endpoint->peer, number, "cannot %s",
                    error_stage_name(stage));
    if (err->class == ERROR_RESOURCE)
        return -1;
    if (number == ETIMEDOUT)
        return hint_unanswered(err);
    return error_hint(err, "check with 'ip route get' and 'rdmaput devices' that an RDMA device "
                           "reaches that address");
}

/* The peer had answered: it ended, or one of the two stood still until the other gave up. */
static int broken_off_error(const struct endpoint *endpoint, enum error_stage stage, int errnum,
                            struct error *err)
{
    error_set_errno(err, ERROR_TEMPORARY, stage, endpoint->peer, abs(errnum),
                    "the connection broke off while it was made");
    return error_hint(err, "one of the two hosts was stopped, or is very busy; try again");
}

static int nobody_listens(const struct endpoint *endpoint, struct error *err)
{
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, endpoint->peer,
              "connection rejected: nobody listens on that port");
    return error_hint(err, "start 'rdmaput serve' there, or name its port: HOST:PORT%s%s",
                      endpoint->bound
                          ? "; or does it serve another fabric than that of the address "
                            "that this goes from, on "
                          : "",
                      endpoint->bound ? endpoint->facts.device : "");
}

static void keep_answer(const struct rdma_cm_event *event, struct endpoint_answer *answer)
{
    const struct rdma_conn_param *conn = &event->param.conn;
    answer->len = conn->private_data ? conn->private_data_len : 0;
    if (answer->len > 0)
        memcpy(answer->data, conn->private_data, answer->len);
}

static int rejected_error(struct endpoint *endpoint, const struct rdma_cm_event *event,
                          struct endpoint_answer *answer, struct error *err)
{
    if (event->status == IB_REJECT_NO_LISTENER || abs(event->status) == ECONNREFUSED)
        return nobody_listens(endpoint, err);
    if (event->status == IB_REJECT_BY_CONSUMER || event->status == -ECONNRESET) {
        answer->refused = true;
        endpoint->answered = true;
        keep_answer(event, answer);
        error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, endpoint->peer,
                  "connection refused by the program that listens there");
        return error_hint(err,
                          "is that 'rdmaput serve', on that address? its own messages say why");
    }
    return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, endpoint->peer,
                     "connection rejected (reason %d)", event->status);
}

/* What an unexpected event means, and the end of the connection with it. */
static int tell_event(struct endpoint *endpoint, const struct rdma_cm_event *event,
                      enum error_stage stage, struct error *err)
{
    endpoint->gone = true;
    switch (event->event) {
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return error_set(err, ERROR_TEMPORARY, stage, endpoint->peer,
                         "the peer closed the connection");
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        endpoint->removed = true;
        return error_set(err, ERROR_UNAVAILABLE, stage, endpoint->peer,
                         "the RDMA device was removed from this host");
    case RDMA_CM_EVENT_REJECTED:
        /* A client's own are rejected_error's. */
        return error_set(err, ERROR_TEMPORARY, stage, endpoint->peer,
                         "the peer gave up connecting");
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        return unreachable_error(endpoint, stage, event->status, err);
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return broken_off_error(endpoint, stage, event->status, err);
    default:
        return error_set(err, ERROR_UNAVAILABLE, stage, endpoint->peer, "unexpected event %s (%d)",
                         rdma_event_str(event->event), event->status);
    }
}

static int event_error(struct endpoint *endpoint, const struct rdma_cm_event *event,
                       enum error_stage stage, struct error *err)
{
    tell_event(endpoint, event, stage, err);
    return error_status(err, rdma_event_str(event->event));
}

/* Waits for one kind of event and nothing else. */
static int expect_event(struct endpoint *endpoint, enum rdma_cm_event_type wanted, int64_t deadline,
                        enum error_stage stage, struct error *err)
{
    struct rdma_cm_event *event = next_event(endpoint, deadline, stage, err);
    if (!event)
        return -1;
    int rc = event->event == wanted ? 0 : event_error(endpoint, event, stage, err);
    rdma_ack_cm_event(event);
    return rc;
}

/* Whatever the way in which it failed. */
static int loopback_error(const struct endpoint *endpoint, struct error *err)
{
    char example[ADDRESS_TEXT];
    error_clear(err);
    error_set(err, ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS, endpoint->peer,
              "loopback addresses have no RDMA device");
    if (device_example_address(example))
        return error_hint(err, "to reach this host, use its address %s", example);
    return error_hint(err, "no other address of this host has one either: see 'rdmaput devices'");
}

static int resolve_address(struct endpoint *endpoint, const struct sockaddr *src,
                           const struct sockaddr *dest, int64_t deadline, struct error *err)
{
    int ms = clock_poll_ms(deadline);
    if (ms == 0)
        return timed_out(endpoint, STAGE_RESOLVE_ADDRESS, err);
    if (rdma_resolve_addr(endpoint->id, (struct sockaddr *)(uintptr_t)src,
                          (struct sockaddr *)(uintptr_t)dest, ms) < 0)
        return unreachable_error(endpoint, STAGE_RESOLVE_ADDRESS, errno, err);
    return expect_event(endpoint, RDMA_CM_EVENT_ADDR_RESOLVED, deadline, STAGE_RESOLVE_ADDRESS,
                        err);
}

static int resolve_route(struct endpoint *endpoint, int64_t deadline, struct error *err)
{
    uint8_t ack = endpoint_ack_timeout(endpoint->timeout);
    int ms = clock_poll_ms(deadline);
    /* The kernel takes 0 for a mistake. */
    if (ms == 0)
        return timed_out(endpoint, STAGE_RESOLVE_ROUTE, err);
    /* Older kernels and iWARP do not have it; then the transport's default stands. */
    (void)rdma_set_option(endpoint->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack,
                          sizeof ack);
    if (rdma_resolve_route(endpoint->id, ms) < 0)
        return unreachable_error(endpoint, STAGE_RESOLVE_ROUTE, errno, err);
    return expect_event(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline, STAGE_RESOLVE_ROUTE, err);
}

int endpoint_resolve(struct endpoint *endpoint, const struct sockaddr *src,
                     const struct sockaddr *dest, int64_t deadline, struct error *err)
{
    struct error cause = {.class = ERROR_NONE};
    int64_t start = clock_now(), routed;
    endpoint->bound = src != NULL;
    address_format(dest, endpoint->peer);
    memcpy(endpoint->facts.peer, endpoint->peer, sizeof endpoint->facts.peer);
    int rc = resolve_address(endpoint, src, dest, deadline, &cause);
    routed = facts_took(&endpoint->facts, FACTS_RESOLVE, start);
    if (rc == 0)
        rc = resolve_route(endpoint, deadline, &cause);
    endpoint->facts.route_ns = (uint64_t)(facts_took(&endpoint->facts, FACTS_RESOLVE, routed) -
                                          routed);
    if (rc == 0) {
        note_device(endpoint);
        return 0;
    }
    if (cause.class == ERROR_INTERRUPTED || cause.class == ERROR_RESOURCE ||
        device_check_any(err) == 0) {
        *err = cause;
        if ((cause.class == ERROR_UNAVAILABLE || cause.class == ERROR_TEMPORARY) &&
            address_is_loopback(dest))
            loopback_error(endpoint, err);
    }
    return -1;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* rdma_create_qp looks at the request that asked for the connection too, and no event tells that its
 * sender has taken it back before it is accepted. */
static int queue_pair_error(const struct endpoint *endpoint, int errnum, struct error *err)
{
    if (endpoint->adopted && errnum == EINVAL)
        return error_set_errno(err, ERROR_TEMPORARY, STAGE_CONNECT, endpoint->peer, errnum,
                               "cannot create a queue pair; the peer gave up connecting, it seems");
    if (errnum == EOPNOTSUPP) {
        error_set_errno(err, ERROR_UNAVAILABLE, STAGE_CONNECT, endpoint->peer, errnum,
                        "device %s makes no reliable connections (RC queue pairs)",
                        endpoint->facts.device);
        return error_hint(err, "some devices, such as EFA, have others only: 'rdmaput devices' "
                               "lists the rest");
    }
    return memory_resource_error(err, endpoint->peer, errnum, "a queue pair");
}

static int create_queue_pair(struct endpoint *endpoint, const struct endpoint_wants *wants,
                             struct error *err)
{
    static const unsigned inline_steps[] = {512, 256, 128, 64, 0};
    unsigned max_inline = wants->max_inline;
    for (size_t step = 0;;) {
        struct ibv_qp_init_attr attr = {
            .send_cq = endpoint->queue.cq,
            .recv_cq = endpoint->queue.cq,
            .cap = {.max_send_wr = endpoint->send_depth,
                    .max_recv_wr = wants->recv_depth ? wants->recv_depth : 1,
                    .max_send_sge = endpoint->max_sge,
                    .max_recv_sge = 1,
                    .max_inline_data = max_inline},
            .qp_type = IBV_QPT_RC,
            .sq_sig_all = 0,
            .qp_context = endpoint,
        };
        if (rdma_create_qp(endpoint->id, endpoint->pd, &attr) == 0) {
            endpoint->max_inline = attr.cap.max_inline_data;
            return 0;
        }
        while (step < sizeof inline_steps / sizeof inline_steps[0] &&
               inline_steps[step] >= max_inline)
            step++;
        if (step == sizeof inline_steps / sizeof inline_steps[0])
            return queue_pair_error(endpoint, errno, err);
        max_inline = inline_steps[step];
    }
}

/* For endpoint_refused_access. */
static int open_device_events(struct endpoint *endpoint, struct error *err)
{
    int fd = endpoint->id->verbs->async_fd, flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        return 0;
    return error_set_errno(err, ERROR_BUG, STAGE_REGISTER, endpoint->peer, errno,
                           "cannot make the device's events non-blocking");
}

/* What the device and the port allow. */
static int find_limits(struct endpoint *endpoint, const struct endpoint_wants *wants,
                       struct error *err)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_context *verbs = endpoint->id->verbs;
    int rc = ibv_query_device(verbs, &device);
    if (rc == 0)
        rc = ibv_query_port(verbs, endpoint->id->port_num, &port);
    if (rc != 0)
        return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_REGISTER, endpoint->peer, rc,
                               "cannot query device %s", ibv_get_device_name(verbs->device));
    endpoint->send_depth = least(wants->send_depth, (unsigned)device.max_qp_wr);
    endpoint->max_sge = wants->max_sge ? least(wants->max_sge, (unsigned)device.max_sge)
                                       : (unsigned)device.max_sge;
    endpoint->max_msg_sz = port.max_msg_sz;
    endpoint->facts.kind = device_kind(endpoint_is_iwarp(endpoint), port.link_layer);
    endpoint->facts.mtu = device_mtu_bytes(port.active_mtu);
    endpoint->facts.max_msg_sz = port.max_msg_sz;
    return 0;
}

static void note_queues(struct endpoint *endpoint)
{
    endpoint->facts.send_depth = endpoint->send_depth;
    endpoint->facts.max_sge = endpoint->max_sge;
    endpoint->facts.max_inline = endpoint->max_inline;
}

int endpoint_create_queues(struct endpoint *endpoint, const struct endpoint_wants *wants,
                           struct ibv_pd *pd, struct error *err)
{
    struct ibv_context *verbs = endpoint->id->verbs;
    int64_t start = clock_now();
    if (find_limits(endpoint, wants, err) < 0)
        return -1;
    endpoint->pd = pd;
    if (!pd) {
        endpoint->pd = ibv_alloc_pd(verbs);
        if (!endpoint->pd)
            return memory_resource_error(err, endpoint->peer, errno, "a protection domain");
        endpoint->owns_pd = true;
    }
    if (completion_open(&endpoint->queue, verbs, endpoint->send_depth + wants->recv_depth + 1,
                        err) < 0 ||
        open_device_events(endpoint, err) < 0 || create_queue_pair(endpoint, wants, err) < 0)
        return -1;
    note_queues(endpoint);
    facts_took(&endpoint->facts, FACTS_REGISTER, start);
    return 0;
}

/* At most one read each way, the one that confirms; no more than the other side offered, or the
 * device can do. */
static struct rdma_conn_param connection_parameters(struct endpoint *endpoint, const void *data,
                                                    unsigned len)
{
    struct ibv_device_attr device;
    bool known = ibv_query_device(endpoint->id->verbs, &device) == 0;
    bool responds = known && device.max_qp_rd_atom > 0 && endpoint->responder_resources > 0;
    bool initiates = known && device.max_qp_init_rd_atom > 0 && endpoint->initiator_depth > 0;
    endpoint->responder_resources = responds;
    endpoint->initiator_depth = initiates;
    return (struct rdma_conn_param){
        .private_data = data,
        .private_data_len = (uint8_t)len,
        .responder_resources = responds,
        .initiator_depth = initiates,
        .retry_count = RETRY_COUNT,
        .rnr_retry_count = endpoint_rnr_retries(endpoint->timeout),
    };
}

static int port_taken(struct endpoint *endpoint, int errnum, struct error *err)
{
    endpoint->port_taken = true;
    error_set_errno(err, ERROR_TEMPORARY, STAGE_CONNECT, endpoint->peer, errnum,
                    "cannot connect: the port that was chosen here for it is in use");
    return error_hint(err, "other TCP connections of this host have most of its ports "
                           "(net.ipv4.ip_local_port_range); try again");
}

/* rdma_connect of an iWARP device makes its TCP connection in the system call, for longer than any
 * deadline of ours: a timer interrupts it. */
static int start_connecting(struct endpoint *endpoint, struct rdma_conn_param *param,
                            int64_t deadline, struct error *err)
{
    signals_alarm_start(deadline);
    int rc = rdma_connect(endpoint->id, param);
    int errnum = errno;
    signals_alarm_stop();
    if (rc == 0)
        return 0;
    if (errnum == EINTR || errnum == ERESTART) {
        if (signals_count() > 0)
            return interrupted(endpoint, STAGE_CONNECT, err);
        return timed_out(endpoint, STAGE_CONNECT, err);
    }
    if (errnum == ECONNREFUSED)
        return nobody_listens(endpoint, err);
    if (errnum == EADDRINUSE || errnum == EADDRNOTAVAIL)
        return port_taken(endpoint, errnum, err);
    return unreachable_error(endpoint, STAGE_CONNECT, errnum, err);
}

int endpoint_connect(struct endpoint *endpoint, const void *data, unsigned len, int64_t deadline,
                     struct endpoint_answer *answer, struct error *err)
{
    endpoint->initiator_depth = endpoint->responder_resources = 1;
    struct rdma_conn_param param = connection_parameters(endpoint, data, len);
    int64_t start = clock_now();
    *answer = (struct endpoint_answer){.refused = false};
    if (start_connecting(endpoint, &param, deadline, err) < 0)
        return -1;
    endpoint->asked = true;
    struct rdma_cm_event *event = next_event(endpoint, deadline, STAGE_CONNECT, err);
    facts_took(&endpoint->facts, FACTS_CONNECT, start);
    if (!event)
        return -1;
    int rc = 0;
    if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
        keep_answer(event, answer);
        endpoint->initiator_depth = least(endpoint->initiator_depth,
                                          event->param.conn.initiator_depth);
        endpoint->answered = true;
        endpoint->connected = true;
    } else if (event->event == RDMA_CM_EVENT_REJECTED) {
        endpoint->gone = true;
        rejected_error(endpoint, event, answer, err);
        rc = error_status(err, rdma_event_str(event->event));
    } else {
        rc = event_error(endpoint, event, STAGE_CONNECT, err);
    }
    rdma_ack_cm_event(event);
    return rc;
}

int endpoint_accept(struct endpoint *endpoint, const void *data, unsigned len, int64_t deadline,
                    struct error *err)
{
    struct rdma_conn_param param = connection_parameters(endpoint, data, len);
    uint8_t ack = endpoint_ack_timeout(endpoint->timeout);
    int64_t start = clock_now();
    (void)rdma_set_option(endpoint->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack,
                          sizeof ack);
    if (rdma_accept(endpoint->id, &param) < 0)
        return error_set_errno(err, ERROR_TEMPORARY, STAGE_CONNECT, endpoint->peer, errno,
                               "cannot accept the connection");
    endpoint->answered = true;
    if (expect_event(endpoint, RDMA_CM_EVENT_ESTABLISHED, deadline, STAGE_CONNECT, err) < 0)
        return -1;
    facts_took(&endpoint->facts, FACTS_CONNECT, start);
    endpoint->connected = true;
    return 0;
}

void endpoint_refuse(struct endpoint *endpoint, const void *data, unsigned len)
{
    (void)rdma_reject(endpoint->id, data, (uint8_t)len);
}

bool endpoint_is_iwarp(const struct endpoint *endpoint)
{
    return endpoint->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

int endpoint_fd(const struct endpoint *endpoint)
{
    return endpoint->channel->fd;
}

int endpoint_check(struct endpoint *endpoint, struct error *err)
{
    struct rdma_cm_event *event;
    while (!endpoint->gone && take_event(endpoint, &event) == 0) {
        switch (event->event) {
        case RDMA_CM_EVENT_ADDR_CHANGE:
        case RDMA_CM_EVENT_ESTABLISHED:
            break;
        default:
            event_error(endpoint, event, STAGE_TRANSFER, err);
        }
        rdma_ack_cm_event(event);
    }
    if (!endpoint->gone)
        return 0;
    if (endpoint->removed)
        return error_set(err, ERROR_UNAVAILABLE, STAGE_TRANSFER, endpoint->peer,
                         "the RDMA device was removed from this host");
    return error_set(err, ERROR_TEMPORARY, STAGE_TRANSFER, endpoint->peer,
                     "the peer closed the connection");
}

bool endpoint_await_end(struct endpoint *endpoint, uint64_t ns)
{
    int64_t deadline = clock_after(ns);
    struct error ignored = {.class = ERROR_NONE};
    while (endpoint_check(endpoint, &ignored) == 0) {
        struct pollfd fds[] = {{.fd = endpoint->channel->fd, .events = POLLIN},
                               {.fd = endpoint->stop_fd, .events = POLLIN}};
        int n = poll(fds, 2, clock_poll_ms(deadline));
        if (n == 0 || (n > 0 && fds[1].revents))
            return false;
    }
    return true;
}

/* Takes the events that have come, whichever endpoint's: its queue pair is there until they are
 * acknowledged. What another thread has taken it has noted when this one comes in. */
static void take_device_events(const struct endpoint *endpoint)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ibv_async_event event;
    pthread_mutex_lock(&lock);
    while (ibv_get_async_event(endpoint->id->verbs, &event) == 0) {
        if (event.event_type == IBV_EVENT_QP_ACCESS_ERR ||
            event.event_type == IBV_EVENT_QP_REQ_ERR) {
            struct endpoint *owner = event.element.qp->qp_context;
            atomic_store(&owner->access_refused, true);
        }
        ibv_ack_async_event(&event);
    }
    pthread_mutex_unlock(&lock);
}

/* On InfiniBand and RoCE a refused access leaves the queue pair in its error state, where a peer
 * that disconnects leaves it ready. */
static bool is_in_error(const struct endpoint *endpoint)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    return ibv_query_qp(endpoint->id->qp, &attr, IBV_QP_STATE, &init) == 0 &&
           attr.qp_state == IBV_QPS_ERR;
}

bool endpoint_refused_access(struct endpoint *endpoint)
{
    take_device_events(endpoint);
    return atomic_load(&endpoint->access_refused) ||
           (!endpoint_is_iwarp(endpoint) && is_in_error(endpoint));
}

int endpoint_access_error(const struct endpoint *endpoint, struct error *err)
{
    return error_set(err, ERROR_UNAVAILABLE, STAGE_TRANSFER, endpoint->peer,
                     "the peer wrote where it may not, and the adapter refused it");
}

void endpoint_disconnect(struct endpoint *endpoint, uint64_t ns)
{
    if (!endpoint->connected)
        return;
    endpoint->connected = false;
    if (rdma_disconnect(endpoint->id) == 0 && !endpoint->gone)
        endpoint_await_end(endpoint, ns);
}

void endpoint_destroy_queue_pair(struct endpoint *endpoint)
{
    if (endpoint->id && endpoint->id->qp)
        rdma_destroy_qp(endpoint->id);
}

void endpoint_close(struct endpoint *endpoint)
{
    endpoint_destroy_queue_pair(endpoint);
    completion_close(&endpoint->queue);
    if (endpoint->owns_pd)
        ibv_dealloc_pd(endpoint->pd);
    if (endpoint->id)
        rdma_destroy_id(endpoint->id);
    if (endpoint->channel)
        rdma_destroy_event_channel(endpoint->channel);
    *endpoint = (struct endpoint){.id = NULL};
}

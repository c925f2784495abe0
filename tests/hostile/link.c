#include "config.h"

#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define WRID_RECEIVE ((uint64_t)1 << 32)
#define LOOK_AGAIN_MS 100 /* rxe loses an event now and then */
#define PAGE ((size_t)4096)
#define BACKLOG 64
#define LISTEN_TRIES 8

int64_t link_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int fail(const char *what)
{
    fprintf(stderr, "hostile-peer: %s: %s\n", what, strerror(abs(errno)));
    return -1;
}

static int poll_ms(int64_t deadline, int most)
{
    int64_t left = deadline - link_now();
    if (left <= 0)
        return 0;
    return left < most ? (int)left : most;
}

static struct rdma_event_channel *open_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK | O_CLOEXEC) < 0 ||
        fcntl(channel->fd, F_SETFD, FD_CLOEXEC) < 0)
        fail("an event channel");
    return channel;
}

static void keep_said(struct link *link, const struct rdma_conn_param *conn)
{
    link->said_bytes = conn->private_data ? conn->private_data_len : 0;
    if (link->said_bytes > 0)
        memcpy(link->said, conn->private_data, link->said_bytes);
}

/* Takes one event of the channel, if there is one. Whether there was. */
static bool take_event(struct link *link, enum rdma_cm_event_type *type)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(link->channel, &event) < 0)
        return false;
    *type = event->event;
    if (*type == RDMA_CM_EVENT_ESTABLISHED || *type == RDMA_CM_EVENT_REJECTED)
        keep_said(link, &event->param.conn);
    rdma_ack_cm_event(event);
    return true;
}

/* Waits for an event. Whether it was the one that was wanted; another one is an end. */
static bool await_event(struct link *link, enum rdma_cm_event_type wanted, int64_t deadline,
                        enum rdma_cm_event_type *type)
{
    while (!take_event(link, type)) {
        struct pollfd fd = {.fd = link->channel->fd, .events = POLLIN};
        if (link_now() >= deadline)
            return false;
        poll(&fd, 1, poll_ms(deadline, LOOK_AGAIN_MS));
    }
    link->ended = *type != wanted;
    return !link->ended;
}

int link_resolve(struct link *link, const struct sockaddr *dest, int64_t deadline)
{
    enum rdma_cm_event_type type;
    *link = (struct link){.channel = open_channel()};
    if (!link->channel || rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP) < 0)
        return fail("rdma_create_id");
    if (rdma_resolve_addr(link->id, NULL, (struct sockaddr *)(uintptr_t)dest,
                          poll_ms(deadline, 10000)) < 0 ||
        !await_event(link, RDMA_CM_EVENT_ADDR_RESOLVED, deadline, &type) ||
        rdma_resolve_route(link->id, poll_ms(deadline, 10000)) < 0 ||
        !await_event(link, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline, &type))
        return fail("the address cannot be resolved");
    return 0;
}

static int post_receive(struct link *link, unsigned index)
{
    struct ibv_sge entry = {.addr = (uintptr_t)link->memory + index * LINK_RECEIVE_BYTES,
                            .length = LINK_RECEIVE_BYTES,
                            .lkey = link->mr->lkey};
    struct ibv_recv_wr *bad,
        request = {.wr_id = WRID_RECEIVE | index, .sg_list = &entry, .num_sge = 1};
    return ibv_post_recv(link->id->qp, &request, &bad) == 0 ? 0 : -1;
}

int link_prepare(struct link *link, unsigned receives, size_t data_bytes)
{
    size_t messages = LINK_RECEIVES * LINK_RECEIVE_BYTES + LINK_SENDS * LINK_SEND_BYTES;
    struct ibv_context *verbs = link->id->verbs;
    void *memory;
    link->data_bytes = (data_bytes + PAGE - 1) / PAGE * PAGE;
    memory = mmap(NULL, messages + link->data_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return fail("mmap");
    link->memory = memory;
    link->data = link->memory + messages;
    link->owns_pd = !link->pd;
    if (link->owns_pd)
        link->pd = ibv_alloc_pd(verbs);
    link->completions = ibv_create_comp_channel(verbs);
    if (!link->pd || !link->completions || fcntl(link->completions->fd, F_SETFL, O_NONBLOCK) < 0)
        return fail("a completion channel");
    link->cq = ibv_create_cq(verbs, LINK_RECEIVES + 2 * LINK_SENDS, NULL, link->completions, 0);
    if (!link->cq)
        return fail("a completion queue");
    struct ibv_qp_init_attr attr = {.send_cq = link->cq,
                                    .recv_cq = link->cq,
                                    .cap = {.max_send_wr = 2 * LINK_SENDS,
                                            .max_recv_wr = LINK_RECEIVES,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    if (rdma_create_qp(link->id, link->pd, &attr) < 0)
        return fail("a queue pair");
    link->mr = ibv_reg_mr(link->pd, link->memory, messages + link->data_bytes,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!link->mr)
        return fail("registering memory");
    for (unsigned i = 0; i < receives; i++)
        if (post_receive(link, i) < 0)
            return fail("posting a receive");
    return 0;
}

static struct rdma_conn_param parameters(const void *said, size_t len)
{
    return (struct rdma_conn_param){.private_data = len > 0 ? said : NULL,
                                    .private_data_len = (uint8_t)len,
                                    .responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 6,
                                    .rnr_retry_count = 6};
}

int link_ask(struct link *link, const void *said, size_t len)
{
    struct rdma_conn_param param = parameters(said, len);
    return rdma_connect(link->id, &param);
}

enum link_answer link_await_answer(struct link *link, int64_t deadline)
{
    enum rdma_cm_event_type type;
    if (await_event(link, RDMA_CM_EVENT_ESTABLISHED, deadline, &type)) {
        link->connected = true;
        return LINK_ACCEPTED;
    }
    return link->ended && type == RDMA_CM_EVENT_REJECTED ? LINK_REFUSED : LINK_FAILED;
}

static int listen_once(struct link_listener *listener, const struct sockaddr *addr)
{
    if (rdma_create_id(listener->channel, &listener->id, NULL, RDMA_PS_TCP) == 0 &&
        rdma_bind_addr(listener->id, (struct sockaddr *)(uintptr_t)addr) == 0 &&
        rdma_listen(listener->id, BACKLOG) == 0)
        return 0;
    int failure = errno;
    if (listener->id)
        rdma_destroy_id(listener->id);
    listener->id = NULL;
    errno = failure;
    return -1;
}

int link_listen(struct link_listener *listener, const struct sockaddr *addr)
{
    unsigned tries = 0;
    *listener = (struct link_listener){.channel = open_channel()};
    if (!listener->channel)
        return -1;
    /* The free port that librdmacm chooses may be one of TCP's, which siw needs. */
    while (listen_once(listener, addr) < 0)
        if (errno != EADDRINUSE || ++tries == LISTEN_TRIES)
            return fail("listening");
    listener->port = ntohs(rdma_get_src_port(listener->id));
    return 0;
}

int link_expose(struct link_listener *listener, size_t bytes)
{
    listener->exposed = calloc(1, bytes);
    listener->pd = ibv_alloc_pd(listener->id->verbs);
    if (!listener->exposed || !listener->pd)
        return fail("a protection domain");
    listener->mr = ibv_reg_mr(listener->pd, listener->exposed, bytes,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return listener->mr ? 0 : fail("registering memory");
}

void link_close_listener(struct link_listener *listener)
{
    if (listener->mr)
        ibv_dereg_mr(listener->mr);
    if (listener->pd)
        ibv_dealloc_pd(listener->pd);
    free(listener->exposed);
    if (listener->id)
        rdma_destroy_id(listener->id);
    if (listener->channel)
        rdma_destroy_event_channel(listener->channel);
}

int link_await_request(struct link_listener *listener, struct link *link, int64_t deadline)
{
    struct rdma_cm_event *event;
    *link = (struct link){.pd = listener->pd};
    while (rdma_get_cm_event(listener->channel, &event) < 0) {
        struct pollfd fd = {.fd = listener->channel->fd, .events = POLLIN};
        if (link_now() >= deadline)
            return -1;
        poll(&fd, 1, poll_ms(deadline, LOOK_AGAIN_MS));
    }
    bool requested = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
    if (requested) {
        link->id = event->id;
        keep_said(link, &event->param.conn);
    }
    rdma_ack_cm_event(event);
    if (!requested || !(link->channel = open_channel()))
        return -1;
    return rdma_migrate_id(link->id, link->channel);
}

int link_accept(struct link *link, const void *said, size_t len, int64_t deadline)
{
    struct rdma_conn_param param = parameters(said, len);
    enum rdma_cm_event_type type;
    if (rdma_accept(link->id, &param) < 0 ||
        !await_event(link, RDMA_CM_EVENT_ESTABLISHED, deadline, &type))
        return -1;
    link->connected = true;
    return 0;
}

int link_reject(struct link *link, const void *said, size_t len)
{
    return rdma_reject(link->id, len > 0 ? said : NULL, (uint8_t)len);
}

static void note_completion(struct link *link, const struct ibv_wc *wc)
{
    bool is_receive = (wc->wr_id & WRID_RECEIVE) != 0;
    if (!is_receive)
        link->under_way--;
    if (wc->status != IBV_WC_SUCCESS) {
        if (link->failure == IBV_WC_SUCCESS || link->failure == IBV_WC_WR_FLUSH_ERR)
            link->failure = wc->status;
    } else if (is_receive) {
        unsigned at = (link->received_head + link->received_count++) % LINK_RECEIVES;
        link->received[at] = (unsigned)(wc->wr_id & 0xffff);
        link->lengths[at] = wc->byte_len;
    }
}

/* Takes what has come, without waiting. */
static void look(struct link *link)
{
    struct ibv_wc wc;
    enum rdma_cm_event_type type;
    while (take_event(link, &type))
        link->ended |= type != RDMA_CM_EVENT_ESTABLISHED && type != RDMA_CM_EVENT_ADDR_CHANGE;
    while (link->cq && ibv_poll_cq(link->cq, 1, &wc) > 0)
        note_completion(link, &wc);
}

/* Takes what has come, and where nothing has, waits for something. */
static void look_or_wait(struct link *link, int64_t deadline)
{
    unsigned before = link->received_count, under_way = link->under_way;
    struct pollfd fds[] = {
        {.fd = link->channel->fd, .events = POLLIN},
        {.fd = link->completions ? link->completions->fd : -1, .events = POLLIN}};
    struct ibv_cq *cq;
    void *context;
    if (link->cq)
        ibv_req_notify_cq(link->cq, 0);
    look(link);
    if (link->ended || link->received_count != before || link->under_way != under_way)
        return;
    poll(fds, 2, poll_ms(deadline, LOOK_AGAIN_MS));
    while (link->completions && ibv_get_cq_event(link->completions, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
    look(link);
}

/* A place among the sends. -1: none in time. */
static int await_place(struct link *link, int64_t deadline)
{
    while (link->under_way >= LINK_SENDS && !link->ended && link_now() < deadline)
        look_or_wait(link, deadline);
    return link->under_way >= LINK_SENDS || link->ended ? -1 : 0;
}

static int post(struct link *link, struct ibv_send_wr *request)
{
    struct ibv_send_wr *bad;
    if (ibv_post_send(link->id->qp, request, &bad) != 0)
        return -1;
    link->under_way++;
    return 0;
}

int link_send(struct link *link, const void *bytes, size_t len, int64_t deadline)
{
    if (await_place(link, deadline) < 0)
        return -1;
    uint8_t *at = link->memory + LINK_RECEIVES * LINK_RECEIVE_BYTES +
                  (size_t)(link->sends++ % LINK_SENDS) * LINK_SEND_BYTES;
    struct ibv_sge entry = {.addr = (uintptr_t)at, .length = (uint32_t)len, .lkey = link->mr->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .sg_list = &entry,
                                  .num_sge = len > 0};
    memcpy(at, bytes, len);
    return post(link, &request);
}

int link_write(struct link *link, const uint8_t *from, size_t len, uint64_t remote_addr,
               uint32_t rkey, int64_t deadline)
{
    struct ibv_sge entry = {
        .addr = (uintptr_t)from, .length = (uint32_t)len, .lkey = link->mr->lkey};
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .sg_list = &entry,
                                  .num_sge = 1,
                                  .wr.rdma = {.remote_addr = remote_addr, .rkey = rkey}};
    return await_place(link, deadline) < 0 ? -1 : post(link, &request);
}

static bool is_dead(const struct link *link)
{
    return link->ended || link->failure != IBV_WC_SUCCESS;
}

enum link_news link_next(struct link *link, void *bytes, size_t size, size_t *len, int64_t deadline)
{
    while (link->received_count == 0) {
        if (link->ended)
            return LINK_ENDED;
        if (link_now() >= deadline)
            return LINK_SILENCE;
        look_or_wait(link, deadline);
    }
    unsigned at = link->received_head, index = link->received[at];
    *len = link->lengths[at];
    memcpy(bytes, link->memory + index * LINK_RECEIVE_BYTES, *len < size ? *len : size);
    link->received_head = (at + 1) % LINK_RECEIVES;
    link->received_count--;
    if (!is_dead(link))
        post_receive(link, index);
    return LINK_MESSAGE;
}

bool link_settle(struct link *link, int64_t deadline)
{
    while (link->under_way > 0 && !link->ended && link_now() < deadline)
        look_or_wait(link, deadline);
    return link->under_way == 0 && link->failure == IBV_WC_SUCCESS;
}

bool link_await_end(struct link *link, int64_t deadline)
{
    while (!link->ended && link_now() < deadline)
        look_or_wait(link, deadline);
    return link->ended;
}

bool link_is_iwarp(const struct link *link)
{
    return link->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

char *link_name(const struct link *link, char name[LINK_NAME_BYTES])
{
    const struct sockaddr *local = rdma_get_local_addr(link->id);
    char host[INET6_ADDRSTRLEN] = "?";
    bool six = local->sa_family == AF_INET6;
    inet_ntop(local->sa_family,
              six ? (const void *)&((const struct sockaddr_in6 *)local)->sin6_addr
                  : (const void *)&((const struct sockaddr_in *)local)->sin_addr,
              host, sizeof host);
    snprintf(name, LINK_NAME_BYTES, six ? "[%s]:%u" : "%s:%u", host,
             ntohs(rdma_get_src_port(link->id)));
    return name;
}

void link_disconnect(struct link *link)
{
    if (link->connected && link->id)
        rdma_disconnect(link->id);
    link->connected = false;
}

void link_close(struct link *link)
{
    if (link->id && link->id->qp)
        rdma_destroy_qp(link->id);
    if (link->mr)
        ibv_dereg_mr(link->mr);
    if (link->cq)
        ibv_destroy_cq(link->cq);
    if (link->completions)
        ibv_destroy_comp_channel(link->completions);
    if (link->owns_pd)
        ibv_dealloc_pd(link->pd);
    if (link->memory)
        munmap(link->memory, (size_t)(link->data - link->memory) + link->data_bytes);
    if (link->id)
        rdma_destroy_id(link->id);
    if (link->channel)
        rdma_destroy_event_channel(link->channel);
    *link = (struct link){.channel = NULL};
}

/*
 * fake-fabric-cm.c - librdmacm's part of the fake fabric: ids, addresses, connections and events.
 */
#define _GNU_SOURCE
#include "fake-fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_PORT 49152
#define PORTS 16384
/* What InfiniBand and RoCE say of a rejected connection. */
#define REJECT_NOBODY_LISTENS 8
#define REJECT_BY_CONSUMER 28
#define REJECT_UNKNOWN_CONNECTION 6
/* And how many bytes of private data they carry, always so many. */
#define REQUEST_PRIVATE 56
#define REPLY_PRIVATE 196
#define REJECTION_PRIVATE 148

struct fake_id *fake_ids;

static struct fake_id *own(struct rdma_cm_id *id)
{
    return (struct fake_id *)id; /* the first member */
}

static struct fake_channel *channel_of(const struct fake_id *id)
{
    return (struct fake_channel *)id->id.channel;
}

/* ---- events ------------------------------------------------------------------------------- */

static void *out_of_memory(void)
{
    fake_abort("no memory for an event");
}

static struct fake_event *add_event(struct fake_id *id, enum rdma_cm_event_type type, int status)
{
    struct fake_channel *channel = channel_of(id);
    struct fake_event *event = calloc(1, sizeof *event), **at = &channel->events;
    if (!event)
        return out_of_memory();
    event->event = (struct rdma_cm_event){.id = &id->id, .event = type, .status = status};
    while (*at)
        at = &(*at)->next;
    *at = event;
    fake_bell_set(&channel->bell, true);
    return event;
}

/* The id that has to stay until the event is acknowledged. */
static struct fake_id *holder(const struct fake_event *event)
{
    return own(event->event.listen_id ? event->event.listen_id : event->event.id);
}

/* Takes an id's events off its channel, in order. */
static struct fake_event *take_events(struct fake_id *id)
{
    struct fake_channel *channel = channel_of(id);
    struct fake_event *taken = NULL, **last = &taken;
    for (struct fake_event **at = &channel->events; *at;) {
        struct fake_event *event = *at;
        if (event->event.id != &id->id && event->event.listen_id != &id->id) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        event->next = NULL;
        *last = event;
        last = &event->next;
    }
    fake_bell_set(&channel->bell, channel->events != NULL);
    return taken;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct fake_channel *from = (struct fake_channel *)channel;
    struct fake_event *first;
    for (;;) {
        pthread_mutex_lock(&fake_lock);
        first = from->events;
        if (first)
            break;
        pthread_mutex_unlock(&fake_lock);
        if (fake_bell_wait(&from->bell) < 0)
            return -1;
    }
    from->events = first->next;
    fake_bell_set(&from->bell, from->events != NULL);
    holder(first)->unacknowledged++;
    if (first->event.listen_id) {
        own(first->event.id)->known = true;
        fake_count(FAKE_ID, 1);
    }
    pthread_mutex_unlock(&fake_lock);
    *event = &first->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    struct fake_event *taken = (struct fake_event *)event; /* the first member */
    pthread_mutex_lock(&fake_lock);
    holder(taken)->unacknowledged--;
    pthread_mutex_unlock(&fake_lock);
    free(taken);
    return 0;
}

/* ---- channels and ids ------------------------------------------------------------------------ */

struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct fake_channel *channel = calloc(1, sizeof *channel);
    if (!channel || fake_bell_open(&channel->bell) < 0) {
        free(channel);
        return NULL;
    }
    channel->channel.fd = channel->bell.fd;
    pthread_mutex_lock(&fake_lock);
    fake_count(FAKE_CHANNEL, 1);
    pthread_mutex_unlock(&fake_lock);
    return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct fake_channel *gone = (struct fake_channel *)channel;
    pthread_mutex_lock(&fake_lock);
    if (gone->ids > 0)
        fake_abort("rdma_destroy_event_channel: ids are on it");
    fake_count(FAKE_CHANNEL, -1);
    fake_bell_close(&gone->bell);
    pthread_mutex_unlock(&fake_lock);
    free(gone);
}

struct fake_id *fake_id_new(struct rdma_event_channel *channel, void *context)
{
    static uint64_t serials;
    struct fake_id *id = calloc(1, sizeof *id);
    if (!id)
        return NULL;
    id->id.channel = channel;
    id->id.context = context;
    id->id.ps = RDMA_PS_TCP;
    id->id.qp_type = IBV_QPT_RC;
    id->serial = ++serials;
    id->fd = -1;
    id->last_packet = &id->packets;
    id->next = fake_ids;
    fake_ids = id;
    ((struct fake_channel *)channel)->ids++;
    return id;
}

struct fake_id *fake_id_find(uint64_t serial)
{
    struct fake_id *id = fake_ids;
    while (id && id->serial != serial)
        id = id->next;
    return id;
}

/* Connections of a listening id that the program has not heard of. */
static void free_unknown(const struct fake_id *listener)
{
    struct fake_id *id = fake_ids;
    while (id) {
        bool its_own = !id->known && id->listener == listener->serial;
        if (its_own)
            fake_id_free(id);
        id = its_own ? fake_ids : id->next;
    }
}

void fake_id_free(struct fake_id *id)
{
    struct fake_id **at = &fake_ids;
    struct fake_event *events = take_events(id);
    if (id->unacknowledged > 0)
        fake_abort("rdma_destroy_id: events are not acknowledged");
    while (events) {
        struct fake_event *event = events;
        events = event->next;
        free(event);
    }
    if (id->state == STATE_LISTENING)
        free_unknown(id);
    while (*at != id)
        at = &(*at)->next;
    *at = id->next;
    if (id->id.qp)
        fake_qp_of(id)->id = NULL;
    fake_link_close(id);
    channel_of(id)->ids--;
    if (id->known)
        fake_count(FAKE_ID, -1);
    free(id);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
    struct fake_id *new = NULL;
    if (!channel || ps != RDMA_PS_TCP) {
        errno = EINVAL;
        return -1;
    }
    pthread_mutex_lock(&fake_lock);
    new = fake_id_new(channel, context);
    if (new) {
        new->known = true;
        fake_count(FAKE_ID, 1);
        *id = &new->id;
    }
    pthread_mutex_unlock(&fake_lock);
    return new ? 0 : -1;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    pthread_mutex_lock(&fake_lock);
    fake_id_free(own(id));
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    struct fake_channel *to = (struct fake_channel *)channel;
    pthread_mutex_lock(&fake_lock);
    if (own(id)->unacknowledged > 0)
        fake_abort("rdma_migrate_id: events are not acknowledged");
    struct fake_event *moved = take_events(own(id)), **at = &to->events;
    while (*at)
        at = &(*at)->next;
    *at = moved;
    fake_bell_set(&to->bell, to->events != NULL);
    channel_of(own(id))->ids--;
    id->channel = channel;
    to->ids++;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
    (void)id, (void)optname, (void)optval, (void)optlen;
    errno = EINVAL;
    return level == RDMA_OPTION_ID ? 0 : -1;
}

/* ---- addresses ---------------------------------------------------------------------------- */

static socklen_t address_size(const struct sockaddr *sa)
{
    return sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static in_port_t *port_field(struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET6 ? &((struct sockaddr_in6 *)sa)->sin6_port
                                     : &((struct sockaddr_in *)sa)->sin_port;
}

static const void *host_field(const struct sockaddr_storage *sa)
{
    return sa->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)sa)->sin6_addr
                                     : &((const struct sockaddr_in *)sa)->sin_addr;
}

static bool is_wildcard(const struct sockaddr_storage *sa)
{
    static const struct in6_addr none;
    return memcmp(host_field(sa), &none, sa->ss_family == AF_INET6 ? 16 : 4) == 0;
}

static int close_after(int fd, int rc)
{
    int saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return rc;
}

/* 0 when the address is one of this host. The kernel knows. */
static int check_here(const struct sockaddr_storage *addr)
{
    struct sockaddr_storage any_port = *addr;
    int fd = socket(addr->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    *port_field(&any_port) = 0;
    return close_after(
        fd, bind(fd, (struct sockaddr *)&any_port, address_size((struct sockaddr *)&any_port)));
}

/* The address from which the kernel would send to a destination. */
static int find_source(const struct sockaddr_storage *destination, struct sockaddr_storage *source)
{
    socklen_t size = sizeof *source;
    int fd = socket(destination->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int rc = connect(fd, (const struct sockaddr *)destination,
                     address_size((const struct sockaddr *)destination));
    if (rc == 0)
        rc = getsockname(fd, (struct sockaddr *)source, &size);
    return close_after(fd, rc);
}

/* Where listening ids are found. */
static socklen_t socket_name(const struct sockaddr_storage *addr, bool any,
                             struct sockaddr_un *name)
{
    static const struct in6_addr none;
    char host[INET6_ADDRSTRLEN];
    inet_ntop(addr->ss_family, any ? &none : host_field(addr), host, sizeof host);
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "rdmaput-fake-fabric/%s/%u",
                       host, ntohs(*port_field((struct sockaddr_storage *)(uintptr_t)addr)));
    return (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)len;
}

static int bind_socket(struct fake_id *id, struct sockaddr_storage *addr)
{
    struct sockaddr_un name;
    uint16_t start;
    bool any_port = *port_field(addr) == 0;
    if (getrandom(&start, sizeof start, 0) != sizeof start)
        return -1;
    for (unsigned i = 0; i < PORTS; i++) {
        if (any_port)
            *port_field(addr) = htons((uint16_t)(FIRST_PORT + (start + i) % PORTS));
        socklen_t size = socket_name(addr, false, &name);
        if (bind(id->fd, (struct sockaddr *)&name, size) == 0)
            return 0;
        if (errno != EADDRINUSE || !any_port)
            break;
    }
    return -1;
}

/* As RoCE does: the GID is the address. */
static void set_source(struct rdma_cm_id *id, const struct sockaddr_storage *source)
{
    uint8_t *gid = id->route.addr.addr.ibaddr.sgid.raw;
    id->route.addr.src_storage = *source;
    memset(gid, 0, 16);
    if (source->ss_family == AF_INET6) {
        memcpy(gid, &((const struct sockaddr_in6 *)source)->sin6_addr, 16);
    } else {
        gid[10] = gid[11] = 0xff;
        memcpy(gid + 12, &((const struct sockaddr_in *)source)->sin_addr, 4);
    }
}

static int bind_id(struct fake_id *id, struct sockaddr_storage addr)
{
    if (id->state != STATE_IDLE || id->fd >= 0) {
        errno = EINVAL;
        return -1;
    }
    if (!is_wildcard(&addr) && check_here(&addr) < 0)
        return -1;
    id->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (id->fd < 0 || bind_socket(id, &addr) < 0)
        return -1;
    if (!is_wildcard(&addr)) {
        id->id.verbs = fake_shared_context();
        if (!id->id.verbs)
            return -1;
    }
    id->id.port_num = 1;
    set_source(&id->id, &addr);
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct sockaddr_storage copy = {.ss_family = AF_UNSPEC};
    memcpy(&copy, addr, address_size(addr));
    pthread_mutex_lock(&fake_lock);
    int rc = bind_id(own(id), copy);
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    pthread_mutex_lock(&fake_lock);
    int rc = listen(own(id)->fd, backlog);
    if (rc == 0) {
        own(id)->state = STATE_LISTENING;
        rc = fake_link_watch(own(id));
    }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                      int timeout_ms)
{
    struct sockaddr_storage source = {.ss_family = AF_UNSPEC}, destination = source;
    (void)timeout_ms;
    memcpy(&destination, dst_addr, address_size(dst_addr));
    if (src_addr)
        memcpy(&source, src_addr, address_size(src_addr));
    else if (find_source(&destination, &source) < 0)
        return -1;
    if (check_here(&source) < 0)
        return -1;
    *port_field(&source) = htons((uint16_t)(FIRST_PORT + own(id)->serial % PORTS));
    bool here = check_here(&destination) == 0;
    pthread_mutex_lock(&fake_lock);
    set_source(id, &source);
    id->route.addr.dst_storage = destination;
    id->port_num = 1;
    id->verbs = fake_shared_context();
    if (id->verbs)
        add_event(own(id), here ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
                  here ? 0 : -ENETUNREACH);
    pthread_mutex_unlock(&fake_lock);
    return id->verbs ? 0 : -1;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    errno = EINVAL;
    if (timeout_ms <= 0)
        return -1;
    pthread_mutex_lock(&fake_lock);
    add_event(own(id), RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* ---- connecting --------------------------------------------------------------------------- */

/* Sends what connects or rejects; private data as the fabric carries it. */
static int send_request(struct fake_id *id, enum fake_frame_kind kind,
                        const struct rdma_conn_param *param, unsigned fixed)
{
    struct fake_request request = {.source = id->id.route.addr.src_storage,
                                   .destination = id->id.route.addr.dst_storage,
                                   .responder_resources = param->responder_resources,
                                   .initiator_depth = param->initiator_depth,
                                   .private_len = param->private_data_len};
    struct fake_frame frame = {.kind = (uint8_t)kind, .length = sizeof request};
    if (param->private_data_len > (fake_is_iwarp() ? FAKE_MOST_PRIVATE : fixed)) {
        errno = EINVAL;
        return -1;
    }
    if (param->private_data_len > 0)
        memcpy(request.private_data, param->private_data, param->private_data_len);
    if (!fake_is_iwarp())
        request.private_len = (uint8_t)fixed;
    return fake_link_send(id, &frame, &request, NULL);
}

static void note_depths(struct fake_id *id, const struct rdma_conn_param *param)
{
    id->initiator_depth = param->initiator_depth;
    if (id->id.qp)
        id->id.qp->state = IBV_QPS_RTS;
}

/* A socket to who listens there. -1 with errno: nobody, mostly. */
static int reach(const struct sockaddr_storage *destination)
{
    struct sockaddr_un name;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    for (int any = 0; any < 2; any++) {
        socklen_t size = socket_name(destination, any, &name);
        if (connect(fd, (struct sockaddr *)&name, size) == 0)
            return fd;
    }
    close(fd);
    errno = ECONNREFUSED;
    return -1;
}

static int connect_id(struct fake_id *id, const struct rdma_conn_param *param)
{
    if (!id->id.qp || id->state != STATE_IDLE || id->fd >= 0) {
        errno = EINVAL;
        return -1;
    }
    id->fd = reach(&id->id.route.addr.dst_storage);
    if (id->fd < 0 && fake_is_iwarp())
        return -1;
    id->state = STATE_CONNECTING;
    if (id->fd < 0) {
        add_event(id, RDMA_CM_EVENT_REJECTED, REJECT_NOBODY_LISTENS);
        return 0;
    }
    note_depths(id, param);
    if (fake_link_watch(id) < 0)
        return -1;
    return send_request(id, FRAME_REQUEST, param, REQUEST_PRIVATE);
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    pthread_mutex_lock(&fake_lock);
    int rc = connect_id(own(id), conn_param);
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    int rc = -1;
    pthread_mutex_lock(&fake_lock);
    errno = EINVAL;
    if (own(id)->state == STATE_REQUESTED && id->qp) {
        note_depths(own(id), conn_param);
        own(id)->state = STATE_REPLIED;
        rc = send_request(own(id), FRAME_REPLY, conn_param, REPLY_PRIVATE);
        if (own(id)->ended)
            fake_cm_ended(own(id));
    }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    struct rdma_conn_param param = {.private_data = private_data,
                                    .private_data_len = private_data_len};
    int rc = -1;
    pthread_mutex_lock(&fake_lock);
    errno = EINVAL;
    if (own(id)->state == STATE_REQUESTED)
        rc = send_request(own(id), FRAME_REJECTION, &param, REJECTION_PRIVATE);
    if (rc == 0)
        own(id)->state = STATE_ENDED;
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    struct fake_id *end = own(id);
    int rc = 0;
    pthread_mutex_lock(&fake_lock);
    if (id->qp)
        fake_qp_fail(fake_qp_of(end));
    if (end->state == STATE_ESTABLISHED || end->state == STATE_REPLIED ||
        end->state == STATE_ENDED) {
        if (end->fd >= 0)
            shutdown(end->fd, SHUT_WR);
        end->mute = true;
        if (end->state != STATE_ENDED)
            end->state = STATE_DISCONNECTING;
    } else {
        errno = EINVAL;
        rc = -1;
    }
    pthread_mutex_unlock(&fake_lock);
    return rc;
}

/* ---- what comes over the link ------------------------------------------------------------ */

void fake_cm_accept(struct fake_id *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct fake_id *id = fake_id_new(listener->id.channel, listener->id.context);
    if (!id) {
        close(fd);
        return;
    }
    id->fd = fd;
    id->state = STATE_ACCEPTED_SOCKET;
    id->listener = listener->serial;
    if (fake_link_watch(id) < 0)
        fake_id_free(id);
}

bool fake_cm_ended(struct fake_id *id)
{
    switch (id->state) {
    case STATE_ACCEPTED_SOCKET:
        fake_id_free(id);
        return false;
    case STATE_CONNECTING:
        add_event(id, RDMA_CM_EVENT_REJECTED, fake_is_iwarp() ? -ECONNRESET : REJECT_BY_CONSUMER);
        break;
    case STATE_REPLIED:
        add_event(id, RDMA_CM_EVENT_REJECTED, REJECT_UNKNOWN_CONNECTION);
        break;
    case STATE_ESTABLISHED:
    case STATE_DISCONNECTING:
        add_event(id, RDMA_CM_EVENT_DISCONNECTED, 0);
        break;
    default: /* STATE_REQUESTED: rdma_accept tells */
        return true;
    }
    id->state = STATE_ENDED;
    return true;
}

/* An event with what the peer said. Its reads are answered here, and the other way round. */
static struct fake_event *add_answer(struct fake_id *id, enum rdma_cm_event_type type, int status)
{
    struct fake_event *event = add_event(id, type, status);
    struct rdma_conn_param *conn = &event->event.param.conn;
    memcpy(event->private_data, id->request.private_data, sizeof event->private_data);
    conn->private_data = id->request.private_len > 0 ? event->private_data : NULL;
    conn->private_data_len = id->request.private_len;
    conn->responder_resources = id->request.initiator_depth;
    conn->initiator_depth = id->request.responder_resources;
    return event;
}

static void take_request(struct fake_id *id)
{
    struct fake_id *listener = fake_id_find(id->listener);
    id->id.verbs = fake_shared_context();
    if (!listener || !id->id.verbs) { /* its end comes to be seen by receiving */
        shutdown(id->fd, SHUT_RDWR);
        return;
    }
    id->id.port_num = 1;
    set_source(&id->id, &id->request.destination);
    id->id.route.addr.dst_storage = id->request.source;
    id->state = STATE_REQUESTED;
    add_answer(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0)->event.listen_id = &listener->id;
}

void fake_cm_frame(struct fake_id *id)
{
    static const struct fake_frame established = {.kind = FRAME_ESTABLISHED};
    switch (id->frame.kind) {
    case FRAME_REQUEST:
        take_request(id);
        break;
    case FRAME_REPLY:
        if (id->initiator_depth > id->request.responder_resources)
            id->initiator_depth = id->request.responder_resources;
        id->state = STATE_ESTABLISHED;
        fake_link_send(id, &established, NULL, NULL);
        add_answer(id, RDMA_CM_EVENT_ESTABLISHED, 0);
        break;
    case FRAME_REJECTION:
        id->state = STATE_ENDED;
        if (id->id.qp)
            fake_qp_fail(fake_qp_of(id));
        add_answer(id, RDMA_CM_EVENT_REJECTED, fake_is_iwarp() ? -ECONNRESET : REJECT_BY_CONSUMER);
        break;
    default:
        if (id->state != STATE_REPLIED)
            break;
        id->state = STATE_ESTABLISHED;
        add_event(id, RDMA_CM_EVENT_ESTABLISHED, 0);
        break;
    }
}

/*
 * fake-fabric-link.c - the sockets between processes, and the thread that carries out what comes.
 */
#define _GNU_SOURCE
#include "fake-fabric.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

/* A turn for the others after so many bytes of one connection. */
#define TURN_BYTES ((size_t)1 << 20)

static int epoll_fd = -1, wake_fd = -1;

/* ---- sending ------------------------------------------------------------------------------ */

static void drop_packets(struct fake_id *id)
{
    while (id->packets) {
        struct fake_packet *first = id->packets;
        id->packets = first->next;
        free(first);
    }
    id->last_packet = &id->packets;
}

/* The entries, without the first skip bytes. Their count, or -1: not registered so any more. */
static int entry_vectors(const struct fake_qp *qp, const struct fake_work *work, size_t skip,
                         struct iovec *vectors)
{
    int count = 0;
    for (unsigned i = 0; i < work->count; i++) {
        const struct ibv_sge *entry = &work->entries[i];
        if (!fake_memory_allows(&fake_memory, qp->qp.pd, entry->lkey, entry->addr, entry->length,
                                work->access))
            return -1;
        if (skip < entry->length)
            vectors[count++] = (struct iovec){(char *)(uintptr_t)entry->addr + skip,
                                              entry->length - skip};
        skip -= skip < entry->length ? skip : entry->length;
    }
    return count;
}

/* The range of the frame in this process's memory, without the first skip bytes. */
static int range_vector(const struct fake_id *id, const struct fake_frame *frame, size_t skip,
                        int access, struct iovec *vector)
{
    const struct fake_qp *qp = fake_qp_of(id);
    if (!qp || !fake_memory_allows(&fake_memory, qp->qp.pd, frame->rkey, frame->remote_addr,
                                   frame->length, access))
        return -1;
    *vector = (struct iovec){(char *)(uintptr_t)frame->remote_addr + skip, frame->length - skip};
    return frame->length > skip;
}

/* What of the packet is still to be sent. Their count, or -1: its memory is not there. */
static int packet_vectors(const struct fake_id *id, struct fake_packet *packet,
                          struct iovec *vectors)
{
    size_t skip = packet->sent;
    int count = 0, more;
    if (skip < sizeof packet->frame)
        vectors[count++] = (struct iovec){(char *)&packet->frame + skip,
                                          sizeof packet->frame - skip};
    skip -= skip < sizeof packet->frame ? skip : sizeof packet->frame;
    if (packet->frame.kind == FRAME_READ || packet->frame.length == 0)
        return count;
    if (packet->is_read) {
        more = range_vector(id, &packet->frame, skip, IBV_ACCESS_REMOTE_READ, vectors + count);
    } else if (packet->work && packet->work->access >= 0) {
        more = entry_vectors(fake_qp_of(id), packet->work, skip, vectors + count);
    } else {
        uint8_t *bytes = packet->work ? packet->work->bytes : packet->bytes;
        vectors[count] = (struct iovec){bytes + skip, packet->frame.length - skip};
        more = packet->frame.length > skip;
    }
    return more < 0 ? -1 : count + more;
}

static size_t packet_size(const struct fake_packet *packet)
{
    return sizeof packet->frame + (packet->frame.kind == FRAME_READ ? 0 : packet->frame.length);
}

static void set_wants_room(struct fake_id *id, bool wants)
{
    struct epoll_event event = {.events = EPOLLIN | (wants ? EPOLLOUT : 0), .data.u64 = id->serial};
    if (id->wants_room != wants && !id->ended)
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, id->fd, &event);
    id->wants_room = wants;
}

/* In the middle of a frame there is no other way out. */
static void cut(struct fake_id *id)
{
    shutdown(id->fd, SHUT_WR);
    id->mute = true;
    drop_packets(id);
}

void fake_link_silence(struct fake_id *id)
{
    if (id->packets && id->packets->sent > 0)
        cut(id);
    else
        drop_packets(id);
}

/* Memory that a work request or a read names is not registered any more. */
static void fail_packet(struct fake_id *id, struct fake_packet *packet)
{
    struct fake_qp *qp = fake_qp_of(id);
    if (packet->work && qp) {
        while (qp->sends.first != packet->work)
            fake_qp_complete(qp, fake_qp_take(&qp->sends), IBV_WC_WR_FLUSH_ERR);
        fake_qp_complete(qp, fake_qp_take(&qp->sends), IBV_WC_LOC_PROT_ERR);
    }
    cut(id);
    if (qp)
        fake_qp_fail(qp);
}

static void send_packets(struct fake_id *id)
{
    while (id->packets && !id->mute) {
        struct fake_packet *packet = id->packets;
        struct iovec vectors[FAKE_MOST_ENTRIES + 1];
        struct msghdr message = {.msg_iov = vectors};
        int count = packet_vectors(id, packet, vectors);
        if (count < 0) {
            fail_packet(id, packet);
            return;
        }
        message.msg_iovlen = (size_t)count;
        ssize_t n = sendmsg(id->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) { /* the end comes to be seen by receiving */
            id->mute = true;
            drop_packets(id);
            break;
        }
        packet->sent += (size_t)n;
        if (packet->sent < packet_size(packet))
            continue;
        id->packets = packet->next;
        if (!id->packets)
            id->last_packet = &id->packets;
        free(packet);
    }
    set_wants_room(id, id->packets != NULL);
}

int fake_link_send(struct fake_id *id, const struct fake_frame *frame, const void *bytes,
                   struct fake_work *work)
{
    static const uint64_t one = 1;
    size_t len = bytes ? frame->length : 0;
    struct fake_packet *packet;
    if (id->mute)
        return 0;
    packet = calloc(1, sizeof *packet + len);
    if (!packet)
        return -1;
    packet->frame = *frame;
    packet->work = work;
    packet->is_read = !work && !bytes && frame->kind == FRAME_DATA;
    if (len > 0)
        memcpy(packet->bytes, bytes, len);
    *id->last_packet = packet;
    id->last_packet = &packet->next;
    /* Work requests are the thread's, as they are the adapter's; the rest goes before the program
     * can take it back. */
    if (work)
        return write(wake_fd, &one, sizeof one) == sizeof one ? 0 : -1;
    send_packets(id);
    return 0;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/* A request of the peer is refused: this end of the connection is in error, too. */
static void refuse(struct fake_id *id, enum ibv_wc_status status)
{
    struct fake_frame ack = {.kind = FRAME_ACK, .status = (uint8_t)status};
    fake_qp_fail(fake_qp_of(id));
    fake_link_send(id, &ack, NULL, NULL);
    id->into = INTO_NOWHERE;
}

static void begin_send(struct fake_id *id, struct fake_qp *qp)
{
    if (!qp->receives.first) {
        refuse(id, IBV_WC_RNR_RETRY_EXC_ERR);
    } else if (id->frame.length > qp->receives.first->length) {
        fake_qp_complete(qp, fake_qp_take(&qp->receives), IBV_WC_LOC_LEN_ERR);
        refuse(id, IBV_WC_REM_INV_REQ_ERR);
    } else {
        id->into = INTO_RECEIVE;
    }
}

static void begin_read(struct fake_id *id)
{
    struct fake_frame data = id->frame;
    struct iovec ignored;
    data.kind = FRAME_DATA;
    if (id->frame.length > 0 &&
        range_vector(id, &id->frame, 0, IBV_ACCESS_REMOTE_READ, &ignored) < 0)
        refuse(id, IBV_WC_REM_ACCESS_ERR);
    else
        fake_link_send(id, &data, NULL, NULL);
}

/* A frame has come: where do the bytes go that follow? */
static void begin_frame(struct fake_id *id)
{
    struct fake_qp *qp = fake_qp_of(id);
    struct iovec ignored;
    id->got = 0;
    id->into = INTO_NOWHERE;
    if (id->frame.kind <= FRAME_ESTABLISHED) {
        id->into = INTO_REQUEST;
        return;
    }
    if (!qp || qp->qp.state != IBV_QPS_RTS)
        return;
    switch (id->frame.kind) {
    case FRAME_SEND:
        begin_send(id, qp);
        break;
    case FRAME_WRITE:
        if (range_vector(id, &id->frame, 0, IBV_ACCESS_REMOTE_WRITE, &ignored) < 0)
            refuse(id, IBV_WC_REM_ACCESS_ERR);
        else
            id->into = INTO_MEMORY;
        break;
    case FRAME_READ:
        begin_read(id);
        break;
    case FRAME_DATA:
        id->into = INTO_READ;
        break;
    default:
        break;
    }
}

static void acknowledge(struct fake_id *id)
{
    static const struct fake_frame ack = {.kind = FRAME_ACK, .status = IBV_WC_SUCCESS};
    fake_link_send(id, &ack, NULL, NULL);
}

/* FAKE_FABRIC_FLIP, for a write that has come in. */
static void damage(const struct fake_id *id)
{
    const char *text = getenv("FAKE_FABRIC_FLIP");
    char *place;
    struct fake_frame frame = id->frame;
    struct iovec byte;
    if (!text || strtoull(text, &place, 10) != frame.length || *place != ':')
        return;
    frame.remote_addr += (uint64_t)strtoll(place + 1, NULL, 10);
    frame.length = 1;
    if (range_vector(id, &frame, 0, IBV_ACCESS_REMOTE_WRITE, &byte) > 0)
        *(uint8_t *)byte.iov_base ^= 1;
}

/* The answer to the oldest work request. */
static void end_work(struct fake_qp *qp, enum ibv_wc_status status)
{
    struct fake_work *work = fake_qp_take(&qp->sends);
    if (!work)
        return;
    fake_qp_complete(qp, work, status);
    if (status != IBV_WC_SUCCESS)
        fake_qp_fail(qp);
}

static void end_frame(struct fake_id *id)
{
    struct fake_qp *qp = fake_qp_of(id);
    switch (id->into) {
    case INTO_REQUEST:
        fake_cm_frame(id);
        break;
    case INTO_RECEIVE:
        qp->receives.first->done.byte_len = (uint32_t)id->frame.length;
        fake_qp_complete(qp, fake_qp_take(&qp->receives), IBV_WC_SUCCESS);
        acknowledge(id);
        break;
    case INTO_MEMORY:
        damage(id);
        acknowledge(id);
        break;
    case INTO_READ:
        end_work(qp, IBV_WC_SUCCESS);
        break;
    case INTO_NOWHERE:
        if (id->frame.kind == FRAME_ACK && qp && qp->qp.state == IBV_QPS_RTS)
            end_work(qp, (enum ibv_wc_status)id->frame.status);
        break;
    }
}

static uint64_t following(const struct fake_frame *frame)
{
    return frame->kind == FRAME_READ || frame->kind == FRAME_ACK ? 0 : frame->length;
}

/* Where the next bytes go; what must not be written any more goes nowhere. */
static int next_vectors(struct fake_id *id, uint8_t *nowhere, size_t size, struct iovec *vectors)
{
    struct fake_qp *qp = fake_qp_of(id);
    int count = -1;
    if (id->frame_got < sizeof id->frame) {
        vectors[0] = (struct iovec){(char *)&id->frame + id->frame_got,
                                    sizeof id->frame - id->frame_got};
        return 1;
    }
    if (id->into != INTO_REQUEST && (!qp || qp->qp.state != IBV_QPS_RTS))
        id->into = INTO_NOWHERE;
    if (id->into == INTO_REQUEST && id->frame.length <= sizeof id->request) {
        vectors[0] = (struct iovec){(char *)&id->request + id->got, id->frame.length - id->got};
        return 1;
    }
    if (id->into == INTO_MEMORY) {
        count = range_vector(id, &id->frame, id->got, IBV_ACCESS_REMOTE_WRITE, vectors);
        if (count < 0)
            refuse(id, IBV_WC_REM_ACCESS_ERR);
    } else if (id->into == INTO_RECEIVE || id->into == INTO_READ) {
        struct fake_queue *queue = id->into == INTO_READ ? &qp->sends : &qp->receives;
        count = queue->first ? entry_vectors(qp, queue->first, id->got, vectors) : -1;
        if (count < 0 && queue->first) {
            fake_qp_complete(qp, fake_qp_take(queue), IBV_WC_LOC_PROT_ERR);
            refuse(id, IBV_WC_REM_OP_ERR);
        }
    }
    if (count > 0)
        return count;
    vectors[0] = (struct iovec){nowhere, size};
    return 1;
}

/* No more than the frame has: what a receive has room for may be more. */
static void limit(struct iovec *vectors, int count, uint64_t bytes)
{
    for (int i = 0; i < count; i++) {
        if (vectors[i].iov_len > bytes)
            vectors[i].iov_len = bytes;
        bytes -= vectors[i].iov_len;
    }
}

/* false: the id is gone. */
static bool end_link(struct fake_id *id)
{
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, id->fd, NULL);
    id->ended = true;
    return fake_cm_ended(id);
}

/* false: the id is gone. */
static bool receive(struct fake_id *id)
{
    static uint8_t nowhere[65536];
    struct iovec vectors[FAKE_MOST_ENTRIES];
    for (size_t turn = 0; turn < TURN_BYTES;) {
        struct msghdr message = {.msg_iov = vectors};
        bool in_frame = id->frame_got < sizeof id->frame;
        int count = next_vectors(id, nowhere, sizeof nowhere, vectors);
        limit(vectors, count, in_frame ? sizeof id->frame : following(&id->frame) - id->got);
        message.msg_iovlen = (size_t)count;
        ssize_t n = recvmsg(id->fd, &message, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0)
            return end_link(id);
        turn += (size_t)n;
        if (in_frame) {
            id->frame_got += (size_t)n;
            if (id->frame_got < sizeof id->frame)
                continue;
            begin_frame(id);
        } else {
            id->got += (size_t)n;
        }
        if (id->got < following(&id->frame))
            continue;
        id->frame_got = 0;
        end_frame(id);
    }
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void attend(const struct epoll_event *event)
{
    struct fake_id *id = fake_id_find(event->data.u64);
    if (!id || id->fd < 0 || id->ended)
        return;
    if (id->state == STATE_LISTENING)
        fake_cm_accept(id);
    else if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(id);
}

static void *thread_main(void *ignored)
{
    struct epoll_event events[64];
    for (;;) {
        uint64_t kicks;
        int count = epoll_wait(epoll_fd, events, sizeof events / sizeof events[0], -1);
        pthread_mutex_lock(&fake_lock);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == 0 && read(wake_fd, &kicks, sizeof kicks) < 0)
                fake_abort("the thread's own descriptor");
            if (events[i].data.u64 != 0)
                attend(&events[i]);
        }
        for (struct fake_id *id = fake_ids; id; id = id->next)
            if (id->packets)
                send_packets(id);
        pthread_mutex_unlock(&fake_lock);
    }
    return ignored;
}

static int start_thread(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    pthread_t thread;
    sigset_t all, old;
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (wake_fd < 0 || epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) < 0)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    errno = pthread_create(&thread, NULL, thread_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (errno == 0)
        pthread_detach(thread);
    return errno ? -1 : 0;
}

int fake_link_watch(struct fake_id *id)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = id->serial};
    if (epoll_fd < 0 && start_thread() < 0)
        return -1;
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, id->fd, &event);
}

void fake_link_close(struct fake_id *id)
{
    drop_packets(id);
    if (id->fd >= 0)
        close(id->fd);
    id->fd = -1;
    id->mute = id->ended = true;
}

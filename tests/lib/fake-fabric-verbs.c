/*
 * fake-fabric-verbs.c - libibverbs' part of the fake fabric: the device, domains, queues, and what is left.
 */
#define _GNU_SOURCE
#include "fake-fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define CM_NODE "/dev/infiniband/rdma_cm"
#define MOST_WORKS 16384
#define MOST_COMPLETIONS 65536

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_memory fake_memory;

static unsigned counts[FAKE_KINDS];

struct completion {
    struct ibv_wc wc;
    struct fake_qp *qp;
    bool is_receive;
    unsigned retires; /* so many requests have left the send queue with it */
    struct completion *next;
};

struct queue {
    struct ibv_cq cq;
    struct completion *first, **last;
    struct queue *next_event; /* on the channel's list */
    unsigned queue_pairs, events_taken;
    bool armed, announced;
};

struct completion_channel {
    struct ibv_comp_channel channel; /* its fd is the bell's */
    struct fake_bell bell;
    struct queue *events;
};

/* ---- what all share --------------------------------------------------------------------------- */

void fake_abort(const char *what)
{
    fprintf(stderr, "fake-fabric: %s\n", what);
    abort();
}

bool fake_is_iwarp(void)
{
    const char *kind = getenv("FAKE_FABRIC_KIND");
    return kind && strcmp(kind, "iwarp") == 0;
}

uint64_t fake_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint64_t most_bytes(void)
{
    return fake_number("FAKE_FABRIC_MAX_MSG", UINT32_C(1) << 23);
}

void fake_count(enum fake_kind kind, int change)
{
    counts[kind] += (unsigned)change;
}

static void count_locked(enum fake_kind kind, int change)
{
    pthread_mutex_lock(&fake_lock);
    fake_count(kind, change);
    pthread_mutex_unlock(&fake_lock);
}

int fake_bell_open(struct fake_bell *bell)
{
    *bell = (struct fake_bell){.fd = eventfd(0, EFD_CLOEXEC)};
    return bell->fd < 0 ? -1 : 0;
}

void fake_bell_close(struct fake_bell *bell)
{
    close(bell->fd);
}

void fake_bell_set(struct fake_bell *bell, bool ring)
{
    eventfd_t value;
    if (bell->rung == ring)
        return;
    if ((ring ? eventfd_write(bell->fd, 1) : eventfd_read(bell->fd, &value)) < 0)
        fake_abort("a descriptor that does not work any more");
    bell->rung = ring;
}

int fake_bell_wait(const struct fake_bell *bell)
{
    struct pollfd fd = {.fd = bell->fd, .events = POLLIN};
    int flags = fcntl(bell->fd, F_GETFL);
    if (flags < 0 || flags & O_NONBLOCK) {
        errno = EAGAIN;
        return -1;
    }
    return poll(&fd, 1, -1) < 0 ? -1 : 0;
}

/* At the end of the process. */
__attribute__((destructor)) static void report(void)
{
    static const char *const names[FAKE_KINDS] = {
        [FAKE_CHANNEL] = "event channel",
        [FAKE_ID] = "id",
        [FAKE_QUEUE_PAIR] = "queue pair",
        [FAKE_DOMAIN] = "protection domain",
        [FAKE_COMPLETION_CHANNEL] = "completion channel",
        [FAKE_COMPLETION_QUEUE] = "completion queue",
        [FAKE_CONTEXT] = "open device",
        [FAKE_DEVICE_LIST] = "device list",
    };
    const char *path = getenv("FAKE_FABRIC_REPORT");
    bool nothing = true;
    pthread_mutex_lock(&fake_lock);
    FILE *file = path && fake_memory.last_key != 0 ? fopen(path, "ae") : NULL;
    if (file) {
        fprintf(file, "%d:", (int)getpid());
        for (int kind = 0; kind < FAKE_KINDS; kind++)
            if (counts[kind] > 0)
                nothing = fprintf(file, " %u %s", counts[kind], names[kind]) < 0;
        if (fake_memory.count > 0)
            nothing = fprintf(file, " %u registration", fake_memory.count) < 0;
        fputs(nothing ? " nothing\n" : "\n", file);
        fclose(file);
    }
    pthread_mutex_unlock(&fake_lock);
}

/* ---- the device --------------------------------------------------------------------------- */

/* The program looks for the node before it uses librdmacm. */
int access(const char *path, int mode)
{
    if (strcmp(path, CM_NODE) == 0)
        return 0;
    return faccessat(AT_FDCWD, path, mode, 0);
}

static struct ibv_device device = {.name = "fake0", .dev_name = "fake0"};

static struct ibv_device *the_device(void)
{
    device.node_type = fake_is_iwarp() ? IBV_NODE_RNIC : IBV_NODE_CA;
    device.transport_type = fake_is_iwarp() ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    return &device;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct ibv_device **list = calloc(2, sizeof *list);
    if (!list)
        return NULL;
    list[0] = the_device();
    if (num_devices)
        *num_devices = 1;
    count_locked(FAKE_DEVICE_LIST, 1);
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    count_locked(FAKE_DEVICE_LIST, -1);
    free(list);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int poll_queue(struct ibv_cq *cq, int count, struct ibv_wc *wc);
static int arm_queue(struct ibv_cq *cq, int solicited_only);

static int open_context(struct ibv_context *context)
{
    *context = (struct ibv_context){.device = the_device(),
                                    .ops = {.post_send = post_send,
                                            .post_recv = post_receive,
                                            .poll_cq = poll_queue,
                                            .req_notify_cq = arm_queue},
                                    .async_fd = eventfd(0, EFD_CLOEXEC),
                                    .cmd_fd = -1,
                                    .num_comp_vectors = 1};
    return context->async_fd < 0 ? -1 : 0;
}

/* Keys that another process does not have. */
static int choose_keys(void)
{
    uint32_t random;
    if (fake_memory.last_key != 0)
        return 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return -1;
    fake_memory.last_key = 1 + random % UINT32_C(0x3fffffff);
    return 0;
}

struct ibv_context *fake_shared_context(void)
{
    static struct ibv_context context;
    if (choose_keys() < 0 || (!context.device && open_context(&context) < 0))
        return NULL;
    return &context;
}

struct ibv_context *ibv_open_device(struct ibv_device *opened)
{
    struct ibv_context *context = calloc(1, sizeof *context);
    (void)opened;
    if (!context || open_context(context) < 0) {
        free(context);
        return NULL;
    }
    count_locked(FAKE_CONTEXT, 1);
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    count_locked(FAKE_CONTEXT, -1);
    close(context->async_fd);
    free(context);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){
        .max_mr_size = UINT64_MAX,
        .max_qp = 4096,
        .max_qp_wr = MOST_WORKS,
        .max_sge = fake_is_iwarp() ? 6 : FAKE_MOST_ENTRIES,
        .max_cq = 4096,
        .max_cqe = MOST_COMPLETIONS,
        .max_mr = 65536,
        .max_pd = 4096,
        .max_qp_rd_atom = 16,
        .max_qp_init_rd_atom = 16,
        .phys_port_cnt = 1,
    };
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *port_attr)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)port_attr;
    (void)context;
    if (port_num != 1)
        return EINVAL;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = IBV_MTU_1024;
    attr->gid_tbl_len = 1;
    attr->max_msg_sz = (uint32_t)most_bytes();
    attr->phys_state = 5; /* LinkUp */
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
    (void)context;
    if (port_num != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *gid = (union ibv_gid){.raw = {0xfe, 0x80, [15] = 1}};
    return 0;
}

/* The descriptor is never readable. */
int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    eventfd_t value;
    (void)event;
    return eventfd_read(context->async_fd, &value) < 0 ? -1 : (errno = EIO, -1);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* ---- domains and memory ------------------------------------------------------------------------- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof *pd);
    if (!pd)
        return NULL;
    pd->context = context;
    count_locked(FAKE_DOMAIN, 1);
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    pthread_mutex_lock(&fake_lock);
    bool busy = fake_memory_uses(&fake_memory, pd);
    for (const struct fake_id *id = fake_ids; id; id = id->next)
        busy |= id->id.qp && id->id.qp->pd == pd;
    if (!busy)
        fake_count(FAKE_DOMAIN, -1);
    pthread_mutex_unlock(&fake_lock);
    if (busy)
        return EBUSY;
    free(pd);
    return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    pthread_mutex_lock(&fake_lock);
    struct ibv_mr *mr = fake_memory_register(&fake_memory, pd, addr, length, access);
    pthread_mutex_unlock(&fake_lock);
    return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&fake_lock);
    bool known = fake_memory_deregister(&fake_memory, mr);
    pthread_mutex_unlock(&fake_lock);
    return known ? 0 : EINVAL;
}

/* ---- completions -------------------------------------------------------------------------- */

static struct queue *queue_of(struct ibv_cq *cq)
{
    return (struct queue *)cq; /* the first member */
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct completion_channel *channel = calloc(1, sizeof *channel);
    if (!channel || fake_bell_open(&channel->bell) < 0) {
        free(channel);
        return NULL;
    }
    channel->channel.context = context;
    channel->channel.fd = channel->bell.fd;
    count_locked(FAKE_COMPLETION_CHANNEL, 1);
    return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct completion_channel *gone = (struct completion_channel *)channel;
    if (channel->refcnt > 0)
        return EBUSY;
    fake_bell_close(&gone->bell);
    free(gone);
    count_locked(FAKE_COMPLETION_CHANNEL, -1);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    struct queue *queue = NULL;
    (void)comp_vector;
    errno = EINVAL;
    if (cqe < 1 || cqe > MOST_COMPLETIONS || !(queue = calloc(1, sizeof *queue)))
        return NULL;
    queue->cq.context = context;
    queue->cq.channel = channel;
    queue->cq.cq_context = cq_context;
    queue->cq.cqe = cqe;
    queue->last = &queue->first;
    pthread_mutex_lock(&fake_lock);
    if (channel)
        channel->refcnt++;
    fake_count(FAKE_COMPLETION_QUEUE, 1);
    pthread_mutex_unlock(&fake_lock);
    return &queue->cq;
}

/* Takes an announced queue off its channel. */
static void withdraw(struct queue *queue)
{
    struct completion_channel *channel = (struct completion_channel *)queue->cq.channel;
    struct queue **at = &channel->events;
    while (*at != queue)
        at = &(*at)->next_event;
    *at = queue->next_event;
    queue->announced = false;
    fake_bell_set(&channel->bell, channel->events != NULL);
}

static void free_queue(struct queue *queue)
{
    if (queue->events_taken > 0)
        fake_abort("ibv_destroy_cq: events are not acknowledged");
    if (queue->announced)
        withdraw(queue);
    if (queue->cq.channel)
        queue->cq.channel->refcnt--;
    while (queue->first) {
        struct completion *first = queue->first;
        queue->first = first->next;
        free(first);
    }
    free(queue);
    fake_count(FAKE_COMPLETION_QUEUE, -1);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    pthread_mutex_lock(&fake_lock);
    bool busy = queue_of(cq)->queue_pairs > 0;
    if (!busy)
        free_queue(queue_of(cq));
    pthread_mutex_unlock(&fake_lock);
    return busy ? EBUSY : 0;
}

static void announce(struct queue *queue)
{
    struct completion_channel *channel = (struct completion_channel *)queue->cq.channel;
    if (!queue->armed || !channel)
        return;
    queue->armed = false;
    if (queue->announced)
        return;
    queue->announced = true;
    queue->next_event = channel->events;
    channel->events = queue;
    fake_bell_set(&channel->bell, true);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct completion_channel *from = (struct completion_channel *)channel;
    for (;;) {
        pthread_mutex_lock(&fake_lock);
        if (from->events)
            break;
        pthread_mutex_unlock(&fake_lock);
        if (fake_bell_wait(&from->bell) < 0)
            return -1;
    }
    struct queue *queue = from->events;
    withdraw(queue);
    queue->events_taken++;
    *cq = &queue->cq;
    *cq_context = queue->cq.cq_context;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    pthread_mutex_lock(&fake_lock);
    queue_of(cq)->events_taken -= nevents;
    pthread_mutex_unlock(&fake_lock);
}

static int arm_queue(struct ibv_cq *cq, int solicited_only)
{
    (void)solicited_only;
    pthread_mutex_lock(&fake_lock);
    queue_of(cq)->armed = true;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

static int poll_queue(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct queue *queue = queue_of(cq);
    int taken = 0;
    pthread_mutex_lock(&fake_lock);
    while (taken < count && queue->first) {
        struct completion *first = queue->first;
        queue->first = first->next;
        if (!queue->first)
            queue->last = &queue->first;
        first->qp->send_used -= first->retires;
        wc[taken++] = first->wc;
        free(first);
    }
    pthread_mutex_unlock(&fake_lock);
    return taken;
}

void fake_qp_complete(struct fake_qp *qp, struct fake_work *work, enum ibv_wc_status status)
{
    bool is_receive = work->done.opcode == IBV_WC_RECV;
    struct queue *queue = queue_of(is_receive ? qp->qp.recv_cq : qp->qp.send_cq);
    if (is_receive)
        qp->receive_used--;
    else
        qp->finished++;
    if (work->signalled || status != IBV_WC_SUCCESS) {
        struct completion *new = calloc(1, sizeof *new);
        if (!new)
            fake_abort("no memory for a completion");
        new->wc = work->done;
        /* The other fields mean nothing in a failed one: let them be of no use. */
        if (status != IBV_WC_SUCCESS)
            memset(&new->wc, 0xa5, sizeof new->wc);
        new->wc.wr_id = work->done.wr_id;
        new->wc.status = status;
        new->wc.qp_num = qp->qp.qp_num;
        new->qp = qp;
        if (!is_receive) {
            new->retires = qp->finished;
            qp->finished = 0;
        }
        *queue->last = new;
        queue->last = &new->next;
        announce(queue);
    }
    free(work);
}

/* ---- queue pairs --------------------------------------------------------------------------- */

struct fake_qp *fake_qp_of(const struct fake_id *id)
{
    return (struct fake_qp *)id->id.qp; /* the first member */
}

struct fake_work *fake_qp_take(struct fake_queue *queue)
{
    struct fake_work *first = queue->first;
    if (first && !(queue->first = first->next))
        queue->last = &queue->first;
    return first;
}

static void put(struct fake_queue *queue, struct fake_work *work)
{
    *queue->last = work;
    queue->last = &work->next;
}

void fake_qp_fail(struct fake_qp *qp)
{
    struct fake_work *work;
    if (qp->id)
        fake_link_silence(qp->id);
    qp->qp.state = IBV_QPS_ERR;
    while ((work = fake_qp_take(&qp->sends)))
        fake_qp_complete(qp, work, IBV_WC_WR_FLUSH_ERR);
    while ((work = fake_qp_take(&qp->receives)))
        fake_qp_complete(qp, work, IBV_WC_WR_FLUSH_ERR);
}

/* Completions of a queue pair that is gone are not polled any more. */
static void forget_completions(struct queue *queue, const struct fake_qp *qp)
{
    queue->last = &queue->first;
    while (*queue->last) {
        struct completion *at = *queue->last;
        if (at->qp == qp) {
            *queue->last = at->next;
            free(at);
        } else {
            queue->last = &at->next;
        }
    }
}

static void release(struct fake_qp *qp, struct ibv_cq *cq)
{
    queue_of(cq)->queue_pairs--;
    forget_completions(queue_of(cq), qp);
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static uint32_t numbers;
    const struct ibv_qp_cap *cap = &attr->cap;
    unsigned most_entries = fake_is_iwarp() ? 6 : FAKE_MOST_ENTRIES;
    errno = EINVAL;
    if (!id->verbs || id->qp || !pd || attr->qp_type != IBV_QPT_RC ||
        cap->max_send_sge > most_entries || cap->max_recv_sge > most_entries ||
        cap->max_inline_data > fake_number("FAKE_FABRIC_MAX_INLINE", FAKE_MOST_INLINE) ||
        cap->max_send_wr > MOST_WORKS || cap->max_recv_wr > MOST_WORKS ||
        !attr->send_cq != !attr->recv_cq)
        return -1;
    struct fake_qp *qp = calloc(1, sizeof *qp);
    if (qp && !attr->send_cq)
        qp->own_cq = ibv_create_cq(id->verbs, MOST_COMPLETIONS, id, NULL, 0);
    if (!qp || (!attr->send_cq && !qp->own_cq)) {
        free(qp);
        return -1;
    }
    qp->qp = (struct ibv_qp){.context = id->verbs,
                             .qp_context = attr->qp_context,
                             .pd = pd,
                             .send_cq = qp->own_cq ? qp->own_cq : attr->send_cq,
                             .recv_cq = qp->own_cq ? qp->own_cq : attr->recv_cq,
                             .state = IBV_QPS_INIT,
                             .qp_type = IBV_QPT_RC};
    qp->cap = *cap;
    qp->id = (struct fake_id *)id;
    qp->sends.last = &qp->sends.first;
    qp->receives.last = &qp->receives.first;
    pthread_mutex_lock(&fake_lock);
    qp->qp.qp_num = ++numbers;
    queue_of(qp->qp.send_cq)->queue_pairs++;
    queue_of(qp->qp.recv_cq)->queue_pairs++;
    fake_count(FAKE_QUEUE_PAIR, 1);
    id->qp = &qp->qp;
    id->pd = pd;
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return create_qp(id, pd, attr);
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    struct fake_qp *qp = fake_qp_of((struct fake_id *)id);
    struct ibv_cq *own_cq = qp->own_cq;
    pthread_mutex_lock(&fake_lock);
    fake_qp_fail(qp);
    release(qp, qp->qp.send_cq);
    release(qp, qp->qp.recv_cq);
    id->qp = NULL;
    free(qp);
    fake_count(FAKE_QUEUE_PAIR, -1);
    pthread_mutex_unlock(&fake_lock);
    if (own_cq)
        ibv_destroy_cq(own_cq);
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    (void)attr_mask;
    pthread_mutex_lock(&fake_lock);
    *attr = (struct ibv_qp_attr){.qp_state = qp->state, .cur_qp_state = qp->state};
    *init_attr = (struct ibv_qp_init_attr){.send_cq = qp->send_cq, .recv_cq = qp->recv_cq};
    pthread_mutex_unlock(&fake_lock);
    return 0;
}

/* A copy of a request's entries, and of its bytes when they are inline. NULL: no memory. */
static struct fake_work *new_work(uint64_t wr_id, const struct ibv_sge *entries, int count,
                                  bool is_inline)
{
    uint64_t length = 0;
    for (int i = 0; i < count; i++)
        length += entries[i].length;
    struct fake_work *work = calloc(1, sizeof *work + (is_inline ? length : 0));
    if (!work)
        return NULL;
    work->done = (struct ibv_wc){.wr_id = wr_id, .byte_len = (uint32_t)length};
    work->length = length;
    work->count = (unsigned)count;
    uint8_t *at = work->bytes;
    for (int i = 0; i < count; i++) {
        work->entries[i] = entries[i];
        if (is_inline)
            memcpy(at, (const void *)(uintptr_t)entries[i].addr, entries[i].length);
        at += is_inline ? entries[i].length : 0;
    }
    return work;
}

static int check_send(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    uint64_t length = 0;
    if (qp->qp.state != IBV_QPS_RTS && qp->qp.state != IBV_QPS_ERR)
        return EINVAL;
    if (wr->num_sge < 0 || (unsigned)wr->num_sge > qp->cap.max_send_sge)
        return EINVAL;
    for (int i = 0; i < wr->num_sge; i++)
        length += wr->sg_list[i].length;
    if (length > most_bytes() ||
        (wr->send_flags & IBV_SEND_INLINE && length > qp->cap.max_inline_data))
        return EINVAL;
    /* With adapters such a read never completes. */
    if (wr->opcode == IBV_WR_RDMA_READ && qp->id && qp->id->initiator_depth == 0)
        return EINVAL;
    return qp->send_used == qp->cap.max_send_wr ? ENOMEM : 0;
}

static int post_one(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
    struct fake_frame frame = {.kind = FRAME_SEND};
    bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    int errnum = check_send(qp, wr);
    if (errnum != 0)
        return errnum;
    struct fake_work *work = new_work(wr->wr_id, wr->sg_list, wr->num_sge, is_inline);
    if (!work)
        return ENOMEM;
    work->access = is_inline ? -1 : 0;
    work->signalled = (wr->send_flags & IBV_SEND_SIGNALED) != 0;
    work->done.opcode = IBV_WC_SEND;
    if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
        bool reads = wr->opcode == IBV_WR_RDMA_READ;
        frame.kind = reads ? FRAME_READ : FRAME_WRITE;
        frame.remote_addr = wr->wr.rdma.remote_addr;
        frame.rkey = wr->wr.rdma.rkey;
        work->done.opcode = reads ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
        work->access = reads ? IBV_ACCESS_LOCAL_WRITE : work->access;
    } else if (wr->opcode != IBV_WR_SEND) {
        free(work);
        return EINVAL;
    }
    frame.length = work->length;
    qp->send_used++;
    put(&qp->sends, work);
    if (qp->qp.state == IBV_QPS_ERR)
        fake_qp_fail(qp);
    else if (qp->id && fake_link_send(qp->id, &frame, NULL, work) < 0)
        return ENOMEM;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int errnum = 0;
    pthread_mutex_lock(&fake_lock);
    for (; wr && errnum == 0; wr = wr->next) {
        errnum = post_one((struct fake_qp *)qp, wr);
        *bad = wr;
    }
    pthread_mutex_unlock(&fake_lock);
    return errnum;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_qp *to = (struct fake_qp *)qp;
    int errnum = 0;
    pthread_mutex_lock(&fake_lock);
    for (; wr && errnum == 0; wr = wr->next) {
        struct fake_work *work = NULL;
        *bad = wr;
        if (wr->num_sge < 0 || (unsigned)wr->num_sge > to->cap.max_recv_sge)
            errnum = EINVAL;
        else if (to->receive_used == to->cap.max_recv_wr ||
                 !(work = new_work(wr->wr_id, wr->sg_list, wr->num_sge, false)))
            errnum = ENOMEM;
        if (!work)
            break;
        work->access = IBV_ACCESS_LOCAL_WRITE;
        work->signalled = true;
        work->done.opcode = IBV_WC_RECV;
        to->receive_used++;
        put(&to->receives, work);
        if (qp->state == IBV_QPS_ERR)
            fake_qp_fail(to);
    }
    pthread_mutex_unlock(&fake_lock);
    return errnum;
}

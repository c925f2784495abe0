/*
 * fake-provider.c - a verbs provider in memory, for unit tests.
 */
#include "config.h"

#include "fake-provider.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake_completion {
    struct ibv_wc wc;
    unsigned retires; /* so many of all requests have left the send queue with it */
};

static struct fake_provider *owner(struct ibv_context *context)
{
    return (struct fake_provider *)((char *)context - offsetof(struct fake_provider, context));
}

/* An array of count items, with room for one more. It grows whenever count is a power of two. */
static void *grown(void *array, unsigned count, size_t size)
{
    void *larger;

    if ((count & (count - 1)) != 0)
        return array;
    larger = reallocarray(array, count ? 2 * (size_t)count : 1, size);
    if (!larger)
        abort();
    return larger;
}

/*
 * Posting
 */

static int refusal(const struct fake_provider *fake, int errnum)
{
    return fake->negative_errno ? -errnum : errnum;
}

static bool is_due(unsigned *countdown)
{
    return *countdown > 0 && --*countdown == 0;
}

static uint64_t message_bytes(const struct ibv_send_wr *wr)
{
    uint64_t bytes = 0;

    for (int i = 0; i < wr->num_sge; i++)
        bytes += wr->sg_list[i].length;
    return bytes;
}

static int check_request(struct fake_provider *fake, const struct ibv_send_wr *wr)
{
    if (is_due(&fake->fail_send))
        return fake->fail_errno;
    if (fake->max_requests && fake_outstanding(fake) == fake->max_requests)
        return ENOMEM;
    if (wr->num_sge < 0 || wr->num_sge > FAKE_MOST_ENTRIES ||
        (fake->max_sge && (unsigned)wr->num_sge > fake->max_sge))
        return EINVAL;
    if (fake->max_msg_sz && message_bytes(wr) > fake->max_msg_sz)
        return EINVAL;
    return 0;
}

static void record(struct fake_provider *fake, const struct ibv_send_wr *wr)
{
    struct fake_request *request;

    fake->requests = grown(fake->requests, fake->request_count, sizeof(*fake->requests));
    request = &fake->requests[fake->request_count++];
    *request = (struct fake_request){
        .wr_id = wr->wr_id,
        .opcode = wr->opcode,
        .flags = wr->send_flags,
        .count = (unsigned)wr->num_sge,
    };
    if (wr->opcode != IBV_WR_SEND) {
        request->remote_addr = wr->wr.rdma.remote_addr;
        request->rkey = wr->wr.rdma.rkey;
    }
    for (unsigned i = 0; i < request->count; i++)
        request->entries[i] = wr->sg_list[i];
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_provider *fake = owner(qp->context);

    for (; wr; wr = wr->next) {
        int errnum = check_request(fake, wr);

        if (errnum != 0) {
            *bad = wr;
            return refusal(fake, errnum);
        }
        record(fake, wr);
        if (fake->posted)
            fake->posted(fake->posted_context, fake_last(fake));
    }
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fake_provider *fake = owner(qp->context);

    if (is_due(&fake->fail_receive) || wr->next || wr->num_sge != 1) {
        *bad = wr;
        return refusal(fake, fake->fail_errno ? fake->fail_errno : EINVAL);
    }
    fake->receives = grown(fake->receives, fake->receive_count, sizeof(*fake->receives));
    fake->receives[fake->receive_count++] = (struct fake_receive){wr->wr_id, *wr->sg_list};
    if (fake->posted)
        fake->posted(fake->posted_context, NULL);
    return 0;
}

/*
 * Completing
 */

static void announce(struct fake_provider *fake)
{
    if (!fake->armed || !fake->has_channel)
        return;
    fake->armed = false;
    if (write(fake->event_fd, "", 1) != 1)
        abort();
}

static void complete(struct fake_provider *fake, const struct ibv_wc *wc, unsigned retires)
{
    fake->completions = grown(fake->completions, fake->completion_count,
                              sizeof(*fake->completions));
    fake->completions[fake->completion_count++] = (struct fake_completion){*wc, retires};
    announce(fake);
}

void fake_push_completion(struct fake_provider *fake, const struct ibv_wc *wc)
{
    complete(fake, wc, 0);
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    struct fake_provider *fake = owner(cq->context);
    int taken = 0;

    if (fake->poll_result < 0)
        return fake->poll_result;
    while (taken < count && fake->polled_count < fake->completion_count) {
        const struct fake_completion *next = &fake->completions[fake->polled_count++];

        if (next->retires > fake->retired_count)
            fake->retired_count = next->retires;
        wc[taken++] = next->wc;
    }
    return taken;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct fake_provider *fake = owner(cq->context);

    (void)solicited_only;
    if (fake->arm_result != 0)
        return fake->arm_result;
    fake->arms++;
    fake->armed = true;
    return 0;
}

/*
 * Carrying out
 */

static bool may_write(const struct fake_provider *fake, const struct fake_request *request,
                      uint64_t bytes)
{
    uint64_t at = request->remote_addr - fake->far_addr;

    return fake->far_memory && request->rkey == fake->far_rkey &&
           request->remote_addr >= fake->far_addr && at <= fake->far_bytes &&
           bytes <= fake->far_bytes - at;
}

static enum ibv_wc_status carry_out(struct fake_provider *fake, const struct fake_request *request)
{
    enum ibv_wc_status status = fake->next_status;
    uint64_t bytes = 0;
    uint8_t *to;

    fake->next_status = IBV_WC_SUCCESS;
    if (fake->broken)
        return IBV_WC_WR_FLUSH_ERR;
    if (status != IBV_WC_SUCCESS)
        return status;
    for (unsigned i = 0; i < request->count; i++) {
        const struct ibv_sge *entry = &request->entries[i];

        if (!(request->flags & IBV_SEND_INLINE) &&
            !fake_memory_allows(&fake->memory, &fake->domain, entry->lkey, entry->addr,
                                entry->length, 0))
            return IBV_WC_LOC_PROT_ERR;
        bytes += entry->length;
    }
    if (request->opcode != IBV_WR_RDMA_WRITE || bytes == 0)
        return IBV_WC_SUCCESS;
    if (!may_write(fake, request, bytes))
        return IBV_WC_REM_ACCESS_ERR;
    to = fake->far_memory + (request->remote_addr - fake->far_addr);
    for (unsigned i = 0; i < request->count; i++) {
        const struct ibv_sge *entry = &request->entries[i];

        memcpy(to, (const void *)(uintptr_t)entry->addr, entry->length);
        to += entry->length;
    }
    return IBV_WC_SUCCESS;
}

void fake_run(struct fake_provider *fake, unsigned count)
{
    for (; count > 0 && fake->run_count < fake->request_count; count--) {
        const struct fake_request *request = &fake->requests[fake->run_count++];
        enum ibv_wc_status status = carry_out(fake, request);
        struct ibv_wc wc;

        if (status == IBV_WC_SUCCESS && !(request->flags & IBV_SEND_SIGNALED))
            continue;
        /* The other fields mean nothing in a failed one: let them be of no use. */
        memset(&wc, status == IBV_WC_SUCCESS ? 0 : 0xa5, sizeof(wc));
        wc.wr_id = request->wr_id;
        wc.status = status;
        fake->broken |= status != IBV_WC_SUCCESS;
        complete(fake, &wc, fake->run_count);
    }
}

uint8_t *fake_remote(const struct fake_provider *fake, uint64_t addr, uint32_t rkey, uint64_t len)
{
    if (!fake_memory_allows(&fake->memory, &fake->domain, rkey, addr, len, IBV_ACCESS_REMOTE_WRITE))
        return NULL;
    return (uint8_t *)(uintptr_t)addr;
}

void fake_flush(struct fake_provider *fake)
{
    fake->broken = true;
    fake_run(fake, UINT_MAX);
    while (fake->received_count < fake->receive_count) {
        struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR,
                            .wr_id = fake->receives[fake->received_count++].wr_id};

        complete(fake, &wc, 0);
    }
}

bool fake_deliver(struct fake_provider *fake, const void *data, size_t len)
{
    const struct fake_receive *receive;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV};

    if (fake->broken || fake->received_count == fake->receive_count)
        return false;
    receive = &fake->receives[fake->received_count++];
    if (len > receive->entry.length ||
        !fake_memory_allows(&fake->memory, &fake->domain, receive->entry.lkey, receive->entry.addr,
                            receive->entry.length, IBV_ACCESS_LOCAL_WRITE))
        abort();
    memcpy((void *)(uintptr_t)receive->entry.addr, data, len);
    wc.wr_id = receive->wr_id;
    wc.byte_len = (uint32_t)len;
    complete(fake, &wc, 0);
    return true;
}

/*
 * The provider itself
 */

void fake_open(struct fake_provider *fake)
{
    memset(fake, 0, sizeof(*fake));
    snprintf(fake->device.name, sizeof(fake->device.name), "fake0");
    fake->context.device = &fake->device;
    fake->context.ops.post_send = post_send;
    fake->context.ops.post_recv = post_recv;
    fake->context.ops.poll_cq = poll_cq;
    fake->context.ops.req_notify_cq = req_notify_cq;
    fake->domain.context = &fake->context;
    fake->queue_pair.context = &fake->context;
    fake->queue_pair.pd = &fake->domain;
    fake->completion_queue.context = &fake->context;
    fake->id.verbs = &fake->context;
    fake->id.pd = &fake->domain;
    fake->id.qp = &fake->queue_pair;
    fake->channel.fd = fake->event_fd = -1;
}

static void close_channel(struct fake_provider *fake)
{
    if (fake->has_channel) {
        close(fake->channel.fd);
        close(fake->event_fd);
    }
    fake->has_channel = false;
}

void fake_close(struct fake_provider *fake)
{
    close_channel(fake);
    fake_memory_deregister_all(&fake->memory);
    free(fake->requests);
    free(fake->receives);
    free(fake->completions);
}

const struct fake_request *fake_last(const struct fake_provider *fake)
{
    return &fake->requests[fake->request_count - 1];
}

unsigned fake_outstanding(const struct fake_provider *fake)
{
    return fake->request_count - fake->retired_count;
}

struct ibv_mr *fake_register(struct fake_provider *fake, void *addr, size_t len)
{
    return ibv_reg_mr(&fake->domain, addr, len, IBV_ACCESS_LOCAL_WRITE);
}

/*
 * In place of libibverbs
 */

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    struct fake_provider *fake = owner(pd->context);

    if (fake->fail_registration) {
        errno = fake->fail_registration;
        return NULL;
    }
    fake->last_access = access;
    return fake_memory_register(&fake->memory, pd, addr, length, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                unsigned int access)
{
    (void)iova;
    return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct fake_provider *fake = owner(mr->context);

    return fake_memory_deregister(&fake->memory, mr) ? 0 : EINVAL;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                 struct ibv_qp_init_attr *init_attr)
{
    (void)attr_mask, (void)init_attr;
    attr->qp_state = owner(qp->context)->state;
    return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct fake_provider *fake = owner(context);

    if (!fake->access_event)
        return -1;
    fake->access_event = false;
    event->event_type = IBV_EVENT_QP_ACCESS_ERR;
    event->element.qp = &fake->queue_pair;
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct fake_provider *fake = owner(context);
    int fds[2];

    if (fake->fail_channel) {
        errno = fake->fail_channel;
        return NULL;
    }
    if (fake->has_channel || pipe(fds) < 0)
        return NULL;
    fake->channel = (struct ibv_comp_channel){.context = context, .fd = fds[0]};
    fake->event_fd = fds[1];
    fake->has_channel = true;
    return &fake->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct fake_provider *fake = owner(channel->context);

    if (fake->has_queue)
        return EBUSY;
    close_channel(fake);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int comp_vector)
{
    struct fake_provider *fake = owner(context);

    (void)comp_vector;
    if (fake->fail_queue || fake->has_queue) {
        errno = fake->fail_queue ? fake->fail_queue : EBUSY;
        return NULL;
    }
    fake->completion_queue.channel = channel;
    fake->completion_queue.cq_context = cq_context;
    fake->queue_depth = cqe;
    fake->has_queue = true;
    return &fake->completion_queue;
}

/* The real one waits until all events are acknowledged; for ever when one is not. */
int ibv_destroy_cq(struct ibv_cq *cq)
{
    struct fake_provider *fake = owner(cq->context);

    if (fake->events_taken != fake->events_acknowledged)
        return EBUSY;
    fake->has_queue = false;
    return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct fake_provider *fake = owner(channel->context);
    char byte;

    if (read(channel->fd, &byte, 1) != 1)
        return -1;
    fake->events_taken++;
    *cq = &fake->completion_queue;
    *cq_context = fake->completion_queue.cq_context;
    return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    owner(cq->context)->events_acknowledged += nevents;
}

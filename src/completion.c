#include "config.h"

#include "completion.h"

#include <errno.h>
#include <fcntl.h>

#include "clock.h"
#include "memory.h"

#define LOOK_AGAIN_NS (100 * CLOCK_NS_PER_MS)

int completion_open(struct completion_queue *queue, struct ibv_context *verbs, unsigned depth,
                    struct error *err)
{
    *queue = (struct completion_queue){.channel = ibv_create_comp_channel(verbs)};
    if (!queue->channel)
        return memory_resource_error(err, ibv_get_device_name(verbs->device), errno,
                                     "a completion channel");
    int flags = fcntl(queue->channel->fd, F_GETFL);
    if (flags < 0 || fcntl(queue->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
        error_set_errno(err, ERROR_BUG, STAGE_REGISTER, NULL, errno,
                        "cannot make the completion channel non-blocking");
        goto fail;
    }
    queue->cq = ibv_create_cq(verbs, (int)depth, NULL, queue->channel, 0);
    if (!queue->cq) {
        memory_resource_error(err, ibv_get_device_name(verbs->device), errno, "a completion queue");
        goto fail;
    }
    return 0;
fail:
    completion_close(queue);
    return -1;
}

void completion_close(struct completion_queue *queue)
{
    if (queue->cq)
        ibv_destroy_cq(queue->cq);
    if (queue->channel)
        ibv_destroy_comp_channel(queue->channel);
    *queue = (struct completion_queue){.cq = NULL};
}

int completion_poll(struct completion_queue *queue, struct ibv_wc *wc, struct error *err)
{
    int n = ibv_poll_cq(queue->cq, 1, wc);
    if (n < 0)
        return error_set(err, ERROR_RESOURCE, STAGE_COMPLETION, NULL,
                         "polling the completion queue failed");
    return n;
}

int completion_arm(struct completion_queue *queue, struct error *err)
{
    int rc = ibv_req_notify_cq(queue->cq, 0);
    if (rc != 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_COMPLETION, NULL, rc,
                               "cannot arm the completion queue");
    return 0;
}

int completion_fd(const struct completion_queue *queue)
{
    return queue->channel->fd;
}

int completion_poll_ms(int64_t moment)
{
    int64_t soon = clock_after(LOOK_AGAIN_NS);
    return clock_poll_ms(moment < soon ? moment : soon);
}

void completion_drain_events(struct completion_queue *queue)
{
    struct ibv_cq *cq;
    void *context;
    unsigned count = 0;
    while (ibv_get_cq_event(queue->channel, &cq, &context) == 0)
        count++;
    if (count > 0)
        ibv_ack_cq_events(queue->cq, count);
}

/* What a status says about the cause; the texts are ibv_wc_status_str(3)'s. */
static const struct meaning {
    enum ibv_wc_status status;
    enum error_class class;
    const char *hint;
} meanings[] = {
    {IBV_WC_REM_ACCESS_ERR, ERROR_UNAVAILABLE,
     "check the remote address and rkey: outside the region, of another device or domain, or stale"},
    {IBV_WC_REM_INV_REQ_ERR, ERROR_UNAVAILABLE,
     "the far adapter does not take such a request: check the remote address and rkey"},
    {IBV_WC_REM_OP_ERR, ERROR_UNAVAILABLE, "the far adapter failed: look at its host's messages"},
    {IBV_WC_RETRY_EXC_ERR, ERROR_TEMPORARY,
     "the far host does not answer any more: check its power, link and cables, and that the path "
     "has one MTU ('rdmaput check' tells)"},
    {IBV_WC_RNR_RETRY_EXC_ERR, ERROR_TEMPORARY, "the peer posts no receives: is it overloaded?"},
    {IBV_WC_RESP_TIMEOUT_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_REM_ABORT_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_WR_FLUSH_ERR, ERROR_TEMPORARY, NULL},
    {IBV_WC_FATAL_ERR, ERROR_UNAVAILABLE,
     "the local adapter failed: look at the kernel's messages"},
    {IBV_WC_GENERAL_ERR, ERROR_UNAVAILABLE, NULL},
    {IBV_WC_LOC_QP_OP_ERR, ERROR_TEMPORARY,
     "this host could not send: its link is down, or the connection's address was taken from it"},
};

static const struct meaning refused_on_iwarp = {
    IBV_WC_LOC_QP_OP_ERR, ERROR_UNAVAILABLE,
    "on iWARP this is how a refused access may show: check the remote address and rkey"};

static const struct meaning *find_meaning(enum ibv_wc_status status, bool iwarp)
{
    if (iwarp && status == refused_on_iwarp.status)
        return &refused_on_iwarp;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].status == status)
            return &meanings[i];
    return NULL;
}

int completion_error(const struct ibv_wc *wc, bool iwarp, const char *peer, const char *what,
                     struct error *err)
{
    const struct meaning *m = find_meaning(wc->status, iwarp);
    error_set(err, m ? m->class : ERROR_BUG, STAGE_COMPLETION, peer, "%s failed: %s", what,
              ibv_wc_status_str(wc->status));
    if (m && m->hint)
        error_hint(err, "%s", m->hint);
    return error_status(err, ibv_wc_status_str(wc->status));
}

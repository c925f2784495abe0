/*
 * fake-host.c - a host for sessions, for one thread and the same in every run.
 */
#include "config.h"

#include "fake-host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fuzz.h"
#include "worker.h"

#define MOST_WAITS 10000 /* in a row, without a step: what is under test takes no notice */
#define START (1000 * CLOCK_NS_PER_S)
#define DEVICE_MOST 1024 /* entries of a queue */
#define DEVICE_MOST_ENTRIES 4

static struct fake_host *current; /* NULL: none is open */

/* A descriptor that was not closed shows in the next one's number. */
static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(fd);
    return fd;
}

void fake_host_open(struct fake_host *host, bool (*step)(void *context), void *context)
{
    memset(host, 0, sizeof *host);
    host->spare_fd = next_descriptor();
    fake_open(&host->fake);
    host->step = step;
    host->context = context;
    current = host;
}

void fake_host_close(struct fake_host *host)
{
    current = NULL;
    FUZZ_ASSERT(!host->has_queue_pair);
    FUZZ_ASSERT(!host->has_domain);
    FUZZ_ASSERT(!host->has_id);
    FUZZ_ASSERT(!host->has_channel);
    FUZZ_ASSERT(!host->events_taken);
    FUZZ_ASSERT(!host->worker);
    FUZZ_ASSERT(!host->fake.has_queue);
    FUZZ_ASSERT(!host->fake.has_channel);
    FUZZ_ASSERT(host->fake.memory.count == 0);
    fake_close(&host->fake);
    FUZZ_ASSERT(host->spare_fd == next_descriptor());
}

/* ---- waiting, and time ---------------------------------------------------------------------- */

void fake_host_pass(struct fake_host *host, unsigned ms)
{
    host->passed += ms * CLOCK_NS_PER_MS;
}

static bool step(struct fake_host *host)
{
    if (host->stepping)
        return false;
    host->stepping = true;
    bool happened = host->step(host->context);
    host->stepping = false;
    if (happened)
        host->idle = 0;
    return happened;
}

/* In place of the C library's. */
int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    static const struct timespec none;
    struct timespec limit = {.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * CLOCK_NS_PER_MS};
    if (!current)
        return ppoll(fds, count, timeout < 0 ? NULL : &limit, NULL);
    FUZZ_ASSERT(current->waits++ < MOST_WAITS);
    int64_t until = current->passed + timeout * CLOCK_NS_PER_MS;
    for (;;) {
        int ready = ppoll(fds, count, &none, NULL);
        if (ready != 0 || timeout == 0 || (timeout > 0 && current->passed >= until))
            return ready;
        if (!step(current))
            break;
        current->waits = 0;
    }
    FUZZ_ASSERT(timeout > 0); /* else it waits for ever */
    current->waits = 0;
    current->idle += until - current->passed;
    current->passed = until;
    FUZZ_ASSERT(current->idle < FAKE_HOST_PATIENCE * CLOCK_NS_PER_S);
    return 0;
}

/* Likewise. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!current || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, now);
    *now = (struct timespec){.tv_sec = (START + current->passed) / CLOCK_NS_PER_S,
                             .tv_nsec = (START + current->passed) % CLOCK_NS_PER_S};
    return 0;
}

/* Likewise: the same nonces in every run. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
    if (!current)
        return syscall(SYS_getrandom, buf, len, flags);
    memset(buf, ++current->randoms, len);
    return (ssize_t)len;
}

/* ---- in place of worker.c ------------------------------------------------------------------- */

struct worker {
    worker_function function;
    void *context;
    unsigned capacity, submitted, done, taken;
    int done_fd, stop_fd;
    void *jobs[]; /* a ring */
};

struct worker *worker_start(worker_function function, void *context, unsigned capacity,
                            struct error *err)
{
    struct worker *worker = calloc(1, sizeof *worker + capacity * sizeof worker->jobs[0]);
    (void)err;
    if (!worker)
        abort();
    worker->function = function;
    worker->context = context;
    worker->capacity = capacity;
    worker->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (current) {
        FUZZ_ASSERT(!current->worker);
        current->worker = worker;
    }
    return worker;
}

void worker_submit(struct worker *worker, void *job)
{
    FUZZ_ASSERT(worker->submitted - worker->taken < worker->capacity);
    worker->jobs[worker->submitted++ % worker->capacity] = job;
}

bool fake_host_work(struct fake_host *host)
{
    struct worker *worker = host->worker;
    if (!worker || worker->done == worker->submitted)
        return false;
    worker->function(worker->context, worker->jobs[worker->done++ % worker->capacity],
                     worker->stop_fd);
    eventfd_write(worker->done_fd, 1);
    return true;
}

void *worker_take(struct worker *worker)
{
    eventfd_t value;
    if (worker->taken == worker->done)
        return NULL;
    void *job = worker->jobs[worker->taken++ % worker->capacity];
    if (worker->taken == worker->done)
        eventfd_read(worker->done_fd, &value);
    return job;
}

int worker_fd(const struct worker *worker)
{
    return worker->done_fd;
}

bool worker_ends(struct worker *worker, int64_t deadline)
{
    (void)worker, (void)deadline;
    return true;
}

void worker_stop(struct worker *worker)
{
    if (!worker)
        return;
    if (current)
        current->worker = NULL;
    close(worker->done_fd);
    close(worker->stop_fd);
    free(worker);
}

/* ---- in place of librdmacm ------------------------------------------------------------------ */

static void raise_event(struct fake_host *host)
{
    eventfd_write(host->channel.fd, 1);
}

void fake_host_event(struct fake_host *host, enum rdma_cm_event_type event)
{
    if (!host->has_channel || host->event_count == FAKE_HOST_EVENTS)
        return;
    host->events[(host->event_head + host->event_count++) % FAKE_HOST_EVENTS] = event;
    raise_event(host);
}

void fake_host_end(struct fake_host *host)
{
    fake_flush(&host->fake);
    fake_host_event(host, RDMA_CM_EVENT_DISCONNECTED);
}

struct rdma_cm_id *fake_host_request(struct fake_host *host)
{
    struct sockaddr_in *peer = &host->fake.id.route.addr.dst_sin;
    *peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(40000)};
    peer->sin_addr.s_addr = htonl(UINT32_C(0xc0000201)); /* 192.0.2.1 */
    host->has_id = true;
    host->fake.id.port_num = 1;
    return &host->fake.id;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
    FUZZ_ASSERT(!current->has_channel);
    current->channel.fd = eventfd(0, EFD_CLOEXEC);
    current->has_channel = true;
    return &current->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    FUZZ_ASSERT(current->has_channel);
    current->has_channel = false;
    close(channel->fd);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space space)
{
    (void)channel, (void)context, (void)space;
    FUZZ_ASSERT(!current->has_id);
    *id = fake_host_request(current);
    return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    id->channel = channel;
    return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
    (void)id;
    FUZZ_ASSERT(current->has_id && !current->has_queue_pair);
    current->has_id = false;
    return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    eventfd_t value;
    FUZZ_ASSERT(current->events_taken == 0);
    if (current->event_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    current->event = (struct rdma_cm_event){.id = &current->fake.id,
                                            .event = current->events[current->event_head]};
    current->event_head = (current->event_head + 1) % FAKE_HOST_EVENTS;
    if (--current->event_count == 0)
        eventfd_read(channel->fd, &value);
    if (current->event.event == RDMA_CM_EVENT_ESTABLISHED ||
        current->event.event == RDMA_CM_EVENT_REJECTED) {
        current->event.param.conn.private_data = current->answer;
        current->event.param.conn.private_data_len = (uint8_t)current->answer_len;
        current->event.param.conn.initiator_depth = 1;
    }
    if (current->event.event == RDMA_CM_EVENT_REJECTED)
        current->event.status = 28;
    current->events_taken++;
    *event = &current->event;
    return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    FUZZ_ASSERT(event == &current->event && current->events_taken == 1);
    current->events_taken--;
    return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
    (void)id, (void)level, (void)name, (void)value, (void)len;
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dest, int ms)
{
    (void)id, (void)src, (void)dest, (void)ms;
    fake_host_event(current, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
    (void)id, (void)ms;
    fake_host_event(current, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    FUZZ_ASSERT(!current->has_queue_pair && pd == &current->fake.domain);
    FUZZ_ASSERT(attr->cap.max_send_wr <= DEVICE_MOST && attr->cap.max_recv_wr <= DEVICE_MOST);
    current->has_queue_pair = true;
    current->fake.max_requests = attr->cap.max_send_wr;
    current->fake.max_sge = attr->cap.max_send_sge;
    current->recv_depth = attr->cap.max_recv_wr;
    id->qp = &current->fake.queue_pair;
    return 0;
}

/* Nobody is told any more of what was posted. */
void rdma_destroy_qp(struct rdma_cm_id *id)
{
    FUZZ_ASSERT(current->has_queue_pair);
    current->has_queue_pair = false;
    id->qp = NULL;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id, (void)param;
    fake_host_event(current, current->refuses ? RDMA_CM_EVENT_REJECTED : RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    (void)id;
    FUZZ_ASSERT(param->private_data_len <= sizeof current->answer);
    memcpy(current->answer, param->private_data, param->private_data_len);
    current->answer_len = param->private_data_len;
    current->accepted = true;
    fake_host_event(current, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
    (void)id;
    current->disconnected = true;
    fake_host_end(current);
    return 0;
}

/* ---- of libibverbs, what the fake provider has not ------------------------------------------ */

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.max_qp_wr = DEVICE_MOST,
                                     .max_sge = DEVICE_MOST_ENTRIES,
                                     .max_qp_rd_atom = 1,
                                     .max_qp_init_rd_atom = 1};
    return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;
    (void)context, (void)port;
    attr->max_msg_sz = UINT32_C(1) << 30;
    return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    (void)context;
    FUZZ_ASSERT(!current->has_domain);
    current->has_domain = true;
    return &current->fake.domain;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    (void)pd;
    FUZZ_ASSERT(current->has_domain && current->fake.memory.count == 0);
    current->has_domain = false;
    return 0;
}

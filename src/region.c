#include "config.h"

#include "region.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "completion.h"
#include "fdio.h"
#include "log.h"
#include "units.h"
#include "wire.h"
#include "writer.h"

struct region *region_new(uint64_t size, const char *dump, struct error *err)
{
    struct region *region = calloc(1, sizeof *region);
    if (!region || (dump && !(region->dump = strdup(dump)))) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, ENOMEM, "cannot make a region");
        region_free(region);
        return NULL;
    }
    if (memory_map(&region->memory, size, err) < 0) {
        region_free(region);
        return NULL;
    }
    return region;
}

void region_free(struct region *region)
{
    if (!region)
        return;
    memory_free(&region->memory);
    memory_free(&region->probe);
    if (region->pd)
        ibv_dealloc_pd(region->pd);
    free(region->dump);
    free(region);
}

int region_publish(struct region *region, struct rdma_cm_id *listener, struct error *err)
{
    region->pd = ibv_alloc_pd(listener->verbs);
    if (!region->pd)
        return memory_resource_error(err, ibv_get_device_name(listener->verbs->device), errno,
                                     "a protection domain");
    if (memory_register_region(&region->memory, region->pd, "remote write, the whole region", err) <
            0 ||
        memory_map(&region->probe, 1, err) < 0)
        return -1;
    return memory_register_region(&region->probe, region->pd, "a probe", err);
}

void region_ticket(const struct region *region, const struct sockaddr *listener,
                   struct ticket *ticket)
{
    char host[ADDRESS_TEXT];
    *ticket = (struct ticket){
        .port = address_port(listener),
        .remote_addr = (uint64_t)(uintptr_t)region->memory.addr,
        .rkey = region->memory.mr->rkey,
        .length = region->memory.bytes,
    };
    strncpy(ticket->host, address_format_host(listener, host), sizeof ticket->host - 1);
}

int region_dump(const struct region *region, bool sync, struct error *err)
{
    int (*publish)(const char *, const void *, size_t, mode_t) =
        sync || region->sync ? fdio_publish_durable : fdio_publish;
    if (!region->dump)
        return 0;
    if (publish(region->dump, region->memory.addr, region->memory.bytes, 0666) < 0)
        return error_set_errno(err, ERROR_STORAGE, STAGE_COMMIT, region->dump, errno,
                               "cannot dump the region");
    log_verbose("%s: region dumped", region->dump);
    return 0;
}

/* The state of watching one client. */
struct watch {
    struct endpoint *endpoint;
    struct writer writer;
    const struct region *region;
    const struct wire_hello *hello;
    bool unanswered; /* a probe failed: the host is gone */
    bool probing;
    int64_t heard_at; /* clock.h: when the client's host last showed itself */
    uint64_t probes;
};

static int host_gone(const struct watch *watch, struct error *err)
{
    char time[UNITS_TEXT];
    return error_set(err, ERROR_TEMPORARY, STAGE_TRANSFER, watch->endpoint->peer,
                     "timed out: the client's host does not answer for %s",
                     units_format_time(watch->endpoint->timeout, time));
}

/* Takes the completions of probes. The connection's end is told by its event, not here, since a
 * failed probe may have the same cause. */
static int reap_probe(struct watch *watch, struct error *err)
{
    struct ibv_wc wc;
    struct writer_request request;
    while (completion_poll(&watch->endpoint->queue, &wc, err) > 0) {
        writer_retire(&watch->writer, wc.wr_id, wc.status == IBV_WC_SUCCESS, &request);
        watch->probing = false;
        if (wc.status == IBV_WC_SUCCESS)
            watch->heard_at = clock_now();
        watch->unanswered |= wc.status == IBV_WC_RETRY_EXC_ERR;
        if (wc.status == IBV_WC_SUCCESS || endpoint_await_end(watch->endpoint, CLOCK_NS_PER_S / 5))
            continue;
        if (wc.status == IBV_WC_WR_FLUSH_ERR && endpoint_refused_access(watch->endpoint))
            return endpoint_access_error(watch->endpoint, err);
        return completion_error(&wc, endpoint_is_iwarp(watch->endpoint), watch->endpoint->peer,
                                "asking the client's adapter", err);
    }
    return error_is_set(err) ? -1 : 0;
}

static int send_probe(struct watch *watch, struct error *err)
{
    const struct memory *probe = &watch->region->probe;
    struct ibv_sge byte = {
        .addr = (uint64_t)(uintptr_t)probe->addr, .length = 1, .lkey = probe->mr->lkey};
    if (watch->endpoint->initiator_depth == 0)
        return writer_write(&watch->writer, watch->probes++, NULL, 0, IBV_SEND_SIGNALED, 0, 0, err);
    if (watch->hello->probe_addr == 0)
        return writer_read_nothing(&watch->writer, watch->probes++, err);
    return writer_read(&watch->writer, watch->probes++, &byte, watch->hello->probe_addr,
                       watch->hello->probe_rkey, err);
}

/* A probe could not be posted because the connection has ended, which is looked at next. */
static int64_t ended_meanwhile(struct error *err)
{
    error_clear(err);
    return clock_now();
}

/* Probes when it is due. The moment of the next thing to do, or -1 with *err. */
static int64_t keep_watch(struct watch *watch, bool can_probe, struct error *err)
{
    int64_t timeout = (int64_t)watch->endpoint->timeout;
    int64_t probe_at = watch->heard_at + timeout / 4;
    int64_t silence_ends = watch->heard_at + timeout;
    if (!can_probe)
        return CLOCK_NEVER;
    if (watch->probing)
        return clock_now() > silence_ends ? host_gone(watch, err) : silence_ends + 1;
    if (clock_now() < probe_at)
        return probe_at;
    if (send_probe(watch, err) < 0)
        return endpoint_await_end(watch->endpoint, CLOCK_NS_PER_S / 5) ? ended_meanwhile(err) : -1;
    watch->probing = true;
    return silence_ends + 1;
}

/* Until the client disconnects (0), or something goes wrong (-1 with *err). */
static int watch_client(struct watch *watch, bool can_probe, struct error *err)
{
    struct endpoint *endpoint = watch->endpoint;
    struct error ended = {.class = ERROR_NONE};
    for (;;) {
        if (endpoint_check(endpoint, &ended) < 0) {
            if (watch->unanswered)
                return host_gone(watch, err);
            if (endpoint_refused_access(endpoint))
                return endpoint_access_error(endpoint, err);
            if (ended.class == ERROR_TEMPORARY)
                return 0;
            *err = ended;
            return -1;
        }
        if (completion_arm(&endpoint->queue, err) < 0 || reap_probe(watch, err) < 0)
            return -1;
        int64_t moment = keep_watch(watch, can_probe, err);
        if (moment < 0)
            return -1;
        struct pollfd fds[] = {{.fd = endpoint_fd(endpoint), .events = POLLIN},
                               {.fd = completion_fd(&endpoint->queue), .events = POLLIN},
                               {.fd = endpoint->stop_fd, .events = POLLIN},
                               {.fd = endpoint->id->verbs->async_fd, .events = POLLIN}};
        if (poll(fds, 4, completion_poll_ms(moment)) <= 0)
            continue;
        if (fds[3].revents && endpoint_refused_access(endpoint))
            return endpoint_access_error(endpoint, err);
        if (fds[1].revents)
            completion_drain_events(&endpoint->queue);
        if (fds[2].revents)
            return error_set(err, ERROR_INTERRUPTED, STAGE_TRANSFER, endpoint->peer,
                             "interrupted by a signal");
    }
}

/* On iWARP a write is complete before anybody has answered, and a read may break the connection
 * (region.h). */
static bool can_ask(const struct endpoint *endpoint, const struct wire_hello *hello)
{
    return !endpoint_is_iwarp(endpoint) ||
           (hello->probe_addr != 0 && endpoint->initiator_depth > 0);
}

int region_serve(struct region *region, struct endpoint *endpoint, const struct wire_hello *hello,
                 bool *stood, struct error *err)
{
    static const struct endpoint_wants wants = {.send_depth = 2, .max_sge = 1};
    static const struct wire_welcome welcome = {.version = WIRE_VERSION};
    uint8_t data[WIRE_WELCOME_BYTES];
    unsigned len = (unsigned)wire_encode_welcome(&welcome, data);
    struct watch watch = {.endpoint = endpoint, .region = region, .hello = hello};
    if (endpoint_create_queues(endpoint, &wants, region->pd, err) < 0 ||
        writer_init(&watch.writer, endpoint->id, endpoint->peer, endpoint->send_depth,
                    endpoint->max_sge, err) < 0)
        return -1;
    bool greeted = hello->role == WIRE_ROLE_POST;
    int rc = endpoint_accept(endpoint, greeted ? data : NULL, greeted ? len : 0,
                             clock_after(endpoint->timeout), err);
    if (rc == 0) {
        *stood = true;
        watch.heard_at = clock_now();
        rc = watch_client(&watch, can_ask(endpoint, hello), err);
    }
    endpoint_disconnect(endpoint, CLOCK_NS_PER_S);
    writer_close(&watch.writer);
    return rc;
}

#include "config.h"

#include "server.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "announcement.h"
#include "budget.h"
#include "clock.h"
#include "control.h"
#include "device.h"
#include "document.h"
#include "exchange.h"
#include "fdio.h"
#include "listener.h"
#include "log.h"
#include "receiver.h"
#include "report.h"
#include "session.h"
#include "signals.h"
#include "tester.h"
#include "units.h"
#include "wire.h"

#define USUAL_SESSIONS 256
/* A session's: event channels, queues, the worker, files. */
#define FILES_PER_SESSION 16
#define MOST_WAITING 16
#define MOST_REQUESTS 16
#define MOST_LISTED 10000 /* objects of a session: how many there are is its client's choice */
/* A check takes what it can get of processor and link. */
#define MOST_CHECKS 8
#define WAITING_NS (1 * CLOCK_NS_PER_S)
#define STAY_MS 500
#define STACK_BYTES ((size_t)256 << 10)

struct server;

enum kind {
    KIND_WRITE,
    KIND_POST, /* one-sided, into the region */
    KIND_CHECK,
};

struct serving {
    struct serving *next;
    struct server *server;
    pthread_t thread;
    struct endpoint endpoint;
    struct budget_share share;
    enum kind kind;
    bool others; /* were served when it began */
    struct wire_hello hello;
    int exchange_fd;               /* -1: none */
    struct receiver_result result; /* of a write session */
    struct tester_result tested;   /* of a check */
    bool admitted;
    struct error error;
    struct error stuck; /* set with ended: what the session ended with while storage goes on */
    atomic_bool ended;  /* the connection is gone, and the thread waits for storage alone */
    atomic_bool done;
    struct json_object *document, *objects; /* what is told of the session, and part of it */
    int64_t began_at;                       /* clock.h */
    bool counted;                           /* as one that ended; the server's thread only */
};

/* A client that came while the server was busy: the session before it may only be on its way
 * out. */
struct request {
    struct rdma_cm_id *id;
    struct rdma_conn_param conn;
    enum kind kind;
    struct wire_hello hello; /* zeros without one */
    int exchange_fd;         /* the TCP connection of its exchange; -1: none */
    int64_t until;
};

struct server {
    const struct server_job *job;
    struct admission admission;
    struct budget budget;
    struct listener listener;
    struct exchange exchange;
    int abort_fd; /* readable: sessions are to end at once */
    int done_fd;  /* readable: a session has ended */
    struct serving *sessions;
    unsigned ended_count; /* of them, those that wait for storage alone */
    struct request waiting[MOST_WAITING];
    unsigned waiting_count;
    bool draining, aborting;
    bool deserted; /* standard input has ended, and with it the client that started this server */
    struct error removed; /* set: the listener's device is gone */
    bool finished;        /* the one transfer of --once has ended */
    bool told;            /* with an error, which its document has */
    bool announced;       /* the ready file is there */
    int64_t wait_until;
};

static void refuse(struct rdma_cm_id *id, const struct error *reason)
{
    uint8_t data[WIRE_REFUSAL_MAX_BYTES];
    (void)rdma_reject(id, data, (uint8_t)admission_refusal(reason, data));
}

/* ---- one session, on its thread ------------------------------------------------------------ */

/*
 * An iWARP client whose connection ended tells a refused access from a dead server by whether the
 * server still listens: it is given the time to find out.
 */
static void stay_for_a_while(const struct server *server)
{
    struct pollfd fd = {.fd = server->abort_fd, .events = POLLIN};
    poll(&fd, 1, STAY_MS);
}

static int serve_one_sided(struct serving *serving)
{
    struct region *region = serving->server->job->region;
    bool iwarp = endpoint_is_iwarp(&serving->endpoint);
    int rc = region_serve(region, &serving->endpoint, &serving->hello, &serving->admitted,
                          &serving->error);
    if (rc == 0) {
        log_verbose("%s: the one-sided session ended", serving->endpoint.peer);
        rc = region_dump(region, false, &serving->error);
    }
    if (serving->server->job->once && iwarp)
        stay_for_a_while(serving->server);
    return rc;
}

/* The one transfer of --once: its error is the server's own. */
static bool is_last(const struct serving *serving)
{
    return serving->server->job->once && serving->admitted;
}

static bool is_many(const struct serving *serving)
{
    return (serving->hello.flags & WIRE_HELLO_MANY) != 0;
}

/* ---- its document */

static void begin_document(struct serving *serving)
{
    static const char *const roles[] = {
        [KIND_WRITE] = "write", [KIND_POST] = "post", [KIND_CHECK] = "check"};
    if (serving->server->job->inside)
        return;
    serving->began_at = clock_now();
    serving->document = document_new("serve");
    serving->objects = serving->document ? json_object_new_array() : NULL;
    document_add_text(serving->document, "role", roles[serving->kind]);
    document_add_text(serving->document, "sink", serving->server->job->sink->description);
}

/* A receiver_settled. */
static void note_object(void *context, const char *peer, const struct receiver_object *object,
                        const struct error *cause)
{
    struct serving *serving = context;
    if (!cause)
        report_received(peer, object);
    if (serving->objects && json_object_array_length(serving->objects) >= MOST_LISTED)
        return;
    document_append_object(serving->objects, object->name, &object->digest, object->kept, cause);
}

static void add_objects(struct serving *serving)
{
    struct json_object *document = serving->document;
    document_add_amount(document, serving->result.stored,
                        (uint64_t)(clock_now() - serving->began_at));
    document_add_number(document, "objects_committed", serving->result.committed);
    document_add_number(document, "objects_failed", serving->result.failed);
    document_add(document, "objects", serving->objects);
    serving->objects = NULL;
}

static void add_tests(struct serving *serving)
{
    struct json_object *document = serving->document;
    document_add_number(document, "writes_right", serving->tested.right);
    document_add_number(document, "writes_wrong", serving->tested.wrong);
    document_add_number(document, "echoes", serving->tested.echoes);
}

/* What the session came to, once. */
static void print_document(struct serving *serving, const struct error *err)
{
    struct json_object *document = serving->document;
    if (serving->kind == KIND_WRITE)
        add_objects(serving);
    if (serving->kind == KIND_CHECK)
        add_tests(serving);
    if (serving->kind != KIND_WRITE)
        document_add_number(document, "duration_ns", (uint64_t)(clock_now() - serving->began_at));
    json_object_put(serving->objects);
    serving->objects = serving->document = NULL;
    document_add_facts(document, &serving->endpoint.facts);
    document_print(document, err);
}

/* What a failed write session came to goes into *err, and is said. */
static void tell_failure(struct serving *serving, struct error *err)
{
    if (serving->kind == KIND_WRITE && serving->result.admitted && !is_many(serving) &&
        !serving->server->job->sink->ops->irrevocable)
        report_progress(err, serving->result.stored, "stored");
    error_nest(err, serving->endpoint.peer);
    if (err->class != ERROR_INTERRUPTED && !is_last(serving))
        log_error(err);
}

/* A receiver_job's stuck. */
static void end_without_storage(void *context, const struct error *err)
{
    struct serving *serving = context;
    serving->admitted = serving->result.admitted;
    serving->stuck = *err;
    error_append(&serving->stuck, "; storage does not answer");
    tell_failure(serving, &serving->stuck);
    print_document(serving, &serving->stuck);
    atomic_store(&serving->ended, true);
    eventfd_write(serving->server->done_fd, 1);
}

static int serve_write(struct serving *serving)
{
    struct receiver_job job = {
        .sink = serving->server->job->sink,
        .hello = &serving->hello,
        .secret = serving->server->admission.secret,
        .ready_fd = serving->exchange_fd,
        .memory = serving->share.bytes,
        .others = serving->others,
        .settled = note_object,
        .stuck = end_without_storage,
        .context = serving,
    };
    int rc = receiver_run(&serving->endpoint, &job, &serving->result, &serving->error);
    /* Once it has ended, the server's thread looks at it. */
    if (!atomic_load(&serving->ended))
        serving->admitted = serving->result.admitted;
    return rc;
}

static int serve_check(struct serving *serving)
{
    const struct tester_result *tested = &serving->tested;
    struct tester_job job = {
        .hello = &serving->hello,
        .secret = serving->server->admission.secret,
        .memory = serving->share.bytes,
        .others = serving->others,
    };
    if (tester_run(&serving->endpoint, &job, &serving->tested, &serving->error) < 0)
        return -1;
    if (tested->wrong > 0)
        log_note("%s: checked: %" PRIu64 " of %" PRIu64 " writes arrived wrong",
                 serving->endpoint.peer, tested->wrong, tested->right + tested->wrong);
    else
        log_verbose("%s: checked: %" PRIu64 " writes, all right; %" PRIu64 " echoes",
                    serving->endpoint.peer, tested->right, tested->echoes);
    return 0;
}

static int serve(struct serving *serving)
{
    switch (serving->kind) {
    case KIND_POST:
        return serve_one_sided(serving);
    case KIND_CHECK:
        return serve_check(serving);
    case KIND_WRITE:
        break;
    }
    return serve_write(serving);
}

static void *session_main(void *argument)
{
    struct serving *serving = argument;
    begin_document(serving);
    int rc = serve(serving);
    if (rc < 0 && !atomic_load(&serving->ended))
        tell_failure(serving, &serving->error);
    if (serving->document)
        print_document(serving, &serving->error);
    if (rc < 0 && !serving->endpoint.answered)
        refuse(serving->endpoint.id, &serving->error);
    endpoint_close(&serving->endpoint);
    fdio_close(&serving->exchange_fd);
    atomic_store(&serving->done, true);
    eventfd_write(serving->server->done_fd, 1);
    return NULL;
}

static int start_session(struct serving *serving)
{
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return ENOMEM;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&serving->thread, &attr, session_main, serving);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

/* ---- admission ----------------------------------------------------------------------------- */

/* A writer with a token is one that has met this server over TCP before. */
static int claim_exchange(struct server *server, struct request *request, struct error *err)
{
    static const uint8_t none[WIRE_TOKEN_BYTES];
    if (memcmp(request->hello.token, none, sizeof none) == 0)
        return 0;
    request->exchange_fd = exchange_claim(&server->exchange, request->hello.token);
    if (request->exchange_fd >= 0)
        return 0;
    return error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, NULL,
                     "no exchange over TCP belongs to that token, or not any more");
}

static enum kind kind_of(enum wire_result result, const struct wire_hello *hello)
{
    if (result == WIRE_FOREIGN || hello->role == WIRE_ROLE_POST)
        return KIND_POST;
    return hello->role == WIRE_ROLE_CHECK ? KIND_CHECK : KIND_WRITE;
}

/* Whether there is what a session of that kind is for. */
static int check_kind(const struct server_job *job, const struct request *request,
                      struct error *err)
{
    if (request->kind == KIND_POST && !job->ticket) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL, "no memory is exposed here");
        return error_hint(err, "serve with --region SIZE --ticket FILE");
    }
    if (request->kind != KIND_CHECK)
        return 0;
    if (request->hello.flags & WIRE_HELLO_KNOCK)
        return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL,
                         "it only asked whether somebody listens");
    if (!job->no_check)
        return 0;
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL, "this server answers no check");
    return error_hint(err, "serve without --no-check");
}

/* Whether a client that says this may begin a session; notes what it said and which kind it is
 * to be. */
static int admit(struct server *server, const struct sockaddr *peer, struct request *request,
                 struct error *err)
{
    struct wire_hello *hello = &request->hello;
    if (admission_check(&server->admission, peer, err) < 0)
        return -1;
    enum wire_result result = wire_decode_hello(request->conn.private_data,
                                                request->conn.private_data_len, hello);
    if (result == WIRE_OTHER_VERSION)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, NULL,
                         "protocol version %u here, %u there", WIRE_VERSION, hello->version);
    if (result == WIRE_BROKEN)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, NULL, "malformed greeting");
    request->kind = kind_of(result, hello);
    if (check_kind(server->job, request, err) < 0 ||
        admission_check_hello(&server->admission, hello, err) < 0)
        return -1;
    return request->kind == KIND_WRITE ? claim_exchange(server, request, err) : 0;
}

static void note_refusal(const struct sockaddr *peer, const struct error *reason)
{
    char text[ADDRESS_TEXT];
    log_note("%s: refused: %s", address_format(peer, text), reason->text);
}

static void turn_away(struct request *request, const struct error *reason)
{
    note_refusal(rdma_get_peer_addr(request->id), reason);
    refuse(request->id, reason);
    rdma_destroy_id(request->id);
    fdio_close(&request->exchange_fd);
}

/* 0, also when it failed and the client was told; -1 with *err when there is no room for it now. */
static int begin_session(struct server *server, struct request *request, struct error *err)
{
    struct rdma_cm_id *id = request->id;
    struct error failed = {.class = ERROR_NONE};
    struct serving *serving = calloc(1, sizeof *serving);
    if (!serving) {
        error_set_errno(&failed, ERROR_RESOURCE, STAGE_CONNECT, NULL, ENOMEM,
                        "cannot begin a session");
        turn_away(request, &failed);
        return 0;
    }
    enum budget_use use = request->kind == KIND_CHECK ? BUDGET_CHECK : BUDGET_TRANSFER;
    if (budget_take(&server->budget, rdma_get_peer_addr(id), use, &serving->share, err) < 0) {
        free(serving);
        return -1;
    }
    serving->server = server;
    serving->exchange_fd = request->exchange_fd;
    serving->kind = request->kind;
    serving->hello = request->hello;
    serving->others = server->budget.count > 1;
    if (endpoint_adopt(&serving->endpoint, id, &request->conn, server->job->timeout,
                       server->abort_fd, &failed) == 0) {
        int rc = start_session(serving);
        if (rc == 0) {
            serving->next = server->sessions;
            server->sessions = serving;
            return 0;
        }
        error_set_errno(&failed, ERROR_RESOURCE, STAGE_CONNECT, serving->endpoint.peer, rc,
                        "cannot start a session");
    }
    if (serving->others)
        session_blame_others(&failed);
    log_error(&failed);
    refuse(id, &failed);
    endpoint_close(&serving->endpoint);
    fdio_close(&serving->exchange_fd);
    budget_return(&server->budget, &serving->share);
    free(serving);
    return 0;
}

static void begin_or_wait(struct server *server, struct request *request)
{
    struct error busy = {.class = ERROR_NONE};
    if (begin_session(server, request, &busy) == 0)
        return;
    if (server->waiting_count < MOST_WAITING)
        server->waiting[server->waiting_count++] = *request;
    else
        turn_away(request, &busy);
}

static int ending(struct error *err)
{
    error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, NULL, "the server is about to end");
    return error_hint(err, "try again when there is another one, or have --retry do so");
}

/* Lets waiting clients in, in order, and turns away those that have waited long enough. */
static void take_waiting(struct server *server)
{
    unsigned left = 0;
    for (unsigned i = 0; i < server->waiting_count; i++) {
        struct request *request = &server->waiting[i];
        struct error busy = {.class = ERROR_NONE};
        bool ends = server->draining || server->finished;
        if ((ends ? ending(&busy) : begin_session(server, request, &busy)) == 0)
            continue;
        if (ends || clock_now() >= request->until)
            turn_away(request, &busy);
        else
            server->waiting[left++] = *request;
    }
    server->waiting_count = left;
}

static void take_request(struct server *server, struct rdma_cm_event *event)
{
    struct request request = {.id = event->id,
                              .conn = event->param.conn,
                              .exchange_fd = -1,
                              .until = clock_after(WAITING_NS)};
    struct error reason = {.class = ERROR_NONE};
    int admitted = admit(server, rdma_get_peer_addr(event->id), &request, &reason);
    request.conn.private_data = NULL;
    rdma_ack_cm_event(event);
    if (admitted < 0)
        turn_away(&request, &reason);
    else
        begin_or_wait(server, &request);
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* No more than this at once: a flood of them must not keep the server from its other work. */
static int take_requests(struct server *server, struct error *err)
{
    struct rdma_cm_event *event;
    int got = 1;
    for (int i = 0; i < MOST_REQUESTS && got > 0; i++)
        if ((got = listener_next(&server->listener, &event, err)) > 0)
            take_request(server, event);
    return got;
}

static void note_end(struct server *server, const struct serving *serving,
                     const struct error *result, struct error *err)
{
    if (!serving->admitted)
        return;
    server->wait_until = CLOCK_NEVER;
    if (server->job->once && !server->finished) {
        server->finished = true;
        server->told = error_is_set(result);
        *err = *result;
    }
}

/* Joins the sessions that are done, and notes those that have ended. */
static void collect(struct server *server, struct error *err)
{
    eventfd_t ignored;
    eventfd_read(server->done_fd, &ignored);
    for (struct serving **at = &server->sessions; *at;) {
        struct serving *serving = *at;
        if (!atomic_load(&serving->done)) {
            if (atomic_load(&serving->ended) && !serving->counted) {
                serving->counted = true;
                server->ended_count++;
                note_end(server, serving, &serving->stuck, err);
            }
            at = &serving->next;
            continue;
        }
        pthread_join(serving->thread, NULL);
        *at = serving->next;
        budget_return(&server->budget, &serving->share);
        if (serving->counted)
            server->ended_count--;
        note_end(server, serving, &serving->error, err);
        free(serving);
    }
}

static bool is_running(const struct server *server)
{
    return server->budget.count > server->ended_count;
}

static void drain(struct server *server)
{
    server->draining = true;
    take_waiting(server); /* turned away while their channel is there, the listener's */
    exchange_close(&server->exchange);
    listener_close(&server->listener);
}

/* A server inside of something else is told to end by that, and its sessions with it. */
static void heed_host(struct server *server)
{
    const struct server_inside *inside = server->job->inside;
    struct pollfd fd = {.fd = inside ? inside->stop_fd : -1, .events = POLLIN};
    if (server->draining || poll(&fd, 1, 0) <= 0)
        return;
    drain(server);
    eventfd_write(server->abort_fd, 1);
}

static void heed_signals(struct server *server)
{
    int count = signals_count();
    if (count > 0 && !server->draining) {
        drain(server);
        if (is_running(server))
            log_note("%s: no new sessions; %u running; once more to abort",
                     strsignal(signals_last()), server->budget.count - server->ended_count);
    }
    if (count > 1 && !server->aborting) {
        server->aborting = true;
        eventfd_write(server->abort_fd, 1);
    }
}

static void heed_client(struct server *server)
{
    if (!server->job->control || server->deserted || !control_has_ended())
        return;
    server->deserted = true;
    if (!server->draining)
        drain(server);
    eventfd_write(server->abort_fd, 1);
}

static int wait_for_work(struct server *server)
{
    bool controlled = server->job->control && !server->deserted;
    /* Once it has come, a signal keeps its descriptor readable: then EINTR alone tells the next. */
    const struct server_inside *inside = server->job->inside;
    struct pollfd fds[5 + EXCHANGE_FDS] = {
        {.fd = server->draining ? -1 : listener_fd(&server->listener), .events = POLLIN},
        {.fd = server->draining ? -1 : signals_fd(), .events = POLLIN},
        {.fd = server->done_fd, .events = POLLIN},
        {.fd = server->draining || !inside ? -1 : inside->stop_fd, .events = POLLIN},
        {.fd = controlled ? STDIN_FILENO : -1, .events = POLLIN}};
    unsigned count = 5 + exchange_poll_fds(&server->exchange, fds + 5, EXCHANGE_FDS);
    int64_t moment = server->sessions ? CLOCK_NEVER : server->wait_until;
    if (server->waiting_count > 0 && server->waiting[0].until < moment)
        moment = server->waiting[0].until;
    if (exchange_deadline(&server->exchange) < moment)
        moment = exchange_deadline(&server->exchange);
    return poll(fds, count, clock_poll_ms(moment));
}

static int nobody_came(const struct server *server, struct error *err)
{
    char time[UNITS_TEXT];
    return error_set(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL, "no transfer began within %s",
                     units_format_time(server->job->wait, time));
}

/* Until there is nothing left to do. */
static int loop(struct server *server, struct error *err)
{
    for (;;) {
        heed_host(server);
        heed_signals(server);
        heed_client(server);
        collect(server, err);
        take_waiting(server);
        if (server->finished)
            return error_is_set(err) ? -1 : 0;
        if (server->draining && !is_running(server)) {
            *err = server->removed;
            return error_is_set(err) ? -1 : 0;
        }
        exchange_work(&server->exchange);
        /* The sessions end by themselves, as their device is gone too, and each says what it was
         * at. */
        if (!server->draining && take_requests(server, &server->removed) < 0) {
            drain(server);
            continue;
        }
        if (!server->sessions && clock_now() >= server->wait_until)
            return nobody_came(server, err);
        if (wait_for_work(server) < 0 && errno != EINTR)
            return error_set_errno(err, ERROR_BUG, STAGE_LISTEN, NULL, errno, "poll failed");
    }
}

/* Ends what still runs, when the loop has ended by itself. */
static void end_sessions(struct server *server)
{
    struct error ignored = {.class = ERROR_NONE};
    eventfd_write(server->abort_fd, 1);
    while (is_running(server)) {
        struct pollfd fd = {.fd = server->done_fd, .events = POLLIN};
        poll(&fd, 1, -1);
        collect(server, &ignored);
    }
}

/* ---- opening -------------------------------------------------------------------------------- */

static int open_exchange(struct server *server, const char *lines, struct error *err)
{
    const struct server_job *job = server->job;
    if (!job->exchange_port)
        return 0;
    struct exchange_job exchange = {.port = *job->exchange_port,
                                    .addresses = lines,
                                    .admission = &server->admission,
                                    .timeout = job->timeout};
    return exchange_open(&server->exchange, &exchange, err);
}

/* It serves, but as long as that is so nobody comes. */
static void warn_of_port(const struct listener *listener)
{
    const struct rdma_cm_id *id = listener->ids[0];
    const char *fault = id && id->verbs ? device_port_fault(id->verbs, id->port_num) : NULL;
    if (fault)
        log_note("port %u of %s is not active (%s): no client reaches it until that is mended; "
                 "'rdmaput check' tells more",
                 id->port_num, ibv_get_device_name(id->verbs->device), fault);
}

static int announce(struct server *server, struct error *err)
{
    char who[64], exchange[48] = "";
    const struct server_job *job = server->job;
    char *lines = announcement_addresses(&server->listener, job->bind, err);
    if (!lines)
        return -1;
    int rc = open_exchange(server, lines, err);
    if (rc == 0 && job->ticket)
        rc = announcement_ticket(job->ticket, job->region, &server->listener, &server->admission,
                                 err);
    if (rc == 0 && job->control)
        rc = control_announce(lines, strcmp(job->sink->ops->kind, "directory") == 0, err);
    if (rc == 0 && job->ready_file) {
        rc = announcement_publish(job->ready_file, lines, err);
        server->announced = rc == 0;
    }
    if (rc == 0 && job->inside)
        job->inside->listening(job->inside->context, server->listener.port);
    if (server->exchange.open)
        snprintf(exchange, sizeof exchange, ", exchange on TCP port %u", server->exchange.port);
    for (char *c = lines; *c; c++)
        if (*c == '\n')
            *c = c[1] ? ' ' : '\0';
    if (rc == 0)
        (job->control ? log_verbose : log_note)(
            "serving on %s: %s, %s%s", lines[0] ? lines : "link-local addresses alone",
            job->sink->description, admission_describe(&server->admission, who, sizeof who),
            exchange);
    if (rc == 0)
        warn_of_port(&server->listener);
    free(lines);
    return rc;
}

/* Where the limit of locked memory is not even enough for one session, no client could be served. */
static int check_memory(const struct server *server, struct error *err)
{
    const struct server_job *job = server->job;
    uint64_t least = receiver_single_memory();
    char limit[UNITS_TEXT], wanted[UNITS_TEXT];
    if (job->inside || job->ticket || job->max_memory || server->budget.most_bytes >= least)
        return 0;
    error_set(err, ERROR_RESOURCE, STAGE_LISTEN, NULL,
              "%s of memory may be locked, and a session takes %s",
              units_format_size(server->budget.most_bytes, limit),
              units_format_size(least, wanted));
    return error_hint(err, "%s", memory_limit_hint());
}

static int open_server(struct server *server, struct error *err)
{
    const struct server_job *job = server->job;
    if (job->ready_file)
        announcement_withdraw(job->ready_file);
    server->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    server->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->abort_fd < 0 || server->done_fd < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_LISTEN, NULL, errno,
                               "cannot make an eventfd");
    if (check_memory(server, err) < 0 || admission_prepare(&server->admission, err) < 0 ||
        listener_open(&server->listener, job->bind, job->port, err) < 0)
        return -1;
    if (job->ticket && region_publish(job->region, server->listener.ids[0], err) < 0)
        return -1;
    server->wait_until = job->wait ? clock_after(job->wait) : CLOCK_NEVER;
    return announce(server, err);
}

uint64_t server_least_memory(void)
{
    uint64_t transfer = receiver_least_memory(), check = tester_least_memory();
    return transfer > check ? transfer : check;
}

/* The limit of locked memory, for those who are not above it. */
static uint64_t locked_memory(void)
{
    struct rlimit limit;
    if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return BUDGET_UNLIMITED;
    return limit.rlim_cur;
}

/* A transfer that has to be alone leaves room for checks, unless the user says otherwise. */
static void set_budget(struct server *server)
{
    const struct server_job *job = server->job;
    bool alone = job->sink->ops->exclusive || job->once;
    unsigned usual = alone ? 1 + MOST_CHECKS : USUAL_SESSIONS;
    server->budget = (struct budget){
        .most_sessions = job->max_sessions ? job->max_sessions : usual,
        .most_of = {[BUDGET_TRANSFER] = alone, [BUDGET_CHECK] = MOST_CHECKS},
        .most_bytes = job->max_memory ? job->max_memory : locked_memory(),
        .least = server_least_memory(),
        .wanted = receiver_wanted_memory()};
    if (job->ticket && server->budget.most_bytes != BUDGET_UNLIMITED)
        server->budget.most_bytes -= job->region->memory.bytes < server->budget.most_bytes
                                         ? job->region->memory.bytes
                                         : server->budget.most_bytes;
}

/* As many as the system lets it have, if need be: many sessions are many descriptors. */
static void raise_file_limit(const struct server *server)
{
    struct rlimit limit;
    rlim_t wanted = (server->budget.most_sessions + 4) * FILES_PER_SESSION;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* In place of what a session says that was ended for that. */
static int no_client(struct error *err)
{
    error_clear(err);
    return error_set(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL,
                     "the client that started this server is gone");
}

int server_run(const struct server_job *job, bool *told, struct error *err)
{
    struct server server = {.job = job, .admission = job->admission, .abort_fd = -1, .done_fd = -1};
    set_budget(&server);
    raise_file_limit(&server);
    int rc = open_server(&server, err);
    if (rc == 0)
        rc = loop(&server, err);
    server.draining = true;
    take_waiting(&server);
    exchange_close(&server.exchange);
    listener_close(&server.listener);
    end_sessions(&server);
    if (server.announced && unlink(job->ready_file) < 0 && errno != ENOENT)
        log_note("%s: cannot remove the ready file: %s", job->ready_file, strerror(errno));
    if (server.aborting)
        rc = error_set(err, ERROR_INTERRUPTED, STAGE_NONE, NULL, "interrupted by a signal");
    else if (server.deserted && err->class == ERROR_INTERRUPTED)
        rc = no_client(err);
    *told = server.told;
    if (server.sessions)
        job->leave(err);
    fdio_close(&server.abort_fd);
    fdio_close(&server.done_fd);
    return rc;
}

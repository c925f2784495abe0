#include "config.h"

#include "client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "device.h"
#include "log.h"
#include "memory.h"
#include "signals.h"
#include "subnet.h"

#define RETRY_NS (100 * CLOCK_NS_PER_MS)

/* Of a failed getaddrinfo: what ran out here, or what the system said; 0: it is about the name. */
static int lookup_errno(int rc)
{
    return rc == EAI_MEMORY ? ENOMEM : rc == EAI_SYSTEM ? errno : 0;
}

/* Each network device has a network of such addresses. */
static int check_zone(const struct sockaddr *sa, const char *host, struct error *err)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;
    if (sa->sa_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) ||
        in6->sin6_scope_id != 0)
        return 0;
    error_set(
        err, ERROR_USAGE, STAGE_RESOLVE_ADDRESS, host,
        "a link-local address needs a zone, the network device of this host that leads there");
    return error_hint(err, "such as '%s%%eth0', in brackets where a HOST is due", host);
}

int client_parse_bind(const char *text, struct sockaddr_storage *addr, struct error *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    char inner[ADDRESS_TEXT];
    size_t len = strlen(text);
    /* In brackets, as ready files and destinations have it. */
    if (len > 2 && len < sizeof inner && text[0] == '[' && text[len - 1] == ']') {
        snprintf(inner, sizeof inner, "%.*s", (int)(len - 2), text + 1);
        text = inner;
    }
    int rc = getaddrinfo(text, NULL, &hints, &found);
    int errnum = lookup_errno(rc);
    if (errnum != 0)
        return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_OPEN, text, errnum,
                               "cannot take in the address");
    if (rc != 0) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, text, "--bind takes an address of this host: %s",
                  gai_strerror(rc));
        return error_hint(err, "'rdmaput devices' lists the addresses that reach a device");
    }
    memcpy(addr, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return check_zone((struct sockaddr *)addr, text, err);
}

static int look_up(const struct client_target *target, struct addrinfo **found, struct error *err)
{
    char port[8];
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    snprintf(port, sizeof port, "%u", target->port);
    int rc = getaddrinfo(target->host, port, &hints, found);
    int errnum = lookup_errno(rc);
    if (rc == 0)
        return 0;
    if (errnum != 0)
        return error_set_errno(err, ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS, target->host, errnum,
                               "cannot find that host");
    error_set(err, rc == EAI_AGAIN ? ERROR_TEMPORARY : ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS,
              target->host, "cannot find that host: %s", gai_strerror(rc));
    return error_hint(err, "%s",
                      rc == EAI_AGAIN ? "no name service answers: see the network and "
                                        "/etc/resolv.conf, or give the host's address"
                                      : "check the spelling, or give its address");
}

static int try_all(const struct client_target *target, client_try try, void *context,
                   bool *answered, struct error *err)
{
    struct addrinfo *found;
    struct facts facts = {.port = 0};
    struct error first = {.class = ERROR_NONE};
    if (look_up(target, &found, err) < 0)
        return -1;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        struct error cause = {.class = ERROR_NONE};
        if (try(context, at->ai_addr, clock_after(target->timeout), answered, &cause) == 0) {
            freeaddrinfo(found);
            return 0;
        }
        if (!error_is_set(&first) || cause.class == ERROR_INTERRUPTED ||
            (first.class == ERROR_UNAVAILABLE && cause.stage > first.stage)) {
            first = cause;
            if (target->facts)
                facts = *target->facts;
        }
        if (*answered || cause.class != ERROR_UNAVAILABLE)
            break;
    }
    freeaddrinfo(found);
    *err = first;
    if (target->facts)
        *target->facts = facts;
    return -1;
}

/* Whether trying again may find a server that is only starting. */
static bool not_there_yet(const struct error *err)
{
    return (err->class == ERROR_UNAVAILABLE && err->stage == STAGE_CONNECT) ||
           (err->class == ERROR_TEMPORARY && err->stage <= STAGE_CONNECT);
}

static int pause_or_stop(struct error *err)
{
    struct pollfd fd = {.fd = signals_fd(), .events = POLLIN};
    if (poll(&fd, 1, (int)(RETRY_NS / CLOCK_NS_PER_MS)) > 0) {
        error_clear(err);
        return error_set(err, ERROR_INTERRUPTED, STAGE_CONNECT, NULL, "interrupted by a signal");
    }
    return 0;
}

int client_reach(const struct client_target *target, client_try try, void *context,
                 struct error *err)
{
    int64_t until = clock_after(target->wait);
    for (;;) {
        error_clear(err);
        bool answered = false;
        if (try_all(target, try, context, &answered, err) == 0)
            return 0;
        if (answered || !not_there_yet(err) || clock_now() >= until)
            return -1;
        if (pause_or_stop(err) < 0)
            return -1;
    }
}

struct connecting {
    const struct client_target *target;
    const struct sockaddr *src; /* NULL: any */
    client_attempt attempt;
    void *context;
    struct endpoint *endpoint;
};

/* That of --bind is the one to mend, where no device is behind it. */
static void blame_bind(const struct connecting *job, struct error *err)
{
    struct error ignored = {.class = ERROR_NONE};
    if (!job->src || err->class != ERROR_UNAVAILABLE || err->stage != STAGE_RESOLVE_ADDRESS ||
        device_is_behind(job->src, &ignored) != 0)
        return;
    error_clear(err);
    error_set(err, ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS, job->target->bind,
              "no RDMA device of this host is behind that address of --bind");
    error_hint(err, "'rdmaput devices' lists the addresses that reach a device");
}

/* What goes out by a port that is down gets no answer. */
static void blame_port(const struct endpoint *endpoint, struct error *err)
{
    const char *fault = NULL;
    if (endpoint->id && endpoint->id->verbs && !endpoint->answered &&
        (err->class == ERROR_UNAVAILABLE || err->class == ERROR_TEMPORARY))
        fault = device_port_fault(endpoint->id->verbs, endpoint->id->port_num);
    if (!fault)
        return;
    err->hint[0] = '\0';
    error_hint(
        err,
        "port %u of %s, on this host, is not active (%s): connect its cable, or set its network "
        "device up with 'ip link'; 'rdmaput check' tells more",
        endpoint->id->port_num, ibv_get_device_name(endpoint->id->verbs->device), fault);
}

/* One try of one address, from one port. */
static int try_port(const struct connecting *job, const struct sockaddr *dest, int64_t deadline,
                    bool *answered, bool *port_taken, struct error *err)
{
    struct endpoint *endpoint = job->endpoint;
    if (endpoint_open(endpoint, job->target->timeout, signals_fd(), err) < 0)
        return -1;
    if ((!job->target->has_tos || endpoint_set_tos(endpoint, job->target->tos, err) == 0) &&
        endpoint_resolve(endpoint, job->src, dest, deadline, err) == 0 &&
        job->attempt(job->context, endpoint, deadline, err) == 0)
        return 0;
    *answered = endpoint->answered;
    *port_taken = endpoint->port_taken;
    if (job->target->facts)
        *job->target->facts = endpoint->facts;
    blame_port(endpoint, err);
    endpoint_close(endpoint);
    blame_bind(job, err);
    return -1;
}

static int try_endpoint(void *context, const struct sockaddr *dest, int64_t deadline,
                        bool *answered, struct error *err)
{
    const struct connecting *job = context;
    if (check_zone(dest, job->target->host, err) < 0)
        return -1;
    if (job->src && job->src->sa_family != dest->sa_family) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_RESOLVE_ADDRESS, job->target->host,
                  "--bind names an address of another family than the host's");
        return error_hint(err, "give both as IPv4 addresses, or both as IPv6 ones");
    }
    for (unsigned tries = 1;; tries++) {
        bool port_taken = false;
        if (try_port(job, dest, deadline, answered, &port_taken, err) == 0)
            return 0;
        if (!port_taken || tries == ENDPOINT_PORT_TRIES || clock_now() >= deadline)
            return -1;
        error_clear(err);
    }
}

int client_connect(const struct client_target *target, client_attempt attempt, void *context,
                   struct endpoint *endpoint, struct error *err)
{
    struct sockaddr_storage bind_addr;
    struct connecting job = {
        .target = target, .attempt = attempt, .context = context, .endpoint = endpoint};
    if (target->bind) {
        if (client_parse_bind(target->bind, &bind_addr, err) < 0)
            return -1;
        job.src = (const struct sockaddr *)&bind_addr;
    }
    return client_reach(target, try_endpoint, &job, err);
}

/* ---- places that the server told ------------------------------------------------------------ */

static int bad_place(const char *peer, const char *line, struct error *err)
{
    return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, peer,
                     "the server names an address that is none: %s", line);
}

static int parse_place(const char *peer, char *line, struct client_places *places,
                       struct error *err)
{
    char problem[256], hint[256];
    struct address *address = &places->addresses[places->count];
    error_mask(line);
    switch (address_parse(line, address, problem, sizeof problem, hint, sizeof hint)) {
    case ADDRESS_OK:
        break;
    case ADDRESS_MEMORY:
        return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, peer, ENOMEM,
                               "cannot take in the server's address");
    default:
        return bad_place(peer, line, err);
    }
    if (!address->has_port || address->has_name ||
        address_numeric_family(address->host, strlen(address->host)) == AF_UNSPEC) {
        address_free(address);
        return bad_place(peer, line, err);
    }
    places->count++;
    return 0;
}

int client_parse_places(const char *peer, char *lines, struct client_places *places,
                        struct error *err)
{
    places->count = 0;
    for (char *line = lines, *next; line && places->count < WIRE_MAX_ADDRESSES; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        if (parse_place(peer, line, places, err) < 0)
            return -1;
    }
    return 0;
}

/* As subnet_is_near. The zone of an address may be none of this host's. */
static int is_near(const struct address *address, struct error *err)
{
    struct sockaddr_storage addr;
    struct error failed = {.class = ERROR_NONE};
    if (client_parse_bind(address->host, &addr, &failed) == 0)
        return subnet_is_near((const struct sockaddr *)&addr, err);
    if (failed.class == ERROR_USAGE)
        return 0;
    *err = failed;
    return -1;
}

/* A host tells all its addresses: one of a network that is not this host's may take its time to be
 * found out as such. */
static int order_places(const struct client_places *places,
                        const struct address *order[WIRE_MAX_ADDRESSES], struct error *err)
{
    int near[WIRE_MAX_ADDRESSES];
    unsigned count = 0;
    for (unsigned i = 0; i < places->count; i++) {
        near[i] = is_near(&places->addresses[i], err);
        if (near[i] < 0)
            return -1;
    }
    for (int wanted = 1; wanted >= 0; wanted--)
        for (unsigned i = 0; i < places->count; i++)
            if (near[i] == wanted)
                order[count++] = &places->addresses[i];
    return 0;
}

int client_connect_places(const struct client_places *places, const struct client_target *target,
                          client_attempt attempt, void *context, struct endpoint *endpoint,
                          struct error *err)
{
    struct error first = {.class = ERROR_NONE};
    const struct address *order[WIRE_MAX_ADDRESSES];
    if (order_places(places, order, err) < 0)
        return -1;
    for (unsigned i = 0; i < places->count; i++) {
        struct error cause = {.class = ERROR_NONE};
        struct client_target there = *target;
        there.host = order[i]->host;
        there.port = order[i]->port;
        there.wait = 0;
        if (client_connect(&there, attempt, context, endpoint, &cause) == 0)
            return 0;
        if (!error_is_set(&first) || cause.class != ERROR_UNAVAILABLE)
            first = cause;
        if (cause.class != ERROR_UNAVAILABLE)
            break;
    }
    *err = first;
    return -1;
}

int client_other_version(const char *peer, unsigned version, struct error *err)
{
    error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, peer,
              "the server speaks version %u of the protocol, this program version %u", version,
              WIRE_VERSION);
    return error_hint(err, "install the same version of rdmaput at both ends");
}

int client_understand_refusal(const char *peer, const void *data, size_t len, struct error *err)
{
    struct wire_refusal refusal;
    enum wire_result result = wire_decode_refusal(data, len, &refusal);
    if (result == WIRE_OTHER_VERSION) {
        error_clear(err);
        return client_other_version(peer, refusal.version, err);
    }
    if (result != WIRE_OK)
        return -1;
    char *hint = strchr(refusal.text, '\n');
    if (hint)
        *hint++ = '\0';
    error_mask(refusal.text);
    error_clear(err);
    error_set(err, error_class_of_status(refusal.status), STAGE_CONNECT, peer,
              "the server refused: %s", refusal.text);
    if (hint) {
        error_mask(hint);
        error_hint(err, "%s", hint);
    } else if (memory_is_limited(err)) {
        error_hint(err, "on the server's host: %s", memory_limit_hint());
    }
    return -1;
}

static int understand_welcome(const struct endpoint *endpoint, const struct endpoint_answer *answer,
                              struct wire_welcome *welcome, struct error *err)
{
    switch (wire_decode_welcome(answer->data, answer->len, welcome)) {
    case WIRE_OK:
        return 0;
    case WIRE_OTHER_VERSION:
        return client_other_version(endpoint->peer, welcome->version, err);
    default:
        error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, endpoint->peer,
                  "another program listens on that port: it does not speak rdmaput's protocol");
        return error_hint(err, "name the port of 'rdmaput serve': HOST:PORT; 'rdmaput post' writes "
                               "into memory of any listener");
    }
}

/* Whether the server is to prove that it knows the secret, exactly if this side is. */
static int check_secret(const struct endpoint *endpoint, const struct wire_hello *hello,
                        const struct wire_welcome *welcome, struct error *err)
{
    bool ours = (hello->flags & WIRE_HELLO_SECRET) != 0;
    bool theirs = (welcome->flags & WIRE_WELCOME_SECRET) != 0;
    if (ours == theirs)
        return 0;
    if (theirs)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, endpoint->peer,
                         "the server asks for a proof that was not offered");
    return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, endpoint->peer,
                     "the server does not offer to prove that it knows the secret");
}

void client_hint_secret(struct error *err)
{
    if (err->class == ERROR_UNAVAILABLE)
        error_hint(
            err, "if the server has a secret, --secret-file names the file with the same one; one "
                 "without takes no client that has one");
}

/* Whether a session of messages is to begin, which has a secret where both ends have. */
static bool wants_session(const struct wire_hello *hello)
{
    return hello && (hello->role == WIRE_ROLE_WRITE ||
                     (hello->role == WIRE_ROLE_CHECK && !(hello->flags & WIRE_HELLO_KNOCK)));
}

static int refused(const struct endpoint *endpoint, const struct wire_hello *hello,
                   const struct endpoint_answer *answer, struct error *err)
{
    client_understand_refusal(endpoint->peer, answer->data, answer->len, err);
    if (wants_session(hello))
        client_hint_secret(err);
    return -1;
}

int client_greet(struct endpoint *endpoint, const struct wire_hello *hello, int64_t deadline,
                 struct wire_welcome *welcome, struct endpoint_answer *answer, struct error *err)
{
    uint8_t data[WIRE_HELLO_BYTES];
    unsigned len = hello ? (unsigned)wire_encode_hello(hello, data) : 0;
    *welcome = (struct wire_welcome){.version = 0};
    if (endpoint_connect(endpoint, hello ? data : NULL, len, deadline, answer, err) < 0)
        return answer->refused ? refused(endpoint, hello, answer, err) : -1;
    if (!wants_session(hello))
        return 0;
    if (understand_welcome(endpoint, answer, welcome, err) < 0)
        return -1;
    return check_secret(endpoint, hello, welcome, err);
}

/* Asks for a connection as somebody who wants nothing. */
static bool knock(struct endpoint *probe, int64_t deadline, struct error *err)
{
    static const struct wire_hello nothing = {
        .version = WIRE_VERSION, .role = WIRE_ROLE_CHECK, .flags = WIRE_HELLO_KNOCK};
    static const struct endpoint_wants least = {.send_depth = 1, .recv_depth = 1, .max_sge = 1};
    struct endpoint_answer answer;
    struct wire_welcome ignored;
    if (endpoint_create_queues(probe, &least, NULL, err) < 0)
        return false;
    /* A reset by a listener that is just dying looks like a refusal, but says nothing. */
    if (client_greet(probe, &nothing, deadline, &ignored, &answer, err) == 0 || probe->answered)
        return !(answer.refused && answer.len == 0);
    /* One that is frozen does not answer, but its host does. */
    return probe->asked && err->class == ERROR_TEMPORARY && err->stage == STAGE_CONNECT &&
           clock_now() >= deadline;
}

/* One try of client_still_listens, from one port. */
static bool listens(const struct endpoint *endpoint, uint64_t ns, int64_t deadline,
                    bool *port_taken)
{
    struct endpoint probe;
    struct error ignored = {.class = ERROR_NONE};
    if (endpoint_open(&probe, ns, signals_fd(), &ignored) < 0)
        return false;
    bool heard = endpoint_resolve(&probe, NULL, rdma_get_peer_addr(endpoint->id), deadline,
                                  &ignored) == 0 &&
                 knock(&probe, deadline, &ignored);
    *port_taken = probe.port_taken;
    endpoint_disconnect(&probe, clock_left(deadline));
    endpoint_close(&probe);
    return heard;
}

bool client_still_listens(const struct endpoint *endpoint, uint64_t ns)
{
    int64_t deadline = clock_after(ns);
    for (unsigned tries = 1;; tries++) {
        bool port_taken = false;
        if (listens(endpoint, ns, deadline, &port_taken))
            return true;
        if (!port_taken || tries == ENDPOINT_PORT_TRIES)
            return false;
    }
}

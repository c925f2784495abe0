#include "config.h"

#include "exchange.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "clock.h"
#include "fdio.h"
#include "log.h"
#include "secret.h"

#define BACKLOG 64
#define REST_NS (100 * CLOCK_NS_PER_MS)
#define REFUSED_NS (1 * CLOCK_NS_PER_S)

/* ---- listening ----------------------------------------------------------------------------- */

static int listen_error(const struct sockaddr *sa, int errnum, struct error *err)
{
    char text[ADDRESS_TEXT];
    error_set_errno(err, ERROR_UNAVAILABLE, STAGE_LISTEN, address_format(sa, text), errnum,
                    "cannot listen for exchanges");
    if (errnum == EADDRINUSE)
        return error_hint(err, "the port is in use: name another one with --exchange-port, which "
                               "for iWARP must not be that of --port");
    return -1;
}

/* A listening socket, or -1 with errno. */
static int listen_at(const struct sockaddr *sa)
{
    int on = 1, off = 0;
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (sa->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, sa, address_length(sa)) < 0 || listen(fd, BACKLOG) < 0)
        fdio_close(&fd);
    return fd;
}

static int listen_bound(const struct exchange_job *job, struct error *err)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    struct sockaddr *sa = (struct sockaddr *)&addr;
    memcpy(&addr, job->bind, address_length(job->bind));
    address_set_port(sa, job->port);
    int fd = listen_at(sa);
    return fd < 0 ? listen_error(sa, errno, err) : fd;
}

static int listen_everywhere(uint16_t port, struct error *err)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = listen_at((struct sockaddr *)&v6);
    if (fd >= 0)
        return fd;
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)
        return listen_error((struct sockaddr *)&v6, errno, err);
    fd = listen_at((struct sockaddr *)&v4);
    return fd < 0 ? listen_error((struct sockaddr *)&v4, errno, err) : fd;
}

/* The lines that are not empty, as many as fit. */
static void keep_lines(char kept[WIRE_MAX_MEET + 1], const char *lines)
{
    size_t used = 0, len;
    for (unsigned count = 0; *lines && count < WIRE_MAX_ADDRESSES; lines += len) {
        len = strcspn(lines, "\n");
        size_t separator = used > 0;
        if (len > 0) {
            if (used + separator + len > WIRE_MAX_MEET)
                break;
            if (separator)
                kept[used++] = '\n';
            memcpy(kept + used, lines, len);
            used += len;
            count++;
        }
        len += lines[len] == '\n';
    }
    kept[used] = '\0';
}

int exchange_open(struct exchange *exchange, const struct exchange_job *job, struct error *err)
{
    struct sockaddr_storage addr;
    socklen_t size = sizeof addr;
    *exchange = (struct exchange){.admission = job->admission, .timeout = job->timeout};
    keep_lines(exchange->addresses, job->addresses);
    if (!exchange->addresses[0]) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_LISTEN, NULL,
                  "there is no address for RDMA that an exchange could tell");
        return error_hint(err, "name one with --bind; 'rdmaput devices' lists them");
    }
    exchange->fd = job->bind ? listen_bound(job, err) : listen_everywhere(job->port, err);
    if (exchange->fd < 0)
        return -1;
    exchange->open = true;
    if (getsockname(exchange->fd, (struct sockaddr *)&addr, &size) < 0) {
        error_set_errno(err, ERROR_UNAVAILABLE, STAGE_LISTEN, NULL, errno,
                        "cannot listen for exchanges");
        exchange_close(exchange);
        return -1;
    }
    exchange->port = address_port((const struct sockaddr *)&addr);
    return 0;
}

static void remove_guest(struct exchange *exchange, unsigned index)
{
    struct exchange_guest *guest = &exchange->guests[index];
    exchange->count--;
    memmove(guest, guest + 1, (exchange->count - index) * sizeof *guest);
}

static void end_guest(struct exchange *exchange, unsigned index)
{
    fdio_close(&exchange->guests[index].fd);
    remove_guest(exchange, index);
}

void exchange_close(struct exchange *exchange)
{
    if (!exchange->open)
        return;
    while (exchange->count > 0)
        end_guest(exchange, exchange->count - 1);
    fdio_close(&exchange->fd);
    exchange->open = false;
}

/* ---- one client ---------------------------------------------------------------------------- */

/* What a client is told goes into the empty buffer of its socket: nothing to wait for. */
static bool tell(const struct exchange_guest *guest, const void *data, size_t len)
{
    return send(guest->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len;
}

/* It stays for a moment, as a HELLO that arrives after the end would take back the reason. */
static bool refuse(struct exchange_guest *guest, const struct error *reason)
{
    uint8_t data[WIRE_REFUSAL_MAX_BYTES];
    log_note("%s: exchange refused: %s", guest->peer, reason->text);
    if (!tell(guest, data, admission_refusal(reason, data)))
        return false;
    shutdown(guest->fd, SHUT_WR);
    guest->state = EXCHANGE_REFUSED;
    guest->until = clock_after(REFUSED_NS);
    return true;
}

static void refuse_busy(struct exchange_guest *guest)
{
    struct error reason = {.class = ERROR_NONE};
    error_set(&reason, ERROR_TEMPORARY, STAGE_CONNECT, NULL, "busy with other exchanges");
    error_hint(&reason, "try again later");
    refuse(guest, &reason);
}

static bool refuse_late(struct exchange_guest *guest)
{
    struct error reason = {.class = ERROR_NONE};
    error_set(&reason, ERROR_TEMPORARY, STAGE_CONNECT, NULL,
              "timed out: no whole greeting has come");
    return refuse(guest, &reason);
}

/* Who waits for READY cannot be told by a REFUSAL any more. */
static bool end_unrefused(const struct exchange_guest *guest, const char *why)
{
    log_note("%s: exchange ended: %s", guest->peer, why);
    return false;
}

/* Clients may well close the connection, and others look only whether anybody listens. */
static bool end_closed(const struct exchange_guest *guest)
{
    log_verbose("%s: exchange ended: the client closed the connection", guest->peer);
    return false;
}

/* Gives the client its token, and the addresses. */
static bool welcome(const struct exchange *exchange, struct exchange_guest *guest)
{
    static const struct wire_welcome welcome = {.version = WIRE_VERSION};
    struct wire_message meet = {.type = WIRE_MEET};
    uint8_t data[WIRE_WELCOME_BYTES + WIRE_MESSAGE_BYTES];
    struct error reason = {.class = ERROR_NONE};
    if (secret_random(guest->token, WIRE_TOKEN_BYTES, &reason) < 0)
        return refuse(guest, &reason);
    memcpy(meet.meet.token, guest->token, WIRE_TOKEN_BYTES);
    strcpy(meet.meet.text, exchange->addresses);
    size_t len = wire_encode_welcome(&welcome, data);
    len += wire_encode(&meet, data + len);
    guest->state = EXCHANGE_WAITING;
    guest->until = clock_after(exchange->timeout);
    return tell(guest, data, len);
}

/* Judges a HELLO that may not have come whole. 1: it is good; 0: more of it is due; -1: *err. */
static int judge_hello(const struct exchange *exchange, const struct exchange_guest *guest,
                       struct error *err)
{
    static const uint8_t no_token[WIRE_TOKEN_BYTES];
    struct wire_hello hello;
    enum wire_result result = wire_decode_hello(guest->hello, guest->hello_len, &hello);
    if (result == WIRE_OTHER_VERSION)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, NULL,
                         "protocol version %u here, %u there", WIRE_VERSION, hello.version);
    if (result == WIRE_FOREIGN ? guest->hello_len < 4 : guest->hello_len < WIRE_HELLO_BYTES)
        return 0;
    if (result != WIRE_OK)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, NULL, "malformed greeting");
    if (hello.role != WIRE_ROLE_WRITE || memcmp(hello.token, no_token, sizeof no_token) != 0)
        return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, NULL,
                         "this port answers no such request");
    return admission_check_hello(exchange->admission, &hello, err) < 0 ? -1 : 1;
}

/* Whether a descriptor that was read without result is only to be read later. */
static bool nothing_yet(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static bool read_hello(struct exchange *exchange, struct exchange_guest *guest)
{
    struct error reason = {.class = ERROR_NONE};
    ssize_t n = recv(guest->fd, guest->hello + guest->hello_len,
                     WIRE_HELLO_BYTES - guest->hello_len, 0);
    if (n <= 0)
        return nothing_yet(n) || end_closed(guest);
    guest->hello_len += (size_t)n;
    int judgement = judge_hello(exchange, guest, &reason);
    if (judgement < 0)
        return refuse(guest, &reason);
    return judgement == 0 || welcome(exchange, guest);
}

/* It has nothing to say: whatever comes ends it. */
static bool keep_waiting(const struct exchange_guest *guest)
{
    char byte;
    ssize_t n = recv(guest->fd, &byte, 1, 0);
    if (n > 0)
        return end_unrefused(guest, "the client said more than its greeting");
    return nothing_yet(n) || end_closed(guest);
}

static bool has_hung_up(const struct exchange_guest *guest)
{
    struct pollfd fd = {.fd = guest->fd};
    return poll(&fd, 1, 0) > 0;
}

/* Whether the connection goes on. */
static bool attend(struct exchange *exchange, struct exchange_guest *guest)
{
    bool late = clock_now() >= guest->until;
    switch (guest->state) {
    case EXCHANGE_GREETING:
        return late ? refuse_late(guest) : read_hello(exchange, guest);
    case EXCHANGE_WAITING:
        return late ? end_unrefused(guest, "no RDMA connection followed in time")
                    : keep_waiting(guest);
    case EXCHANGE_REFUSED:
        return !late && !has_hung_up(guest);
    }
    return false;
}

static void attend_all(struct exchange *exchange)
{
    for (unsigned i = 0; i < exchange->count;) {
        if (attend(exchange, &exchange->guests[i]))
            i++;
        else
            end_guest(exchange, i);
    }
}

/* ---- new clients --------------------------------------------------------------------------- */

static bool is_of(const struct exchange_guest *guest, const uint8_t *host)
{
    return !host || memcmp(guest->host, host, sizeof guest->host) == 0;
}

/* host: of that one alone; NULL: of all. */
static bool end_oldest(struct exchange *exchange, enum exchange_state state, const uint8_t *host)
{
    for (unsigned i = 0; i < exchange->count; i++)
        if (exchange->guests[i].state == state && is_of(&exchange->guests[i], host)) {
            if (state == EXCHANGE_GREETING)
                refuse_busy(&exchange->guests[i]);
            end_guest(exchange, i);
            return true;
        }
    return false;
}

static unsigned count_admitted(const struct exchange *exchange, const uint8_t *host)
{
    unsigned count = 0;
    for (unsigned i = 0; i < exchange->count; i++)
        count += exchange->guests[i].state != EXCHANGE_REFUSED && is_of(&exchange->guests[i], host);
    return count;
}

static bool make_room(struct exchange *exchange, const uint8_t *host, bool admitted)
{
    /* Some may have gone since, and nobody has to go for those. */
    if (exchange->count >= EXCHANGE_OF_HOST)
        attend_all(exchange);
    if (admitted && count_admitted(exchange, host) >= EXCHANGE_OF_HOST)
        return end_oldest(exchange, EXCHANGE_GREETING, host);
    return exchange->count < EXCHANGE_GUESTS || end_oldest(exchange, EXCHANGE_REFUSED, NULL) ||
           (admitted && end_oldest(exchange, EXCHANGE_GREETING, NULL));
}

/* The addresses of IPv4 clients as they know them, though the socket is one of IPv6. */
static void unmap(struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    if (addr->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return;
    v4.sin_port = v6->sin6_port;
    memcpy(&v4.sin_addr, v6->sin6_addr.s6_addr + 12, sizeof v4.sin_addr);
    memcpy(addr, &v4, sizeof v4);
}

static void begin(struct exchange *exchange, int fd, const struct sockaddr *peer)
{
    struct error reason = {.class = ERROR_NONE};
    struct exchange_guest guest = {
        .fd = fd, .state = EXCHANGE_GREETING, .until = clock_after(exchange->timeout)};
    address_format(peer, guest.peer);
    budget_find_host(peer, guest.host);
    bool admitted = admission_check(exchange->admission, peer, &reason) == 0;
    bool stays = make_room(exchange, guest.host, admitted);
    if (admitted && !stays)
        refuse_busy(&guest);
    if (!admitted && !refuse(&guest, &reason))
        stays = false;
    if (stays && attend(exchange, &guest))
        exchange->guests[exchange->count++] = guest;
    else
        fdio_close(&guest.fd);
}

/* Whether there may be another one. */
static bool take_one(struct exchange *exchange)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof addr;
    int fd = accept4(exchange->fd, (struct sockaddr *)&addr, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        unmap(&addr);
        begin(exchange, fd, (const struct sockaddr *)&addr);
        return true;
    }
    if (errno == EAGAIN)
        return false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        exchange->rest_until = clock_after(REST_NS);
        return false;
    }
    return true; /* the error of one connection: accept(2) */
}

static bool rests(const struct exchange *exchange)
{
    return clock_now() < exchange->rest_until;
}

/* ---- the loop's calls ---------------------------------------------------------------------- */

unsigned exchange_poll_fds(const struct exchange *exchange, struct pollfd *fds, unsigned max)
{
    unsigned count = 0;
    if (!exchange->open)
        return 0;
    if (count < max && !rests(exchange))
        fds[count++] = (struct pollfd){.fd = exchange->fd, .events = POLLIN};
    for (unsigned i = 0; i < exchange->count && count < max; i++) {
        const struct exchange_guest *guest = &exchange->guests[i];
        short events = guest->state == EXCHANGE_REFUSED ? 0 : POLLIN;
        fds[count++] = (struct pollfd){.fd = guest->fd, .events = events};
    }
    return count;
}

int64_t exchange_deadline(const struct exchange *exchange)
{
    int64_t moment = CLOCK_NEVER;
    if (!exchange->open)
        return moment;
    if (rests(exchange))
        moment = exchange->rest_until;
    for (unsigned i = 0; i < exchange->count; i++)
        if (exchange->guests[i].until < moment)
            moment = exchange->guests[i].until;
    return moment;
}

void exchange_work(struct exchange *exchange)
{
    if (!exchange->open)
        return;
    attend_all(exchange);
    /* No more than this at once: the server has other work. */
    for (int i = 0; i < EXCHANGE_GUESTS && !rests(exchange); i++)
        if (!take_one(exchange))
            break;
}

int exchange_claim(struct exchange *exchange, const uint8_t token[WIRE_TOKEN_BYTES])
{
    for (unsigned i = 0; exchange->open && i < exchange->count; i++) {
        const struct exchange_guest *guest = &exchange->guests[i];
        if (guest->state != EXCHANGE_WAITING ||
            !secret_equal(guest->token, token, WIRE_TOKEN_BYTES))
            continue;
        int fd = guest->fd;
        /* Something may have come since exchange_work. */
        if (keep_waiting(guest)) {
            remove_guest(exchange, i);
            return fd;
        }
        end_guest(exchange, i);
        break;
    }
    return -1;
}

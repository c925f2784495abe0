#include "config.h"

#include "exchange-client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "exchange-stream.h"
#include "fdio.h"
#include "signals.h"

/* ---- connecting ---------------------------------------------------------------------------- */

static int connect_error(const char *peer, int errnum, struct error *err)
{
    if (errnum == ECONNREFUSED) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, peer,
                  "connection refused: nobody listens on that port for an exchange");
        return error_hint(err,
                          "start the server with --exchange-port, or leave out --exchange=tcp");
    }
    error_set_errno(err, errnum == ETIMEDOUT ? ERROR_TEMPORARY : ERROR_UNAVAILABLE, STAGE_CONNECT,
                    peer, errnum, "cannot connect for the exchange");
    return error_hint(err, "check that the host is up and that no firewall drops TCP to that port");
}

/* READY may take as long as the server's storage does: a connection whose other host has gone is
 * found out by the kernel, a process that is stopped by the session. */
static void keep_alive(int fd, uint64_t timeout)
{
    const int on = 1, probes = 2;
    int64_t third = (int64_t)timeout / 3 / CLOCK_NS_PER_S;
    int seconds = third < 1 ? 1 : third > 3600 ? 3600 : (int)third;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static int connect_stream(const struct exchange_stream *stream, const struct sockaddr *dest,
                          struct error *err)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    if (connect(stream->fd, dest, address_length(dest)) == 0)
        return 0;
    if (errno != EINPROGRESS && errno != EINTR)
        return connect_error(stream->peer, errno, err);
    if (exchange_wait(stream, POLLOUT, err) < 0)
        return -1;
    if (getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
        failure = errno;
    return failure ? connect_error(stream->peer, failure, err) : 0;
}

/* ---- the server's answer ------------------------------------------------------------------- */

static int foreign(const struct exchange_stream *stream, struct error *err)
{
    error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, stream->peer,
              "another program listens on that port: it does not speak rdmaput's protocol");
    return error_hint(err, "name the port of the server's --exchange-port");
}

/* Whether that may be the start of a WELCOME or REFUSAL. */
static int check_start(const struct exchange_stream *stream, const uint8_t *data, size_t len,
                       struct error *err)
{
    struct wire_welcome welcome;
    switch (wire_decode_welcome(data, len, &welcome)) {
    case WIRE_FOREIGN:
        return foreign(stream, err);
    case WIRE_OTHER_VERSION:
        return client_other_version(stream->peer, welcome.version, err);
    default:
        return 0;
    }
}

/* Another program may send less than a WELCOME and then wait, so that each part is looked at. */
static int read_answer(const struct exchange_stream *stream, bool *answered, struct error *err)
{
    uint8_t data[WIRE_REFUSAL_MAX_BYTES];
    struct wire_welcome welcome;
    const size_t magic = WIRE_HEADER_BYTES, start = WIRE_PRIVATE_HEADER_BYTES;
    if (exchange_read(stream, data, magic, err) < 0)
        return -1;
    *answered = true;
    if (check_start(stream, data, magic, err) < 0 ||
        exchange_read(stream, data + magic, start - magic, err) < 0 ||
        check_start(stream, data, start, err) < 0)
        return -1;
    size_t len = wire_private_length(data);
    if (len < start || len > sizeof data)
        return foreign(stream, err);
    if (exchange_read(stream, data + start, len - start, err) < 0)
        return -1;
    if (wire_decode_welcome(data, len, &welcome) == WIRE_OK)
        return 0;
    client_understand_refusal(stream->peer, data, len, err);
    client_hint_secret(err);
    return error_is_set(err) ? -1 : foreign(stream, err);
}

/* ---- the meeting --------------------------------------------------------------------------- */

static int take_meet(const struct exchange_stream *stream, struct exchange_meeting *meeting,
                     struct error *err)
{
    struct wire_message message;
    if (exchange_receive(stream, &message, err) < 0)
        return -1;
    if (message.type != WIRE_MEET)
        return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, stream->peer,
                         "received %s where MEET was due", wire_type_name(message.type));
    memcpy(meeting->token, message.meet.token, WIRE_TOKEN_BYTES);
    return client_parse_places(stream->peer, message.meet.text, &meeting->places, err);
}

/* A server that has refused may no longer take a HELLO: its answer says why. */
static void say_hello(const struct exchange_stream *stream, bool secret)
{
    struct wire_hello hello = {
        .version = WIRE_VERSION, .role = WIRE_ROLE_WRITE, .flags = secret ? WIRE_HELLO_SECRET : 0};
    struct error ignored = {.class = ERROR_NONE};
    uint8_t data[WIRE_HELLO_BYTES];
    size_t len = wire_encode_hello(&hello, data);
    exchange_write(stream, data, len, &ignored);
}

static int try_address(void *context, const struct sockaddr *dest, int64_t deadline, bool *answered,
                       struct error *err)
{
    struct exchange_meeting *meeting = context;
    *meeting = (struct exchange_meeting){
        .fd = -1, .timeout = meeting->timeout, .secret = meeting->secret};
    address_format(dest, meeting->peer);
    meeting->fd = socket(dest->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (meeting->fd < 0)
        return error_set_errno(err, errno == EAFNOSUPPORT ? ERROR_UNAVAILABLE : ERROR_RESOURCE,
                               STAGE_RESOLVE_ADDRESS, meeting->peer, errno, "cannot make a socket");
    struct exchange_stream stream = {
        .fd = meeting->fd, .stop_fd = signals_fd(), .deadline = deadline, .peer = meeting->peer};
    if (connect_stream(&stream, dest, err) < 0)
        goto fail;
    keep_alive(meeting->fd, meeting->timeout);
    say_hello(&stream, meeting->secret);
    if (read_answer(&stream, answered, err) < 0 || take_meet(&stream, meeting, err) < 0)
        goto fail;
    return 0;
fail:
    exchange_leave(meeting);
    return -1;
}

int exchange_meet(const struct client_target *target, uint16_t port, bool secret,
                  struct exchange_meeting *meeting, struct error *err)
{
    struct client_target there = *target;
    there.port = port;
    *meeting = (struct exchange_meeting){.fd = -1, .timeout = target->timeout, .secret = secret};
    return client_reach(&there, try_address, meeting, err);
}

void exchange_leave(struct exchange_meeting *meeting)
{
    fdio_close(&meeting->fd);
}

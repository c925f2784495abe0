#include "config.h"

#include "exchange-stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "clock.h"

static int timed_out(const struct exchange_stream *stream, struct error *err)
{
    error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, stream->peer,
              "timed out: no answer on the exchange connection");
    return error_hint(err, "check that the host is up and that no firewall drops TCP to that port");
}

int exchange_wait(const struct exchange_stream *stream, short events, struct error *err)
{
    struct pollfd fds[] = {{.fd = stream->fd, .events = events},
                           {.fd = stream->stop_fd, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, 2, clock_poll_ms(stream->deadline));
        if (n < 0 && errno != EINTR)
            return error_set_errno(err, ERROR_BUG, STAGE_CONNECT, stream->peer, errno,
                                   "poll failed");
        if (n > 0 && fds[1].revents)
            return error_set(err, ERROR_INTERRUPTED, STAGE_CONNECT, stream->peer,
                             "interrupted by a signal");
        if (n > 0)
            return 0;
        if (clock_now() >= stream->deadline)
            return timed_out(stream, err);
    }
}

static int closed(const struct exchange_stream *stream, struct error *err)
{
    return error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, stream->peer,
                     "the peer closed the exchange connection");
}

/* What errno says of a send or receive: 0 to try it again, or -1 with *err. */
static int wait_or_fail(const struct exchange_stream *stream, short events, struct error *err)
{
    switch (errno) {
    case EINTR:
    case EAGAIN:
        return exchange_wait(stream, events, err);
    case EPIPE:
    case ECONNRESET:
        return closed(stream, err);
    default:
        return error_set_errno(err, ERROR_TEMPORARY, STAGE_CONNECT, stream->peer, errno,
                               "the exchange connection failed");
    }
}

int exchange_write(const struct exchange_stream *stream, const void *data, size_t len,
                   struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = send(stream->fd, (const char *)data + done, len - done, MSG_NOSIGNAL);
        if (n >= 0)
            done += (size_t)n;
        else if (wait_or_fail(stream, POLLOUT, err) < 0)
            return -1;
    }
    return 0;
}

int exchange_read(const struct exchange_stream *stream, void *data, size_t len, struct error *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = recv(stream->fd, (char *)data + done, len - done, 0);
        if (n == 0)
            return closed(stream, err);
        if (n > 0)
            done += (size_t)n;
        else if (wait_or_fail(stream, POLLIN, err) < 0)
            return -1;
    }
    return 0;
}

int exchange_send(const struct exchange_stream *stream, const struct wire_message *message,
                  struct error *err)
{
    uint8_t data[WIRE_MESSAGE_BYTES];
    size_t len = wire_encode(message, data);
    return exchange_write(stream, data, len, err);
}

int exchange_receive(const struct exchange_stream *stream, struct wire_message *message,
                     struct error *err)
{
    uint8_t data[WIRE_MESSAGE_BYTES];
    const char *problem = "a message's length is out of range";
    if (exchange_read(stream, data, WIRE_HEADER_BYTES, err) < 0)
        return -1;
    size_t len = wire_message_length(data);
    if (len >= WIRE_HEADER_BYTES && len <= sizeof data) {
        if (exchange_read(stream, data + WIRE_HEADER_BYTES, len - WIRE_HEADER_BYTES, err) < 0)
            return -1;
        if (wire_decode(data, len, message, &problem) == WIRE_OK)
            return 0;
    }
    return error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, stream->peer,
                     "received a message that breaks the protocol: %s", problem);
}

#include "config.h"

#include "stream.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG 64
#define STUFFING_MS 50 /* without room for more: both buffers are full */

static int fail(const char *what)
{
    fprintf(stderr, "hostile-peer: %s: %s\n", what, strerror(errno));
    return -1;
}

static socklen_t address_size(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static int open_socket(struct stream *stream, int family)
{
    stream->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    stream->open = stream->fd >= 0;
    return stream->open ? 0 : fail("a TCP socket");
}

/* Whether it is ready, or has failed, before the deadline. */
static bool await(const struct stream *stream, short events, int64_t deadline)
{
    int64_t left = deadline - link_now();
    struct pollfd fd = {.fd = stream->fd, .events = events};
    return poll(&fd, 1, left > 0 ? (int)left : 0) > 0;
}

int stream_listen(struct stream *listener, const struct sockaddr *host, uint16_t *port)
{
    struct sockaddr_storage addr = {.ss_family = AF_UNSPEC};
    socklen_t size = address_size(host);
    memcpy(&addr, host, size);
    if (open_socket(listener, host->sa_family) < 0)
        return -1;
    if (bind(listener->fd, (struct sockaddr *)&addr, size) < 0 ||
        listen(listener->fd, BACKLOG) < 0 ||
        getsockname(listener->fd, (struct sockaddr *)&addr, &size) < 0)
        return fail("listening by TCP");
    *port = ntohs(host->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)&addr)->sin6_port
                                              : ((struct sockaddr_in *)&addr)->sin_port);
    return 0;
}

/* What is dripped is to arrive byte by byte. */
static void send_at_once(const struct stream *stream)
{
    const int on = 1;
    setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int stream_accept(const struct stream *listener, struct stream *stream, int64_t deadline)
{
    if (!await(listener, POLLIN, deadline))
        return -1;
    stream->fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    stream->open = stream->fd >= 0;
    if (!stream->open)
        return fail("accepting by TCP");
    send_at_once(stream);
    return 0;
}

int stream_connect(struct stream *stream, const struct sockaddr *dest, int64_t deadline)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    if (open_socket(stream, dest->sa_family) < 0)
        return -1;
    send_at_once(stream);
    if (connect(stream->fd, dest, address_size(dest)) == 0)
        return 0;
    if (errno != EINPROGRESS || !await(stream, POLLOUT, deadline) ||
        getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &failure, &size) < 0)
        return fail("connecting by TCP");
    errno = failure;
    return failure ? fail("connecting by TCP") : 0;
}

/* Whether a send or receive that did nothing is to be tried again, once it is ready. */
static bool try_again(const struct stream *stream, short events, int64_t deadline)
{
    return errno == EINTR || (errno == EAGAIN && await(stream, events, deadline));
}

bool stream_send(const struct stream *stream, const void *bytes, size_t len, int64_t deadline)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = stream->open
                        ? send(stream->fd, (const uint8_t *)bytes + done, len - done, MSG_NOSIGNAL)
                        : -1;
        if (n > 0)
            done += (size_t)n;
        else if (!stream->open || !try_again(stream, POLLOUT, deadline))
            return false;
    }
    return true;
}

bool stream_read(const struct stream *stream, void *bytes, size_t len, int64_t deadline)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = stream->open ? recv(stream->fd, (uint8_t *)bytes + done, len - done, 0) : 0;
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || !try_again(stream, POLLIN, deadline))
            return false;
    }
    return true;
}

void stream_stuff(const struct stream *stream)
{
    static const uint8_t stuffing[65536];
    while (stream_send(stream, stuffing, sizeof stuffing, link_now() + STUFFING_MS))
        ;
}

bool stream_has_ended(const struct stream *stream)
{
    struct pollfd fd = {.fd = stream->fd, .events = POLLRDHUP};
    return !stream->open || poll(&fd, 1, 0) > 0;
}

char *stream_name(const struct stream *stream, char name[LINK_NAME_BYTES])
{
    struct sockaddr_storage addr;
    socklen_t size = sizeof addr;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(stream->fd, (struct sockaddr *)&addr, &size) == 0)
        getnameinfo((struct sockaddr *)&addr, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, LINK_NAME_BYTES, strchr(host, ':') ? "[%.46s]:%.5s" : "%.46s:%.5s", host, port);
    return name;
}

void stream_close(struct stream *stream)
{
    if (stream->open)
        close(stream->fd);
    *stream = (struct stream){.open = false};
}

void stream_reset(struct stream *stream)
{
    const struct linger at_once = {.l_onoff = 1};
    if (stream->open)
        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    stream_close(stream);
}

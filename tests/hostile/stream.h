/*
 * stream.h - the TCP connection of an exchange, at either end of the hostile peer. Every wait has a
 * deadline, in milliseconds of link_now.
 */
#ifndef HOSTILE_STREAM_H
#define HOSTILE_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "link.h"

/* Closed when zeroed. */
struct stream {
    bool open;
    int fd; /* non-blocking */
};

/* -1 when the system has not what it takes; says so. */
int stream_listen(struct stream *listener, const struct sockaddr *host, uint16_t *port);
int stream_accept(const struct stream *listener, struct stream *stream, int64_t deadline);
int stream_connect(struct stream *stream, const struct sockaddr *dest, int64_t deadline);

/* All of them, or false: the connection has ended, or the deadline came. */
bool stream_send(const struct stream *stream, const void *bytes, size_t len, int64_t deadline);
bool stream_read(const struct stream *stream, void *bytes, size_t len, int64_t deadline);

/* Sends until the other side's buffer and this side's are full. */
void stream_stuff(const struct stream *stream);

/* Whether the other side has ended it, of which what it said before may be unread. */
bool stream_has_ended(const struct stream *stream);

/* "ADDR:PORT" of this side, as the other one sees it. */
char *stream_name(const struct stream *stream, char name[LINK_NAME_BYTES]);

/* Fine when closed. */
void stream_close(struct stream *stream);
/* Likewise, without the other side getting what is under way. */
void stream_reset(struct stream *stream);

#endif

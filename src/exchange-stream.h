/*
 * exchange-stream.h - whole messages on the TCP connection of an exchange (wire.h), in both
 * directions.
 *
 * Every wait ends at the stream's deadline (ERROR_TEMPORARY) and when its stop_fd becomes readable
 * (ERROR_INTERRUPTED). A connection that the peer has closed is ERROR_TEMPORARY.
 */
#ifndef RDMAPUT_EXCHANGE_STREAM_H
#define RDMAPUT_EXCHANGE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "wire.h"

struct exchange_stream {
    int fd;           /* non-blocking; not owned */
    int stop_fd;      /* -1: none; not owned */
    int64_t deadline; /* clock.h */
    const char *peer; /* the subject of errors; not owned */
};

/* Waits until fd is ready for events of poll(2), or has failed. 0, or -1 with *err. */
int exchange_wait(const struct exchange_stream *stream, short events, struct error *err);

/* All of len bytes and no more. 0, or -1 with *err. */
int exchange_write(const struct exchange_stream *stream, const void *data, size_t len,
                   struct error *err);
int exchange_read(const struct exchange_stream *stream, void *data, size_t len, struct error *err);

/* Sends the bytes of wire_encode. 0, or -1 with *err. */
int exchange_send(const struct exchange_stream *stream, const struct wire_message *message,
                  struct error *err);

/* Receives one message of any type, and leaves what follows it. -1 with *err; ERROR_PROTOCOL for
 * what wire_decode refuses. */
int exchange_receive(const struct exchange_stream *stream, struct wire_message *message,
                     struct error *err);

#endif

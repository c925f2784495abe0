/*
 * sink-stdout.c - standard output, in order.
 *
 * Nothing here blocks but poll(2), with stop_fd beside the stream, since a reader may never read.
 * O_NONBLOCK would do too, but it belongs to all who share the description.
 */
#include "config.h"

#include "sink-stdout.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUBJECT "standard output"
#define PIECE ((size_t)256 << 10) /* between two looks at stop_fd */
#define ZEROS ((size_t)64 << 10)

enum stream {
    STREAM_PIPE,
    STREAM_SOCKET,
    STREAM_OTHER
};

struct sink_stdout {
    struct sink sink;
    enum stream stream;
};

struct sink_object {
    enum stream stream;
    enum error_stage stage;
    bool sync;
    uint64_t end; /* of what was written so far */
};

static int write_error(const struct sink_object *object, int errnum, struct error *err)
{
    bool gone = errnum == EPIPE || errnum == ECONNRESET;
    return error_set_errno(err, ERROR_STORAGE, object->stage, SUBJECT, errnum, "%s",
                           gone ? "its reader has gone" : "cannot write");
}

/* Until the stream takes something, or fails. */
static int wait_until_ready(const struct sink_object *object, int stop_fd, struct error *err)
{
    struct pollfd fds[] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                           {.fd = stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return error_set_errno(err, ERROR_RESOURCE, object->stage, SUBJECT, errno,
                                   "cannot wait for its reader");
    if (fds[1].revents)
        return error_set(err, ERROR_INTERRUPTED, object->stage, SUBJECT, "interrupted");
    return 0;
}

/* Writes what a stream that is ready takes without blocking. */
static ssize_t write_some(enum stream stream, const uint8_t *data, size_t len)
{
    /* POLLOUT of a pipe promises room for PIPE_BUF bytes and no more. */
    size_t most = stream == STREAM_PIPE ? PIPE_BUF : PIECE;
    size_t piece = len < most ? len : most;
    if (stream == STREAM_SOCKET)
        return send(STDOUT_FILENO, data, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(STDOUT_FILENO, data, piece);
}

static int write_all(struct sink_object *object, const uint8_t *data, size_t len, int stop_fd,
                     struct error *err)
{
    for (size_t done = 0; done < len;) {
        if (wait_until_ready(object, stop_fd, err) < 0)
            return -1;
        ssize_t n = write_some(object->stream, data + done, len - done);
        if (n == 0)
            return write_error(object, ENOSPC, err);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            return write_error(object, errno, err);
    }
    object->end += len;
    return 0;
}

static int write_zeros_to(struct sink_object *object, uint64_t offset, int stop_fd,
                          struct error *err)
{
    static const uint8_t zeros[ZEROS];
    if (offset < object->end)
        return error_set(err, ERROR_BUG, object->stage, SUBJECT, "an offset goes back");
    while (object->end < offset) {
        uint64_t gap = offset - object->end;
        if (write_all(object, zeros, gap < ZEROS ? (size_t)gap : ZEROS, stop_fd, err) < 0)
            return -1;
    }
    return 0;
}

static struct sink_object *stdout_begin(struct sink *base, const struct sink_request *request,
                                        int stop_fd, struct error *err)
{
    (void)stop_fd;
    if (sink_refuse_extras(base, request, err) < 0)
        return NULL;
    struct sink_object *object = calloc(1, sizeof *object);
    if (!object) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, SUBJECT, errno, "cannot begin an object");
        return NULL;
    }
    object->stream = ((struct sink_stdout *)base)->stream;
    object->stage = STAGE_TRANSFER;
    object->sync = request->sync;
    return object;
}

static int stdout_store(struct sink_object *object, uint64_t offset, const void *data, size_t len,
                        int stop_fd, struct error *err)
{
    if (write_zeros_to(object, offset, stop_fd, err) < 0)
        return -1;
    return write_all(object, data, len, stop_fd, err);
}

/* Whether a reader that has gone left something unread, which no write tells any more. */
static int unread_error(const struct sink_object *object)
{
    int errnum = 0, unread = 0;
    socklen_t len = sizeof errnum;
    if (object->stream == STREAM_SOCKET)
        getsockopt(STDOUT_FILENO, SOL_SOCKET, SO_ERROR, &errnum, &len);
    else if (ioctl(STDOUT_FILENO, FIONREAD, &unread) < 0 || unread > 0)
        errnum = EPIPE;
    return errnum;
}

/* One that has read everything may go. */
static int check_reader(const struct sink_object *object, struct error *err)
{
    struct pollfd fd = {.fd = STDOUT_FILENO};
    if (object->stream == STREAM_OTHER || poll(&fd, 1, 0) <= 0)
        return 0;
    int errnum = unread_error(object);
    return errnum ? write_error(object, errnum, err) : 0;
}

static int sync_stream(const struct sink_object *object, struct error *err)
{
    if (object->sync && fsync(STDOUT_FILENO) < 0 && errno != EINVAL && errno != EROFS)
        return error_set_errno(err, ERROR_STORAGE, object->stage, SUBJECT, errno, "cannot sync");
    return 0;
}

static int stdout_commit(struct sink_object *object, uint64_t size, int stop_fd, struct error *err)
{
    object->stage = STAGE_COMMIT;
    int rc = write_zeros_to(object, size, stop_fd, err);
    if (rc == 0)
        rc = check_reader(object, err);
    if (rc == 0)
        rc = sync_stream(object, err);
    free(object);
    return rc;
}

static void stdout_abandon(struct sink_object *object, bool keep)
{
    (void)keep;
    free(object);
}

static void stdout_free(struct sink *sink)
{
    free(sink);
}

static const struct sink_ops stdout_ops = {
    .kind = SUBJECT,
    .stores = true,
    .exclusive = true,
    .single = true,
    .irrevocable = true,
    .begin = stdout_begin,
    .store = stdout_store,
    .commit = stdout_commit,
    .abandon = stdout_abandon,
    .free = stdout_free,
};

static int refuse_unwritable(int errnum, struct error *err)
{
    error_set_errno(err, ERROR_STORAGE, STAGE_OPEN, SUBJECT, errnum, "cannot be written");
    return error_hint(err, "it is closed or open for reading alone: redirect it ('> FILE') or pipe "
                           "it ('| COMMAND')");
}

static int refuse_terminal(struct error *err)
{
    error_set(err, ERROR_USAGE, STAGE_OPEN, SUBJECT, "is a terminal, and objects are binary data");
    return error_hint(err, "redirect it ('> FILE') or pipe it ('| COMMAND'; '| cat' to see it)");
}

static int check_stream(enum stream *stream, struct error *err)
{
    struct stat st;
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 || fstat(STDOUT_FILENO, &st) < 0)
        return refuse_unwritable(errno, err);
    if ((flags & O_ACCMODE) == O_RDONLY)
        return refuse_unwritable(EBADF, err);
    if (isatty(STDOUT_FILENO))
        return refuse_terminal(err);
    *stream = S_ISFIFO(st.st_mode)   ? STREAM_PIPE
              : S_ISSOCK(st.st_mode) ? STREAM_SOCKET
                                     : STREAM_OTHER;
    return 0;
}

struct sink *sink_stdout_new(struct error *err)
{
    enum stream stream = STREAM_OTHER;
    if (check_stream(&stream, err) < 0)
        return NULL;
    struct sink_stdout *sink = calloc(1, sizeof *sink);
    if (!sink) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, SUBJECT, errno, "cannot make a sink");
        return NULL;
    }
    sink->sink.ops = &stdout_ops;
    sink->stream = stream;
    snprintf(sink->sink.description, sizeof sink->sink.description, "%s", SUBJECT);
    return &sink->sink;
}

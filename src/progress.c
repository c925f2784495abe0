#include "config.h"

#include "progress.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "units.h"

#define QUIET_NS (1 * CLOCK_NS_PER_S)
#define REDRAW_NS (200 * CLOCK_NS_PER_MS)
#define LINE_NS (1 * CLOCK_NS_PER_S) /* where lines stay */
#define USUAL_WIDTH 80
#define MOST_LINE 512 /* less than PIPE_BUF: a pipe takes it whole, or not at all */

static uint64_t rate(const struct progress_state *state, uint64_t ns)
{
    return ns > 0 ? (uint64_t)((double)(state->bytes - state->before) * 1e9 / (double)ns) : 0;
}

char *progress_format(const struct progress_state *state, uint64_t ns, unsigned width, char *buf,
                      size_t size)
{
    char amount[UNITS_TEXT], speed[UNITS_TEXT], left[UNITS_TEXT];
    uint64_t per_second = rate(state, ns);
    size_t len = 0;
    buf[0] = '\0';
    if (state->of_objects > 1)
        len += (size_t)snprintf(buf, size, "%zu of %zu objects, ", state->objects,
                                state->of_objects);
    if (state->total != PROGRESS_UNKNOWN && len < size)
        len += (size_t)snprintf(
            buf + len, size - len, "%3u %%  ",
            state->total ? (unsigned)((double)state->bytes * 100 / (double)state->total) : 100);
    if (len < size)
        len += (size_t)snprintf(buf + len, size - len, "%s, %s/s",
                                units_format_size(state->bytes, amount),
                                units_format_size(per_second, speed));
    if (state->total != PROGRESS_UNKNOWN && state->total > state->bytes && per_second > 0 &&
        len < size)
        snprintf(buf + len, size - len, ", %s left",
                 units_format_time(
                     (uint64_t)((double)(state->total - state->bytes) * 1e9 / (double)per_second),
                     left));
    if (width < size)
        buf[width] = '\0';
    return buf;
}

/* Whether it is one on which a line can be drawn anew. */
static bool is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
}

void progress_init(struct progress *progress, enum progress_when when, int fd)
{
    bool terminal = is_terminal();
    *progress = (struct progress){
        .on_terminal = terminal,
        .shown = when == PROGRESS_ALWAYS ||
                 (when == PROGRESS_AUTO && terminal && log_level() >= LOG_NORMAL),
        .with_output = terminal && isatty(STDOUT_FILENO),
        .fd = fd,
    };
}

static unsigned terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return USUAL_WIDTH;
    return size.ws_col;
}

/* Whether the terminal is another job's now: it would be written into that one's lines, or, with "stty
 * tostop", stop the transfer. */
static bool is_in_background(void)
{
    pid_t foreground = tcgetpgrp(STDERR_FILENO);
    return foreground > 0 && foreground != getpgrp();
}

/* Whether a descriptor takes something at once; one that is broken does. */
static bool has_room(int fd)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    return poll(&room, 1, 0) != 0;
}

static void show(const struct progress *progress, const struct progress_state *state, uint64_t ns)
{
    char line[256];
    if (progress->on_terminal && is_in_background()) {
        log_status_lost();
        return;
    }
    /* A terminal that is stopped, or a pipe that nobody reads, does not stop the transfer. */
    if (!has_room(STDERR_FILENO))
        return;
    /* The last column stays free: some terminals begin another line there. */
    unsigned width = progress->on_terminal ? terminal_width() - 1 : sizeof line;
    progress_format(state, ns, width, line, sizeof line);
    if (progress->on_terminal)
        log_status(line);
    else
        log_note("%s", line);
}

static void add_number(struct json_object *object, const char *name, uint64_t number)
{
    json_object_object_add(object, name, json_object_new_int64((int64_t)number));
}

/* A descriptor that does not take it at once has lost it; one that is gone, all that follows. */
static void tell_program(struct progress *progress, const struct progress_state *state, uint64_t ns)
{
    char line[MOST_LINE];
    if (progress->fd < 0 || !has_room(progress->fd))
        return;
    struct json_object *object = json_object_new_object();
    add_number(object, "acknowledged_bytes", state->bytes);
    if (state->total != PROGRESS_UNKNOWN)
        add_number(object, "total_bytes", state->total);
    add_number(object, "objects_committed", state->objects);
    add_number(object, "duration_ns", ns);
    add_number(object, "bytes_per_second", rate(state, ns));
    int len = snprintf(line, sizeof line, "%s\n",
                       json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    json_object_put(object);
    if (write(progress->fd, line, (size_t)len) < 0)
        progress->fd = -1;
}

static int64_t pause_of(const struct progress *progress)
{
    return progress->on_terminal && progress->shown ? REDRAW_NS : LINE_NS;
}

int64_t progress_note(struct progress *progress, const struct progress_state *state)
{
    if (!progress->shown && progress->fd < 0)
        return CLOCK_NEVER;
    int64_t now = clock_now();
    if (!progress->begun) {
        progress->begun = true;
        progress->began_at = now;
        progress->next_at = now + QUIET_NS;
    }
    if (now < progress->next_at)
        return progress->next_at;
    uint64_t ns = (uint64_t)(now - progress->began_at);
    progress->next_at = now + pause_of(progress);
    if (progress->shown)
        show(progress, state, ns);
    tell_program(progress, state, ns);
    return progress->next_at;
}

void progress_give_way(const struct progress *progress)
{
    if (progress->shown && progress->with_output)
        log_status("");
}

void progress_end(struct progress *progress, const struct progress_state *state)
{
    if (progress->begun)
        tell_program(progress, state, (uint64_t)(clock_now() - progress->began_at));
    if (progress->shown && progress->on_terminal)
        log_status("");
    progress->begun = false;
}

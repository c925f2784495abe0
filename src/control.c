#include "config.h"

#include "control.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "fdio.h"
#include "signals.h"
#include "wire.h"

#define GREETING "rdmaput-control "
#define OURS GREETING "1 "

/* ---- the server's end ------------------------------------------------------------------------ */

/* Whether standard input has something to say before the deadline. */
static int await_input(int64_t deadline, struct error *err)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals_fd(), .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, clock_poll_ms(deadline));
        if (signals_count() > 0)
            return error_set(err, ERROR_INTERRUPTED, STAGE_LISTEN, NULL, "interrupted by a signal");
        if (ready > 0)
            return 0;
        if (ready == 0)
            return error_set(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL,
                             "no secret came on standard input");
        if (errno != EINTR)
            return error_set_errno(err, ERROR_BUG, STAGE_LISTEN, NULL, errno, "poll failed");
    }
}

/* Up to the line's end, and not beyond; *len is how far it came when standard input ended. */
static int read_line(char line[CONTROL_REQUEST_BYTES], size_t *len, int64_t deadline,
                     struct error *err)
{
    for (*len = 0; *len < CONTROL_REQUEST_BYTES; (*len)++) {
        if (await_input(deadline, err) < 0)
            return -1;
        ssize_t n = read(STDIN_FILENO, line + *len, 1);
        if (n < 0)
            return error_set_errno(err, ERROR_PROTOCOL, STAGE_LISTEN, NULL, errno,
                                   "cannot read the secret from standard input");
        if (n == 0 || line[*len] == '\n')
            return 0;
    }
    return 0;
}

static int take_request(const char *line, size_t len, struct secret *secret, struct error *err)
{
    const size_t greeting = strlen(GREETING), ours = strlen(OURS);
    if (len == ours + SECRET_FRESH_CHARS && memcmp(line, OURS, ours) == 0) {
        memcpy(secret->bytes, line + ours, SECRET_FRESH_CHARS);
        secret->len = SECRET_FRESH_CHARS;
        return 0;
    }
    if (len > greeting && memcmp(line, GREETING, greeting) == 0 &&
        memcmp(line, OURS, ours < len ? ours : len) != 0)
        error_set(err, ERROR_PROTOCOL, STAGE_LISTEN, NULL,
                  "the client that started this server is of another version");
    else
        error_set(err, ERROR_PROTOCOL, STAGE_LISTEN, NULL, "no secret came on standard input");
    return error_hint(err, "'serve --control' is what 'rdmaput write -e COMMAND' starts by itself");
}

int control_take_secret(uint64_t timeout, struct secret *secret, struct error *err)
{
    char line[CONTROL_REQUEST_BYTES];
    size_t len;
    int rc = read_line(line, &len, clock_after(timeout), err);
    if (rc == 0)
        rc = take_request(line, len, secret, err);
    OPENSSL_cleanse(line, sizeof line);
    return rc;
}

int control_announce(const char *addresses, bool directory, struct error *err)
{
    char *text;
    if (!addresses[0]) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_LISTEN, NULL,
                  "only link-local addresses of this host reach an RDMA device");
        return error_hint(err, "give its network device another one: 'rdmaput devices' lists them");
    }
    int len = asprintf(&text, OURS "%u %s\n%s\n", WIRE_VERSION, directory ? "directory" : "file",
                       addresses);
    if (len < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_LISTEN, NULL, ENOMEM,
                               "cannot tell the client where this server listens");
    int rc = fdio_write(STDOUT_FILENO, text, (size_t)len);
    if (rc < 0)
        error_set_errno(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL, errno,
                        "cannot tell the client where this server listens");
    free(text);
    return rc;
}

bool control_has_ended(void)
{
    char ignored[256];
    struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&fd, 1, 0) <= 0)
        return false;
    ssize_t n = read(STDIN_FILENO, ignored, sizeof ignored);
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* ---- the client's end ------------------------------------------------------------------------ */

size_t control_request(const struct secret *secret, char buf[CONTROL_REQUEST_BYTES])
{
    return (size_t)snprintf(buf, CONTROL_REQUEST_BYTES, OURS "%.*s\n", (int)secret->len,
                            (const char *)secret->bytes);
}

static bool starts_as(const char *text, size_t len, const char *expected)
{
    size_t most = strlen(expected);
    return memcmp(text, expected, len < most ? len : most) == 0;
}

/* The first line, behind OURS. */
static bool understand_line(char *line, struct control_answer *answer)
{
    char *end;
    unsigned long version = strtoul(line, &end, 10);
    answer->version = version > 0 && version < 1000 ? (unsigned)version : 0;
    answer->directory = strcmp(end, " directory") == 0;
    return answer->version > 0 && line[0] >= '0' && line[0] <= '9' &&
           (answer->directory || strcmp(end, " file") == 0);
}

enum control_result control_understand(char *text, size_t len, struct control_answer *answer)
{
    answer->version = 0;
    if (!starts_as(text, len, GREETING))
        return CONTROL_FOREIGN;
    if (!starts_as(text, len, OURS))
        return CONTROL_OTHER_VERSION;
    text[len] = '\0';
    if (strlen(text) != len)
        return CONTROL_FOREIGN;
    char *line_end = strchr(text, '\n'), *end = strstr(text, "\n\n");
    if (!end)
        return CONTROL_PARTIAL;
    *line_end = '\0';
    *end = '\0';
    answer->addresses = line_end + 1;
    if (end == line_end || !understand_line(text + strlen(OURS), answer))
        return CONTROL_FOREIGN;
    return answer->version == WIRE_VERSION ? CONTROL_OK : CONTROL_OTHER_VERSION;
}

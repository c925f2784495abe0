#include "config.h"

#include "output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "fdio.h"
#include "signals.h"

#define RECHECK_MS 100
#define PATIENCE_NS (1 * CLOCK_NS_PER_S)

/* stdio keeps no errno: the first one. */
static atomic_int lost;
static atomic_bool told;

static void note(int errnum)
{
    int none = 0;
    atomic_compare_exchange_strong(&lost, &none, errnum);
}

/* Threads of sessions hear no signals: none of them may keep a process that is to end from ending
 * because nobody reads what they print. */
static bool await_room(int fd)
{
    static atomic_bool given_up;
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    int64_t until = CLOCK_NEVER;
    for (;;) {
        int signals = signals_count(), ready = poll(&room, 1, RECHECK_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
        if (signals > 0 && until == CLOCK_NEVER)
            until = clock_after(PATIENCE_NS);
        if (signals > 1 || clock_now() >= until || (signals > 0 && atomic_load(&given_up)))
            break;
    }
    atomic_store(&given_up, true);
    errno = EINTR;
    return false;
}

int output_write_line(int fd, const char *text)
{
    char piece[PIPE_BUF]; /* a pipe with room takes it whole */
    size_t len;
    do {
        len = strnlen(text, sizeof piece);
        memcpy(piece, text, len);
        if (len < sizeof piece)
            piece[len] = '\n';
        text += len;
        if (!await_room(fd) ||
            fdio_write(fd, piece, len < sizeof piece ? len + 1 : sizeof piece) < 0)
            return -1;
    } while (len == sizeof piece);
    return 0;
}

void output_line(const char *text)
{
    output_flush();
    if (output_write_line(STDOUT_FILENO, text) < 0)
        note(errno);
}

void output_flush(void)
{
    if (fflush(stdout) != 0)
        note(errno);
    if (ferror(stdout))
        note(EIO);
}

int output_check(struct error *err)
{
    output_flush();
    if (atomic_load(&lost) == 0 || atomic_exchange(&told, true))
        return 0;
    return error_set_errno(err, ERROR_STORAGE, STAGE_NONE, NULL, atomic_load(&lost),
                           "cannot write standard output");
}

int output_close(struct error *err)
{
    output_flush();
    if (close(STDOUT_FILENO) < 0 && errno != EBADF)
        note(errno);
    return output_check(err);
}

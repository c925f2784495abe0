#include "config.h"

#include "retry.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>

#include "clock.h"
#include "log.h"
#include "signals.h"
#include "units.h"

#define FIRST_PAUSE_MS 1000u
#define LONGEST_PAUSE_MS 60000u

/* Within a quarter of what it is to be. */
static unsigned pause_ms(unsigned done)
{
    unsigned ms = done < 6 ? FIRST_PAUSE_MS << done : LONGEST_PAUSE_MS, random = 0;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
        random = (unsigned)clock_now();
    return ms - ms / 4 + random % (ms / 2 + 1);
}

static bool leads_nowhere(const struct error *err)
{
    return err->class == ERROR_UNAVAILABLE &&
           (err->errnum == ENETUNREACH || err->errnum == EHOSTUNREACH || err->errnum == ENETDOWN ||
            err->errnum == ENODEV);
}

/* Whether it may have passed in a while. */
static bool may_pass(const struct retry *retry, const struct error *err)
{
    return err->class == ERROR_TEMPORARY || (retry->done > 0 && leads_nowhere(err));
}

bool retry_after(struct retry *retry, struct error *err)
{
    char time[UNITS_TEXT];
    struct pollfd fd = {.fd = signals_fd(), .events = POLLIN};
    if (!may_pass(retry, err) || retry->done >= retry->most)
        return false;
    unsigned ms = pause_ms(retry->done++);
    log_note("%s%s%s", err->subject, err->subject[0] ? ": " : "", err->text);
    log_note("trying again in %s (%u of %u)",
             units_format_time(ms * (uint64_t)CLOCK_NS_PER_MS, time), retry->done, retry->most);
    bool stopped = poll(&fd, 1, (int)ms) != 0;
    error_clear(err);
    if (stopped)
        error_set(err, ERROR_INTERRUPTED, STAGE_CONNECT, NULL, "interrupted by a signal");
    return !stopped;
}

/*
 * clock.c - monotonic time and deadlines, in nanoseconds.
 */
#include "config.h"

#include "clock.h"

#include <limits.h>
#include <time.h>

int64_t clock_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

int64_t clock_after(uint64_t ns)
{
    int64_t moment;

    if (__builtin_add_overflow(clock_now(), ns, &moment))
        return CLOCK_NEVER;
    return moment;
}

uint64_t clock_left(int64_t moment)
{
    int64_t now = clock_now();

    return moment > now ? (uint64_t)(moment - now) : 0;
}

int clock_poll_ms(int64_t moment)
{
    int64_t left, ms;

    if (moment == CLOCK_NEVER)
        return -1;
    left = moment - clock_now();
    if (left <= 0)
        return 0;
    ms = left / CLOCK_NS_PER_MS + (left % CLOCK_NS_PER_MS != 0);
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

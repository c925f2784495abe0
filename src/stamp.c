#include "config.h"

#include "stamp.h"

#include <time.h>

#include "clock.h"

#define MOST_TICKS 20 /* that a file is waited for */

static int compare_times(const struct timespec *a, const struct timespec *b)
{
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

static struct timespec two_ticks_ago(const struct timespec *tick)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME_COARSE, &time);
    time.tv_nsec -= 2 * tick->tv_nsec;
    if (time.tv_nsec < 0) {
        time.tv_nsec += CLOCK_NS_PER_S;
        time.tv_sec--;
    }
    return time;
}

static bool is_between(const struct timespec *time, const struct timespec *from,
                       const struct timespec *to)
{
    return compare_times(time, from) >= 0 && compare_times(time, to) <= 0;
}

/* Whether the file was changed since then. Times in the future tell nothing. */
static bool changed_since(const struct stat *stat, const struct timespec *since)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return is_between(&stat->st_mtim, since, &now) || is_between(&stat->st_ctim, since, &now);
}

static int settle(int fd, struct stamp *stamp)
{
    struct timespec tick, since;
    clock_getres(CLOCK_REALTIME_COARSE, &tick);
    for (int ticks = 0; ticks <= MOST_TICKS; ticks++) {
        if (ticks > 0)
            nanosleep(&tick, NULL);
        since = two_ticks_ago(&tick);
        if (fstat(fd, &stamp->stat) < 0)
            return -1;
        if (!changed_since(&stamp->stat, &since))
            return 0;
    }
    stamp->restless = true;
    return 0;
}

int stamp_take(int fd, struct stamp *stamp)
{
    stamp->restless = false;
    if (fstat(fd, &stamp->stat) < 0)
        return -1;
    return S_ISREG(stamp->stat.st_mode) ? settle(fd, stamp) : 0;
}

bool stamp_is(const struct stamp *stamp, const struct stat *now)
{
    const struct stat *was = &stamp->stat;
    if (S_ISBLK(was->st_mode)) /* has no times of its own */
        return now->st_rdev == was->st_rdev;
    return !stamp->restless && now->st_dev == was->st_dev && now->st_ino == was->st_ino &&
           now->st_size == was->st_size && compare_times(&now->st_mtim, &was->st_mtim) == 0 &&
           compare_times(&now->st_ctim, &was->st_ctim) == 0;
}

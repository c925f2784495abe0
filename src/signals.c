/*
 * signals.c - SIGINT, SIGTERM and SIGHUP as a number to ask for and a descriptor to poll.
 */
#include "config.h"

#include "signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define TICK_NS (50 * CLOCK_NS_PER_MS)

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP};
#define ENDING_SIGNALS (sizeof(ending_signals) / sizeof(ending_signals[0]))

static int event_fd = -1;
static atomic_int count;
static atomic_int last;
/* Two timers, so that the end of a deadline cannot stop what a signal has started. */
static timer_t signal_timer;
static timer_t deadline_timer;

static void on_signal(int number)
{
    static const struct itimerspec ticks = {.it_value.tv_nsec = TICK_NS,
                                            .it_interval.tv_nsec = TICK_NS};
    const uint64_t one = 1;
    int saved_errno = errno;
    ssize_t ignored;

    atomic_store(&last, number);
    atomic_fetch_add(&count, 1);
    ignored = write(event_fd, &one, sizeof(one));
    (void)ignored;
    timer_settime(signal_timer, 0, &ticks, NULL);
    errno = saved_errno;
}

static void on_alarm(int number)
{
    (void)number;
}

static void fill_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGALRM);
    for (size_t i = 0; i < ENDING_SIGNALS; i++)
        sigaddset(set, ending_signals[i]);
}

static int create_timer(timer_t *timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};

    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    return timer_create(CLOCK_MONOTONIC, &event, timer);
}

static int catch_alarm(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigset_t alarm_only;

    sigemptyset(&action.sa_mask);
    if (sigaction(SIGALRM, &action, NULL) < 0)
        return -1;
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    errno = pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    return errno ? -1 : 0;
}

static int catch_ending_signal(int number)
{
    struct sigaction action = {.sa_handler = on_signal}, before;

    if (sigaction(number, NULL, &before) < 0)
        return -1;
    if (before.sa_handler == SIG_IGN)
        return 0;
    fill_set(&action.sa_mask);
    return sigaction(number, &action, NULL);
}

int signals_init(void)
{
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd < 0)
        return -1;
    if (create_timer(&signal_timer) < 0 || create_timer(&deadline_timer) < 0)
        return -1;
    if (catch_alarm() < 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        return -1;
    for (size_t i = 0; i < ENDING_SIGNALS; i++)
        if (catch_ending_signal(ending_signals[i]) < 0)
            return -1;
    return 0;
}

int signals_fd(void)
{
    return event_fd;
}

int signals_count(void)
{
    return atomic_load(&count);
}

int signals_last(void)
{
    return atomic_load(&last);
}

void signals_block(void)
{
    sigset_t set;

    fill_set(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void signals_alarm_start(int64_t moment)
{
    /* A value of zero would disarm the timer. */
    int64_t first = moment > 0 ? moment : 1;
    struct itimerspec ticks = {
        .it_value = {.tv_sec = (time_t)(first / CLOCK_NS_PER_S), .tv_nsec = first % CLOCK_NS_PER_S},
        .it_interval = {.tv_nsec = TICK_NS},
    };

    if (moment != CLOCK_NEVER)
        timer_settime(deadline_timer, TIMER_ABSTIME, &ticks, NULL);
}

void signals_alarm_stop(void)
{
    static const struct itimerspec never;

    timer_settime(deadline_timer, 0, &never, NULL);
}

void signals_die(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    int number = signals_last();
    sigset_t set;

    if (number == 0)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

#include "config.h"

#include "guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *way_out; /* NULL outside of guard_run */

/* The signal is the doing of the thread that it comes to, at the instruction it is at. */
static void on_bus_error(int number)
{
    if (way_out)
        siglongjmp(*way_out, 1);
    signal(number, SIG_DFL);
    raise(number);
}

int guard_init(void)
{
    struct sigaction action = {.sa_handler = on_bus_error};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL);
}

/* Threads are started with signals blocked, and the kernel kills the process where a fault's own
 * signal is. */
static void allow_bus_error(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGBUS);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

int guard_run(void (*function)(void *argument), void *argument)
{
    sigjmp_buf here;
    allow_bus_error();
    if (sigsetjmp(here, 1) != 0) {
        way_out = NULL;
        return -1;
    }
    way_out = &here;
    function(argument);
    way_out = NULL;
    return 0;
}

/*
 * signals.h - SIGINT, SIGTERM and SIGHUP as a number to ask for and a descriptor to poll.
 *
 * Handlers are installed without SA_RESTART, so that a blocking system call (rdma_connect of an
 * iWARP device) ends with EINTR. A handler's first signal starts a periodic SIGALRM that goes on
 * interrupting, so that a signal in the moment before a blocking call is not lost.
 */
#ifndef RDMAPUT_SIGNALS_H
#define RDMAPUT_SIGNALS_H

#include <stdint.h>

/* Installs the handlers. Signals that were ignored at the start stay ignored. SIGPIPE and
 * SIGXFSZ are ignored from here on: writing fails with EPIPE and EFBIG. To be called once, before
 * any thread starts. 0, or -1 with errno. */
int signals_init(void);

/* Becomes and stays readable when a signal has come; -1 before signals_init. Not to be read. */
int signals_fd(void);

/* How many signals have come. */
int signals_count(void);

/* The last one, 0 for none. */
int signals_last(void);

/* Blocks them in the calling thread: for every thread but the main one. */
void signals_block(void);

/* Interrupts blocking system calls of the main thread from moment (clock.h) on, every 50 ms, until
 * signals_alarm_stop: a deadline for calls that take none. */
void signals_alarm_start(int64_t moment);
void signals_alarm_stop(void);

/* Dies by the last signal that came, with its default action. Returns only when none came. */
void signals_die(void);

#endif

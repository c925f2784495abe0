/*
 * clock.h - monotonic time and deadlines, in nanoseconds.
 */
#ifndef RDMAPUT_CLOCK_H
#define RDMAPUT_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_MS INT64_C(1000000)
#define CLOCK_NS_PER_S INT64_C(1000000000)
#define CLOCK_NEVER INT64_MAX

/* CLOCK_MONOTONIC, in nanoseconds. */
int64_t clock_now(void);

/* The moment ns from now; CLOCK_NEVER for a sum that does not fit. */
int64_t clock_after(uint64_t ns);

/* Nanoseconds until the moment: 0 when it has passed. */
uint64_t clock_left(int64_t moment);

/* Milliseconds until the moment, as poll(2) takes them: 0 when it has passed, rounded up, at most
 * INT_MAX; -1 for CLOCK_NEVER. */
int clock_poll_ms(int64_t moment);

#endif

/*
 * worker.h - one thread that does blocking work (reading sources, storing objects) in order, so
 * that the thread which watches the connection never blocks.
 *
 * The owner submits jobs and takes them back finished, both in order. A job is the owner's memory:
 * it belongs to the worker between worker_submit and the worker_take that returns it.
 */
#ifndef RDMAPUT_WORKER_H
#define RDMAPUT_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

struct worker; /* opaque */

/* Does one job on the worker's thread. stop_fd becomes readable when the worker is to end: a job
 * that waits (for a pipe) polls it too. What went wrong belongs into the job. */
typedef void (*worker_function)(void *context, void *job, int stop_fd);

/* Starts the thread, with all signals of signals.h blocked. capacity: how many jobs may be
 * submitted and not yet taken. NULL with *err. */
struct worker *worker_start(worker_function function, void *context, unsigned capacity,
                            struct error *err);

/* Hands a job to the thread. More than capacity is a bug (asserted). */
void worker_submit(struct worker *worker, void *job);

/* The oldest finished job that was not taken yet, or NULL. Never blocks. */
void *worker_take(struct worker *worker);

/* Readable while finished jobs wait to be taken. Not to be read by the caller. */
int worker_fd(const struct worker *worker);

/* Tells the thread to end after the job it is at, and waits for that until the deadline (clock.h).
 * Whether it has ended; worker_stop is due in any case, or worker and all that the job uses are left
 * to it. NULL is fine. */
bool worker_ends(struct worker *worker, int64_t deadline);

/* As worker_ends, however long the job takes; jobs not begun are dropped. Joins, frees. NULL is
 * fine. */
void worker_stop(struct worker *worker);

#endif

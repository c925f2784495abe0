/*
 * worker.c - one thread that does blocking work in order.
 */
#include "config.h"

#include "worker.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "fdio.h"
#include "signals.h"

#define STACK_SIZE (256 * 1024)

struct ring {
    void **slots;
    unsigned capacity, first, count;
};

struct worker {
    worker_function function;
    void *context;
    unsigned capacity, outstanding; /* jobs submitted and not yet taken; the owner's thread only */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work_or_stop;
    struct ring pending, done;
    bool stopping;
    int done_fd; /* readable exactly while done is not empty */
    int stop_fd;
    int ended_fd; /* readable once the thread has done its last job */
};

static int ring_init(struct ring *ring, unsigned capacity)
{
    ring->slots = calloc(capacity, sizeof(*ring->slots));
    ring->capacity = capacity;
    return ring->slots ? 0 : -1;
}

static void ring_push(struct ring *ring, void *job)
{
    unsigned long end = (unsigned long)ring->first + ring->count;

    ring->slots[end % ring->capacity] = job;
    ring->count++;
}

static void *ring_pop(struct ring *ring)
{
    void *job = ring->slots[ring->first];

    ring->first = (ring->first + 1) % ring->capacity;
    ring->count--;
    return job;
}

static void event_raise(int fd)
{
    const uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof(one));

    assert(n == sizeof(one));
    (void)n;
}

static void event_drain(int fd)
{
    uint64_t value;
    ssize_t n = read(fd, &value, sizeof(value));

    assert(n == sizeof(value));
    (void)n;
}

/* Waits for the next job. NULL when the worker is to end. */
static void *next_job(struct worker *worker)
{
    void *job = NULL;

    pthread_mutex_lock(&worker->mutex);
    while (!worker->stopping && worker->pending.count == 0)
        pthread_cond_wait(&worker->work_or_stop, &worker->mutex);
    if (!worker->stopping)
        job = ring_pop(&worker->pending);
    pthread_mutex_unlock(&worker->mutex);
    return job;
}

static void finish_job(struct worker *worker, void *job)
{
    pthread_mutex_lock(&worker->mutex);
    ring_push(&worker->done, job);
    if (worker->done.count == 1)
        event_raise(worker->done_fd);
    pthread_mutex_unlock(&worker->mutex);
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    void *job;

    while ((job = next_job(worker))) {
        worker->function(worker->context, job, worker->stop_fd);
        finish_job(worker, job);
    }
    event_raise(worker->ended_fd);
    return NULL;
}

/* 0 or an errno. The thread inherits the mask, so no signal ever finds it unblocked. */
static int start_thread(struct worker *worker)
{
    pthread_attr_t attributes;
    sigset_t mask;
    int failed;

    failed = pthread_attr_init(&attributes);
    if (failed)
        return failed;
    failed = pthread_attr_setstacksize(&attributes, STACK_SIZE);
    if (!failed) {
        pthread_sigmask(SIG_BLOCK, NULL, &mask);
        signals_block();
        failed = pthread_create(&worker->thread, &attributes, thread_main, worker);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
    pthread_attr_destroy(&attributes);
    return failed;
}

static void release(struct worker *worker)
{
    pthread_cond_destroy(&worker->work_or_stop);
    pthread_mutex_destroy(&worker->mutex);
    fdio_close(&worker->done_fd);
    fdio_close(&worker->stop_fd);
    fdio_close(&worker->ended_fd);
    free(worker->done.slots);
    free(worker->pending.slots);
    free(worker);
}

static struct worker *allocate(unsigned capacity)
{
    struct worker *worker = calloc(1, sizeof(*worker));

    if (!worker)
        return NULL;
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->work_or_stop, NULL);
    worker->capacity = capacity;
    worker->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    worker->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->done_fd < 0 || worker->stop_fd < 0 || worker->ended_fd < 0 ||
        ring_init(&worker->pending, capacity) < 0 || ring_init(&worker->done, capacity) < 0) {
        release(worker);
        return NULL;
    }
    return worker;
}

struct worker *worker_start(worker_function function, void *context, unsigned capacity,
                            struct error *err)
{
    struct worker *worker = allocate(capacity);
    int failed = worker ? 0 : errno;

    if (worker) {
        worker->function = function;
        worker->context = context;
        failed = start_thread(worker);
    }
    if (failed) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_NONE, NULL, failed, "cannot start a thread");
        if (worker)
            release(worker);
        return NULL;
    }
    return worker;
}

void worker_submit(struct worker *worker, void *job)
{
    assert(job);
    assert(worker->outstanding < worker->capacity);
    worker->outstanding++;
    pthread_mutex_lock(&worker->mutex);
    ring_push(&worker->pending, job);
    pthread_cond_signal(&worker->work_or_stop);
    pthread_mutex_unlock(&worker->mutex);
}

void *worker_take(struct worker *worker)
{
    void *job = NULL;

    pthread_mutex_lock(&worker->mutex);
    if (worker->done.count > 0) {
        job = ring_pop(&worker->done);
        if (worker->done.count == 0)
            event_drain(worker->done_fd);
    }
    pthread_mutex_unlock(&worker->mutex);
    if (job)
        worker->outstanding--;
    return job;
}

int worker_fd(const struct worker *worker)
{
    return worker->done_fd;
}

static void tell_to_end(struct worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    bool told = worker->stopping;
    worker->stopping = true;
    pthread_cond_signal(&worker->work_or_stop);
    pthread_mutex_unlock(&worker->mutex);
    if (!told)
        event_raise(worker->stop_fd);
}

bool worker_ends(struct worker *worker, int64_t deadline)
{
    if (!worker)
        return true;
    tell_to_end(worker);
    struct pollfd fd = {.fd = worker->ended_fd, .events = POLLIN};
    int n;
    do
        n = poll(&fd, 1, clock_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    return n > 0;
}

void worker_stop(struct worker *worker)
{
    if (!worker)
        return;
    tell_to_end(worker);
    pthread_join(worker->thread, NULL);
    release(worker);
}

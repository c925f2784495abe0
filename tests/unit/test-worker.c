/*
 * test-worker.c - one thread that does jobs in order.
 */
#include "config.h"

#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"

#define PATIENCE_MS 10000

struct job {
    unsigned number, turn; /* turn: how many were begun before it, and itself */
    bool was_stopped;
};

/* What the jobs share. A job takes one byte from the gate before it is done. */
struct context {
    unsigned begun;
    int gate[2];
    int begun_pipe[2]; /* a byte for each job that is begun */
    sigset_t mask;
};

static bool readable(int fd, int timeout_ms)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};

    return poll(&pollfd, 1, timeout_ms) == 1 && (pollfd.revents & POLLIN);
}

static void open_gate(struct context *context, unsigned count)
{
    while (count-- > 0)
        assert_int_equal(write(context->gate[1], "", 1), 1);
}

static void wait_until_begun(struct context *context)
{
    char byte;

    assert_true(readable(context->begun_pipe[0], PATIENCE_MS));
    assert_int_equal(read(context->begun_pipe[0], &byte, 1), 1);
}

/* Passes the gate, or is stopped before it. */
static void pass_gate(void *context_argument, void *job_argument, int stop_fd)
{
    struct context *context = context_argument;
    struct job *job = job_argument;
    struct pollfd pollfds[2] = {
        {.fd = context->gate[0], .events = POLLIN},
        {.fd = stop_fd, .events = POLLIN},
    };
    char byte;

    job->turn = ++context->begun;
    pthread_sigmask(SIG_BLOCK, NULL, &context->mask);
    if (write(context->begun_pipe[1], "", 1) != 1)
        abort();
    if (poll(pollfds, 2, PATIENCE_MS) < 1)
        abort();
    job->was_stopped = pollfds[1].revents != 0;
    if (!job->was_stopped && read(context->gate[0], &byte, 1) != 1)
        abort();
}

static int open_context(void **state)
{
    struct context *context = calloc(1, sizeof(*context));

    *state = context;
    return context && pipe(context->gate) == 0 && pipe(context->begun_pipe) == 0 ? 0 : -1;
}

static int close_context(void **state)
{
    struct context *context = *state;

    for (int i = 0; i < 2; i++) {
        close(context->gate[i]);
        close(context->begun_pipe[i]);
    }
    free(context);
    return 0;
}

static struct worker *start(struct context *context, unsigned capacity)
{
    struct error err = {.class = ERROR_NONE};
    struct worker *worker = worker_start(pass_gate, context, capacity, &err);

    assert_non_null(worker);
    assert_false(error_is_set(&err));
    return worker;
}

static struct job *take_when_readable(struct worker *worker)
{
    assert_true(readable(worker_fd(worker), PATIENCE_MS));
    return worker_take(worker);
}

static void test_jobs_are_done_and_returned_in_order(void **state)
{
    enum {
        CAPACITY = 5,
        JOBS = 1000
    };
    struct context *context = *state;
    struct worker *worker = start(context, CAPACITY);
    struct job jobs[JOBS] = {{.number = 0}};
    unsigned submitted = 0;

    for (unsigned taken = 0; taken < JOBS; taken++) {
        struct job *job;

        while (submitted < JOBS && submitted - taken < CAPACITY) {
            jobs[submitted].number = submitted;
            worker_submit(worker, &jobs[submitted++]);
            open_gate(context, 1);
        }
        job = take_when_readable(worker);
        assert_ptr_equal(job, &jobs[taken]);
        assert_int_equal(job->turn, taken + 1);
        wait_until_begun(context);
    }
    assert_null(worker_take(worker));
    worker_stop(worker);
}

static void test_fd_is_readable_while_finished_jobs_wait(void **state)
{
    struct context *context = *state;
    struct worker *worker = start(context, 3);
    struct job jobs[3] = {{.number = 0}};

    assert_false(readable(worker_fd(worker), 0));
    assert_null(worker_take(worker));
    for (int i = 0; i < 3; i++)
        worker_submit(worker, &jobs[i]);
    wait_until_begun(context);
    assert_false(readable(worker_fd(worker), 0));
    assert_null(worker_take(worker));

    /* When the third is begun, two are finished. */
    open_gate(context, 2);
    wait_until_begun(context);
    wait_until_begun(context);
    assert_true(readable(worker_fd(worker), 0));
    assert_ptr_equal(worker_take(worker), &jobs[0]);
    assert_true(readable(worker_fd(worker), 0));
    assert_ptr_equal(worker_take(worker), &jobs[1]);
    assert_false(readable(worker_fd(worker), 0));
    assert_null(worker_take(worker));

    open_gate(context, 1);
    assert_ptr_equal(take_when_readable(worker), &jobs[2]);
    assert_false(readable(worker_fd(worker), 0));
    worker_stop(worker);
}

static void test_stop_wakes_a_job_that_polls(void **state)
{
    struct context *context = *state;
    struct worker *worker = start(context, 1);
    struct job job = {.number = 0};

    worker_submit(worker, &job);
    wait_until_begun(context);
    worker_stop(worker);
    assert_true(job.was_stopped);
}

static void test_stop_drops_jobs_not_begun(void **state)
{
    struct context *context = *state;
    struct worker *worker = start(context, 4);
    struct job jobs[4] = {{.number = 0}};

    for (int i = 0; i < 4; i++)
        worker_submit(worker, &jobs[i]);
    open_gate(context, 1);
    wait_until_begun(context);
    wait_until_begun(context);
    worker_stop(worker);
    assert_int_equal(context->begun, 2);
    assert_false(jobs[0].was_stopped);
    assert_true(jobs[1].was_stopped);
    assert_int_equal(jobs[2].turn, 0);
    assert_int_equal(jobs[3].turn, 0);
}

static void test_stop_with_finished_jobs_not_taken(void **state)
{
    struct context *context = *state;
    struct worker *worker = start(context, 2);
    struct job job = {.number = 0};

    open_gate(context, 1);
    worker_submit(worker, &job);
    assert_true(readable(worker_fd(worker), PATIENCE_MS));
    worker_stop(worker);
    assert_int_equal(job.turn, 1);
}

/* As storage that does not answer: only the gate ends it. */
static void block(void *context_argument, void *job, int stop_fd)
{
    struct context *context = context_argument;
    char byte;

    (void)job, (void)stop_fd;
    if (write(context->begun_pipe[1], "", 1) != 1 || read(context->gate[0], &byte, 1) != 1)
        abort();
}

static void test_the_end_of_a_job_that_blocks_is_waited_for_until_the_deadline(void **state)
{
    struct context *context = *state;
    struct error err = {.class = ERROR_NONE};
    struct worker *worker = worker_start(block, context, 2, &err);
    struct job jobs[2] = {{.number = 0}};

    assert_non_null(worker);
    worker_submit(worker, &jobs[0]);
    worker_submit(worker, &jobs[1]);
    wait_until_begun(context);
    assert_false(worker_ends(worker, clock_after(20 * CLOCK_NS_PER_MS)));
    assert_false(worker_ends(worker, clock_now()));
    open_gate(context, 1);
    assert_true(worker_ends(worker, clock_after(PATIENCE_MS * CLOCK_NS_PER_MS)));
    assert_true(worker_ends(worker, CLOCK_NEVER));
    assert_ptr_equal(worker_take(worker), &jobs[0]);
    assert_null(worker_take(worker)); /* the other was not begun */
    worker_stop(worker);
    assert_true(worker_ends(NULL, 0));
}

static void test_stop_of_an_idle_worker_and_of_none(void **state)
{
    for (int i = 0; i < 100; i++)
        worker_stop(start(*state, 1));
    worker_stop(NULL);
}

static void test_the_thread_blocks_signals_and_its_owner_does_not(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
    struct context *context = *state;
    struct worker *worker = start(context, 1);
    struct job job = {.number = 0};
    sigset_t own;

    open_gate(context, 1);
    worker_submit(worker, &job);
    assert_ptr_equal(take_when_readable(worker), &job);
    pthread_sigmask(SIG_BLOCK, NULL, &own);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        assert_int_equal(sigismember(&context->mask, numbers[i]), 1);
        assert_int_equal(sigismember(&own, numbers[i]), 0);
    }
    worker_stop(worker);
}

static void test_what_runs_out_is_a_resource(void **state)
{
    struct error err = {.class = ERROR_NONE};
    struct rlimit limit, old_limit;
    struct worker *worker;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    worker = worker_start(pass_gate, *state, 1, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old_limit), 0);
    assert_null(worker);
    assert_int_equal(err.class, ERROR_RESOURCE);
    assert_string_equal(err.text, "cannot start a thread: Too many open files");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)
    const struct CMUnitTest tests[] = {
        TEST(test_jobs_are_done_and_returned_in_order),
        TEST(test_fd_is_readable_while_finished_jobs_wait),
        TEST(test_stop_wakes_a_job_that_polls),
        TEST(test_stop_drops_jobs_not_begun),
        TEST(test_stop_with_finished_jobs_not_taken),
        TEST(test_the_end_of_a_job_that_blocks_is_waited_for_until_the_deadline),
        TEST(test_stop_of_an_idle_worker_and_of_none),
        TEST(test_the_thread_blocks_signals_and_its_owner_does_not),
        TEST(test_what_runs_out_is_a_resource),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

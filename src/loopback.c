#include "config.h"

#include "loopback.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "address.h"
#include "checker.h"
#include "clock.h"
#include "fdio.h"
#include "log.h"
#include "memory.h"
#include "server.h"
#include "signals.h"
#include "sink-discard.h"
#include "sink.h"
#include "units.h"

/* How long the server may take for its end, besides the timeout. */
#define END_NS (2 * CLOCK_NS_PER_S)

struct loopback {
    const struct loopback_job *job;
    struct server_job server;
    struct server_inside inside;
    pthread_t thread;
    int bell_fd;        /* readable once listening or ended may have become true */
    atomic_uint port;   /* not 0: it listens */
    atomic_bool ended;  /* its thread is at its end */
    struct error error; /* of the server, once it has ended */
};

static void note_listening(void *context, uint16_t port)
{
    struct loopback *loopback = context;
    atomic_store(&loopback->port, port);
    eventfd_write(loopback->bell_fd, 1);
}

static void *server_main(void *argument)
{
    struct loopback *loopback = argument;
    bool told;
    server_run(&loopback->server, &told, &loopback->error);
    atomic_store(&loopback->ended, true);
    eventfd_write(loopback->bell_fd, 1);
    return NULL;
}

/* Signals are for the thread that calls this. */
static int start_thread(struct loopback *loopback, struct error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int rc = pthread_create(&loopback->thread, NULL, server_main, loopback);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return 0;
    return error_set_errno(err, ERROR_RESOURCE, STAGE_LISTEN, NULL, rc, "cannot start a server");
}

/* Waits for the bell, at most until the deadline. */
static void await_bell(const struct loopback *loopback, int64_t deadline)
{
    eventfd_t ignored;
    struct pollfd fd = {.fd = loopback->bell_fd, .events = POLLIN};
    if (poll(&fd, 1, clock_poll_ms(deadline)) > 0)
        eventfd_read(loopback->bell_fd, &ignored);
}

static int await_listening(struct loopback *loopback, struct error *err)
{
    char time[UNITS_TEXT];
    int64_t deadline = clock_after(loopback->job->timeout);
    while (atomic_load(&loopback->port) == 0 && !atomic_load(&loopback->ended)) {
        if (clock_now() >= deadline)
            return error_set(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL,
                             "a server here did not listen within %s",
                             units_format_time(loopback->job->timeout, time));
        await_bell(loopback, deadline);
    }
    if (atomic_load(&loopback->port) != 0)
        return 0;
    *err = loopback->error;
    return error_set(err, ERROR_BUG, STAGE_LISTEN, NULL, "a server here ended at once");
}

/* Whether its thread is joined; else it goes on. */
static bool end_server(struct loopback *loopback)
{
    int64_t deadline = clock_after(loopback->job->timeout + END_NS);
    eventfd_write(loopback->inside.stop_fd, 1);
    while (!atomic_load(&loopback->ended) && clock_now() < deadline)
        await_bell(loopback, deadline);
    return atomic_load(&loopback->ended) && pthread_join(loopback->thread, NULL) == 0;
}

/* ---- what came of it --------------------------------------------------------------------------- */

/* "loopback-10-77-0-1" */
static void name_finding(const char *host, char *name, size_t size)
{
    snprintf(name, size, "loopback-%s", host);
    findings_name(name);
}

static const struct finding *first_failed(const struct findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        if (findings->items[i].result == FINDING_FAILED)
            return &findings->items[i];
    return NULL;
}

static void tell_passed(const struct loopback_job *job, const char *name, const char *host,
                        const struct findings *tests, const struct checker_figures *figures,
                        uint64_t ns, struct findings *findings)
{
    char latency[UNITS_TEXT], rate[UNITS_RATE_TEXT], untried[160] = "";
    bool lacks = figures->untried > 0 || !figures->bandwidth_measured;
    if (lacks)
        snprintf(untried, sizeof untried,
                 "; not tried for lack of locked memory, which both ends share here: %u of the "
                 "writes%s",
                 figures->untried, figures->bandwidth_measured ? "" : ", and bandwidth");
    units_format_rate(figures->bytes_per_second, rate);
    findings_add(
        findings, lacks ? FINDING_WARNING : FINDING_OK, name,
        !lacks             ? NULL
        : job->memory_hint ? job->memory_hint
                           : memory_limit_hint(),
        ns, "%s over %s: connected, %zu tests passed, latency %s%s%s%s", host, job->device,
        findings_count(tests, FINDING_OK), units_format_time(figures->latency_median_ns, latency),
        figures->bandwidth_measured ? ", " : "", figures->bandwidth_measured ? rate : "", untried);
}

/* Whether there was not the memory for both ends. */
static bool lacks_memory(const struct finding *failed, const struct checker_figures *figures,
                         const struct error *err)
{
    return memory_is_limited(err) ||
           (failed && strcmp(failed->name, "writes") == 0 && figures->untried > 0);
}

static void tell(const struct loopback_job *job, const struct findings *tests,
                 const struct checker_figures *figures, const struct error *err, uint64_t ns,
                 struct findings *findings)
{
    char host[ADDRESS_TEXT], name[sizeof((struct finding *)NULL)->name];
    const struct finding *failed = first_failed(tests);
    name_finding(address_format_host(job->addr, host), name, sizeof name);
    if (job->memory_hint && lacks_memory(failed, figures, err))
        findings_add(
            findings, FINDING_WARNING, name, job->memory_hint, ns,
            "%s over %s could not be tried within a limit of locked memory that both ends share "
            "here: %s",
            host, job->device, err->text);
    else if (failed)
        findings_add(findings, FINDING_FAILED, name, failed->hint, ns, "%s over %s: %s: %s", host,
                     job->device, failed->name, failed->text);
    else if (error_is_set(err))
        findings_add_error(findings, name, ns, err);
    else
        tell_passed(job, name, host, tests, figures, ns, findings);
}

static int run_client(struct loopback *loopback, struct findings *tests,
                      struct checker_figures *figures, struct error *err)
{
    char host[ADDRESS_TEXT];
    address_format_host(loopback->job->addr, host);
    struct checker_job job = {.target = {.host = host,
                                         .port = (uint16_t)atomic_load(&loopback->port),
                                         .bind = host,
                                         .timeout = loopback->job->timeout},
                              .quick = true};
    return checker_run(&job, tests, figures, err);
}

/* With the descriptors and the sink. *stuck: the server's thread goes on, and uses them. */
static void try_path(struct loopback *loopback, struct findings *tests,
                     struct checker_figures *figures, bool *stuck, struct error *err)
{
    if (start_thread(loopback, err) < 0)
        return;
    if (await_listening(loopback, err) == 0)
        run_client(loopback, tests, figures, err);
    *stuck = !end_server(loopback);
    if (*stuck)
        error_set(err, ERROR_TEMPORARY, STAGE_LISTEN, NULL,
                  "the server that was started here did not end");
}

/* What it would say is told as a finding. */
static enum log_level be_silent(void)
{
    enum log_level level = log_level();
    if (level < LOG_VERBOSE)
        log_set_level(LOG_SILENT);
    return level;
}

int loopback_check(const struct loopback_job *job, struct findings *findings, struct error *err)
{
    /* Where the server's thread may outlive this call. */
    static struct loopback loopback;
    struct findings tests = {.items = NULL};
    struct checker_figures figures = {.samples = 0};
    struct error failed = {.class = ERROR_NONE};
    bool stuck = false;
    int64_t start = clock_now();
    loopback = (struct loopback){.job = job, .bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    loopback.inside = (struct server_inside){.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                             .listening = note_listening,
                                             .context = &loopback};
    loopback.server = (struct server_job){.inside = &loopback.inside,
                                          .bind = job->addr,
                                          .timeout = job->timeout,
                                          .sink = sink_none_new(&failed),
                                          .leave = job->leave};
    if (loopback.bell_fd < 0 || loopback.inside.stop_fd < 0)
        error_set_errno(&failed, ERROR_RESOURCE, STAGE_LISTEN, NULL, errno,
                        "cannot make an eventfd");
    enum log_level level = be_silent();
    if (!error_is_set(&failed))
        try_path(&loopback, &tests, &figures, &stuck, &failed);
    log_set_level(level);
    tell(job, &tests, &figures, &failed, (uint64_t)(clock_now() - start), findings);
    findings_free(&tests);
    if (stuck || failed.class == ERROR_INTERRUPTED)
        *err = failed;
    if (stuck)
        return -1;
    if (loopback.server.sink)
        loopback.server.sink->ops->free(loopback.server.sink);
    fdio_close(&loopback.bell_fd);
    fdio_close(&loopback.inside.stop_fd);
    return error_is_set(err) ? -1 : 0;
}

/*
 * path-check - the test of the path to a server (src/checker.h), and nothing besides
 *
 * usage: path-check [-qv] [-s FILE] [-d MS] [-t MS] HOST:PORT
 *
 *   -q       quick
 *   -v       say what goes on, as rdmaput -v does; twice: as --trace
 *   -s FILE  the secret of both ends
 *   -d MS    measure latency and bandwidth for so long each
 *   -t MS    what rdmaput has as --timeout (10000)
 *
 * Prints one line for each finding, "RESULT NAME: TEXT", then "figures: ..." and, as rdmaput does, the
 * error. Exits with the error's status.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "address.h"
#include "checker.h"
#include "clock.h"
#include "log.h"
#include "signals.h"

#define USAGE_STATUS 64

static _Noreturn void usage(void)
{
    fputs("path-check: wrong usage; see the head of its source\n", stderr);
    exit(USAGE_STATUS);
}

static uint64_t milliseconds(const char *text)
{
    return (uint64_t)strtoul(text, NULL, 10) * (uint64_t)CLOCK_NS_PER_MS;
}

static void print(void *context, const struct finding *finding)
{
    (void)context;
    printf("%s %s: %s\n", finding_result_name(finding->result), finding->name, finding->text);
    fflush(stdout);
}

static void parse_options(int argc, char **argv, struct checker_job *job, const char **secret)
{
    int option, verbose = LOG_NORMAL;
    while ((option = getopt(argc, argv, "qvs:d:t:")) != -1) {
        switch (option) {
        case 'q':
            job->quick = true;
            break;
        case 'v':
            verbose++;
            break;
        case 's':
            *secret = optarg;
            break;
        case 'd':
            job->duration_ns = milliseconds(optarg);
            break;
        case 't':
            job->target.timeout = milliseconds(optarg);
            break;
        default:
            usage();
        }
    }
    log_set_level((enum log_level)verbose);
    if (optind + 1 != argc)
        usage();
}

static int check(struct checker_job *job, const char *secret_file, struct error *err)
{
    struct secret secret;
    struct findings findings = {.added = print};
    struct checker_figures figures;
    if (secret_file && secret_load(&secret, secret_file, err) < 0)
        return -1;
    job->secret = secret_file ? &secret : NULL;
    int rc = checker_run(job, &findings, &figures, err);
    if (figures.latency_measured)
        printf("figures: latency %" PRIu64 " %" PRIu64 " %" PRIu64 " ns of %" PRIu64 "\n",
               figures.latency_median_ns, figures.latency_99_ns, figures.latency_999_ns,
               figures.samples);
    if (figures.bandwidth_measured)
        printf("figures: bandwidth %" PRIu64 " bytes/s of %" PRIu64 "\n", figures.bytes_per_second,
               figures.bytes);
    if ((rc < 0) != (findings_count(&findings, FINDING_FAILED) > 0))
        puts("the status does not go with the findings");
    findings_free(&findings);
    return rc;
}

int main(int argc, char **argv)
{
    struct checker_job job = {.target = {.timeout = 10 * (uint64_t)CLOCK_NS_PER_S}};
    struct address address;
    struct error err = {.class = ERROR_NONE};
    char problem[256], hint[256];
    const char *secret = NULL;
    parse_options(argc, argv, &job, &secret);
    if (address_parse(argv[optind], &address, problem, sizeof problem, hint, sizeof hint) !=
            ADDRESS_OK ||
        signals_init() < 0)
        usage();
    job.target.host = address.host;
    job.target.port = address.port;
    check(&job, secret, &err);
    address_free(&address);
    log_error(&err);
    if (err.class == ERROR_INTERRUPTED)
        signals_die();
    return error_exit_status(err.class);
}

#include "config.h"

#include "cmd-check.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checker.h"
#include "clock.h"
#include "doctor.h"
#include "document.h"
#include "findings-human.h"
#include "findings-json.h"
#include "findings-junit.h"
#include "findings-tap.h"
#include "findings.h"
#include "finish.h"
#include "log.h"
#include "loopback.h"
#include "options.h"
#include "thresholds.h"

enum {
    KEY_FORMAT = OPTIONS_OWN_KEYS,
    KEY_MIN_BANDWIDTH,
    KEY_MAX_LATENCY,
    KEY_PERCENTILE,
    KEY_DURATION,
    KEY_QUICK,
    KEY_SECRET_FILE,
};

enum format {
    FORMAT_HUMAN,
    FORMAT_JSON,
    FORMAT_TAP,
    FORMAT_JUNIT,
};

struct arguments {
    struct options_common common;
    struct options_connect connect;
    struct options_arguments positional;
    struct thresholds thresholds;
    enum format format;
    bool quick;
    uint64_t duration; /* ns; 0: not given */
    const char *secret_file;
    const char *of_path; /* an option that was given, and goes with HOST; NULL: none */
};

/* What a check is at. */
struct check {
    const struct arguments *arguments;
    struct json_object *document;
    struct doctor_host host;
    struct findings findings;
    struct checker_figures figures;
    bool colour, lacks_device;
    int64_t start; /* clock.h */
};

/* ---- the command line -------------------------------------------------------------------------- */

static const struct argp_option options[] = {
    {"format", KEY_FORMAT, "human|json|tap|junit", 0,
     "How what was found is printed: in lines, as --json does, as TAP (version 13), or as JUnit's XML",
     10},
    {"min-bandwidth", KEY_MIN_BANDWIDTH, "RATE", 0,
     "With HOST: less than that has failed (90Gb/s, 10GB/s, 9GiB/s)", 10},
    {"max-latency", KEY_MAX_LATENCY, "TIME", 0,
     "With HOST: more than that for a round trip has failed (10us)", 10},
    {"percentile", KEY_PERCENTILE, "50|99|99.9", 0,
     "The latency that counts: that of so many of a hundred round trips (50)", 10},
    {"duration", KEY_DURATION, "TIME", 0,
     "With HOST: measure latency and bandwidth for so long each (2s)", 10},
    {"quick", KEY_QUICK, NULL, 0, "With HOST: measure each for a quarter of a second at most", 10},
    {"secret-file", KEY_SECRET_FILE, "FILE", 0,
     "With HOST: prove to the server that the secret in FILE is known", 10},
    {NULL, 0, NULL, 0, NULL, 0},
};

static enum format parse_format(struct argp_state *state, const char *text)
{
    static const char *const names[] = {[FORMAT_HUMAN] = "human",
                                        [FORMAT_JSON] = "json",
                                        [FORMAT_TAP] = "tap",
                                        [FORMAT_JUNIT] = "junit"};
    for (int i = FORMAT_HUMAN; i <= FORMAT_JUNIT; i++)
        if (strcmp(names[i], text) == 0)
            return (enum format)i;
    argp_error(state, "--format: '%s' is none of human, json, tap, junit", text);
    return FORMAT_HUMAN;
}

static void take_argument(struct arguments *arguments, struct argp_state *state, char *text)
{
    if (arguments->positional.count > 0)
        argp_error(state, "'%s': one HOST[:PORT] is checked at a time", text);
    options_add_argument(state, &arguments->positional, text);
}

static void check_together(const struct arguments *arguments, struct argp_state *state)
{
    bool has_host = arguments->positional.count > 0;
    if (arguments->common.json && arguments->format != FORMAT_HUMAN &&
        arguments->format != FORMAT_JSON)
        argp_error(state, "--json and another --format exclude each other");
    if (!has_host && arguments->of_path)
        argp_error(state, "%s goes with HOST", arguments->of_path);
    if (!has_host && (arguments->connect.port || arguments->connect.wait))
        argp_error(state, "--port and --wait go with HOST");
    if (!has_host && arguments->connect.has_tos)
        argp_error(state, "--tos goes with HOST");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct thresholds *thresholds = &arguments->thresholds;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->connect;
        state->child_inputs[1] = &arguments->common;
        return 0;
    case KEY_FORMAT:
        arguments->format = parse_format(state, arg);
        return 0;
    case KEY_MIN_BANDWIDTH:
        thresholds->least_bytes_per_second = options_rate(state, "--min-bandwidth", arg);
        thresholds->has_bandwidth = true;
        arguments->of_path = "--min-bandwidth";
        return 0;
    case KEY_MAX_LATENCY:
        thresholds->most_latency_ns = options_time(state, "--max-latency", arg);
        thresholds->has_latency = true;
        arguments->of_path = "--max-latency";
        return 0;
    case KEY_PERCENTILE:
        if (!thresholds_parse_percentile(arg, &thresholds->percentile))
            argp_error(state, "--percentile: '%s' is none of 50, 99, 99.9", arg);
        arguments->of_path = "--percentile";
        return 0;
    case KEY_DURATION:
        arguments->duration = options_time(state, "--duration", arg);
        if (arguments->duration == 0)
            argp_error(state, "--duration: in no time nothing can be measured");
        arguments->of_path = "--duration";
        return 0;
    case KEY_QUICK:
        arguments->quick = true;
        arguments->of_path = "--quick";
        return 0;
    case KEY_SECRET_FILE:
        arguments->secret_file = arg;
        arguments->of_path = "--secret-file";
        return 0;
    case ARGP_KEY_ARG:
        take_argument(arguments, state, arg);
        return 0;
    case ARGP_KEY_END:
        check_together(arguments, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_connect_argp, 0, NULL, 0},
    {&options_common_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[HOST[:PORT]]",
    .doc =
        "Find out whether RDMA works on this host or, with HOST[:PORT] of an 'rdmaput serve', from "
        "here to there.\v"
        "Alone it examines this host, layer by layer, and says what mends what is wrong; then it "
        "connects to each address of this host, and writes to it. With HOST it connects, makes RDMA "
        "writes of many kinds, which the server compares, and measures latency and "
        "bandwidth.\n\n"
        "Exits with 0 when nothing failed, with 1 when something did, and with 69 when this host has "
        "no RDMA device.\n"
        "\n"
        "Examples:\n"
        "  rdmaput check\n"
        "  rdmaput check --min-bandwidth 90Gb/s --max-latency 10us HOST\n"
        "  rdmaput check --quick --format=junit HOST > check.xml",
    .children = children,
};

/* ---- alone ------------------------------------------------------------------------------------- */

static bool is_link_local(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    return addr->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* The addresses that reach a device, or the one of --bind. -1 when the process is to end with *err. */
static int try_loopbacks(struct check *check, const struct sockaddr *only, struct error *err)
{
    bool found = false;
    char hint[sizeof((struct finding *)NULL)->hint];
    const struct doctor_host *host = &check->host;
    bool limited = doctor_limits_memory(host, hint, sizeof hint);
    for (size_t i = 0; i < host->reachable_count; i++) {
        const struct device_address *address = &host->reachable[i];
        struct loopback_job job = {.addr = (const struct sockaddr *)&address->addr,
                                   .device = address->device,
                                   .timeout = check->arguments->common.timeout,
                                   .memory_hint = limited ? hint : NULL,
                                   .leave = finish};
        /* A host does not reach itself by such an address. */
        if (only ? !address_same_host(only, job.addr) : is_link_local(&address->addr))
            continue;
        found = true;
        if (loopback_check(&job, &check->findings, err) < 0)
            return -1;
    }
    if (only && !found)
        findings_add(&check->findings, FINDING_FAILED, "loopback",
                     "'rdmaput devices' lists the addresses that reach a device", 0,
                     "no RDMA device is behind %s", check->arguments->connect.bind);
    return 0;
}

static int check_host(struct check *check, struct error *err)
{
    struct sockaddr_storage bind;
    const char *only = check->arguments->connect.bind;
    if (only && client_parse_bind(only, &bind, err) < 0)
        return -1;
    doctor_examine(&check->host, &check->findings);
    return try_loopbacks(check, only ? (const struct sockaddr *)&bind : NULL, err);
}

/* ---- with HOST --------------------------------------------------------------------------------- */

static int parse_host(const char *text, struct address *address, struct error *err)
{
    if (options_parse_destination(text, address, err) < 0)
        return -1;
    if (!address->name)
        return 0;
    address_free(address);
    error_set(err, ERROR_USAGE, STAGE_OPEN, text, "a check takes no NAME");
    return error_hint(err, "HOST[:PORT] alone; nothing is stored there");
}

static int run_checker(struct check *check, const struct address *address,
                       const struct secret *secret, struct error *err)
{
    const struct arguments *arguments = check->arguments;
    struct error failed = {.class = ERROR_NONE};
    struct checker_job job = {
        .target = options_target(address->host, address->has_port, address->port,
                                 &arguments->connect, &arguments->common),
        .secret = secret,
        .quick = arguments->quick,
        .duration_ns = arguments->duration,
    };
    checker_run(&job, &check->findings, &check->figures, &failed);
    if (failed.class == ERROR_INTERRUPTED) {
        *err = failed;
        return -1;
    }
    thresholds_add(&arguments->thresholds, &check->figures, &check->findings);
    return 0;
}

static int check_path(struct check *check, struct error *err)
{
    struct address address;
    struct secret secret;
    struct sockaddr_storage bind;
    const struct secret *known;
    const struct arguments *arguments = check->arguments;
    const char *text = arguments->positional.items[0];
    if (arguments->connect.bind && client_parse_bind(arguments->connect.bind, &bind, err) < 0)
        return -1;
    if (parse_host(text, &address, err) < 0)
        return -1;
    document_add_text(check->document, "target", text);
    int rc = options_load_secret(arguments->secret_file, &secret, &known, err);
    if (rc == 0 && check->lacks_device)
        doctor_add_device(&check->host, &check->findings);
    else if (rc == 0)
        rc = run_checker(check, &address, known, err);
    secret_forget(&secret);
    address_free(&address);
    return rc;
}

/* ---- what came of it --------------------------------------------------------------------------- */

static bool is_wanted(const struct check *check, const struct finding *finding)
{
    return check->arguments->common.level != LOG_QUIET || finding->result == FINDING_FAILED ||
           finding->result == FINDING_WARNING;
}

/* As findings' added. */
static void print_line(void *context, const struct finding *finding)
{
    const struct check *check = context;
    if (is_wanted(check, finding))
        findings_human_line(stdout, check->colour, finding);
}

static void print_findings(struct check *check)
{
    bool has_host = check->arguments->positional.count > 0;
    switch (check->arguments->format) {
    case FORMAT_TAP:
        findings_tap(stdout, &check->findings);
        break;
    case FORMAT_JUNIT:
        findings_junit(stdout, &check->findings,
                       has_host ? check->arguments->positional.items[0] : "this host",
                       (uint64_t)(clock_now() - check->start));
        break;
    default:
        if (check->findings.added && check->arguments->common.level != LOG_QUIET)
            findings_human_sum(stdout, &check->findings);
    }
    findings_json_add(check->document, &check->findings);
    if (has_host)
        findings_json_add_figures(check->document, &check->figures);
}

/* The names of those that failed, as far as there is room. */
static void name_failed(const struct findings *findings, char *buf, size_t size)
{
    size_t used = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < findings->count; i++) {
        const char *name = findings->items[i].name;
        if (findings->items[i].result != FINDING_FAILED)
            continue;
        if (used + strlen(name) + sizeof ", ..." > size) {
            snprintf(buf + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", name);
    }
}

static int sum_up(const struct check *check, struct error *err)
{
    char names[240];
    const struct findings *findings = &check->findings;
    size_t failed = findings_count(findings, FINDING_FAILED);
    if (findings->short_of_memory)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_NONE, NULL, ENOMEM,
                               "cannot keep what was found");
    if (check->lacks_device) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, "no RDMA device on this host");
        /* Which lines for people have. */
        return findings->added ? -1 : error_hint(err, "%s", findings->items[0].hint);
    }
    if (failed == 0)
        return 0;
    name_failed(findings, names, sizeof names);
    return error_set(err, ERROR_CHECK, STAGE_NONE, NULL, "%zu of %zu tests failed: %s", failed,
                     findings->count, names);
}

static int run(struct check *check, struct error *err)
{
    if (doctor_look(&check->host, err) < 0)
        return -1;
    check->lacks_device = !doctor_has_device(&check->host);
    int rc = check->arguments->positional.count > 0 ? check_path(check, err)
                                                    : check_host(check, err);
    doctor_free(&check->host);
    if (rc < 0 && check->findings.count == 0)
        return -1;
    print_findings(check);
    return rc < 0 ? -1 : sum_up(check, err);
}

/* With the document begun. */
static int check_and_tell(struct check *check, struct error *err)
{
    if (check->arguments->format == FORMAT_HUMAN && !document_takes_stdout())
        check->findings.added = print_line;
    check->findings.context = check;
    check->colour = findings_human_wants_colour(stdout);
    int rc = run(check, err);
    findings_free(&check->findings);
    return rc;
}

int cmd_check(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.format = FORMAT_HUMAN};
    struct check check = {.arguments = &arguments, .start = clock_now()};
    int rc = -1;
    options_common_init(&arguments.common);
    if (options_parse(&argp, argc, argv, &arguments, err) < 0)
        return -1;
    if (arguments.format == FORMAT_JSON)
        arguments.common.json = true;
    if (options_common_apply(&arguments.common, "check", NULL, &check.document, err) == 0)
        rc = check_and_tell(&check, err);
    free(arguments.positional.items);
    return rc;
}

#include "config.h"

#include "cmd-write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "delivery.h"
#include "document.h"
#include "exchange-client.h"
#include "finish.h"
#include "log.h"
#include "options.h"
#include "remote.h"
#include "report.h"
#include "retry.h"
#include "sender.h"
#include "wire.h"
#include "words.h"

enum {
    KEY_PRESERVE = OPTIONS_OWN_KEYS,
    KEY_SYNC,
    KEY_RESUME,
    KEY_SPARSE,
    KEY_MAP,
    KEY_EXCHANGE,
    KEY_EXCHANGE_PORT,
    KEY_SECRET_FILE,
    KEY_REMOTE_PROGRAM,
};

#define EXCHANGE_PORT 7476

struct arguments {
    struct options_common common;
    struct options_connect connect;
    struct options_segments segments;
    struct options_progress progress;
    struct options_arguments positional;
    const char *dest, *secret_file;
    bool plan_only;
    bool preserve, sync, resume, dense, never_map;
    bool exchange_tcp;
    uint16_t exchange_port; /* 0: not given */
    char **rsh;             /* words; NULL: not given */
    const char *remote_program;
};

static const struct argp_option options[] = {
    {"to", 't', "DEST", 0, "Write to DEST: every argument is then a segment", 10},
    {"plan", 'n', NULL, 0, "Print the plan, send nothing", 10},
    {"preserve", KEY_PRESERVE, NULL, 0, "Give each object the mode and times of its file", 10},
    {"sync", KEY_SYNC, NULL, 0, "Succeed when the server has it on stable storage", 10},
    {"resume", KEY_RESUME, NULL, 0,
     "Go on from what a session with --resume left of the same source; what this one leaves is kept",
     10},
    {"sparse", KEY_SPARSE, "auto|never", 0,
     "auto: holes of files are not sent, and are holes there; never: they are sent as zeros", 10},
    {"map", KEY_MAP, "auto|never", 0,
     "auto: write into the server's file itself where it lives in memory; never: into buffers there",
     10},
    {"exchange", KEY_EXCHANGE, "message|tcp", 0,
     "How the server's address and rkey get here: message, on the RDMA connection to HOST; tcp: "
     "HOST is asked over TCP, and says where to connect for RDMA",
     10},
    {"exchange-port", KEY_EXCHANGE_PORT, "N", 0, "With --exchange=tcp: the TCP port to ask (7476)",
     10},
    {"rsh", 'e', "COMMAND", 0,
     "Start the server at the far end through COMMAND, such as ssh, for this transfer alone: DEST is "
     "[USER@]HOST/PATH, or HOST//PATH from the root",
     10},
    {"remote-program", KEY_REMOTE_PROGRAM, "PATH", 0, "With -e: where rdmaput is there (rdmaput)",
     10},
    {"secret-file", KEY_SECRET_FILE, "FILE", 0,
     "Prove to the server to know the secret in FILE, and have it prove so too "
     "($RDMAPUT_SECRET_FILE)",
     10},
    {NULL, 0, NULL, 0, NULL, 0},
};

static bool parse_exchange(struct argp_state *state, const char *text)
{
    if (strcmp(text, "message") != 0 && strcmp(text, "tcp") != 0)
        argp_error(state, "--exchange: '%s' is neither message nor tcp", text);
    return strcmp(text, "tcp") == 0;
}

static char **split_command(struct argp_state *state, const char *text)
{
    char **words = NULL;
    switch (words_split(text, &words)) {
    case WORDS_OK:
        break;
    case WORDS_NONE:
        argp_error(state, "-e: a COMMAND is due, such as ssh");
        break;
    case WORDS_QUOTE:
        argp_error(state, "-e: a quote does not close in: %s", text);
        break;
    case WORDS_MEMORY:
        argp_failure(state, 71, errno, "-e: cannot take in the command");
    }
    return words;
}

/* A server that is started for one client tells it all that it has to know, once. */
static void check_rsh(struct argp_state *state, const struct arguments *arguments)
{
    if (!arguments->rsh && arguments->remote_program)
        argp_error(state, "--remote-program goes with -e");
    if (arguments->rsh && arguments->exchange_tcp)
        argp_error(state, "-e and --exchange=tcp exclude each other");
    if (arguments->rsh && arguments->secret_file)
        argp_error(state, "-e makes a secret of its own, and excludes --secret-file");
    if (arguments->rsh && arguments->connect.wait > 0)
        argp_error(state, "-e starts the server, and excludes --wait");
}

static void find_destination(struct argp_state *state, struct arguments *arguments)
{
    struct options_arguments *positional = &arguments->positional;
    if (arguments->dest) {
        if (positional->count == 0 && !arguments->segments.from)
            argp_error(state, "a SEGMENT is due");
        return;
    }
    if (positional->count < (arguments->segments.from ? 1 : 2))
        argp_error(state, "a SEGMENT and DEST are due");
    arguments->dest = positional->items[--positional->count];
    if (access(arguments->dest, F_OK) == 0)
        argp_error(state,
                   "the last argument, '%s', is a file, and DEST is due there: HOST[:PORT][/NAME], "
                   "or -t DEST before the segments",
                   arguments->dest);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->segments;
        state->child_inputs[1] = &arguments->connect;
        state->child_inputs[2] = &arguments->connect;
        state->child_inputs[3] = &arguments->progress;
        state->child_inputs[4] = &arguments->common;
        return 0;
    case 't':
        arguments->dest = arg;
        return 0;
    case 'n':
        arguments->plan_only = true;
        return 0;
    case KEY_PRESERVE:
        arguments->preserve = true;
        return 0;
    case KEY_SYNC:
        arguments->sync = true;
        return 0;
    case KEY_RESUME:
        arguments->resume = true;
        return 0;
    case KEY_SPARSE:
        arguments->dense = !options_auto(state, "--sparse", arg);
        return 0;
    case KEY_MAP:
        arguments->never_map = !options_auto(state, "--map", arg);
        return 0;
    case ARGP_KEY_ARG:
        options_add_argument(state, &arguments->positional, arg);
        return 0;
    case KEY_EXCHANGE:
        arguments->exchange_tcp = parse_exchange(state, arg);
        return 0;
    case KEY_EXCHANGE_PORT:
        arguments->exchange_port = (uint16_t)options_number(state, "--exchange-port", arg,
                                                            UINT16_MAX);
        if (arguments->exchange_port == 0)
            argp_error(state, "--exchange-port: 0 is no port to connect to");
        return 0;
    case KEY_SECRET_FILE:
        arguments->secret_file = arg;
        return 0;
    case 'e':
        free(arguments->rsh);
        arguments->rsh = split_command(state, arg);
        return 0;
    case KEY_REMOTE_PROGRAM:
        arguments->remote_program = arg;
        return 0;
    case ARGP_KEY_END:
        if (arguments->exchange_port && !arguments->exchange_tcp)
            argp_error(state, "--exchange-port goes with --exchange=tcp");
        check_rsh(state, arguments);
        find_destination(state, arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_segments_argp, 0, NULL, 0}, {&options_connect_argp, 0, NULL, 0},
    {&options_retry_argp, 0, NULL, 0},    {&options_progress_argp, 0, NULL, 0},
    {&options_common_argp, 0, NULL, 0},   {NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "SEGMENT... DEST\n-t DEST SEGMENT...",
    .doc = "Write segments of files to a server, over RDMA.\v"
           "A SEGMENT is PATH[@[OFFSET][+LENGTH][=REMOTE]]; a negative OFFSET counts from the "
           "end; - is standard input. DEST is HOST[:PORT][/NAME], IPv6 in brackets. The segments "
           "become one object: NAME, where the server serves a directory. With DEST ending in /, "
           "each becomes an object of its own, named after its file.\n"
           "\n"
           "Succeeds only when the server has verified every byte and committed each object.\n"
           "\n"
           "Examples:\n"
           "  rdmaput write disk.img 10.0.0.2\n"
           "  rdmaput write --preserve *.log 10.0.0.2/logs/\n"
           "  rdmaput write --resume disk.img 10.0.0.2/images/disk.img\n"
           "  rdmaput write disk.img@4K+1M log@-64K=2M 10.0.0.2:7500\n"
           "  rdmaput write -e ssh disk.img joe@node7//srv/images/\n"
           "  tar c DIR | rdmaput write - '[fd00::2]'",
    .children = children,
};

/* ---- -n ------------------------------------------------------------------------------------ */

static char *number_or_dash(uint64_t number, char buf[24])
{
    if (number == PLAN_UNKNOWN)
        strcpy(buf, "-");
    else
        snprintf(buf, 24, "%" PRIu64, number);
    return buf;
}

static void print_plan(const struct delivery_object *object)
{
    char length[24], dest[24], size[24], name[WIRE_MAX_NAME + 16] = "";
    const struct plan *plan = object->plan;
    size_t holes = 0;
    for (size_t i = 0; i < plan_count(plan); i++) {
        const struct plan_piece *piece = plan_piece(plan, i, NULL);
        holes += piece->hole;
        if (!piece->hole)
            printf("%" PRIu64 "\t%s\t%s\t%s\n", piece->offset,
                   number_or_dash(piece->length, length), number_or_dash(piece->dest, dest),
                   source_path(object->source, piece->source));
    }
    if (object->name[0])
        snprintf(name, sizeof name, "%s: ", object->name);
    error_mask(name);
    printf("# %soffset, length, remote, path: %zu segments, %s bytes, an object of %s bytes\n",
           name, plan_count(plan) - holes, number_or_dash(plan_bytes(plan), length),
           number_or_dash(plan_size(plan), size));
}

/* Of many, those that can be opened are shown. */
static int print_plans(struct delivery *delivery, struct error *err)
{
    for (size_t i = 0; i < delivery->count; i++) {
        struct delivery_object *object = &delivery->objects[i];
        struct error failed = {.class = ERROR_NONE};
        if (!object->plan && delivery_open_sources(delivery, object, &failed) < 0) {
            log_error(&failed);
            error_set(err, failed.class, STAGE_OPEN, delivery->dest, "not everything can be sent");
            continue;
        }
        print_plan(object);
        delivery_close_sources(object);
    }
    return error_is_set(err) ? -1 : 0;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* A PORT that was named is to be one that the server listens on. */
static int check_port(const struct arguments *arguments, const struct delivery *delivery,
                      const struct exchange_meeting *meeting, struct error *err)
{
    uint16_t port = delivery->address.has_port ? delivery->address.port : arguments->connect.port;
    if (port == 0)
        return 0;
    for (unsigned i = 0; i < meeting->places.count; i++)
        if (meeting->places.addresses[i].port == port)
            return 0;
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, meeting->peer,
              "the server there listens on port %u, not %u", meeting->places.addresses[0].port,
              port);
    return error_hint(err, "leave out PORT: the server tells it");
}

/* What an attempt came to; the one before it is forgotten. */
static void describe(const struct delivery *delivery, const struct sender_result *result)
{
    struct json_object *document = delivery->document, *waits;
    document_add_amount(document, result->committed_bytes, result->duration_ns);
    document_add_number(document, "sent_bytes", result->sent);
    document_add_number(document, "resumed_bytes", result->kept);
    document_add_number(document, "acknowledged_bytes", result->acknowledged);
    document_add_number(document, "chunks", result->chunks);
    document_add_number(document, "work_requests", result->work_requests);
    document_add_number(document, "gather_entries", result->gather_entries);
    document_add_facts(document, &result->facts);
    waits = document ? json_object_new_object() : NULL;
    document_add_number(waits, "source_ns", result->waits.source);
    document_add_number(waits, "fabric_ns", result->waits.fabric);
    document_add_number(waits, "destination_ns", result->waits.destination);
    document_add(document, "waits", waits);
}

static int send_objects(const struct delivery *delivery, const struct sender_job *job,
                        struct error *err)
{
    struct sender_result result;
    int rc = sender_run(job, &result, err);
    progress_end(delivery->progress, &delivery->state);
    describe(delivery, &result);
    if (rc < 0)
        return -1;
    report_sent(delivery->dest, &result);
    return 0;
}

/* Asks the server over TCP first. */
static int meet_and_send(const struct arguments *arguments, const struct delivery *delivery,
                         struct sender_job *job, struct error *err)
{
    uint16_t port = arguments->exchange_port;
    struct exchange_meeting meeting;
    if (exchange_meet(&job->target, port ? port : EXCHANGE_PORT, job->secret != NULL, &meeting,
                      err) < 0)
        return -1;
    job->meeting = &meeting;
    job->places = &meeting.places;
    int rc = check_port(arguments, delivery, &meeting, err);
    if (rc == 0)
        rc = send_objects(delivery, job, err);
    exchange_leave(&meeting);
    return rc;
}

static struct remote far_end; /* with -e */

/* What the server there said of it, as it knows more. */
static void note_far_end(struct json_object *document, const struct error *err)
{
    if (!document)
        return;
    /* An earlier attempt's. */
    json_object_object_del(document, "far_end");
    if (!error_is_set(err) || !far_end.said[0])
        return;
    struct json_object *said = json_object_new_object();
    document_add_text(said, "message", far_end.said);
    if (far_end.hinted[0])
        document_add_text(said, "hint", far_end.hinted);
    document_add(document, "far_end", said);
}

/* A sender_job's. */
static void leave(const struct error *err) __attribute__((noreturn));
static void leave(const struct error *err)
{
    struct error last = *err;
    remote_end(&far_end, &last);
    finish(&last);
}

static int send_to_started(struct delivery *delivery, struct sender_job *job, struct error *err)
{
    job->secret = &far_end.secret;
    job->places = &far_end.places;
    int rc = delivery_name_single(delivery, far_end.directory, err);
    if (rc == 0)
        rc = send_objects(delivery, job, err);
    remote_end(&far_end, err);
    return rc;
}

/* Starts the server first. */
static int start_and_send(const struct arguments *arguments, struct delivery *delivery,
                          struct sender_job *job, struct error *err)
{
    const struct remote_job remote = {
        .command = arguments->rsh,
        .program = arguments->remote_program ? arguments->remote_program : "rdmaput",
        .place = &delivery->place,
        .port = arguments->connect.port,
        .timeout = arguments->common.timeout};
    int rc = remote_start(&far_end, &remote, err);
    if (rc == 0)
        rc = send_to_started(delivery, job, err);
    note_far_end(delivery->document, err);
    return rc;
}

static int deliver(const struct arguments *arguments, struct delivery *delivery,
                   const struct secret *secret, struct error *err)
{
    struct sender_job job = {
        .target = options_target(delivery->remote ? delivery->place.host : delivery->address.host,
                                 delivery->address.has_port, delivery->address.port,
                                 &arguments->connect, &arguments->common),
        .secret = secret,
        .count = delivery->order_count,
        .many = delivery->many,
        .sync = arguments->sync,
        .resume = arguments->resume,
        .map = !arguments->never_map && !arguments->exchange_tcp,
        .open = delivery_open,
        .close = delivery_close,
        .settled = delivery_settled,
        .progressed = delivery_progressed,
        .context = delivery,
        .leave = leave,
    };
    if (arguments->rsh)
        return start_and_send(arguments, delivery, &job, err);
    return arguments->exchange_tcp ? meet_and_send(arguments, delivery, &job, err)
                                   : send_objects(delivery, &job, err);
}

/* With pauses between, as often as --retry allows. */
static int deliver_again_and_again(const struct arguments *arguments, struct delivery *delivery,
                                   const struct secret *secret, struct error *err)
{
    struct retry retry = {.most = arguments->connect.retry};
    struct error passing = {.class = ERROR_NONE};
    int rc;
    while ((rc = delivery_check(delivery, err)) == 0 &&
           (rc = deliver(arguments, delivery, secret, err)) < 0 &&
           delivery_try_again(delivery, err, &passing) && retry_after(&retry, &passing))
        error_clear(err);
    document_add_number(delivery->document, "attempts", retry.done + 1);
    if (rc < 0 && passing.class == ERROR_INTERRUPTED)
        *err = passing;
    if (retry.done > 0 && delivery->many && err->class != ERROR_INTERRUPTED) {
        if (rc < 0)
            log_error(err);
        rc = delivery_sum_up(delivery, err);
    }
    return rc;
}

static int load_secret_and_deliver(const struct arguments *arguments, struct delivery *delivery,
                                   struct error *err)
{
    struct secret secret;
    const struct secret *known;
    if (arguments->rsh)
        return deliver_again_and_again(arguments, delivery, NULL, err);
    int rc = options_load_secret(arguments->secret_file, &secret, &known, err);
    if (rc == 0)
        rc = deliver_again_and_again(arguments, delivery, known, err);
    secret_forget(&secret);
    return rc;
}

static int prepare(const struct arguments *arguments, struct delivery *delivery, struct error *err)
{
    const struct options_arguments *positional = &arguments->positional;
    if (delivery_parse_destination(delivery, err) < 0 ||
        options_parse_segments(&arguments->segments, positional->items, positional->count,
                               &delivery->list, err) < 0 ||
        delivery_list(delivery, err) < 0)
        return -1;
    return delivery_check(delivery, err);
}

int cmd_write(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.dest = NULL};
    options_common_init(&arguments.common);
    options_progress_init(&arguments.progress);
    if (options_parse(&argp, argc, argv, &arguments, err) < 0)
        return -1;
    struct json_object *document;
    int rc = options_common_apply(&arguments.common, "write",
                                  arguments.plan_only ? "the plan" : NULL, &document, err);
    struct progress progress;
    progress_init(&progress, arguments.progress.when, arguments.progress.fd);
    struct delivery delivery = {.dest = arguments.dest,
                                .progress = &progress,
                                .document = document,
                                .dense = arguments.dense,
                                .preserve = arguments.preserve,
                                .resume = arguments.resume,
                                .remote = arguments.rsh != NULL};
    document_add_text(document, "destination", arguments.dest);
    if (arguments.plan_only)
        document_add_flag(document, "plan_only", true);
    if (rc == 0)
        rc = prepare(&arguments, &delivery, err);
    if (rc == 0)
        rc = arguments.plan_only ? print_plans(&delivery, err)
                                 : load_secret_and_deliver(&arguments, &delivery, err);
    if (rc == 0 && !arguments.plan_only)
        finish_in_spite("all was delivered");
    delivery_describe(&delivery, document);
    delivery_free(&delivery);
    free(arguments.positional.items);
    free(arguments.rsh);
    return rc;
}

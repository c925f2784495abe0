#include "config.h"

#include "cmd-write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exchange-client.h"
#include "finish.h"
#include "log.h"
#include "name.h"
#include "options.h"
#include "report.h"
#include "retry.h"
#include "sender.h"
#include "wire.h"

enum {
    KEY_PRESERVE = OPTIONS_OWN_KEYS,
    KEY_SYNC,
    KEY_RESUME,
    KEY_SPARSE,
    KEY_MAP,
    KEY_EXCHANGE,
    KEY_EXCHANGE_PORT,
    KEY_SECRET_FILE,
};

#define EXCHANGE_PORT 7476

struct arguments {
    struct options_common common;
    struct options_connect connect;
    struct options_segments segments;
    struct options_arguments positional;
    const char *dest, *secret_file;
    bool plan_only;
    bool preserve, sync, resume, dense, never_map;
    bool exchange_tcp;
    uint16_t exchange_port; /* 0: not given */
};

static const struct argp_option options[] = {
    {"to", 't', "DEST", 0, "Write to DEST: every argument is then a segment", 10},
    {"plan", 'n', NULL, 0, "Print the plan, send nothing", 10},
    {"preserve", KEY_PRESERVE, NULL, 0, "Give each object the mode and times of its file", 10},
    {"sync", KEY_SYNC, NULL, 0, "Succeed when the server has it on stable storage", 10},
    {"resume", KEY_RESUME, NULL, 0,
     "Go on from what a session with --resume left of the same source; what this one leaves is kept",
     10},
    {"sparse", KEY_SPARSE, "WHEN", 0,
     "auto: holes of files are not sent, and are holes there; never: they are sent as zeros", 10},
    {"map", KEY_MAP, "WHEN", 0,
     "auto: write into the server's file itself where it lives in memory; never: into buffers there",
     10},
    {"exchange", KEY_EXCHANGE, "HOW", 0,
     "How the server's address and rkey get here: message, on the RDMA connection to HOST; tcp: "
     "HOST is asked over TCP, and says where to connect for RDMA",
     10},
    {"exchange-port", KEY_EXCHANGE_PORT, "N", 0, "With --exchange=tcp: the TCP port to ask (7476)",
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
        state->child_inputs[2] = &arguments->common;
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
    case ARGP_KEY_END:
        if (arguments->exchange_port && !arguments->exchange_tcp)
            argp_error(state, "--exchange-port goes with --exchange=tcp");
        find_destination(state, arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_segments_argp, 0, NULL, 0},
    {&options_connect_argp, 0, NULL, 0},
    {&options_common_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
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
           "  tar c DIR | rdmaput write - '[fd00::2]'",
    .children = children,
};

/* ---- what is to be delivered --------------------------------------------------------------- */

/* One object's name and sources; and one of many, once it is its turn. */
struct object {
    char *name; /* owned */
    const struct segment *segments;
    size_t segment_count;
    struct source *source;
    struct plan *plan;
    enum error_class failure; /* of many: what it failed of, by itself */
    bool committed;
    bool spent; /* it has a stream, and that may have been read */
};

/* What the command line comes to. */
struct delivery {
    const struct arguments *arguments;
    struct address address;
    struct options_segment_list list;
    bool many;
    struct object *objects;
    size_t count;
    size_t *order; /* the objects that an attempt is for */
    size_t order_count;
};

static int bad_name(const char *dest, const char *name, const char *problem, struct error *err)
{
    char masked[160];
    snprintf(masked, sizeof masked, "%s", name);
    error_mask(masked);
    return error_set(err, ERROR_USAGE, STAGE_OPEN, dest, "no object can be named '%s': %s", masked,
                     problem);
}

static int check_name(const char *dest, const char *name, struct error *err)
{
    char problem[128];
    if (strlen(name) > WIRE_MAX_NAME)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL,
                         "the object's name is longer than %d bytes", WIRE_MAX_NAME);
    return name_check(name, problem, sizeof problem) ? 0 : bad_name(dest, name, problem, err);
}

/* The destination; one that ends in '/' takes many objects. */
static int parse_destination(struct delivery *delivery, struct error *err)
{
    const char *text = delivery->arguments->dest;
    struct address *address = &delivery->address;
    if (options_parse_destination(text, address, err) < 0)
        return -1;
    size_t len = address->has_name ? strlen(address->name) : 0;
    delivery->many = address->has_name && (len == 0 || address->name[len - 1] == '/');
    return address->has_name && !delivery->many ? check_name(text, address->name, err) : 0;
}

static int out_of_memory(struct error *err)
{
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                           "cannot take in the arguments");
}

/* DIRECTORY/ and the last component of the segment's path. A '/' behind it is no part of that: what
 * is wrong with "dir/" is that it is a directory. */
static char *name_after_file(const struct delivery *delivery, const struct segment *segment,
                             struct error *err)
{
    const char *path = segment->path;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    char *name;
    if (asprintf(&name, "%s%.*s", delivery->address.name, (int)(end - start), path + start) < 0) {
        out_of_memory(err);
        return NULL;
    }
    if (check_name(segment->path, name, err) == 0)
        return name;
    free(name);
    return NULL;
}

static int check_segment_of_many(const struct segment *segment, struct error *err)
{
    if (segment_is_stdin(segment)) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, "-",
                  "standard input has no name, and DEST ends in '/'");
        return error_hint(err, "name the object: HOST[:PORT]/NAME");
    }
    if (segment->has_remote) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, segment->path,
                  "REMOTE, where each segment becomes an object of its own");
        return error_hint(err, "leave out '=REMOTE', or the '/' at the end of DEST");
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_unique(const struct delivery *delivery, struct error *err)
{
    char **names = calloc(delivery->count, sizeof *names);
    int rc = names ? 0 : out_of_memory(err);
    for (size_t i = 0; names && i < delivery->count; i++)
        names[i] = delivery->objects[i].name;
    if (names)
        qsort(names, delivery->count, sizeof *names, compare_names);
    for (size_t i = 1; rc == 0 && i < delivery->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = error_set(err, ERROR_USAGE, STAGE_OPEN, names[i],
                           "two segments would become one object of that name");
    free(names);
    return rc;
}

static int list_many(struct delivery *delivery, struct error *err)
{
    for (size_t i = 0; i < delivery->count; i++) {
        const struct segment *segment = &delivery->list.items[i];
        struct object *object = &delivery->objects[i];
        *object = (struct object){.segments = segment, .segment_count = 1};
        if (check_segment_of_many(segment, err) < 0 ||
            !(object->name = name_after_file(delivery, segment, err)))
            return -1;
    }
    return check_unique(delivery, err);
}

static int list_single(struct delivery *delivery, struct error *err)
{
    const char *name = delivery->address.name;
    struct object *object = &delivery->objects[0];
    *object = (struct object){.segments = delivery->list.items,
                              .segment_count = delivery->list.count,
                              .name = strdup(name ? name : "")};
    return object->name ? 0 : out_of_memory(err);
}

/* Whether an object is neither committed nor beyond hope. */
static bool is_open(const struct object *object)
{
    return !object->committed && !object->spent &&
           (object->failure == ERROR_NONE || object->failure == ERROR_TEMPORARY);
}

/* What the next attempt is for. */
static void list_open(struct delivery *delivery)
{
    delivery->order_count = 0;
    for (size_t i = 0; i < delivery->count; i++)
        if (is_open(&delivery->objects[i]))
            delivery->order[delivery->order_count++] = i;
}

static int list_objects(struct delivery *delivery, struct error *err)
{
    delivery->count = delivery->many ? delivery->list.count : 1;
    delivery->objects = calloc(delivery->count, sizeof *delivery->objects);
    delivery->order = calloc(delivery->count, sizeof *delivery->order);
    if (!delivery->objects || !delivery->order)
        return out_of_memory(err);
    list_open(delivery);
    return delivery->many ? list_many(delivery, err) : list_single(delivery, err);
}

static int open_sources(const struct delivery *delivery, struct object *object, struct error *err)
{
    const struct options_segment_list list = {.items = (struct segment *)object->segments,
                                              .count = object->segment_count};
    return options_plan(&list, PLAN_BY_DEST, PLAN_TARGET_SLOT, !delivery->arguments->dense,
                        &object->source, &object->plan, err);
}

static void close_sources(struct object *object)
{
    plan_free(object->plan);
    source_free(object->source);
    object->plan = NULL;
    object->source = NULL;
}

static void delivery_free(struct delivery *delivery)
{
    for (size_t i = 0; delivery->objects && i < delivery->count; i++) {
        close_sources(&delivery->objects[i]);
        free(delivery->objects[i].name);
    }
    free(delivery->objects);
    free(delivery->order);
    options_free_segments(&delivery->list);
    address_free(&delivery->address);
}

/* ---- -n ------------------------------------------------------------------------------------ */

static char *number_or_dash(uint64_t number, char buf[24])
{
    if (number == PLAN_UNKNOWN)
        strcpy(buf, "-");
    else
        snprintf(buf, 24, "%" PRIu64, number);
    return buf;
}

static void print_plan(const struct object *object)
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
        struct object *object = &delivery->objects[i];
        struct error failed = {.class = ERROR_NONE};
        if (!object->plan && open_sources(delivery, object, &failed) < 0) {
            log_error(&failed);
            error_set(err, failed.class, STAGE_OPEN, delivery->arguments->dest,
                      "not everything can be sent");
            continue;
        }
        print_plan(object);
        close_sources(object);
    }
    return error_is_set(err) ? -1 : 0;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* A sender_open. */
static int open_object(void *context, size_t index, struct sender_object *result, struct error *err)
{
    struct delivery *delivery = context;
    const struct arguments *arguments = delivery->arguments;
    struct object *object = &delivery->objects[delivery->order[index]];
    struct source_attributes attributes = {.mode = 0};
    if ((!object->plan && open_sources(delivery, object, err) < 0) ||
        (arguments->preserve && source_attributes(object->source, &attributes, err) < 0) ||
        (arguments->resume &&
         source_identity(object->source, object->plan, result->identity, err) < 0)) {
        close_sources(object);
        return -1;
    }
    result->name = object->name;
    result->plan = object->plan;
    result->source = object->source;
    result->preserve = arguments->preserve;
    result->mode = attributes.mode;
    result->accessed = attributes.accessed;
    result->modified = attributes.modified;
    return 0;
}

/* A sender_close. */
static void close_object(void *context, size_t index, struct sender_object *result)
{
    struct delivery *delivery = context;
    struct object *object = &delivery->objects[delivery->order[index]];
    (void)result;
    object->spent = source_stream(object->source) != NULL;
    close_sources(object);
}

/* A sender_settled. */
static void note_settled(void *context, size_t index, const struct error *cause)
{
    struct delivery *delivery = context;
    struct object *object = &delivery->objects[delivery->order[index]];
    object->committed = !cause;
    object->failure = cause ? cause->class : ERROR_NONE;
}

/* A single object's sources are opened before a connection is made. */
static int check_single(struct delivery *delivery, struct error *err)
{
    struct sender_object ignored;
    return delivery->many ? 0 : open_object(delivery, 0, &ignored, err);
}

/* A PORT that was named is to be one that the server listens on. */
static int check_port(const struct delivery *delivery, const struct exchange_meeting *meeting,
                      struct error *err)
{
    uint16_t port = delivery->address.has_port ? delivery->address.port
                                               : delivery->arguments->connect.port;
    if (port == 0)
        return 0;
    for (unsigned i = 0; i < meeting->count; i++)
        if (meeting->addresses[i].port == port)
            return 0;
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, meeting->peer,
              "the server there listens on port %u, not %u", meeting->addresses[0].port, port);
    return error_hint(err, "leave out PORT: the server tells it");
}

static int send_objects(const struct delivery *delivery, const struct sender_job *job,
                        struct error *err)
{
    struct sender_result result;
    if (sender_run(job, &result, err) < 0)
        return -1;
    report_sent(delivery->arguments->dest, &result);
    return 0;
}

/* Asks the server over TCP first. */
static int meet_and_send(const struct delivery *delivery, struct sender_job *job, struct error *err)
{
    uint16_t port = delivery->arguments->exchange_port;
    struct exchange_meeting meeting;
    if (exchange_meet(&job->target, port ? port : EXCHANGE_PORT, job->secret != NULL, &meeting,
                      err) < 0)
        return -1;
    job->meeting = &meeting;
    int rc = check_port(delivery, &meeting, err);
    if (rc == 0)
        rc = send_objects(delivery, job, err);
    exchange_leave(&meeting);
    return rc;
}

static int deliver(struct delivery *delivery, const struct secret *secret, struct error *err)
{
    const struct arguments *arguments = delivery->arguments;
    struct sender_job job = {
        .target = options_target(delivery->address.host, delivery->address.has_port,
                                 delivery->address.port, &arguments->connect, &arguments->common),
        .secret = secret,
        .count = delivery->order_count,
        .many = delivery->many,
        .sync = arguments->sync,
        .resume = arguments->resume,
        .map = !arguments->never_map && !arguments->exchange_tcp,
        .open = open_object,
        .close = close_object,
        .settled = note_settled,
        .context = delivery,
        .leave = finish,
    };
    return arguments->exchange_tcp ? meet_and_send(delivery, &job, err)
                                   : send_objects(delivery, &job, err);
}

/* Of what the delivery failed that can still succeed; else *err stands. */
static void find_passing(const struct delivery *delivery, const struct error *err,
                         struct error *passing)
{
    *passing = *err;
    for (size_t i = 0; i < delivery->order_count; i++)
        if (delivery->objects[delivery->order[i]].failure == ERROR_TEMPORARY)
            passing->class = ERROR_TEMPORARY;
}

/* All attempts together, where there were several. */
static int sum_up(const struct delivery *delivery, struct error *err)
{
    size_t committed = 0;
    enum error_class first = err->class;
    for (size_t i = delivery->count; i-- > 0;) {
        committed += delivery->objects[i].committed;
        if (!delivery->objects[i].committed && delivery->objects[i].failure != ERROR_NONE)
            first = delivery->objects[i].failure;
    }
    if (committed == delivery->count)
        return 0;
    error_clear(err);
    return error_set(err, first, STAGE_NONE, delivery->arguments->dest,
                     "%zu of %zu objects were committed, and %zu were not", committed,
                     delivery->count, delivery->count - committed);
}

/* With pauses between, as often as --retry allows. */
static int deliver_again_and_again(struct delivery *delivery, const struct secret *secret,
                                   struct error *err)
{
    struct retry retry = {.most = delivery->arguments->connect.retry};
    int rc;
    while ((rc = deliver(delivery, secret, err)) < 0) {
        struct error passing;
        find_passing(delivery, err, &passing);
        list_open(delivery);
        if (delivery->order_count == 0 || !retry_after(&retry, &passing)) {
            if (passing.class == ERROR_INTERRUPTED)
                *err = passing;
            break;
        }
        error_clear(err);
    }
    if (retry.done > 0 && delivery->many && err->class != ERROR_INTERRUPTED) {
        if (rc < 0)
            log_error(err);
        rc = sum_up(delivery, err);
    }
    return rc;
}

static int load_secret_and_deliver(struct delivery *delivery, struct error *err)
{
    struct secret secret;
    const struct secret *known;
    int rc = options_load_secret(delivery->arguments->secret_file, &secret, &known, err);
    if (rc == 0)
        rc = deliver_again_and_again(delivery, known, err);
    secret_forget(&secret);
    return rc;
}

int cmd_write(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.dest = NULL};
    struct delivery delivery = {.arguments = &arguments};
    options_common_init(&arguments.common);
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    options_common_apply(&arguments.common);
    int rc = -1;
    if (parse_destination(&delivery, err) == 0 &&
        options_parse_segments(&arguments.segments, arguments.positional.items,
                               arguments.positional.count, &delivery.list, err) == 0 &&
        list_objects(&delivery, err) == 0 && check_single(&delivery, err) == 0)
        rc = arguments.plan_only ? print_plans(&delivery, err)
                                 : load_secret_and_deliver(&delivery, err);
    delivery_free(&delivery);
    free(arguments.positional.items);
    return rc;
}

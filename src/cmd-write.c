#include "config.h"

#include "cmd-write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "options.h"
#include "report.h"
#include "sender.h"
#include "wire.h"

struct arguments {
    struct options_common common;
    struct options_connect connect;
    struct options_segments segments;
    struct options_arguments positional;
    const char *dest;
    bool plan_only;
};

static const struct argp_option options[] = {
    {"to", 't', "DEST", 0, "Write to DEST: every argument is then a segment", 10},
    {"plan", 'n', NULL, 0, "Print the plan, send nothing", 10},
    {NULL, 0, NULL, 0, NULL, 0},
};

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
    case ARGP_KEY_ARG:
        options_add_argument(state, &arguments->positional, arg);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->dest) {
            if (arguments->positional.count < (arguments->segments.from ? 1 : 2))
                argp_error(state, "a SEGMENT and DEST are due");
            arguments->dest = arguments->positional.items[--arguments->positional.count];
            if (access(arguments->dest, F_OK) == 0)
                argp_error(state,
                           "the last argument, '%s', is a file, and DEST is due there: "
                           "HOST[:PORT], or -t DEST before the segments",
                           arguments->dest);
        } else if (arguments->positional.count == 0 && !arguments->segments.from) {
            argp_error(state, "a SEGMENT is due");
        }
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
    .doc = "Write segments of files, as one object, to a server, over RDMA.\v"
           "A SEGMENT is PATH[@[OFFSET][+LENGTH][=REMOTE]]; a negative OFFSET counts from the "
           "end; - is standard input. DEST is HOST[:PORT], IPv6 in brackets.\n"
           "\n"
           "Succeeds only when the server has verified every byte and committed the object.\n"
           "\n"
           "Examples:\n"
           "  rdmaput write disk.img 10.0.0.2\n"
           "  rdmaput write disk.img@4K+1M log@-64K 10.0.0.2:7476\n"
           "  tar c DIR | rdmaput write - '[fd00::2]'",
    .children = children,
};

/* The destination, which names at most one object. */
static int parse_destination(const char *text, struct address *address, struct error *err)
{
    if (options_parse_destination(text, address, err) < 0)
        return -1;
    if (address->has_name && address->name[0] == '\0') {
        error_set(err, ERROR_USAGE, STAGE_OPEN, text, "ends in '/', and one object is written");
        return error_hint(err, "leave the '/' out");
    }
    if (address->name && strlen(address->name) > WIRE_MAX_NAME)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, address->host,
                         "the object's name is longer than %d bytes", WIRE_MAX_NAME);
    return 0;
}

static char *number_or_dash(uint64_t number, char buf[24])
{
    if (number == PLAN_UNKNOWN)
        strcpy(buf, "-");
    else
        snprintf(buf, 24, "%" PRIu64, number);
    return buf;
}

static void print_plan(const struct plan *plan, const struct source *source)
{
    char length[24], dest[24], size[24];
    for (size_t i = 0; i < plan_count(plan); i++) {
        const struct plan_piece *piece = plan_piece(plan, i, NULL);
        printf("%" PRIu64 "\t%s\t%s\t%s\n", piece->offset, number_or_dash(piece->length, length),
               number_or_dash(piece->dest, dest), source_path(source, piece->source));
    }
    printf("# offset, length, remote, path: %zu segments, %s bytes, an object of %s bytes\n",
           plan_count(plan), number_or_dash(plan_bytes(plan), length),
           number_or_dash(plan_size(plan), size));
}

/* A sender_open of the one object, whose sources were opened before anything was sent. */
static int open_single(void *context, size_t index, struct sender_object *object, struct error *err)
{
    (void)index, (void)err;
    *object = *(struct sender_object *)context;
    return 0;
}

static void keep_open(void *context, size_t index, struct sender_object *object)
{
    (void)context, (void)index, (void)object;
}

static int deliver(const struct arguments *arguments, const struct address *address,
                   struct plan *plan, struct source *source, struct error *err)
{
    struct sender_object object = {
        .name = address->name ? address->name : "", .plan = plan, .source = source};
    struct sender_result result;
    struct sender_job job = {
        .target = options_target(address->host, address->has_port, address->port,
                                 &arguments->connect, &arguments->common),
        .count = 1,
        .open = open_single,
        .close = keep_open,
        .context = &object,
    };
    if (sender_run(&job, &result, err) < 0)
        return -1;
    report_sent(arguments->dest, &result);
    return 0;
}

int cmd_write(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.dest = NULL};
    struct options_segment_list list = {.items = NULL};
    struct address address = {.name = NULL};
    struct source *source = NULL;
    struct plan *plan = NULL;
    options_common_init(&arguments.common);
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    options_common_apply(&arguments.common);
    int rc = -1;
    if (parse_destination(arguments.dest, &address, err) == 0 &&
        options_parse_segments(&arguments.segments, arguments.positional.items,
                               arguments.positional.count, &list, err) == 0 &&
        options_plan(&list, PLAN_BY_DEST, PLAN_TARGET_SLOT, &source, &plan, err) == 0) {
        rc = 0;
        if (arguments.plan_only)
            print_plan(plan, source);
        else
            rc = deliver(&arguments, &address, plan, source, err);
    }
    plan_free(plan);
    source_free(source);
    options_free_segments(&list);
    address_free(&address);
    free(arguments.positional.items);
    return rc;
}

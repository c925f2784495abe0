#include "config.h"

#include "cmd-post.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "finish.h"
#include "log.h"
#include "options.h"
#include "output.h"
#include "poster.h"
#include "progress.h"
#include "report.h"
#include "retry.h"
#include "ticket.h"

enum {
    KEY_REMOTE_ADDR = OPTIONS_OWN_KEYS,
    KEY_RKEY,
    KEY_CONTEXT,
    KEY_FLAGS
};

struct arguments {
    struct options_common common;
    struct options_connect connect;
    struct options_segments segments;
    struct options_progress progress;
    struct options_arguments positional;
    const char *target; /* TICKET, or HOST[:PORT] */
    bool has_addr, has_rkey;
    uint64_t remote_addr, context;
    uint32_t rkey;
    unsigned flags;
};

/* Where to connect and what to write into. */
struct region_address {
    struct ticket ticket; /* length 0 without one */
    struct address address;
};

static const struct argp_option options[] = {
    {"remote-addr", KEY_REMOTE_ADDR, "A", 0, "In place of a ticket: the memory's address", 10},
    {"rkey", KEY_RKEY, "K", 0, "In place of a ticket: the memory's rkey", 10},
    {"context", KEY_CONTEXT, "N", 0,
     "The wr_id of the first work request; each later one counts "
     "up (0)",
     10},
    {"flags", KEY_FLAGS, "LIST", 0,
     "In place of signaled: signaled, fence, solicited, "
     "inline, with commas between, or none",
     10},
    {NULL, 0, NULL, 0, NULL, 0},
};

static unsigned parse_flags(struct argp_state *state, const char *text)
{
    static const struct {
        const char *name;
        unsigned flag;
    } names[] = {{"signaled", POSTER_SIGNALED},
                 {"fence", POSTER_FENCE},
                 {"solicited", POSTER_SOLICITED},
                 {"inline", POSTER_INLINE},
                 {"none", 0}};
    unsigned flags = 0;
    for (const char *at = text;;) {
        size_t len = strcspn(at, ","), i = 0, count = sizeof names / sizeof names[0];
        while (i < count && (strlen(names[i].name) != len || strncmp(names[i].name, at, len) != 0))
            i++;
        if (i == count) {
            argp_error(state, "--flags: '%.*s' is none of signaled, fence, solicited, inline, none",
                       (int)len, at);
            return 0;
        }
        flags |= names[i].flag;
        if (at[len] == '\0')
            return flags;
        at += len + 1;
    }
}

static void take_target(struct arguments *arguments, struct argp_state *state)
{
    if (arguments->positional.count < (arguments->segments.from ? 1 : 2))
        argp_error(state, "a SEGMENT and TICKET, or HOST[:PORT], are due");
    arguments->target = arguments->positional.items[--arguments->positional.count];
    bool is_ticket = ticket_looks_like(arguments->target);
    if (is_ticket && (arguments->has_addr || arguments->has_rkey))
        argp_error(state, "a ticket, and --remote-addr or --rkey: one of them is too much");
    if (!is_ticket && !(arguments->has_addr && arguments->has_rkey))
        argp_error(state,
                   "the last argument, '%s', is no ticket; without one, --remote-addr and "
                   "--rkey are due",
                   arguments->target);
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
    case KEY_REMOTE_ADDR:
        arguments->remote_addr = options_number(state, "--remote-addr", arg, UINT64_MAX);
        arguments->has_addr = true;
        return 0;
    case KEY_RKEY:
        arguments->rkey = (uint32_t)options_number(state, "--rkey", arg, UINT32_MAX);
        arguments->has_rkey = true;
        return 0;
    case KEY_CONTEXT:
        arguments->context = options_number(state, "--context", arg, UINTPTR_MAX);
        return 0;
    case KEY_FLAGS:
        arguments->flags = parse_flags(state, arg);
        return 0;
    case ARGP_KEY_ARG:
        options_add_argument(state, &arguments->positional, arg);
        return 0;
    case ARGP_KEY_END:
        take_target(arguments, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_segments_argp, 0, NULL, 0},
    {&options_connect_argp, 0, NULL, 0},
    {&options_retry_argp, 0, NULL, 0},
    {&options_progress_argp, 0, NULL, 0},
    {&options_common_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "SEGMENT... TICKET\n--remote-addr A --rkey K SEGMENT... HOST[:PORT]",
    .doc = "Write segments of files into memory that a peer exposes, with one-sided RDMA writes.\v"
           "Posts rdma_post_writev(3) and prints each completion: its wr_id, bytes and status. "
           "Works against any librdmacm listener; a ticket comes from 'rdmaput serve --region'.\n"
           "\n"
           "Examples:\n"
           "  rdmaput post disk.img@4K+1M log@-64K=1M \"$(cat ticket)\"\n"
           "  rdmaput post --remote-addr 0x7f0000000000 --rkey 0x1234 file 10.0.0.2:7475",
    .children = children,
};

static int parse_ticket(const char *text, struct region_address *region, struct error *err)
{
    char problem[192] = "";
    switch (ticket_parse(text, &region->ticket, problem, sizeof problem)) {
    case TICKET_OK:
        return 0;
    case TICKET_VERSION:
        error_set(err, ERROR_PROTOCOL, STAGE_OPEN, NULL, "%s", problem);
        return error_hint(err, "install the same version of rdmaput at both ends");
    default:
        error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "%s", problem);
        break;
    }
    return error_hint(err, "pass the whole line that 'rdmaput serve --ticket' wrote");
}

static int find_region(const struct arguments *arguments, struct region_address *region,
                       struct error *err)
{
    const char *text = arguments->target;
    if (ticket_looks_like(text))
        return parse_ticket(text, region, err);
    if (options_parse_destination(text, &region->address, err) < 0)
        return -1;
    if (region->address.has_name)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, text, "memory has no NAME: HOST[:PORT]");
    region->ticket.remote_addr = arguments->remote_addr;
    region->ticket.rkey = arguments->rkey;
    return 0;
}

/* What is told of the command, and its array of completions; NULL: nothing. */
static struct json_object *document, *completions;

static void note_completion(uint64_t wr_id, uint64_t bytes, const char *status)
{
    struct json_object *completion = completions ? json_object_new_object() : NULL;
    document_add_number(completion, "wr_id", wr_id);
    document_add_number(completion, "bytes", bytes);
    document_add_text(completion, "status", status);
    if (completion && json_object_array_add(completions, completion) != 0)
        json_object_put(completion);
}

static struct progress progress;
static struct progress_state state;

static void print_completion(uint64_t wr_id, uint64_t bytes, const char *status)
{
    note_completion(wr_id, bytes, status);
    if (document_takes_stdout())
        return;
    progress_give_way(&progress);
    printf("wr_id=%" PRIu64 " bytes=%" PRIu64 " status=%s\n", wr_id, bytes, status);
    output_flush(); /* each shows as it comes, in a pipe too */
}

/* What the command line says is to be written. */
struct content {
    struct options_segment_list list;
    struct source *source;
    struct plan *plan;
};

static int open_content(struct content *content, struct error *err)
{
    return options_plan(&content->list, PLAN_AS_GIVEN, PLAN_TARGET_REGION, false, &content->source,
                        &content->plan, err);
}

static void close_content(struct content *content)
{
    plan_free(content->plan);
    source_free(content->source);
    content->plan = NULL;
    content->source = NULL;
}

/* A poster_job's progressed. */
static int64_t note_progress(uint64_t bytes, uint64_t total)
{
    state = (struct progress_state){.bytes = bytes, .total = total};
    return progress_note(&progress, &state);
}

/* What an attempt came to; the one before it is forgotten. */
static void describe(const char *destination, const struct poster_result *result)
{
    document_add_text(document, "destination", destination);
    document_add_amount(document, result->acknowledged, result->duration_ns);
    document_add_flag(document, "confirmed", result->confirmed);
    document_add_number(document, "work_requests", result->work_requests);
    document_add_number(document, "gather_entries", result->gather_entries);
    document_add(document, "completions", completions);
    document_add_facts(document, &result->facts);
}

static int post(const struct arguments *arguments, const struct region_address *region,
                const struct content *content, struct error *err)
{
    struct poster_result result;
    bool with_ticket = region->ticket.length > 0;
    struct poster_job job = {
        .target = with_ticket ? options_target(region->ticket.host, true, region->ticket.port,
                                               &arguments->connect, &arguments->common)
                              : options_target(region->address.host, region->address.has_port,
                                               region->address.port, &arguments->connect,
                                               &arguments->common),
        .remote_addr = region->ticket.remote_addr,
        .rkey = region->ticket.rkey,
        .length = region->ticket.length,
        .token = region->ticket.has_token ? region->ticket.token : NULL,
        .context = arguments->context,
        .flags = arguments->flags,
        .plan = content->plan,
        .source = content->source,
        .completed = print_completion,
        .progressed = note_progress,
        .leave = finish,
    };
    completions = document ? json_object_new_array() : NULL;
    progress_init(&progress, arguments->progress.when, arguments->progress.fd);
    int rc = poster_run(&job, &result, err);
    progress_end(&progress, &state);
    describe(job.target.host, &result);
    if (rc < 0)
        return -1;
    if (!document_takes_stdout())
        output_line(result.confirmed ? "delivery confirmed" : "delivery not confirmed");
    finish_in_spite(result.confirmed ? "all was delivered"
                                     : "all was written, and delivery is not confirmed");
    report_posted(job.target.host, &result);
    return 0;
}

/* With pauses between, as often as --retry allows. Files are opened anew; a stream is tried again only
 * while nothing can have read it. */
static int post_again_and_again(const struct arguments *arguments,
                                const struct region_address *region, struct content *content,
                                struct error *err)
{
    struct retry retry = {.most = arguments->connect.retry};
    document_add_number(document, "segments", content->list.count);
    document_add_number(document, "attempts", 1);
    while (post(arguments, region, content, err) < 0) {
        bool stream = source_stream(content->source) != NULL;
        if ((stream && err->stage > STAGE_CONNECT) || !retry_after(&retry, err))
            return -1;
        document_add_number(document, "attempts", retry.done + 1);
        if (stream)
            continue;
        close_content(content);
        if (open_content(content, err) < 0)
            return -1;
    }
    return 0;
}

int cmd_post(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.flags = POSTER_SIGNALED};
    struct content content = {.source = NULL};
    struct region_address region = {.address = {.name = NULL}};
    options_common_init(&arguments.common);
    options_progress_init(&arguments.progress);
    if (options_parse(&argp, argc, argv, &arguments, err) < 0)
        return -1;
    int rc = -1;
    if (options_common_apply(&arguments.common, "post", NULL, &document, err) == 0 &&
        find_region(&arguments, &region, err) == 0 &&
        options_parse_segments(&arguments.segments, arguments.positional.items,
                               arguments.positional.count, &content.list, err) == 0 &&
        open_content(&content, err) == 0)
        rc = post_again_and_again(&arguments, &region, &content, err);
    close_content(&content);
    options_free_segments(&content.list);
    address_free(&region.address);
    free(arguments.positional.items);
    return rc;
}

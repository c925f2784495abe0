#include "config.h"

#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "document.h"
#include "fdio.h"
#include "finish.h"
#include "log.h"
#include "signals.h"
#include "spelling.h"
#include "units.h"

#define DEFAULT_TIMEOUT (30 * CLOCK_NS_PER_S)
/* Moments are sums with it, which must not overflow. */
#define MOST_TIMEOUT ((uint64_t)365 * 24 * 3600 * CLOCK_NS_PER_S)
#define LIST_LIMIT ((size_t)1 << 30)

int options_parse(const struct argp *argp, int argc, char **argv, void *input, struct error *err)
{
    if (spelling_check(argp, 0, argc, argv, err) < 0)
        return -1;
    argp_parse(argp, argc, argv, 0, NULL, input);
    return 0;
}

/* ---- values -------------------------------------------------------------------------------- */

static void check(struct argp_state *state, const char *option, const char *text,
                  enum units_result result, const char *what)
{
    char problem[128];
    if (result != UNITS_OK)
        argp_error(state, "%s: '%s' %s", option, text,
                   units_problem(result, what, problem, sizeof problem));
}

uint64_t options_time(struct argp_state *state, const char *option, const char *text)
{
    uint64_t ns = 0;
    check(state, option, text, units_time(text, &ns), "a time");
    return ns;
}

uint64_t options_rate(struct argp_state *state, const char *option, const char *text)
{
    uint64_t bytes_per_second = 0;
    check(state, option, text, units_rate(text, &bytes_per_second),
          "a rate: 90Gb/s (bits), 10GB/s, 9GiB/s (bytes)");
    return bytes_per_second;
}

uint64_t options_size(struct argp_state *state, const char *option, const char *text)
{
    uint64_t bytes = 0;
    check(state, option, text, units_size(text, strlen(text), &bytes), "a size");
    return bytes;
}

bool options_auto(struct argp_state *state, const char *option, const char *text)
{
    if (strcmp(text, "auto") != 0 && strcmp(text, "never") != 0)
        argp_error(state, "%s: '%s' is neither auto nor never", option, text);
    return strcmp(text, "auto") == 0;
}

uint64_t options_number(struct argp_state *state, const char *option, const char *text,
                        uint64_t max)
{
    uint64_t value = 0;
    check(state, option, text, units_number(text, max, &value), "a number");
    return value;
}

/* ---- options of every command -------------------------------------------------------------- */

static const struct argp_option common_options[] = {
    {"timeout", OPTIONS_TIMEOUT, "TIME", 0,
     "The longest time without a sign of life from the peer (30s)", 90},
    {"verbose", 'v', NULL, 0, "Say what was negotiated and what it came to", 90},
    {"quiet", 'q', NULL, 0, "Print errors only", 90},
    {"trace", OPTIONS_TRACE, NULL, 0, "Print each work request, completion and message", 90},
    {"json", OPTIONS_JSON, NULL, 0,
     "Print what it came to as a line of JSON, also when it failed: rdmaput-json(5)", 90},
    {"json-file", OPTIONS_JSON_FILE, "FILE", 0, "The same into FILE", 90},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    struct options_common *options = state->input;
    switch (key) {
    case OPTIONS_TIMEOUT:
        options->timeout = options_time(state, "--timeout", arg);
        if (options->timeout < 100 * (uint64_t)CLOCK_NS_PER_MS)
            argp_error(state, "--timeout: '%s' is less than 100ms", arg);
        if (options->timeout > MOST_TIMEOUT)
            argp_error(state, "--timeout: '%s' is longer than a year", arg);
        return 0;
    case 'v':
        options->level = LOG_VERBOSE;
        return 0;
    case 'q':
        options->level = LOG_QUIET;
        return 0;
    case OPTIONS_TRACE:
        options->level = LOG_TRACE;
        return 0;
    case OPTIONS_JSON:
        options->json = true;
        return 0;
    case OPTIONS_JSON_FILE:
        if (!*arg)
            argp_error(state, "--json-file: a FILE is due");
        options->json_file = arg;
        return 0;
    case ARGP_KEY_END:
        if (options->json && options->json_file)
            argp_error(state, "--json and --json-file exclude each other");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp options_common_argp = {.options = common_options, .parser = parse_common};

void options_common_init(struct options_common *options)
{
    *options = (struct options_common){.timeout = DEFAULT_TIMEOUT, .level = LOG_NORMAL};
}

int options_common_apply(const struct options_common *options, const char *command,
                         const char *data, struct json_object **document, struct error *err)
{
    log_set_level(options->level);
    *document = NULL;
    if (!options->json && !options->json_file)
        return error_is_set(err) ? -1 : 0;
    if (options->json && data) {
        error_set(err, ERROR_USAGE, STAGE_NONE, NULL, "--json: standard output carries %s", data);
        return error_hint(err, "--json-file FILE");
    }
    if (document_open(options->json_file, err) < 0)
        return -1;
    *document = document_new(command);
    finish_with(*document);
    return error_is_set(err) ? -1 : 0;
}

/* ---- options of commands that connect ------------------------------------------------------ */

#define MOST_RETRIES 1000000

static const struct argp_option connect_options[] = {
    {"bind", OPTIONS_BIND, "ADDR", 0, "Connect from this address, and so over its device", 50},
    {"port", OPTIONS_PORT, "N", 0, "The server's port, where none is named (7475)", 50},
    {"tos", OPTIONS_TOS, "N", 0,
     "The type of service, or traffic class, of the packets: 0 to 255, four times the DSCP", 50},
    {"wait", OPTIONS_WAIT, "TIME", 0, "Keep trying that long while nobody listens yet", 50},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option retry_options[] = {
    {"retry", OPTIONS_RETRY, "N", 0,
     "After a failure that may pass (75: busy, gone, silent) try again, N times at most", 50},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse_connect(int key, char *arg, struct argp_state *state)
{
    struct options_connect *options = state->input;
    switch (key) {
    case OPTIONS_BIND:
        options->bind = arg;
        return 0;
    case OPTIONS_PORT:
        options->port = (uint16_t)options_number(state, "--port", arg, UINT16_MAX);
        if (options->port == 0)
            argp_error(state, "--port: 0 is no port to connect to");
        return 0;
    case OPTIONS_WAIT:
        options->wait = options_time(state, "--wait", arg);
        return 0;
    case OPTIONS_TOS:
        options->tos = (uint8_t)options_number(state, "--tos", arg, UINT8_MAX);
        options->has_tos = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp options_connect_argp = {.options = connect_options, .parser = parse_connect};

static error_t parse_retry(int key, char *arg, struct argp_state *state)
{
    struct options_connect *options = state->input;
    if (key != OPTIONS_RETRY)
        return ARGP_ERR_UNKNOWN;
    options->retry = (unsigned)options_number(state, "--retry", arg, MOST_RETRIES);
    return 0;
}

const struct argp options_retry_argp = {.options = retry_options, .parser = parse_retry};

/* ---- progress ------------------------------------------------------------------------------ */

static const struct argp_option progress_options[] = {
    {"progress", OPTIONS_PROGRESS, "auto|always|never", 0,
     "Show how far it is, from what the peer has acknowledged: auto (on a terminal, after a second), "
     "always, never",
     80},
    {"progress-fd", OPTIONS_PROGRESS_FD, "N", 0,
     "Write that to descriptor N, as a line of JSON each second", 80},
    {NULL, 0, NULL, 0, NULL, 0},
};

static enum progress_when parse_when(struct argp_state *state, const char *text)
{
    if (strcmp(text, "always") == 0)
        return PROGRESS_ALWAYS;
    if (strcmp(text, "never") != 0 && strcmp(text, "auto") != 0)
        argp_error(state, "--progress: '%s' is neither auto, always nor never", text);
    return strcmp(text, "never") == 0 ? PROGRESS_NEVER : PROGRESS_AUTO;
}

static error_t parse_progress(int key, char *arg, struct argp_state *state)
{
    struct options_progress *options = state->input;
    int flags;
    switch (key) {
    case OPTIONS_PROGRESS:
        options->when = parse_when(state, arg);
        return 0;
    case OPTIONS_PROGRESS_FD:
        options->fd = (int)options_number(state, "--progress-fd", arg, INT_MAX);
        flags = fcntl(options->fd, F_GETFL);
        if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
            argp_error(state, "--progress-fd: descriptor %s is not open for writing", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp options_progress_argp = {.options = progress_options, .parser = parse_progress};

void options_progress_init(struct options_progress *options)
{
    *options = (struct options_progress){.when = PROGRESS_AUTO, .fd = -1};
}

int options_parse_destination(const char *text, struct address *address, struct error *err)
{
    char problem[256], hint[320];
    switch (address_parse(text, address, problem, sizeof problem, hint, sizeof hint)) {
    case ADDRESS_OK:
        return 0;
    case ADDRESS_MEMORY: /* says neither */
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, text, ENOMEM,
                               "cannot take in the destination");
    default:
        error_set(err, ERROR_USAGE, STAGE_OPEN, text, "%s", problem);
        return hint[0] ? error_hint(err, "%s", hint) : -1;
    }
}

int options_load_secret(const char *file, struct secret *secret, const struct secret **result,
                        struct error *err)
{
    const char *path = file ? file : getenv("RDMAPUT_SECRET_FILE");
    *result = NULL;
    if (!path)
        return 0;
    /* A script's variable that is not set must not mean that everybody may come in. */
    if (!path[0]) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, file ? "--secret-file" : "RDMAPUT_SECRET_FILE",
                  "names no file");
        return error_hint(err, "to go without a secret, leave it out");
    }
    *result = secret;
    return secret_load(secret, path, err);
}

struct client_target options_target(const char *host, bool has_port, uint16_t port,
                                    const struct options_connect *connect,
                                    const struct options_common *common)
{
    uint16_t other = connect->port ? connect->port : ADDRESS_DEFAULT_PORT;
    return (struct client_target){
        .host = host,
        .port = has_port ? port : other,
        .bind = connect->bind,
        .has_tos = connect->has_tos,
        .tos = connect->tos,
        .timeout = common->timeout,
        .wait = connect->wait,
    };
}

/* ---- segments ------------------------------------------------------------------------------ */

static const struct argp_option segments_options[] = {
    {"segments-from", OPTIONS_SEGMENTS_FROM, "FILE", 0,
     "Read segments from FILE, one a line, before those named; - is standard input", 40},
    {"null", '0', NULL, 0, "With --segments-from: separated by NUL, not by line ends", 40},
    {"literal", OPTIONS_LITERAL, NULL, 0,
     "No segment has a suffix: each is a path (for find and xargs)", 40},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse_segments(int key, char *arg, struct argp_state *state)
{
    struct options_segments *options = state->input;
    switch (key) {
    case OPTIONS_SEGMENTS_FROM:
        options->from = arg;
        return 0;
    case '0':
        options->nul = true;
        return 0;
    case OPTIONS_LITERAL:
        options->literal = true;
        return 0;
    case ARGP_KEY_END:
        if (options->nul && !options->from)
            argp_error(state, "-0 goes with --segments-from");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp options_segments_argp = {.options = segments_options, .parser = parse_segments};

void options_add_argument(struct argp_state *state, struct options_arguments *arguments, char *text)
{
    if (arguments->count == arguments->capacity) {
        size_t capacity = arguments->capacity ? 2 * arguments->capacity : 16;
        char **grown = realloc(arguments->items, capacity * sizeof *grown);
        if (!grown)
            argp_failure(state, 71, errno, "too many arguments");
        arguments->items = grown;
        arguments->capacity = capacity;
    }
    arguments->items[arguments->count++] = text;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int malformed(const char *argument, const char *problem, struct error *err)
{
    error_set(err, ERROR_USAGE, STAGE_OPEN, argument, "malformed segment: %s", problem);
    return error_hint(err,
                      "a segment is PATH[@[OFFSET][+LENGTH][=REMOTE]]; '%s@' is the file of "
                      "that name",
                      argument);
}

static int ambiguous(const char *argument, struct error *err)
{
    error_set(err, ERROR_USAGE, STAGE_OPEN, argument,
              "ambiguous: a segment with a suffix, and also the name of a file");
    return error_hint(err, "'%s@' is the file; --literal takes every segment as a path", argument);
}

static int take(enum segment_result result, const char *argument, const char *problem,
                struct error *err)
{
    switch (result) {
    case SEGMENT_OK:
        return 0;
    case SEGMENT_EMPTY:
        return malformed(argument, "there is no PATH", err);
    case SEGMENT_MALFORMED:
        return malformed(argument, problem, err);
    case SEGMENT_MEMORY:
        break;
    }
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, argument, ENOMEM,
                           "cannot take in the segment");
}

static int parse_one(const char *argument, bool literal, struct segment *segment, struct error *err)
{
    char problem[192] = "";
    if (literal) /* "-" too, which a segment of its own would take for standard input */
        return take(segment_literal(strcmp(argument, "-") == 0 ? "./-" : argument, segment),
                    argument, problem, err);
    enum segment_result result = segment_parse(argument, segment, problem, sizeof problem);
    if (result == SEGMENT_MALFORMED && exists(argument))
        return take(segment_literal(argument, segment), argument, problem, err);
    if (take(result, argument, problem, err) < 0)
        return -1;
    if (segment->has_suffix && exists(argument)) {
        segment_free(segment);
        return ambiguous(argument, err);
    }
    return 0;
}

static int add_segment(struct options_segment_list *list, const char *argument, bool literal,
                       struct error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct segment *grown = realloc(list->items, capacity * sizeof *grown);
        if (!grown)
            return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno,
                                   "too many segments");
        list->items = grown;
        list->capacity = capacity;
    }
    if (parse_one(argument, literal, &list->items[list->count], err) < 0)
        return -1;
    list->count++;
    return 0;
}

static char *read_list(const char *path, size_t *len, struct error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : fdio_slurp(fd, LIST_LIMIT, len);
    if (!text && errno == EINTR && signals_count() > 0)
        error_set(err, ERROR_INTERRUPTED, STAGE_OPEN, path, "interrupted by a signal");
    else if (!text)
        error_set_errno(err, ERROR_SOURCE, STAGE_OPEN, path, errno, "cannot read the segments");
    if (!is_stdin)
        fdio_close(&fd);
    return text;
}

/* Adds the segments of a list; empty lines count for nothing. */
static int add_from(const struct options_segments *options, struct options_segment_list *list,
                    struct error *err)
{
    size_t len;
    char *text = read_list(options->from, &len, err);
    if (!text)
        return -1;
    int rc = 0;
    char separator = options->nul ? '\0' : '\n';
    for (char *at = text, *end; rc == 0 && at < text + len; at = end + 1) {
        end = memchr(at, separator, (size_t)(text + len - at));
        if (!end)
            end = text + len;
        *end = '\0';
        if (strlen(at) != (size_t)(end - at))
            rc = error_set(err, ERROR_USAGE, STAGE_OPEN, options->from,
                           "a line with a NUL byte: is -0 missing?");
        else if (*at)
            rc = add_segment(list, at, options->literal, err);
    }
    free(text);
    return rc;
}

/* "-" stands alone, and standard input cannot be the list too. */
static int check_stdin(const struct options_segments *options,
                       const struct options_segment_list *list, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (!segment_is_stdin(&list->items[i]))
            continue;
        if (list->count > 1 || (options->from && strcmp(options->from, "-") == 0)) {
            error_set(err, ERROR_USAGE, STAGE_OPEN, "-", "standard input stands alone, and once");
            return error_hint(err, "a file of that name is './-'");
        }
    }
    return 0;
}

int options_parse_segments(const struct options_segments *options, char *const *arguments,
                           size_t count, struct options_segment_list *list, struct error *err)
{
    if (options->from && add_from(options, list, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (add_segment(list, arguments[i], options->literal, err) < 0)
            return -1;
    if (list->count == 0)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "no segment");
    return check_stdin(options, list, err);
}

void options_free_segments(struct options_segment_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        segment_free(&list->items[i]);
    free(list->items);
    *list = (struct options_segment_list){.items = NULL};
}

/* Of the file of a piece, as plan_add counted it: a segment may be several. */
static const char *path_of_piece(const struct plan *plan, const struct source *source, size_t piece)
{
    for (size_t i = 0; i < plan_count(plan); i++) {
        size_t added_as;
        unsigned file = plan_piece(plan, i, &added_as)->source;
        if (added_as == piece)
            return source_path(source, file);
    }
    return NULL;
}

static int no_plan(struct error *err)
{
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                           "cannot plan the transfer");
}

static int seal(const struct source *source, struct plan *plan, struct error *err)
{
    size_t a = 0, b = 0;
    switch (plan_seal(plan, &a, &b)) {
    case PLAN_OK:
        return 0;
    case PLAN_OVERLAP:
        error_set(err, ERROR_USAGE, STAGE_OPEN, path_of_piece(plan, source, b),
                  "overlaps '%s' in the destination", path_of_piece(plan, source, a));
        return error_hint(err, "give each a =REMOTE of its own");
    case PLAN_OVERFLOW:
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "the object ends past 2^63 bytes");
    case PLAN_UNORDERED:
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL,
                         "a segment of unknown length stands before one with =REMOTE");
    case PLAN_MEMORY:
        break;
    }
    return no_plan(err);
}

int options_plan(const struct options_segment_list *list, enum plan_order order,
                 enum plan_target target, bool sparse, struct source **source, struct plan **plan,
                 struct error *err)
{
    *source = source_new(err);
    *plan = plan_new(order, target);
    if (!*source || !*plan)
        return no_plan(err);
    for (size_t i = 0; i < list->count; i++)
        if (source_add(*source, &list->items[i], sparse, *plan, err) < 0)
            return -1;
    return seal(*source, *plan, err);
}

#include "config.h"

#include "cmd-serve.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "address.h"
#include "client.h"
#include "clock.h"
#include "control.h"
#include "finish.h"
#include "log.h"
#include "options.h"
#include "region.h"
#include "server.h"
#include "sink-dir.h"
#include "sink-discard.h"
#include "sink-file.h"
#include "sink-in-place.h"
#include "sink-region.h"
#include "sink-stdout.h"

#define KEEP_NS (24 * 3600 * (uint64_t)CLOCK_NS_PER_S)

enum {
    KEY_REGION = OPTIONS_OWN_KEYS,
    KEY_DUMP,
    KEY_TICKET,
    KEY_DISCARD,
    KEY_READY_FILE,
    KEY_ALLOW,
    KEY_IN_PLACE,
    KEY_SYNC,
    KEY_NO_CLOBBER,
    KEY_KEEP_PARTIAL,
    KEY_MAP,
    KEY_EXCHANGE_PORT,
    KEY_SECRET_FILE,
    KEY_MAX_SESSIONS,
    KEY_MAX_MEMORY,
    KEY_NO_CHECK,
    KEY_CONTROL,
};

struct arguments {
    struct options_common common;
    const char *sink;     /* FILE, DIR or - */
    const char *in_place; /* a file or device */
    uint64_t region_size; /* 0: none */
    const char *dump, *ticket, *ready_file, *bind, *secret_file;
    bool discard, once, no_check;
    struct sink_options files;
    bool keep_partial; /* --keep-partial was given */
    bool never_map;
    uint16_t port, exchange_port;
    bool has_port, exchange, control;
    uint64_t wait;
    unsigned max_sessions;
    uint64_t max_memory;
    struct network *networks;
    size_t network_count;
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "Where it goes:", 10},
    {"in-place", KEY_IN_PLACE, "FILE", 0,
     "Into an existing file or block device, at the offsets that clients name", 10},
    {"region", KEY_REGION, "SIZE", 0, "Into memory of SIZE", 10},
    {"dump", KEY_DUMP, "FILE", 0, "With --region: written out to FILE when a session ends", 10},
    {"ticket", KEY_TICKET, "FILE", 0,
     "With --region and --bind: expose the memory to 'rdmaput post', and write the ticket for it to "
     "FILE; - is standard output",
     10},
    {"discard", KEY_DISCARD, NULL, 0, "Verified, counted and thrown away", 10},
    {NULL, 0, NULL, 0, "How files are written:", 15},
    {"sync", KEY_SYNC, NULL, 0, "Each object is on stable storage before its client hears so", 15},
    {"no-clobber", KEY_NO_CLOBBER, NULL, 0, "With FILE or DIR: replace no file", 15},
    {"keep-partial", KEY_KEEP_PARTIAL, "TIME", 0,
     "With FILE or DIR: how long what 'write --resume' can go on from is kept (24h)", 15},
    {"map", KEY_MAP, "auto|never", 0,
     "With FILE or DIR: auto: RDMA writes land in the file itself where it lives in memory; never: "
     "in buffers",
     15},
    {NULL, 0, NULL, 0, "Who and where:", 20},
    {"bind", OPTIONS_BIND, "ADDR", 0, "Listen on this address alone", 20},
    {"port", OPTIONS_PORT, "N", 0, "Listen on this port (7475); 0: any free one", 20},
    {"exchange-port", KEY_EXCHANGE_PORT, "N", 0,
     "Also listen on this TCP port, where 'write --exchange=tcp' (7476) asks for the address; 0: "
     "any free one",
     20},
    {"allow", KEY_ALLOW, "CIDR", 0,
     "Who may connect: a network or address, several times, or any; without it, this host and its "
     "subnets, and anybody where nothing is stored or there is a secret",
     20},
    {"secret-file", KEY_SECRET_FILE, "FILE", 0,
     "Only those that prove to know the secret in FILE, or that present the ticket "
     "($RDMAPUT_SECRET_FILE)",
     20},
    {"no-check", KEY_NO_CHECK, NULL, 0,
     "Refuse checks of the path, which write into memory that is made for them alone", 20},
    {NULL, 0, NULL, 0, "Limits:", 25},
    {"max-sessions", KEY_MAX_SESSIONS, "N", 0, "At most N sessions at once (256)", 25},
    {"max-memory", KEY_MAX_MEMORY, "SIZE", 0,
     "Pin at most SIZE for all sessions together; without it, what the limit of locked memory allows",
     25},
    {NULL, 0, NULL, 0, "How long:", 30},
    {"once", '1', NULL, 0, "Exit after one admitted transfer, with its status", 30},
    {"wait", OPTIONS_WAIT, "TIME", 0, "Exit with 75 when no transfer began within TIME", 30},
    {"ready-file", KEY_READY_FILE, "FILE", 0,
     "FILE appears once the server listens, with lines ADDR:PORT, and goes at the end", 30},
    {"control", KEY_CONTROL, NULL, 0,
     "What 'write -e' starts: one transfer to FILE or DIR, with a secret from standard input, at whose "
     "end the server ends",
     30},
    {NULL, 0, NULL, 0, NULL, 0},
};

static void add_network(struct argp_state *state, struct arguments *arguments, const char *text)
{
    char around[64];
    struct network *grown = realloc(arguments->networks,
                                    (arguments->network_count + 1) * sizeof *grown);
    if (!grown)
        argp_failure(state, 71, errno, "--allow");
    arguments->networks = grown;
    if (network_parse(text, &grown[arguments->network_count++]))
        return;
    if (network_around(text, around, sizeof around))
        argp_error(state, "--allow: '%s' has bits set past BITS; its network is %s", text, around);
    argp_error(state, "--allow: '%s' is neither ADDR, nor ADDR/BITS, nor any", text);
}

static void check_combination(const struct arguments *arguments, struct argp_state *state)
{
    int places = (arguments->sink != NULL) + (arguments->in_place != NULL) +
                 (arguments->region_size > 0) + arguments->discard;
    bool files = arguments->sink && strcmp(arguments->sink, "-") != 0;
    if (places > 1)
        argp_error(state, "SINK, --in-place, --region and --discard exclude each other");
    if (places == 0 && arguments->once)
        argp_error(state, "--once waits for a transfer, and there is no place for one: FILE, DIR, "
                          "-, --in-place, --region or --discard");
    if (arguments->files.sync && (places == 0 || arguments->discard))
        argp_error(state, "--sync goes with a place where something is stored");
    if (arguments->files.sync && arguments->region_size > 0 && !arguments->dump)
        argp_error(state, "--sync goes with --region where there is a --dump");
    if (arguments->files.no_clobber && !files)
        argp_error(state, "--no-clobber goes with FILE or DIR");
    if (arguments->keep_partial && !files)
        argp_error(state, "--keep-partial goes with FILE or DIR");
    if (arguments->control && !files)
        argp_error(state, "--control goes with FILE or DIR");
    if (arguments->control && (arguments->secret_file || arguments->exchange))
        argp_error(state, "--control excludes --secret-file and --exchange-port");
    if (arguments->dump && arguments->region_size == 0)
        argp_error(state, "--dump goes with --region");
    if (arguments->ticket && arguments->region_size == 0)
        argp_error(state, "--ticket goes with --region");
    if (arguments->ticket && arguments->max_memory > 0 &&
        arguments->region_size > arguments->max_memory - server_least_memory())
        argp_error(state,
                   "--ticket pins the whole region, and --max-memory has no room for it and a "
                   "session, which needs %" PRIu64 " bytes",
                   server_least_memory());
    if (arguments->ticket && !arguments->bind)
        argp_error(state, "--ticket needs --bind ADDR, since memory is registered with one device");
}

/* A client that started it tries all addresses that it is told; one whose host has vanished does not
 * end standard input. */
static void set_control(struct arguments *arguments)
{
    arguments->once = true;
    if (!arguments->has_port)
        arguments->port = 0;
    if (arguments->wait == 0)
        arguments->wait = (WIRE_MAX_ADDRESSES + 1) * arguments->common.timeout;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->common;
        return 0;
    case KEY_REGION:
        arguments->region_size = options_size(state, "--region", arg);
        if (arguments->region_size == 0)
            argp_error(state, "--region: a region has at least one byte");
        return 0;
    case KEY_IN_PLACE:
        arguments->in_place = arg;
        return 0;
    case KEY_SYNC:
        arguments->files.sync = true;
        return 0;
    case KEY_NO_CLOBBER:
        arguments->files.no_clobber = true;
        return 0;
    case KEY_KEEP_PARTIAL:
        arguments->files.keep_ns = options_time(state, "--keep-partial", arg);
        arguments->keep_partial = true;
        return 0;
    case KEY_EXCHANGE_PORT:
        arguments->exchange_port = (uint16_t)options_number(state, "--exchange-port", arg,
                                                            UINT16_MAX);
        arguments->exchange = true;
        return 0;
    case KEY_MAP:
        arguments->never_map = !options_auto(state, "--map", arg);
        return 0;
    case KEY_DUMP:
        arguments->dump = arg;
        return 0;
    case KEY_TICKET:
        arguments->ticket = arg;
        return 0;
    case KEY_DISCARD:
        arguments->discard = true;
        return 0;
    case KEY_READY_FILE:
        arguments->ready_file = arg;
        return 0;
    case KEY_ALLOW:
        add_network(state, arguments, arg);
        return 0;
    case KEY_SECRET_FILE:
        arguments->secret_file = arg;
        return 0;
    case KEY_NO_CHECK:
        arguments->no_check = true;
        return 0;
    case KEY_MAX_SESSIONS:
        arguments->max_sessions = (unsigned)options_number(state, "--max-sessions", arg,
                                                           SERVER_MAX_SESSIONS);
        if (arguments->max_sessions == 0)
            argp_error(state, "--max-sessions: at least one session is to be served");
        return 0;
    case KEY_MAX_MEMORY:
        arguments->max_memory = options_size(state, "--max-memory", arg);
        if (arguments->max_memory < server_least_memory())
            argp_error(state, "--max-memory: a session needs %" PRIu64 " bytes",
                       server_least_memory());
        return 0;
    case OPTIONS_BIND:
        arguments->bind = arg;
        return 0;
    case OPTIONS_PORT:
        arguments->port = (uint16_t)options_number(state, "--port", arg, UINT16_MAX);
        arguments->has_port = true;
        return 0;
    case OPTIONS_WAIT:
        arguments->wait = options_time(state, "--wait", arg);
        return 0;
    case KEY_CONTROL:
        arguments->control = true;
        return 0;
    case '1':
        arguments->once = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->sink)
            argp_error(state, "one SINK is served, and '%s' is a second one", arg);
        arguments->sink = arg;
        return 0;
    case ARGP_KEY_END:
        check_combination(arguments, state);
        if (arguments->control)
            set_control(arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&options_common_argp, 0, NULL, 0},
    {NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[SINK]",
    .doc =
        "Take what clients write, over RDMA.\v"
        "SINK is a FILE, created, or replaced when an object is whole and verified; an existing "
        "DIR (or DIR/), below which clients name files; or -, standard output, for one session. "
        "Without SINK, --in-place, --region or --discard nothing is stored.\n"
        "\n"
        "The first SIGINT, SIGTERM or SIGHUP lets running sessions finish; a second one aborts.\n"
        "\n"
        "Examples:\n"
        "  rdmaput serve --once disk.img\n"
        "  rdmaput serve --sync --no-clobber /srv/incoming/\n"
        "  rdmaput serve - | tar x\n"
        "  rdmaput serve --bind 10.0.0.2 --region 16M --ticket - --dump memory.bin\n"
        "  rdmaput serve --port 0 --ready-file ready --discard",
    .children = children,
};

/* Finds out before any client comes that the dump cannot be written. */
static int check_dump(const char *path, struct error *err)
{
    char *copy = strdup(path);
    int rc = copy && access(dirname(copy), W_OK | X_OK) == 0
                 ? 0
                 : error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path, errno,
                                   "cannot create");
    free(copy);
    return rc;
}

/* DIR, or DIR/, which must be one; else FILE, which need not be there. */
static struct sink *make_file_sink(const struct arguments *arguments, struct error *err)
{
    const char *path = arguments->sink;
    struct stat st = {.st_mode = 0};
    size_t len = strlen(path);
    bool is_named_directory = len > 0 && path[len - 1] == '/';
    if (!is_named_directory && stat(path, &st) < 0 && errno != ENOENT) {
        error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path, errno, "cannot serve it");
        return NULL;
    }
    return is_named_directory || S_ISDIR(st.st_mode) ? sink_dir_new(path, &arguments->files, err)
                                                     : sink_file_new(path, &arguments->files, err);
}

static struct sink *make_sink(const struct arguments *arguments, struct region **region,
                              struct error *err)
{
    if (arguments->region_size > 0) {
        if (arguments->dump && check_dump(arguments->dump, err) < 0)
            return NULL;
        *region = region_new(arguments->region_size, arguments->dump, err);
        if (!*region)
            return NULL;
        (*region)->sync = arguments->files.sync;
        return sink_region_new(*region, err);
    }
    if (arguments->discard)
        return sink_discard_new(err);
    if (arguments->in_place)
        return sink_in_place_new(arguments->in_place, arguments->files.sync, err);
    if (!arguments->sink)
        return sink_none_new(err);
    if (strcmp(arguments->sink, "-") == 0)
        return sink_stdout_new(err);
    return make_file_sink(arguments, err);
}

static bool told; /* server_run's */

/* Each session has a document of its own. */
static void drop_document(const struct error *err)
{
    if (told || !error_is_set(err))
        finish_with(NULL);
}

static void leave(const struct error *err) __attribute__((noreturn));
static void leave(const struct error *err)
{
    drop_document(err);
    finish(err);
}

static int serve(const struct arguments *arguments, const struct secret *secret, struct sink *sink,
                 struct region *region, struct error *err)
{
    struct sockaddr_storage addr;
    sink->never_map = arguments->never_map;
    struct server_job job = {
        .port = arguments->port,
        .timeout = arguments->common.timeout,
        .wait = arguments->wait,
        .max_sessions = arguments->max_sessions,
        .max_memory = arguments->max_memory,
        .no_check = arguments->no_check,
        .once = arguments->once || sink->ops->single,
        .admission = {.networks = arguments->networks,
                      .count = arguments->network_count,
                      .anybody = !sink->ops->stores,
                      .secret = secret},
        .sink = sink,
        .region = region,
        .exchange_port = arguments->exchange ? &arguments->exchange_port : NULL,
        .control = arguments->control,
        .ready_file = arguments->ready_file,
        .ticket = arguments->ticket,
        .leave = leave,
    };
    if (arguments->bind) {
        if (client_parse_bind(arguments->bind, &addr, err) < 0)
            return -1;
        job.bind = (const struct sockaddr *)&addr;
    }
    int rc = server_run(&job, &told, err);
    drop_document(err);
    return rc;
}

/* What standard output carries. */
static const char *data_on_stdout(const struct arguments *arguments)
{
    if (arguments->sink && strcmp(arguments->sink, "-") == 0)
        return "what clients write";
    if (arguments->ticket && strcmp(arguments->ticket, "-") == 0)
        return "the ticket";
    if (arguments->control)
        return "where the server listens";
    return NULL;
}

/* As options_load_secret. */
static int find_secret(const struct arguments *arguments, struct secret *secret,
                       const struct secret **known, struct error *err)
{
    if (!arguments->control)
        return options_load_secret(arguments->secret_file, secret, known, err);
    *known = secret;
    return control_take_secret(arguments->common.timeout, secret, err);
}

int cmd_serve(int argc, char **argv, struct error *err)
{
    struct arguments arguments = {.port = ADDRESS_DEFAULT_PORT, .files.keep_ns = KEEP_NS};
    struct region *region = NULL;
    struct secret secret;
    const struct secret *known;
    options_common_init(&arguments.common);
    if (options_parse(&argp, argc, argv, &arguments, err) < 0)
        return -1;
    struct json_object *ignored;
    struct sink *sink = NULL;
    int rc = options_common_apply(&arguments.common, "serve", data_on_stdout(&arguments), &ignored,
                                  err);
    if (rc == 0)
        rc = find_secret(&arguments, &secret, &known, err);
    if (rc == 0) {
        sink = make_sink(&arguments, &region, err);
        rc = sink ? serve(&arguments, known, sink, region, err) : -1;
    }
    secret_forget(&secret);
    if (sink)
        sink->ops->free(sink);
    region_free(region);
    free(arguments.networks);
    return rc;
}

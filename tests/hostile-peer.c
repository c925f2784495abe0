/*
 * hostile-peer - talks to rdmaput, on librdmacm alone, and breaks the rules in one way at a time
 *
 * usage: hostile-peer --list
 *        hostile-peer [OPTION...] client ADDR:PORT [CASE...]
 *        hostile-peer [OPTION...] region ADDR:PORT REMOTE_ADDR RKEY [CASE...]
 *        hostile-peer [OPTION...] server ADDR FILE [CASE...]
 *        hostile-peer deliver ADDR:PORT NAME FILE [TOKEN]
 *
 * client: plays the cases of that side (all, or those named) against `rdmaput serve -v DIR`, on
 * tmpfs. region: likewise, against `rdmaput serve -v --region 64K`. server: listens at ADDR and has
 * the program of --program write or post FILE, of more than 1 MiB, to it, or that of --checker check
 * the path, once for each case. Checks
 * that the other side reports what the table says (cases.c), in time: its exit status to this side
 * or, a client, to the system, and its message. Prints each case that went otherwise, and a count.
 *
 * deliver: no hostility. Delivers FILE under a NAME that it does not check. With TOKEN, of 16
 * characters, as after an exchange over TCP that never was. Exits with the status the server told.
 *
 *   -r, --rounds N       each case that often (1)
 *   -m, --mix SEED:N     N cases at random instead
 *   -j, --jobs N         that many side by side (1)
 *   -t, --timeout MS     what the other side has as its --timeout (2000); it has 2 s more to end
 *   -l, --log FILE       standard error of the server, to be read
 *   -p, --program PATH   rdmaput, for server
 *   -c, --checker PATH   path-check, likewise
 *   -x, --exchange A:P   client: the cases with an exchange over TCP, too, which is there; server
 *                        has them in any case
 *   -s, --secret FILE    the cases with a secret, which this one holds, instead of those without
 *   -v, --verbose        print each case, with the milliseconds it took
 *
 * Exit status: 0; 1 when a case went wrong; 64 usage; deliver: see there.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile/cases.h"
#include "hostile/check.h"
#include "hostile/server.h"

#define USAGE_STATUS 64
#define SLACK_MS 2000
#define TELL_MS 1000   /* for the server to tell the client, and then to log */
#define SIW_MS 10000   /* CASE_UNANSWERED */
#define START_MS 20000 /* for a program to start, and to connect */
#define MOST_JOBS 64
#define OBJECT_BYTES 20000
#define CHUNK_LIMIT 8192
#define DELIVER_CHUNK_LIMIT (256u << 10)
#define DELIVER_MS 30000
#define LOOK_MS 10
#define OUTPUT_BYTES 65536

struct settings {
    unsigned rounds, jobs;
    unsigned seed, mix;
    int64_t timeout_ms;
    bool verbose;
    const char *log, *program, *checker, *secret_file;
    struct proof_secret secret;
    enum side side;
    struct addrinfo *dest;     /* or where to listen */
    struct addrinfo *exchange; /* of a server; NULL: none */
    const char *file;          /* that clients are to write */
    struct object plain, with_gap, delivered;
    uint64_t region_addr;
    uint32_t region_rkey;
};

/* What is to be played, in order. */
struct playlist {
    const struct settings *settings;
    const struct hostile_case **cases;
    size_t count;
    atomic_size_t next, failed;
};

static _Noreturn void usage(const char *problem)
{
    fprintf(stderr, "hostile-peer: %s; see the head of its source\n", problem);
    exit(USAGE_STATUS);
}

static uint64_t number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0')
        usage("malformed number");
    return value;
}

/* HOST:PORT, or HOST alone; IPv6 in brackets. */
static struct addrinfo *look_up(const char *text)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char host[LINK_NAME_BYTES];
    const char *colon = strrchr(text, ':');
    if (!colon || (text[0] == '[' && colon[-1] != ']'))
        colon = text + strlen(text);
    bool brackets = text[0] == '[';
    snprintf(host, sizeof host, "%.*s", (int)(colon - text) - 2 * brackets, text + brackets);
    if (getaddrinfo(host, *colon ? colon + 1 : "0", &hints, &found) != 0)
        usage("an address is malformed");
    return found;
}

/* ---- what came of a case ------------------------------------------------------------------- */

/* Whether text holds one of the alternatives, which have '|' between them. */
static bool holds_one(const char *text, const char *alternatives)
{
    char one[256];
    for (const char *at = alternatives;; at++) {
        size_t len = strcspn(at, "|");
        snprintf(one, sizeof one, "%.*s", (int)len, at);
        if (strstr(text, one))
            return true;
        at += len;
        if (!*at)
            return false;
    }
}

/* Finds "rdmaput: NAME: ...TEXT..." as a line behind an offset of the log. */
static bool is_logged(const char *path, off_t offset, const char *name, const char *text)
{
    char line[4096], start[LINK_NAME_BYTES + 16];
    FILE *log = fopen(path, "r");
    bool found = false;
    snprintf(start, sizeof start, "rdmaput: %s: ", name);
    if (!log)
        return false;
    fseek(log, offset, SEEK_SET);
    while (!found && fgets(line, sizeof line, log))
        found = strncmp(line, start, strlen(start)) == 0 && holds_one(line + strlen(start), text);
    fclose(log);
    return found;
}

static off_t log_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

static bool await_log(const struct settings *settings, const struct talk *talk, off_t offset,
                      const char *text)
{
    while (!is_logged(settings->log, offset, talk->name, text)) {
        if (link_now() >= talk->deadline + TELL_MS)
            return false;
        poll(NULL, 0, LOOK_MS);
    }
    return true;
}

static bool is_expected(const struct hostile_case *test, unsigned status)
{
    return status == test->status || (test->other && status == test->other) ||
           (status == 0 && (test->flags & CASE_MAYBE));
}

static int complain(const struct hostile_case *test, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int complain(const struct hostile_case *test, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "hostile-peer: %s: %s\n", test->name, text);
    return -1;
}

/* ---- as a client --------------------------------------------------------------------------- */

static int judge_client(const struct settings *settings, const struct hostile_case *test,
                        const struct talk *talk, off_t offset, bool access_seen)
{
    bool succeeded = talk->done && !talk->told;
    if (talk->problem)
        return complain(test, "%s", talk->problem);
    if (test->status == 0 && !succeeded && !(test->flags & CASE_UNTOLD))
        return complain(test, "not committed: status %u: %s", talk->status, talk->text);
    if (talk->told && !is_expected(test, talk->status))
        return complain(test, "told status %u, not %u: %s", talk->status, test->status, talk->text);
    if (!succeeded && !talk->told && !(test->flags & CASE_UNTOLD))
        return complain(test, "the server did not say why it ended the session");
    if (test->flags & CASE_ACCESS && !access_seen)
        return complain(test, "the access was not refused");
    if (settings->log && !await_log(settings, talk, offset, test->text))
        return complain(test, "the server did not log, in time, '%s' of %s", test->text,
                        talk->name);
    return 0;
}

/* On iWARP a refused access shows only as the connection's end. */
static bool saw_refused_access(const struct talk *talk)
{
    if (!talk->link.id)
        return false;
    return link_is_iwarp(&talk->link) || talk->link.failure == IBV_WC_REM_ACCESS_ERR;
}

static int play_client(const struct settings *settings, const struct hostile_case *test)
{
    char name[96];
    struct talk talk = {.deviation = &test->deviation,
                        .limit_ms = settings->timeout_ms + SLACK_MS,
                        .deadline = link_now() + settings->timeout_ms + SLACK_MS};
    bool may_commit = test->status == 0 || test->flags & (CASE_MAYBE | CASE_MANY) || test->special;
    struct client_job job = {
        .dest = settings->dest->ai_addr,
        .name = name,
        .object = test->flags & CASE_MAP ? &settings->plain : &settings->with_gap,
        .chunk_limit = CHUNK_LIMIT,
        .receives = test->flags & CASE_DEAF ? 0 : LINK_RECEIVES,
        .many = (test->flags & CASE_MANY) != 0,
        .map = (test->flags & CASE_MAP) != 0,
        .checks = (test->flags & CASE_CHECK) != 0,
        .exchange = test->flags & CASE_EXCHANGE ? settings->exchange->ai_addr : NULL,
        .secret = settings->secret_file ? &settings->secret : NULL,
        .stays = test->status != 0,
        .region_addr = settings->region_addr,
        .region_rkey = settings->region_rkey,
    };
    off_t offset = settings->log ? log_size(settings->log) : 0;
    snprintf(name, sizeof name, "%s-%s", may_commit ? "may" : "never", test->name);
    if (test->special)
        test->special(&talk, &job);
    else if (settings->side == SIDE_REGION)
        client_post(&talk, &job);
    else if (job.checks)
        check_run(&talk, &job);
    else
        client_run(&talk, &job);
    bool ended = talk_conclude(&talk), access_seen = saw_refused_access(&talk);
    link_close(&talk.link);
    if (!ended)
        return complain(test, "the server did not end the session in time");
    return judge_client(settings, test, &talk, offset, access_seen);
}

/* ---- as a server --------------------------------------------------------------------------- */

static void name_host(const struct settings *settings, char host[INET6_ADDRSTRLEN])
{
    const struct addrinfo *at = settings->dest;
    getnameinfo(at->ai_addr, at->ai_addrlen, host, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST);
}

/* HOST:PORT of this side. */
static void name_listener(const struct settings *settings, const struct link_listener *listener,
                          char *name, size_t size)
{
    char host[INET6_ADDRSTRLEN];
    bool six = settings->dest->ai_family == AF_INET6;
    name_host(settings, host);
    snprintf(name, size, six ? "[%s]:%u" : "%s:%u", host, listener->port);
}

/* How the program names this side: as HOST:PORT with a name behind it, or by a ticket. */
static void name_destination(const struct settings *settings, const struct hostile_case *test,
                             const struct link_listener *listener, char *dest, size_t size)
{
    char host[INET6_ADDRSTRLEN], name[64];
    name_host(settings, host);
    name_listener(settings, listener, name, sizeof name);
    if (listener->mr)
        snprintf(dest, size, "rdmaput1,%s,%u,%p,%#x,%llu", host, listener->port,
                 (void *)listener->exposed, listener->mr->rkey,
                 (unsigned long long)settings->delivered.size);
    else
        snprintf(dest, size, "%s%s", name,
                 test->flags & CASE_CHECK  ? ""
                 : test->flags & CASE_MANY ? "/"
                                           : "/x");
}

static void append(const char **argv, const char *argument)
{
    while (*argv)
        argv++;
    *argv = argument;
}

/* The arguments of `rdmaput write` and `rdmaput post`, but for the last one. */
static void put_arguments(const struct settings *settings, const struct hostile_case *test,
                          const char *exchange, const char **argv)
{
    if (!(test->flags & CASE_POST))
        append(argv, test->flags & CASE_MAP ? "--map=auto" : "--map=never");
    if (test->flags & CASE_RESUME)
        append(argv, "--resume");
    if (exchange) {
        append(argv, "--exchange=tcp");
        append(argv, exchange);
    }
    if (settings->secret_file) {
        append(argv, "--secret-file");
        append(argv, settings->secret_file);
    }
    append(argv, settings->file);
}

/* Those of path-check. */
static void put_check_arguments(const struct settings *settings, const char *milliseconds,
                                const char **argv)
{
    argv[1] = "-d20";
    argv[2] = "-t";
    append(argv, milliseconds);
    if (settings->secret_file) {
        append(argv, "-s");
        append(argv, settings->secret_file);
    }
}

/* Starts the program, with all its output in a file. Its process, or -1. */
static pid_t start_program(const struct settings *settings, const struct hostile_case *test,
                           const struct link_listener *listener, uint16_t exchange_port, int output)
{
    bool checks = (test->flags & CASE_CHECK) != 0;
    const char *program = checks ? settings->checker : settings->program;
    char dest[256], timeout[48], milliseconds[32], port[32];
    const char *argv[14] = {program, test->flags & CASE_POST ? "post" : "write", timeout};
    pid_t pid;
    posix_spawn_file_actions_t actions;
    snprintf(milliseconds, sizeof milliseconds, "%lld", (long long)settings->timeout_ms);
    snprintf(timeout, sizeof timeout, "--timeout=%sms", milliseconds);
    name_destination(settings, test, listener, dest, sizeof dest);
    snprintf(port, sizeof port, "--exchange-port=%u", exchange_port);
    if (checks)
        put_check_arguments(settings, milliseconds, argv);
    else
        put_arguments(settings, test, exchange_port > 0 ? port : NULL, argv);
    append(argv, dest);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    int rc = posix_spawn(&pid, program, &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return rc == 0 ? pid : -1;
}

/* Its exit status, 128 and more for a signal; -1 when the deadline came first, and it is killed. */
static int await_program(pid_t pid, int64_t deadline)
{
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (link_now() >= deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        poll(NULL, 0, LOOK_MS);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int judge_server(const struct hostile_case *test, const struct talk *talk, int status,
                        int output)
{
    char text[OUTPUT_BYTES];
    ssize_t len = pread(output, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    if (talk->problem)
        return complain(test, "%s", talk->problem);
    if (status < 0)
        return complain(test, "the program did not end in time: %s", text);
    if (!is_expected(test, (unsigned)status))
        return complain(test, "exit status %d, not %u: %s", status, test->status, text);
    if (status != 0 && !holds_one(text, test->text))
        return complain(test, "no '%s' in: %s", test->text, text);
    if (test->status == 0 && !(test->flags & CASE_POST) && !talk->done)
        return complain(test, "the program took for delivered what is not here");
    return 0;
}

static int play_program(const struct settings *settings, const struct hostile_case *test,
                        struct link_listener *listener, int output)
{
    struct stream exchange = {.open = false};
    uint16_t exchange_port = 0;
    char address[64];
    struct talk talk = {.deviation = &test->deviation,
                        .limit_ms = settings->timeout_ms + SLACK_MS,
                        .deadline = link_now() + START_MS};
    struct server_job job = {.object = &settings->delivered,
                             .secret = settings->secret_file ? &settings->secret : NULL,
                             .receives = test->flags & CASE_DEAF ? 0 : LINK_RECEIVES};
    if (test->flags & CASE_EXCHANGE) {
        if (stream_listen(&exchange, settings->dest->ai_addr, &exchange_port) < 0)
            return -1;
        name_listener(settings, listener, address, sizeof address);
        job.exchange = &exchange;
        job.address = address;
    }
    pid_t pid = start_program(settings, test, listener, exchange_port, output);
    if (pid < 0)
        return complain(test, "cannot start the program");
    server_run(&talk, listener, &job);
    if (talk.link.connected || talk.over)
        talk_conclude(&talk);
    bool kept = test->flags & CASE_UNANSWERED && talk.link.id && link_is_iwarp(&talk.link);
    int status = await_program(pid, talk.deadline + (kept ? SIW_MS : 0));
    link_close(&talk.link);
    stream_close(&talk.stream);
    stream_close(&exchange);
    return judge_server(test, &talk, status, output);
}

static int play_server(const struct settings *settings, const struct hostile_case *test)
{
    struct link_listener listener;
    int output = memfd_create("output", MFD_CLOEXEC), rc = -1;
    if (output < 0)
        return complain(test, "memfd_create: %s", strerror(errno));
    if (link_listen(&listener, settings->dest->ai_addr) == 0 &&
        (!(test->flags & CASE_POST) || link_expose(&listener, settings->delivered.size) == 0))
        rc = play_program(settings, test, &listener, output);
    link_close_listener(&listener);
    close(output);
    return rc;
}

/* ---- all of them --------------------------------------------------------------------------- */

/* Plays from the list until there is no more of it. A thread's main function. */
static void *play(void *argument)
{
    struct playlist *list = argument;
    size_t at;
    while ((at = atomic_fetch_add(&list->next, 1)) < list->count) {
        const struct hostile_case *test = list->cases[at];
        int64_t began = link_now();
        int rc = test->side == SIDE_SERVER ? play_server(list->settings, test)
                                           : play_client(list->settings, test);
        if (rc < 0)
            atomic_fetch_add(&list->failed, 1);
        if (list->settings->verbose)
            printf("%s: %s, %lld ms\n", test->name, rc < 0 ? "FAILED" : "as expected",
                   (long long)(link_now() - began));
    }
    return NULL;
}

static bool is_named(const char *name, char **names)
{
    if (!*names)
        return true;
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static bool is_chosen(const struct settings *settings, const struct hostile_case *test,
                      char **names)
{
    bool has_exchange = settings->side == SIDE_SERVER || settings->exchange;
    bool has_secret = settings->secret_file != NULL;
    return test->side == settings->side && !(test->flags & CASE_SECRET) == !has_secret &&
           (has_exchange || !(test->flags & CASE_EXCHANGE)) &&
           (*names || !(test->flags & CASE_ALONE)) && is_named(test->name, names);
}

/* The cases of a side, those that take long first, as often as there are rounds; or a mix. */
static void fill_list(struct playlist *list, char **names)
{
    const struct settings *settings = list->settings;
    const struct hostile_case **chosen = calloc(hostile_case_count, sizeof(void *));
    size_t count = 0;
    for (unsigned slow = 0; chosen && slow < 2; slow++)
        for (size_t i = 0; i < hostile_case_count; i++) {
            const struct hostile_case *test = &hostile_cases[i];
            bool is_slow = (test->flags & CASE_SLOW) != 0;
            if (is_slow == !slow && is_chosen(settings, test, names))
                chosen[count++] = test;
        }
    if (count == 0)
        usage("no such case");
    list->count = settings->mix ? settings->mix : count * settings->rounds;
    list->cases = calloc(list->count, sizeof(void *));
    unsigned seed = settings->seed;
    for (size_t i = 0; list->cases && i < list->count; i++)
        list->cases[i] = chosen[settings->mix ? (size_t)rand_r(&seed) % count : i % count];
    free(chosen);
}

static int play_all(const struct settings *settings, char **names)
{
    struct playlist list = {.settings = settings};
    pthread_t threads[MOST_JOBS];
    unsigned started = 0;
    fill_list(&list, names);
    while (list.cases && started < settings->jobs &&
           pthread_create(&threads[started], NULL, play, &list) == 0)
        started++;
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    printf("%zu cases, %zu not as expected\n", list.count, list.failed);
    free(list.cases);
    return started == settings->jobs && list.failed == 0 ? 0 : 1;
}

static int list_cases(void)
{
    static const char *const sides[] = {
        [SIDE_CLIENT] = "client", [SIDE_REGION] = "region", [SIDE_SERVER] = "server"};
    for (size_t i = 0; i < hostile_case_count; i++) {
        const struct hostile_case *test = &hostile_cases[i];
        printf("%s %s %u%s %s\n", test->name, sides[test->side], test->status,
               test->flags & CASE_MAYBE ? "|0" : "", test->text);
    }
    return 0;
}

static int deliver(char **args)
{
    struct object object;
    struct addrinfo *dest = look_up(args[0]);
    struct talk talk = {.deadline = link_now() + DELIVER_MS, .limit_ms = DELIVER_MS};
    struct client_job job = {.dest = dest->ai_addr,
                             .name = args[1],
                             .object = &object,
                             .chunk_limit = DELIVER_CHUNK_LIMIT,
                             .receives = LINK_RECEIVES,
                             .token = args[3]};
    if (object_read(&object, args[2]) < 0)
        return 1;
    client_run(&talk, &job);
    talk_conclude(&talk);
    link_close(&talk.link);
    object_free(&object);
    freeaddrinfo(dest);
    if (talk.told)
        fprintf(stderr, "hostile-peer: status %u: %s\n", talk.status, talk.text);
    else if (!talk.done)
        fputs("hostile-peer: the connection ended without a word\n", stderr);
    return talk.told ? (int)talk.status : !talk.done;
}

static void parse_mix(struct settings *settings, const char *text)
{
    char seed[32];
    const char *colon = strchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof seed)
        usage("--mix is SEED:N");
    snprintf(seed, sizeof seed, "%.*s", (int)(colon - text), text);
    settings->seed = (unsigned)number(seed);
    settings->mix = (unsigned)number(colon + 1);
}

static struct settings parse_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"list", no_argument, NULL, 'L'},           {"rounds", required_argument, NULL, 'r'},
        {"mix", required_argument, NULL, 'm'},      {"jobs", required_argument, NULL, 'j'},
        {"timeout", required_argument, NULL, 't'},  {"log", required_argument, NULL, 'l'},
        {"program", required_argument, NULL, 'p'},  {"secret", required_argument, NULL, 's'},
        {"verbose", no_argument, NULL, 'v'},        {"checker", required_argument, NULL, 'c'},
        {"exchange", required_argument, NULL, 'x'}, {.name = NULL},
    };
    struct settings settings = {.rounds = 1, .jobs = 1, .timeout_ms = 2000};
    int option;
    while ((option = getopt_long(argc, argv, "+r:m:j:t:l:p:c:s:vx:", options, NULL)) != -1) {
        switch (option) {
        case 'L':
            exit(list_cases());
        case 'r':
            settings.rounds = (unsigned)number(optarg);
            break;
        case 'm':
            parse_mix(&settings, optarg);
            break;
        case 'j':
            settings.jobs = (unsigned)number(optarg);
            break;
        case 't':
            settings.timeout_ms = (int64_t)number(optarg);
            break;
        case 'l':
            settings.log = optarg;
            break;
        case 'p':
            settings.program = optarg;
            break;
        case 'c':
            settings.checker = optarg;
            break;
        case 's':
            settings.secret_file = optarg;
            if (proof_load(&settings.secret, optarg) < 0)
                exit(1);
            break;
        case 'v':
            settings.verbose = true;
            break;
        case 'x':
            settings.exchange = look_up(optarg);
            break;
        default:
            usage("unknown option, or one without its value");
        }
    }
    if (settings.jobs < 1 || settings.jobs > MOST_JOBS || settings.rounds < 1)
        usage("JOBS and ROUNDS are at least 1, JOBS at most 64");
    return settings;
}

/* Of the command that args begins with; how many arguments it has before the cases. */
static int parse_command(struct settings *settings, char **args, int count)
{
    static const struct {
        const char *name;
        enum side side;
        int count;
    } commands[] = {
        {"client", SIDE_CLIENT, 2}, {"region", SIDE_REGION, 4}, {"server", SIDE_SERVER, 3}};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (count < commands[i].count || strcmp(args[0], commands[i].name) != 0)
            continue;
        settings->side = commands[i].side;
        settings->dest = look_up(args[1]);
        if (settings->side == SIDE_REGION) {
            settings->region_addr = number(args[2]);
            settings->region_rkey = (uint32_t)number(args[3]);
        }
        if (settings->side == SIDE_SERVER)
            settings->file = args[2];
        return commands[i].count;
    }
    usage("no such command, or too few arguments");
}

int main(int argc, char **argv)
{
    struct settings settings = parse_options(argc, argv);
    char **args = argv + optind;
    int count = argc - optind, rc = 1;
    if (count >= 4 && count <= 5 && strcmp(args[0], "deliver") == 0) {
        if (args[4] && strlen(args[4]) != WIRE_TOKEN_BYTES)
            usage("TOKEN has 16 characters");
        return deliver(args + 1);
    }
    if (count < 1)
        usage("what is to be done?");
    int used = parse_command(&settings, args, count);
    if (settings.side == SIDE_SERVER && (!settings.program || !settings.checker))
        usage("--program is due");
    if (object_make(&settings.plain, OBJECT_BYTES, false) == 0 &&
        object_make(&settings.with_gap, OBJECT_BYTES, true) == 0 &&
        (!settings.file || object_read(&settings.delivered, settings.file) == 0))
        rc = play_all(&settings, args + used);
    object_free(&settings.plain);
    object_free(&settings.with_gap);
    object_free(&settings.delivered);
    freeaddrinfo(settings.dest);
    if (settings.exchange)
        freeaddrinfo(settings.exchange);
    return rc;
}

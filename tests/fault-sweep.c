/*
 * fault-sweep - a small transfer in which one call fails, for each call that there is
 *
 * usage: fault-sweep [OPTION...] SCENARIO END
 *
 *   SCENARIO      what is transferred, and how: one of the table below
 *   END           where the call fails: client or server
 *   -a ADDR       on the RDMA device behind ADDR (else on the fake fabric, 127.0.0.1)
 *   -f FUNCTION   only calls of this function; with a * at its end, of those that begin so
 *   -n NTH        only the NTH of them
 *   -t FILE       what all processes told as JSON goes there, for lib/documents.jq
 *   -s SEED       one call of each function, at random
 *   -j JOBS       cases side by side (6)
 *   -v            a line for each case
 *
 * RDMAPUT and RDMAPUT_BUILD are as for the bats tests; it works in the current directory. A first
 * run counts the calls (fail-nth.c). Then each case has a server and a directory of its own, and
 * one call that fails, and is right when
 *   - both ends end in time, by no signal, with the statuses that suit that function
 *   - a client's 0 means that all was delivered, and what failed at this end was said, with its subject
 *   - what is in the directory is the old or the new, whole, and nothing else
 *   - the server has given back its descriptors and threads, and serves the next client
 *   - both have destroyed all they made on the fabric (fake-fabric.h)
 * Prints what is not right, and "N cases, N failed". Exit status: 0, 1 when any failed, 64 usage.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define MOST_ARGS 24
#define MOST_NAMES 4
#define MOST_FUNCTIONS 160
#define LIMIT_MS (options.addr ? 60000 : 20000)
#define TIMEOUT (options.addr ? "20" : "5")
#define A_BYTES 200000
#define B_BYTES 150000

/* ---- what is transferred ------------------------------------------------------------------------- */

struct object {
    const char *name;
    bool has_a, has_b; /* of the sources a and b, what it is made of */
};

static const struct scenario {
    const char *name;
    const char *serve[MOST_ARGS], *client[MOST_ARGS];
    bool posts;   /* one-sided, to a ticket */
    bool loose;   /* what fails may leave anything in the object */
    bool resumes; /* a part of it is there already; and what fails may leave one */
    bool is_new;  /* nothing is there before */
    bool judges;  /* the client tells what fails on standard output, and ends with 1 */
    struct object objects[MOST_NAMES];
} scenarios[] = {
    {.name = "write",
     .serve = {"dir", NULL},
     .client = {"write", "../a", "../b@0", "DEST/x", NULL},
     .objects = {{"x", true, true}}},
    {.name = "sync",
     .serve = {"--sync", "dir", NULL},
     .client = {"write", "--sync", "--preserve", "../a", "DEST/x", NULL},
     .objects = {{"x", true, false}}},
    {.name = "resume",
     .serve = {"dir", NULL},
     .client = {"write", "--resume", "../a", "../b@0", "DEST/x", NULL},
     .resumes = true,
     .objects = {{"x", true, true}}},
    {.name = "many",
     .serve = {"dir", NULL},
     .client = {"write", "../a", "../b", "DEST/", NULL},
     .objects = {{"a", true, false}, {"b", false, true}}},
    {.name = "exchange",
     .serve = {"--exchange-port", "PORT", "dir", NULL},
     .client = {"write", "--exchange=tcp", "--exchange-port", "PORT", "../a", "../b@0", "HOST/x",
                NULL},
     .objects = {{"x", true, true}}},
    {.name = "post",
     .serve = {"--region", "350000", "--dump", "dir/x", "--ticket", "ticket", NULL},
     .client = {"post", "../a", "../b@0", "TICKET", NULL},
     .posts = true,
     .loose = true,
     .objects = {{"x", true, true}}},
    {.name = "new",
     .serve = {"dir", NULL},
     .client = {"write", "../a", "../b@0", "DEST/p/q/x", NULL},
     .is_new = true,
     .objects = {{"p/q/x", true, true}}},
    {.name = "file",
     .serve = {"dir/x", NULL},
     .client = {"write", "../a", "../b@0", "DEST", NULL},
     .objects = {{"x", true, true}}},
    {.name = "in-place",
     .serve = {"--sync", "--in-place", "dir/x", NULL},
     .client = {"write", "../a", "../b@0", "DEST", NULL},
     .loose = true,
     .objects = {{"x", true, true}}},
    {.name = "secret",
     .serve = {"--secret-file", "../secret", "dir", NULL},
     .client = {"write", "--secret-file", "../secret", "../a", "../b@0", "DEST/x", NULL},
     .objects = {{"x", true, true}}},
    {.name = "rsh",
     .serve = {"dir", NULL},
     .client = {"write", "-e", "../rsh", "../a", "../b@0", "HOST/dir/x", NULL},
     .objects = {{"x", true, true}}},
    {.name = "check",
     .serve = {"dir", NULL},
     .client = {"check", "--quick", "DEST", NULL},
     .judges = true},
    {.name = "devices", .serve = {"dir", NULL}, .client = {"devices", NULL}},
};

/* ---- processes ------------------------------------------------------------------------------------ */

static struct {
    const char *program, *build, *addr; /* addr: NULL for the fake fabric */
    const struct scenario *scenario;
    bool at_server, verbose;
    int told_fd; /* where what all processes told goes, for documents.jq; -1: nowhere */
} options = {.told_fd = -1};

/* What an idle server has. */
static struct usage {
    int descriptors, threads;
} idle;

struct process {
    pid_t pid; /* 0: none */
    int fd;    /* readable once it has ended */
    const char *command;
    char told[24]; /* where it tells as JSON what it came to */
};

/* One case, in a directory of its own. */
struct trial {
    const char *function; /* NULL: nothing fails */
    unsigned nth;
    struct process server;
    char port[12]; /* of its exchange */
    FILE *wrong;   /* what is not right */
    unsigned wrongs;
};

static void wrong(struct trial *trial, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fault-sweep: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void wrong(struct trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("    ", trial->wrong);
    vfprintf(trial->wrong, format, args);
    fputc('\n', trial->wrong);
    va_end(args);
    trial->wrongs++;
}

/* The content of a file, in a buffer that the next call takes again; "" when there is none. */
static const char *content(const char *path, size_t *len)
{
    static char buffer[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    size_t used = 0;
    while (fd >= 0 && (n = read(fd, buffer + used, sizeof buffer - 1 - used)) > 0)
        used += (size_t)n;
    if (n < 0)
        die(path);
    if (fd >= 0)
        close(fd);
    buffer[used] = '\0';
    if (len)
        *len = used;
    return buffer;
}

static void redirect(int fd, const char *path, int flags)
{
    int opened = open(path, flags | O_CLOEXEC, 0666);
    if (opened < 0 || dup2(opened, fd) < 0)
        _exit(127);
}

/* What the child preloads, and which of its calls fails. */
static void set_environment(const struct trial *trial, bool fails)
{
    char preload[2000], number[12];
    const char *asan = getenv("ASAN_OPTIONS");
    snprintf(number, sizeof number, "%u", trial->nth);
    snprintf(preload, sizeof preload, "%s%s%s%s%s", fails ? options.build : "",
             fails ? "/tests/lib/fail-nth.so" : "", fails ? ":" : "",
             options.addr ? "" : options.build, options.addr ? "" : "/tests/lib/fake-fabric.so");
    setenv("LD_PRELOAD", preload, 1);
    setenv("FAKE_FABRIC_REPORT", "fabric", 1);
    if (fails)
        setenv("FAIL_REPORT", "fault", 1);
    if (fails && trial->function) {
        setenv("FAIL_CALL", trial->function, 1);
        setenv("FAIL_NTH", number, 1);
    }
    snprintf(preload, sizeof preload, "%s:verify_asan_link_order=0", asan ? asan : "");
    setenv("ASAN_OPTIONS", preload, 1);
}

/* What it says goes to the end of the file. */
static struct process start(const struct trial *trial, bool fails, const char *says,
                            const char *const *args)
{
    struct process process = {.command = args[0]};
    const char *argv[MOST_ARGS + 14] = {options.program, args[0], "--json-file", process.told};
    snprintf(process.told, sizeof process.told, "told-%s", says);
    for (size_t i = 1; args[i]; i++)
        argv[i + 3] = args[i];
    process.pid = fork();
    if (process.pid < 0)
        die("fork");
    if (process.pid == 0) {
        redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
        redirect(STDERR_FILENO, says, O_WRONLY | O_CREAT | O_APPEND);
        redirect(STDOUT_FILENO, options.scenario->judges ? says : "/dev/null", O_WRONLY | O_APPEND);
        set_environment(trial, fails);
        execv(options.program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    process.fd = (int)syscall(SYS_pidfd_open, process.pid, 0);
    if (process.fd < 0)
        die("pidfd_open");
    fcntl(process.fd, F_SETFD, FD_CLOEXEC);
    return process;
}

static bool has_ended(const struct process *process, int ms)
{
    struct pollfd fd = {.fd = process->fd, .events = POLLIN};
    return poll(&fd, 1, ms) > 0;
}

/* What it told, with its status and the call that failed, goes where that of all processes does. */
static void pass_on(const struct trial *trial, const struct process *process, int status)
{
    char *text = NULL;
    size_t len = 0;
    FILE *record = options.told_fd < 0 ? NULL : open_memstream(&text, &len);
    if (!record)
        return;
    fprintf(record, "process\t%d\t%s %u %s\t%s\n%s", status,
            trial->function ? trial->function : "nothing", trial->nth, process->told,
            process->command, content(process->told, NULL));
    fclose(record);
    if (write(options.told_fd, text, len) != (ssize_t)len)
        die("what was told");
    free(text);
}

/* Its exit status; 128 and more for a signal, also that which ends it when it takes too long. */
static int await_end(struct trial *trial, const char *who, struct process *process)
{
    int status;
    if (!has_ended(process, LIMIT_MS)) {
        wrong(trial, "the %s did not end within %d s", who, LIMIT_MS / 1000);
        kill(process->pid, SIGKILL);
    }
    if (waitpid(process->pid, &status, 0) < 0)
        die("waitpid");
    close(process->fd);
    process->pid = 0;
    status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    pass_on(trial, process, status);
    return status;
}

/* ---- what is to hold ------------------------------------------------------------------------------ */

/*
 * Which statuses suit a call that fails, and what is said of it: one of these, and the text of its
 * errno; or "", nothing. 0 suits where the end is reached without it. A client that 75 suits was
 * not told by its server, which is gone.
 */
static const struct expectation {
    const char *functions; /* separated by spaces */
    int statuses[4];
    const char *says[6];
} expectations[] = {
    /* Memory, threads, descriptors */
    {"malloc calloc realloc reallocarray strdup strndup asprintf tsearch XXH3_createState "
     "open_memstream",
     {0, 71},
     {"cannot ", "too many "}},
    {"mmap", {0, 71}, {"cannot allocate"}},
    {"pthread_attr_init pthread_create",
     {71},
     {"cannot start a thread", "cannot start a session", "cannot attend to the command"}},
    {"eventfd", {71}, {"cannot handle signals", "cannot start a thread", "cannot make an eventfd"}},
    {"timer_create", {71}, {"cannot handle signals"}},
    {"fcntl",
     {71},
     {"cannot sweep", "cannot begin an object", "cannot make its directory", "cannot finish"}},
    {"open", {0, 71}, {"cannot open", "cannot create", "cannot serve", "cannot dump"}},
    {"fopen", {0, 71}, {"cannot create"}}, /* what is read of the system, and the file for JSON */
    {"openat syscall",
     {0, 71},
     {"cannot create", "cannot open", "cannot make its directory", "stable storage"}},
    {"socket accept4", {0, 71}, {"cannot make a socket", "cannot listen"}},
    {"bind listen getsockname", {69}, {"cannot listen for exchanges"}},
    {"connect", {69}, {""}}, /* ECONNREFUSED has words of its own */
    {"getsockopt", {69}, {"cannot connect for the exchange"}},
    {"setsockopt", {0}, {NULL}},
    {"send recv", {0, 75}, {""}}, /* the end of a TCP connection, mostly */
    {"getrandom", {71, 73}, {"cannot create", "cannot get random bytes", "cannot dump"}},
    {"HMAC", {71}, {"no HMAC"}},
    {"getaddrinfo", {71}, {"cannot find that host", "cannot take in the address"}},
    {"getifaddrs", {71}, {"cannot list the addresses"}},
    /* Storage: sources, then what is served, then what only tells of it */
    {"lseek", {0, 66}, {"cannot open"}},
    {"read pread", {0, 66, 74}, {"cannot read"}},
    {"fstat",
     {0, 66, 73, 74},
     {"cannot open", "cannot find out", "cannot create", "cannot sweep", "cannot extend",
      "cannot look at"}},
    {"pwrite", {74}, {"cannot write"}},
    {"mkdirat", {73}, {"cannot make its directory"}},
    {"fallocate", {0, 73}, {"cannot create"}},
    {"fchmod futimens", {73, 74}, {"cannot create", "cannot finish"}},
    {"ftruncate linkat", {74}, {"cannot finish"}},
    {"fsync syncfs", {74}, {"cannot finish", "cannot sync", "stable storage"}},
    {"rename renameat renameat2", {73, 74}, {"cannot create", "cannot replace", "cannot dump"}},
    {"write", {0, 73, 74}, {"cannot create", "cannot write", "cannot dump"}},
    {"close fclose",
     {0, 71, 73, 74},
     {"cannot create", "cannot write", "cannot list", "cannot dump", "cannot finish"}},
    /* A file without its lock, while others have theirs, a sweep may take. */
    {"flock", {0, 73, 74}, {"cannot create", "cannot replace"}},
    {"stat lstat fstatat faccessat access",
     {0, 69, 73},
     {"cannot serve", "cannot create", "cannot use RDMA", "cannot dump", "cannot open"}},
    {"fdopendir readdir closedir fstatfs fstatvfs realpath readlink ioctl unlink unlinkat munmap",
     {0},
     {NULL}},
    {"getrlimit", {0}, {NULL}},
    /* librdmacm */
    {"rdma_create_event_channel rdma_create_id", {71}, {"cannot use RDMA"}},
    {"rdma_bind_addr rdma_listen", {71}, {"cannot listen", "cannot use RDMA"}},
    {"rdma_resolve_addr rdma_resolve_route",
     {71},
     {"cannot resolve address", "cannot resolve route"}},
    {"rdma_connect", {71}, {"cannot connect"}},
    {"rdma_accept rdma_migrate_id", {71}, {"cannot accept", "cannot take over"}},
    {"rdma_get_cm_event", {0, 71, 75}, {"cannot read connection events"}},
    {"rdma_ack_cm_event rdma_destroy_id rdma_disconnect rdma_reject rdma_set_option", {0}, {NULL}},
    /* libibverbs */
    {"ibv_get_device_list", {71}, {"cannot use RDMA"}},
    {"ibv_alloc_pd", {71}, {"cannot create a protection domain"}},
    {"ibv_create_comp_channel", {71}, {"cannot create a completion channel"}},
    {"ibv_create_cq", {71}, {"cannot create a completion queue"}},
    {"rdma_create_qp", {71}, {"cannot create a queue pair"}},
    {"ibv_reg_mr", {0, 71}, {"cannot register"}},
    {"ibv_query_device ibv_query_port", {0, 71}, {"cannot query device"}},
    {"ibv_post_recv ibv_post_send", {0, 71}, {"cannot post"}},
    {"ibv_poll_cq", {0, 71, 75}, {"polling the completion queue failed"}},
    {"ibv_req_notify_cq", {0, 71, 75}, {"cannot arm the completion queue"}},
    {"ibv_get_cq_event ibv_get_async_event ibv_query_qp", {0}, {NULL}},
    {"ibv_open_device", {0, 71}, {"cannot open device"}},
    {"ibv_query_gid ibv_close_device", {0}, {NULL}},
    {"ibv_dealloc_pd ibv_dereg_mr ibv_destroy_comp_channel ibv_destroy_cq", {0}, {NULL}},
};

static const struct expectation *expectation_of(const char *function)
{
    size_t len = strlen(function);
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++)
        for (const char *at = expectations[i].functions; *at; at += strspn(at, " ")) {
            size_t name = strcspn(at, " ");
            if (name == len && strncmp(at, function, len) == 0)
                return &expectations[i];
            at += name;
        }
    return NULL;
}

/* The errno of the call that has failed, 0 where it has none; -1: it has not come to that. */
static int struck_by(const struct trial *trial)
{
    int errnum = -1;
    const char *line = strstr(content("fault", NULL), "failed ");
    if (trial->function && line && sscanf(line, "failed %*s %*u %d", &errnum) != 1)
        errno = EINVAL, die("fault");
    return errnum;
}

static bool suits(const struct expectation *expected, int status)
{
    size_t i = 0, count = sizeof expected->statuses / sizeof expected->statuses[0];
    /* The list ends with zeros, and may begin with one. */
    while (i < count && status != expected->statuses[i])
        i++;
    return i < count && (status != 0 || i == 0);
}

/* What fails on the way is a finding of a check, and less inline data is no failure. */
static bool suits_check(const struct trial *trial, int status)
{
    return status == 1 || (status == 0 && strcmp(trial->function, "rdma_create_qp") == 0);
}

/* What failed is told in the file. */
static void check_words(struct trial *trial, const struct expectation *expected, const char *who,
                        const char *says)
{
    const char *said = content(says, NULL);
    bool told = false;
    if (expected->says[0] && !expected->says[0][0])
        return;
    for (size_t i = 0; i < sizeof expected->says / sizeof expected->says[0]; i++)
        told |= expected->says[i] && strstr(said, expected->says[i]);
    if (!told)
        wrong(trial, "the %s did not say what failed", who);
    int errnum = struck_by(trial);
    said = content(says, NULL);
    if (errnum > 0 && !strstr(said, strerror(errnum)))
        wrong(trial, "the %s did not say '%s'", who, strerror(errnum));
}

/* A call has failed, at this end or the other, and this end has ended so. */
static void check_failure(struct trial *trial, const char *who, int status)
{
    const struct expectation *expected = expectation_of(trial->function);
    bool is_client = strcmp(who, "client") == 0, judged = is_client && options.scenario->judges;
    bool told_by_server = is_client && options.at_server;
    if (status >= 128)
        wrong(trial, "the %s was ended by signal %d", who, status - 128);
    else if (!expected)
        wrong(trial, "what is to happen is not said: the %s ended with %d", who, status);
    else if (!suits(expected, status) && !(judged && suits_check(trial, status)))
        wrong(trial, "the %s ended with %d, which does not suit", who, status);
    else if (status != 0 && !(told_by_server && (status == 75 || judged)))
        check_words(trial, expected, who, who);
}

static bool is_new(const struct object *object)
{
    char wanted[A_BYTES + B_BYTES];
    size_t len = 0, found_len, part;
    char path[64];
    if (object->has_a) {
        memcpy(wanted, content("../a", &part), A_BYTES);
        len += A_BYTES;
    }
    if (object->has_b) {
        memcpy(wanted + len, content("../b", &part), B_BYTES);
        len += B_BYTES;
    }
    snprintf(path, sizeof path, "dir/%s", object->name);
    const char *found = content(path, &found_len);
    return found_len == len && memcmp(found, wanted, len) == 0;
}

static bool is_old(const struct object *object)
{
    char path[64];
    snprintf(path, sizeof path, "dir/%s", object->name);
    return options.scenario->is_new ? access(path, F_OK) < 0
                                    : strcmp(content(path, NULL), "old") == 0;
}

/* What is in the directory: objects, old or new, and nothing else. Whether all are new. */
static bool check_directory(struct trial *trial, bool may_hide)
{
    bool all_new = true;
    struct dirent *entry;
    DIR *directory = opendir("dir");
    if (!directory)
        die("dir");
    while ((entry = readdir(directory))) {
        bool known = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                     (may_hide && entry->d_name[0] == '.');
        for (const struct object *object = options.scenario->objects; object->name; object++)
            known |= strlen(entry->d_name) == strcspn(object->name, "/") &&
                     strncmp(entry->d_name, object->name, strlen(entry->d_name)) == 0;
        if (!known)
            wrong(trial, "left in the directory: %s", entry->d_name);
    }
    closedir(directory);
    for (const struct object *object = options.scenario->objects; object->name; object++) {
        if (is_new(object))
            continue;
        all_new = false;
        if (!is_old(object) && !options.scenario->loose)
            wrong(trial, "%s is neither old nor new", object->name);
    }
    return all_new;
}

static void nap(void)
{
    static const struct timespec time = {.tv_nsec = 2 * CLOCK_NS_PER_MS};
    nanosleep(&time, NULL);
}

/* A region is dumped after its client has gone. */
static void await_dump(void)
{
    int64_t until = clock_after(5 * CLOCK_NS_PER_S);
    while (!is_new(options.scenario->objects) && clock_now() < until)
        nap();
}

static int count_entries(pid_t pid, const char *what)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    DIR *directory = opendir(path);
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

static struct usage usage_of(const struct process *process)
{
    return (struct usage){.descriptors = count_entries(process->pid, "fd"),
                          .threads = count_entries(process->pid, "task")};
}

/* The server has given back what its sessions took. */
static void check_server(struct trial *trial)
{
    int64_t until = clock_after(5 * CLOCK_NS_PER_S);
    struct usage usage = {0};
    while (!has_ended(&trial->server, 0) && clock_now() < until) {
        usage = usage_of(&trial->server);
        if (usage.descriptors <= idle.descriptors && usage.threads <= idle.threads)
            return;
        nap();
    }
    if (has_ended(&trial->server, 0))
        wrong(trial, "the server has ended");
    else
        wrong(trial,
              "the idle server has %d descriptors more than one that had no failure, and %d "
              "threads",
              usage.descriptors - idle.descriptors, usage.threads - idle.threads);
}

static void check_fabric(struct trial *trial)
{
    const char *at = options.addr ? "" : content("fabric", NULL);
    while (*at) {
        size_t len = strcspn(at, "\n");
        const char *colon = memchr(at, ':', len);
        if (!colon || strncmp(colon, ": nothing\n", 10) != 0)
            wrong(trial, "left on the fabric: %.*s", (int)len, at);
        at += len + (at[len] == '\n');
    }
}

/* ---- a case ------------------------------------------------------------------------------------ */

static void make_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        die(path);
}

/* A TCP port that is free. */
static unsigned free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        die("a TCP port");
    close(fd);
    return ntohs(addr.sin_port);
}

/* 0 once it serves; else the status it has ended with. */
static int start_server(struct trial *trial, bool fails)
{
    const char *args[MOST_ARGS + 12] = {
        "serve",     "--port", "0",
        "--timeout", "5",      "--ready-file",
        "ready",     "--bind", options.addr ? options.addr : "127.0.0.1"};
    size_t count = 9;
    snprintf(trial->port, sizeof trial->port, "%u", free_port());
    for (size_t i = 0; options.scenario->serve[i]; i++) {
        const char *arg = options.scenario->serve[i];
        args[count++] = strcmp(arg, "PORT") == 0 ? trial->port : arg;
    }
    trial->server = start(trial, fails, "server", args);
    for (int64_t until = clock_after(LIMIT_MS * CLOCK_NS_PER_MS); access("ready", F_OK) < 0;) {
        if (has_ended(&trial->server, 2) || clock_now() >= until)
            return await_end(trial, "server", &trial->server);
    }
    return 0;
}

/* The arguments of the client, with what the server has said in place of DEST, HOST, PORT, TICKET. */
static int run_client(struct trial *trial, bool fails, const char *says)
{
    static char texts[MOST_ARGS][300];
    const char *args[MOST_ARGS + 12] = {NULL};
    char dest[100], ticket[200], host[100];
    size_t count = 0;
    snprintf(dest, sizeof dest, "%.*s", (int)strcspn(content("ready", NULL), "\n"),
             content("ready", NULL));
    snprintf(host, sizeof host, "%.*s", (int)strcspn(dest, ":"), dest);
    snprintf(ticket, sizeof ticket, "%.*s", (int)strcspn(content("ticket", NULL), "\n"),
             content("ticket", NULL));
    for (size_t i = 0; options.scenario->client[i]; i++) {
        const char *arg = options.scenario->client[i];
        if (strncmp(arg, "DEST", 4) == 0)
            snprintf(texts[i], sizeof texts[i], "%s%s", dest, arg + 4);
        else if (strncmp(arg, "HOST", 4) == 0)
            snprintf(texts[i], sizeof texts[i], "%s%s", host, arg + 4);
        else
            snprintf(texts[i], sizeof texts[i], "%s",
                     strcmp(arg, "PORT") == 0     ? trial->port
                     : strcmp(arg, "TICKET") == 0 ? ticket
                                                  : arg);
        args[count++] = texts[i];
        if (i == 0) {
            args[count++] = "--timeout";
            args[count++] = TIMEOUT;
        }
    }
    struct process client = start(trial, fails, says, args);
    return await_end(trial, "client", &client);
}

/* Leaves a part of the object, as a client does that cannot read its file to the end. */
static void leave_part(struct trial *trial)
{
    struct trial part = {.function = "pread", .nth = 2, .wrong = trial->wrong};
    if (start_server(&part, false) != 0 || run_client(&part, true, "part") != 74)
        wrong(trial, "no part was left");
    kill(part.server.pid, SIGTERM);
    await_end(&part, "server", &part.server);
    trial->wrongs += part.wrongs;
    unlink("fault");
}

/* A client, while the call may fail. Whether it did not. */
static bool run_session(struct trial *trial)
{
    int status = run_client(trial, !options.at_server, "client");
    check_server(trial);
    if (options.scenario->posts && !trial->function)
        await_dump();
    bool struck = struck_by(trial) >= 0;
    bool delivered = check_directory(trial, options.scenario->resumes);
    bool dumped_late = options.scenario->posts && options.at_server && struck;
    if (!struck && status != 0)
        wrong(trial, "nothing failed, and the client ended with %d", status);
    if (status == 0 && !delivered && !dumped_late)
        wrong(trial, "the client ended with 0, and not all was delivered");
    if (!struck)
        return true;
    if (status == 0 && !delivered)
        check_words(trial, expectation_of(trial->function), "server", "server");
    else
        check_failure(trial, "client", status);
    /* What fails after the commit matters to the client alone. */
    if (options.at_server && status != 0 && !delivered)
        check_failure(trial, "server", status);
    return false;
}

/* One that is to succeed. */
static void run_honest_client(struct trial *trial)
{
    int status = run_client(trial, false, "honest");
    check_server(trial);
    if (status != 0 || !check_directory(trial, false))
        wrong(trial, "the next client ended with %d", status);
}

/* Of a session that went well what it told may be lost: then that is all that the server failed of. */
static bool lost_document(const struct trial *trial, int status)
{
    return status == 74 && trial->function && strcmp(trial->function, "write") == 0 &&
           strstr(content("server", NULL), "cannot write what is told as JSON");
}

static void stop_server(struct trial *trial, bool may_fail)
{
    if (!trial->server.pid)
        return;
    kill(trial->server.pid, SIGTERM);
    int status = await_end(trial, "server", &trial->server);
    if (may_fail && struck_by(trial) >= 0)
        check_failure(trial, "server", status);
    else if (status != 0 && !lost_document(trial, status))
        wrong(trial, "the server ended with %d", status);
}

static void make_old(void)
{
    if (mkdir("dir", 0777) < 0)
        die("dir");
    if (options.scenario->is_new)
        return;
    for (const struct object *object = options.scenario->objects; object->name; object++) {
        char path[64];
        snprintf(path, sizeof path, "dir/%s", object->name);
        make_file(path, "old");
    }
}

/* A server that did not come to serve. */
static void check_start(struct trial *trial, int status)
{
    check_failure(trial, "server", status);
    if (access("ready", F_OK) == 0)
        wrong(trial, "the ready file is left");
    if (check_directory(trial, options.scenario->resumes) && options.scenario->objects[0].name)
        wrong(trial, "all is new");
}

static void run_trial(struct trial *trial)
{
    bool waits = true;
    make_old();
    if (options.scenario->resumes)
        leave_part(trial);
    int status = start_server(trial, options.at_server);
    if (!trial->server.pid) {
        check_start(trial, status);
    } else {
        if (options.at_server && struck_by(trial) >= 0) {
            check_failure(trial, "server", 0);
            waits = false;
        }
        /* How often some calls are made is a matter of time. */
        for (int i = 0; i < 2 && waits; i++)
            waits = run_session(trial);
        if (!waits)
            run_honest_client(trial);
        stop_server(trial, waits);
    }
    check_fabric(trial);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* In a child: 0, or 1 after telling what was wrong. */
static int run_case(const char *function, unsigned nth)
{
    char name[160], *text = NULL;
    size_t len = 0;
    struct trial trial = {.function = function, .nth = nth, .wrong = open_memstream(&text, &len)};
    snprintf(name, sizeof name, "%.20s-%s-%.40s-%u", options.scenario->name,
             options.at_server ? "server" : "client", function, nth);
    if (!trial.wrong || mkdir(name, 0777) < 0 || chdir(name) < 0)
        die(name);
    run_trial(&trial);
    if (options.verbose || trial.wrongs > 0)
        fprintf(trial.wrong, "    client: %s", content("client", NULL));
    if (options.verbose || trial.wrongs > 0)
        fprintf(trial.wrong, "    server: %s", content("server", NULL));
    fclose(trial.wrong);
    if (options.verbose || trial.wrongs > 0)
        printf("%s%s\n%s", trial.wrongs > 0 ? "WRONG " : "", name, text);
    fflush(stdout);
    free(text);
    if (chdir("..") < 0)
        die("..");
    nftw(name, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return trial.wrongs > 0;
}

/* ---- all cases --------------------------------------------------------------------------------- */

struct calls {
    char function[40];
    unsigned count;
};

/* The least that the server has in a while after its first session: its sweeper comes and goes. */
static void measure_idle(const struct process *server)
{
    int64_t until = clock_after((options.addr ? 1000 : 300) * CLOCK_NS_PER_MS);
    idle = usage_of(server);
    for (; clock_now() < until; nap()) {
        struct usage usage = usage_of(server);
        if (usage.descriptors < idle.descriptors)
            idle.descriptors = usage.descriptors;
        if (usage.threads < idle.threads)
            idle.threads = usage.threads;
    }
}

/* How often each function is called, by a transfer in which nothing fails. Their number. */
static unsigned count_calls(struct calls *calls)
{
    char *text = NULL;
    size_t len = 0;
    unsigned count = 0;
    struct trial trial = {.wrong = open_memstream(&text, &len)};
    if (!trial.wrong || mkdir("count", 0777) < 0 || chdir("count") < 0)
        die("count");
    make_old();
    if (options.scenario->resumes)
        leave_part(&trial);
    if (start_server(&trial, options.at_server) == 0 && trial.server.pid) {
        idle = (struct usage){INT_MAX, INT_MAX};
        run_session(&trial);
        measure_idle(&trial.server);
    }
    stop_server(&trial, false);
    check_fabric(&trial);
    fclose(trial.wrong);
    if (trial.wrongs > 0) {
        printf("WRONG nothing fails\n%s    client: %s    server: ", text, content("client", NULL));
        printf("%s", content("server", NULL));
        exit(1);
    }
    free(text);
    for (const char *at = content("fault", NULL); *at; at += strcspn(at, "\n") + 1)
        if (count < MOST_FUNCTIONS &&
            sscanf(at, "%39s %u", calls[count].function, &calls[count].count) == 2)
            count++;
    if (chdir("..") < 0)
        die("..");
    nftw("count", remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return count;
}

static void make_source(const char *path, size_t bytes)
{
    FILE *file = fopen(path, "we");
    for (size_t i = 0; file && i < bytes; i++)
        if (fputc('a' + (int)(random() % 26), file) == EOF)
            die(path);
    if (!file || fclose(file) != 0)
        die(path);
}

struct jobs {
    unsigned most, running, cases, failed;
};

static void await_job(struct jobs *jobs)
{
    int status;
    if (wait(&status) < 0)
        die("wait");
    jobs->running--;
    jobs->failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void start_job(struct jobs *jobs, const char *function, unsigned nth)
{
    if (jobs->running == jobs->most)
        await_job(jobs);
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        exit(run_case(function, nth));
    jobs->running++;
    jobs->cases++;
}

static _Noreturn void usage(const char *problem)
{
    fprintf(stderr, "fault-sweep: %s; see the head of its source\n", problem);
    exit(64);
}

static bool is_wanted(const char *wanted, const char *function)
{
    size_t len = wanted ? strlen(wanted) : 0;
    if (len > 0 && wanted[len - 1] == '*')
        return strncmp(wanted, function, len - 1) == 0;
    return len == 0 || strcmp(wanted, function) == 0;
}

static const struct scenario *find_scenario(const char *name)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, name) == 0)
            return &scenarios[i];
    usage("no such scenario");
}

/* For -e: another host is this one, where nothing fails. */
static const char far_end[] = "#!/bin/sh\n"
                              "unset FAIL_NTH FAIL_REPORT\n"
                              "PATH=${RDMAPUT%/*}:$PATH\n"
                              "shift\n"
                              "exec sh -c \"$*\"\n";

int main(int argc, char **argv)
{
    static struct calls calls[MOST_FUNCTIONS];
    struct jobs jobs = {.most = 6};
    const char *function = NULL, *seed = NULL;
    unsigned nth = 0;
    int option;
    while ((option = getopt(argc, argv, "a:f:n:s:j:t:v")) != -1) {
        switch (option) {
        case 'a':
            options.addr = optarg;
            break;
        case 'f':
            function = optarg;
            break;
        case 'n':
            nth = (unsigned)atoi(optarg);
            break;
        case 's':
            seed = optarg;
            break;
        case 'j':
            jobs.most = (unsigned)atoi(optarg);
            break;
        case 't':
            options.told_fd = open(optarg, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
            if (options.told_fd < 0)
                die(optarg);
            break;
        case 'v':
            options.verbose = true;
            break;
        default:
            usage("unknown option, or one without its value");
        }
    }
    options.program = getenv("RDMAPUT");
    options.build = getenv("RDMAPUT_BUILD");
    if (argc - optind != 2 || jobs.most == 0)
        usage("SCENARIO and END are due");
    if (!options.program || !options.build)
        usage("RDMAPUT and RDMAPUT_BUILD are to be set");
    options.scenario = find_scenario(argv[optind]);
    options.at_server = strcmp(argv[optind + 1], "server") == 0;
    if (!options.at_server && strcmp(argv[optind + 1], "client") != 0)
        usage("END is client or server");
    srandom(seed ? (unsigned)atoi(seed) : 1);
    make_source("a", A_BYTES);
    make_source("b", B_BYTES);
    make_file("secret", "0123456789abcdef0123456789abcdef\n");
    chmod("secret", 0600);
    make_file("rsh", far_end);
    chmod("rsh", 0755);
    unsigned count = count_calls(calls);
    for (unsigned i = 0; i < count; i++) {
        unsigned sample = seed ? 1 + (unsigned)random() % calls[i].count : nth;
        if (!is_wanted(function, calls[i].function))
            continue;
        for (unsigned n = 1; n <= calls[i].count; n++)
            if (sample == 0 || n == sample)
                start_job(&jobs, calls[i].function, n);
    }
    while (jobs.running > 0)
        await_job(&jobs);
    printf("%u cases, %u failed\n", jobs.cases, jobs.failed);
    return jobs.failed > 0 || jobs.cases == 0;
}

#include "config.h"

#include "remote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "device.h"
#include "fdio.h"
#include "log.h"
#include "signals.h"
#include "units.h"
#include "words.h"

#define END_NS (2 * CLOCK_NS_PER_S)  /* for a server whose standard input has ended */
#define KILL_NS (1 * CLOCK_NS_PER_S) /* for a command that was sent a signal */
#define LINE_BYTES 2048              /* of a message; what is longer becomes several */
#define LAST_READS 32 /* of the messages of a command that has ended: a pipe's worth */
#define STACK_BYTES ((size_t)256 << 10)
#define MOST_WORDS 12 /* of the server's command line */

/* ---- where it is ----------------------------------------------------------------------------- */

static int bad_place(struct error *err, const char *text, const char *problem)
{
    error_set(err, ERROR_USAGE, STAGE_OPEN, text, "%s", problem);
    return error_hint(err,
                      "with -e, a destination is [USER@]HOST/PATH in the directory of the login, "
                      "or [USER@]HOST//PATH from the root");
}

static bool is_fit_for_command(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f)
            return false;
    return len > 0 && text[0] != '-';
}

static int take_host(const char *text, struct remote_place *place, const struct address *address,
                     struct error *err)
{
    if (address->has_port) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, text, "with -e, a destination has no port");
        return error_hint(err,
                          "that of ssh is part of the command, -e 'ssh -p N'; the one for RDMA "
                          "is --port N");
    }
    if (!is_fit_for_command(address->host, strlen(address->host)))
        return bad_place(err, text, "no host name begins with '-'");
    strcpy(place->host, address->host);
    return 0;
}

int remote_parse(const char *text, struct remote_place *place, struct error *err)
{
    char problem[256], hint[320], authority[sizeof place->login];
    const char *slash = strchrnul(text, '/');
    const char *at = memrchr(text, '@', (size_t)(slash - text));
    const char *host = at ? at + 1 : text;
    struct address address;
    size_t len = strlen(text);
    *place = (struct remote_place){.directory = len > 0 && text[len - 1] == '/'};
    place->path = *slash == '\0' ? "." : slash[1] == '\0' ? "./" : slash + 1;
    if (at && !is_fit_for_command(text, (size_t)(at - text)))
        return bad_place(err, text, "that is no user");
    if ((size_t)(slash - text) >= sizeof authority - 1)
        return bad_place(err, text, "HOST is too long");
    snprintf(authority, sizeof authority, "%.*s", (int)(slash - host), host);
    switch (address_parse(authority, &address, problem, sizeof problem, hint, sizeof hint)) {
    case ADDRESS_OK:
        break;
    case ADDRESS_MEMORY:
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, text, ENOMEM,
                               "cannot take in the destination");
    default:
        return bad_place(err, text, problem);
    }
    int rc = take_host(text, place, &address, err);
    if (rc == 0)
        snprintf(place->login, sizeof place->login, "%.*s%s", (int)(host - text), text,
                 place->host);
    address_free(&address);
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

struct command {
    char *argv[256];
    size_t count, fixed; /* words, and how many of them are not owned */
};

static void free_command(struct command *command)
{
    for (size_t i = command->fixed; i < command->count; i++)
        free(command->argv[i]);
}

static int out_of_memory(struct error *err)
{
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                           "cannot make the command");
}

/* What the far end's shell will parse. */
static int add_quoted(struct command *command, const char *word, struct error *err)
{
    char *quoted = words_quote(word);
    if (!quoted)
        return out_of_memory(err);
    command->argv[command->count++] = quoted;
    return 0;
}

static const char *level_option(void)
{
    switch (log_level()) {
    case LOG_QUIET:
        return "-q";
    case LOG_VERBOSE:
        return "-v";
    case LOG_TRACE:
        return "--trace";
    default:
        return NULL;
    }
}

/* A path that begins with '-' is neither an option nor the server's standard output. */
static int add_path(struct command *command, const char *path, struct error *err)
{
    char *named;
    if (asprintf(&named, "%s%s", path[0] == '-' ? "./" : "", path) < 0)
        return out_of_memory(err);
    int rc = add_quoted(command, named, err);
    free(named);
    return rc;
}

static int make_command(const struct remote_job *job, struct command *command, struct error *err)
{
    char timeout[32], port[8];
    const char *level = level_option();
    while (job->command[command->fixed]) {
        if (command->fixed >= sizeof command->argv / sizeof command->argv[0] - MOST_WORDS - 2)
            return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL, "-e: a command of too many words");
        command->argv[command->fixed] = job->command[command->fixed];
        command->fixed++;
    }
    command->argv[command->fixed++] = (char *)job->place->login;
    command->count = command->fixed;
    snprintf(timeout, sizeof timeout, "%" PRIu64 "ms", job->timeout / (uint64_t)CLOCK_NS_PER_MS);
    snprintf(port, sizeof port, "%u", job->port);
    const char *words[MOST_WORDS] = {job->program, "serve", "--control", "--timeout", timeout};
    size_t count = 5;
    if (job->port) {
        words[count++] = "--port";
        words[count++] = port;
    }
    if (level)
        words[count++] = level;
    for (size_t i = 0; i < count; i++)
        if (add_quoted(command, words[i], err) < 0)
            return -1;
    return add_path(command, job->place->path, err);
}

struct pipes {
    int input[2], output[2], messages[2], failure[2];
};

static void close_pair(int pair[2])
{
    fdio_close(&pair[0]);
    fdio_close(&pair[1]);
}

static void close_pipes(struct pipes *pipes)
{
    close_pair(pipes->input);
    close_pair(pipes->output);
    close_pair(pipes->messages);
    close_pair(pipes->failure);
}

static int make_pipes(struct pipes *pipes)
{
    memset(pipes, -1, sizeof *pipes);
    return pipe2(pipes->input, O_CLOEXEC) == 0 && pipe2(pipes->output, O_CLOEXEC) == 0 &&
                   pipe2(pipes->messages, O_CLOEXEC) == 0 && pipe2(pipes->failure, O_CLOEXEC) == 0
               ? 0
               : -1;
}

/* In the child. It stays in this process group, so that it may ask for a password on the terminal. */
static void become(const struct command *command, const struct pipes *pipes, pid_t parent)
    __attribute__((noreturn));
static void become(const struct command *command, const struct pipes *pipes, pid_t parent)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EX_TEMPFAIL);
    if (dup2(pipes->input[0], STDIN_FILENO) >= 0 && dup2(pipes->output[1], STDOUT_FILENO) >= 0 &&
        dup2(pipes->messages[1], STDERR_FILENO) >= 0)
        execvp(command->argv[0], command->argv);
    int errnum = errno;
    ssize_t ignored = write(pipes->failure[1], &errnum, sizeof errnum);
    (void)ignored;
    _exit(EX_UNAVAILABLE);
}

static int cannot_run(const char *name, int errnum, struct error *err)
{
    error_set_errno(err, ERROR_UNAVAILABLE, STAGE_CONNECT, name, errnum, "cannot run this command");
    return error_hint(err, "-e takes the command that reaches HOST, such as ssh");
}

static int cannot_read(const char *name, int errnum, struct error *err)
{
    return error_set_errno(err, ERROR_STORAGE, STAGE_CONNECT, name, errnum,
                           "cannot read from this command");
}

/* 0 when it runs. */
static int await_exec(struct remote *remote, struct pipes *pipes, const char *name,
                      struct error *err)
{
    int errnum;
    ssize_t n;
    fdio_close(&pipes->failure[1]);
    while ((n = read(pipes->failure[0], &errnum, sizeof errnum)) < 0 && errno == EINTR)
        continue;
    if (n == 0)
        return 0;
    if (n < 0)
        return cannot_read(name, errno, err);
    waitpid(remote->pid, NULL, 0);
    remote->pid = 0;
    return cannot_run(name, errnum, err);
}

static int run(struct remote *remote, const struct command *command, struct error *err)
{
    struct pipes pipes;
    pid_t parent = getpid();
    int rc = make_pipes(&pipes);
    if (rc == 0) {
        remote->pid = fork();
        if (remote->pid == 0)
            become(command, &pipes, parent);
        if (remote->pid < 0)
            remote->pid = rc = -1;
    }
    if (rc < 0) {
        remote->pid = 0;
        error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, command->argv[0], errno,
                        "cannot run this command");
    } else {
        rc = await_exec(remote, &pipes, command->argv[0], err);
    }
    if (rc == 0) {
        remote->input_fd = pipes.input[1];
        remote->output_fd = pipes.output[0];
        remote->messages_fd = pipes.messages[0];
        pipes.input[1] = pipes.output[0] = pipes.messages[0] = -1;
        fcntl(remote->output_fd, F_SETFL, O_NONBLOCK);
        fcntl(remote->messages_fd, F_SETFL, O_NONBLOCK);
    }
    close_pipes(&pipes);
    return rc;
}

/* ---- its messages, and its end, on threads --------------------------------------------------- */

struct lines {
    struct remote *remote;
    const char *host;
    char text[LINE_BYTES];
    size_t len;
};

/* Those of the program itself, as log.c prints them. */
static void keep_words(struct remote *remote, const char *line)
{
    static const char message[] = "rdmaput: ", hint[] = "rdmaput: hint: ";
    if (strncmp(line, hint, sizeof hint - 1) == 0) {
        snprintf(remote->hinted, sizeof remote->hinted, "%s", line + sizeof hint - 1);
    } else if (strncmp(line, message, sizeof message - 1) == 0) {
        snprintf(remote->said, sizeof remote->said, "%s", line + sizeof message - 1);
        remote->hinted[0] = '\0';
    }
}

static void end_line(struct lines *lines)
{
    if (lines->len > 0 && lines->text[lines->len - 1] == '\r')
        lines->len--;
    lines->text[lines->len] = '\0';
    if (lines->len > 0)
        log_relayed(lines->host, lines->text);
    keep_words(lines->remote, lines->text);
    lines->len = 0;
}

/* Of what is there. false at the end. */
static bool relay_some(struct lines *lines, int fd)
{
    char some[LINE_BYTES];
    ssize_t n = read(fd, some, sizeof some);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    for (ssize_t i = 0; i < n; i++) {
        if (some[i] == '\n' || lines->len == LINE_BYTES - 1)
            end_line(lines);
        if (some[i] != '\n')
            lines->text[lines->len++] = some[i] ? some[i] : '?';
    }
    return true;
}

static void *relay_main(void *argument)
{
    struct remote *remote = argument;
    struct lines lines = {.remote = remote, .host = remote->job->place->host};
    struct pollfd fds[] = {{.fd = remote->messages_fd, .events = POLLIN},
                           {.fd = remote->stop_fd, .events = POLLIN}};
    bool more = true;
    while (more && !fds[1].revents) {
        poll(fds, 2, -1);
        if (fds[0].revents)
            more = relay_some(&lines, remote->messages_fd);
    }
    for (int i = 0; more && i < LAST_READS && poll(fds, 1, 0) > 0; i++)
        more = relay_some(&lines, remote->messages_fd);
    end_line(&lines);
    return NULL;
}

/* It is not reaped here: its process id stays its own until then. */
static void *wait_main(void *argument)
{
    struct remote *remote = argument;
    siginfo_t ignored;
    while (waitid(P_PID, (id_t)remote->pid, &ignored, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    eventfd_write(remote->ended_fd, 1);
    return NULL;
}

static int start_thread(pthread_t *thread, void *(*function)(void *), struct remote *remote,
                        struct error *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc = pthread_attr_init(&attr);
    if (rc == 0) {
        pthread_attr_setstacksize(&attr, STACK_BYTES);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &old);
        rc = pthread_create(thread, &attr, function, remote);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attr);
    }
    return rc == 0 ? 0
                   : error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, NULL, rc,
                                     "cannot attend to the command");
}

static int attend(struct remote *remote, struct error *err)
{
    remote->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    remote->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (remote->ended_fd < 0 || remote->stop_fd < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, NULL, errno,
                               "cannot make an eventfd");
    remote->waits = start_thread(&remote->waiter, wait_main, remote, err) == 0;
    remote->relays = remote->waits && start_thread(&remote->relay, relay_main, remote, err) == 0;
    return remote->relays ? 0 : -1;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Whether it has ended by then; a signal that comes meanwhile ends the wait. */
static bool ends(const struct remote *remote, int64_t deadline)
{
    struct pollfd fd = {.fd = remote->ended_fd, .events = POLLIN};
    int signals = signals_count(), ready;
    do
        ready = poll(&fd, 1, clock_poll_ms(deadline));
    while (ready < 0 && errno == EINTR && signals_count() == signals);
    return ready > 0;
}

static bool is_killed(const struct remote *remote)
{
    kill(remote->pid, SIGTERM);
    if (ends(remote, clock_after(KILL_NS)))
        return true;
    kill(remote->pid, SIGKILL);
    return ends(remote, clock_after(KILL_NS));
}

/* Ends it within ns, and then some. *status is as waitpid(2) tells it, -1 when it was killed for that or
 * does not end at all. */
static void stop(struct remote *remote, uint64_t ns, int *status)
{
    *status = -1;
    fdio_close(&remote->input_fd);
    bool by_itself = remote->waits && ends(remote, clock_after(ns));
    if (!remote->waits)
        kill(remote->pid, SIGKILL);
    if (!remote->waits || by_itself || is_killed(remote)) {
        if (remote->waits)
            pthread_join(remote->waiter, NULL);
        int got;
        while (waitpid(remote->pid, &got, 0) < 0 && errno == EINTR)
            continue;
        if (by_itself)
            *status = got;
        remote->waits = false;
    }
    if (remote->relays) {
        eventfd_write(remote->stop_fd, 1);
        pthread_join(remote->relay, NULL);
    }
    fdio_close(&remote->output_fd);
    fdio_close(&remote->messages_fd);
    fdio_close(&remote->stop_fd);
    if (!remote->waits)
        fdio_close(&remote->ended_fd);
    secret_forget(&remote->secret);
    for (unsigned i = 0; i < remote->places.count; i++)
        address_free(&remote->places.addresses[i]);
    remote->places.count = 0;
    remote->pid = 0;
}

/* What an exit status says that the server may have ended with; ERROR_NONE: it is none of those. */
static enum error_class class_of(int status)
{
    if (!WIFEXITED(status))
        return ERROR_NONE;
    enum error_class class = error_class_of_status((unsigned)WEXITSTATUS(status));
    bool known = class != ERROR_PROTOCOL || WEXITSTATUS(status) == EX_PROTOCOL;
    return known ? class : ERROR_NONE;
}

/* Why there is no server, by what the command ended with. */
static int explain(const struct remote *remote, int status, struct error *err)
{
    const struct remote_job *job = remote->job;
    const char *host = job->place->host, *name = job->command[0];
    enum error_class class = class_of(status);
    if (WIFSIGNALED(status))
        return error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, host,
                         "'%s' was killed by signal %d before a server was there", name,
                         WTERMSIG(status));
    switch (WEXITSTATUS(status)) {
    case 126:
    case 127:
        error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, host,
                  "the program '%s' cannot be run there", job->program);
        return error_hint(err, "install rdmaput there, or say where it is: --remote-program PATH");
    case 255:
        error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, host,
                  "'%s' ended with status 255: no login there, or the connection broke", name);
        return error_hint(err, "try '%s %s true'", name, job->place->login);
    case EX_USAGE:
        error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, host,
                  "the program '%s' there does not know how to serve this one", job->program);
        return error_hint(err, "install the same version of rdmaput at both ends");
    default:
        break;
    }
    if (class != ERROR_NONE)
        return error_set(err, class, STAGE_CONNECT, host, "the server there ended with status %d",
                         WEXITSTATUS(status));
    error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, host,
              "'%s' ended with status %d, and no server was there", name, WEXITSTATUS(status));
    return error_hint(err, "try '%s %s true'", name, job->place->login);
}

/* The objects are committed, whatever becomes of it now. */
static void note_end(const struct remote *remote, int status)
{
    const char *host = remote->job->place->host;
    if (status == -1)
        log_note("%s: all is committed, but the server there did not end, and was left", host);
    else if (WIFSIGNALED(status))
        log_note("%s: all is committed, but '%s' was killed by signal %d", host,
                 remote->job->command[0], WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        log_note("%s: all is committed, but '%s' ended with status %d", host,
                 remote->job->command[0], WEXITSTATUS(status));
}

void remote_end(struct remote *remote, struct error *err)
{
    int status;
    if (remote->pid == 0)
        return;
    if (!error_is_set(err))
        ends(remote, clock_after(remote->job->timeout));
    stop(remote, END_NS, &status);
    if (!error_is_set(err))
        note_end(remote, status);
    if ((err->class != ERROR_TEMPORARY && err->class != ERROR_UNAVAILABLE) || status == -1)
        return;
    enum error_class class = class_of(status);
    if (class != ERROR_NONE && class != ERROR_TEMPORARY && class != err->class) {
        err->class = class;
        error_append(err, "; the server ended with status %d", WEXITSTATUS(status));
    } else if (WIFSIGNALED(status)) {
        error_append(err, "; '%s' was killed by signal %d", remote->job->command[0],
                     WTERMSIG(status));
    } else if (class == ERROR_NONE && WEXITSTATUS(status) != 0) {
        error_append(err, "; '%s' ended with status %d", remote->job->command[0],
                     WEXITSTATUS(status));
    }
}

/* ---- the start ------------------------------------------------------------------------------- */

static int ask(const struct remote *remote, struct error *err)
{
    char request[CONTROL_REQUEST_BYTES];
    size_t len = control_request(&remote->secret, request);
    int rc = fdio_write(remote->input_fd, request, len), errnum = errno;
    explicit_bzero(request, sizeof request);
    /* Whoever does not read it ends, which says more; and a signal is seen where an answer is awaited. */
    if (rc == 0 || errnum == EPIPE || errnum == EINTR)
        return 0;
    return error_set_errno(err, ERROR_STORAGE, STAGE_CONNECT, remote->job->place->host, errnum,
                           "cannot write to '%s'", remote->job->command[0]);
}

static int foreign(const struct remote *remote, char *text, struct error *err)
{
    const struct remote_job *job = remote->job;
    text[strcspn(text, "\n")] = '\0';
    error_mask(text);
    error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, job->place->host,
              "something else than the server has printed there: '%.80s'", text);
    return error_hint(err,
                      "what the shell there does at its start must print nothing: see '%s %s true'",
                      job->command[0], job->place->login);
}

static int other_version(const struct remote *remote, unsigned version, struct error *err)
{
    if (version > 0)
        return client_other_version(remote->job->place->host, version, err);
    error_set(err, ERROR_PROTOCOL, STAGE_CONNECT, remote->job->place->host,
              "the rdmaput there is of another version");
    return error_hint(err, "install the same version of rdmaput at both ends");
}

/* 1: more is due. */
static int understand(struct remote *remote, char *text, size_t len, struct error *err)
{
    struct control_answer answer;
    switch (control_understand(text, len, &answer)) {
    case CONTROL_OK:
        remote->directory = answer.directory;
        return client_parse_places(remote->job->place->host, answer.addresses, &remote->places,
                                   err);
    case CONTROL_PARTIAL:
        if (len < CONTROL_MAX_ANSWER)
            return 1;
        return foreign(remote, text, err);
    case CONTROL_OTHER_VERSION:
        return other_version(remote, answer.version, err);
    default:
        text[len] = '\0';
        return foreign(remote, text, err);
    }
}

static int too_late(const struct remote *remote, struct error *err)
{
    char time[UNITS_TEXT];
    error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, remote->job->place->host,
              "'%s' brought no server there within %s", remote->job->command[0],
              units_format_time(remote->job->timeout, time));
    return error_hint(err, "--timeout covers the login, too, with what has to be typed for it");
}

/* 0 when there is output, or none is to come any more. */
static int await_output(const struct remote *remote, int64_t deadline, struct error *err)
{
    struct pollfd fds[] = {{.fd = remote->output_fd, .events = POLLIN},
                           {.fd = remote->ended_fd, .events = POLLIN},
                           {.fd = signals_fd(), .events = POLLIN}};
    int ready;
    do
        ready = poll(fds, 3, clock_poll_ms(deadline));
    while (ready < 0 && errno == EINTR && signals_count() == 0);
    if (signals_count() > 0)
        return error_set(err, ERROR_INTERRUPTED, STAGE_CONNECT, NULL, "interrupted by a signal");
    return ready == 0 ? too_late(remote, err) : 0;
}

/* 1: the command has ended, or is about to, and has not said it. */
static int await_answer(struct remote *remote, char *text, int64_t deadline, struct error *err)
{
    size_t len = 0;
    for (;;) {
        if (await_output(remote, deadline, err) < 0)
            return -1;
        ssize_t n = read(remote->output_fd, text + len, CONTROL_MAX_ANSWER - len);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return cannot_read(remote->job->command[0], errno, err);
        if (n == 0 || (n < 0 && errno == EAGAIN && ends(remote, 0)))
            return 1;
        if (n < 0)
            continue;
        len += (size_t)n;
        int rc = understand(remote, text, len, err);
        if (rc <= 0)
            return rc;
    }
}

/* Why a command ended that has closed its output; it has the rest of the time to end. */
static int await_reason(struct remote *remote, int64_t deadline, struct error *err)
{
    int status;
    if (!ends(remote, deadline)) {
        stop(remote, 0, &status);
        if (signals_count() > 0)
            return error_set(err, ERROR_INTERRUPTED, STAGE_CONNECT, NULL,
                             "interrupted by a signal");
        return error_set(err, ERROR_TEMPORARY, STAGE_CONNECT, remote->job->place->host,
                         "'%s' said nothing more, and did not end", remote->job->command[0]);
    }
    stop(remote, 0, &status);
    return explain(remote, status, err);
}

static int get_answer(struct remote *remote, struct error *err)
{
    int64_t deadline = clock_after(remote->job->timeout);
    char *text = malloc(CONTROL_MAX_ANSWER + 1);
    if (!text)
        return out_of_memory(err);
    int rc = ask(remote, err);
    if (rc == 0)
        rc = await_answer(remote, text, deadline, err);
    free(text);
    return rc == 1 ? await_reason(remote, deadline, err) : rc;
}

int remote_start(struct remote *remote, const struct remote_job *job, struct error *err)
{
    struct command command = {.count = 0};
    int ignored;
    *remote = (struct remote){.job = job,
                              .input_fd = -1,
                              .output_fd = -1,
                              .messages_fd = -1,
                              .ended_fd = -1,
                              .stop_fd = -1};
    int rc = device_check_any(err) == 0 && secret_make(&remote->secret, err) == 0
                 ? make_command(job, &command, err)
                 : -1;
    if (rc == 0)
        rc = run(remote, &command, err);
    free_command(&command);
    if (rc == 0 && (rc = attend(remote, err)) == 0)
        rc = get_answer(remote, err);
    if (rc < 0 && remote->pid > 0)
        stop(remote, 0, &ignored);
    if (rc < 0)
        secret_forget(&remote->secret);
    return rc;
}

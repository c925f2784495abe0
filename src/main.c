/*
 * main.c - finds the command, runs it, prints its error and ends with its status.
 */
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd-devices.h"
#include "cmd-post.h"
#include "cmd-serve.h"
#include "cmd-write.h"
#include "error.h"
#include "finish.h"
#include "guard.h"
#include "log.h"
#include "output.h"
#include "signals.h"

const char *argp_program_version = PACKAGE_STRING;

static char program_name[] = "rdmaput";

static struct command {
    const char *name;
    char full_name[24]; /* argv[0] of the command: argp's messages begin with it */
    int (*run)(int argc, char **argv, struct error *err);
} commands[] = {
    {"serve", "rdmaput serve", cmd_serve},
    {"write", "rdmaput write", cmd_write},
    {"post", "rdmaput post", cmd_post},
    {"devices", "rdmaput devices", cmd_devices},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)key, (void)arg, (void)state;
    /* The first argument is a command, which parses what follows by itself. */
    return ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "Write segments of files to another host over RDMA.\v"
           "Commands:\n"
           "  serve    take what clients write: into files, a pipe, memory, or nowhere\n"
           "  write    write segments of files to a server, verified and whole\n"
           "  post     write segments of files into exposed memory, one-sided\n"
           "  devices  list the RDMA devices of this host\n"
           "\n"
           "'rdmaput COMMAND --help' says more.",
};

/* Output that could not be written is a failure, also of --help and --version. */
static void close_standard_output(void)
{
    struct error err = {.class = ERROR_NONE};
    if (output_close(&err) == 0)
        return;
    log_error(&err);
    _exit(error_exit_status(err.class));
}

static struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* A closed standard stream must not become a file of ours. What takes its place fails as a closed
 * one does: it can be written where it is to be read, and the other way round. */
static void open_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    struct error err = {.class = ERROR_NONE};
    int at = 1;
    open_standard_streams();
    argp_err_exit_status = EX_USAGE;
    argv[0] = program_name;
    atexit(close_standard_output);
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &at, NULL);
    if (at >= argc) {
        argp_help(&argp, stderr, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK & ~ARGP_HELP_EXIT_ERR,
                  argv[0]);
        return EX_USAGE;
    }
    struct command *command = find_command(argv[at]);
    if (!command) {
        error_set(&err, ERROR_USAGE, STAGE_NONE, NULL, "'%s' is no command", argv[at]);
        error_hint(&err, "serve, write, post or devices; see 'rdmaput --help'");
        return finish_status(&err);
    }
    if (signals_init() < 0 || guard_init() < 0) {
        error_set_errno(&err, ERROR_RESOURCE, STAGE_NONE, NULL, errno, "cannot handle signals");
        return finish_status(&err);
    }
    argv[at] = command->full_name;
    command->run(argc - at, argv + at, &err);
    return finish_status(&err);
}

/*
 * main.c - finds the command, runs it, prints its error and ends with its status.
 */
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cmd-check.h"
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
#include "spelling.h"
#include "suggest.h"

const char *argp_program_version = PACKAGE_STRING;

static char program_name[] = "rdmaput";

static struct command {
    const char *name;
    char full_name[24]; /* argv[0] of the command: argp's messages begin with it */
    int (*run)(int argc, char **argv, struct error *err);
    const char *arguments, *summary;
} commands[] = {
    {"serve", "rdmaput serve", cmd_serve, "[SINK]",
     "take what clients write: into files, a pipe, memory, or nowhere"},
    {"write", "rdmaput write", cmd_write, "SEGMENT... DEST",
     "write segments of files to a server, verified and whole"},
    {"post", "rdmaput post", cmd_post, "SEGMENT... TICKET",
     "write segments of files into exposed memory, one-sided"},
    {"check", "rdmaput check", cmd_check, "[HOST[:PORT]]",
     "find out whether RDMA works, here and from here to there"},
    {"devices", "rdmaput devices", cmd_devices, "", "list the RDMA devices of this host"},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static error_t parse(int key, char *arg, struct argp_state *state)
{
    (void)key, (void)arg, (void)state;
    /* The first argument is a command, which parses what follows by itself. */
    return ARGP_ERR_UNKNOWN;
}

static char *list_commands(void)
{
    char *text = NULL;
    size_t size;
    FILE *list = open_memstream(&text, &size);
    if (!list)
        return NULL;
    fputs("Commands:\n", list);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(list, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'rdmaput COMMAND --help' says more.\n"
          "\n"
          "Examples:\n"
          "  rdmaput serve --once copy.img\n"
          "  rdmaput write disk.img 10.0.0.2\n"
          "  rdmaput write --help",
          list);
    fclose(list);
    return text;
}

static char *filter_help(int key, const char *text, void *input)
{
    (void)input;
    return key == ARGP_KEY_HELP_EXTRA ? list_commands() : (char *)(uintptr_t)text;
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "COMMAND [ARGUMENT...]",
    .doc = "Write segments of files to another host over RDMA.",
    .help_filter = filter_help,
};

/* What it is, for those who have only its name. */
static void introduce(void)
{
    fputs("rdmaput writes segments of files to another host over RDMA.\n\n", stderr);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stderr, "  rdmaput %-7s %-18s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
    fputs("\n"
          "Where a file is to go:          rdmaput serve --once copy.img\n"
          "Where it is, to HOST over RDMA: rdmaput write disk.img HOST\n"
          "'rdmaput COMMAND --help' and rdmaput(1) say more.\n",
          stderr);
}

/* Output that could not be written is a failure, also of --help and --version. */
static void close_standard_output(void)
{
    struct error err = {.class = ERROR_NONE};
    if (output_close(&err) == 0)
        return;
    log_error(&err);
    _exit(error_exit_status(err.class));
}

static struct command *find_command(const char *name, struct error *err)
{
    struct suggestion suggestion = {.word = NULL};
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
        suggestion_weigh(&suggestion, name, commands[i].name);
    }
    error_set(err, ERROR_USAGE, STAGE_NONE, NULL, "'%s' is no command", name);
    if (suggestion.word)
        error_hint(err, "did you mean '%s'? 'rdmaput --help' lists them all", suggestion.word);
    error_hint(err, "see 'rdmaput --help'");
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

/* What people type who have read nothing yet: 'help', 'help COMMAND', '-h', 'COMMAND -h'. */
static void take_for_help(int argc, char **argv)
{
    static char option[] = "--help";
    bool asks = argc > 1 && strcmp(argv[1], "help") == 0;
    if (asks && argc == 3) {
        argv[1] = argv[2];
        argv[2] = option;
    } else if ((asks && argc == 2) ||
               (argc > 1 && argc <= 3 && strcmp(argv[argc - 1], "-h") == 0)) {
        argv[argc - 1] = option;
    }
}

int main(int argc, char **argv)
{
    struct error err = {.class = ERROR_NONE};
    int at = 1;
    open_standard_streams();
    argp_err_exit_status = EX_USAGE;
    argv[0] = program_name;
    atexit(close_standard_output);
    take_for_help(argc, argv);
    if (spelling_check(&argp, ARGP_IN_ORDER, argc, argv, &err) < 0)
        return finish_status(&err);
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &at, NULL);
    if (at >= argc) {
        introduce();
        return EX_USAGE;
    }
    struct command *command = find_command(argv[at], &err);
    if (!command)
        return finish_status(&err);
    /* Told once the command knows whether a document is wanted. */
    if (signals_init() < 0 || guard_init() < 0)
        error_set_errno(&err, ERROR_RESOURCE, STAGE_NONE, NULL, errno, "cannot handle signals");
    argv[at] = command->full_name;
    command->run(argc - at, argv + at, &err);
    return finish_status(&err);
}

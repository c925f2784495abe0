/*
 * remote.h - a server at the far end that `rdmaput write -e COMMAND` starts by that command, for itself
 * alone, and that ends with it: COMMAND HOST rdmaput serve --control ... PATH (control.h).
 */
#ifndef RDMAPUT_REMOTE_H
#define RDMAPUT_REMOTE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client.h"
#include "error.h"
#include "secret.h"

/* [USER@]HOST[/PATH], IPv6 in brackets: where it is to be started, and what it is to serve. */
struct remote_place {
    char login[512]; /* USER@HOST or HOST, without brackets, as ssh(1) takes it */
    char host[256];
    const char *path; /* within the text: behind the first '/'; "." where there is none, "./" for an
                       * empty one */
    bool directory;   /* it ends in '/' */
};

/* -1 with *err (64) and the right spelling as hint. */
int remote_parse(const char *text, struct remote_place *place, struct error *err);

struct remote_job {
    char *const *command; /* words; NULL ends them */
    const char *program;  /* of the far end */
    const struct remote_place *place;
    uint16_t port;    /* to listen on for RDMA; 0: any free one */
    uint64_t timeout; /* ns: how long it may take until it says where it listens */
};

struct remote {
    const struct remote_job *job;
    pid_t pid;                            /* of the command; 0: none */
    int input_fd, output_fd, messages_fd; /* ends of its standard streams */
    int ended_fd;                         /* readable once the command has ended */
    int stop_fd;                          /* readable: messages are to end */
    bool waits, relays;                   /* these threads are there */
    pthread_t waiter, relay;
    struct secret secret;        /* that the server knows, too; a fresh one */
    struct client_places places; /* where it listens */
    bool directory;              /* it serves one, so that objects have names */
    char said[512], hinted[512]; /* once its messages have ended: the last one of the program there, and
                                  * the hint behind it; may be empty */
};

/*
 * Starts the command, and the server by it, and learns where it listens. Its messages are printed as they
 * come, behind the name of the host. Everything has a deadline, also what a person is asked for on the
 * terminal. A signal ends the wait. Before any memory is registered.
 *
 * 0, and remote_end is due. -1 with *err and nothing left running here: ERROR_UNAVAILABLE when the
 * command or the program cannot be run, or the command ends without a server; ERROR_TEMPORARY when it
 * takes too long or is killed; ERROR_PROTOCOL for another version, or something else than a server; or
 * what the server failed of, by its status. The job is used until remote_end.
 */
int remote_start(struct remote *remote, const struct remote_job *job, struct error *err);

/*
 * The session has come to *err. A server whose session succeeded ends by itself, and has the job's
 * timeout for that; else its standard input ends at once. A command that does not end soon after that is
 * killed. Where the session failed for want of a connection, and the server says what of by its status,
 * *err takes that class. Fine when nothing was started, and more than once.
 */
void remote_end(struct remote *remote, struct error *err);

#endif

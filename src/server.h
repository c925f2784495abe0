/*
 * server.h - accepts connections, admits or refuses them, and runs each session on a thread of its
 * own.
 */
#ifndef RDMAPUT_SERVER_H
#define RDMAPUT_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "admission.h"
#include "error.h"
#include "region.h"
#include "sink.h"

/* A server that is part of something else which a process is at. It ends when stop_fd becomes readable,
 * with what is left of its sessions, and makes no documents. */
struct server_inside {
    int stop_fd;
    void (*listening)(void *context, uint16_t port); /* called once */
    void *context;
};

struct server_job {
    const struct sockaddr *bind; /* NULL: all addresses */
    uint16_t port;               /* 0: any free one */
    uint64_t timeout;            /* ns */
    uint64_t wait;               /* ns: how long to wait for the first transfer; 0: for ever */
    bool no_check;               /* check sessions are refused */
    bool once;                   /* exit after one admitted transfer, with its status */
    struct admission admission;
    unsigned max_sessions; /* at once; 0: as many as work without ado */
    uint64_t
        max_memory;    /* bytes that all sessions together may pin; 0: the limit of locked memory */
    struct sink *sink; /* not owned */
    struct region *region;         /* not owned; NULL: the sink is no region */
    const uint16_t *exchange_port; /* NULL: none; 0: any free one */
    bool control; /* announced on standard output, and not to outlive standard input (control.h) */
    const char *ready_file; /* NULL: none */
    const char *ticket;     /* where the ticket goes, "-": standard output; NULL: none */
    /* As sender_job's (sender.h), where storage does not answer to a session that has ended. */
    void (*leave)(const struct error *err) __attribute__((noreturn));
    const struct server_inside *inside; /* NULL: the process is this server's */
};

/*
<<<<<<< HEAD
 * Serves until a signal comes, or as once and wait say. 0 when it was drained by a signal or its
 * one transfer succeeded. -1 with *err otherwise: why it cannot serve, how its one transfer
 * failed, that none began, or (ERROR_INTERRUPTED) that a second signal came. Errors of
=======
 * Serves until a signal comes, or as once, wait and control say. 0 when it was drained by a signal, its
 * one transfer succeeded, or standard input ended with none under way. -1 with *err otherwise: why it
 * cannot serve, how its one transfer failed, that no client came, or (ERROR_INTERRUPTED) that a second signal came. Errors of
>>>>>>> c441622 (write -e COMMAND: the server is started at the far end, for one transfer)
 * sessions are printed as they occur, and so is the document of each (document.h); *told: *err is one
 * that a session's document has.
 */
int server_run(const struct server_job *job, bool *told, struct error *err);

/* The least max_memory that works, in bytes. */
uint64_t server_least_memory(void);

#define SERVER_MAX_SESSIONS 4096

#endif

/*
 * unchecked-client - writes a file to a server under any name, without the checks of `rdmaput write`
 *
 * usage: unchecked-client HOST:PORT NAME FILE [TOKEN]
 *
 * NAME goes to the server as it is given. With TOKEN, of 16 characters, it comes as after an exchange
 * over TCP, which it never had. Messages and exit status are those of `rdmaput write`.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "address.h"
#include "clock.h"
#include "error.h"
#include "log.h"
#include "options.h"
#include "plan.h"
#include "sender.h"
#include "signals.h"
#include "source.h"

#define TIMEOUT_NS (30 * (uint64_t)CLOCK_NS_PER_S)

struct delivery {
    const char *name;
    struct options_segment_list list;
    struct source *source;
    struct plan *plan;
};

/* A sender_open. */
static int open_object(void *context, size_t index, struct sender_object *object, struct error *err)
{
    struct delivery *delivery = context;
    (void)index;
    *object = (struct sender_object){.name = delivery->name};
    if (options_plan(&delivery->list, PLAN_BY_DEST, PLAN_TARGET_SLOT, true, &delivery->source,
                     &delivery->plan, err) < 0)
        return -1;
    object->source = delivery->source;
    object->plan = delivery->plan;
    return 0;
}

/* A sender_close. */
static void close_object(void *context, size_t index, struct sender_object *object)
{
    struct delivery *delivery = context;
    (void)index, (void)object;
    plan_free(delivery->plan);
    source_free(delivery->source);
    delivery->plan = NULL;
    delivery->source = NULL;
}

static void note_settled(void *context, size_t index, const struct error *cause)
{
    (void)context, (void)index, (void)cause;
}

static int deliver(char **argv, struct error *err)
{
    const struct options_segments literal = {.literal = true};
    struct delivery delivery = {.name = argv[2]};
    struct sender_result result;
    struct address address = {.port = 0};
    int rc = -1;
    if (options_parse_destination(argv[1], &address, err) == 0 &&
        options_parse_segments(&literal, argv + 3, 1, &delivery.list, err) == 0) {
        struct exchange_meeting meeting = {.fd = -1, .count = 1, .addresses = {address}};
        if (argv[4])
            memcpy(meeting.token, argv[4], WIRE_TOKEN_BYTES);
        struct sender_job job = {
            .target = {.host = address.host, .port = address.port, .timeout = TIMEOUT_NS},
            .meeting = argv[4] ? &meeting : NULL,
            .count = 1,
            .open = open_object,
            .close = close_object,
            .settled = note_settled,
            .context = &delivery,
        };
        rc = sender_run(&job, &result, err);
    }
    options_free_segments(&delivery.list);
    address_free(&address);
    return rc;
}

int main(int argc, char **argv)
{
    struct error err = {.class = ERROR_NONE};
    if (argc < 4 || argc > 5 || (argc == 5 && strlen(argv[4]) != WIRE_TOKEN_BYTES)) {
        fputs("usage: unchecked-client HOST:PORT NAME FILE [TOKEN]\n", stderr);
        return EX_USAGE;
    }
    if (signals_init() < 0) {
        perror("unchecked-client: cannot handle signals");
        return EX_OSERR;
    }
    if (deliver(argv, &err) == 0)
        return EXIT_SUCCESS;
    log_error(&err);
    return error_exit_status(err.class);
}

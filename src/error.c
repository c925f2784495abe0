/*
 * error.c - filling errors, and the one table from error class to exit status.
 */
#include "config.h"

#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "utf8.h"

static const int exit_status[] = {
    [ERROR_NONE] = EX_OK,
    [ERROR_CHECK] = EXIT_FAILURE,
    [ERROR_USAGE] = EX_USAGE,
    [ERROR_DATA] = EX_DATAERR,
    [ERROR_SOURCE] = EX_NOINPUT,
    [ERROR_UNAVAILABLE] = EX_UNAVAILABLE,
    [ERROR_BUG] = EX_SOFTWARE,
    [ERROR_RESOURCE] = EX_OSERR,
    [ERROR_CANNOT_CREATE] = EX_CANTCREAT,
    [ERROR_STORAGE] = EX_IOERR,
    [ERROR_TEMPORARY] = EX_TEMPFAIL,
    [ERROR_PROTOCOL] = EX_PROTOCOL,
    [ERROR_INTERRUPTED] = EX_SOFTWARE,
};

static const char *const class_names[] = {
    [ERROR_NONE] = "none",
    [ERROR_CHECK] = "check",
    [ERROR_USAGE] = "usage",
    [ERROR_DATA] = "data",
    [ERROR_SOURCE] = "source",
    [ERROR_UNAVAILABLE] = "unavailable",
    [ERROR_BUG] = "bug",
    [ERROR_RESOURCE] = "resource",
    [ERROR_CANNOT_CREATE] = "cannot-create",
    [ERROR_STORAGE] = "storage",
    [ERROR_TEMPORARY] = "temporary",
    [ERROR_PROTOCOL] = "protocol",
    [ERROR_INTERRUPTED] = "interrupted",
};

static const char *const stage_names[] = {
    [STAGE_NONE] = "",
    [STAGE_OPEN] = "open",
    [STAGE_RESOLVE_ADDRESS] = "resolve address",
    [STAGE_RESOLVE_ROUTE] = "resolve route",
    [STAGE_LISTEN] = "listen",
    [STAGE_CONNECT] = "connect",
    [STAGE_REGISTER] = "register",
    [STAGE_POST] = "post",
    [STAGE_COMPLETION] = "completion",
    [STAGE_TRANSFER] = "transfer",
    [STAGE_COMMIT] = "commit",
};

static void start(struct error *err, enum error_class class, enum error_stage stage,
                  const char *subject)
{
    error_clear(err);
    err->class = class != ERROR_NONE ? class : ERROR_BUG;
    err->stage = stage;
    snprintf(err->subject, sizeof(err->subject), "%s", subject ? subject : "");
}

int error_set(struct error *err, enum error_class class, enum error_stage stage,
              const char *subject, const char *fmt, ...)
{
    va_list args;

    if (error_is_set(err))
        return -1;
    start(err, class, stage, subject);
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return -1;
}

int error_set_errno(struct error *err, enum error_class class, enum error_stage stage,
                    const char *subject, int errnum, const char *fmt, ...)
{
    char reason[160];
    va_list args;
    size_t room, used;

    if (error_is_set(err))
        return -1;
    start(err, error_class_of_errno(errnum, class), stage, subject);
    err->errnum = abs(errnum);
    snprintf(reason, sizeof(reason), ": %s", strerror(abs(errnum)));
    /* A long text must not push the reason out. */
    room = sizeof(err->text) - strlen(reason);
    va_start(args, fmt);
    vsnprintf(err->text, room, fmt, args);
    va_end(args);
    used = strlen(err->text);
    memcpy(err->text + used, reason, strlen(reason) + 1);
    return -1;
}

int error_hint(struct error *err, const char *fmt, ...)
{
    va_list args;

    if (!error_is_set(err) || err->hint[0])
        return -1;
    va_start(args, fmt);
    vsnprintf(err->hint, sizeof(err->hint), fmt, args);
    va_end(args);
    return -1;
}

int error_status(struct error *err, const char *status)
{
    if (error_is_set(err) && !err->status)
        err->status = status;
    return -1;
}

int error_exit_status(enum error_class class)
{
    return exit_status[class];
}

enum error_class error_class_of_status(unsigned status)
{
    for (int sendable = ERROR_DATA; sendable < ERROR_INTERRUPTED; sendable++)
        if (status == (unsigned)exit_status[sendable])
            return (enum error_class)sendable;
    return ERROR_PROTOCOL;
}

enum error_class error_class_of_errno(int errnum, enum error_class otherwise)
{
    int number = abs(errnum);
    return number == EMFILE || number == ENFILE || number == ENOMEM ? ERROR_RESOURCE : otherwise;
}

const char *error_class_name(enum error_class class)
{
    return class_names[class];
}

const char *error_stage_name(enum error_stage stage)
{
    return stage_names[stage];
}

void error_mask(char *text)
{
    while (*text) {
        size_t length = utf8_length(text);

        if (length > 0 && !utf8_is_control(text, length)) {
            text += length;
            continue;
        }
        *text++ = '?';
    }
}

void error_nest(struct error *err, const char *subject)
{
    char text[sizeof err->text];
    if (err->subject[0] && strcmp(err->subject, subject) != 0) {
        int room = (int)(sizeof text - strlen(err->subject) - sizeof ": ");
        snprintf(text, sizeof text, "%s: %.*s", err->subject, room, err->text);
        memcpy(err->text, text, sizeof text);
    }
    snprintf(err->subject, sizeof err->subject, "%s", subject);
}

void error_append(struct error *err, const char *fmt, ...)
{
    size_t len = strlen(err->text);
    va_list args;
    if (!error_is_set(err))
        return;
    va_start(args, fmt);
    vsnprintf(err->text + len, sizeof err->text - len, fmt, args);
    va_end(args);
}

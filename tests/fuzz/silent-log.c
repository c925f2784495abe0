/*
 * silent-log.c - in place of log.c, for fuzz targets that say much: lines are made, and not printed.
 */
#include "config.h"

#include "log.h"

#include <stdarg.h>
#include <stdio.h>

static char line[4096];

void log_set_level(enum log_level level)
{
    (void)level;
}

enum log_level log_level(void)
{
    return LOG_TRACE;
}

void log_error(const struct error *err)
{
    snprintf(line, sizeof line, "%s: %s\n%s", err->subject, err->text, err->hint);
}

#define DEFINE_LOG(name)                              \
    void name(const char *fmt, ...)                   \
    {                                                 \
        va_list arguments;                            \
        va_start(arguments, fmt);                     \
        vsnprintf(line, sizeof line, fmt, arguments); \
        va_end(arguments);                            \
    }

DEFINE_LOG(log_note)
DEFINE_LOG(log_success)
DEFINE_LOG(log_verbose)
DEFINE_LOG(log_trace)

/*
 * log.c - lines for people, on standard error.
 */
#include "config.h"

#include "log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fdio.h"
#include "signals.h"

#define LINE_SIZE 4096 /* PIPE_BUF: a pipe takes the line whole */
#define RECHECK_MS 100
#define PREFIX "rdmaput: "
#define STATUS_SIZE 256
#define CLEAR "\r\033[K" /* ECMA-48: to the line's start, and its rest erased */

static enum log_level current_level = LOG_NORMAL;
static char status[STATUS_SIZE];
static pthread_mutex_t status_lock = PTHREAD_MUTEX_INITIALIZER;

void log_set_level(enum log_level level)
{
    current_level = level;
}

enum log_level log_level(void)
{
    return current_level;
}

static void print_args(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));
static void print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Threads of sessions hear no signals: none of them may keep a process that is to end from ending
 * because nobody reads its messages. */
static bool await_room(void)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    while (poll(&room, 1, RECHECK_MS) == 0)
        if (signals_count() > 0)
            return false;
    return true;
}

/* What stays below all lines, in a copy, since threads print, too. */
static void copy_status(char copy[STATUS_SIZE])
{
    pthread_mutex_lock(&status_lock);
    memcpy(copy, status, STATUS_SIZE);
    pthread_mutex_unlock(&status_lock);
}

static void print_args(const char *fmt, va_list args)
{
    char line[LINE_SIZE] = PREFIX, below[STATUS_SIZE], all[sizeof CLEAR + LINE_SIZE + STATUS_SIZE];
    int saved_errno = errno;
    size_t len;

    /* One byte stays free for the line end. */
    vsnprintf(line + strlen(PREFIX), sizeof(line) - strlen(PREFIX) - 1, fmt, args);
    error_mask(line);
    copy_status(below);
    len = (size_t)snprintf(all, sizeof all, "%s%s\n%s", below[0] ? CLEAR : "", line, below);
    if (await_room())
        fdio_write(STDERR_FILENO, all, len);
    errno = saved_errno;
}

void log_status(const char *text)
{
    char all[sizeof CLEAR + STATUS_SIZE];
    int len;

    pthread_mutex_lock(&status_lock);
    bool was_there = status[0] != '\0';
    snprintf(status, sizeof status, "%s", text);
    len = snprintf(all, sizeof all, "%s%s", CLEAR, status);
    pthread_mutex_unlock(&status_lock);
    if ((was_there || text[0]) && await_room())
        fdio_write(STDERR_FILENO, all, (size_t)len);
}

void log_status_lost(void)
{
    pthread_mutex_lock(&status_lock);
    status[0] = '\0';
    pthread_mutex_unlock(&status_lock);
}

static void print(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    print_args(fmt, args);
    va_end(args);
}

void log_error(const struct error *err)
{
    if (!error_is_set(err) || current_level == LOG_SILENT)
        return;
    print("%s%s%s", err->subject, err->subject[0] ? ": " : "", err->text);
    if (err->hint[0])
        print("hint: %s", err->hint);
}

void log_relayed(const char *where, const char *line)
{
    bool ours = strncmp(line, PREFIX, strlen(PREFIX)) == 0;
    print("%s: %s", where, ours ? line + strlen(PREFIX) : line);
}

void log_note(const char *fmt, ...)
{
    va_list args;

    if (current_level < LOG_NORMAL)
        return;
    va_start(args, fmt);
    print_args(fmt, args);
    va_end(args);
}

static bool wants_success(void)
{
    int saved_errno = errno;
    bool terminal = isatty(STDERR_FILENO);

    errno = saved_errno;
    return current_level >= (terminal ? LOG_NORMAL : LOG_VERBOSE);
}

void log_success(const char *fmt, ...)
{
    va_list args;

    if (!wants_success())
        return;
    va_start(args, fmt);
    print_args(fmt, args);
    va_end(args);
}

void log_verbose(const char *fmt, ...)
{
    va_list args;

    if (current_level < LOG_VERBOSE)
        return;
    va_start(args, fmt);
    print_args(fmt, args);
    va_end(args);
}

void log_trace(const char *fmt, ...)
{
    va_list args;

    if (current_level < LOG_TRACE)
        return;
    va_start(args, fmt);
    print_args(fmt, args);
    va_end(args);
}

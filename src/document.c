#include "config.h"

#include "document.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "fdio.h"
#include "output.h"
#include "signals.h"
#include "utf8.h"

static struct {
    FILE *file; /* NULL: no document is wanted (any more) */
    const char *path;
    int errnum; /* of what could not be written */
    pthread_mutex_t lock;
} output = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A file that no document begins is a source, say, that was named by mistake. */
static int check_content(const char *path, struct error *err)
{
    static const char begin[] = "{\"version\":";
    char found[sizeof begin - 1];
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = fdio_pread(fd, found, sizeof found, 0);
    int errnum = errno;
    close(fd);
    if (len < 0)
        return error_set_errno(err, ERROR_STORAGE, STAGE_OPEN, path, errnum, "cannot read");
    if (len == (ssize_t)sizeof found && memcmp(found, begin, sizeof found) == 0)
        return 0;
    error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path,
              "cannot create: it holds something else than JSON of rdmaput");
    return error_hint(err, "--json-file replaces no file but its own: name another one, or remove "
                           "that");
}

int document_open(const char *path, struct error *err)
{
    output.path = path ? path : "standard output";
    if (path && check_content(path, err) < 0)
        return -1;
    output.file = path ? fopen(path, "we") : stdout;
    if (!output.file && errno == EINTR && signals_count() > 0)
        return error_set(err, ERROR_INTERRUPTED, STAGE_OPEN, path, "interrupted by a signal");
    if (!output.file)
        return error_set_errno(err, ERROR_CANNOT_CREATE, STAGE_OPEN, path, errno, "cannot create");
    return 0;
}

bool document_is_wanted(void)
{
    return output.file != NULL;
}

bool document_takes_stdout(void)
{
    return output.file == stdout;
}

struct json_object *document_new(const char *command)
{
    struct json_object *document = output.file ? json_object_new_object() : NULL;
    document_add_number(document, "version", DOCUMENT_VERSION);
    document_add_text(document, "program", PACKAGE_STRING);
    document_add_text(document, "command", command);
    return document;
}

void document_add(struct json_object *document, const char *name, struct json_object *part)
{
    if (!document || json_object_object_add(document, name, part) != 0)
        json_object_put(part);
}

void document_add_text(struct json_object *document, const char *name, const char *text)
{
    char *repaired = NULL;
    if (!document || !text)
        return;
    if (!utf8_is_valid(text))
        text = repaired = utf8_repair(text);
    if (text)
        document_add(document, name, json_object_new_string(text));
    free(repaired);
}

/* json-c before 0.15 has no integers past INT64_MAX, but takes a number's text. */
static struct json_object *new_number(uint64_t number)
{
    char text[24];
    if (number <= INT64_MAX)
        return json_object_new_int64((int64_t)number);
    snprintf(text, sizeof text, "%" PRIu64, number);
    return json_object_new_double_s((double)number, text);
}

void document_add_number(struct json_object *document, const char *name, uint64_t number)
{
    if (document)
        document_add(document, name, new_number(number));
}

void document_add_flag(struct json_object *document, const char *name, bool flag)
{
    if (document)
        document_add(document, name, json_object_new_boolean(flag));
}

void document_add_amount(struct json_object *document, uint64_t bytes, uint64_t duration_ns)
{
    document_add_number(document, "bytes", bytes);
    document_add_number(document, "duration_ns", duration_ns);
    if (duration_ns > 0)
        document_add_number(document, "bytes_per_second",
                            (uint64_t)((double)bytes * 1e9 / (double)duration_ns));
}

static void add_times(struct json_object *document, const struct facts *facts)
{
    static const char *const names[FACTS_STAGES] = {
        [FACTS_RESOLVE] = "resolve_ns",   [FACTS_CONNECT] = "connect_ns",
        [FACTS_REGISTER] = "register_ns", [FACTS_TRANSFER] = "transfer_ns",
        [FACTS_COMMIT] = "commit_ns",
    };
    struct json_object *times = json_object_new_object();
    for (int stage = 0; stage < FACTS_STAGES; stage++)
        document_add_number(times, names[stage], facts->ns[stage]);
    document_add(document, "times", times);
}

/* A field is there once it is known. */
static void add_known(struct json_object *object, const char *name, uint64_t number)
{
    if (number > 0)
        document_add_number(object, name, number);
}

void document_add_facts(struct json_object *document, const struct facts *facts)
{
    struct json_object *connection = document ? json_object_new_object() : NULL;
    if (!connection)
        return;
    document_add_text(connection, "peer", facts->peer[0] ? facts->peer : NULL);
    document_add_text(connection, "local", facts->local[0] ? facts->local : NULL);
    document_add_text(connection, "device", facts->device[0] ? facts->device : NULL);
    add_known(connection, "port", facts->port);
    document_add_text(connection, "kind", facts->kind);
    add_known(connection, "mtu_bytes", facts->mtu);
    add_known(connection, "max_sge", facts->max_sge);
    add_known(connection, "send_queue_depth", facts->send_depth);
    if (facts->send_depth > 0)
        document_add_number(connection, "max_inline_bytes", facts->max_inline);
    add_known(connection, "max_message_bytes", facts->max_msg_sz);
    add_known(connection, "slots", facts->slots);
    add_known(connection, "slot_bytes", facts->slot_size);
    add_known(connection, "pinned_bytes", facts->pinned);
    document_add(document, "connection", connection);
    add_times(document, facts);
}

static struct json_object *describe(const struct error *err)
{
    struct json_object *object = error_is_set(err) ? json_object_new_object() : NULL;
    if (!object)
        return NULL;
    document_add_text(object, "kind", error_class_name(err->class));
    document_add_text(object, "stage", err->stage ? error_stage_name(err->stage) : NULL);
    document_add_text(object, "subject", err->subject[0] ? err->subject : NULL);
    document_add_text(object, "message", err->text);
    document_add_text(object, "hint", err->hint[0] ? err->hint : NULL);
    add_known(object, "errno", (uint64_t)err->errnum);
    if (err->errnum > 0)
        document_add_text(object, "errno_text", strerror(err->errnum));
    document_add_text(object, "status", err->status);
    return object;
}

void document_append_object(struct json_object *objects, const char *name,
                            const struct digest_value *digest, uint64_t kept,
                            const struct error *cause)
{
    char checksum[2 * DIGEST_BYTES + 1];
    struct json_object *object = objects ? json_object_new_object() : NULL;
    if (!object)
        return;
    document_add_text(object, "name", name[0] ? name : NULL);
    document_add_flag(object, "committed", !cause);
    if (cause) {
        document_add(object, "error", describe(cause));
    } else {
        document_add_number(object, "bytes", digest->bytes);
        document_add_number(object, "size_bytes", digest->size);
        document_add_number(object, "resumed_bytes", kept);
        document_add_text(object, "xxh3_128", digest_format(digest, checksum));
    }
    if (json_object_array_add(objects, object) != 0)
        json_object_put(object);
}

/* Of a process that dies by a signal, as shells tell it. */
static uint64_t exit_status(const struct error *err)
{
    if (err->class == ERROR_INTERRUPTED && signals_count() > 0)
        return 128 + (uint64_t)signals_last();
    return (uint64_t)error_exit_status(err->class);
}

static void write_line(const char *line)
{
    if (output.file == stdout)
        output_line(line);
    else if (output_write_line(fileno(output.file), line) < 0 && output.errnum == 0)
        output.errnum = errno;
}

static uint64_t time_ns(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * CLOCK_NS_PER_S + (uint64_t)time->tv_usec * 1000;
}

/* What this process has used so far; ru_maxrss is in KiB (getrusage(2)). */
static struct json_object *describe_process(void)
{
    struct rusage usage;
    struct json_object *process = json_object_new_object();
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        document_add_number(process, "user_ns", time_ns(&usage.ru_utime));
        document_add_number(process, "system_ns", time_ns(&usage.ru_stime));
        document_add_number(process, "resident_bytes", (uint64_t)usage.ru_maxrss * 1024);
    }
    return process;
}

/* RFC 3339, to the millisecond. */
static void add_time(struct json_object *document)
{
    char text[48];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &tm))
        return;
    size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text + len, sizeof text - len, ".%03dZ", (int)(now.tv_nsec / CLOCK_NS_PER_MS));
    document_add_text(document, "time", text);
}

void document_print(struct json_object *document, const struct error *err)
{
    if (!document)
        return;
    add_time(document);
    document_add(document, "process", describe_process());
    document_add_number(document, "exit_status", exit_status(err));
    document_add(document, "error", describe(err));
    const char *line = json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN |
                                                                    JSON_C_TO_STRING_NOSLASHESCAPE);
    pthread_mutex_lock(&output.lock);
    if (line && output.file)
        write_line(line);
    else if (!line && output.errnum == 0)
        output.errnum = ENOMEM;
    pthread_mutex_unlock(&output.lock);
    json_object_put(document);
}

int document_close(struct error *err)
{
    FILE *file = output.file;
    output.file = NULL;
    if (!file || file == stdout)
        return 0;
    if (fclose(file) != 0 && output.errnum == 0)
        output.errnum = errno;
    if (output.errnum == 0)
        return 0;
    return error_set_errno(err, ERROR_STORAGE, STAGE_NONE, output.path, output.errnum,
                           "cannot write what is told as JSON");
}

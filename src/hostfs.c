#include "config.h"

#include "hostfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fdio.h"

/* path of PATH_MAX bytes; the arguments of the caller's end with fmt. */
#define MAKE_PATH(path, root, fmt)                                  \
    do {                                                            \
        va_list args;                                               \
        size_t used = (size_t)snprintf(path, PATH_MAX, "%s", root); \
        va_start(args, fmt);                                        \
        if (used < PATH_MAX)                                        \
            vsnprintf(path + used, PATH_MAX - used, fmt, args);     \
        va_end(args);                                               \
    } while (0)

struct hostfs_lines hostfs_open(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    MAKE_PATH(path, root, fmt);
    return (struct hostfs_lines){.file = fopen(path, "re")};
}

bool hostfs_next(struct hostfs_lines *lines, char *buf, size_t size)
{
    bool read = lines->file && fgets(buf, (int)size, lines->file) != NULL;
    if (!read)
        buf[0] = '\0';
    for (size_t len = strlen(buf); len > 0 && strchr(" \t\n", buf[len - 1]); len--)
        buf[len - 1] = '\0';
    return read;
}

void hostfs_close(struct hostfs_lines *lines)
{
    if (lines->file)
        fclose(lines->file);
    lines->file = NULL;
}

static bool read_line(const char *path, char *buf, size_t size)
{
    struct hostfs_lines lines = {.file = fopen(path, "re")};
    bool read = hostfs_next(&lines, buf, size);
    hostfs_close(&lines);
    return read;
}

bool hostfs_line(const char *root, char *buf, size_t size, const char *fmt, ...)
{
    char path[PATH_MAX];
    MAKE_PATH(path, root, fmt);
    return read_line(path, buf, size);
}

long hostfs_number(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX], line[32], *end;
    MAKE_PATH(path, root, fmt);
    if (!read_line(path, line, sizeof line))
        return -1;
    long number = strtol(line, &end, 0);
    return end == line || number < 0 ? -1 : number;
}

bool hostfs_exists(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    MAKE_PATH(path, root, fmt);
    return access(path, F_OK) == 0;
}

/* Longer ones are none of the kernel's that are asked for. */
static void keep_name(char name[HOSTFS_NAME], const char *from)
{
    snprintf(name, HOSTFS_NAME, "%.*s", HOSTFS_NAME - 1, from);
}

void hostfs_link(const char *root, char name[HOSTFS_NAME], const char *fmt, ...)
{
    char path[PATH_MAX], target[PATH_MAX];
    MAKE_PATH(path, root, fmt);
    ssize_t len = readlink(path, target, sizeof target - 1);
    target[len < 0 ? 0 : len] = '\0';
    const char *slash = strrchr(target, '/');
    keep_name(name, slash ? slash + 1 : target);
}

int hostfs_try(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    MAKE_PATH(path, root, fmt);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;
    fdio_close(&fd);
    return 0;
}

bool hostfs_mentions(const char *root, const char *text, const char *fmt, ...)
{
    char path[PATH_MAX], *line = NULL;
    size_t size = 0;
    bool found = false;
    MAKE_PATH(path, root, fmt);
    FILE *file = fopen(path, "re");
    while (file && !found && getline(&line, &size, file) >= 0)
        found = strstr(line, text) != NULL;
    free(line);
    if (file)
        fclose(file);
    return found;
}

static int is_wanted(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

struct hostfs_names hostfs_names(const char *root, const char *fmt, ...)
{
    char path[PATH_MAX];
    struct dirent **entries;
    struct hostfs_names names = {.items = NULL};
    MAKE_PATH(path, root, fmt);
    int count = scandir(path, &entries, is_wanted, versionsort);
    if (count < 0)
        return names;
    names.items = calloc((size_t)count + 1, sizeof *names.items);
    for (int i = 0; i < count; i++) {
        if (names.items)
            keep_name(names.items[names.count++], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return names;
}

void hostfs_free(struct hostfs_names *names)
{
    free(names->items);
    *names = (struct hostfs_names){.items = NULL};
}

/*
 * beneath.c - directories below a root.
 */
#include "config.h"

#include "beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SYS_openat2
#include <linux/openat2.h>
#endif

#include "fdio.h"

#define OPEN_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static int open_at_once(int root, const char *path)
{
#ifdef SYS_openat2
    struct open_how how = {
        .flags = OPEN_FLAGS,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root, path, &how, sizeof how);
#else
    (void)root;
    (void)path;
    errno = ENOSYS;
    return -1;
#endif
}

/* Cuts the path at its slashes. */
static int walk(int root, char *path)
{
    int at = openat(root, ".", OPEN_FLAGS);
    for (char *component; at >= 0 && (component = strsep(&path, "/"));) {
        int next = -1;
        if (strcmp(component, "..") == 0)
            errno = EXDEV;
        else
            next = openat(at, component, OPEN_FLAGS);
        fdio_close(&at);
        at = next;
    }
    return at;
}

int beneath_open(int root, const char *path, size_t len)
{
    char copy[PATH_MAX] = ".";
    if (len >= sizeof copy) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (len > 0) {
        memcpy(copy, path, len);
        copy[len] = '\0';
    }
    int fd = open_at_once(root, copy);
    /* Old kernels have no such call, and sandboxes forbid it. */
    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        fd = walk(root, copy);
    return fd;
}

static size_t parent_len(const char *path, size_t len)
{
    const char *slash = memrchr(path, '/', len);
    return slash ? (size_t)(slash - path) : 0;
}

int beneath_open_deepest(int root, const char *name, const char **rest)
{
    size_t len = parent_len(name, strlen(name));
    int fd;
    while ((fd = beneath_open(root, name, len)) < 0 && errno == ENOENT && len > 0)
        len = parent_len(name, len);
    *rest = name + (len > 0 ? len + 1 : 0);
    return fd;
}

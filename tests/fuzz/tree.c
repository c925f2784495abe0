#include "config.h"

#include "tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "sink-dir.h"

#define MOST_OPEN 16
#define SECRET "nobody may change this"

static char path[64];
static int root, outside; /* descriptors */
static struct sink *sink;

static _Noreturn void die(const char *what)
{
    perror(what);
    abort();
}

static int remove_entry(const char *at, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(at);
}

static void remove_tree(void)
{
    nftw(path, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

static void make_secret(void)
{
    int fd = openat(outside, "secret", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, SECRET, strlen(SECRET)) != (ssize_t)strlen(SECRET))
        die("secret");
    close(fd);
}

void tree_make(void)
{
    static const struct sink_options options = {.keep_ns = UINT64_C(1) << 40};
    struct error err = {.class = ERROR_NONE};
    const char *where = getenv("TMPDIR");
    if (!where)
        where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, sizeof path, "%.32s/rdmaput-fuzz-XXXXXX", where);
    if (!mkdtemp(path))
        die(path);
    atexit(remove_tree);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "root", 0700) < 0 || mkdirat(fd, "outside", 0700) < 0 ||
        (root = openat(fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        (outside = openat(fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        mkdirat(root, "d", 0700) < 0 || symlinkat("../outside", root, "link") < 0 ||
        symlinkat("../outside/secret", root, "secret") < 0)
        die(path);
    close(fd);
    make_secret();
    char served[sizeof path + 8];
    snprintf(served, sizeof served, "%s/root", path);
    if (!(sink = sink_dir_new(served, &options, &err)))
        die(err.text);
}

struct sink *tree_sink(void)
{
    return sink;
}

void tree_write(const char *name, const uint8_t *bytes, uint64_t size, uint64_t hole_at,
                uint64_t hole_end, char *at)
{
    uint64_t before = hole_at < size ? hole_at : size, behind = hole_end < size ? hole_end : size;
    snprintf(at, TREE_PATH, "%s/root/%s", path, name);
    int fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || pwrite(fd, bytes, before, 0) != (ssize_t)before ||
        pwrite(fd, bytes + behind, size - behind, (off_t)behind) != (ssize_t)(size - behind))
        die(at);
    close(fd);
}

struct tree_file tree_open(const char *name)
{
    struct stat st;
    int fd = openat(root, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FUZZ_ASSERT(fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
    struct tree_file file = {.size = (size_t)st.st_size};
    if (file.size > 0) {
        void *addr = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (addr == MAP_FAILED)
            die(name);
        file.content = addr;
    }
    close(fd);
    return file;
}

void tree_close(struct tree_file *file)
{
    if (file->size > 0)
        munmap((void *)(uintptr_t)file->content, file->size);
}

/* Calls function with the name of each entry. */
static void each_entry(int directory, void (*function)(const char *name))
{
    const struct dirent *entry;
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        die(path);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            function(entry->d_name);
    closedir(dir);
}

static void remove_below(const char *name)
{
    char at[sizeof path + 8 + 256];
    snprintf(at, sizeof at, "%s/root/%s", path, name);
    nftw(at, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
}

static void remove_from_root(const char *name)
{
    if (strcmp(name, "link") != 0 && strcmp(name, "secret") != 0)
        remove_below(name);
}

static void assert_secret(const char *name)
{
    char content[2 * sizeof SECRET];
    FUZZ_ASSERT(strcmp(name, "secret") == 0);
    int fd = openat(outside, name, O_RDONLY | O_CLOEXEC);
    FUZZ_ASSERT(read(fd, content, sizeof content) == (ssize_t)strlen(SECRET));
    FUZZ_ASSERT(memcmp(content, SECRET, strlen(SECRET)) == 0);
    close(fd);
}

void tree_empty(void)
{
    each_entry(outside, assert_secret);
    each_entry(root, remove_from_root);
    if (mkdirat(root, "d", 0700) < 0)
        die("d");
}

/*
 * replay.c - feeds files to a fuzz target, in place of libFuzzer.
 *
 * usage: fuzz-NAME [FILE...]    (default: those of $RDMAPUT_FUZZ_SEEDS/fuzz-NAME)
 *
 * Says the name of each file before it is tried, so that the last one is what a fault is due to.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static _Noreturn void die(const char *path)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(errno));
    exit(1);
}

/* In memory of exactly its size, so that reading past its end shows. */
static uint8_t *read_file(const char *path, size_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        die(path);
    *size = (size_t)st.st_size;
    uint8_t *data = malloc(*size);
    if ((!data && *size > 0) || read(fd, data, *size) != st.st_size)
        die(path);
    close(fd);
    return data;
}

static void replay(const char *path)
{
    size_t size;
    uint8_t *data = read_file(path, &size);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_seeds(void)
{
    char directory[4096], path[4096 + 256];
    struct dirent **entries;
    const char *seeds = getenv("RDMAPUT_FUZZ_SEEDS");
    if (!seeds) {
        fprintf(stderr, "%s: no FILE is given, and RDMAPUT_FUZZ_SEEDS is not set\n",
                program_invocation_short_name);
        return 1;
    }
    snprintf(directory, sizeof directory, "%s/%s", seeds, program_invocation_short_name);
    int count = scandir(directory, &entries, is_visible, alphasort);
    if (count < 0)
        die(directory);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, entries[i]->d_name);
        replay(path);
        free(entries[i]);
    }
    free(entries);
    printf("%d seeds\n", count);
    return count > 0 ? 0 : 1;
}

int main(int argc, char *argv[])
{
    if (argc == 1)
        return replay_seeds();
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    return 0;
}

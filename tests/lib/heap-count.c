/*
 * heap-count.c - a library to preload: how much memory from malloc(3) and its kin is in use, which the
 * size of a process does not tell, since allocators keep what is given back.
 *
 * RDMAPUT_TEST_HEAP  a file that holds the number of bytes, 8 bytes in this machine's order, at any time
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* What glibc(7) calls its own allocator, for those who replace it. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

static _Atomic int64_t before_mapping;
static _Atomic int64_t *in_use = &before_mapping;

__attribute__((constructor)) static void map_count(void)
{
    const char *path = getenv("RDMAPUT_TEST_HEAP");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    void *count;
    if (fd < 0 || ftruncate(fd, sizeof(*in_use)))
        return;
    count = mmap(NULL, sizeof(*in_use), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (count == MAP_FAILED)
        return;
    in_use = count;
    atomic_store(in_use, before_mapping);
}

static void *counted(void *memory)
{
    if (memory)
        atomic_fetch_add(in_use, (int64_t)malloc_usable_size(memory));
    return memory;
}

void *malloc(size_t size)
{
    return counted(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
    return counted(__libc_calloc(count, size));
}

void *realloc(void *memory, size_t size)
{
    int64_t freed = (int64_t)malloc_usable_size(memory);
    void *resized = __libc_realloc(memory, size);
    if (resized || size == 0)
        atomic_fetch_sub(in_use, freed);
    return counted(resized);
}

void *memalign(size_t alignment, size_t size)
{
    return counted(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    int saved_errno = errno;
    void *aligned = memalign(alignment, size);
    errno = saved_errno;
    if (!aligned)
        return ENOMEM;
    *memory = aligned;
    return 0;
}

void free(void *memory)
{
    atomic_fetch_sub(in_use, (int64_t)malloc_usable_size(memory));
    __libc_free(memory);
}

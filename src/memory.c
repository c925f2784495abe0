#include "config.h"

#include "memory.h"

#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "units.h"

#define COMFORTABLE_BUFFER ((size_t)64 << 10)
#define LEAST_BUFFER ((size_t)4096)

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

int memory_map(struct memory *memory, size_t bytes, struct error *err)
{
    char size[UNITS_TEXT];
    void *addr = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (addr == MAP_FAILED) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, errno, "cannot allocate %s",
                        units_format_size(bytes, size));
        return error_hint(err, "ask for less memory, or free some on this host");
    }
    *memory = (struct memory){.addr = addr, .bytes = bytes};
    return 0;
}

int memory_map_file(struct memory *memory, int fd, uint64_t offset, size_t bytes, struct error *err)
{
    char size[UNITS_TEXT];
    void *addr = mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)offset);
    if (addr == MAP_FAILED)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, errno, "cannot map %s",
                               units_format_size(bytes, size));
    *memory = (struct memory){.addr = addr, .bytes = bytes};
    return 0;
}

#define LIMIT " a limit of locked memory of "

bool memory_is_limited(const struct error *err)
{
    return err->class == ERROR_RESOURCE && strstr(err->text, LIMIT);
}

static const char *memlock_limit(char buf[UNITS_TEXT])
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return "unknown";
    return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : units_format_size(limit.rlim_cur, buf);
}

const char *memory_limit_hint(void)
{
    return "raise the limit of locked memory: 'ulimit -l', memlock in /etc/security/limits.conf, "
           "LimitMEMLOCK= of a systemd unit, --ulimit memlock=-1 of a container, "
           "PropagateResourceLimits of Slurm";
}

const char *memory_files_hint(void)
{
    return "raise the limit of open files: 'ulimit -n', nofile in /etc/security/limits.conf, "
           "LimitNOFILE= of a systemd unit";
}

static int hint_memlock(struct error *err)
{
    return error_hint(err, "%s", memory_limit_hint());
}

static int registration_error(const struct memory *memory, const char *what, int errnum,
                              struct error *err)
{
    char size[UNITS_TEXT], limit[UNITS_TEXT];
    error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, NULL, errnum,
                    "cannot register %s for %s, with" LIMIT "%s",
                    units_format_size(memory->bytes, size), what, memlock_limit(limit));
    return hint_memlock(err);
}

int memory_resource_error(struct error *err, const char *subject, int errnum, const char *what)
{
    char limit[UNITS_TEXT];
    if (errnum == EMFILE || errnum == ENFILE) {
        error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, subject, errnum, "cannot create %s",
                        what);
        return error_hint(err, "%s", memory_files_hint());
    }
    error_set_errno(err, ERROR_RESOURCE, STAGE_REGISTER, subject, errnum,
                    "cannot create %s, with" LIMIT "%s", what, memlock_limit(limit));
    return hint_memlock(err);
}

int memory_register_messages(struct memory *memory, struct rdma_cm_id *id, const char *what,
                             struct error *err)
{
    memory->mr = rdma_reg_msgs(id, memory->addr, whole_pages(memory->bytes));
    return memory->mr ? 0 : registration_error(memory, what, errno, err);
}

int memory_register_write(struct memory *memory, struct rdma_cm_id *id, const char *what,
                          struct error *err)
{
    memory->mr = rdma_reg_write(id, memory->addr, memory->bytes);
    return memory->mr ? 0 : registration_error(memory, what, errno, err);
}

int memory_register_region(struct memory *memory, struct ibv_pd *pd, const char *what,
                           struct error *err)
{
    memory->mr = ibv_reg_mr(pd, memory->addr, memory->bytes,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return memory->mr ? 0 : registration_error(memory, what, errno, err);
}

int memory_register_read(struct memory *memory, struct ibv_pd *pd, const char *what,
                         struct error *err)
{
    memory->mr = ibv_reg_mr(pd, memory->addr, memory->bytes, IBV_ACCESS_REMOTE_READ);
    return memory->mr ? 0 : registration_error(memory, what, errno, err);
}

/* The next smaller shape to try. false: there is none. */
static bool shrink(unsigned *count, size_t *size)
{
    if (*size > COMFORTABLE_BUFFER || (*count <= 2 && *size > LEAST_BUFFER))
        *size = *size / 2 > LEAST_BUFFER ? *size / 2 : LEAST_BUFFER;
    else if (*count > 1)
        *count /= 2;
    else
        return false;
    return true;
}

void memory_fit_buffers(unsigned *count, size_t *size, uint64_t limit)
{
    while (*count * *size > limit && shrink(count, size))
        ;
}

int memory_register_buffers(struct memory *memory, struct rdma_cm_id *id, bool remote,
                            unsigned *count, size_t *size, const char *what, struct error *err)
{
    struct error attempt;
    do {
        error_clear(&attempt);
        if (memory_map(memory, *count * *size, &attempt) == 0 &&
            (remote ? memory_register_write(memory, id, what, &attempt)
                    : memory_register_messages(memory, id, what, &attempt)) == 0)
            return 0;
        memory_free(memory);
    } while (shrink(count, size));
    *err = attempt;
    return -1;
}

void memory_deregister(struct memory *memory)
{
    if (memory->mr)
        ibv_dereg_mr(memory->mr);
    memory->mr = NULL;
}

void memory_free(struct memory *memory)
{
    memory_deregister(memory);
    if (memory->addr)
        munmap(memory->addr, whole_pages(memory->bytes));
    *memory = (struct memory){.addr = NULL};
}

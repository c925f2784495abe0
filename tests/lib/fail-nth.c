/*
 * fail-nth.c - a library to preload: the nth call of one function that the program makes fails.
 *
 * FAIL_CALL    the function, by its name in the source: malloc, pread, ibv_reg_mr, ibv_post_send, ...
 * FAIL_NTH     which of its calls fails, 1 is the first; none if not set
 * FAIL_ERRNO   the number of the error, where the function has one; a usual one if not set
 * FAIL_FILE    if not empty, only calls count whose first argument is a descriptor of this file
 * FAIL_REPORT  a file that lines are appended to: "failed NAME NTH ERRNO" when that call fails, and at
 *              the end of the process "NAME COUNT" for each function that was called
 *
 * Only calls from the program itself count and fail, not those from libraries. What gives something
 * back (close, munmap, ibv_dereg_mr, ...) does so, and then says that it failed; all else fails and
 * does nothing. What cannot fail is not here: many functions, reading and writing an eventfd, fcntl
 * and syscall where they make no descriptor. What libibverbs has as inline functions
 * (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) is reached by the table of the
 * context once a queue pair was made. A program with the address sanitizer also needs
 * ASAN_OPTIONS=verify_asan_link_order=0.
 */
#define _GNU_SOURCE
/* They would rename what is defined here. */
#undef _FILE_OFFSET_BITS
#undef _TIME_BITS
#undef _FORTIFY_SOURCE

#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <search.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define MOST_NAMES 160

/* A function that was called. */
struct counter {
    const char *name;
    atomic_uint calls;
};

static struct counter counters[MOST_NAMES];
static atomic_uint counter_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t program_start, program_end;

/* ---- counting ------------------------------------------------------------------------------ */

static int note_program(struct dl_phdr_info *info, size_t size, void *ignored)
{
    (void)size, (void)ignored;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            program_start = info->dlpi_addr + segment->p_vaddr;
            program_end = program_start + segment->p_memsz;
        }
    }
    return 1; /* the first object is the program */
}

__attribute__((constructor)) static void find_program(void)
{
    dl_iterate_phdr(note_program, NULL);
}

static bool is_program(const void *caller)
{
    return (uintptr_t)caller >= program_start && (uintptr_t)caller < program_end;
}

static unsigned number_of(const char *variable, unsigned otherwise)
{
    const char *text = getenv(variable);
    return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* What is called here is not called by the program. */
static void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void report(const char *format, ...)
{
    char line[100];
    va_list args;
    const char *path = getenv("FAIL_REPORT");
    if (!path)
        return;
    va_start(args, format);
    int len = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        abort();
    close(fd);
}

__attribute__((destructor)) static void report_counts(void)
{
    for (unsigned i = 0; i < atomic_load(&counter_count); i++)
        report("%s %u\n", counters[i].name, atomic_load(&counters[i].calls));
}

static struct counter *counter_of(const char *name)
{
    unsigned i = 0, count = atomic_load(&counter_count);
    while (i < count && strcmp(counters[i].name, name) != 0)
        i++;
    if (i < count)
        return &counters[i];
    pthread_mutex_lock(&lock);
    for (count = atomic_load(&counter_count); i < count && strcmp(counters[i].name, name) != 0;)
        i++;
    if (i == MOST_NAMES)
        abort();
    if (i == count) {
        counters[i].name = name;
        atomic_store(&counter_count, count + 1);
    }
    pthread_mutex_unlock(&lock);
    return &counters[i];
}

static bool is_of_file(int fd)
{
    const char *path = getenv("FAIL_FILE");
    struct stat file, opened;
    return !path || !path[0] || (stat(path, &file) == 0 && fstat(fd, &opened) == 0 &&
                     file.st_dev == opened.st_dev && file.st_ino == opened.st_ino);
}

/* Whether this call is the one that fails; then errno is set. */
static bool is_due(const char *name, int fd, int errnum, const void *caller)
{
    int saved_errno = errno;
    const char *wanted = getenv("FAIL_CALL");
    bool due = false;
    if (is_program(caller) && is_of_file(fd)) {
        unsigned nth = atomic_fetch_add(&counter_of(name)->calls, 1) + 1;
        due = wanted && strcmp(name, wanted) == 0 && nth == number_of("FAIL_NTH", 0);
        errnum = (int)number_of("FAIL_ERRNO", (unsigned)errnum);
        if (due)
            report("failed %s %u %d\n", name, nth, errnum);
    }
    errno = due ? errnum : saved_errno;
    return due;
}

static void *find(const char *symbol)
{
    void *found = dlsym(RTLD_NEXT, symbol);
    if (!found)
        abort();
    return found;
}

/* ---- functions of the C library ------------------------------------------------------------ */

/* The next definition of the symbol, as next. */
#define NEXT(type, symbol, parameters)                       \
    static type(*_Atomic found) parameters;                  \
    type(*next) parameters = atomic_load(&found);            \
    if (!next) {                                             \
        next = (type(*) parameters)(uintptr_t)find(#symbol); \
        atomic_store(&found, next);                          \
    }

#define DUE(name, fd, errnum) is_due(name, fd, errnum, __builtin_return_address(0))

/* Functions that do nothing when they fail. */
#define CALL_AS(name, fd, type, symbol, parameters, arguments, errnum, failed) \
    type symbol parameters                                                     \
    {                                                                          \
        NEXT(type, symbol, parameters)                                         \
        if (DUE(name, fd, errnum))                                             \
            return failed;                                                     \
        return next arguments;                                                 \
    }
#define CALL(type, symbol, parameters, arguments, errnum, failed) \
    CALL_AS(#symbol, -1, type, symbol, parameters, arguments, errnum, failed)
#define FD_CALL(type, symbol, parameters, arguments, errnum) \
    CALL_AS(#symbol, fd, type, symbol, parameters, arguments, errnum, -1)

/* Functions that give something back, also when they fail. */
#define BACK(type, symbol, parameters, arguments, errnum, failed) \
    type symbol parameters                                        \
    {                                                             \
        NEXT(type, symbol, parameters)                            \
        bool due = DUE(#symbol, -1, errnum);                      \
        int chosen = errno;                                       \
        type result = next arguments;                             \
        if (!due)                                                 \
            return result;                                        \
        errno = chosen;                                           \
        return failed;                                            \
    }

/* Memory */
CALL(void *, malloc, (size_t size), (size), ENOMEM, NULL)
CALL(void *, calloc, (size_t count, size_t size), (count, size), ENOMEM, NULL)
CALL(void *, realloc, (void *old, size_t size), (old, size), ENOMEM, NULL)
CALL(void *, reallocarray, (void *old, size_t count, size_t size), (old, count, size), ENOMEM, NULL)
CALL(char *, strdup, (const char *text), (text), ENOMEM, NULL)
CALL(char *, strndup, (const char *text, size_t size), (text, size), ENOMEM, NULL)
CALL(FILE *, open_memstream, (char **text, size_t *size), (text, size), ENOMEM, NULL)
CALL(void *, tsearch, (const void *key, void **root, int (*compare)(const void *, const void *)),
     (key, root, compare), ENOMEM, NULL)
void *XXH3_createState(void);
CALL(void *, XXH3_createState, (void), (), ENOMEM, NULL)
unsigned char *HMAC(const void *type, const void *key, int key_len, const unsigned char *data,
                    size_t size, unsigned char *out, unsigned *out_len);
CALL(unsigned char *, HMAC,
     (const void *type, const void *key, int key_len, const unsigned char *data, size_t size,
      unsigned char *out, unsigned *out_len),
     (type, key, key_len, data, size, out, out_len), 0, NULL)
BACK(int, munmap, (void *addr, size_t size), (addr, size), EINVAL, -1)

int asprintf(char **text, const char *format, ...)
{
    va_list args;
    if (DUE("asprintf", -1, ENOMEM))
        return -1;
    va_start(args, format);
    int len = vasprintf(text, format, args);
    va_end(args);
    return len;
}

int __asprintf_chk(char **text, int flag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int __asprintf_chk(char **text, int flag, const char *format, ...)
{
    va_list args;
    (void)flag;
    if (DUE("asprintf", -1, ENOMEM))
        return -1;
    va_start(args, format);
    int len = vasprintf(text, format, args);
    va_end(args);
    return len;
}

/* Threads, descriptors, time, chance */
CALL(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attr, void *(*start)(void *), void *argument),
     (thread, attr, start, argument), EAGAIN, errno)
CALL(int, pthread_attr_init, (pthread_attr_t * attr), (attr), ENOMEM, errno)
CALL(int, eventfd, (unsigned count, int flags), (count, flags), EMFILE, -1)
CALL(int, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
     (clock, event, timer), EAGAIN, -1)
CALL(ssize_t, getrandom, (void *buf, size_t size, unsigned flags), (buf, size, flags), ENOSYS, -1)
CALL(int, getrlimit, (__rlimit_resource_t resource, struct rlimit *limit), (resource, limit),
     EINVAL, -1)

/* Storage. What has an offset, flags or a mode has another name where it is 64 bits wide. */
#define WIDE(suffix, offset)                                                                       \
    CALL_AS("mmap", -1, void *, mmap##suffix,                                                      \
            (void *addr, size_t size, int protection, int flags, int fd, offset at),               \
            (addr, size, protection, flags, fd, at), ENOMEM, MAP_FAILED)                           \
    CALL_AS("pread", fd, ssize_t, pread##suffix, (int fd, void *buf, size_t size, offset at),      \
            (fd, buf, size, at), EIO, -1)                                                          \
    CALL_AS("pwrite", fd, ssize_t, pwrite##suffix,                                                 \
            (int fd, const void *buf, size_t size, offset at), (fd, buf, size, at), EIO, -1)       \
    CALL_AS("lseek", fd, offset, lseek##suffix, (int fd, offset at, int whence), (fd, at, whence), \
            EIO, -1)                                                                               \
    CALL_AS("ftruncate", fd, int, ftruncate##suffix, (int fd, offset size), (fd, size), EIO, -1)   \
    CALL_AS("fallocate", fd, int, fallocate##suffix, (int fd, int mode, offset at, offset size),   \
            (fd, mode, at, size), ENOSPC, -1)                                                      \
                                                                                                   \
    int open##suffix(const char *path, int flags, ...)                                             \
    {                                                                                              \
        NEXT(int, open##suffix, (const char *, int, ...))                                          \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                    \
        va_end(args);                                                                              \
        return DUE("open", -1, EMFILE) ? -1 : next(path, flags, mode);                             \
    }                                                                                              \
                                                                                                   \
    int openat##suffix(int fd, const char *path, int flags, ...)                                   \
    {                                                                                              \
        NEXT(int, openat##suffix, (int, const char *, int, ...))                                   \
        va_list args;                                                                              \
        va_start(args, flags);                                                                     \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                    \
        va_end(args);                                                                              \
        return DUE("openat", fd, EMFILE) ? -1 : next(fd, path, flags, mode);                       \
    }

WIDE(, off_t)
#ifdef __GLIBC__
WIDE(64, off64_t)
#endif

/* An eventfd is a file without a kind. */
static bool is_file(int fd)
{
    struct stat st;
    return fstat(fd, &st) < 0 || (st.st_mode & S_IFMT) != 0;
}

ssize_t read(int fd, void *buf, size_t size)
{
    NEXT(ssize_t, read, (int, void *, size_t))
    return is_file(fd) && DUE("read", fd, EIO) ? -1 : next(fd, buf, size);
}

ssize_t write(int fd, const void *buf, size_t size)
{
    NEXT(ssize_t, write, (int, const void *, size_t))
    return is_file(fd) && DUE("write", fd, EIO) ? -1 : next(fd, buf, size);
}

FD_CALL(int, fsync, (int fd), (fd), EIO)
FD_CALL(int, syncfs, (int fd), (fd), EIO)
FD_CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), EIO)
FD_CALL(int, futimens, (int fd, const struct timespec times[2]), (fd, times), EIO)
FD_CALL(int, flock, (int fd, int operation), (fd, operation), ENOLCK)
FD_CALL(int, fstat, (int fd, struct stat *st), (fd, st), EIO)
FD_CALL(int, fstatfs, (int fd, struct statfs *st), (fd, st), EIO)
FD_CALL(int, fstatvfs, (int fd, struct statvfs *st), (fd, st), EIO)
CALL(int, stat, (const char *path, struct stat *st), (path, st), EIO, -1)
CALL(int, lstat, (const char *path, struct stat *st), (path, st), EIO, -1)
FD_CALL(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags),
        EIO)
CALL(int, access, (const char *path, int mode), (path, mode), EIO, -1)
FD_CALL(int, faccessat, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags),
        EIO)
FD_CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), EIO)
CALL(int, rename, (const char *old, const char *new), (old, new), EIO, -1)
FD_CALL(int, renameat, (int fd, const char *old, int newfd, const char *new), (fd, old, newfd, new),
        EIO)
FD_CALL(int, renameat2, (int fd, const char *old, int newfd, const char *new, unsigned flags),
        (fd, old, newfd, new, flags), EIO)
FD_CALL(int, linkat, (int fd, const char *old, int newfd, const char *new, int flags),
        (fd, old, newfd, new, flags), EIO)
CALL(int, unlink, (const char *path), (path), EIO, -1)
FD_CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), EIO)
CALL(ssize_t, readlink, (const char *path, char *buf, size_t size), (path, buf, size), EIO, -1)
CALL(char *, realpath, (const char *path, char *resolved), (path, resolved), EIO, NULL)
CALL(DIR *, fdopendir, (int fd), (fd), ENOMEM, NULL)
CALL(struct dirent *, readdir, (DIR * directory), (directory), EIO, NULL)
BACK(int, closedir, (DIR * directory), (directory), EIO, -1)
BACK(int, close, (int fd), (fd), EIO, -1)
CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode), EMFILE, NULL)
BACK(int, fclose, (FILE * file), (file), ENOMEM, EOF)

int fcntl(int fd, int command, ...)
{
    NEXT(int, fcntl, (int, int, ...))
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    bool makes = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return makes && DUE("fcntl", fd, EMFILE) ? -1 : next(fd, command, argument);
}

int ioctl(int fd, unsigned long request, ...)
{
    NEXT(int, ioctl, (int, unsigned long, ...))
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    return DUE("ioctl", fd, EINVAL) ? -1 : next(fd, request, argument);
}

long syscall(long number, ...)
{
    NEXT(long, syscall, (long, ...))
    va_list args;
    long a[6];
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    bool makes = number == SYS_openat2;
    return makes && DUE("syscall", -1, EMFILE) ? -1
                                               : next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Addresses, and TCP */
CALL(int, getaddrinfo,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list),
     (host, service, hints, list), ENOMEM, EAI_MEMORY)
CALL(int, getnameinfo,
     (const struct sockaddr *addr, socklen_t addrlen, char *host, socklen_t hostlen, char *service,
      socklen_t servicelen, int flags),
     (addr, addrlen, host, hostlen, service, servicelen, flags), ENOMEM, EAI_MEMORY)
CALL(int, getifaddrs, (struct ifaddrs * *list), (list), ENOMEM, -1)
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE, -1)
FD_CALL(int, bind, (int fd, __CONST_SOCKADDR_ARG addr, socklen_t len), (fd, addr, len), EADDRINUSE)
FD_CALL(int, listen, (int fd, int backlog), (fd, backlog), EADDRINUSE)
FD_CALL(int, accept4, (int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags),
        (fd, addr, len, flags), EMFILE)
FD_CALL(int, connect, (int fd, __CONST_SOCKADDR_ARG addr, socklen_t len), (fd, addr, len),
        ECONNREFUSED)
FD_CALL(int, getsockname, (int fd, __SOCKADDR_ARG addr, socklen_t *len), (fd, addr, len), ENOBUFS)
FD_CALL(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len),
        (fd, level, option, value, len), ENOPROTOOPT)
FD_CALL(int, getsockopt, (int fd, int level, int option, void *value, socklen_t *len),
        (fd, level, option, value, len), ENOPROTOOPT)
FD_CALL(ssize_t, send, (int fd, const void *buf, size_t size, int flags), (fd, buf, size, flags),
        EIO)
FD_CALL(ssize_t, recv, (int fd, void *buf, size_t size, int flags), (fd, buf, size, flags), EIO)

/* ---- librdmacm -------------------------------------------------------------------------------- */

CALL(struct rdma_event_channel *, rdma_create_event_channel, (void), (), EMFILE, NULL)
CALL(int, rdma_create_id,
     (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *context,
      enum rdma_port_space ps),
     (channel, id, context, ps), ENOMEM, -1)
CALL(int, rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *addr), (id, addr), ENOMEM, -1)
CALL(int, rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog), ENOMEM, -1)
CALL(int, rdma_resolve_addr,
     (struct rdma_cm_id * id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms),
     (id, src, dst, timeout_ms), ENOMEM, -1)
CALL(int, rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms), (id, timeout_ms), ENOMEM,
     -1)
CALL(int, rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param),
     ENOMEM, -1)
CALL(int, rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param), ENOMEM,
     -1)
CALL(int, rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t len), (id, data, len),
     ENOMEM, -1)
CALL(int, rdma_disconnect, (struct rdma_cm_id * id), (id), ENOMEM, -1)
CALL(int, rdma_get_cm_event, (struct rdma_event_channel * channel, struct rdma_cm_event **event),
     (channel, event), ENOMEM, -1)
CALL(int, rdma_migrate_id, (struct rdma_cm_id * id, struct rdma_event_channel *channel),
     (id, channel), ENOMEM, -1)
CALL(int, rdma_set_option, (struct rdma_cm_id * id, int level, int name, void *value, size_t len),
     (id, level, name, value, len), EINVAL, -1)
BACK(int, rdma_ack_cm_event, (struct rdma_cm_event * event), (event), EINVAL, -1)
BACK(int, rdma_destroy_id, (struct rdma_cm_id * id), (id), EINVAL, -1)

/* ---- libibverbs ------------------------------------------------------------------------------- */

#undef ibv_reg_mr
#undef ibv_query_port
CALL(struct ibv_device **, ibv_get_device_list, (int *count), (count), ENOMEM, NULL)
CALL(struct ibv_context *, ibv_open_device, (struct ibv_device * device), (device), EMFILE, NULL)
BACK(int, ibv_close_device, (struct ibv_context * context), (context), EBUSY, -1)
CALL(int, ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
     (context, attr), ENOMEM, errno)
CALL(int, ibv_query_port,
     (struct ibv_context * context, uint8_t port, struct _compat_ibv_port_attr *attr),
     (context, port, attr), ENOMEM, errno)
CALL(int, ibv_query_gid,
     (struct ibv_context * context, uint8_t port, int index, union ibv_gid *gid),
     (context, port, index, gid), ENOMEM, -1)
CALL(int, ibv_query_qp,
     (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
     (qp, attr, mask, init), ENOMEM, errno)
CALL(int, ibv_get_async_event, (struct ibv_context * context, struct ibv_async_event *event),
     (context, event), EIO, -1)
CALL(struct ibv_pd *, ibv_alloc_pd, (struct ibv_context * context), (context), ENOMEM, NULL)
BACK(int, ibv_dealloc_pd, (struct ibv_pd * pd), (pd), EBUSY, errno)
CALL(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t length, int access),
     (pd, addr, length, access), ENOMEM, NULL)
BACK(int, ibv_dereg_mr, (struct ibv_mr * mr), (mr), EBUSY, errno)
CALL(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context), (context),
     EMFILE, NULL)
BACK(int, ibv_destroy_comp_channel, (struct ibv_comp_channel * channel), (channel), EBUSY, errno)
CALL(struct ibv_cq *, ibv_create_cq,
     (struct ibv_context * context, int entries, void *cq_context, struct ibv_comp_channel *channel,
      int vector),
     (context, entries, cq_context, channel, vector), ENOMEM, NULL)
BACK(int, ibv_destroy_cq, (struct ibv_cq * cq), (cq), EBUSY, errno)
CALL(int, ibv_get_cq_event, (struct ibv_comp_channel * channel, struct ibv_cq **cq, void **context),
     (channel, cq, context), EIO, -1)

/* The table that the inline functions call through. The contexts of a process have one provider. */
static struct ibv_context_ops provider;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    if (!DUE("ibv_post_send", -1, ENOMEM))
        return provider.post_send(qp, wr, bad);
    *bad = wr;
    return errno;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    if (!DUE("ibv_post_recv", -1, ENOMEM))
        return provider.post_recv(qp, wr, bad);
    *bad = wr;
    return errno;
}

static int poll_queue(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    return DUE("ibv_poll_cq", -1, 0) ? -1 : provider.poll_cq(cq, count, wc);
}

static int arm_queue(struct ibv_cq *cq, int solicited_only)
{
    return DUE("ibv_req_notify_cq", -1, EIO) ? errno : provider.req_notify_cq(cq, solicited_only);
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    NEXT(int, rdma_create_qp, (struct rdma_cm_id *, struct ibv_pd *, struct ibv_qp_init_attr *))
    if (DUE("rdma_create_qp", -1, ENOMEM))
        return -1;
    int rc = next(id, pd, attr);
    pthread_mutex_lock(&lock);
    if (rc == 0 && id->verbs->ops.post_send != post_send) {
        struct ibv_context_ops *ops = &id->verbs->ops;
        provider = *ops;
        ops->post_send = post_send;
        ops->post_recv = post_receive;
        ops->poll_cq = poll_queue;
        ops->req_notify_cq = arm_queue;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

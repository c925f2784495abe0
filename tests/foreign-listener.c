/*
 * foreign-listener - exposes memory for RDMA writes, on librdmacm alone
 *
 * usage: foreign-listener -b ADDR [-p PORT] [-l LENGTH] [-r RESOURCES] [-n COUNT] [-o FILE] [-t SECONDS]
 *
 *   -b ADDR       listen on this address of an RDMA device
 *   -p PORT       and this port (0: any free one)
 *   -l LENGTH     bytes of memory to expose (4096)
 *   -r RESOURCES  RDMA reads that either side may have under way (1); 0: none
 *   -n COUNT      connections to serve, side by side (1)
 *   -o FILE       where the memory goes at the end
 *   -t SECONDS    time limit (60)
 *
 * Once it listens it prints one line, "ADDR PORT REMOTE_ADDR RKEY LENGTH". It knows nothing of
 * rdmaput: it reads and sends no private data, and never posts a receive. It ends when the last
 * connection has ended, or by SIGTERM. Exit status: 0; 1 when something failed, also when bytes next
 * to the exposed ones were written; 64 usage; 75 time limit.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MARGIN ((size_t)4096) /* on each side of the exposed bytes */
#define MARGIN_BYTE 0xa5

struct options {
    const char *bind, *port, *output;
    size_t length;
    uint8_t resources;
    unsigned count, seconds;
};

struct exposed {
    uint8_t *addr; /* of the exposed bytes */
    size_t length;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
};

static volatile sig_atomic_t terminated;

static _Noreturn void usage(const char *problem)
{
    fprintf(stderr, "foreign-listener: %s; see the head of its source\n", problem);
    exit(64);
}

static int fail(const char *what)
{
    fprintf(stderr, "foreign-listener: %s: %s\n", what, strerror(errno));
    return -1;
}

static uint64_t number(const char *text, uint64_t max)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' || value > max)
        usage("malformed number");
    return value;
}

static struct options parse_options(int argc, char **argv)
{
    struct options options = {
        .port = "0", .length = 4096, .resources = 1, .count = 1, .seconds = 60};
    int option;
    while ((option = getopt(argc, argv, "b:p:l:r:n:o:t:")) != -1) {
        switch (option) {
        case 'b':
            options.bind = optarg;
            break;
        case 'p':
            options.port = optarg;
            break;
        case 'l':
            options.length = number(optarg, (uint64_t)1 << 30);
            break;
        case 'r':
            options.resources = (uint8_t)number(optarg, 1);
            break;
        case 'n':
            options.count = (unsigned)number(optarg, 1000);
            break;
        case 'o':
            options.output = optarg;
            break;
        case 't':
            options.seconds = (unsigned)number(optarg, 3600);
            break;
        default:
            usage("unknown option, or one without its value");
        }
    }
    if (optind < argc)
        usage("an argument too much");
    if (!options.bind)
        usage("-b ADDR is due");
    if (options.length == 0 || options.count == 0 || options.seconds == 0)
        usage("LENGTH, COUNT and SECONDS are at least 1");
    return options;
}

/* The handler of SIGALRM: a blocked system call, too, ends by it. */
static void time_is_up(int signal_number)
{
    static const char text[] = "foreign-listener: the time limit is reached\n";
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    _exit(75);
}

static void note_termination(int signal_number)
{
    (void)signal_number;
    terminated = 1;
}

/* SIGTERM comes only while next_event waits. */
static int set_signals(unsigned seconds)
{
    struct sigaction alarmed = {.sa_handler = time_is_up};
    struct sigaction ended = {.sa_handler = note_termination};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGALRM, &alarmed, NULL) < 0 || sigaction(SIGTERM, &ended, NULL) < 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return fail("signals");
    alarm(seconds);
    return 0;
}

static int start_listening(struct rdma_cm_id *listener, const struct options *options)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int rc = getaddrinfo(options->bind, options->port, &hints, &found);
    if (rc != 0) {
        fprintf(stderr, "foreign-listener: %s port %s: %s\n", options->bind, options->port,
                gai_strerror(rc));
        return -1;
    }
    rc = rdma_bind_addr(listener, found->ai_addr);
    freeaddrinfo(found);
    if (rc < 0)
        return fail("rdma_bind_addr");
    if (!listener->verbs) {
        fprintf(stderr, "foreign-listener: %s belongs to no RDMA device\n", options->bind);
        return -1;
    }
    return rdma_listen(listener, 8) < 0 ? fail("rdma_listen") : 0;
}

static int expose(struct exposed *memory, struct ibv_context *verbs)
{
    size_t all = memory->length + 2 * MARGIN;
    uint8_t *start = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        return fail("mmap");
    memory->addr = start + MARGIN;
    memset(start, MARGIN_BYTE, MARGIN);
    memset(memory->addr + memory->length, MARGIN_BYTE, MARGIN);
    memory->pd = ibv_alloc_pd(verbs);
    if (!memory->pd)
        return fail("ibv_alloc_pd");
    memory->mr = ibv_reg_mr(memory->pd, memory->addr, memory->length,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    return memory->mr ? 0 : fail("ibv_reg_mr");
}

static void hide(struct exposed *memory)
{
    if (memory->mr)
        ibv_dereg_mr(memory->mr);
    if (memory->pd)
        ibv_dealloc_pd(memory->pd);
    if (memory->addr)
        munmap(memory->addr - MARGIN, memory->length + 2 * MARGIN);
}

static int announce(struct rdma_cm_id *listener, const struct exposed *memory,
                    const struct options *options)
{
    printf("%s %u %#llx %#lx %zu\n", options->bind, ntohs(rdma_get_src_port(listener)),
           (unsigned long long)(uintptr_t)memory->addr, (unsigned long)memory->mr->rkey,
           memory->length);
    return fflush(stdout) == 0 ? 0 : fail("standard output");
}

static int accept_client(struct rdma_cm_id *id, const struct exposed *memory, uint8_t resources)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct rdma_conn_param param = {
        .responder_resources = resources, .initiator_depth = resources, .rnr_retry_count = 6};
    if (rdma_create_qp(id, memory->pd, &attr) < 0)
        return fail("rdma_create_qp");
    return rdma_accept(id, &param) < 0 ? fail("rdma_accept") : 0;
}

static void drop_client(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

/* 1 with *event, 0 at SIGTERM, -1. */
static int next_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    struct pollfd fd = {.fd = channel->fd, .events = POLLIN};
    sigset_t none;
    sigemptyset(&none);
    while (rdma_get_cm_event(channel, event) < 0) {
        if (errno != EAGAIN)
            return fail("rdma_get_cm_event");
        if (ppoll(&fd, 1, NULL, &none) < 0 && errno != EINTR)
            return fail("ppoll");
        if (terminated)
            return 0;
    }
    return 1;
}

/* Until as many clients as wanted have come and disconnected. */
static int serve(struct rdma_event_channel *channel, const struct exposed *memory,
                 const struct options *options)
{
    for (unsigned ended = 0; ended < options->count;) {
        struct rdma_cm_event *event;
        int got = next_event(channel, &event);
        if (got <= 0)
            return got;
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        switch (type) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
            if (accept_client(id, memory, options->resources) < 0) {
                drop_client(id);
                return -1;
            }
            break;
        case RDMA_CM_EVENT_DISCONNECTED:
            rdma_disconnect(id);
            drop_client(id);
            ended++;
            break;
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_REJECTED:
            drop_client(id);
            break;
        default:
            break;
        }
    }
    return 0;
}

static bool is_untouched(const uint8_t *margin)
{
    for (size_t i = 0; i < MARGIN; i++)
        if (margin[i] != MARGIN_BYTE)
            return false;
    return true;
}

static int check_margins(const struct exposed *memory)
{
    if (is_untouched(memory->addr - MARGIN) && is_untouched(memory->addr + memory->length))
        return 0;
    fprintf(stderr, "foreign-listener: bytes outside the exposed memory were written\n");
    return -1;
}

static int save(const struct exposed *memory, const char *path)
{
    if (!path)
        return 0;
    FILE *file = fopen(path, "wb");
    if (!file)
        return fail(path);
    size_t written = fwrite(memory->addr, 1, memory->length, file);
    if (fclose(file) != 0 || written != memory->length)
        return fail(path);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    struct exposed memory = {.length = options.length};
    struct rdma_cm_id *listener = NULL;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    int rc = -1;
    if (!channel)
        fail("rdma_create_event_channel");
    else if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) < 0)
        fail("fcntl");
    else if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) < 0)
        fail("rdma_create_id");
    else if (set_signals(options.seconds) == 0 && start_listening(listener, &options) == 0 &&
             expose(&memory, listener->verbs) == 0 && announce(listener, &memory, &options) == 0)
        rc = serve(channel, &memory, &options);
    if (rc == 0)
        rc = check_margins(&memory) == 0 && save(&memory, options.output) == 0 ? 0 : -1;
    hide(&memory);
    if (listener)
        rdma_destroy_id(listener);
    if (channel)
        rdma_destroy_event_channel(channel);
    return rc == 0 ? 0 : 1;
}

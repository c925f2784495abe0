#include "config.h"

#include "nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fdio.h"

#define ANSWER_BYTES 32768
#define MOST_DEVICES 256

/* The attributes of one answer, by their number; NULL: not there. */
struct attributes {
    const struct nlattr *items[RDMA_NLDEV_ATTR_MAX];
};

/* Takes one answer. */
typedef void (*take_answer)(void *context, const struct attributes *attributes);

static int open_socket(void)
{
    /* The kernel answers at once; this is for one that does not. */
    struct timeval limit = {.tv_sec = 2};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* device: an attribute of that request; NULL: none. */
static int ask(int fd, unsigned command, unsigned flags, const uint32_t *device)
{
    struct {
        struct nlmsghdr header;
        struct nlattr attribute;
        uint32_t value;
    } request = {
        .header = {.nlmsg_len = NLMSG_LENGTH(0),
                   .nlmsg_type = (uint16_t)RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
                   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
        .attribute = {.nla_len = NLA_HDRLEN + sizeof request.value,
                      .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX},
    };
    if (device) {
        request.value = *device;
        request.header.nlmsg_len += NLA_HDRLEN + sizeof request.value;
    }
    return send(fd, &request, request.header.nlmsg_len, 0) < 0 ? -1 : 0;
}

static void parse(const struct nlmsghdr *message, struct attributes *attributes)
{
    const uint8_t *at = NLMSG_DATA(message);
    size_t left = message->nlmsg_len - NLMSG_HDRLEN;
    *attributes = (struct attributes){.items = {NULL}};
    while (left >= NLA_HDRLEN) {
        const struct nlattr *attribute = (const struct nlattr *)at;
        size_t step = NLA_ALIGN(attribute->nla_len);
        unsigned type = attribute->nla_type & NLA_TYPE_MASK;
        if (attribute->nla_len < NLA_HDRLEN || attribute->nla_len > left)
            return;
        if (type < RDMA_NLDEV_ATTR_MAX)
            attributes->items[type] = attribute;
        if (step >= left)
            return;
        at += step;
        left -= step;
    }
}

static size_t payload(const struct nlattr *attribute)
{
    return attribute ? (size_t)attribute->nla_len - NLA_HDRLEN : 0;
}

static uint32_t number(const struct attributes *attributes, unsigned type)
{
    const struct nlattr *attribute = attributes->items[type];
    uint32_t value = 0;
    if (payload(attribute) >= sizeof value)
        memcpy(&value, (const uint8_t *)attribute + NLA_HDRLEN, sizeof value);
    else if (payload(attribute) > 0)
        value = *((const uint8_t *)attribute + NLA_HDRLEN);
    return value;
}

static void text(const struct attributes *attributes, unsigned type, char *buf, size_t size)
{
    const struct nlattr *attribute = attributes->items[type];
    snprintf(buf, size, "%.*s", (int)payload(attribute),
             attribute ? (const char *)attribute + NLA_HDRLEN : "");
}

/* Takes the messages of one datagram. 1 when there are more to come, 0 at the end, -1 with errno. */
static int take_messages(const struct nlmsghdr *message, size_t len, bool single, take_answer take,
                         void *context)
{
    struct attributes attributes;
    for (; NLMSG_OK(message, len); message = NLMSG_NEXT(message, len)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 0;
        if (message->nlmsg_type == NLMSG_ERROR) {
            const struct nlmsgerr *failure = NLMSG_DATA(message);
            errno = -failure->error;
            return errno == 0 ? 0 : -1;
        }
        parse(message, &attributes);
        take(context, &attributes);
    }
    return !single;
}

/* device: as ask's; NULL: of the system, or all devices. */
static int query(unsigned command, bool dump, const uint32_t *device, take_answer take,
                 void *context)
{
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    int more = 1, fd = open_socket();
    if (fd < 0)
        return -1;
    if (ask(fd, command, dump ? NLM_F_DUMP : 0, device) < 0)
        more = -1;
    while (more > 0) {
        ssize_t len = recv(fd, answer, sizeof answer, 0);
        if (len < 0 && errno == EINTR)
            continue;
        more = len <= 0 ? -1
                        : take_messages((const struct nlmsghdr *)answer, (size_t)len, !dump, take,
                                        context);
    }
    fdio_close(&fd);
    return more;
}

/* ---- devices and ports ----------------------------------------------------------------------- */

struct devices {
    uint32_t index[MOST_DEVICES];
    char name[MOST_DEVICES][sizeof((struct nldev_link *)NULL)->device];
    size_t count;
};

static void take_device(void *context, const struct attributes *attributes)
{
    struct devices *devices = context;
    if (devices->count == MOST_DEVICES)
        return;
    devices->index[devices->count] = number(attributes, RDMA_NLDEV_ATTR_DEV_INDEX);
    text(attributes, RDMA_NLDEV_ATTR_DEV_NAME, devices->name[devices->count],
         sizeof devices->name[0]);
    devices->count++;
}

struct link_list {
    struct nldev_link *items;
    size_t count;
    const char *device;
};

static void take_port(void *context, const struct attributes *attributes)
{
    struct link_list *list = context;
    struct nldev_link *grown = realloc(list->items, (list->count + 1) * sizeof *grown);
    if (!grown)
        return;
    list->items = grown;
    struct nldev_link *link = &grown[list->count++];
    *link = (struct nldev_link){.port = number(attributes, RDMA_NLDEV_ATTR_PORT_INDEX)};
    snprintf(link->device, sizeof link->device, "%s", list->device);
    text(attributes, RDMA_NLDEV_ATTR_NDEV_NAME, link->netdev, sizeof link->netdev);
}

int nldev_links(struct nldev_link **links)
{
    struct devices devices = {.count = 0};
    struct link_list list = {.items = NULL};
    *links = NULL;
    if (query(RDMA_NLDEV_CMD_GET, true, NULL, take_device, &devices) < 0)
        return -1;
    for (size_t i = 0; i < devices.count; i++) {
        list.device = devices.name[i];
        /* One that is removed meanwhile has no ports. */
        (void)query(RDMA_NLDEV_CMD_PORT_GET, true, &devices.index[i], take_port, &list);
    }
    *links = list.items;
    return (int)list.count;
}

static void take_mode(void *context, const struct attributes *attributes)
{
    enum nldev_netns *mode = context;
    if (attributes->items[RDMA_NLDEV_SYS_ATTR_NETNS_MODE])
        *mode = number(attributes, RDMA_NLDEV_SYS_ATTR_NETNS_MODE) ? NLDEV_NETNS_SHARED
                                                                   : NLDEV_NETNS_EXCLUSIVE;
}

enum nldev_netns nldev_netns(void)
{
    enum nldev_netns mode = NLDEV_NETNS_UNKNOWN;
    (void)query(RDMA_NLDEV_CMD_SYS_GET, false, NULL, take_mode, &mode);
    return mode;
}

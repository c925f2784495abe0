/*
 * nldev.h - what the kernel's RDMA core tells over netlink, as rdma(8) asks it.
 */
#ifndef RDMAPUT_NLDEV_H
#define RDMAPUT_NLDEV_H

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>

/* A port, and the network device that belongs to it: empty when it has none in this network
 * namespace. */
struct nldev_link {
    char device[64];
    uint32_t port;
    char netdev[IF_NAMESIZE];
};

/* All of them, in *links (freed by the caller), and their count; -1 with errno. */
int nldev_links(struct nldev_link **links);

enum nldev_netns {
    NLDEV_NETNS_UNKNOWN,   /* the kernel did not tell */
    NLDEV_NETNS_EXCLUSIVE, /* a device belongs to one network namespace */
    NLDEV_NETNS_SHARED,    /* all devices are in all */
};

enum nldev_netns nldev_netns(void);

#endif

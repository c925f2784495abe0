/*
 * doctor.h - examines this host: what RDMA needs of it, layer by layer, and what mends what is missing.
 * Nothing is changed.
 */
#ifndef RDMAPUT_DOCTOR_H
#define RDMAPUT_DOCTOR_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "device.h"
#include "error.h"
#include "findings.h"
#include "nldev.h"

/* An address of a network device. */
struct doctor_address {
    char netdev[IF_NAMESIZE];
    struct sockaddr_storage addr;
};

#define DOCTOR_NAME 64

/* What the libraries and the system say of a host. */
struct doctor_host {
    const char *root;            /* files are read below it; "": this host's own */
    char (*listed)[DOCTOR_NAME]; /* devices that libibverbs has a provider for */
    size_t listed_count;
    struct device *devices; /* of them, those that can be opened */
    size_t device_count;
    struct device_address *reachable; /* addresses that rdma_cm finds a device for */
    size_t reachable_count;
    struct nldev_link *links;
    size_t link_count;
    enum nldev_netns netns;
    struct doctor_address *addresses; /* loopback ones left out */
    size_t address_count;
    uint64_t memlock;      /* bytes; UINT64_MAX: no limit */
    const char *slurm_job; /* NULL: none */
};

/* What there is of this host: what cannot be told is left empty. -1 with *err when memory is short. */
int doctor_look(struct doctor_host *host, struct error *err);
void doctor_free(struct doctor_host *host);

/* Whether the kernel, or libibverbs, has a device. */
bool doctor_has_device(const struct doctor_host *host);

/* Adds the finding "device" alone. */
void doctor_add_device(const struct doctor_host *host, struct findings *findings);

/*
 * Adds findings, for each layer after those that it needs:
 *
 *     device               there is one
 *     drivers              adapters have their RDMA module
 *     module-NAME          of ib_uverbs, rdma_ucm
 *     node-NAME            of rdma_cm, and uverbsN of each device
 *     provider-DEVICE      libibverbs has one for it
 *     port-DEVICE-N        is active
 *     link-layer-DEVICE-N
 *     netdev-DEVICE-N      is there, and up
 *     addresses-DEVICE-N   it has some, or one on top of it
 *     gids-DEVICE-N        and the device has GIDs for them
 *     mtu-DEVICE-N         packets of the active MTU fit
 *     memlock              the limit of locked memory
 *     netns                how devices and network namespaces go together
 *     container            what is missing from it
 *     reach                addresses resolve to a device
 *
 * What needs a layer that failed is skipped, with that reason.
 */
void doctor_examine(const struct doctor_host *host, struct findings *findings);

/* Whether there is a limit of locked memory that is enough for one end of a transfer, and how to raise
 * it. */
bool doctor_limits_memory(const struct doctor_host *host, char *hint, size_t size);

#endif

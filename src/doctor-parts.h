/*
 * doctor-parts.h - what the parts of the examination share.
 */
#ifndef RDMAPUT_DOCTOR_PARTS_H
#define RDMAPUT_DOCTOR_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "doctor.h"
#include "findings.h"
#include "hostfs.h"

struct doctor {
    const struct doctor_host *host;
    struct findings *findings;
    struct hostfs_names devices; /* of the kernel */
    char container[HOSTFS_NAME]; /* what kind this is in; empty: none */
    bool lacks_module, lacks_node, lacks_limit, lacks_netdev;
};

/* A finding without a time, of a device and port: "NAME-DEVICE-PORT"; device NULL: "NAME"; port 0: without
 * it. */
void doctor_add(struct doctor *doctor, enum finding_result result, const char *name,
                const char *device, unsigned port, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));

/* doctor-kernel.c: whether there are devices; modules, nodes, providers. */
void doctor_device(struct doctor *doctor);
void doctor_kernel(struct doctor *doctor);

/* doctor-ports.c: a port and what its addresses need. */
void doctor_ports(struct doctor *doctor);

/* doctor-limits.c: locked memory, network namespaces, containers. */
void doctor_find_container(struct doctor *doctor);
void doctor_limits(struct doctor *doctor);
bool doctor_counts_memory(const struct doctor *doctor);
void doctor_hint_memory(const struct doctor *doctor, char *hint, size_t size);

#endif

/*
 * doctor-limits.c - locked memory, network namespaces, and what a container lacks.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor-parts.h"
#include "memory.h"
#include "receiver.h"
#include "sender.h"
#include "units.h"

#define CAP_IPC_LOCK_BIT 14

/* ---- containers -------------------------------------------------------------------------------- */

void doctor_find_container(struct doctor *doctor)
{
    /* In the path of a control group; without a namespace of their own, the host's path shows. */
    static const struct {
        const char *part, *kind;
    } groups[] = {
        {"kubepods", "Kubernetes"},   {"docker", "Docker"},   {"libpod", "Podman"},
        {"containerd", "containerd"}, {"lxc.payload", "LXC"}, {"machine.slice/", "a machine"},
    };
    const char *root = doctor->host->root;
    char *kind = doctor->container;
    if (hostfs_exists(root, "/run/.containerenv"))
        snprintf(kind, HOSTFS_NAME, "Podman");
    else if (hostfs_exists(root, "/.dockerenv"))
        snprintf(kind, HOSTFS_NAME, "Docker");
    else
        hostfs_line(root, kind, HOSTFS_NAME, "/run/systemd/container");
    for (size_t i = 0; !kind[0] && i < sizeof groups / sizeof groups[0]; i++)
        if (hostfs_mentions(root, groups[i].part, "/proc/self/cgroup"))
            snprintf(kind, HOSTFS_NAME, "%s", groups[i].kind);
}

static void add_container(struct doctor *doctor)
{
    static const char *const names[] = {"its host's modules", "nodes below /dev/infiniband",
                                        "network devices of RDMA devices", "locked memory"};
    bool lacks[] = {doctor->lacks_module, doctor->lacks_node, doctor->lacks_netdev,
                    doctor->lacks_limit};
    char missing[160] = "";
    size_t used = 0;
    if (!doctor->container[0]) {
        doctor_add(doctor, FINDING_OK, "container", NULL, 0, NULL, "this is no container");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (lacks[i])
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s",
                                     used ? ", " : "", names[i]);
    if (used == 0)
        doctor_add(doctor, FINDING_OK, "container", NULL, 0, NULL,
                   "this is a container (%s), and nothing is missing from it", doctor->container);
    else
        doctor_add(doctor, FINDING_WARNING, "container", NULL, 0,
                   "docker and podman: --device=/dev/infiniband --ulimit memlock=-1 --network "
                   "host; Kubernetes: a device plugin for RDMA, and the network's own",
                   "this is a container (%s), from which is missing: %s", doctor->container,
                   missing);
}

/* ---- locked memory ----------------------------------------------------------------------------- */

/* Such a namespace has capabilities of its own, which the kernel does not ask for when it counts what
 * is locked: rootless containers. */
static bool is_in_user_namespace(const struct doctor *doctor)
{
    char line[128];
    unsigned long inside, outside, count;
    return hostfs_line(doctor->host->root, line, sizeof line, "/proc/self/uid_map") &&
           !(sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 && inside == 0 &&
             outside == 0 && count >= UINT32_MAX);
}

static bool has_capability(const struct doctor *doctor)
{
    char line[128] = "";
    uint64_t set = 0;
    if (is_in_user_namespace(doctor))
        return false;
    struct hostfs_lines lines = hostfs_open(doctor->host->root, "/proc/self/status");
    while (hostfs_next(&lines, line, sizeof line))
        if (sscanf(line, "CapEff: %" SCNx64, &set) == 1)
            break;
    hostfs_close(&lines);
    return set >> CAP_IPC_LOCK_BIT & 1;
}

/* siw counts what is locked whoever asks. */
static bool has_siw(const struct doctor *doctor)
{
    char description[64];
    for (size_t i = 0; i < doctor->devices.count; i++) {
        hostfs_line(doctor->host->root, description, sizeof description,
                    "/sys/class/infiniband/%s/node_desc", doctor->devices.items[i]);
        if (strstr(description, "Software iWARP"))
            return true;
    }
    return false;
}

/* The name of the systemd service that this runs in; false for none. */
static bool find_service(const struct doctor *doctor, char *name, size_t size)
{
    char line[512];
    bool found = false;
    struct hostfs_lines lines = hostfs_open(doctor->host->root, "/proc/self/cgroup");
    while (!found && hostfs_next(&lines, line, sizeof line)) {
        char *last = strrchr(line, '/');
        size_t len = last ? strlen(last) : 0;
        found = len > 8 && strcmp(last + len - 8, ".service") == 0 &&
                strncmp(last, "/user@", 6) != 0;
        if (found)
            snprintf(name, size, "%s", last + 1);
    }
    hostfs_close(&lines);
    return found;
}

void doctor_hint_memory(const struct doctor *doctor, char *hint, size_t size)
{
    char service[128];
    if (doctor->host->slurm_job)
        snprintf(hint, size,
                 "Slurm: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, and "
                 "LimitMEMLOCK=infinity for slurmd");
    else if (is_in_user_namespace(doctor))
        snprintf(
            hint, size,
            "raise the limit of the user who makes this user namespace, or starts this rootless "
            "container: memlock in /etc/security/limits.conf, LimitMEMLOCK= of user@.service; "
            "CAP_IPC_LOCK in here does not count");
    else if (doctor->container[0])
        snprintf(hint, size, "run the container with --ulimit memlock=-1, or --cap-add IPC_LOCK");
    else if (find_service(doctor, service, sizeof service))
        snprintf(hint, size, "systemd: LimitMEMLOCK=infinity in [Service] of %s ('systemctl edit')",
                 service);
    else
        snprintf(hint, size, "%s", memory_limit_hint());
}

bool doctor_counts_memory(const struct doctor *doctor)
{
    return doctor->host->memlock != UINT64_MAX && (!has_capability(doctor) || has_siw(doctor));
}

static void add_memlock(struct doctor *doctor)
{
    char limit[UNITS_TEXT], most[UNITS_TEXT], usual[UNITS_TEXT], want[96], hint[320];
    uint64_t is = doctor->host->memlock;
    uint64_t wanted = receiver_wanted_memory();
    if (sender_wanted_memory() > wanted)
        wanted = sender_wanted_memory();
    units_format_size(is, limit);
    /* What the receiver's end has besides is of files that it maps. */
    snprintf(want, sizeof want, "%s at each end, and %s at a server that writes into tmpfs",
             units_format_size(sender_wanted_memory(), usual), units_format_size(wanted, most));
    doctor_hint_memory(doctor, hint, sizeof hint);
    if (is == UINT64_MAX)
        doctor_add(doctor, FINDING_OK, "memlock", NULL, 0, NULL, "no limit of locked memory");
    else if (!doctor_counts_memory(doctor))
        doctor_add(doctor, FINDING_OK, "memlock", NULL, 0, NULL,
                   "a limit of locked memory of %s, which CAP_IPC_LOCK lifts", limit);
    else if (is >= wanted)
        doctor_add(doctor, FINDING_OK, "memlock", NULL, 0, NULL,
                   "%s may be locked, and a transfer wants %s", limit, want);
    else if (is >= receiver_least_memory())
        doctor_add(
            doctor, FINDING_WARNING, "memlock", NULL, 0, hint,
            "%s may be locked: a transfer works, but may be slower than with what it wants, %s",
            limit, want);
    else {
        doctor->lacks_limit = true;
        doctor_add(doctor, FINDING_FAILED, "memlock", NULL, 0, hint,
                   "%s may be locked, too little for a transfer, which wants %s", limit, want);
    }
}

/* ---- network namespaces ------------------------------------------------------------------------ */

static void add_netns(struct doctor *doctor)
{
    switch (doctor->host->netns) {
    case NLDEV_NETNS_SHARED:
        doctor_add(doctor, FINDING_OK, "netns", NULL, 0, NULL,
                   "RDMA devices are shared by all network namespaces");
        break;
    case NLDEV_NETNS_EXCLUSIVE:
        doctor_add(doctor, FINDING_OK, "netns", NULL, 0, NULL,
                   "an RDMA device belongs to one network namespace: 'rdma dev set DEVICE netns "
                   "NAME' moves it");
        break;
    default:
        doctor_add(doctor, FINDING_SKIPPED, "netns", NULL, 0, NULL,
                   "the kernel does not tell whether namespaces share RDMA devices");
    }
}

void doctor_limits(struct doctor *doctor)
{
    add_memlock(doctor);
    add_netns(doctor);
    add_container(doctor);
}

#include "config.h"

#include "doctor.h"

#include <errno.h>
#include <ifaddrs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "doctor-parts.h"
#include "receiver.h"

/* ---- looking ----------------------------------------------------------------------------------- */

/* What cannot be listed is no device, but where this process itself lacks something: -1 with *err. */
static int count_listed(int count, const struct error *cause, struct error *err)
{
    if (count >= 0)
        return count;
    if (cause->class != ERROR_RESOURCE)
        return 0;
    *err = *cause;
    return -1;
}

static int lack_memory(struct error *err)
{
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM, "cannot look around");
}

static int list_names(struct doctor_host *host, struct error *err)
{
    struct error cause = {.class = ERROR_NONE};
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list)
        return count_listed(device_missing_error(&cause, errno), &cause, err);
    host->listed = calloc((size_t)count + 1, sizeof *host->listed);
    for (int i = 0; host->listed && i < count; i++)
        snprintf(host->listed[host->listed_count++], DOCTOR_NAME, "%s",
                 ibv_get_device_name(list[i]));
    ibv_free_device_list(list);
    return host->listed ? 1 : lack_memory(err);
}

static int list_devices(struct doctor_host *host, struct error *err)
{
    struct error cause = {.class = ERROR_NONE};
    int rc = list_names(host, err);
    if (rc <= 0)
        return rc;
    int count = count_listed(device_list(&host->devices, &cause), &cause, err);
    if (count < 0)
        return -1;
    host->device_count = (size_t)count;
    error_clear(&cause);
    count = count_listed(device_addresses(&host->reachable, &cause), &cause, err);
    if (count < 0)
        return -1;
    host->reachable_count = (size_t)count;
    return 0;
}

static bool is_wanted(const struct ifaddrs *at)
{
    return at->ifa_addr &&
           (at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6) &&
           !address_is_loopback(at->ifa_addr);
}

static int list_addresses(struct doctor_host *host, struct error *err)
{
    struct ifaddrs *list;
    size_t most = 0;
    if (getifaddrs(&list) < 0)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno,
                               "cannot list the addresses of this host");
    for (const struct ifaddrs *at = list; at; at = at->ifa_next)
        most++;
    host->addresses = calloc(most + 1, sizeof *host->addresses);
    for (const struct ifaddrs *at = list; host->addresses && at; at = at->ifa_next) {
        if (!is_wanted(at))
            continue;
        struct doctor_address *address = &host->addresses[host->address_count++];
        snprintf(address->netdev, sizeof address->netdev, "%s", at->ifa_name);
        memcpy(&address->addr, at->ifa_addr, address_length(at->ifa_addr));
    }
    freeifaddrs(list);
    return host->addresses ? 0 : lack_memory(err);
}

int doctor_look(struct doctor_host *host, struct error *err)
{
    struct rlimit limit;
    *host = (struct doctor_host){.root = "",
                                 .netns = nldev_netns(),
                                 .memlock = UINT64_MAX,
                                 .slurm_job = getenv("SLURM_JOB_ID")};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        host->memlock = limit.rlim_cur;
    int count = nldev_links(&host->links);
    host->link_count = count > 0 ? (size_t)count : 0;
    if (list_devices(host, err) == 0 && list_addresses(host, err) == 0)
        return 0;
    doctor_free(host);
    return -1;
}

void doctor_free(struct doctor_host *host)
{
    free(host->listed);
    free(host->devices);
    free(host->reachable);
    free(host->links);
    free(host->addresses);
    *host = (struct doctor_host){.root = ""};
}

bool doctor_has_device(const struct doctor_host *host)
{
    struct hostfs_names names = hostfs_names(host->root, "/sys/class/infiniband");
    bool has = names.count > 0 || host->listed_count > 0;
    hostfs_free(&names);
    return has;
}

/* ---- examining --------------------------------------------------------------------------------- */

void doctor_add(struct doctor *doctor, enum finding_result result, const char *name,
                const char *device, unsigned port, const char *hint, const char *fmt, ...)
{
    char full[sizeof((struct finding *)NULL)->name], number[16] = "";
    char text[sizeof((struct finding *)NULL)->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (port > 0)
        snprintf(number, sizeof number, "-%u", port);
    snprintf(full, sizeof full, "%s%s%.24s%s", name, device ? "-" : "", device ? device : "",
             number);
    findings_name(full);
    findings_add(doctor->findings, result, full, hint, 0, "%s", text);
}

static void add_reach(struct doctor *doctor)
{
    char first[ADDRESS_TEXT];
    const struct doctor_host *host = doctor->host;
    if (host->reachable_count > 0)
        doctor_add(doctor, FINDING_OK, "reach", NULL, 0, NULL,
                   "%zu addresses of this host resolve to a device, such as %s",
                   host->reachable_count,
                   address_format_host((const struct sockaddr *)&host->reachable[0].addr, first));
    else if (findings_count(doctor->findings, FINDING_FAILED) > 0)
        doctor_add(doctor, FINDING_SKIPPED, "reach", NULL, 0, NULL,
                   "no address resolves to a device, for what failed above");
    else
        doctor_add(doctor, FINDING_FAILED, "reach", NULL, 0,
                   "see the kernel's messages: 'dmesg'; on InfiniBand, rdma_cm needs IPoIB: "
                   "'modprobe ib_ipoib'",
                   "no address of this host resolves to a device");
}

static struct doctor begin(const struct doctor_host *host, struct findings *findings)
{
    struct doctor doctor = {.host = host,
                            .findings = findings,
                            .devices = hostfs_names(host->root, "/sys/class/infiniband")};
    doctor_find_container(&doctor);
    return doctor;
}

void doctor_add_device(const struct doctor_host *host, struct findings *findings)
{
    struct doctor doctor = begin(host, findings);
    doctor_device(&doctor);
    hostfs_free(&doctor.devices);
}

bool doctor_limits_memory(const struct doctor_host *host, char *hint, size_t size)
{
    struct findings none = {.items = NULL};
    struct doctor doctor = begin(host, &none);
    bool limits = doctor_counts_memory(&doctor) && host->memlock >= receiver_least_memory();
    doctor_hint_memory(&doctor, hint, size);
    hostfs_free(&doctor.devices);
    return limits;
}

void doctor_examine(const struct doctor_host *host, struct findings *findings)
{
    struct doctor doctor = begin(host, findings);
    doctor_device(&doctor);
    doctor_kernel(&doctor);
    doctor_ports(&doctor);
    doctor_limits(&doctor);
    add_reach(&doctor);
    hostfs_free(&doctor.devices);
}

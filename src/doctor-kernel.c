/*
 * doctor-kernel.c - devices, kernel modules, nodes and provider libraries.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "doctor-parts.h"

#define NODES "/dev/infiniband"

/* Network drivers whose adapters have RDMA by a module of its own. */
static const struct {
    const char *driver, *module;
} companions[] = {
    {"mlx5_core", "mlx5_ib"},   {"mlx4_core", "mlx4_ib"}, {"mlx4_en", "mlx4_ib"},
    {"bnxt_en", "bnxt_re"},     {"ice", "irdma"},         {"i40e", "irdma"},
    {"idpf", "irdma"},          {"cxgb4", "iw_cxgb4"},    {"qede", "qedr"},
    {"hns3", "hns_roce_hw_v2"}, {"mana", "mana_ib"},      {"erdma", "erdma"},
    {"ionic", "ionic_rdma"},
};

/* The modules that make soft devices. */
static const char *const soft_modules[] = {"rdma_rxe", "siw"};

static bool is_loaded(const struct doctor *doctor, const char *module)
{
    return hostfs_exists(doctor->host->root, "/sys/module/%s", module);
}

/* ---- devices and their drivers --------------------------------------------------------------- */

/* Sets driver and module of the first adapter without its RDMA module. */
static bool find_lone_adapter(const struct doctor *doctor, char netdev[HOSTFS_NAME],
                              const char **driver, const char **module)
{
    const char *root = doctor->host->root;
    struct hostfs_names netdevs = hostfs_names(root, "/sys/class/net");
    bool found = false;
    for (size_t i = 0; !found && i < netdevs.count; i++) {
        char name[HOSTFS_NAME];
        hostfs_link(root, name, "/sys/class/net/%s/device/driver", netdevs.items[i]);
        for (size_t k = 0; !found && k < sizeof companions / sizeof companions[0]; k++) {
            found = strcmp(companions[k].driver, name) == 0 &&
                    !is_loaded(doctor, companions[k].module);
            *driver = companions[k].driver;
            *module = companions[k].module;
        }
        memcpy(netdev, netdevs.items[i], HOSTFS_NAME);
    }
    hostfs_free(&netdevs);
    return found;
}

static void add_drivers(struct doctor *doctor)
{
    char netdev[HOSTFS_NAME], hint[160];
    const char *driver, *module;
    if (!find_lone_adapter(doctor, netdev, &driver, &module)) {
        doctor_add(doctor, FINDING_OK, "drivers", NULL, 0, NULL,
                   "no adapter here waits for its RDMA module");
        return;
    }
    snprintf(hint, sizeof hint, "modprobe %s%s", module,
             doctor->container[0] ? ", on the container's host" : "");
    doctor_add(doctor, doctor->devices.count > 0 ? FINDING_WARNING : FINDING_FAILED, "drivers",
               NULL, 0, hint, "%s has the driver %s, and its RDMA module %s is not loaded", netdev,
               driver, module);
}

/* What the kernel here was built with, in a list of modules. */
static bool has_module_file(const struct doctor *doctor, const char *module)
{
    char file[HOSTFS_NAME + 8];
    struct utsname system;
    snprintf(file, sizeof file, "/%s.ko", module);
    return uname(&system) < 0 ||
           !hostfs_exists(doctor->host->root, "/lib/modules/%s/modules.dep", system.release) ||
           hostfs_mentions(doctor->host->root, file, "/lib/modules/%s/modules.dep",
                           system.release) ||
           hostfs_mentions(doctor->host->root, file, "/lib/modules/%s/modules.builtin",
                           system.release);
}

static void hint_soft_device(const struct doctor *doctor, char *hint, size_t size)
{
    for (size_t i = 0; i < sizeof soft_modules / sizeof soft_modules[0]; i++) {
        if (!is_loaded(doctor, soft_modules[i]) && !has_module_file(doctor, soft_modules[i]))
            continue;
        snprintf(hint, size,
                 "load the module of the adapter, or make a soft device: 'modprobe %s', 'rdma link "
                 "add NAME type %s netdev NETDEV'",
                 soft_modules[i], strcmp(soft_modules[i], "siw") == 0 ? "siw" : "rxe");
        return;
    }
    snprintf(
        hint, size,
        "this kernel's packages lack soft devices: install rdma_rxe (Ubuntu: "
        "linux-modules-extra, Debian: a kernel that is no cloud kernel), or run scripts/rxe-vm");
}

void doctor_device(struct doctor *doctor)
{
    char names[200] = "", hint[320];
    size_t used = 0;
    const struct doctor_host *host = doctor->host;
    for (size_t i = 0; i < doctor->devices.count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 doctor->devices.items[i]);
    if (doctor_has_device(host)) {
        doctor_add(doctor, FINDING_OK, "device", NULL, 0, NULL, "%s",
                   names[0] ? names : host->listed[0]);
        return;
    }
    if (host->netns == NLDEV_NETNS_EXCLUSIVE)
        snprintf(hint, sizeof hint,
                 "devices are exclusive to a network namespace here: 'rdma dev set DEVICE netns "
                 "NAME' moves one into this");
    else if (doctor->container[0])
        snprintf(hint, sizeof hint,
                 "on the container's host: load the RDMA module of the adapter, or make a soft "
                 "device; then pass /dev/infiniband on");
    else
        hint_soft_device(doctor, hint, sizeof hint);
    doctor_add(doctor, FINDING_FAILED, "device", NULL, 0, hint, "no RDMA device on this host");
}

/* ---- modules --------------------------------------------------------------------------------- */

/* Built into the kernel, a module shows only by what it makes. */
static bool add_module(struct doctor *doctor, const char *module, const char *sign,
                       const char *purpose)
{
    char hint[96], name[HOSTFS_NAME];
    snprintf(name, sizeof name, "module-%s", module);
    if (is_loaded(doctor, module) || hostfs_exists(doctor->host->root, "%s", sign)) {
        doctor_add(doctor, FINDING_OK, name, NULL, 0, NULL, "%s is loaded", module);
        return true;
    }
    doctor->lacks_module = true;
    snprintf(hint, sizeof hint, "modprobe %s%s", module,
             doctor->container[0] ? ", on the container's host" : "");
    doctor_add(doctor, FINDING_FAILED, name, NULL, 0, hint, "%s is not loaded: programs cannot %s",
               module, purpose);
    return false;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void hint_node(const struct doctor *doctor, const char *node, int errnum, char *hint,
                      size_t size)
{
    if (doctor->container[0])
        snprintf(hint, size,
                 "pass it on to the container: --device=" NODES "/%s (all of them: --device=" NODES
                 ")",
                 node);
    else if (errnum == EACCES || errnum == EPERM)
        snprintf(hint, size, "chmod 0666 " NODES "/%s; for good, udev's rules of rdma-core do so",
                 node);
    else
        snprintf(hint, size,
                 "udev makes it: 'udevadm trigger --subsystem-match=infiniband_verbs "
                 "--subsystem-match=misc'; without udev: mknod, by /sys/class/*/*/dev");
}

static void add_node(struct doctor *doctor, const char *node, bool module, const char *device)
{
    char name[2 * HOSTFS_NAME], hint[320];
    const char *of = device ? device : "connections";
    snprintf(name, sizeof name, "node-%s", node);
    if (!module) {
        doctor_add(doctor, FINDING_SKIPPED, name, NULL, 0, NULL, "its module is not loaded");
        return;
    }
    int errnum = hostfs_try(doctor->host->root, NODES "/%s", node);
    if (errnum == 0) {
        doctor_add(doctor, FINDING_OK, name, NULL, 0, NULL,
                   NODES "/%s, of %s, can be read and written", node, of);
        return;
    }
    doctor->lacks_node = true;
    hint_node(doctor, node, errnum, hint, sizeof hint);
    doctor_add(doctor, FINDING_FAILED, name, NULL, 0, hint, "cannot open " NODES "/%s, of %s: %s",
               node, of, strerror(errnum));
}

/* Sets uverbs to the name of a device's node; empty where the kernel tells none. */
static void find_uverbs(const struct doctor *doctor, const char *device, char uverbs[HOSTFS_NAME])
{
    struct hostfs_names nodes = hostfs_names(doctor->host->root, "/sys/class/infiniband_verbs");
    uverbs[0] = '\0';
    for (size_t i = 0; i < nodes.count && !uverbs[0]; i++) {
        char of[HOSTFS_NAME];
        hostfs_line(doctor->host->root, of, sizeof of, "/sys/class/infiniband_verbs/%s/ibdev",
                    nodes.items[i]);
        if (strcmp(of, device) == 0)
            memcpy(uverbs, nodes.items[i], HOSTFS_NAME);
    }
    hostfs_free(&nodes);
}

static void add_nodes(struct doctor *doctor, bool has_uverbs, bool has_ucm)
{
    char uverbs[HOSTFS_NAME];
    add_node(doctor, "rdma_cm", has_ucm, NULL);
    for (size_t i = 0; i < doctor->devices.count; i++) {
        const char *device = doctor->devices.items[i];
        find_uverbs(doctor, device, uverbs);
        if (uverbs[0])
            add_node(doctor, uverbs, has_uverbs, device);
    }
}

/* ---- providers ------------------------------------------------------------------------------- */

static bool is_listed(const struct doctor_host *host, const char *device)
{
    for (size_t i = 0; i < host->listed_count; i++)
        if (strcmp(host->listed[i], device) == 0)
            return true;
    return false;
}

/* Devices that make no reliable connections, by what the kernel calls them. */
static bool lacks_connections(const struct doctor *doctor, const char *device)
{
    char type[32];
    hostfs_line(doctor->host->root, type, sizeof type, "/sys/class/infiniband/%s/node_type",
                device);
    return strstr(type, "usNIC") || strstr(type, "unspecified");
}

/* Whether its node, as far as the kernel tells of one, can be used. */
static bool has_node(const struct doctor *doctor, const char *device)
{
    char uverbs[HOSTFS_NAME];
    find_uverbs(doctor, device, uverbs);
    return !uverbs[0] || hostfs_try(doctor->host->root, NODES "/%s", uverbs) == 0;
}

static void add_provider(struct doctor *doctor, const char *device, bool has_uverbs)
{
    bool listed = is_listed(doctor->host, device);
    if (!has_uverbs)
        doctor_add(doctor, FINDING_SKIPPED, "provider", device, 0, NULL,
                   "libibverbs sees no device without ib_uverbs");
    else if (!listed && !has_node(doctor, device))
        doctor_add(doctor, FINDING_SKIPPED, "provider", device, 0, NULL,
                   "libibverbs sees no device whose node it cannot use");
    else if (!listed)
        doctor_add(
            doctor, FINDING_FAILED, "provider", device, 0,
            "install its provider library: ibverbs-providers (Debian, Ubuntu), libibverbs "
            "(Fedora), rdma-core (Alpine), or its vendor's; 'ibv_devices' lists what it sees",
            "the kernel has %s, and libibverbs has no provider for it", device);
    else if (lacks_connections(doctor, device))
        doctor_add(doctor, FINDING_FAILED, "provider", device, 0,
                   "use another device: EFA and usNIC have no reliable connections",
                   "%s makes no reliable connections, which RDMA writes through rdma_cm need",
                   device);
    else
        doctor_add(doctor, FINDING_OK, "provider", device, 0, NULL,
                   "libibverbs has a provider for %s", device);
}

void doctor_kernel(struct doctor *doctor)
{
    add_drivers(doctor);
    bool has_uverbs = add_module(doctor, "ib_uverbs", "/sys/class/infiniband_verbs",
                                 "use a device");
    bool has_ucm = add_module(doctor, "rdma_ucm", "/sys/class/misc/rdma_cm", "connect");
    add_nodes(doctor, has_uverbs, has_ucm);
    for (size_t i = 0; i < doctor->devices.count; i++)
        add_provider(doctor, doctor->devices.items[i], has_uverbs);
}

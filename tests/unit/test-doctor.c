/*
 * test-doctor.c - what the examination of a host finds, on hosts that are directories: one in order, and
 * that one with one thing wrong at a time.
 */
#include "config.h"

#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

#define PATH 256

static char root[PATH];
static struct doctor_host host;
static struct findings findings;

/* ---- a host ------------------------------------------------------------------------------------ */

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
}

/* A file of the host, anew, with that text. */
static void put(const char *path, const char *text)
{
    char full[2 * PATH];
    snprintf(full, sizeof full, "%s%s", root, path);
    make_parents(full);
    unlink(full);
    sandbox_make(full, text, strlen(text), 0666);
}

static void put_link(const char *path, const char *target)
{
    char full[2 * PATH];
    snprintf(full, sizeof full, "%s%s", root, path);
    make_parents(full);
    assert_int_equal(symlink(target, full), 0);
}

static void put_directory(const char *path)
{
    char full[2 * PATH];
    snprintf(full, sizeof full, "%s%s/", root, path);
    make_parents(full);
}

/* With all that is in it. */
static void take(const char *path)
{
    char command[3 * PATH];
    snprintf(command, sizeof command, "rm -r '%s%s'", root, path);
    assert_int_equal(system(command), 0);
}

#define RXE "/sys/class/infiniband/rxe0"
#define SIW "/sys/class/infiniband/siw0"

static void put_port(const char *device, const char *layer, const char *gid)
{
    char path[PATH];
    const struct {
        const char *name, *text;
    } files[] = {{"state", "4: ACTIVE\n"},
                 {"phys_state", "5: LinkUp\n"},
                 {"link_layer", layer},
                 {"gids/0", gid},
                 {"gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/ports/1/%s", device, files[i].name);
        put(path, files[i].text);
    }
}

static void put_netdev(const char *name)
{
    char path[PATH];
    const struct {
        const char *name, *text;
    } files[] = {{"flags", "0x1003\n"}, {"carrier", "1\n"}, {"mtu", "1500\n"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, files[i].name);
        put(path, files[i].text);
    }
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage addr = {.ss_family = strchr(text, ':') ? AF_INET6 : AF_INET};
    void *at = addr.ss_family == AF_INET ? (void *)&((struct sockaddr_in *)&addr)->sin_addr
                                         : (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr;
    assert_int_equal(inet_pton(addr.ss_family, text, at), 1);
    return addr;
}

/* A host with one device of RoCE, all of which is in order. */
static int set_up(void **state)
{
    static char listed[2][DOCTOR_NAME];
    static struct device devices[2];
    static struct nldev_link links[2];
    static struct doctor_address addresses[3];
    static struct device_address reachable[2];
    (void)state;
    snprintf(root, sizeof root, "%s/root", sandbox_path);
    put("/sys/module/ib_uverbs/version", "");
    put("/sys/module/rdma_ucm/version", "");
    put("/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n");
    put("/sys/class/misc/rdma_cm/dev", "10:120\n");
    put("/dev/infiniband/rdma_cm", "");
    put("/dev/infiniband/uverbs0", "");
    put(RXE "/node_type", "1: CA\n");
    put(RXE "/node_desc", "rxe\n");
    put_port(RXE, "Ethernet\n", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n");
    put_netdev("dummy0");
    put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    put("/proc/self/cgroup", "0::/user.slice/session-1.scope\n");
    strcpy(listed[0], "rxe0");
    strcpy(listed[1], "siw0");
    devices[0] = (struct device){.name = "rxe0", .port_count = 1};
    devices[0].ports[0] = (struct device_port){.number = 1, .active_mtu_bytes = 1024};
    links[0] = (struct nldev_link){.device = "rxe0", .port = 1, .netdev = "dummy0"};
    links[1] = (struct nldev_link){.device = "siw0", .port = 1, .netdev = "dummy1"};
    addresses[0] = (struct doctor_address){.netdev = "dummy0", .addr = address("10.77.0.1")};
    addresses[1] = (struct doctor_address){.netdev = "eth0", .addr = address("192.0.2.1")};
    reachable[0] = (struct device_address){
        .device = "rxe0", .port = 1, .netdev = "dummy0", .addr = address("10.77.0.1")};
    host = (struct doctor_host){.root = root,
                                .listed = listed,
                                .listed_count = 1,
                                .devices = devices,
                                .device_count = 1,
                                .reachable = reachable,
                                .reachable_count = 1,
                                .links = links,
                                .link_count = 1,
                                .netns = NLDEV_NETNS_SHARED,
                                .addresses = addresses,
                                .address_count = 2,
                                .memlock = UINT64_MAX};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    findings_free(&findings);
    sandbox_empty();
    return 0;
}

/* ---- what was found ---------------------------------------------------------------------------- */

static void examine(void)
{
    findings_free(&findings);
    doctor_examine(&host, &findings);
    assert_false(findings.short_of_memory);
}

static const struct finding *find(const char *name)
{
    for (size_t i = 0; i < findings.count; i++)
        if (strcmp(findings.items[i].name, name) == 0)
            return &findings.items[i];
    fail_msg("there is no finding %s", name);
    return NULL;
}

/* The finding has this result, and text and hint hold these parts. */
static void assert_finding(const char *name, enum finding_result result, const char *text,
                           const char *hint)
{
    const struct finding *finding = find(name);
    if (finding->result != result || !strstr(finding->text, text) || !strstr(finding->hint, hint))
        fail_msg("%s: %s: '%s', hint '%s'", name, finding_result_name(finding->result),
                 finding->text, finding->hint);
}

/* The host is examined, and this is the only thing that is not in order. */
static void assert_only(const char *name, enum finding_result result, const char *text,
                        const char *hint)
{
    examine();
    assert_finding(name, result, text, hint);
    for (size_t i = 0; i < findings.count; i++)
        if (findings.items[i].result >= FINDING_FAILED ||
            findings.items[i].result == FINDING_WARNING)
            assert_string_equal(findings.items[i].name, name);
}

/* ---- the tests --------------------------------------------------------------------------------- */

static void a_host_in_order(void **state)
{
    static const char *const names[] = {
        "device",
        "drivers",
        "module-ib-uverbs",
        "module-rdma-ucm",
        "node-rdma-cm",
        "node-uverbs0",
        "provider-rxe0",
        "port-rxe0-1",
        "link-layer-rxe0-1",
        "netdev-rxe0-1",
        "addresses-rxe0-1",
        "gids-rxe0-1",
        "mtu-rxe0-1",
        "memlock",
        "netns",
        "container",
        "reach",
    };
    (void)state;
    examine();
    assert_int_equal(findings.count, sizeof names / sizeof names[0]);
    for (size_t i = 0; i < findings.count; i++) {
        assert_string_equal(findings.items[i].name, names[i]);
        assert_finding(names[i], FINDING_OK, "", "");
        assert_string_equal(findings.items[i].hint, "");
    }
    assert_true(doctor_has_device(&host));
}

/* Who has no device hears how to get one. */
static void no_device(void **state)
{
    (void)state;
    take("/sys");
    take("/dev");
    host.listed_count = host.device_count = host.link_count = host.reachable_count = 0;
    examine();
    assert_false(doctor_has_device(&host));
    assert_finding("device", FINDING_FAILED, "no RDMA device", "modprobe rdma_rxe");
    assert_finding("module-ib-uverbs", FINDING_FAILED, "not loaded", "modprobe ib_uverbs");
    assert_finding("node-rdma-cm", FINDING_SKIPPED, "", "");
    assert_finding("reach", FINDING_SKIPPED, "", "");
    host.netns = NLDEV_NETNS_EXCLUSIVE;
    examine();
    assert_finding("device", FINDING_FAILED, "no RDMA device", "rdma dev set");
}

/* Ubuntu has soft devices in a package of its own, cloud kernels have none. */
static void a_kernel_without_soft_devices(void **state)
{
    struct utsname system;
    char path[PATH];
    (void)state;
    take("/sys");
    host.listed_count = host.device_count = host.link_count = host.reachable_count = 0;
    uname(&system);
    snprintf(path, sizeof path, "/lib/modules/%s/modules.dep", system.release);
    put(path, "kernel/a.ko:\n");
    examine();
    assert_finding("device", FINDING_FAILED, "no RDMA device", "linux-modules-extra");
    put(path, "kernel/a.ko:\nkernel/drivers/infiniband/sw/siw/siw.ko.xz: kernel/a.ko\n");
    examine();
    assert_finding("device", FINDING_FAILED, "no RDMA device", "modprobe siw");
}

static void a_device_that_only_libibverbs_knows(void **state)
{
    (void)state;
    take("/sys/class/infiniband");
    assert_true(doctor_has_device(&host));
    examine();
    assert_finding("device", FINDING_OK, "rxe0", "");
}

static void an_adapter_without_its_rdma_module(void **state)
{
    (void)state;
    put_link("/sys/class/net/dummy0/device/driver", "../../../bus/pci/drivers/mlx5_core");
    assert_only("drivers", FINDING_WARNING, "dummy0 has the driver mlx5_core", "modprobe mlx5_ib");
    take("/sys/class/infiniband");
    host.listed_count = 0;
    examine();
    assert_finding("drivers", FINDING_FAILED, "mlx5_ib is not loaded", "modprobe mlx5_ib");
    put("/sys/module/mlx5_ib/version", "");
    examine();
    assert_finding("drivers", FINDING_OK, "", "");
}

static void modules_that_are_not_loaded(void **state)
{
    (void)state;
    take("/sys/module/rdma_ucm");
    take("/sys/class/misc");
    assert_only("module-rdma-ucm", FINDING_FAILED, "cannot connect", "modprobe rdma_ucm");
    assert_finding("node-rdma-cm", FINDING_SKIPPED, "module", "");
    put("/sys/class/misc/rdma_cm/dev", "10:120\n"); /* built in */
    take("/sys/module/ib_uverbs");
    take("/sys/class/infiniband_verbs");
    assert_only("module-ib-uverbs", FINDING_FAILED, "cannot use a device", "modprobe ib_uverbs");
    assert_finding("provider-rxe0", FINDING_SKIPPED, "ib_uverbs", "");
}

static void nodes_that_are_not_there(void **state)
{
    (void)state;
    take("/dev/infiniband/rdma_cm");
    assert_only("node-rdma-cm", FINDING_FAILED,
                "/dev/infiniband/rdma_cm, of connections: No such file", "udevadm trigger");
    put("/dev/infiniband/rdma_cm", "");
    take("/dev/infiniband/uverbs0");
    assert_only("node-uverbs0", FINDING_FAILED, "/dev/infiniband/uverbs0, of rxe0: No such file",
                "udevadm trigger");
    /* libibverbs does not list such a device, whatever its provider. */
    host.listed_count = 0;
    assert_only("node-uverbs0", FINDING_FAILED, "No such file", "udevadm trigger");
    assert_finding("provider-rxe0", FINDING_SKIPPED, "node", "");
}

/* By one who is neither root, who may do all, nor the owner. */
static void nodes_that_cannot_be_used(void **state)
{
    static const mode_t modes[] = {0600, 0644};
    char path[2 * PATH];
    bool is_root = geteuid() == 0;
    (void)state;
    chmod(sandbox_path, 0755);
    snprintf(path, sizeof path, "%s/dev/infiniband/uverbs0", root);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        chmod(path, is_root ? modes[i] : modes[i] & 0444);
        if (is_root)
            assert_int_equal(seteuid(65534), 0);
        examine();
        if (is_root)
            assert_int_equal(seteuid(0), 0);
        assert_finding("node-uverbs0", FINDING_FAILED, "Permission denied",
                       "chmod 0666 /dev/infiniband/uverbs0");
    }
}

static void a_device_without_a_provider(void **state)
{
    (void)state;
    host.listed_count = 0;
    assert_only("provider-rxe0", FINDING_FAILED, "no provider for it", "ibverbs-providers");
}

static void a_device_without_reliable_connections(void **state)
{
    (void)state;
    put(RXE "/node_type", "7: unspecified\n");
    assert_only("provider-rxe0", FINDING_FAILED, "no reliable connections", "another device");
}

static void ports_that_are_not_active(void **state)
{
    (void)state;
    put(RXE "/ports/1/state", "1: DOWN\n");
    put(RXE "/ports/1/phys_state", "3: Disabled\n");
    assert_only("port-rxe0-1", FINDING_FAILED, "port 1 of rxe0 is DOWN, its link is Disabled",
                "ip link set dummy0 up");
    put(RXE "/ports/1/link_layer", "InfiniBand\n");
    assert_only("port-rxe0-1", FINDING_FAILED, "is DOWN", "ibportstate 0 1 enable");
    put(RXE "/ports/1/phys_state", "2: Polling\n");
    assert_only("port-rxe0-1", FINDING_FAILED, "its link is Polling", "cable");
    put(RXE "/ports/1/state", "2: INIT\n");
    assert_only("port-rxe0-1", FINDING_FAILED, "is INIT", "opensm");
}

/* What files do not tell is no fault of the host. */
static void files_that_cannot_be_read(void **state)
{
    (void)state;
    host.devices[0].ports[0].state = IBV_PORT_ACTIVE;
    take(RXE "/ports/1/state");
    take("/sys/class/net/dummy0/mtu");
    assert_only("port-rxe0-1", FINDING_OK, "port 1 of rxe0 is active", "");
    assert_finding("mtu-rxe0-1", FINDING_SKIPPED, "the MTU of dummy0 cannot be read", "");
    host.devices[0].ports[0].state = IBV_PORT_INIT;
    assert_only("port-rxe0-1", FINDING_FAILED, "port 1 of rxe0 is INIT", "");
    host.device_count = 0;
    assert_only("port-rxe0-1", FINDING_FAILED, "in no known state", "");
}

static void a_link_layer_that_is_none(void **state)
{
    (void)state;
    put(RXE "/ports/1/link_layer", "Unknown\n");
    assert_only("link-layer-rxe0-1", FINDING_WARNING, "'Unknown'", "mlxconfig");
}

static void a_network_device_that_is_down(void **state)
{
    (void)state;
    put("/sys/class/net/dummy0/flags", "0x1002\n");
    assert_only("netdev-rxe0-1", FINDING_FAILED, "dummy0, of rxe0 port 1, is down",
                "ip link set dummy0 up");
    assert_finding("addresses-rxe0-1", FINDING_SKIPPED, "up", "");
    assert_finding("gids-rxe0-1", FINDING_SKIPPED, "up", "");
    assert_finding("mtu-rxe0-1", FINDING_SKIPPED, "up", "");
}

static void a_network_device_without_carrier(void **state)
{
    (void)state;
    put("/sys/class/net/dummy0/carrier", "0\n");
    assert_only("netdev-rxe0-1", FINDING_FAILED, "no carrier", "cable");
}

static void a_port_without_a_network_device(void **state)
{
    (void)state;
    host.links[0].netdev[0] = '\0';
    host.reachable_count = 0;
    put(RXE "/ports/1/gid_attrs/ndevs/0", "dummy0\n"); /* of another namespace */
    assert_only("netdev-rxe0-1", FINDING_FAILED, "no network device in this network namespace",
                "rdma link show");
    put(RXE "/ports/1/link_layer", "InfiniBand\n");
    assert_only("netdev-rxe0-1", FINDING_FAILED, "no IPoIB", "modprobe ib_ipoib");
    put_directory(RXE "/device/net/ib0");
    put_netdev("ib0");
    host.addresses[1].addr = address("10.0.0.1");
    strcpy(host.addresses[1].netdev, "ib0");
    examine();
    assert_finding("addresses-rxe0-1", FINDING_OK, "ib0 has 10.0.0.1", "");
}

/* Kernels that do not tell by netlink do so in files. */
static void network_devices_as_files_tell(void **state)
{
    (void)state;
    host.link_count = 0;
    put(RXE "/ports/1/gid_attrs/ndevs/1", "dummy0\n");
    examine();
    assert_finding("netdev-rxe0-1", FINDING_OK, "dummy0", "");
    take(RXE "/ports/1/gid_attrs");
    put(RXE "/parent", "dummy0\n");
    examine();
    assert_finding("netdev-rxe0-1", FINDING_OK, "dummy0", "");
    take(RXE "/parent");
    put_directory(RXE "/device/net/eth7");
    put_directory(RXE "/device/net/dummy0");
    put("/sys/class/net/eth7/dev_port", "1\n");
    put("/sys/class/net/dummy0/dev_port", "0\n");
    examine();
    assert_finding("netdev-rxe0-1", FINDING_OK, "dummy0", "");
}

static void a_network_device_without_addresses(void **state)
{
    (void)state;
    host.addresses[0].addr = address("fe80::1");
    host.reachable_count = 0;
    put(RXE "/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    assert_only("addresses-rxe0-1", FINDING_FAILED, "no address but link-local",
                "ip address add ADDRESS/PREFIX dev dummy0");
    assert_finding("reach", FINDING_SKIPPED, "above", "");
}

/* What rdma_cm finds the port by is as good as its own network device. */
static void addresses_of_another_network_device(void **state)
{
    (void)state;
    strcpy(host.addresses[1].netdev, "dummy0.5");
    host.addresses[0].addr = address("fe80::1");
    host.reachable[0] = (struct device_address){
        .device = "rxe0", .port = 1, .netdev = "dummy0.5", .addr = address("192.0.2.1")};
    put(RXE "/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    put(RXE "/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:c000:0201\n");
    assert_only("addresses-rxe0-1", FINDING_OK, "dummy0 has 192.0.2.1 by dummy0.5", "");
    /* Another port's is not. */
    host.reachable[0].port = 2;
    assert_only("addresses-rxe0-1", FINDING_FAILED, "no address but link-local", "");
    host.addresses[0].addr = address("10.77.0.1");
    put(RXE "/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a4d:0001\n");
    assert_only("addresses-rxe0-1", FINDING_WARNING, "rdma_cm finds rxe0 port 1 by none of them",
                "rdmaput devices");
    host.addresses[0].addr = address("fe80::1");
    put(RXE "/ports/1/gids/0", "fe80:0000:0000:0000:0000:0000:0000:0001\n");
    /* In a container the port's own is not there. */
    host.reachable[0].port = 1;
    host.links[0].netdev[0] = '\0';
    put_netdev("dummy0.5");
    assert_only("addresses-rxe0-1", FINDING_OK, "dummy0.5 has 192.0.2.1", "");
    assert_finding("netdev-rxe0-1", FINDING_OK, "dummy0.5, of rxe0 port 1, is up", "");
}

static void addresses_without_gids(void **state)
{
    (void)state;
    host.addresses[1] = (struct doctor_address){.netdev = "dummy0", .addr = address("fd00:77::1")};
    assert_only("gids-rxe0-1", FINDING_WARNING, "no GID for the address fd00:77::1", "dummy0");
    put(RXE "/ports/1/gids/1", "fd00:0077:0000:0000:0000:0000:0000:0001\n");
    examine();
    assert_finding("gids-rxe0-1", FINDING_OK, "2 GIDs", "");
    take(RXE "/ports/1/gids");
    host.address_count = 0;
    examine();
    assert_finding("gids-rxe0-1", FINDING_FAILED, "no GID", "address");
}

static void set_mtu(const char *netdev, uint32_t active)
{
    put("/sys/class/net/dummy0/mtu", netdev);
    host.devices[0].ports[0].active_mtu_bytes = active;
}

static void mtus(void **state)
{
    (void)state;
    set_mtu("300\n", 256);
    assert_only("mtu-rxe0-1", FINDING_FAILED,
                "active MTU, 256, do not fit into the MTU of dummy0, 300",
                "ip link set dummy0 mtu");
    set_mtu("576\n", 256);
    assert_only("mtu-rxe0-1", FINDING_WARNING, "256 is slow", "ip link set dummy0 mtu");
    set_mtu("9000\n", 1024);
    assert_only("mtu-rxe0-1", FINDING_WARNING, "9000, allows 4096", "down and up");
    set_mtu("9000\n", 4096);
    assert_only("mtu-rxe0-1", FINDING_OK, "4096", "");
    set_mtu("4155\n", 4096);
    assert_only("mtu-rxe0-1", FINDING_FAILED, "do not fit", "mtu");
    set_mtu("4156\n", 4096);
    assert_only("mtu-rxe0-1", FINDING_OK, "4096", "");
    host.device_count = 0;
    assert_only("mtu-rxe0-1", FINDING_SKIPPED, "cannot be opened", "");
}

static void limits_of_locked_memory(void **state)
{
    (void)state;
    host.memlock = 64 << 20;
    /* As the pages say. */
    assert_only("memlock", FINDING_OK,
                "64.00 MiB may be locked, and a transfer wants 1.10 MiB at each end, and 2.10 MiB at "
                "a server that writes into tmpfs",
                "");
    host.memlock = 1 << 20;
    assert_only("memlock", FINDING_WARNING, "1.00 MiB may be locked: a transfer works",
                "limits.conf");
    host.memlock = 0;
    assert_only("memlock", FINDING_FAILED, "0 B may be locked, too little", "limits.conf");
    put("/proc/self/status", "Name:\tx\nCapEff:\t0000000000004000\n");
    assert_only("memlock", FINDING_OK, "CAP_IPC_LOCK", "");
    put("/proc/self/uid_map", "         0          0 4294967295\n");
    assert_only("memlock", FINDING_OK, "CAP_IPC_LOCK", "");
    /* One of a user namespace's own lifts nothing. */
    put("/proc/self/uid_map", "         0       1000          1\n");
    assert_only("memlock", FINDING_FAILED, "0 B", "the user who makes this user namespace");
    put("/proc/self/uid_map", "         0          0 4294967295\n");
    /* Which siw does not care for. */
    put(RXE "/node_desc", "Software iWARP stack\n");
    assert_only("memlock", FINDING_FAILED, "0 B", "limits.conf");
}

static void where_the_limit_is_raised(void **state)
{
    (void)state;
    host.memlock = 0;
    put("/proc/self/cgroup", "0::/system.slice/transfer.service\n");
    assert_only("memlock", FINDING_FAILED, "",
                "LimitMEMLOCK=infinity in [Service] of transfer.service");
    put("/proc/self/cgroup", "0::/user.slice/user-1.slice/user@1.service\n");
    assert_only("memlock", FINDING_FAILED, "", "limits.conf");
    host.slurm_job = "17";
    assert_only("memlock", FINDING_FAILED, "", "PropagateResourceLimitsExcept=MEMLOCK");
    host.slurm_job = NULL;
    put("/.dockerenv", "");
    examine();
    assert_finding("memlock", FINDING_FAILED, "", "--ulimit memlock=-1");
}

static void network_namespaces(void **state)
{
    (void)state;
    host.netns = NLDEV_NETNS_UNKNOWN;
    assert_only("netns", FINDING_SKIPPED, "does not tell", "");
    host.netns = NLDEV_NETNS_EXCLUSIVE;
    assert_only("netns", FINDING_OK, "one network namespace", "");
}

static void containers(void **state)
{
    (void)state;
    put("/.dockerenv", "");
    assert_only("container", FINDING_OK, "container (Docker), and nothing is missing", "");
    take("/dev/infiniband");
    host.memlock = 0;
    host.links[0].netdev[0] = '\0';
    host.reachable_count = 0;
    examine();
    assert_finding("node-rdma-cm", FINDING_FAILED, "", "--device=/dev/infiniband/rdma_cm");
    assert_finding("netdev-rxe0-1", FINDING_FAILED, "", "--network host");
    assert_finding("container", FINDING_WARNING,
                   "missing: nodes below /dev/infiniband, network devices of RDMA devices, locked "
                   "memory",
                   "--device=/dev/infiniband --ulimit memlock=-1");
    take("/.dockerenv");
    put("/proc/self/cgroup", "0::/kubepods.slice/x\n");
    examine();
    assert_finding("container", FINDING_WARNING, "(Kubernetes)", "device plugin");
    put("/run/systemd/container", "lxc\n");
    examine();
    assert_finding("container", FINDING_WARNING, "(lxc)", "");
}

static void addresses_that_resolve_to_nothing(void **state)
{
    (void)state;
    host.reachable_count = 0;
    assert_only("reach", FINDING_FAILED, "no address of this host resolves", "dmesg");
}

/* One that is wrong does not hide that another is right. */
static void two_devices(void **state)
{
    (void)state;
    put(SIW "/node_type", "4: RNIC\n");
    put(SIW "/node_desc", "Software iWARP stack\n");
    put_port(SIW, "Ethernet\n", "0200:0000:0000:0000:0000:0000:0000:0000\n");
    put("/sys/class/infiniband_verbs/uverbs1/ibdev", "siw0\n");
    put("/dev/infiniband/uverbs1", "");
    put_netdev("dummy1");
    put("/sys/class/net/dummy1/mtu", "1000\n");
    host.link_count = host.listed_count = host.device_count = 2;
    host.devices[1] = (struct device){.name = "siw0", .port_count = 1};
    host.devices[1].ports[0] = (struct device_port){.number = 1, .active_mtu_bytes = 1024};
    host.addresses[1] = (struct doctor_address){.netdev = "dummy1", .addr = address("10.77.1.1")};
    host.reachable[1] = (struct device_address){
        .device = "siw0", .port = 1, .netdev = "dummy1", .addr = address("10.77.1.1")};
    host.reachable_count = 2;
    assert_only("mtu-siw0-1", FINDING_WARNING, "1000, is too small for IPv6", "dummy1");
    assert_finding("device", FINDING_OK, "rxe0, siw0", "");
    assert_finding("link-layer-siw0-1", FINDING_OK, "iWARP", "");
    assert_finding("gids-siw0-1", FINDING_OK, "has 1 GID", "");
    host.listed_count = 1;
    examine();
    assert_finding("provider-rxe0", FINDING_OK, "", "");
    assert_finding("provider-siw0", FINDING_FAILED, "siw0", "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_host_in_order),
        TEST(no_device),
        TEST(a_kernel_without_soft_devices),
        TEST(a_device_that_only_libibverbs_knows),
        TEST(an_adapter_without_its_rdma_module),
        TEST(modules_that_are_not_loaded),
        TEST(nodes_that_are_not_there),
        TEST(nodes_that_cannot_be_used),
        TEST(a_device_without_a_provider),
        TEST(a_device_without_reliable_connections),
        TEST(ports_that_are_not_active),
        TEST(files_that_cannot_be_read),
        TEST(a_link_layer_that_is_none),
        TEST(a_network_device_that_is_down),
        TEST(a_network_device_without_carrier),
        TEST(a_port_without_a_network_device),
        TEST(network_devices_as_files_tell),
        TEST(a_network_device_without_addresses),
        TEST(addresses_of_another_network_device),
        TEST(addresses_without_gids),
        TEST(mtus),
        TEST(limits_of_locked_memory),
        TEST(where_the_limit_is_raised),
        TEST(network_namespaces),
        TEST(containers),
        TEST(addresses_that_resolve_to_nothing),
        TEST(two_devices),
    };
    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

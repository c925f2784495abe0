/*
 * doctor-ports.c - ports, their network devices, addresses, GIDs and MTU.
 */
#include "config.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor-parts.h"

#define MOST_GIDS 1024
#define GID_TEXT 40 /* "fe80:0000:..." */
#define NO_GID "0000:0000:0000:0000:0000:0000:0000:0000"

/* What a packet of RoCE has besides its data, at least, and with every extension that drivers count. */
#define ROCE_LEAST_HEADERS 60
#define ROCE_MOST_HEADERS 100
#define IPV6_LEAST_MTU 1280
#define USUAL_ACTIVE_MTU 1024

struct port {
    const char *device;
    unsigned number;
    char kind[12]; /* "InfiniBand", "RoCE", "iWARP" */
    bool active;
    char netdev[HOSTFS_NAME]; /* empty: none */
    bool netdev_up;
    size_t address_count; /* of the netdev, or that reach the port, without link-local ones */
};

#define PORT "/sys/class/infiniband/%s/ports/%u"

static void add(struct doctor *doctor, enum finding_result result, const char *name,
                const struct port *port, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

static void add(struct doctor *doctor, enum finding_result result, const char *name,
                const struct port *port, const char *hint, const char *fmt, ...)
{
    char text[sizeof((struct finding *)NULL)->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    doctor_add(doctor, result, name, port->device, port->number, hint, "%s", text);
}

/* ---- what belongs to a port -------------------------------------------------------------------- */

static const struct nldev_link *find_link(const struct doctor_host *host, const struct port *port)
{
    for (size_t i = 0; i < host->link_count; i++)
        if (host->links[i].port == port->number && strcmp(host->links[i].device, port->device) == 0)
            return &host->links[i];
    return NULL;
}

/* The adapter's network device of that port: IPoIB's, and those of older kernels. */
static void find_adapter_netdev(const char *root, struct port *port)
{
    struct hostfs_names names = hostfs_names(root, "/sys/class/infiniband/%s/device/net",
                                             port->device);
    for (size_t i = 0; i < names.count && !port->netdev[0]; i++)
        if (names.count == 1 ||
            hostfs_number(root, "/sys/class/net/%s/dev_port", names.items[i]) + 1 ==
                (long)port->number)
            memcpy(port->netdev, names.items[i], HOSTFS_NAME);
    hostfs_free(&names);
}

static bool is_infiniband(const struct port *port)
{
    return port->kind[0] == 'I';
}

/* As libibverbs tells of it; NULL where the device cannot be opened. */
static const struct device_port *find_opened(const struct doctor_host *host,
                                             const struct port *port)
{
    for (size_t i = 0; i < host->device_count; i++)
        for (unsigned k = 0; k < host->devices[i].port_count; k++)
            if (strcmp(host->devices[i].name, port->device) == 0 &&
                host->devices[i].ports[k].number == port->number)
                return &host->devices[i].ports[k];
    return NULL;
}

static bool is_link_local(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    return addr->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* An address that rdma_cm has this port for, which may be of another network device: a VLAN of the
 * port's own, a bond above it, a macvlan in a container. NULL: none, with the address or, where that
 * is NULL, with any that is not link-local. */
static const struct device_address *find_reachable(const struct doctor_host *host,
                                                   const struct port *port,
                                                   const struct sockaddr_storage *addr)
{
    for (size_t i = 0; i < host->reachable_count; i++) {
        const struct device_address *at = &host->reachable[i];
        if (at->port == port->number && strcmp(at->device, port->device) == 0 &&
            (addr ? address_same_host((const struct sockaddr *)&at->addr,
                                      (const struct sockaddr *)addr)
                  : !is_link_local(&at->addr)))
            return at;
    }
    return NULL;
}

static void find_netdev(const struct doctor_host *host, struct port *port)
{
    const struct device_address *reachable = find_reachable(host, port, NULL);
    const struct nldev_link *link = find_link(host, port);
    port->netdev[0] = '\0';
    if (link && link->netdev[0])
        snprintf(port->netdev, sizeof port->netdev, "%s", link->netdev);
    /* The files name devices of other network namespaces, too. */
    for (int i = 0; !link && i < 16 && !port->netdev[0]; i++)
        hostfs_line(host->root, port->netdev, sizeof port->netdev, PORT "/gid_attrs/ndevs/%d",
                    port->device, port->number, i);
    if (!link && !port->netdev[0])
        hostfs_line(host->root, port->netdev, sizeof port->netdev,
                    "/sys/class/infiniband/%s/parent", port->device);
    if (!port->netdev[0] && (!link || is_infiniband(port)))
        find_adapter_netdev(host->root, port);
    if (!port->netdev[0] && reachable)
        snprintf(port->netdev, sizeof port->netdev, "%s", reachable->netdev);
}

static void find_kind(const char *root, struct port *port)
{
    char type[32], layer[32];
    hostfs_line(root, type, sizeof type, "/sys/class/infiniband/%s/node_type", port->device);
    hostfs_line(root, layer, sizeof layer, PORT "/link_layer", port->device, port->number);
    snprintf(port->kind, sizeof port->kind, "%s",
             strstr(type, "RNIC")        ? "iWARP"
             : strcmp(layer, "Ethernet") ? "InfiniBand"
                                         : "RoCE");
}

/* ---- state ------------------------------------------------------------------------------------- */

/* Where the file cannot be read. */
static const char *opened_state(const struct doctor_host *host, const struct port *port)
{
    static const char *const names[] = {[IBV_PORT_NOP] = "NOP",
                                        [IBV_PORT_DOWN] = "DOWN",
                                        [IBV_PORT_INIT] = "INIT",
                                        [IBV_PORT_ARMED] = "ARMED",
                                        [IBV_PORT_ACTIVE] = "ACTIVE"};
    const struct device_port *opened = find_opened(host, port);
    return opened && opened->state <= IBV_PORT_ACTIVE ? names[opened->state] : "";
}

/* "4: ACTIVE" is "ACTIVE". */
static const char *behind_number(const char *text)
{
    const char *colon = strstr(text, ": ");
    return colon ? colon + 2 : text;
}

static void hint_state(const struct port *port, const char *state, const char *physical, char *hint,
                       size_t size)
{
    if (!is_infiniband(port))
        snprintf(hint, size, "ip link set %s up; if it is up: cable, far end, switch port",
                 port->netdev[0] ? port->netdev : "NETDEV");
    else if (strcmp(state, "INIT") == 0 || strcmp(state, "ARMED") == 0)
        snprintf(hint, size,
                 "the fabric has no subnet manager that works: 'systemctl start opensm' on one "
                 "host, or a switch's own; 'sminfo' asks for it");
    else if (strcmp(physical, "Disabled") == 0)
        snprintf(hint, size, "ibportstate 0 %u enable", port->number);
    else
        snprintf(hint, size, "look at cable, far end and switch port: 'ibstat', 'iblinkinfo'");
}

static void add_state(struct doctor *doctor, struct port *port)
{
    char state[32], physical[32], hint[320];
    const char *root = doctor->host->root;
    hostfs_line(root, state, sizeof state, PORT "/state", port->device, port->number);
    hostfs_line(root, physical, sizeof physical, PORT "/phys_state", port->device, port->number);
    const char *word = state[0] ? behind_number(state) : opened_state(doctor->host, port);
    port->active = strcmp(word, "ACTIVE") == 0;
    if (port->active) {
        add(doctor, FINDING_OK, "port", port, NULL, "port %u of %s is active", port->number,
            port->device);
        return;
    }
    hint_state(port, word, behind_number(physical), hint, sizeof hint);
    add(doctor, FINDING_FAILED, "port", port, hint, "port %u of %s is %s, its link is %s",
        port->number, port->device, word[0] ? word : "in no known state",
        physical[0] ? behind_number(physical) : "unknown");
}

static void add_link_layer(struct doctor *doctor, const struct port *port)
{
    char layer[32];
    hostfs_line(doctor->host->root, layer, sizeof layer, PORT "/link_layer", port->device,
                port->number);
    if (strcmp(layer, "Ethernet") == 0 || strcmp(layer, "InfiniBand") == 0)
        add(doctor, FINDING_OK, "link-layer", port, NULL, "%s: %s", layer, port->kind);
    else
        add(doctor, FINDING_WARNING, "link-layer", port,
            "set the adapter's port to Ethernet or InfiniBand, such as with 'mlxconfig'",
            "the link layer of %s port %u is '%s'", port->device, port->number, layer);
}

/* ---- the network device ------------------------------------------------------------------------ */

static void lack_netdev(struct doctor *doctor, const struct port *port)
{
    doctor->lacks_netdev = true;
    if (is_infiniband(port))
        add(doctor, FINDING_FAILED, "netdev", port,
            "modprobe ib_ipoib, and give the network device that appears an address",
            "%s port %u has no IPoIB network device, and rdma_cm needs an IP address", port->device,
            port->number);
    else
        add(doctor, FINDING_FAILED, "netdev", port,
            doctor->container[0] ? "run the container with --network host, or move a network "
                                   "device of that adapter (a virtual function, macvlan) into it"
                                 : "'rdma link show' tells its network device; in another network "
                                   "namespace, 'ip link set NETDEV netns ...' moves it here",
            "%s port %u has no network device in this network namespace", port->device,
            port->number);
}

static void add_netdev(struct doctor *doctor, struct port *port)
{
    char hint[128], carrier[8];
    const char *root = doctor->host->root;
    if (!port->netdev[0]) {
        lack_netdev(doctor, port);
        return;
    }
    long flags = hostfs_number(root, "/sys/class/net/%s/flags", port->netdev);
    if (flags < 0) {
        lack_netdev(doctor, port);
        return;
    }
    if (!(flags & IFF_UP)) {
        snprintf(hint, sizeof hint, "ip link set %s up", port->netdev);
        add(doctor, FINDING_FAILED, "netdev", port, hint, "%s, of %s port %u, is down",
            port->netdev, port->device, port->number);
        return;
    }
    port->netdev_up = true;
    hostfs_line(root, carrier, sizeof carrier, "/sys/class/net/%s/carrier", port->netdev);
    if (strcmp(carrier, "0") == 0)
        add(doctor, FINDING_FAILED, "netdev", port, "look at cable, far end and switch port",
            "%s, of %s port %u, is up, and has no carrier", port->netdev, port->device,
            port->number);
    else
        add(doctor, FINDING_OK, "netdev", port, NULL, "%s, of %s port %u, is up", port->netdev,
            port->device, port->number);
}

/* Whether there is a network device to go on with; else the finding is skipped. */
static bool needs_netdev(struct doctor *doctor, const struct port *port, const char *name)
{
    if (port->netdev_up)
        return true;
    add(doctor, FINDING_SKIPPED, name, port, NULL, "needs a network device that is up");
    return false;
}

/* ---- addresses and GIDs ------------------------------------------------------------------------ */

/* Whether a port that could be used is behind no address, while others are. Of none at all "reach"
 * tells. */
static bool is_passed_over(const struct doctor_host *host, const struct port *port)
{
    return port->active && host->reachable_count > 0 && find_opened(host, port) &&
           !find_reachable(host, port, NULL);
}

static void add_addresses(struct doctor *doctor, struct port *port)
{
    char text[160] = "", address[ADDRESS_TEXT], hint[160];
    size_t used = 0;
    const struct doctor_host *host = doctor->host;
    if (!needs_netdev(doctor, port, "addresses"))
        return;
    for (size_t i = 0; i < host->address_count; i++) {
        const struct doctor_address *at = &host->addresses[i];
        bool own = strcmp(at->netdev, port->netdev) == 0;
        if (is_link_local(&at->addr) || !(own || find_reachable(host, port, &at->addr)))
            continue;
        address_format_host((const struct sockaddr *)&at->addr, address);
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", used ? ", " : "",
                                     address, own ? "" : " by ", own ? "" : at->netdev);
        port->address_count++;
    }
    if (port->address_count > 0 && is_passed_over(host, port)) {
        add(doctor, FINDING_WARNING, "addresses", port,
            "where two RDMA devices have one network device, rdma_cm takes the same one always: "
            "'rdmaput devices' lists which",
            "%s has %s, and rdma_cm finds %s port %u by none of them", port->netdev, text,
            port->device, port->number);
        return;
    }
    if (port->address_count > 0) {
        add(doctor, FINDING_OK, "addresses", port, NULL, "%s has %s", port->netdev, text);
        return;
    }
    snprintf(hint, sizeof hint, "ip address add ADDRESS/PREFIX dev %s", port->netdev);
    add(doctor, FINDING_FAILED, "addresses", port, hint,
        "%s, of %s port %u, has no address but link-local ones, and rdma_cm needs one",
        port->netdev, port->device, port->number);
}

/* As the kernel writes the GID of an address. */
static void format_gid(const struct sockaddr_storage *addr, char text[GID_TEXT])
{
    uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};
    if (addr->ss_family == AF_INET)
        memcpy(gid + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
    else
        memcpy(gid, &((const struct sockaddr_in6 *)addr)->sin6_addr, sizeof gid);
    for (int i = 0; i < 8; i++)
        snprintf(text + 5 * i, (size_t)(GID_TEXT - 5 * i), "%02x%02x%s", gid[2 * i], gid[2 * i + 1],
                 i < 7 ? ":" : "");
}

/* How many GIDs the port has; wanted: *found, whether it is among them. */
static unsigned count_gids(const char *root, const struct port *port, const char *wanted,
                           bool *found)
{
    char gid[GID_TEXT];
    unsigned count = 0;
    *found = false;
    for (int i = 0; i < MOST_GIDS && hostfs_line(root, gid, sizeof gid, PORT "/gids/%d",
                                                 port->device, port->number, i);
         i++) {
        count += strcmp(gid, NO_GID) != 0;
        *found |= wanted && strcmp(gid, wanted) == 0;
    }
    return count;
}

static void add_gids(struct doctor *doctor, const struct port *port)
{
    char wanted[GID_TEXT], address[ADDRESS_TEXT], hint[160];
    bool found;
    const struct doctor_host *host = doctor->host;
    unsigned count = count_gids(host->root, port, NULL, &found);
    if (!needs_netdev(doctor, port, "gids"))
        return;
    for (size_t i = 0; strcmp(port->kind, "RoCE") == 0 && i < host->address_count; i++) {
        const struct doctor_address *at = &host->addresses[i];
        if (strcmp(at->netdev, port->netdev) != 0)
            continue;
        format_gid(&at->addr, wanted);
        count_gids(host->root, port, wanted, &found);
        if (found)
            continue;
        snprintf(hint, sizeof hint,
                 "take the address off and add it again: 'ip address ... dev %s'", port->netdev);
        add(doctor, FINDING_WARNING, "gids", port, hint, "%s port %u has no GID for the address %s",
            port->device, port->number,
            address_format_host((const struct sockaddr *)&at->addr, address));
        return;
    }
    if (count > 0)
        add(doctor, FINDING_OK, "gids", port, NULL, "%s port %u has %u GID%s", port->device,
            port->number, count, count == 1 ? "" : "s");
    else
        add(doctor, FINDING_FAILED, "gids", port, "give its network device an address",
            "%s port %u has no GID", port->device, port->number);
}

/* ---- MTU --------------------------------------------------------------------------------------- */

static long active_mtu(const struct doctor_host *host, const struct port *port)
{
    const struct device_port *opened = find_opened(host, port);
    return opened ? opened->active_mtu_bytes : 0;
}

/* The largest of an InfiniBand MTU's sizes that fits. */
static long largest_mtu(long room)
{
    long mtu = 4096;
    while (mtu > 256 && mtu > room)
        mtu /= 2;
    return mtu;
}

static void judge_roce_mtu(struct doctor *doctor, const struct port *port, long netdev, long active)
{
    char hint[128];
    snprintf(hint, sizeof hint, "ip link set %s mtu 1500, or what the path allows", port->netdev);
    if (netdev < active + ROCE_LEAST_HEADERS)
        add(doctor, FINDING_FAILED, "mtu", port, hint,
            "packets of the active MTU, %ld, do not fit into the MTU of %s, %ld", active,
            port->netdev, netdev);
    else if (active < USUAL_ACTIVE_MTU)
        add(doctor, FINDING_WARNING, "mtu", port, hint,
            "an active MTU of %ld is slow; the MTU of %s is %ld", active, port->netdev, netdev);
    else if (active < largest_mtu(netdev - ROCE_MOST_HEADERS))
        add(doctor, FINDING_WARNING, "mtu", port,
            "the adapter takes a new MTU when its network device goes down and up",
            "an active MTU of %ld, where the MTU of %s, %ld, allows %ld", active, port->netdev,
            netdev, largest_mtu(netdev - ROCE_MOST_HEADERS));
    else
        add(doctor, FINDING_OK, "mtu", port, NULL, "an active MTU of %ld fits into that of %s, %ld",
            active, port->netdev, netdev);
}

static void add_mtu(struct doctor *doctor, const struct port *port)
{
    char hint[128];
    long active = active_mtu(doctor->host, port);
    long netdev = hostfs_number(doctor->host->root, "/sys/class/net/%s/mtu", port->netdev);
    if (!needs_netdev(doctor, port, "mtu"))
        return;
    if (active <= 0)
        add(doctor, FINDING_SKIPPED, "mtu", port, NULL,
            "the active MTU of %s is not known: it cannot be opened", port->device);
    else if (netdev < 0)
        add(doctor, FINDING_SKIPPED, "mtu", port, NULL, "the MTU of %s cannot be read",
            port->netdev);
    else if (strcmp(port->kind, "RoCE") == 0)
        judge_roce_mtu(doctor, port, netdev, active);
    else if (netdev < IPV6_LEAST_MTU) {
        snprintf(hint, sizeof hint, "ip link set %s mtu 1500, or what the path allows",
                 port->netdev);
        add(doctor, FINDING_WARNING, "mtu", port, hint,
            "the MTU of %s, %ld, is too small for IPv6, and slow", port->netdev, netdev);
    } else
        add(doctor, FINDING_OK, "mtu", port, NULL, "active MTU %ld, that of %s %ld", active,
            port->netdev, netdev);
}

static void add_port(struct doctor *doctor, const char *device, unsigned number)
{
    struct port port = {.device = device, .number = number};
    find_kind(doctor->host->root, &port);
    find_netdev(doctor->host, &port);
    add_state(doctor, &port);
    add_link_layer(doctor, &port);
    add_netdev(doctor, &port);
    add_addresses(doctor, &port);
    add_gids(doctor, &port);
    add_mtu(doctor, &port);
}

void doctor_ports(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->devices.count; i++) {
        const char *device = doctor->devices.items[i];
        unsigned number;
        struct hostfs_names ports = hostfs_names(doctor->host->root,
                                                 "/sys/class/infiniband/%s/ports", device);
        for (size_t k = 0; k < ports.count; k++)
            if (sscanf(ports.items[k], "%u", &number) == 1)
                add_port(doctor, device, number);
        hostfs_free(&ports);
    }
}

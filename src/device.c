#include "config.h"

#include "device.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hostfs.h"
#include "log.h"
#include "memory.h"

#define NODES "/dev/infiniband"
#define CM_NODE NODES "/rdma_cm"

int device_missing_error(struct error *err, int errnum)
{
    if (access(CM_NODE, F_OK) < 0) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, "no RDMA device: there is no " CM_NODE);
        return error_hint(err, "load the kernel's RDMA modules: 'modprobe rdma_ucm', and the "
                               "device's own, such as mlx5_ib or rdma_rxe; in a container, pass "
                               "the devices under /dev/infiniband on");
    }
    if (access(CM_NODE, R_OK | W_OK) < 0) {
        error_set_errno(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, errno, "cannot use " CM_NODE);
        return error_hint(err, "its mode should be 0666: udev's rules of rdma-core set it");
    }
    error_set_errno(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, errnum, "cannot use RDMA");
    return error_hint(err, "%s",
                      errnum == EMFILE || errnum == ENFILE ? memory_files_hint()
                                                           : "see 'rdmaput devices'");
}

/* What keeps a device that cannot be opened, with errnum, from it: libibverbs goes on looking where its
 * node is not permitted, and then tells that there is none. */
static int node_errno(const struct ibv_device *device, int errnum)
{
    char path[sizeof NODES "/" + sizeof device->dev_name];
    snprintf(path, sizeof path, NODES "/%s", device->dev_name);
    return errnum == ENOENT && access(path, R_OK | W_OK) < 0 ? errno : errnum;
}

/* Whether one of the list can be opened; *errnum is why the first cannot. */
static bool can_open_any(struct ibv_device **list, int count, int *errnum)
{
    for (int i = 0; i < count; i++) {
        struct ibv_context *verbs = ibv_open_device(list[i]);
        if (verbs) {
            ibv_close_device(verbs);
            return true;
        }
        if (i == 0)
            *errnum = node_errno(list[i], errno);
    }
    return false;
}

static int unopened_error(struct ibv_device *first, int errnum, struct error *err)
{
    error_set_errno(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, errnum,
                    "cannot open device %s by " NODES "/%s", ibv_get_device_name(first),
                    first->dev_name);
    return error_hint(err, "%s",
                      errnum == EMFILE || errnum == ENFILE
                          ? memory_files_hint()
                          : "its mode should be 0666: udev's rules of rdma-core make the node, and "
                            "set it; in a container, pass " NODES " on; 'rdmaput check' looks");
}

/* libibverbs lists none. */
static int unlisted_error(struct error *err)
{
    struct hostfs_names devices = hostfs_names("", "/sys/class/infiniband");
    bool known = devices.count > 0;
    hostfs_free(&devices);
    if (!known) {
        error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL, "no RDMA device on this host");
        return error_hint(err, "make a soft one on a network device: 'rdma link add rxe0 type rxe "
                               "netdev NETDEV'");
    }
    error_set(err, ERROR_UNAVAILABLE, STAGE_OPEN, NULL,
              "libibverbs sees no RDMA device on this host, and the kernel has one");
    return error_hint(err, "its node below " NODES " is missing, or its provider library is not "
                           "installed (ibverbs-providers): 'rdmaput check' tells which");
}

int device_check_any(struct error *err)
{
    int count = 0;
    if (access(CM_NODE, R_OK | W_OK) < 0)
        return device_missing_error(err, errno);
    struct ibv_device **list = ibv_get_device_list(&count);
    if (!list)
        return device_missing_error(err, errno);
    int errnum = 0, rc = 0;
    if (count == 0)
        rc = unlisted_error(err);
    else if (!can_open_any(list, count, &errnum))
        rc = unopened_error(list[0], errnum, err);
    ibv_free_device_list(list);
    return rc;
}

uint32_t device_mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* The netdev of a port's first GID: from the kernel's own table, as older rdma-core has no call. */
static void read_netdev(const char *device, struct device_port *port)
{
    char path[320];
    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%u/gid_attrs/ndevs/%d", device,
                 port->number, i);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        if (fscanf(file, "%15s", port->netdev) != 1)
            port->netdev[0] = '\0';
        fclose(file);
        if (port->netdev[0])
            return;
    }
}

static unsigned count_gids(struct ibv_context *verbs, uint8_t number, int table_len)
{
    static const union ibv_gid none;
    unsigned count = 0;
    for (int i = 0; i < table_len; i++) {
        union ibv_gid gid;
        if (ibv_query_gid(verbs, number, i, &gid) == 0 && memcmp(&gid, &none, sizeof gid) != 0)
            count++;
    }
    return count;
}

static int query_port(struct ibv_context *verbs, const char *name, uint8_t number,
                      struct device_port *port)
{
    struct ibv_port_attr attr;
    int rc = ibv_query_port(verbs, number, &attr);
    if (rc != 0)
        return rc;
    *port = (struct device_port){
        .number = number,
        .state = attr.state,
        .link_layer = attr.link_layer,
        .active_mtu_bytes = device_mtu_bytes(attr.active_mtu),
        .max_msg_sz = attr.max_msg_sz,
        .gid_count = count_gids(verbs, number, attr.gid_tbl_len),
    };
    read_netdev(name, port);
    return 0;
}

static int query_device(struct ibv_device *source, struct device *device)
{
    struct ibv_device_attr attr;
    struct ibv_context *verbs = ibv_open_device(source);
    if (!verbs)
        return node_errno(source, errno);
    int rc = ibv_query_device(verbs, &attr);
    if (rc == 0) {
        *device = (struct device){
            .iwarp = source->transport_type == IBV_TRANSPORT_IWARP,
            .max_sge = attr.max_sge,
            .max_qp_wr = attr.max_qp_wr,
            .max_cqe = attr.max_cqe,
            .max_mr = attr.max_mr,
        };
        snprintf(device->name, sizeof device->name, "%s", ibv_get_device_name(source));
        for (uint8_t n = 1; rc == 0 && n <= attr.phys_port_cnt && n <= DEVICE_MAX_PORTS; n++)
            rc = query_port(verbs, device->name, n, &device->ports[device->port_count++]);
    }
    ibv_close_device(verbs);
    return rc;
}

int device_list(struct device **devices, struct error *err)
{
    int found = 0, count = 0;
    struct ibv_device **list = ibv_get_device_list(&found);
    if (!list)
        return device_missing_error(err, errno);
    *devices = calloc((size_t)found + 1, sizeof **devices);
    if (!*devices) {
        ibv_free_device_list(list);
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno,
                               "cannot list the devices");
    }
    for (int i = 0; i < found; i++) {
        int rc = query_device(list[i], &(*devices)[count]);
        if (rc == 0)
            count++;
        else
            log_note("%s: left out: %s", ibv_get_device_name(list[i]), strerror(rc));
    }
    ibv_free_device_list(list);
    return count;
}

/* Whether rdma_cm has a device for the address, as 1 or 0; asks with an id of its own. -1 with *err
 * when that ran out of something. */
static int find_device(struct rdma_event_channel *channel, const struct sockaddr *sa,
                       struct device_address *address, struct error *err)
{
    struct rdma_cm_id *id;
    int found = 0;
    memcpy(&address->addr, sa, address_length(sa));
    address_set_port((struct sockaddr *)&address->addr, 0);
    if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) < 0)
        return device_missing_error(err, errno);
    if (rdma_bind_addr(id, (struct sockaddr *)&address->addr) < 0) {
        if (error_class_of_errno(errno, ERROR_NONE) == ERROR_RESOURCE)
            found = device_missing_error(err, errno);
    } else if (id->verbs) {
        snprintf(address->device, sizeof address->device, "%s",
                 ibv_get_device_name(id->verbs->device));
        address->port = id->port_num;
        found = 1;
    }
    rdma_destroy_id(id);
    return found;
}

int device_addresses(struct device_address **addresses, struct error *err)
{
    struct ifaddrs *list, *at;
    int count = 0, most = 0, got = 0;
    *addresses = NULL;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel)
        return device_missing_error(err, errno);
    if (getifaddrs(&list) < 0) {
        rdma_destroy_event_channel(channel);
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, errno,
                               "cannot list the addresses of this host");
    }
    for (at = list; at; at = at->ifa_next)
        most++;
    *addresses = calloc((size_t)most + 1, sizeof **addresses);
    for (at = list; *addresses && at && got >= 0; at = at->ifa_next) {
        if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) ||
            (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) ||
            address_is_loopback(at->ifa_addr))
            continue;
        struct device_address *found = &(*addresses)[count];
        got = find_device(channel, at->ifa_addr, found, err);
        if (got <= 0)
            continue;
        snprintf(found->netdev, sizeof found->netdev, "%s", at->ifa_name);
        count++;
    }
    freeifaddrs(list);
    rdma_destroy_event_channel(channel);
    if (!*addresses)
        return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                               "cannot list the addresses of this host");
    return got < 0 ? -1 : count;
}

int device_is_behind(const struct sockaddr *sa, struct error *err)
{
    struct device_address ignored;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel)
        return device_missing_error(err, errno);
    int found = find_device(channel, sa, &ignored, err);
    rdma_destroy_event_channel(channel);
    return found;
}

const char *device_port_fault(struct ibv_context *verbs, uint8_t port)
{
    struct ibv_port_attr attr;
    if (ibv_query_port(verbs, port, &attr) != 0 || attr.state == IBV_PORT_ACTIVE ||
        attr.state == IBV_PORT_ACTIVE_DEFER)
        return NULL;
    return ibv_port_state_str(attr.state);
}

bool device_example_address(char buf[ADDRESS_TEXT])
{
    struct device_address *addresses = NULL;
    struct error ignored = {.class = ERROR_NONE};
    int count = device_addresses(&addresses, &ignored);
    if (count > 0)
        address_format_host((struct sockaddr *)&addresses[0].addr, buf);
    free(addresses);
    return count > 0;
}

const char *device_kind(bool iwarp, uint8_t link_layer)
{
    if (iwarp)
        return "iWARP";
    return link_layer == IBV_LINK_LAYER_ETHERNET ? "RoCE" : "InfiniBand";
}

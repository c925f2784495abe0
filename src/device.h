/*
 * device.h - the RDMA devices of this host, their ports, and the addresses that reach them.
 */
#ifndef RDMAPUT_DEVICE_H
#define RDMAPUT_DEVICE_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "address.h"
#include "error.h"

/* An address of this host that rdma_bind_addr(3) finds a device for. */
struct device_address {
    struct sockaddr_storage addr;
    char netdev[IF_NAMESIZE];
    char device[64];
    uint8_t port;
};

struct device_port {
    uint8_t number;
    enum ibv_port_state state;
    uint8_t link_layer; /* IBV_LINK_LAYER_* */
    uint32_t active_mtu_bytes;
    uint64_t max_msg_sz;      /* bytes */
    unsigned gid_count;       /* GIDs that are in use */
    char netdev[IF_NAMESIZE]; /* of its first GID or address; may be empty */
};

#define DEVICE_MAX_PORTS 8

struct device {
    char name[64];
    bool iwarp; /* else InfiniBand or RoCE, by the port's link layer */
    int max_sge, max_qp_wr, max_cqe, max_mr;
    unsigned port_count;
    struct device_port ports[DEVICE_MAX_PORTS];
};

/* All devices, in *devices (freed by the caller), their count returned; -1 with *err. A device that
 * cannot be opened is left out after a note. */
int device_list(struct device **devices, struct error *err);

/* The addresses that reach a device through rdma_cm, in *addresses (freed by the caller). Loopback
 * addresses are left out. Their count, or -1 with *err. */
int device_addresses(struct device_address **addresses, struct error *err);

/* Whether rdma_bind_addr(3) finds a device for the address, as 1 or 0; -1 with *err when that could not
 * be found out. */
int device_is_behind(const struct sockaddr *sa, struct error *err);

/* What a port is, such as "PORT_DOWN", when that is not active; NULL when it is, or does not tell. */
const char *device_port_fault(struct ibv_context *verbs, uint8_t port);

/* 0 when there is a device here and rdma_cm can be used; -1 with *err otherwise: 69 and what
 * mends it. */
int device_check_any(struct error *err);

/* The error of a host where rdma_create_event_channel(3) or the like failed with errnum. Always
 * -1. */
int device_missing_error(struct error *err, int errnum);

/* An address of this host that reaches a device, as text; false when there is none. */
bool device_example_address(char buf[ADDRESS_TEXT]);

/* "InfiniBand", "RoCE" or "iWARP", of a port's IBV_LINK_LAYER_*. */
const char *device_kind(bool iwarp, uint8_t link_layer);

/* An MTU in bytes; 0 for one that is none. */
uint32_t device_mtu_bytes(enum ibv_mtu mtu);

#endif

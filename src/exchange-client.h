/*
 * exchange-client.h - the client's end of an exchange (wire.h): where the server listens for RDMA,
 * asked over TCP.
 */
#ifndef RDMAPUT_EXCHANGE_CLIENT_H
#define RDMAPUT_EXCHANGE_CLIENT_H

#include <stdint.h>

#include "address.h"
#include "client.h"
#include "error.h"
#include "wire.h"

struct exchange_meeting {
    int fd;                          /* of the TCP connection, non-blocking; READY comes there */
    uint64_t timeout;                /* ns; the target's */
    bool secret;                     /* the RDMA connection is to prove one */
    char peer[ADDRESS_TEXT];         /* its other end */
    uint8_t token[WIRE_TOKEN_BYTES]; /* for the HELLO of the RDMA connection */
    struct client_places places;     /* 1 or more: where it listens for RDMA */
};

/*
 * Connects to the exchange port of target's host and learns what meeting holds. target says where,
 * how long (timeout: for connecting to each address, up to its answer) and whether to go on trying
 * while nobody listens; its port and its bind are those of the RDMA network, and not used. secret: to
 * be proved on the RDMA connection. A signal ends it.
 *
 * 0, and exchange_leave is due. -1 with *err: ERROR_UNAVAILABLE when nobody listens, ERROR_TEMPORARY
 * when nobody answers or the server closes the connection, ERROR_PROTOCOL when another program or
 * version answers, or what a REFUSAL says.
 */
int exchange_meet(const struct client_target *target, uint16_t port, bool secret,
                  struct exchange_meeting *meeting, struct error *err);

/* Closes the connection. Fine more than once. */
void exchange_leave(struct exchange_meeting *meeting);

#endif

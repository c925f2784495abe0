/*
 * admission.h - who may connect, and what a client that may not is told.
 */
#ifndef RDMAPUT_ADMISSION_H
#define RDMAPUT_ADMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "address.h"
#include "error.h"
#include "wire.h"

struct admission {
    struct network *networks; /* of --allow, not owned; without any: this host and its subnets */
    size_t count;
    bool anybody; /* a sink that keeps nothing takes anybody, without --allow */
};

/* 0 when the peer may connect; -1 with *err and a hint otherwise. */
int admission_check(const struct admission *admission, const struct sockaddr *peer,
                    struct error *err);

/* "for this host and its subnets": who may connect, for the line at the start. buf of size bytes;
 * returns it. */
char *admission_describe(const struct admission *admission, char *buf, size_t size);

/* The REFUSAL that tells a client this reason and its hint. Returns its bytes. */
size_t admission_refusal(const struct error *reason, uint8_t buf[WIRE_REFUSAL_MAX_BYTES]);

#endif

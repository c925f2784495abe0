/*
 * subnet.h - who is near this host.
 */
#ifndef RDMAPUT_SUBNET_H
#define RDMAPUT_SUBNET_H

#include <sys/socket.h>

#include "error.h"

/* 1 when the address is of this host, or in a subnet of one of its addresses as they are now; 0: it
 * is not; -1 with *err: they cannot be told. */
int subnet_is_near(const struct sockaddr *peer, struct error *err);

#endif

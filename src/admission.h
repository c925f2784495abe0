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
#include "secret.h"
#include "wire.h"

struct admission {
    struct network *networks; /* of --allow, not owned; without any: this host and its subnets */
    size_t count;
    bool anybody; /* a sink that keeps nothing takes anybody, without --allow */
    const struct secret
        *secret; /* not owned; NULL: none. Without --allow it takes anybody who has it */
    uint8_t token[WIRE_TOKEN_BYTES]; /* with a secret: what one-sided clients have to present */
};

/* Draws the token, where there is a secret. 0, or -1 with *err. */
int admission_prepare(struct admission *admission, struct error *err);

/* Whether a client of this HELLO (zeros: none) offers to prove the secret, or presents the token, if
 * need be. 0, or -1 with *err, which says nothing about why. */
int admission_check_hello(const struct admission *admission, const struct wire_hello *hello,
                          struct error *err);

/* 0 when the peer may connect; -1 with *err and a hint otherwise. */
int admission_check(const struct admission *admission, const struct sockaddr *peer,
                    struct error *err);

/* "for this host and its subnets": who may connect, for the line at the start. buf of size bytes;
 * returns it. */
char *admission_describe(const struct admission *admission, char *buf, size_t size);

/* The REFUSAL that tells a client this reason and its hint. Returns its bytes. */
size_t admission_refusal(const struct error *reason, uint8_t buf[WIRE_REFUSAL_MAX_BYTES]);

#endif

/*
 * proof.h - what proves that a side knows the secret, made with libcrypto as src/wire.h defines it.
 */
#ifndef HOSTILE_PROOF_H
#define HOSTILE_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "talk.h"

struct proof_secret {
    char bytes[4096];
    size_t len;
};

/* A file's content without a line end at its end. -1 when it cannot be read, which is said. */
int proof_load(struct proof_secret *secret, const char *path);

/* What both sides have said, as it was sent. */
struct proof_session {
    const struct proof_secret *secret; /* NULL: none */
    uint8_t hello[WIRE_HELLO_BYTES], welcome[WIRE_WELCOME_BYTES];
    uint8_t nonce[WIRE_NONCE_BYTES]; /* the client's */
};

/* The code of a side: WIRE_ROLE_SERVER or WIRE_ROLE_WRITE. */
void proof_code(const struct proof_session *session, enum wire_role side,
                uint8_t code[WIRE_CODE_BYTES]);

/* Says the PROOF of that side, or what the deviation makes of it. */
bool proof_say(struct talk *talk, const struct proof_session *session, enum wire_role side);

/* Whether a PROOF is right for that side. */
bool proof_is_right(const struct proof_session *session, enum wire_role side,
                    const struct message *proof);

void proof_random(void *bytes, size_t len);

#endif

/*
 * secret.h - what both ends know and prove to each other without saying it.
 *
 * Codes are HMAC-SHA-256 (libcrypto), over what wire.h says. All comparisons here take the same time
 * wherever the bytes differ.
 */
#ifndef RDMAPUT_SECRET_H
#define RDMAPUT_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "wire.h"

#define SECRET_MIN_BYTES 16
#define SECRET_MAX_BYTES 4096

struct secret {
    uint8_t bytes[SECRET_MAX_BYTES];
    size_t len;
};

/*
 * Reads a secret: the file's content, without a line end at its end. 0, or -1 with *err
 * (ERROR_SOURCE): it cannot be read; it is shorter or longer than said above; it belongs to somebody
 * else than this user and root; or others than its owner may read or write it. ERROR_INTERRUPTED where a
 * pipe is waited for.
 */
int secret_load(struct secret *secret, const char *path, struct error *err);

#define SECRET_FRESH_CHARS 64

/* Makes a secret that nobody knows yet, of SECRET_FRESH_CHARS hexadecimal digits. 0, or -1 with *err. */
int secret_make(struct secret *secret, struct error *err);

/* Overwrites it. */
void secret_forget(struct secret *secret);

/* The code that proves that a side (WIRE_ROLE_SERVER or a client's) knows the secret, in the session
 * of this HELLO, WELCOME and nonce of the client's. 0, or -1 with *err (ERROR_BUG). */
int secret_prove(const struct secret *secret, enum wire_role side, const struct wire_hello *hello,
                 const struct wire_welcome *welcome, const uint8_t nonce[WIRE_NONCE_BYTES],
                 uint8_t code[WIRE_CODE_BYTES], struct error *err);

bool secret_equal(const void *a, const void *b, size_t len);

/* Fills buf with random bytes, fit for nonces and tokens. 0, or -1 with *err. */
int secret_random(void *buf, size_t len, struct error *err);

#endif

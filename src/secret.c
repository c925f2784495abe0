#include "config.h"

#include "secret.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fdio.h"
#include "signals.h"

static int check_file(int fd, const char *path, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set_errno(err, ERROR_SOURCE, STAGE_OPEN, path, errno,
                               "cannot look at the secret's file");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, ERROR_SOURCE, STAGE_OPEN, path,
                         "the secret's file belongs to somebody else");
    if ((st.st_mode & 077) == 0)
        return 0;
    error_set(err, ERROR_SOURCE, STAGE_OPEN, path, "others may read or write the secret's file");
    return error_hint(err, "chmod 600 it, and consider whether the secret is one any longer");
}

static int check_length(size_t len, const char *path, struct error *err)
{
    if (len >= SECRET_MIN_BYTES && len <= SECRET_MAX_BYTES)
        return 0;
    error_set(err, ERROR_SOURCE, STAGE_OPEN, path, "a secret has %d to %d bytes", SECRET_MIN_BYTES,
              SECRET_MAX_BYTES);
    return error_hint(err, "'openssl rand -hex 32' prints a good one");
}

static size_t without_line_end(const char *text, size_t len)
{
    if (len > 0 && text[len - 1] == '\n')
        len--;
    return len;
}

/* Of a pipe, it may take somebody else's time. */
static int fail(const char *path, int errnum, const char *text, struct error *err)
{
    if (errnum == EINTR && signals_count() > 0)
        return error_set(err, ERROR_INTERRUPTED, STAGE_OPEN, path, "interrupted by a signal");
    return error_set_errno(err, ERROR_SOURCE, STAGE_OPEN, path, errnum, "%s", text);
}

static int read_secret(struct secret *secret, int fd, const char *path, struct error *err)
{
    size_t read = 0;
    char *text = fdio_slurp(fd, SECRET_MAX_BYTES + 1, &read);
    if (!text && errno != EFBIG)
        return fail(path, errno, "cannot read the secret", err);
    size_t len = text ? without_line_end(text, read) : SECRET_MAX_BYTES + 1;
    int rc = check_length(len, path, err);
    if (rc == 0) {
        memcpy(secret->bytes, text, len);
        secret->len = len;
    }
    if (text)
        OPENSSL_cleanse(text, read);
    free(text);
    return rc;
}

int secret_load(struct secret *secret, const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return fail(path, errno, "cannot open the secret's file", err);
    int rc = check_file(fd, path, err) == 0 ? read_secret(secret, fd, path, err) : -1;
    fdio_close(&fd);
    return rc;
}

int secret_make(struct secret *secret, struct error *err)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t random[SECRET_FRESH_CHARS / 2];
    if (secret_random(random, sizeof random, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof random; i++) {
        secret->bytes[2 * i] = (uint8_t)digits[random[i] >> 4];
        secret->bytes[2 * i + 1] = (uint8_t)digits[random[i] & 15];
    }
    secret->len = SECRET_FRESH_CHARS;
    OPENSSL_cleanse(random, sizeof random);
    return 0;
}

void secret_forget(struct secret *secret)
{
    OPENSSL_cleanse(secret, sizeof *secret);
}

#define LABEL_BYTES 14

int secret_prove(const struct secret *secret, enum wire_role side, const struct wire_hello *hello,
                 const struct wire_welcome *welcome, const uint8_t nonce[WIRE_NONCE_BYTES],
                 uint8_t code[WIRE_CODE_BYTES], struct error *err)
{
    uint8_t said[LABEL_BYTES + WIRE_HELLO_BYTES + WIRE_WELCOME_BYTES + WIRE_NONCE_BYTES];
    size_t len = LABEL_BYTES;
    memcpy(said, side == WIRE_ROLE_SERVER ? "rdmaput server" : "rdmaput client", LABEL_BYTES);
    len += wire_encode_hello(hello, said + len);
    len += wire_encode_welcome(welcome, said + len);
    memcpy(said + len, nonce, WIRE_NONCE_BYTES);
    len += WIRE_NONCE_BYTES;
    if (!HMAC(EVP_sha256(), secret->bytes, (int)secret->len, said, len, code, NULL))
        return error_set(err, ERROR_RESOURCE, STAGE_CONNECT, NULL,
                         "libcrypto made no HMAC-SHA-256");
    return 0;
}

bool secret_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

int secret_random(void *buf, size_t len, struct error *err)
{
    if (getrandom(buf, len, 0) == (ssize_t)len)
        return 0;
    return error_set_errno(err, ERROR_RESOURCE, STAGE_CONNECT, NULL, errno,
                           "cannot get random bytes");
}

#include "config.h"

#include "proof.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define LABEL_BYTES 14
#define NONCE_AT 4
#define CODE_AT (NONCE_AT + WIRE_NONCE_BYTES)

int proof_load(struct proof_secret *secret, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    secret->len = fread(secret->bytes, 1, sizeof secret->bytes, file);
    fclose(file);
    if (secret->len > 0 && secret->bytes[secret->len - 1] == '\n')
        secret->len--;
    return 0;
}

void proof_random(void *bytes, size_t len)
{
    if (getrandom(bytes, len, 0) != (ssize_t)len)
        memset(bytes, 0xa5, len);
}

void proof_code(const struct proof_session *session, enum wire_role side,
                uint8_t code[WIRE_CODE_BYTES])
{
    struct message said = {.len = 0};
    message_put_bytes(&said, side == WIRE_ROLE_SERVER ? "rdmaput server" : "rdmaput client",
                      LABEL_BYTES);
    message_put_bytes(&said, session->hello, WIRE_HELLO_BYTES);
    message_put_bytes(&said, session->welcome, WIRE_WELCOME_BYTES);
    message_put_bytes(&said, session->nonce, WIRE_NONCE_BYTES);
    HMAC(EVP_sha256(), session->secret->bytes, (int)session->secret->len, said.bytes, said.len,
         code, NULL);
}

/* As it was right where the nonces were others. */
static void another_session(struct proof_session *session)
{
    memset(session->nonce, 1, sizeof session->nonce);
    memset(session->welcome + WIRE_WELCOME_BYTES - WIRE_NONCE_BYTES, 2, WIRE_NONCE_BYTES);
}

bool proof_say(struct talk *talk, const struct proof_session *session, enum wire_role side)
{
    static const uint8_t none[WIRE_NONCE_BYTES];
    struct proof_session said = *session;
    struct message proof;
    uint8_t code[WIRE_CODE_BYTES];
    const struct deviation *deviation = talk->deviation;
    bool deviates = deviation && deviation->at == WIRE_PROOF;
    if (deviates && deviation->act == REPLAY)
        another_session(&said);
    if (deviates && deviation->act == REFLECT)
        side = side == WIRE_ROLE_SERVER ? WIRE_ROLE_WRITE : WIRE_ROLE_SERVER;
    proof_code(&said, side, code);
    message_begin(&proof, WIRE_PROOF);
    message_put_bytes(&proof, side == WIRE_ROLE_SERVER ? none : said.nonce, WIRE_NONCE_BYTES);
    message_put_bytes(&proof, code, sizeof code);
    message_end(&proof);
    return talk_say(talk, &proof);
}

bool proof_is_right(const struct proof_session *session, enum wire_role side,
                    const struct message *proof)
{
    uint8_t code[WIRE_CODE_BYTES];
    proof_code(session, side, code);
    return message_type(proof) == WIRE_PROOF && proof->len == CODE_AT + WIRE_CODE_BYTES &&
           memcmp(proof->bytes + CODE_AT, code, sizeof code) == 0;
}

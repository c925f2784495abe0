#include "config.h"

#include "handshake.h"

#include <string.h>

#include "clock.h"

int handshake_welcome(struct handshake *handshake, struct error *err)
{
    handshake->welcome = (struct wire_welcome){.version = WIRE_VERSION};
    if (!handshake->secret)
        return 0;
    handshake->welcome.flags = WIRE_WELCOME_SECRET;
    return secret_random(handshake->welcome.nonce, WIRE_NONCE_BYTES, err);
}

int handshake_accept(struct handshake *handshake, struct session *session,
                     struct endpoint *endpoint, const struct endpoint_wants *wants, unsigned slots,
                     unsigned objects, struct error *err)
{
    uint8_t data[WIRE_WELCOME_BYTES];
    if (handshake_welcome(handshake, err) < 0)
        return -1;
    unsigned len = (unsigned)wire_encode_welcome(&handshake->welcome, data);
    if (endpoint_create_queues(endpoint, wants, NULL, err) < 0 ||
        session_open(session, endpoint, slots, objects, endpoint->timeout, err) < 0 ||
        endpoint_accept(endpoint, data, len, clock_after(endpoint->timeout), err) < 0)
        return -1;
    session_begin(session);
    return 0;
}

static int code_of(const struct handshake *handshake, enum wire_role side, const uint8_t *nonce,
                   uint8_t code[WIRE_CODE_BYTES], struct error *err)
{
    return secret_prove(handshake->secret, side, &handshake->hello, &handshake->welcome, nonce,
                        code, err);
}

/* The peer's PROOF, with the client's nonce, against what it has to be; otherwise says so. */
static int check(const struct handshake *handshake, const struct session *session,
                 enum wire_role side, const uint8_t *nonce, const struct wire_message *proof,
                 const char *otherwise, struct error *err)
{
    uint8_t code[WIRE_CODE_BYTES];
    if (code_of(handshake, side, nonce, code, err) < 0)
        return -1;
    if (secret_equal(code, proof->proof.code, WIRE_CODE_BYTES))
        return 0;
    return error_set(err, ERROR_UNAVAILABLE, STAGE_CONNECT, session->endpoint->peer, "%s",
                     otherwise);
}

static int await_proof(struct session *session, struct wire_message *message, struct error *err)
{
    if (session_await(session, message, err) < 0)
        return -1;
    return message->type == WIRE_PROOF ? 0 : session_unexpected(session, message, err);
}

static int prove_first(const struct handshake *handshake, struct session *session,
                       struct error *err)
{
    struct wire_message proof = {.type = WIRE_PROOF}, answer;
    if (secret_random(proof.proof.nonce, WIRE_NONCE_BYTES, err) < 0 ||
        code_of(handshake, WIRE_ROLE_WRITE, proof.proof.nonce, proof.proof.code, err) < 0 ||
        session_send(session, &proof, err) < 0 || await_proof(session, &answer, err) < 0)
        return -1;
    return check(handshake, session, WIRE_ROLE_SERVER, proof.proof.nonce, &answer,
                 "the server does not know the secret", err);
}

int handshake_as_client(const struct handshake *handshake, struct session *session,
                        struct error *err)
{
    if (!handshake->secret || prove_first(handshake, session, err) == 0)
        return 0;
    if (err->class == ERROR_UNAVAILABLE)
        error_hint(err, "both ends need the same secret (--secret-file)");
    return -1;
}

int handshake_as_server(const struct handshake *handshake, struct session *session,
                        struct error *err)
{
    struct wire_message proof, answer = {.type = WIRE_PROOF};
    if (!handshake->secret)
        return 0;
    if (await_proof(session, &proof, err) < 0 ||
        check(handshake, session, WIRE_ROLE_WRITE, proof.proof.nonce, &proof, "access refused",
              err) < 0 ||
        code_of(handshake, WIRE_ROLE_SERVER, proof.proof.nonce, answer.proof.code, err) < 0)
        return -1;
    return session_send(session, &answer, err);
}

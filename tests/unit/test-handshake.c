/*
 * test-handshake.c - who gets past the proof of a secret, at either end.
 */
#include "config.h"

#include "handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#include <cmocka.h>

#include "session-bench.h"

#define CLIENT_NONCE 0x5a

static const struct secret secret = {.bytes = "what both ends know", .len = 19};
static const struct secret other = {.bytes = "what nobody knows..", .len = 19};

/* In place of the kernel's: the nonce of the client under test. */
ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
    (void)flags;
    memset(buf, CLIENT_NONCE, len);
    return (ssize_t)len;
}

/* What both sides said as they connected. */
static struct handshake begin(const struct secret *known)
{
    struct handshake handshake = {
        .secret = known,
        .hello = {.version = WIRE_VERSION, .role = WIRE_ROLE_WRITE, .flags = WIRE_HELLO_SECRET},
        .welcome = {.version = WIRE_VERSION, .flags = WIRE_WELCOME_SECRET}};
    memset(handshake.welcome.nonce, 0xc3, WIRE_NONCE_BYTES);
    return handshake;
}

/* A PROOF of that side, by somebody who knows that, in that session. */
static struct wire_message proof_of(enum wire_role side, const struct secret *known,
                                    const struct handshake *handshake)
{
    struct wire_message proof = {.type = WIRE_PROOF};
    struct error err = {.class = ERROR_NONE};
    uint8_t nonce[WIRE_NONCE_BYTES];

    memset(nonce, CLIENT_NONCE, WIRE_NONCE_BYTES);
    if (side == WIRE_ROLE_WRITE)
        memcpy(proof.proof.nonce, nonce, WIRE_NONCE_BYTES);
    assert_int_equal(secret_prove(known, side, &handshake->hello, &handshake->welcome, nonce,
                                  proof.proof.code, &err),
                     0);
    return proof;
}

/* What was sent last, as the peer gets it. */
static struct wire_message last_sent(const struct session_bench *bench)
{
    const struct fake_request *request = fake_last(&bench->fake);
    struct wire_message message;
    const char *problem;

    assert_int_equal(request->opcode, IBV_WR_SEND);
    assert_int_equal(wire_decode((const void *)(uintptr_t)request->entries[0].addr,
                                 request->entries[0].length, &message, &problem),
                     WIRE_OK);
    return message;
}

static void assert_proof(const struct wire_message *message, const struct wire_message *wanted)
{
    assert_int_equal(message->type, WIRE_PROOF);
    assert_memory_equal(message->proof.nonce, wanted->proof.nonce, WIRE_NONCE_BYTES);
    assert_memory_equal(message->proof.code, wanted->proof.code, WIRE_CODE_BYTES);
}

static void without_a_secret_nothing_is_said(void **state)
{
    struct session_bench *bench = *state;
    struct handshake handshake = begin(NULL);

    assert_int_equal(handshake_welcome(&handshake, &bench->err), 0);
    assert_int_equal(handshake.welcome.flags, 0);
    assert_int_equal(handshake.welcome.nonce[0], 0);
    assert_int_equal(handshake_as_client(&handshake, &bench->session, &bench->err), 0);
    assert_int_equal(handshake_as_server(&handshake, &bench->session, &bench->err), 0);
    assert_int_equal(bench->fake.request_count, 0);
}

static void a_server_with_a_secret_welcomes_with_a_nonce(void **state)
{
    struct session_bench *bench = *state;
    struct handshake handshake = begin(&secret);

    assert_int_equal(handshake_welcome(&handshake, &bench->err), 0);
    assert_int_equal(handshake.welcome.version, WIRE_VERSION);
    assert_int_equal(handshake.welcome.flags, WIRE_WELCOME_SECRET);
    assert_int_equal(handshake.welcome.nonce[0], CLIENT_NONCE);
}

static void a_client_proves_and_takes_a_servers_proof(void **state)
{
    struct session_bench *bench = *state;
    struct handshake handshake = begin(&secret);
    struct wire_message answer = proof_of(WIRE_ROLE_SERVER, &secret, &handshake);
    struct wire_message wanted = proof_of(WIRE_ROLE_WRITE, &secret, &handshake);

    session_bench_hear(bench, &answer);
    assert_int_equal(handshake_as_client(&handshake, &bench->session, &bench->err), 0);
    struct wire_message sent = last_sent(bench);
    assert_proof(&sent, &wanted);
}

static void a_server_takes_a_clients_proof_and_proves(void **state)
{
    struct session_bench *bench = *state;
    struct handshake handshake = begin(&secret);
    struct wire_message proof = proof_of(WIRE_ROLE_WRITE, &secret, &handshake);
    struct wire_message wanted = proof_of(WIRE_ROLE_SERVER, &secret, &handshake);

    session_bench_hear(bench, &proof);
    assert_int_equal(handshake_as_server(&handshake, &bench->session, &bench->err), 0);
    struct wire_message sent = last_sent(bench);
    assert_proof(&sent, &wanted);
}

/* What a client is told who does not know the secret, and that nothing was said before. */
static void assert_server_refuses(struct session_bench *bench, const struct wire_message *proof)
{
    struct handshake handshake = begin(&secret);

    session_bench_hear(bench, proof);
    assert_int_equal(handshake_as_server(&handshake, &bench->session, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_string_equal(bench->err.text, "access refused");
    assert_string_equal(bench->err.hint, "");
    assert_int_equal(bench->fake.request_count, 0);
}

static void a_client_with_another_secret_is_refused(void **state)
{
    const struct handshake handshake = begin(NULL);
    const struct wire_message proof = proof_of(WIRE_ROLE_WRITE, &other, &handshake);

    assert_server_refuses(*state, &proof);
}

static void a_recorded_proof_is_refused(void **state)
{
    struct handshake before = begin(NULL);

    memset(before.welcome.nonce, 0xc4, WIRE_NONCE_BYTES);
    const struct wire_message proof = proof_of(WIRE_ROLE_WRITE, &secret, &before);
    assert_server_refuses(*state, &proof);
}

static void a_proof_for_another_hello_is_refused(void **state)
{
    struct handshake otherwise = begin(NULL);

    otherwise.hello.flags |= WIRE_HELLO_MANY;
    const struct wire_message proof = proof_of(WIRE_ROLE_WRITE, &secret, &otherwise);
    assert_server_refuses(*state, &proof);
}

static void a_servers_proof_is_none_of_a_client(void **state)
{
    const struct handshake handshake = begin(NULL);
    struct wire_message proof = proof_of(WIRE_ROLE_SERVER, &secret, &handshake);

    memset(proof.proof.nonce, CLIENT_NONCE, WIRE_NONCE_BYTES);
    assert_server_refuses(*state, &proof);
}

static void a_proof_with_another_nonce_is_refused(void **state)
{
    const struct handshake handshake = begin(NULL);
    struct wire_message proof = proof_of(WIRE_ROLE_WRITE, &secret, &handshake);

    proof.proof.nonce[WIRE_NONCE_BYTES - 1] ^= 1;
    assert_server_refuses(*state, &proof);
}

static void each_bit_of_a_code_counts(void **state)
{
    struct session_bench *bench = *state;
    const struct handshake handshake = begin(&secret);
    const struct wire_message good = proof_of(WIRE_ROLE_WRITE, &secret, &handshake);

    for (unsigned bit = 0; bit < 8 * WIRE_CODE_BYTES; bit++) {
        struct wire_message proof = good;
        proof.proof.code[bit / 8] ^= (uint8_t)(1u << bit % 8);
        error_clear(&bench->err);
        assert_server_refuses(bench, &proof);
    }
}

static void a_server_wants_a_proof_first(void **state)
{
    struct session_bench *bench = *state;
    const struct handshake handshake = begin(&secret);
    const struct wire_message close = {.type = WIRE_CLOSE};

    session_bench_hear(bench, &close);
    assert_int_equal(handshake_as_server(&handshake, &bench->session, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
}

static void assert_client_refuses(struct session_bench *bench, const struct wire_message *answer)
{
    const struct handshake handshake = begin(&secret);

    session_bench_hear(bench, answer);
    assert_int_equal(handshake_as_client(&handshake, &bench->session, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_string_equal(bench->err.text, "the server does not know the secret");
}

static void a_server_with_another_secret_is_refused(void **state)
{
    const struct handshake handshake = begin(NULL);
    const struct wire_message answer = proof_of(WIRE_ROLE_SERVER, &other, &handshake);

    assert_client_refuses(*state, &answer);
}

static void a_clients_own_proof_sent_back_is_refused(void **state)
{
    const struct handshake handshake = begin(NULL);
    const struct wire_message answer = proof_of(WIRE_ROLE_WRITE, &secret, &handshake);

    assert_client_refuses(*state, &answer);
}

static void a_client_wants_a_proof_before_anything_else(void **state)
{
    struct session_bench *bench = *state;
    const struct handshake handshake = begin(&secret);
    const struct wire_message close = {.type = WIRE_CLOSE};

    session_bench_hear(bench, &close);
    assert_int_equal(handshake_as_client(&handshake, &bench->session, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_PROTOCOL);
}

int main(void)
{
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, session_bench_setup, session_bench_teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_a_secret_nothing_is_said),
        TEST(a_server_with_a_secret_welcomes_with_a_nonce),
        TEST(a_client_proves_and_takes_a_servers_proof),
        TEST(a_server_takes_a_clients_proof_and_proves),
        TEST(a_client_with_another_secret_is_refused),
        TEST(a_recorded_proof_is_refused),
        TEST(a_proof_for_another_hello_is_refused),
        TEST(a_servers_proof_is_none_of_a_client),
        TEST(a_proof_with_another_nonce_is_refused),
        TEST(each_bit_of_a_code_counts),
        TEST(a_server_wants_a_proof_first),
        TEST(a_server_with_another_secret_is_refused),
        TEST(a_clients_own_proof_sent_back_is_refused),
        TEST(a_client_wants_a_proof_before_anything_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

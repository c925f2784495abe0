#include "config.h"

#include "tester.h"

#include "clock.h"
#include "handshake.h"
#include "memory.h"
#include "pattern.h"
#include "session.h"

struct tester {
    const struct tester_job *job;
    struct tester_result *result;
    struct endpoint *endpoint;
    struct handshake handshake;
    struct session session;
    struct memory scratch; /* unmapped until the CHECK has come */
};

uint64_t tester_least_memory(void)
{
    return session_memory(WIRE_MAX_ECHOES, 1) + WIRE_MIN_SCRATCH;
}

static int connect_session(struct tester *tester, struct error *err)
{
    struct endpoint_wants wants = session_wants(WIRE_MAX_ECHOES, 1, 0);
    wants.max_sge = 1;
    if (handshake_accept(&tester->handshake, &tester->session, tester->endpoint, &wants,
                         WIRE_MAX_ECHOES, 1, err) < 0)
        return -1;
    tester->session.poll_ns = SESSION_POLL_NS;
    return handshake_as_server(&tester->handshake, &tester->session, err);
}

/* As much as is wanted, or as the session may have. */
static int register_scratch(struct tester *tester, size_t wanted, struct error *err)
{
    struct memory *scratch = &tester->scratch;
    struct facts *facts = &tester->endpoint->facts;
    uint64_t left = tester->job->memory - session_memory(WIRE_MAX_ECHOES, 1);
    uint64_t most = left / WIRE_MIN_SCRATCH * WIRE_MIN_SCRATCH;
    unsigned count = 1;
    size_t size = wanted < most ? wanted : (size_t)most;
    int64_t start = clock_now();
    if (memory_register_buffers(scratch, tester->endpoint->id, true, &count, &size,
                                "memory to check with", err) < 0)
        return -1;
    facts_took(facts, FACTS_REGISTER, start);
    facts->slots = count;
    facts->slot_size = size;
    facts->pinned = scratch->bytes + tester->session.messages.memory.bytes;
    pattern_fill(scratch->addr, size, WIRE_BACKGROUND_SEED, 0);
    return 0;
}

static int take_check(struct tester *tester, const struct wire_message *check, struct error *err)
{
    struct wire_message answer = {.type = WIRE_SCRATCH};
    if (tester->scratch.addr)
        return session_unexpected(&tester->session, check, err);
    if (register_scratch(tester, check->check.wanted, err) < 0)
        return -1;
    answer.scratch.size = (uint32_t)tester->scratch.bytes;
    answer.scratch.rkey = tester->scratch.mr->rkey;
    answer.scratch.remote_addr = (uint64_t)(uintptr_t)tester->scratch.addr;
    return session_send(&tester->session, &answer, err);
}

/* Compares a range of the scratch memory with a pattern from its start or, the background, from the
 * memory's. What is the first to be wrong goes into the verdict. */
static void compare(const struct tester *tester, size_t from, size_t len, uint64_t seed,
                    struct wire_message *verified)
{
    struct pattern_mismatch first;
    bool guard = seed == WIRE_BACKGROUND_SEED;
    size_t wrong = pattern_compare(tester->scratch.addr + from, len, seed, guard ? from : 0,
                                   &first);
    if (wrong > 0 && verified->verified.verdict == WIRE_EQUAL) {
        verified->verified.verdict = guard ? WIRE_WRONG_GUARD : WIRE_WRONG_TARGET;
        verified->verified.found = first.found;
        verified->verified.expected = first.expected;
        verified->verified.at = from + first.at;
    }
    verified->verified.wrong += (uint32_t)wrong;
}

static int take_verify(struct tester *tester, const struct wire_message *verify, struct error *err)
{
    struct wire_message answer = {.type = WIRE_VERIFIED, .verified = {.verdict = WIRE_EQUAL}};
    size_t size = tester->scratch.bytes, guard = verify->verify.guard;
    size_t start = verify->verify.offset, len = verify->verify.length, end = start + len;
    if (end > size)
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, tester->endpoint->peer,
                         "the peer broke the protocol: a VERIFY past the end of the memory");
    size_t before = guard < start ? guard : start, behind = guard < size - end ? guard : size - end;
    compare(tester, start, len, verify->verify.seed, &answer);
    compare(tester, start - before, before, WIRE_BACKGROUND_SEED, &answer);
    compare(tester, end, behind, WIRE_BACKGROUND_SEED, &answer);
    pattern_fill(tester->scratch.addr + start - before, before + len + behind, WIRE_BACKGROUND_SEED,
                 start - before);
    if (answer.verified.verdict == WIRE_EQUAL)
        tester->result->right++;
    else
        tester->result->wrong++;
    return session_send(&tester->session, &answer, err);
}

static int take_echo(struct tester *tester, const struct wire_message *echo, struct error *err)
{
    struct wire_message answer = {.type = WIRE_ECHOED, .echo = echo->echo};
    tester->result->echoes++;
    return session_send(&tester->session, &answer, err);
}

static int take_message(struct tester *tester, const struct wire_message *message,
                        struct error *err)
{
    if (message->type == WIRE_CHECK)
        return take_check(tester, message, err);
    if (tester->scratch.addr && message->type == WIRE_VERIFY)
        return take_verify(tester, message, err);
    if (tester->scratch.addr && message->type == WIRE_ECHO)
        return take_echo(tester, message, err);
    return session_unexpected(&tester->session, message, err);
}

static int answer(struct tester *tester, struct error *err)
{
    struct wire_message message;
    for (;;) {
        if (session_await(&tester->session, &message, err) < 0)
            return -1;
        if (tester->scratch.addr && message.type == WIRE_CLOSE)
            return 0;
        if (take_message(tester, &message, err) < 0)
            return -1;
    }
}

int tester_run(struct endpoint *endpoint, const struct tester_job *job,
               struct tester_result *result, struct error *err)
{
    struct tester tester = {.job = job,
                            .result = result,
                            .endpoint = endpoint,
                            .handshake = {.secret = job->secret, .hello = *job->hello}};
    *result = (struct tester_result){.right = 0};
    int rc = connect_session(&tester, err);
    if (rc == 0) {
        int64_t start = clock_now();
        rc = answer(&tester, err);
        facts_took(&endpoint->facts, FACTS_TRANSFER, start);
    }
    if (rc == 0) {
        session_linger(&tester.session);
    } else {
        if (job->others)
            session_blame_others(err);
        session_give_up(&tester.session, err);
    }
    session_close(&tester.session);
    memory_free(&tester.scratch);
    return rc;
}

#include "config.h"

#include "check.h"

#define SEED UINT64_C(0x1122334455667788)
#define OFFSET 4096
#define BYTES 1000
#define GUARD 64
#define WANTED 16384
#define ECHOES 2
#define VERDICT_AT 4

/* As wire.h has it. */
static uint8_t pattern(uint64_t seed, uint64_t position)
{
    uint64_t x = seed + (position / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint8_t)((x ^ x >> 31) >> position % 8 * 8);
}

/* ---- the client's -------------------------------------------------------------------------- */

static bool hear(struct talk *talk, unsigned type, struct message *message)
{
    return talk_hear(talk, message) && message_type(message) == type;
}

static bool ask_for_memory(struct client *client)
{
    struct message message;
    message_begin(&message, WIRE_CHECK);
    message_put(&message, 4, WANTED);
    message_put(&message, 4, 0);
    message_end(&message);
    if (!talk_say(client->talk, &message) || !hear(client->talk, WIRE_SCRATCH, &message))
        return false;
    client->rkey = (uint32_t)message_get(&message, 8, 4);
    client->remote_addr = message_get(&message, 12, 8) + OFFSET;
    return true;
}

/* Whether the server finds what it has to find. */
static bool write_and_verify(struct client *client)
{
    uint8_t bytes[BYTES];
    struct message message;
    struct talk *talk = client->talk;
    const struct deviation *deviation = talk->deviation;
    bool wrong = deviation && deviation->act != HONEST &&
                 (deviation->at == AT_WRITE || deviation->at == WIRE_VERIFY);
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = pattern(SEED, i);
    if (!client_write(client, 0, bytes, BYTES))
        return false;
    message_begin(&message, WIRE_VERIFY);
    message_put(&message, 4, GUARD);
    message_put(&message, 4, 0);
    message_put(&message, 8, OFFSET);
    message_put(&message, 8, BYTES);
    message_put(&message, 8, SEED);
    message_end(&message);
    if (!talk_say(talk, &message) || !hear(talk, WIRE_VERIFIED, &message))
        return false;
    if ((message_get(&message, VERDICT_AT, 2) != WIRE_EQUAL) != wrong)
        talk->problem = wrong ? "something wrong was taken for right"
                              : "something right was taken for wrong";
    return !talk->problem;
}

static bool echo(struct talk *talk, uint64_t number)
{
    struct message message;
    const struct deviation *deviation = talk->deviation;
    message_begin(&message, WIRE_ECHO);
    message_put(&message, 8, number);
    message_end(&message);
    if (deviation && deviation->at == WIRE_ECHO && deviation->act == PATCH &&
        talk->count[WIRE_ECHO] == deviation->nth)
        number = deviation->value;
    if (!talk_say(talk, &message) || !hear(talk, WIRE_ECHOED, &message))
        return false;
    if (message_get(&message, 4, 8) != number)
        talk->problem = "the echo of another number";
    return !talk->problem;
}

void check_run(struct talk *talk, const struct client_job *job)
{
    struct client client;
    if (!client_connect(&client, talk, job) || !ask_for_memory(&client) ||
        !write_and_verify(&client))
        return;
    for (unsigned i = 0; i < ECHOES; i++)
        if (!echo(talk, i + 1))
            return;
    if (!talk_say_plain(talk, WIRE_CLOSE) || talk->over)
        return;
    talk->done = true;
    link_settle(&talk->link, talk->deadline);
    link_disconnect(&talk->link);
}

/* ---- the server's -------------------------------------------------------------------------- */

static void fill(struct talk *talk, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        talk->link.data[i] = pattern(WIRE_BACKGROUND_SEED, i);
}

static bool say_scratch(struct talk *talk, const struct message *check)
{
    struct message scratch;
    uint64_t size = message_get(check, 4, 4);
    fill(talk, 0, size);
    message_begin(&scratch, WIRE_SCRATCH);
    message_put(&scratch, 4, size);
    message_put(&scratch, 4, talk->link.mr->rkey);
    message_put(&scratch, 8, (uintptr_t)talk->link.data);
    message_end(&scratch);
    return talk_say(talk, &scratch);
}

/* What is found wrong between two places. */
struct wrong {
    uint64_t count, at;
    uint8_t found, expected;
};

static void compare(const struct talk *talk, uint64_t from, uint64_t to, uint64_t seed,
                    struct wrong *wrong)
{
    for (uint64_t i = from; i < to; i++) {
        uint8_t expected = pattern(seed, seed == WIRE_BACKGROUND_SEED ? i : i - from);
        if (talk->link.data[i] == expected)
            continue;
        if (wrong->count++ == 0) {
            wrong->at = i;
            wrong->found = talk->link.data[i];
            wrong->expected = expected;
        }
    }
}

static bool say_verified(struct talk *talk, const struct message *verify)
{
    struct message verified;
    struct wrong wrong = {.count = 0};
    uint64_t guard = message_get(verify, 4, 4), start = message_get(verify, 12, 8);
    uint64_t len = message_get(verify, 20, 8), size = talk->link.data_bytes;
    const struct deviation *deviation = talk_deviation(talk, AT_WRITE);
    if (len > size || start > size - len || guard > start || guard > size - start - len)
        return false;
    if (deviation && deviation->act == CORRUPT)
        talk->link.data[start + deviation->value] ^= 0x40;
    compare(talk, start, start + len, message_get(verify, 28, 8), &wrong);
    bool in_target = wrong.count > 0;
    compare(talk, start - guard, start, WIRE_BACKGROUND_SEED, &wrong);
    compare(talk, start + len, start + len + guard, WIRE_BACKGROUND_SEED, &wrong);
    fill(talk, start - guard, start + len + guard);
    message_begin(&verified, WIRE_VERIFIED);
    message_put(&verified, 2,
                wrong.count == 0 ? WIRE_EQUAL
                : in_target      ? WIRE_WRONG_TARGET
                                 : WIRE_WRONG_GUARD);
    message_put(&verified, 1, wrong.found);
    message_put(&verified, 1, wrong.expected);
    message_put(&verified, 4, wrong.count);
    message_put(&verified, 8, wrong.at);
    message_end(&verified);
    return talk_say(talk, &verified);
}

static bool say_echoed(struct talk *talk, const struct message *echo)
{
    struct message echoed;
    message_begin(&echoed, WIRE_ECHOED);
    message_put(&echoed, 8, message_get(echo, 4, 8));
    message_end(&echoed);
    return talk_say(talk, &echoed);
}

static bool answer(struct talk *talk, const struct message *message)
{
    switch (message_type(message)) {
    case WIRE_CHECK:
        return say_scratch(talk, message);
    case WIRE_VERIFY:
        return say_verified(talk, message);
    case WIRE_ECHO:
        return say_echoed(talk, message);
    case WIRE_CLOSE:
        talk->done = true;
        return false;
    default:
        return false;
    }
}

void check_attend(struct talk *talk)
{
    struct message message;
    while (talk_hear(talk, &message))
        if (!answer(talk, &message))
            return;
}

#include "config.h"

#include "talk.h"

#include <string.h>

#define PING_MS 20
#define SETTLE_MS 2000

void message_begin(struct message *message, unsigned type)
{
    message->len = 0;
    message_put(message, 2, type);
    message_put(message, 2, 0);
}

void message_put(struct message *message, unsigned width, uint64_t value)
{
    for (unsigned i = width; i-- > 0; value >>= 8)
        message->bytes[message->len + i] = (uint8_t)value;
    message->len += width;
}

void message_put_bytes(struct message *message, const void *bytes, size_t len)
{
    memcpy(message->bytes + message->len, bytes, len);
    message->len += len;
}

static void put_at(struct message *message, size_t at, unsigned width, uint64_t value)
{
    size_t len = message->len;
    message->len = at;
    message_put(message, width, value);
    message->len = len;
}

void message_end(struct message *message)
{
    put_at(message, 2, 2, message->len);
}

unsigned message_type(const struct message *message)
{
    return (unsigned)message_get(message, 0, 2);
}

uint64_t message_get(const struct message *message, size_t offset, unsigned width)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | (offset + i < message->len ? message->bytes[offset + i] : 0);
    return value;
}

static void put_zeros(struct message *message, size_t len)
{
    memset(message->bytes + message->len, 0, len);
    message->len += len;
}

static void put_open(struct message *message)
{
    message_put(message, 4, 0);
    message_put(message, 8, 8);
    message_put(message, 8, 8);
    put_zeros(message, 4 + 2 * 12 + WIRE_IDENTITY_BYTES);
    message_put(message, 2, 4);
    message_put(message, 2, 2);
    message_put(message, 4, 8192);
    message_put(message, 2, 1);
    message_put(message, 2, 0);
    message_put_bytes(message, "x", 1);
}

void message_sample(struct message *message, unsigned type)
{
    message_begin(message, type);
    switch (type) {
    case WIRE_OPEN:
        put_open(message);
        break;
    case WIRE_READY:
        message_put(message, 2, 1);
        message_put(message, 2, 1);
        message_put(message, 4, WIRE_MIN_SLOT_SIZE);
        put_zeros(message, 16);
        break;
    case WIRE_OPENED:
        put_zeros(message, 16);
        break;
    case WIRE_PLACE:
        put_zeros(message, 24);
        message_put(message, 8, WIRE_MIN_SLOT_SIZE);
        put_zeros(message, 8);
        break;
    case WIRE_RECALL:
        message_put(message, 4, 1);
        put_zeros(message, 48 + 8);
        message_put(message, 8, 1);
        break;
    case WIRE_RECALLED:
    case WIRE_END:
        put_zeros(message, 52);
        break;
    case WIRE_CHUNK:
        message_put(message, 4, 1);
        put_zeros(message, 8);
        message_put(message, 8, 1);
        break;
    case WIRE_GRANT:
        put_zeros(message, 16);
        break;
    case WIRE_DONE:
        put_zeros(message, 56);
        break;
    case WIRE_FAILED:
        message_put(message, 4, 0);
        /* fall through */
    case WIRE_ERROR:
        message_put(message, 2, 75);
        message_put(message, 2, 7);
        message_put(message, 4, 0);
        message_put_bytes(message, "hostile", 7);
        break;
    case WIRE_CHECK:
        message_put(message, 4, WIRE_MIN_SCRATCH);
        message_put(message, 4, 0);
        break;
    case WIRE_SCRATCH:
        message_put(message, 4, WIRE_MIN_SCRATCH);
        put_zeros(message, 12);
        break;
    case WIRE_VERIFY:
        put_zeros(message, 24);
        message_put(message, 8, 1);
        break;
    case WIRE_VERIFIED:
        put_zeros(message, 16);
        break;
    case WIRE_ECHO:
    case WIRE_ECHOED:
        put_zeros(message, 8);
        break;
    case WIRE_PROOF:
        put_zeros(message, WIRE_NONCE_BYTES + WIRE_CODE_BYTES);
        break;
    case WIRE_MEET:
        message_put_bytes(message, "0123456789abcdef", WIRE_TOKEN_BYTES);
        message_put(message, 2, 9);
        message_put(message, 2, 0);
        message_put_bytes(message, "192.0.2.1", 9);
        break;
    default:
        break;
    }
    message_end(message);
}

const struct deviation *talk_deviation(struct talk *talk, unsigned type)
{
    const struct deviation *deviation = talk->deviation;
    unsigned before = talk->count[type & 0xff]++;
    bool is_it = deviation && deviation->act != HONEST && deviation->at == type &&
                 deviation->nth == before;
    return is_it ? deviation : NULL;
}

void talk_shape(const struct deviation *deviation, struct message *message, size_t length_at)
{
    switch (deviation->act) {
    case PATCH:
        put_at(message, deviation->offset, deviation->width, deviation->value);
        return;
    case CUT:
        message->len = deviation->value;
        break;
    case GROW:
        memset(message->bytes + message->len, 0xff, deviation->value);
        message->len += deviation->value;
        break;
    default:
        return;
    }
    if (deviation->fixes)
        put_at(message, length_at, 2, message->len);
}

bool talk_stop(struct talk *talk, const struct deviation *deviation)
{
    switch (deviation->act) {
    case LEAVE:
        link_settle(&talk->link, link_now() + SETTLE_MS);
        link_disconnect(&talk->link);
        break;
    case DIE:
        link_settle(&talk->link, link_now() + SETTLE_MS);
        link_close(&talk->link);
        break;
    case HUSH:
        talk->silent = true;
        break;
    case PINGS:
        talk->pinging = true;
        break;
    default:
        return false;
    }
    talk->over = true;
    return true;
}

static bool send_message(struct talk *talk, const struct message *message)
{
    if (link_send(&talk->link, message->bytes, message->len, talk->deadline) == 0)
        return true;
    talk->over = true;
    return false;
}

static bool send_other(struct talk *talk, const struct deviation *deviation)
{
    struct message other;
    message_sample(&other, deviation->other);
    if (deviation->width > 0)
        put_at(&other, deviation->offset, deviation->width, deviation->value);
    return send_message(talk, &other);
}

static bool deviate(struct talk *talk, const struct deviation *deviation, struct message *message)
{
    if (talk_stop(talk, deviation))
        return false;
    switch (deviation->act) {
    case SKIP:
        return true;
    case INSTEAD:
        return send_other(talk, deviation);
    case FIRST:
        return send_other(talk, deviation) && send_message(talk, message);
    case AFTER:
        return send_message(talk, message) && send_other(talk, deviation);
    case REPEAT:
        for (uint64_t i = 0; i < deviation->value; i++)
            if (!send_message(talk, message))
                return false;
        return send_message(talk, message);
    default:
        talk_shape(deviation, message, 2);
        return send_message(talk, message);
    }
}

bool talk_say(struct talk *talk, const struct message *message)
{
    struct message changed;
    if (talk->over)
        return false;
    const struct deviation *deviation = talk_deviation(talk, message_type(message));
    if (!deviation)
        return send_message(talk, message);
    changed = *message;
    return deviate(talk, deviation, &changed);
}

bool talk_say_plain(struct talk *talk, unsigned type)
{
    struct message message;
    message_begin(&message, type);
    message_end(&message);
    return talk_say(talk, &message);
}

void talk_note(struct talk *talk, unsigned status, const uint8_t *text, size_t len)
{
    if (talk->told)
        return;
    talk->told = true;
    talk->status = status;
    if (len > WIRE_MAX_TEXT)
        len = WIRE_MAX_TEXT;
    memcpy(talk->text, text, len);
    talk->text[len] = '\0';
}

/* Deals with what comes at any time. Whether the message is for somebody else. */
static bool answer(struct talk *talk, const struct message *message)
{
    struct message pong;
    switch (message_type(message)) {
    case WIRE_PING:
        message_begin(&pong, WIRE_PONG);
        message_end(&pong);
        if (!talk->silent)
            link_send(&talk->link, pong.bytes, pong.len, talk->deadline);
        return false;
    case WIRE_PONG:
        return false;
    case WIRE_ERROR:
        talk_note(talk, (unsigned)message_get(message, 4, 2), message->bytes + 12,
                  message_get(message, 6, 2));
        talk->over = true;
        return false;
    default:
        return true;
    }
}

static enum link_news next(struct talk *talk, struct message *message, int64_t deadline)
{
    return link_next(&talk->link, message->bytes, sizeof message->bytes, &message->len, deadline);
}

bool talk_hear(struct talk *talk, struct message *message)
{
    while (!talk->over) {
        if (next(talk, message, talk->deadline) != LINK_MESSAGE)
            talk->over = true;
        else if (answer(talk, message))
            return true;
    }
    return false;
}

static void ping(struct talk *talk)
{
    struct message message;
    message_begin(&message, WIRE_PING);
    message_end(&message);
    if (!talk->told)
        link_send(&talk->link, message.bytes, message.len, link_now() + PING_MS);
}

bool talk_conclude(struct talk *talk)
{
    struct message message;
    enum link_news news;
    if (!talk->link.channel)
        return true;
    do {
        int64_t look_at = talk->pinging ? link_now() + PING_MS : talk->deadline;
        news = next(talk, &message, look_at < talk->deadline ? look_at : talk->deadline);
        if (news == LINK_MESSAGE)
            answer(talk, &message);
        else if (news == LINK_SILENCE && talk->pinging)
            ping(talk);
    } while (news != LINK_ENDED && link_now() < talk->deadline);
    link_disconnect(&talk->link);
    return news == LINK_ENDED;
}

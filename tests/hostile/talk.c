#include "config.h"

#include "talk.h"

#include <string.h>

#define PING_MS 20
#define SETTLE_MS 2000
#define DROPS 12 /* in the time that the other side has */
#define MESSAGE_LENGTH_AT 2
#define PRIVATE_LENGTH_AT 6

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
        if (!talk->link.channel)
            stream_close(&talk->stream);
        link_settle(&talk->link, link_now() + SETTLE_MS);
        link_disconnect(&talk->link);
        break;
    case DIE:
        if (!talk->link.channel)
            stream_reset(&talk->stream);
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
    bool sent = talk->by_stream
                    ? stream_send(&talk->stream, message->bytes, message->len, talk->deadline)
                    : link_send(&talk->link, message->bytes, message->len, talk->deadline) == 0;
    talk->over |= !sent;
    return sent;
}

static bool send_other(struct talk *talk, const struct deviation *deviation)
{
    struct message other;
    message_sample(&other, deviation->other);
    if (deviation->width > 0)
        put_at(&other, deviation->offset, deviation->width, deviation->value);
    return send_message(talk, &other);
}

/* What was to go by the exchange's connection is lost with that. */
static bool send_without_stream(struct talk *talk, const struct message *message)
{
    return talk->by_stream || send_message(talk, message);
}

static bool send_elsewhere(struct talk *talk, const struct message *message)
{
    talk->by_stream = !talk->by_stream;
    bool sent = send_message(talk, message);
    talk->by_stream = !talk->by_stream;
    return sent;
}

static bool send_raw(struct talk *talk, const struct deviation *deviation)
{
    struct message raw = {.len = 0};
    message_put_bytes(&raw, deviation->text, strlen(deviation->text));
    return send_message(talk, &raw);
}

static bool send_part(struct talk *talk, const struct deviation *deviation, struct message *message)
{
    message->len = deviation->value;
    send_message(talk, message);
    if (deviation->act == BREAK_OFF)
        stream_close(&talk->stream);
    talk->over = true;
    return false;
}

static bool deviate(struct talk *talk, const struct deviation *deviation, struct message *message,
                    size_t length_at)
{
    if (talk_stop(talk, deviation))
        return false;
    switch (deviation->act) {
    case SKIP:
        return true;
    case HANG_UP:
        stream_close(&talk->stream);
        return send_without_stream(talk, message);
    case RESET:
        stream_reset(&talk->stream);
        return send_without_stream(talk, message);
    case STUFF:
        stream_stuff(&talk->stream);
        return send_message(talk, message);
    case BREAK_OFF:
    case HOLD:
        return send_part(talk, deviation, message);
    case DRIP:
        talk->drops = *message;
        talk->dripping = talk->over = true;
        return false;
    case RAW:
        return send_raw(talk, deviation);
    case ELSEWHERE:
        return send_elsewhere(talk, message);
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
        talk_shape(deviation, message, length_at);
        return send_message(talk, message);
    }
}

static bool say(struct talk *talk, const struct message *message, unsigned at, size_t length_at)
{
    struct message changed;
    if (talk->over)
        return false;
    const struct deviation *deviation = talk_deviation(talk, at);
    if (!deviation)
        return send_message(talk, message);
    changed = *message;
    return deviate(talk, deviation, &changed, length_at);
}

bool talk_say(struct talk *talk, const struct message *message)
{
    return say(talk, message, message_type(message), MESSAGE_LENGTH_AT);
}

bool talk_say_by_stream(struct talk *talk, const struct message *message, unsigned at,
                        size_t length_at)
{
    talk->by_stream = true;
    bool goes_on = say(talk, message, at, length_at);
    talk->by_stream = false;
    return goes_on;
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

bool talk_is_welcome(const uint8_t *said, size_t len, bool with_secret)
{
    return len >= WIRE_WELCOME_BYTES && memcmp(said, "RPUT", 4) == 0 && said[4] == WIRE_VERSION &&
           said[5] == WIRE_ROLE_SERVER && said[11] == (with_secret ? WIRE_WELCOME_SECRET : 0);
}

void talk_note_refusal(struct talk *talk, const uint8_t *said, size_t len)
{
    if (len >= 10 && memcmp(said, "RPUT", 4) == 0)
        talk_note(talk, said[8], said + 10, said[9]);
    talk->over = true;
}

static void put_refusal(struct message *refusal)
{
    static const char text[] = "hostile";
    refusal->len = 0;
    message_put_bytes(refusal, "RPUT", 4);
    message_put(refusal, 1, WIRE_VERSION);
    message_put(refusal, 1, WIRE_ROLE_SERVER);
    message_put(refusal, 2, 10 + strlen(text));
    message_put(refusal, 1, 75);
    message_put(refusal, 1, strlen(text));
    message_put_bytes(refusal, text, strlen(text));
}

bool talk_refuses(const struct talk *talk, unsigned at, struct message *refusal)
{
    if (!talk->deviation || talk->deviation->at != at)
        return false;
    put_refusal(refusal);
    talk_shape(talk->deviation, refusal, PRIVATE_LENGTH_AT);
    return true;
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

static void drip(struct talk *talk)
{
    stream_send(&talk->stream, talk->drops.bytes + talk->dripped, 1, link_now() + PING_MS);
    talk->dripped = (talk->dripped + 1) % talk->drops.len;
}

/* The moment until which to listen before something else is to be said. */
static int64_t look_at(const struct talk *talk)
{
    int64_t now = link_now(), moment = talk->deadline;
    if (talk->pinging)
        moment = now + PING_MS;
    if (talk->dripping)
        moment = now + talk->limit_ms / DROPS;
    return moment < talk->deadline ? moment : talk->deadline;
}

static bool conclude_link(struct talk *talk)
{
    struct message message;
    enum link_news news;
    if (!talk->link.channel)
        return true;
    do {
        news = next(talk, &message, look_at(talk));
        if (news == LINK_MESSAGE)
            answer(talk, &message);
        else if (news == LINK_SILENCE && talk->pinging)
            ping(talk);
        else if (news == LINK_SILENCE && talk->dripping)
            drip(talk);
    } while (news != LINK_ENDED && link_now() < talk->deadline);
    link_disconnect(&talk->link);
    return news == LINK_ENDED;
}

/* Hears what comes by TCP until then. */
static void hear_stream(const struct talk *talk, struct message *said, int64_t until)
{
    uint8_t byte;
    while (stream_read(&talk->stream, &byte, 1, until))
        if (said->len < sizeof said->bytes)
            said->bytes[said->len++] = byte;
}

static bool conclude_stream(struct talk *talk)
{
    struct message said = {.len = 0};
    if (!talk->stream.open)
        return true;
    do {
        hear_stream(talk, &said, look_at(talk));
        if (talk->dripping)
            drip(talk);
    } while (!stream_has_ended(&talk->stream) && link_now() < talk->deadline);
    bool ended = stream_has_ended(&talk->stream);
    /* What was said just before the end. */
    if (ended)
        hear_stream(talk, &said, talk->deadline);
    talk_note_refusal(talk, said.bytes, said.len);
    stream_close(&talk->stream);
    return ended;
}

bool talk_conclude(struct talk *talk)
{
    bool link_ended = conclude_link(talk);
    return conclude_stream(talk) && link_ended;
}

#include "config.h"

#include "meeting.h"

#include <string.h>

#include "proof.h"

#define PRIVATE_LENGTH_AT 6
#define MESSAGE_LENGTH_AT 2
#define TOKEN_AT 12

/* What has its own length somewhere in its first bytes. */
static bool hear(const struct talk *talk, struct message *message, size_t start, size_t length_at)
{
    const struct stream *stream = &talk->stream;
    *message = (struct message){.len = start};
    if (!stream_read(stream, message->bytes, start, talk->deadline))
        return false;
    size_t len = message_get(message, length_at, 2);
    if (len < start || len > sizeof message->bytes)
        return false;
    if (!stream_read(stream, message->bytes + start, len - start, talk->deadline))
        return false;
    message->len = len;
    return true;
}

bool meeting_hear(const struct talk *talk, struct message *message)
{
    return hear(talk, message, WIRE_HEADER_BYTES, MESSAGE_LENGTH_AT);
}

static bool hear_private(const struct talk *talk, struct message *message)
{
    return hear(talk, message, WIRE_PRIVATE_HEADER_BYTES, PRIVATE_LENGTH_AT);
}

bool meeting_ask(struct talk *talk, const struct sockaddr *dest, const struct message *hello,
                 uint8_t token[WIRE_TOKEN_BYTES])
{
    struct message answer = {.len = 0}, meet;
    bool met = stream_connect(&talk->stream, dest, talk->deadline) == 0;
    if (!met)
        talk->problem = "no connection by TCP";
    else
        stream_name(&talk->stream, talk->name);
    met = met && talk_say_by_stream(talk, hello, AT_TCP_HELLO, PRIVATE_LENGTH_AT) &&
          hear_private(talk, &answer) && talk_is_welcome(answer.bytes, answer.len, false);
    if (met) {
        met = meeting_hear(talk, &meet) && message_type(&meet) == WIRE_MEET;
        memcpy(token, meet.bytes + WIRE_HEADER_BYTES, WIRE_TOKEN_BYTES);
    } else if (!talk->over) {
        talk_note_refusal(talk, answer.bytes, answer.len);
    }
    talk->over |= !met;
    return met;
}

static bool hear_hello(struct talk *talk)
{
    static const uint8_t none[WIRE_TOKEN_BYTES];
    struct message hello;
    if (!hear_private(talk, &hello)) {
        talk->over = true;
        return false;
    }
    if (hello.len != WIRE_HELLO_BYTES || memcmp(hello.bytes, "RPUT", 4) != 0 ||
        hello.bytes[5] != WIRE_ROLE_WRITE || memcmp(hello.bytes + TOKEN_AT, none, sizeof none) != 0)
        talk->problem = "the client's HELLO by TCP is wrong";
    return !talk->problem;
}

bool meeting_answer(struct talk *talk, const struct stream *listener, const struct message *welcome,
                    const char *address, uint8_t token[WIRE_TOKEN_BYTES])
{
    struct message meet, refusal;
    const struct deviation *deviation = talk->deviation;
    if (deviation && deviation->act == NAMES)
        address = deviation->text;
    size_t len = strlen(address);
    if (stream_accept(listener, &talk->stream, talk->deadline) < 0)
        return false;
    talk->deadline = link_now() + talk->limit_ms;
    if (!hear_hello(talk))
        return false;
    if (talk_refuses(talk, AT_TCP_REFUSAL, &refusal)) {
        stream_send(&talk->stream, refusal.bytes, refusal.len, talk->deadline);
        talk->over = true;
        return false;
    }
    proof_random(token, WIRE_TOKEN_BYTES);
    message_begin(&meet, WIRE_MEET);
    message_put_bytes(&meet, token, WIRE_TOKEN_BYTES);
    message_put(&meet, 2, len);
    message_put(&meet, 2, 0);
    message_put_bytes(&meet, address, len);
    message_end(&meet);
    return talk_say_by_stream(talk, welcome, AT_TCP_WELCOME, PRIVATE_LENGTH_AT) &&
           talk_say_by_stream(talk, &meet, WIRE_MEET, MESSAGE_LENGTH_AT);
}

/*
 * talk.h - one end of a conversation in rdmaput's protocol, as src/wire.h specifies it, in bytes of
 * its own making: honest but for one deviation.
 */
#ifndef HOSTILE_TALK_H
#define HOSTILE_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"
#include "stream.h"
#include "wire.h"

/* What is not a message, and may deviate as well: numbers beyond any type. */
#define AT_HELLO 240
#define AT_WELCOME 241
#define AT_REFUSAL 242 /* in place of the WELCOME */
#define AT_WRITE 243   /* RDMA writes into slots; a server's into memory of a `post` */
/* Likewise, of an exchange. The MEET and then the READY are messages like others. */
#define AT_TCP_HELLO 244
#define AT_TCP_WELCOME 245
#define AT_TCP_REFUSAL 246 /* in place of the WELCOME */
#define UNKNOWN_TYPE 200

enum act {
    HONEST,
    PATCH,   /* width bytes at offset become value */
    CUT,     /* to value bytes */
    GROW,    /* by value bytes of 0xff */
    REPEAT,  /* value times more */
    FIRST,   /* after an other one, itself with PATCH when it has a width */
    AFTER,   /* before an other one, likewise */
    INSTEAD, /* likewise, of this one */
    SKIP,    /* it is left out, and all goes on */
    CORRUPT, /* AT_WRITE: other data */
    REFLECT, /* PROOF: with the code that the other side has to send */
    REPLAY,  /* PROOF: as it was right in another session */
    FORGET,  /* AT_WELCOME: as if there were no secret; AT_HELLO: no exchange */
    AIM,     /* AT_WRITE: value bytes from where it should, or absolute; with the rkey ^ key */
    LEAVE,   /* disconnects instead; what there is of connections, the exchange's or the other */
    DIE,     /* ends instead, without a disconnect; likewise */
    HUSH,    /* says nothing any more instead, nor answers */
    PINGS,   /* sends nothing but PINGs any more instead */
    /* Of an exchange's connection: */
    HANG_UP,   /* closes it before, and goes on */
    RESET,     /* likewise, without an end in good order */
    STUFF,     /* fills it before, until it takes no more */
    BREAK_OFF, /* closes it after the first value bytes */
    HOLD,      /* says nothing any more after them, but answers */
    DRIP,      /* a byte now and then, and nothing else any more */
    RAW,       /* text instead */
    NAMES,     /* WIRE_MEET: text in place of where this side is */
    ELSEWHERE, /* over RDMA what belongs there, and the reverse */
};

struct deviation {
    enum act act;
    uint8_t at;    /* the type of the message concerned */
    uint16_t nth;  /* the first of that type is 0 */
    uint8_t other; /* type of another message */
    bool fixes;    /* CUT, GROW: the message's own length says so */
    bool absolute; /* AIM */
    uint16_t offset;
    uint8_t width;
    uint32_t key; /* AIM */
    uint64_t value;
    const char *text; /* RAW, NAMES */
};

struct message {
    size_t len;
    uint8_t bytes[LINK_SEND_BYTES];
};

struct talk {
    struct link link;
    struct stream stream; /* of an exchange, if there is one */
    bool by_stream;       /* what is said goes there */
    const struct deviation *deviation;
    int64_t limit_ms;           /* for the whole */
    int64_t deadline;           /* likewise, when it has begun */
    char name[LINK_NAME_BYTES]; /* as the other side calls it */
    const char *problem;        /* what was found wrong besides */
    uint16_t count[256];        /* messages said so far, by type */
    bool over;                  /* nothing more is to be said */
    bool silent;                /* nor answered */
    bool pinging;
    bool dripping;
    struct message drops; /* what is dripped, and then anew */
    size_t dripped;       /* bytes of it */
    /* What the other side told: an exit status with its text; 0 with done. */
    bool told, done;
    unsigned status;
    char text[WIRE_MAX_TEXT + 1];
};

/* Making messages, and reading them. */
void message_begin(struct message *message, unsigned type);
void message_put(struct message *message, unsigned width, uint64_t value);
void message_put_bytes(struct message *message, const void *bytes, size_t len);
void message_end(struct message *message);
unsigned message_type(const struct message *message);
uint64_t message_get(const struct message *message, size_t offset, unsigned width);

/* A message of that type whose fields are all in their limits. */
void message_sample(struct message *message, unsigned type);

/* Whether what is to be said next is the one that deviates; counts it. */
const struct deviation *talk_deviation(struct talk *talk, unsigned type);

/* PATCH, CUT and GROW; length_at is where its length stands. */
void talk_shape(const struct deviation *deviation, struct message *message, size_t length_at);

/* LEAVE, DIE, HUSH, PINGS: the conversation is over. Whether it is. */
bool talk_stop(struct talk *talk, const struct deviation *deviation);

/* Says it, or what the deviation makes of it. false when the conversation is over. */
bool talk_say(struct talk *talk, const struct message *message);
bool talk_say_plain(struct talk *talk, unsigned type);
/* Likewise, on the exchange's connection: a message, or what has its place, at, and its length
 * elsewhere. */
bool talk_say_by_stream(struct talk *talk, const struct message *message, unsigned at,
                        size_t length_at);

/* The next message but PING, PONG and ERROR, which are dealt with. false when it is over. */
bool talk_hear(struct talk *talk, struct message *message);

/* Notes a status and a text that the other side told of. */
void talk_note(struct talk *talk, unsigned status, const uint8_t *text, size_t len);

/* What the other side said to a greeting: a WELCOME; or a REFUSAL, which is noted, or nothing that
 * makes sense. */
bool talk_is_welcome(const uint8_t *said, size_t len, bool with_secret);
void talk_note_refusal(struct talk *talk, const uint8_t *said, size_t len);

/* Whether a server is to refuse there instead, and how. */
bool talk_refuses(const struct talk *talk, unsigned at, struct message *refusal);

/* To the end of the connections, which is up to the other side unless this one left. Whether it came
 * in time. */
bool talk_conclude(struct talk *talk);

#endif

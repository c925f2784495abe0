/*
 * wire.h - the protocol of rdmaput, version 1. This file is its specification.
 *
 * Transport. One reliable connection made with librdmacm. All numbers are big-endian. Data travels
 * as RDMA writes into memory that the server granted; all else as messages (SEND), one message to
 * one receive buffer of WIRE_MESSAGE_BYTES. The client speaks first (iWARP wants it so). No
 * immediate data.
 *
 * Connecting. The connect request's private data is a HELLO, the acceptance's a WELCOME, the
 * rejection's a REFUSAL. InfiniBand and RoCE pad private data with zeros, so each says its own
 * length. Magic and version stand at the same place in every version.
 *
 *     HELLO    magic[4] "RPUT", version u8, role u8, length u16,
 *              flags u32 (role WRITE; WIRE_HELLO_MANY: several objects, WIRE_HELLO_SECRET: it
 *              knows a secret, and is to prove so; role CHECK: WIRE_HELLO_SECRET, or
 *              WIRE_HELLO_KNOCK: it only wants to know whether somebody listens),
 *              token[16] (role POST with a token, role WRITE after an exchange; else
 *              zeros),
 *              probe_addr u64, probe_rkey u32 (role POST; else zeros): a byte of the client's that
 *              the server may read, to find out whether its host is still there   40 bytes
 *     WELCOME  magic[4], version u8, role u8 (SERVER), length u16,
 *              flags u32 (WIRE_WELCOME_SECRET: as HELLO's),
 *              nonce[32] (with it; else zeros)                                      44 bytes
 *     REFUSAL  magic[4], version u8, role u8 (SERVER), length u16, status u8, text_length u8,
 *              text[]                                                      10 to 130 bytes
 *
 * A `post` without a ticket sends no private data at all; one with a ticket needs no WELCOME. So it
 * works against any listener. A knock is always refused, whatever there is to be had: that is its
 * answer, and nothing is made for it.
 *
 * The exchange. Where the network for administration is another one than the RDMA network, a client
 * first makes a TCP connection to the server's host. There both sides send the bytes that they would
 * send as private data, without padding, and messages, one after another:
 *
 *     client                                   server
 *       HELLO   role WRITE, no token     ----->
 *                                        <-----  WELCOME, MEET: a token, where the server listens
 *                                                (or REFUSAL, and the end)
 *       the RDMA connection, with the token in its HELLO; OPEN
 *                                        <-----  READY, on the TCP connection
 *
 * The token is good for one RDMA connection, while its TCP connection lasts. A secret is proved on the
 * RDMA connection, but who does not offer to do so is refused here too.
 *
 * A write session:
 *
 *     client                                   server
 *       OPEN    what is to be delivered  ----->  makes room for it
 *                                        <-----  READY   slots: address, rkey, size, count
 *                                        <-----  OPENED  if it was to confirm
 *       RDMA writes into a granted slot
 *       CHUNK   what the slot holds      ----->  hashes and stores it
 *                                        <-----  GRANT   the slot is free again, bytes acknowledged
 *       ... any number of chunks, as many at once as there are slots ...
 *       END     size, bytes, digests     ----->  compares, commits
 *                                        <-----  DONE    size, bytes, digests as stored
 *       compares, disconnects
 *
 * A check session tests the path to the server, in memory of its own; no sink has part in it:
 *
 *     client                                   server
 *       CHECK   how much memory it can use --->  registers as much, or less, and fills it with the
 *                                                background
 *                                        <-----  SCRATCH  address, rkey, size
 *       RDMA writes of a pattern
 *       VERIFY  where, and its seed      ----->  compares; the background is there again
 *                                        <-----  VERIFIED  equal, or which byte is not, and what
 *                                                it is
 *       ECHO    a number                 ----->
 *                                        <-----  ECHOED    the same
 *       ... any number of these, in any order; they are answered in the order they come ...
 *       CLOSE                            ----->
 *       disconnects
 *
 * At most one VERIFY, and WIRE_MAX_ECHOES of ECHO, are without an answer at a time. Between VERIFY
 * and VERIFIED the client writes nothing. The server awaits each message within its timeout.
 *
 * Byte i of the pattern of a seed is byte i % 8, from the least significant one, of the 64-bit word
 * m(seed + (i / 8 + 1) * 0x9e3779b97f4a7c15), all modulo 2^64, where m is the output function of
 * SplitMix64:  x ^= x >> 30, x *= 0xbf58476d1ce4e5b9, x ^= x >> 27, x *= 0x94d049bb133111eb,
 * x ^= x >> 31.  A VERIFY's target holds, from its start, the bytes of its pattern. The background
 * is the pattern of seed 0 from the start of the memory: it must be what the guards hold, as many
 * bytes before and behind the target, or as many as there are in the memory.
 *
 * The secret. Where both HELLO and WELCOME say that there is a secret, proofs go before OPEN or
 * CHECK:
 *
 *       PROOF   a nonce, and a code      ----->  compares
 *                                        <-----  PROOF   a code
 *       compares
 *
 * The client's code is the HMAC-SHA-256, with the secret as key, of "rdmaput client", the HELLO, the
 * WELCOME and the client's nonce, as sent; the server's is that of "rdmaput server" and the same. So
 * both nonces, both roles and the version are in both. Nonces are random and used once. A server with
 * a secret refuses a HELLO that has none, and a client with one a WELCOME that has none. A client of
 * role POST sends the TOKEN of its ticket instead, which a server with a secret demands.
 *
 * Either side may send, at any time:
 *     ERROR     it gives up: status, text, hint. The session is over.
 *     PING      answered at once by PONG, also while storage blocks. One PING may be unanswered.
 *
 * Several objects. A client that said WIRE_HELLO_MANY opens another object after each END, without
 * waiting for its DONE; READY, which follows the first OPEN, says how many may be without a DONE at
 * a time. Chunks belong to the object that was opened last. Objects count from 0. One that fails at
 * the server is told by FAILED, at once; its chunks are granted back unstored, its END is still due
 * and is answered by a DONE with that status. One that fails at the client ends in an END with
 * WIRE_END_ABANDONED, and likewise comes to a DONE. After the last DONE the client sends CLOSE and
 * disconnects. In other sessions there is no CLOSE, and every failure is an ERROR.
 *
 * Resuming. OPEN with WIRE_OPEN_RESUME is always to be confirmed. OPENED then says how many bytes of
 * the object, from its start, an earlier session of the same name and identity left at the server.
 * Unless that is 0, or the client would rather start anew, both sides hash what they have of it:
 *
 *       RECALL  extents, digest          ----->  reads the extents back and hashes them
 *                                        <-----  RECALLED  digest as kept
 *
 * in order, each RECALL when the one before is answered, its digest being that of all extents so
 * far. Where the digests differ, both forget what they have hashed, and the object starts anew. The
 * chunks that follow go on behind the last recalled extent, and what was kept behind it is gone.
 *
 * Placed slots. With WIRE_OPEN_MAP the client says that it can write straight into the object: all
 * of it is data, and it sends it in order, from the start, in chunks that fill their slots. Where
 * the destination can be registered, OPENED has WIRE_OPENED_PLACED, and the server grants slots by
 * PLACE in place of GRANT: each is then a range of the object itself, and the next chunk in that
 * slot is that range. Ranges follow one another from the object's start, as the PLACEs come. A slot
 * that comes back by GRANT is an ordinary one again: the server places no more of this object, and
 * what is left of it goes by ordinary slots.
 *
 * Flow control of messages. With as many objects without a DONE as READY allows, a client has at
 * most OPEN and END for each, one CHUNK per slot, a RECALL in place of an END, ERROR, PING and PONG
 * under way, the server READY, OPENED or RECALLED, FAILED and DONE for each, one GRANT per slot,
 * ERROR, PING and PONG. Each side therefore posts wire_extra_messages receives more than there are
 * slots, and never runs out. In a check session the ECHOs take the place of the chunks.
 *
 * Extents. A CHUNK's slot holds, packed one after another from its start, the bytes of its extents:
 * ranges of the object with offsets that never go back within an object. Bytes between extents are
 * gaps: zeros in a new file.
 *
 * A message is: type u16, length u16 (of the whole message), then its fields:
 *
 *     OPEN     flags u32 (WIRE_OPEN_FLAGS), size u64 (WIRE_UNKNOWN: a stream),
 *              bytes u64 (of data, without holes and gaps), mode u32 (permissions; zero without
 *              WIRE_OPEN_PRESERVE, as the times), accessed and modified: seconds i64, nanoseconds
 *              u32 each, identity[16] (of the source; zeros without WIRE_OPEN_RESUME),
 *              slot_limit u16 (the most slots the client can keep track of; the same in every OPEN
 *              of a session), object_limit u16 (likewise; at least 2 in a session of several
 *              objects), chunk_limit u32 (likewise: the most bytes in one chunk), name_length u16,
 *              zero u16, name[]
 *     READY    slot_count u16, object_limit u16, slot_size u32, remote_addr u64, rkey u32,
 *              flags u32 (WIRE_READY_DENSE: holes of a source are to be sent as zeros)
 *     OPENED   object u32, flags u32 (WIRE_OPENED_PLACED), kept u64
 *     PLACE    slot u16, zero u16, rkey u32, remote_addr u64, offset u64 and length u64 (in the
 *              object), acknowledged u64 as in GRANT
 *     RECALL   zero u16, extent_count u16, digest as in END, extents[] as in CHUNK
 *     RECALLED object u32, digest as in END
 *     CHUNK    slot u16, extent_count u16, extents[]: offset u64, length u64
 *     GRANT    slot u16, zero u16, zero u32, acknowledged u64 (bytes stored so far)
 *     END      flags u32 (WIRE_END_ABANDONED), digest: size u64, bytes u64, data[16], map[16]
 *     FAILED   object u32, status u16, text_length u16, hint_length u16, zero u16, text[], hint[]
 *     DONE     object u32, status u32 (0: committed), digest as in END
 *     ERROR    status u16, text_length u16, hint_length u16, zero u16, text[], hint[]
 *     PING     (nothing)
 *     PONG     (nothing)
 *     CLOSE    (nothing)
 *     PROOF    nonce[32] (zeros from the server), code[32]
 *     MEET     token[16], text_length u16, zero u16, text[]: lines ADDR:PORT with '\n' between them
 *     CHECK    wanted u32 (bytes of memory), zero u32
 *     SCRATCH  size u32, rkey u32, remote_addr u64
 *     VERIFY   guard u32 (bytes on either side), zero u32, offset u64 and length u64 (of the
 *              target), seed u64 (not 0)
 *     VERIFIED verdict u16 (enum wire_verdict), found u8, expected u8 (the first wrong byte),
 *              wrong u32 (bytes that are, of target or guards), at u64 (the first one's offset);
 *              zeros where all is right
 *     ECHO     number u64
 *     ECHOED   number u64
 *
 * A message of unknown type, with a length other than its own, with fields outside the limits
 * below, or out of the order above breaks the protocol (exit status 76).
 */
#ifndef RDMAPUT_WIRE_H
#define RDMAPUT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"

#define WIRE_VERSION 1
#define WIRE_UNKNOWN UINT64_MAX

#define WIRE_MESSAGE_BYTES 2048  /* the largest message */
#define WIRE_MAX_OBJECTS 8       /* without a DONE at a time */
#define WIRE_MIN_SLOTS 1
#define WIRE_MAX_SLOTS 64
#define WIRE_MIN_SLOT_SIZE 4096
#define WIRE_MAX_SLOT_SIZE (64u << 20)
#define WIRE_MAX_NAME 1024       /* bytes of an object's name */
#define WIRE_MAX_TEXT 512        /* bytes of an error's text, and of its hint */
#define WIRE_MAX_MEET 1024       /* bytes of the addresses of MEET */
#define WIRE_MAX_ADDRESSES 16    /* addresses of MEET */
#define WIRE_MAX_SIZE INT64_MAX  /* bytes of an object */
#define WIRE_MAX_EXTENTS ((WIRE_MESSAGE_BYTES - 8) / 16)
#define WIRE_MAX_RECALLED ((WIRE_MESSAGE_BYTES - 56) / 16) /* extents of a RECALL */
#define WIRE_IDENTITY_BYTES 16
#define WIRE_MIN_SCRATCH 4096
#define WIRE_MAX_SCRATCH (2u << 20)
#define WIRE_MAX_GUARD 4096
#define WIRE_MAX_ECHOES 4
#define WIRE_BACKGROUND_SEED 0

#define WIRE_HELLO_MANY 1u
#define WIRE_HELLO_SECRET 2u
#define WIRE_HELLO_KNOCK 4u
#define WIRE_WELCOME_SECRET 1u

#define WIRE_OPEN_SYNC 1u     /* DONE only when all is on stable storage */
#define WIRE_OPEN_PRESERVE 2u /* the object gets mode and times */
#define WIRE_OPEN_RESUME 4u   /* go on from what was kept; keep what there is when it breaks */
#define WIRE_OPEN_CONFIRM 8u  /* OPENED is wanted, and awaited before anything else is sent */
#define WIRE_OPEN_MAP 16u     /* slots may be placed; with CONFIRM, without RESUME, gaps or holes */
#define WIRE_OPEN_FLAGS                                                                     \
    (WIRE_OPEN_SYNC | WIRE_OPEN_PRESERVE | WIRE_OPEN_RESUME | WIRE_OPEN_CONFIRM | WIRE_OPEN_MAP)

#define WIRE_READY_DENSE 1u
#define WIRE_OPENED_PLACED 1u
#define WIRE_END_ABANDONED 1u

/* Private data: the most that fits everywhere (RoCE: 56, 196 and 148 bytes). */
#define WIRE_HELLO_BYTES 40
#define WIRE_WELCOME_BYTES 44
#define WIRE_REFUSAL_MAX_BYTES 130
#define WIRE_REFUSAL_MAX_TEXT 120
#define WIRE_TOKEN_BYTES 16
#define WIRE_NONCE_BYTES 32
#define WIRE_CODE_BYTES 32

/* The bytes that say how many there are to be, at the start of a message and of private data. */
#define WIRE_HEADER_BYTES 4
#define WIRE_PRIVATE_HEADER_BYTES 8

enum wire_role {
    WIRE_ROLE_SERVER = 0,
    WIRE_ROLE_WRITE = 1,
    WIRE_ROLE_POST = 2,
    WIRE_ROLE_CHECK = 3,
};

struct wire_hello {
    uint8_t version;
    uint8_t role;
    uint32_t flags;
    uint8_t token[WIRE_TOKEN_BYTES];
    uint64_t probe_addr; /* with probe_rkey; 0: none */
    uint32_t probe_rkey;
};

struct wire_welcome {
    uint8_t version;
    uint32_t flags;
    uint8_t nonce[WIRE_NONCE_BYTES];
};

struct wire_refusal {
    uint8_t version;
    uint8_t status; /* an exit status */
    char text[WIRE_REFUSAL_MAX_TEXT + 1];
};

enum wire_type {
    WIRE_OPEN = 1,
    WIRE_READY,
    WIRE_CHUNK,
    WIRE_GRANT,
    WIRE_END,
    WIRE_DONE,
    WIRE_ERROR,
    WIRE_PING,
    WIRE_PONG,
    WIRE_OPENED,
    WIRE_RECALL,
    WIRE_RECALLED,
    WIRE_FAILED,
    WIRE_CLOSE,
    WIRE_PLACE,
    WIRE_MEET,
    WIRE_PROOF,
    WIRE_CHECK,
    WIRE_SCRATCH,
    WIRE_VERIFY,
    WIRE_VERIFIED,
    WIRE_ECHO,
    WIRE_ECHOED,
};

enum wire_verdict {
    WIRE_EQUAL,
    WIRE_WRONG_TARGET, /* the first wrong byte is in the target */
    WIRE_WRONG_GUARD,  /* the target is right, and a byte beside it is not */
};

struct wire_extent {
    uint64_t offset;
    uint64_t length;
};

struct wire_time {
    int64_t seconds; /* since 1970 */
    uint32_t nanoseconds;
};

struct wire_message {
    enum wire_type type;
    union {
        struct {
            uint32_t flags;
            uint64_t size;  /* bytes, or WIRE_UNKNOWN */
            uint64_t bytes; /* at most size; WIRE_UNKNOWN with it */
            uint32_t mode;  /* at most 0777 */
            struct wire_time accessed, modified;
            uint8_t identity[WIRE_IDENTITY_BYTES];
            uint16_t slot_limit;   /* 1 to WIRE_MAX_SLOTS; READY grants no more */
            uint16_t object_limit; /* 1 to WIRE_MAX_OBJECTS; READY allows no more */
            uint32_t chunk_limit;  /* as a slot's size; READY grants no larger ones */
            char name[WIRE_MAX_NAME + 1]; /* empty: none */
        } open;
        struct {
            uint16_t slot_count;
            uint16_t object_limit;
            uint32_t slot_size;
            uint64_t remote_addr;
            uint32_t rkey;
            uint32_t flags;
        } ready;
        struct {
            uint32_t object;
            uint32_t flags;
            uint64_t kept;
        } opened;
        struct {
            uint16_t slot;
            uint32_t rkey;
            uint64_t remote_addr;
            uint64_t offset;
            uint64_t length; /* 1 to WIRE_MAX_SLOT_SIZE */
            uint64_t acknowledged;
        } place;
        struct {
            uint16_t extent_count; /* 1 to WIRE_MAX_RECALLED */
            struct digest_value digest;
            struct wire_extent extents[WIRE_MAX_RECALLED];
        } recall;
        struct {
            uint32_t object;
            struct digest_value digest;
        } recalled;
        struct {
            uint16_t slot;
            uint16_t extent_count; /* 1 to WIRE_MAX_EXTENTS */
            struct wire_extent extents[WIRE_MAX_EXTENTS]; /* of 1 byte or more, never going back */
        } chunk;
        struct {
            uint16_t slot;
            uint64_t acknowledged;
        } grant;
        struct {
            uint32_t flags;
            struct digest_value digest;
        } end;
        struct {
            uint32_t object;
            uint8_t status; /* an exit status */
            struct digest_value digest; /* zeros unless status is 0 */
        } done;
        struct {
            uint32_t object; /* FAILED's alone */
            uint8_t status;
            char text[WIRE_MAX_TEXT + 1];
            char hint[WIRE_MAX_TEXT + 1];
        } error; /* ERROR and FAILED */
        struct {
            uint8_t token[WIRE_TOKEN_BYTES];
            char text[WIRE_MAX_MEET + 1]; /* 1 to WIRE_MAX_ADDRESSES lines */
        } meet;
        struct {
            uint8_t nonce[WIRE_NONCE_BYTES];
            uint8_t code[WIRE_CODE_BYTES];
        } proof;
        struct {
            uint32_t wanted; /* WIRE_MIN_SCRATCH to WIRE_MAX_SCRATCH; SCRATCH has no more */
        } check;
        struct {
            uint32_t size; /* as wanted */
            uint32_t rkey;
            uint64_t remote_addr;
        } scratch;
        struct {
            uint32_t guard;          /* at most WIRE_MAX_GUARD */
            uint64_t offset, length; /* end within WIRE_MAX_SCRATCH */
            uint64_t seed;
        } verify;
        struct {
            enum wire_verdict verdict;
            uint8_t found, expected; /* differ, but for WIRE_EQUAL */
            uint32_t wrong;          /* 1 or more, but for WIRE_EQUAL */
            uint64_t at;
        } verified;
        struct {
            uint64_t number;
        } echo; /* ECHO and ECHOED */
    };
};

enum wire_result {
    WIRE_OK = 0,
    WIRE_FOREIGN,       /* private data without our magic, or none */
    WIRE_OTHER_VERSION, /* ours, of another version (filled in) */
    WIRE_BROKEN,        /* ours, and wrong */
};

/* Encoders write at most the size named above and return the bytes written. Texts are cut to
 * their limit at a character's boundary. */
size_t wire_encode_hello(const struct wire_hello *hello, uint8_t buf[WIRE_HELLO_BYTES]);
size_t wire_encode_welcome(const struct wire_welcome *welcome, uint8_t buf[WIRE_WELCOME_BYTES]);
size_t wire_encode_refusal(const struct wire_refusal *refusal, uint8_t buf[WIRE_REFUSAL_MAX_BYTES]);
size_t wire_encode(const struct wire_message *message, uint8_t buf[WIRE_MESSAGE_BYTES]);

/* Decoders take what arrived and check everything. Bytes after the private data's own length must
 * be zeros. data may be NULL when len is 0. version is filled in for WIRE_OTHER_VERSION too. */
enum wire_result wire_decode_hello(const void *data, size_t len, struct wire_hello *hello);
enum wire_result wire_decode_welcome(const void *data, size_t len, struct wire_welcome *welcome);
enum wire_result wire_decode_refusal(const void *data, size_t len, struct wire_refusal *refusal);

/* WIRE_OK or WIRE_BROKEN. *problem becomes a static text that says what is wrong, or NULL. message
 * is to be read only when it is whole. */
enum wire_result wire_decode(const void *data, size_t len, struct wire_message *message,
                             const char **problem);

/* The messages under way at most, besides one per slot, with as many objects without a DONE; for 1,
 * in a session without WIRE_HELLO_MANY. */
#define WIRE_MAX_EXTRA_MESSAGES (5 + 2 * WIRE_MAX_OBJECTS)
unsigned wire_extra_messages(unsigned objects);

/* For streams: the length that a header announces, unchecked. */
size_t wire_message_length(const uint8_t header[WIRE_HEADER_BYTES]);
size_t wire_private_length(const uint8_t header[WIRE_PRIVATE_HEADER_BYTES]);

/* "CHUNK", or "unknown". */
const char *wire_type_name(unsigned type);

/* The bytes of all extents of a chunk: at most WIRE_MAX_SLOT_SIZE when wire_decode took it. */
uint64_t wire_chunk_bytes(const struct wire_message *message);

#endif

/*
 * fuzz-sender.c - a whole session of a client, whose server does what the input says.
 *
 * The input begins with the session's mode, what the server has kept of each object, and what it
 * answers the connect request with; of several objects, with their number; and with the content of
 * each. Then come instructions (see below): 's' does what a server has to do next; the others do
 * something else, change what is said, or let things fail.
 *
 * Whatever the server does: what is sent is the files' content, each END is the digest of what was
 * sent, RDMA writes go where the server has granted, what the client says keeps to the protocol, and
 * only what the server has confirmed counts as committed.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "contents.h"
#include "far-end.h"
#include "fuzz.h"
#include "log.h"
#include "sender.h"
#include "session.h"
#include "tree.h"
#include "window.h"

#define TIMEOUT (4 * CLOCK_NS_PER_S)
#define MOST_OBJECTS 12
#define CLIENT_SLOTS 4 /* SLOT_COUNT of sender.c */
#define FAR_BYTES ((size_t)4 << 20)
#define FAR_ADDR UINT64_C(0x7f0000000000)
#define FAR_RKEY 0x1234u
#define PLACES ((size_t)2 << 20) /* where placed slots are in the far memory */

enum mode {
    MODE_MANY = 1,
    MODE_RESUME = 2,
    MODE_MAP = 4,
    MODE_SYNC = 8,
    MODE_SILENT = 16, /* the server is frozen once the input is over */
    MODE_SECRET = 32,
};

/* What was said of an object. */
struct object {
    const struct content *content;
    unsigned index;           /* of all, as its name says */
    uint32_t flags;           /* of its OPEN */
    struct digest *sent;      /* what its CHUNKs, and RECALLs that were right, come to */
    struct digest_value told; /* by its END */
    bool ended, abandoned;
    bool failed;    /* at the server */
    bool confirmed; /* by its DONE, which says the right thing */
};

/* A CHUNK that the device has not sent yet: where its data lies, and what it is to be. */
struct written {
    unsigned slot;
    const uint8_t *data; /* NULL: not looked at */
    const struct content *content;
};

struct slot {
    bool granted;
    struct window_place place; /* of length 0: none */
};

struct server {
    struct far_end far;
    unsigned mode;
    struct sender_job job;
    const struct content *contents[MOST_OBJECTS];
    uint64_t kept;      /* bytes of each object, with resume */
    bool ended, left;   /* the input is over; the server has left */
    bool honest;        /* the server has kept to the protocol */
    bool broken;        /* the connection or the device was told to fail */
    bool fails;         /* an object was told to fail */
    bool slow;          /* time was told to pass */
    bool fails_to_open; /* the next object */
    unsigned pings;     /* unanswered */
    /* What the client has said. */
    struct object objects[MOST_OBJECTS];
    unsigned opened, opens, closes; /* objects: with OPEN; with the callbacks */
    bool closed, over;              /* CLOSE, and any last word, was said */
    struct wire_message recall;
    bool recalling;
    unsigned client_pings;
    struct wire_hello hello;
    struct wire_message proof;
    struct written written[WINDOW_MAX_SLOTS]; /* a ring: CHUNKs that are not under way yet */
    unsigned written_head, written_count;
    /* What has arrived of it, and is to be answered. */
    unsigned opens_arrived, ends_arrived, pongs_due;
    bool opened_due, recalled_due, proof_due;
    unsigned sent_slots[WINDOW_MAX_SLOTS]; /* in the order of their CHUNKs */
    unsigned sent_count;
    uint64_t acknowledged;
    /* What the server has said. */
    bool said_ready;
    unsigned done;
    unsigned placed;   /* objects: the last of them has placed slots */
    unsigned to_place; /* slots that are placed yet before anything is sent */
    uint64_t place_at;
    /* What the client has taken. */
    struct wire_message ready; /* type 0 before */
    struct slot slots[WINDOW_MAX_SLOTS];
    unsigned taken_done;
    bool proved;                          /* the server's PROOF was right */
    unsigned settled_well, settled_badly; /* objects */
};

static const struct secret secret = {.bytes = "what nobody else knows", .len = 22};
static struct server server;
static uint8_t *far_memory;

/* ---- objects, as the client reads them ------------------------------------------------------ */

static int open_object(void *context, size_t index, struct sender_object *object, struct error *err)
{
    static char names[MOST_OBJECTS][24];
    (void)context;
    FUZZ_ASSERT(index == server.opens && server.opens == server.closes);
    if (server.fails_to_open) {
        server.fails_to_open = false;
        server.opens = ++server.closes;
        server.fails = true;
        return error_set(err, ERROR_SOURCE, STAGE_OPEN, "file", "it is told to fail");
    }
    snprintf(names[index], sizeof names[index], "%zu", index);
    object->name = names[index];
    content_open(server.contents[index], object, err);
    if ((server.mode & MODE_RESUME) &&
        source_identity(object->source, object->plan, object->identity, err) < 0)
        abort();
    server.opens++;
    return 0;
}

static void close_object(void *context, size_t index, struct sender_object *object)
{
    (void)context;
    FUZZ_ASSERT(index == server.closes);
    server.closes++;
    plan_free(object->plan);
    source_free(object->source);
}

static void settle_object(void *context, size_t index, const struct digest_value *digest,
                          uint64_t kept, const struct error *cause)
{
    (void)context, (void)kept;
    FUZZ_ASSERT((digest != NULL) == (cause == NULL));
    FUZZ_ASSERT(index < server.opens);
    if (cause)
        server.settled_badly++;
    else
        server.settled_well++;
}

/* ---- what the client says ------------------------------------------------------------------- */

static struct object *last_object(void)
{
    FUZZ_ASSERT(server.opened > 0);
    return &server.objects[server.opened - 1];
}

static bool is_open(void)
{
    return server.opened > 0 && !last_object()->ended;
}

static unsigned objects_allowed(void)
{
    return server.ready.type == WIRE_READY ? server.ready.ready.object_limit : 1;
}

static void hear_open(const struct wire_message *message)
{
    FUZZ_ASSERT(!is_open() && !server.closed && server.opened < server.job.count);
    FUZZ_ASSERT(!(server.mode & MODE_SECRET) || server.proved);
    FUZZ_ASSERT(server.opened - server.taken_done < objects_allowed());
    struct object *object = &server.objects[server.opened++];
    object->index = (unsigned)strtoul(message->open.name, NULL, 10);
    FUZZ_ASSERT(object->index < server.job.count);
    FUZZ_ASSERT(server.opened == 1 || object->index > (object - 1)->index);
    object->content = server.contents[object->index];
    object->flags = message->open.flags;
    object->sent = digest_new();
    FUZZ_ASSERT(message->open.size == object->content->size);
    FUZZ_ASSERT(message->open.slot_limit <= CLIENT_SLOTS);
    FUZZ_ASSERT(!(message->open.flags & WIRE_OPEN_RESUME) == !(server.mode & MODE_RESUME));
    FUZZ_ASSERT(!(message->open.flags & WIRE_OPEN_MAP) || (server.mode & MODE_MAP));
}

static void hear_extents(const struct wire_extent *extents, unsigned count)
{
    struct object *object = last_object();
    for (unsigned i = 0; i < count; i++) {
        FUZZ_ASSERT(extents[i].offset + extents[i].length <= object->content->size);
        FUZZ_ASSERT(digest_add(object->sent, extents[i].offset,
                               object->content->bytes + extents[i].offset, extents[i].length));
    }
}

/* Where a slot is in the far memory, as the client was told. NULL: elsewhere. */
static const uint8_t *slot_memory(unsigned slot, uint64_t len)
{
    const struct window_place *place = &server.slots[slot].place;
    const struct wire_message *ready = &server.ready;
    uint64_t addr = place->length > 0
                        ? place->remote_addr
                        : ready->ready.remote_addr + (uint64_t)slot * ready->ready.slot_size;
    if (addr < FAR_ADDR || addr - FAR_ADDR > FAR_BYTES || len > FAR_BYTES - (addr - FAR_ADDR))
        return NULL;
    return far_memory + (addr - FAR_ADDR);
}

static void hear_chunk(const struct wire_message *message)
{
    unsigned slot = message->chunk.slot;
    uint64_t bytes = wire_chunk_bytes(message);
    FUZZ_ASSERT(is_open() && !server.recalling);
    FUZZ_ASSERT(server.ready.type == WIRE_READY && slot < server.ready.ready.slot_count);
    FUZZ_ASSERT(server.slots[slot].granted && bytes <= server.ready.ready.slot_size);
    hear_extents(message->chunk.extents, message->chunk.extent_count);
    /* A server that lies may have put slots on top of one another. */
    server.written[(server.written_head + server.written_count++) % WINDOW_MAX_SLOTS] =
        (struct written){.slot = slot,
                         .data = server.honest ? slot_memory(slot, bytes) : NULL,
                         .content = last_object()->content};
    server.slots[slot] = (struct slot){.granted = false};
}

static void hear_recall(const struct wire_message *message)
{
    struct digest_value value;
    FUZZ_ASSERT(is_open() && !server.recalling && (last_object()->flags & WIRE_OPEN_RESUME));
    hear_extents(message->recall.extents, message->recall.extent_count);
    digest_value(last_object()->sent, &value);
    FUZZ_ASSERT(digest_equal(&value, &message->recall.digest));
    server.recall = *message;
    server.recalling = true;
}

static void hear_end(const struct wire_message *message)
{
    struct object *object = last_object();
    FUZZ_ASSERT(is_open() && !server.recalling);
    object->ended = true;
    object->abandoned = (message->end.flags & WIRE_END_ABANDONED) != 0;
    for (unsigned i = 0; i < WINDOW_MAX_SLOTS; i++)
        server.slots[i].place.length = 0;
    if (object->abandoned) {
        FUZZ_ASSERT(server.mode & MODE_MANY);
        return;
    }
    digest_value(object->sent, &object->told);
    FUZZ_ASSERT(object->told.size <= object->content->size);
    object->told.size = object->content->size;
    FUZZ_ASSERT(digest_equal(&object->told, &message->end.digest));
}

/* Whether nothing has gone wrong: the client is to succeed. */
static bool is_perfect(void)
{
    return server.honest && !server.broken && !server.fails && !server.slow &&
           !(server.mode & MODE_SILENT);
}

/* The codes of both sides, in this session. */
static void prove(enum wire_role side, uint8_t code[WIRE_CODE_BYTES])
{
    struct wire_welcome welcome;
    struct error err = {.class = ERROR_NONE};
    wire_decode_welcome(server.far.host.answer, server.far.host.answer_len, &welcome);
    FUZZ_ASSERT(secret_prove(&secret, side, &server.hello, &welcome, server.proof.proof.nonce, code,
                             &err) == 0);
}

static void hear_proof(const struct wire_message *message)
{
    uint8_t code[WIRE_CODE_BYTES];
    FUZZ_ASSERT((server.mode & MODE_SECRET) && server.proof.type != WIRE_PROOF);
    server.proof = *message;
    prove(WIRE_ROLE_WRITE, code);
    FUZZ_ASSERT(memcmp(code, message->proof.code, sizeof code) == 0);
}

static void hear(const struct wire_message *message)
{
    FUZZ_ASSERT(!server.over);
    switch (message->type) {
    case WIRE_PROOF:
        hear_proof(message);
        break;
    case WIRE_OPEN:
        hear_open(message);
        break;
    case WIRE_CHUNK:
        hear_chunk(message);
        break;
    case WIRE_RECALL:
        hear_recall(message);
        break;
    case WIRE_END:
        hear_end(message);
        break;
    case WIRE_CLOSE:
        FUZZ_ASSERT((server.mode & MODE_MANY) && !is_open());
        FUZZ_ASSERT(server.taken_done == server.opened);
        server.closed = server.over = true;
        break;
    case WIRE_ERROR:
        FUZZ_ASSERT(!is_perfect());
        server.over = true;
        break;
    case WIRE_PING:
        FUZZ_ASSERT(server.client_pings == 0);
        server.client_pings++;
        break;
    case WIRE_PONG:
        FUZZ_ASSERT(server.pings > 0);
        server.pings--;
        break;
    default:
        FUZZ_ASSERT(!"a message that clients do not send");
    }
}

/* Into a slot that is granted, as the client was told where it is. */
static void assert_granted(uint64_t addr, uint32_t rkey, uint64_t len)
{
    const struct wire_message *ready = &server.ready;
    unsigned slot = 0;
    for (; slot < ready->ready.slot_count; slot++) {
        const struct window_place *place = &server.slots[slot].place;
        bool placed = place->length > 0;
        uint64_t start = placed
                             ? place->remote_addr
                             : ready->ready.remote_addr + (uint64_t)slot * ready->ready.slot_size;
        uint64_t room = placed ? place->length : ready->ready.slot_size;
        if (server.slots[slot].granted && rkey == (placed ? place->rkey : ready->ready.rkey) &&
            addr >= start && addr - start <= room && len <= room - (addr - start))
            return;
    }
    FUZZ_ASSERT(!"an RDMA write where nothing is granted");
}

static uint64_t bytes_of(const struct fake_request *request)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < request->count; i++)
        bytes += request->entries[i].length;
    return bytes;
}

static struct wire_message message_of(const struct fake_request *request)
{
    struct wire_message message;
    const char *problem;
    FUZZ_ASSERT(request->opcode == IBV_WR_SEND && request->count == 1);
    FUZZ_ASSERT(wire_decode((const void *)(uintptr_t)request->entries[0].addr,
                            request->entries[0].length, &message, &problem) == WIRE_OK);
    return message;
}

/* What the device has written is what the file has. */
static void arrive_chunk(const struct wire_message *chunk)
{
    const struct written *first = &server.written[server.written_head];
    const uint8_t *at = first->data;
    server.written_head = (server.written_head + 1) % WINDOW_MAX_SLOTS;
    server.written_count--;
    for (unsigned i = 0; at && server.honest && i < chunk->chunk.extent_count; i++) {
        const struct wire_extent *extent = &chunk->chunk.extents[i];
        FUZZ_ASSERT(memcmp(at, first->content->bytes + extent->offset, extent->length) == 0);
        at += extent->length;
    }
    server.sent_slots[server.sent_count++] = first->slot;
    server.acknowledged += wire_chunk_bytes(chunk);
}

/* A message reaches the server, which may answer it from now on. */
static void arrive(const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_PROOF:
        server.proof_due = true;
        break;
    case WIRE_OPEN:
        server.opens_arrived++;
        server.opened_due = (message->open.flags & WIRE_OPEN_CONFIRM) != 0;
        server.place_at = server.to_place = 0;
        break;
    case WIRE_CHUNK:
        arrive_chunk(message);
        break;
    case WIRE_RECALL:
        server.recalled_due = true;
        break;
    case WIRE_END:
        server.ends_arrived++;
        break;
    case WIRE_PING:
        server.pongs_due++;
        break;
    default:
        break;
    }
}

/* The device gets on by one request. false: there is none. */
static bool run_device(void)
{
    struct fake_provider *fake = &server.far.host.fake;
    if (fake->run_count == fake->request_count)
        return false;
    const struct fake_request request = fake->requests[fake->run_count];
    fake_run(fake, 1);
    if (request.opcode != IBV_WR_SEND || fake->broken)
        return true;
    struct wire_message message = message_of(&request);
    arrive(&message);
    return true;
}

/* ---- what the client takes ------------------------------------------------------------------ */

static void take_ready(const struct wire_message *message)
{
    server.ready = *message;
    for (unsigned i = 0; i < message->ready.slot_count; i++)
        server.slots[i] = (struct slot){.granted = true};
}

/* For an object that was ended meanwhile the slot is an ordinary one. */
static void take_place(const struct wire_message *message)
{
    struct slot *slot = &server.slots[message->place.slot];
    *slot = (struct slot){.granted = true};
    if (server.placed == server.opened && is_open())
        slot->place = (struct window_place){.offset = message->place.offset,
                                            .length = message->place.length,
                                            .remote_addr = message->place.remote_addr,
                                            .rkey = message->place.rkey};
}

/* Where they differ, it is all sent anew. */
static void take_recalled(const struct wire_message *message)
{
    if (server.opened > 0 && server.recalling &&
        !digest_equal(&message->recalled.digest, &server.recall.recall.digest))
        digest_reset(last_object()->sent);
    server.recalling = false;
}

static void take_done(const struct wire_message *message)
{
    struct object *object = &server.objects[server.taken_done];
    if (server.taken_done < server.opened) {
        object->confirmed = message->done.status == 0 && object->ended &&
                            digest_equal(&message->done.digest, &object->told);
        server.taken_done++;
    }
}

static void take_proof(const struct wire_message *message)
{
    uint8_t code[WIRE_CODE_BYTES];
    prove(WIRE_ROLE_SERVER, code);
    server.proved |= memcmp(code, message->proof.code, sizeof code) == 0;
}

/* The client refuses what does not fit, and nothing that follows counts then. */
static void take(const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_PROOF:
        take_proof(message);
        break;
    case WIRE_READY:
        take_ready(message);
        break;
    case WIRE_OPENED:
        if (message->opened.flags & WIRE_OPENED_PLACED)
            server.placed = server.opened;
        break;
    case WIRE_GRANT:
        server.slots[message->grant.slot] = (struct slot){.granted = true};
        break;
    case WIRE_PLACE:
        take_place(message);
        break;
    case WIRE_RECALLED:
        take_recalled(message);
        break;
    case WIRE_FAILED:
        server.recalling &= message->error.object != server.opened - 1;
        break;
    case WIRE_DONE:
        take_done(message);
        break;
    case WIRE_PING:
        server.pings++;
        break;
    case WIRE_PONG:
        server.client_pings = 0;
        break;
    default:
        break;
    }
}

/* The client posts something: a receive again once it has taken what was in it, if it was a message. */
static void heed(void *context, const struct fake_request *request)
{
    struct wire_message message;
    (void)context;
    if (request && request->opcode == IBV_WR_RDMA_WRITE) {
        assert_granted(request->remote_addr, request->rkey, bytes_of(request));
    } else if (request) {
        message = message_of(request);
        hear(&message);
    } else if (server.far.untaken_count > 0) {
        while (!far_end_look(&server.far, &message))
            far_end_taken(&server.far);
        far_end_taken(&server.far);
        take(&message);
    }
}

/* ---- what the server says ------------------------------------------------------------------- */

/* Sends a message, with what the input changes in it. */
static void say(const struct wire_message *message)
{
    uint8_t bytes[WIRE_MESSAGE_BYTES];
    server.honest &= far_end_is_plain(&server.far);
    far_end_deliver(&server.far, bytes, far_end_compose(&server.far, message, bytes));
}

static void say_plain(enum wire_type type)
{
    const struct wire_message message = {.type = type};
    say(&message);
}

static void say_ready(unsigned slots, uint32_t size, unsigned at_a_time, uint32_t flags)
{
    struct wire_message message = {.type = WIRE_READY};
    message.ready.slot_count = (uint16_t)slots;
    message.ready.object_limit = (uint16_t)at_a_time;
    message.ready.slot_size = size;
    message.ready.remote_addr = FAR_ADDR;
    message.ready.rkey = FAR_RKEY;
    message.ready.flags = flags;
    server.said_ready = true;
    say(&message);
}

static void say_opened(uint32_t object, uint64_t kept, uint32_t flags)
{
    const struct wire_message message = {
        .type = WIRE_OPENED, .opened = {.object = object, .kept = kept, .flags = flags}};
    server.opened_due = false;
    say(&message);
}

/* The object that the server is at; NULL: none, or it has its END. */
static const struct object *present(void)
{
    if (server.ends_arrived == server.opens_arrived)
        return NULL;
    return &server.objects[server.opens_arrived - 1];
}

/* The next range of the object, if there is one. */
static bool say_place(unsigned slot)
{
    struct wire_message message = {.type = WIRE_PLACE};
    uint64_t left = present()->content->size - server.place_at;
    uint64_t len = left < server.ready.ready.slot_size ? left : server.ready.ready.slot_size;
    if (len == 0)
        return false;
    message.place.slot = (uint16_t)slot;
    message.place.rkey = FAR_RKEY;
    message.place.remote_addr = FAR_ADDR + PLACES + server.place_at;
    message.place.offset = server.place_at;
    message.place.length = len;
    message.place.acknowledged = server.acknowledged;
    server.place_at += len;
    say(&message);
    return true;
}

static void say_grant(unsigned slot)
{
    const struct wire_message message = {
        .type = WIRE_GRANT, .grant = {.slot = (uint16_t)slot, .acknowledged = server.acknowledged}};
    say(&message);
}

static void say_recalled(uint32_t object)
{
    struct wire_message message = {.type = WIRE_RECALLED, .recalled = {.object = object}};
    message.recalled.digest = server.recall.recall.digest;
    server.recalled_due = false;
    say(&message);
}

static void say_done(uint32_t object, unsigned status, const struct digest_value *digest)
{
    struct wire_message message = {.type = WIRE_DONE,
                                   .done = {.object = object, .status = (uint8_t)status}};
    if (status == 0)
        message.done.digest = *digest;
    say(&message);
}

static void say_error(enum wire_type type, uint32_t object, unsigned status)
{
    struct wire_message message = {.type = type};
    message.error.object = object;
    message.error.status = (uint8_t)status;
    strcpy(message.error.text, "no more");
    say(&message);
}

/* ---- what a server has to do next ----------------------------------------------------------- */

static void serve_ping(void)
{
    server.pongs_due--;
    say_plain(WIRE_PONG);
}

static void serve_proof(void)
{
    struct wire_message message = {.type = WIRE_PROOF};
    prove(WIRE_ROLE_SERVER, message.proof.code);
    server.proof_due = false;
    say(&message);
}

static void serve_opened(void)
{
    const struct object *object = present();
    bool resumes = object->flags & WIRE_OPEN_RESUME, places = object->flags & WIRE_OPEN_MAP;
    uint64_t kept = server.kept < object->content->size ? server.kept : object->content->size;
    if (places)
        server.to_place = server.ready.ready.slot_count;
    say_opened(server.opens_arrived - 1, resumes ? kept : 0, places ? WIRE_OPENED_PLACED : 0);
}

static bool places(void)
{
    return present() && server.placed == server.opens_arrived;
}

static void serve_chunk(void)
{
    unsigned slot = server.sent_slots[0];
    memmove(server.sent_slots, server.sent_slots + 1,
            --server.sent_count * sizeof server.sent_slots[0]);
    if (!places() || !say_place(slot))
        say_grant(slot);
}

static void serve_done(void)
{
    const struct object *object = &server.objects[server.done];
    say_done(server.done++, object->abandoned || object->failed ? 75 : 0, &object->told);
}

/* false: nothing. */
static bool serve(void)
{
    if (!server.far.host.has_queue_pair || server.far.host.fake.broken)
        return false;
    if (server.pongs_due > 0)
        serve_ping();
    else if (server.proof_due)
        serve_proof();
    else if (server.opens_arrived > 0 && !server.said_ready)
        say_ready(CLIENT_SLOTS, 65536, server.mode & MODE_MANY ? 3 : 1, 0);
    else if (server.ready.type != WIRE_READY)
        return false;
    else if (server.to_place > 0 && places())
        say_place(server.ready.ready.slot_count - server.to_place--);
    else if (server.sent_count > 0)
        serve_chunk();
    else if (server.opened_due && present())
        serve_opened();
    else if (server.recalled_due)
        say_recalled(server.opens_arrived - 1);
    else if (server.done < server.ends_arrived)
        serve_done();
    else
        return false;
    return true;
}

/* ---- instructions --------------------------------------------------------------------------- */

static void lie(void)
{
    server.honest = false;
}

/* READY: slots, size, objects, flags */
static void lie_ready(void)
{
    static const uint32_t sizes[] = {4096, 65536, 5000, 262144, 1 << 20};
    lie();
    unsigned slots = 1 + input_below(&server.far.input, WIRE_MAX_SLOTS);
    uint32_t size = sizes[input_below(&server.far.input, 5)];
    unsigned at_a_time = 1 + input_below(&server.far.input, WIRE_MAX_OBJECTS);
    say_ready(slots, size, at_a_time, input_below(&server.far.input, 2));
}

/* OPENED: object, whether placed, bytes that are kept */
static void lie_opened(void)
{
    static const uint64_t kept[] = {0, 1, 100, 4096, 100000, 1 << 20, INT64_MAX};
    lie();
    uint32_t object = server.opened - input_below(&server.far.input, 3);
    uint32_t flags = input_below(&server.far.input, 2);
    say_opened(object, kept[input_below(&server.far.input, 7)], flags);
}

/* DONE: object, status, whose digest */
static void lie_done(void)
{
    static const struct digest_value none;
    lie();
    uint32_t object = server.done + input_below(&server.far.input, 3);
    unsigned status = input_number(&server.far.input);
    unsigned whose = input_below(&server.far.input, MOST_OBJECTS);
    say_done(object, status, whose < server.opened ? &server.objects[whose].told : &none);
}

/* bytes: length, bytes */
static void say_bytes(void)
{
    uint8_t bytes[UINT8_MAX];
    lie();
    size_t len = input_bytes(&server.far.input, bytes, input_byte(&server.far.input));
    far_end_deliver(&server.far, bytes, len);
}

/* FAILED for an object that has no DONE: which one */
static void fail_object(void)
{
    unsigned index = server.done + input_below(&server.far.input, 3);
    if (index >= server.opened || !(server.mode & MODE_MANY) || !server.said_ready)
        return;
    server.fails = server.objects[index].failed = true;
    /* It takes the place of what the client waits for. */
    if (index == server.opens_arrived - 1)
        server.opened_due = server.recalled_due = false;
    say_error(WIRE_FAILED, index, 74);
}

/* what fails next */
static void fail(void)
{
    struct fake_provider *fake = &server.far.host.fake;
    unsigned what = input_below(&server.far.input, 6);
    server.broken |= what > 0;
    fake->fail_errno = ENOMEM;
    switch (what) {
    case 0:
        server.fails_to_open = true;
        break;
    case 1:
        fake->fail_registration = fake->fail_registration ? 0 : ENOMEM;
        break;
    case 2:
        fake->fail_send = 1 + input_below(&server.far.input, 8);
        break;
    case 3:
        fake->fail_receive = 1;
        break;
    case 4:
        fake->next_status = IBV_WC_REM_ACCESS_ERR;
        break;
    case 5:
        fake->poll_result = -1;
        break;
    }
}

/* The server leaves, or the client's device does. */
static void end_session(void)
{
    server.broken = true;
    if (input_below(&server.far.input, 2) == 0)
        fake_host_end(&server.far.host);
    else
        fake_host_event(&server.far.host, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

static void instruct(uint8_t letter)
{
    switch (letter) {
    case 's':
        serve();
        break;
    case 'r':
        lie_ready();
        break;
    case 'o':
        lie_opened();
        break;
    case 'g':
        lie();
        say_grant(input_below(&server.far.input, WINDOW_MAX_SLOTS));
        break;
    case 'p': /* PLACE: slot, how far from where it is due */
        lie();
        server.place_at += 4096 * input_below(&server.far.input, 3);
        if (present() && server.place_at < present()->content->size)
            say_place(input_below(&server.far.input, WINDOW_MAX_SLOTS));
        break;
    case 'l':
        lie();
        say_recalled(server.opened - input_below(&server.far.input, 3));
        break;
    case 'd':
        lie_done();
        break;
    case 'F':
        fail_object();
        break;
    case 'f':
        fail();
        break;
    case 'e': /* ERROR: status */
        lie();
        say_error(WIRE_ERROR, 0, 1 + input_below(&server.far.input, UINT8_MAX));
        break;
    case '?':
        server.honest &= server.pings == 0 && server.far.untaken_count == 0;
        say_plain(WIRE_PING);
        break;
    case '!':
        lie();
        say_plain(WIRE_PONG);
        break;
    case 'b':
        say_bytes();
        break;
    case 'D': /* the device waits, or does not any more */
        server.far.device_waits = !server.far.device_waits;
        break;
    case 'J':
        server.far.worker_waits = !server.far.worker_waits;
        break;
    case 'x': /* it carries one request out */
        run_device();
        break;
    case 'j':
        fake_host_work(&server.far.host);
        break;
    case 't': /* time passes: tenths of a second */
        server.slow = true;
        fake_host_pass(&server.far.host, 100 * input_below(&server.far.input, 64));
        break;
    case 'q':
        end_session();
        break;
    }
}

/* Whether the world has gone on by itself. */
static bool work(bool device, bool worker)
{
    return (device && run_device()) || (worker && fake_host_work(&server.far.host));
}

/* What is left to do is done, unless the server is frozen; then it leaves. */
static bool finish(void)
{
    server.ended = true;
    if (work(true, true))
        return true;
    if (server.mode & MODE_SILENT)
        return false;
    if (serve())
        return true;
    FUZZ_ASSERT(server.over || !is_perfect());
    if (server.left)
        return false;
    server.left = server.broken = true;
    fake_host_end(&server.far.host);
    return true;
}

/* One step of the world: the client waits for something. */
static bool go_on(void *context)
{
    (void)context;
    if (work(!server.far.device_waits, !server.far.worker_waits))
        return true;
    if (!server.far.host.has_queue_pair)
        return false;
    if (server.ended || server.far.input.left == 0)
        return finish();
    far_end_act(&server.far, instruct);
    return true;
}

/* ---- the session ---------------------------------------------------------------------------- */

/* What the server accepts or refuses with: 0: WELCOME, 1: REFUSAL, 2, 3: bytes: length, bytes */
static void take_answer(void)
{
    struct wire_welcome welcome = {.version = WIRE_VERSION};
    static const struct wire_refusal refusal = {
        .version = WIRE_VERSION, .status = 75, .text = "busy\ntry later"};
    if (server.mode & MODE_SECRET) {
        welcome.flags = WIRE_WELCOME_SECRET;
        memset(welcome.nonce, 'n', sizeof welcome.nonce);
    }
    unsigned kind = input_below(&server.far.input, 4);
    uint8_t bytes[WIRE_REFUSAL_MAX_BYTES];
    size_t len = kind == 0 ? wire_encode_welcome(&welcome, bytes)
                 : kind == 1
                     ? wire_encode_refusal(&refusal, bytes)
                     : input_bytes(&server.far.input, bytes, input_below(&server.far.input, 64));
    memcpy(server.far.host.answer, bytes, len);
    server.far.host.answer_len = (unsigned)len;
    server.far.host.refuses = kind == 1 || kind == 3;
    server.honest = kind == 0;
}

static void prepare(const uint8_t *data, size_t size)
{
    static const uint64_t kept[] = {0, 100, 4096, 200000};
    memset(&server, 0, sizeof server);
    far_end_begin(&server.far, (struct input){.at = data, .left = size});
    fake_host_open(&server.far.host, go_on, NULL);
    server.mode = input_number(&server.far.input);
    server.kept = kept[input_below(&server.far.input, 4)];
    take_answer();
    server.job = (struct sender_job){
        .target = {.host = "192.0.2.1", .port = 7475, .timeout = TIMEOUT},
        .count = server.mode & MODE_MANY ? input_below(&server.far.input, MOST_OBJECTS + 1) : 1,
        .many = (server.mode & MODE_MANY) != 0,
        .sync = (server.mode & MODE_SYNC) != 0,
        .resume = (server.mode & MODE_RESUME) != 0,
        .map = (server.mode & MODE_MAP) != 0,
        .open = open_object,
        .close = close_object,
        .settled = settle_object,
        .secret = server.mode & MODE_SECRET ? &secret : NULL,
    };
    server.hello = (struct wire_hello){
        .version = WIRE_VERSION,
        .role = WIRE_ROLE_WRITE,
        .flags = (server.job.many ? WIRE_HELLO_MANY : 0) |
                 (server.job.secret ? WIRE_HELLO_SECRET : 0),
    };
    for (size_t i = 0; i < server.job.count; i++)
        server.contents[i] = &contents[input_below(&server.far.input, CONTENTS)];
    server.far.host.fake.posted = heed;
    server.far.host.fake.far_memory = far_memory;
    server.far.host.fake.far_bytes = FAR_BYTES;
    server.far.host.fake.far_addr = FAR_ADDR;
    server.far.host.fake.far_rkey = FAR_RKEY;
}

static void assert_result(const struct sender_result *result, int rc, const struct error *err)
{
    unsigned confirmed = 0;
    for (unsigned i = 0; i < server.opened; i++)
        confirmed += server.objects[i].confirmed;
    FUZZ_ASSERT((rc == 0) == !error_is_set(err));
    FUZZ_ASSERT(result->committed <= confirmed);
    FUZZ_ASSERT(result->committed == server.settled_well);
    FUZZ_ASSERT(result->failed == server.settled_badly);
    FUZZ_ASSERT(server.opens == server.closes);
    if (rc == 0)
        FUZZ_ASSERT(result->committed == server.job.count && result->failed == 0);
    if (rc == 0 && (server.mode & MODE_MANY))
        FUZZ_ASSERT(server.closed);
    if (is_perfect())
        FUZZ_ASSERT(rc == 0);
}

static void open_once(void)
{
    if (far_memory)
        return;
    log_set_level(LOG_TRACE);
    tree_make();
    contents_make();
    if (!(far_memory = malloc(FAR_BYTES)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sender_result result;
    struct error err = {.class = ERROR_NONE};
    open_once();
    prepare(data, size);
    int rc = sender_run(&server.job, &result, &err);
    fake_host_close(&server.far.host);
    assert_result(&result, rc, &err);
    for (unsigned i = 0; i < server.opened; i++)
        digest_free(server.objects[i].sent);
    return 0;
}

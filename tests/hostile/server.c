#include "config.h"

#include "server.h"

#include "check.h"

#include <string.h>

#include "meeting.h"

#define PRIVATE_LENGTH_AT 6
#define MESSAGE_LENGTH_AT 2
#define ROLE_AT 5
#define TOKEN_AT 12
#define LOOK_MS 50

struct server {
    struct talk *talk;
    const struct server_job *job;
    struct proof_session proof;
    uint8_t token[WIRE_TOKEN_BYTES]; /* of the exchange */
    bool many;
    uint64_t slot_size;
    unsigned slot_count;
    uint64_t object; /* the number of the one that was opened last */
    bool ready, map;
    uint64_t placed; /* bytes of the object that have a place */
    struct {
        uint64_t offset, length;
    } places[SERVER_SLOTS];
    uint64_t acknowledged;
    uint8_t *slots, *ranges; /* in the link's data */
    struct checksum checksum;
    bool closed;
};

size_t server_data_bytes(const struct object *object)
{
    size_t bytes = SERVER_SLOTS * SERVER_SLOT_BYTES + object->size;
    return bytes > CHECK_DATA_BYTES ? bytes : CHECK_DATA_BYTES;
}

static void put_welcome(struct message *welcome, bool with_secret)
{
    uint8_t nonce[WIRE_NONCE_BYTES] = {0};
    if (with_secret)
        proof_random(nonce, sizeof nonce);
    welcome->len = 0;
    message_put_bytes(welcome, "RPUT", 4);
    message_put(welcome, 1, WIRE_VERSION);
    message_put(welcome, 1, WIRE_ROLE_SERVER);
    message_put(welcome, 2, WIRE_WELCOME_BYTES);
    message_put(welcome, 4, with_secret ? WIRE_WELCOME_SECRET : 0);
    message_put_bytes(welcome, nonce, sizeof nonce);
}

/* Whether the conversation is to be refused instead. */
static bool refuses(struct talk *talk)
{
    struct message refusal;
    if (!talk_refuses(talk, AT_REFUSAL, &refusal))
        return false;
    link_reject(&talk->link, refusal.bytes, refusal.len);
    link_close(&talk->link);
    talk->over = true;
    return true;
}

static bool welcome(struct server *server)
{
    struct talk *talk = server->talk;
    const struct server_job *job = server->job;
    struct message answer;
    const struct deviation *deviation = talk_deviation(talk, AT_WELCOME);
    if (deviation && deviation->act == HANG_UP)
        stream_close(&talk->stream);
    if (refuses(talk) || (deviation && talk_stop(talk, deviation)))
        return false;
    if (link_prepare(&talk->link, job->receives, server_data_bytes(job->object)) < 0)
        return false;
    put_welcome(&answer, job->secret && !(deviation && deviation->act == FORGET));
    memcpy(server->proof.welcome, answer.bytes, sizeof server->proof.welcome);
    if (deviation && deviation->act == SKIP)
        answer.len = 0;
    else if (deviation)
        talk_shape(deviation, &answer, PRIVATE_LENGTH_AT);
    return link_accept(&talk->link, answer.bytes, answer.len, talk->deadline) == 0;
}

static uint64_t address_of(const uint8_t *at)
{
    return (uintptr_t)at;
}

static bool say_ready(struct server *server)
{
    struct message ready;
    server->ready = true;
    message_begin(&ready, WIRE_READY);
    message_put(&ready, 2, server->slot_count);
    message_put(&ready, 2, 2);
    message_put(&ready, 4, server->slot_size);
    message_put(&ready, 8, address_of(server->slots));
    message_put(&ready, 4, server->talk->link.mr->rkey);
    message_put(&ready, 4, 0);
    message_end(&ready);
    return server->job->exchange
               ? talk_say_by_stream(server->talk, &ready, WIRE_READY, MESSAGE_LENGTH_AT)
               : talk_say(server->talk, &ready);
}

/* The slot becomes the object's next range; an ordinary one when there is none. */
static bool say_place(struct server *server, unsigned slot)
{
    struct message place;
    uint64_t left = server->job->object->size - server->placed;
    uint64_t len = left < server->slot_size ? left : server->slot_size;
    server->places[slot].offset = server->placed;
    server->places[slot].length = len;
    message_begin(&place, len > 0 ? WIRE_PLACE : WIRE_GRANT);
    message_put(&place, 2, slot);
    message_put(&place, 2, 0);
    if (len > 0) {
        message_put(&place, 4, server->talk->link.mr->rkey);
        message_put(&place, 8, address_of(server->ranges + server->placed));
        message_put(&place, 8, server->placed);
        message_put(&place, 8, len);
    } else {
        message_put(&place, 4, 0);
    }
    message_put(&place, 8, server->acknowledged);
    message_end(&place);
    server->placed += len;
    return talk_say(server->talk, &place);
}

static bool say_opened(struct server *server)
{
    struct message opened;
    message_begin(&opened, WIRE_OPENED);
    message_put(&opened, 4, server->object);
    message_put(&opened, 4, server->map ? WIRE_OPENED_PLACED : 0);
    message_put(&opened, 8, 0);
    message_end(&opened);
    if (!talk_say(server->talk, &opened))
        return false;
    for (unsigned i = 0; server->map && i < server->slot_count; i++)
        if (server->placed < server->job->object->size && !say_place(server, i))
            return false;
    return true;
}

static bool take_open(struct server *server, const struct message *open)
{
    uint32_t flags = (uint32_t)message_get(open, 4, 4);
    uint64_t chunk_limit = message_get(open, 72, 4), slot_limit = message_get(open, 68, 2);
    server->slot_size = chunk_limit < SERVER_SLOT_BYTES ? chunk_limit : SERVER_SLOT_BYTES;
    server->slot_count = slot_limit < SERVER_SLOTS ? (unsigned)slot_limit : SERVER_SLOTS;
    server->map = (flags & WIRE_OPEN_MAP) != 0;
    server->placed = 0;
    if (server->ready)
        server->object++;
    if (checksum_begin(&server->checksum) < 0)
        return false;
    if (!server->ready && !say_ready(server))
        return false;
    return !(flags & WIRE_OPEN_CONFIRM) || say_opened(server);
}

/* Whether the client has what it says; what it sends behind that counts too. */
static bool take_recall(struct server *server, const struct message *recall)
{
    struct message recalled;
    struct checksum so_far = {.data = NULL};
    unsigned count = (unsigned)message_get(recall, 6, 2);
    if (checksum_begin(&so_far) < 0)
        return false;
    for (unsigned i = 0; i < count; i++) {
        uint64_t offset = message_get(recall, 56 + 16 * i, 8);
        uint64_t len = message_get(recall, 64 + 16 * i, 8);
        if (len > server->job->object->size || offset > server->job->object->size - len)
            continue;
        checksum_add(&so_far, offset, server->job->object->data + offset, len);
        checksum_add(&server->checksum, offset, server->job->object->data + offset, len);
    }
    struct digest_value digest = checksum_end(&so_far);
    message_begin(&recalled, WIRE_RECALLED);
    message_put(&recalled, 4, server->object);
    message_put_digest(&recalled, &digest);
    message_end(&recalled);
    return talk_say(server->talk, &recalled);
}

static bool take_chunk(struct server *server, const struct message *chunk)
{
    struct message grant;
    unsigned slot = (unsigned)message_get(chunk, 4, 2), count = (unsigned)message_get(chunk, 6, 2);
    const uint8_t *at = server->slots + slot * server->slot_size;
    if (server->map)
        at = server->ranges + message_get(chunk, 8, 8);
    if (message_get(chunk, 8, 8) < server->checksum.end && checksum_begin(&server->checksum) < 0)
        return false; /* it starts anew */
    for (unsigned i = 0; i < count; i++) {
        uint64_t offset = message_get(chunk, 8 + 16 * i, 8),
                 len = message_get(chunk, 16 + 16 * i, 8);
        checksum_add(&server->checksum, offset, at, len);
        at += len;
        server->acknowledged += len;
    }
    if (server->map)
        return say_place(server, slot);
    message_begin(&grant, WIRE_GRANT);
    message_put(&grant, 2, slot);
    message_put(&grant, 6, 0);
    message_put(&grant, 8, server->acknowledged);
    message_end(&grant);
    return talk_say(server->talk, &grant);
}

static bool take_end(struct server *server, const struct message *end)
{
    struct message done;
    struct digest_value digest = checksum_end(&server->checksum);
    if (message_get(end, 8, 8) > digest.size)
        digest.size = message_get(end, 8, 8);
    message_begin(&done, WIRE_DONE);
    message_put(&done, 4, server->object);
    message_put(&done, 4, 0);
    message_put_digest(&done, &digest);
    message_end(&done);
    server->talk->done = message_has_digest(end, 8, &digest);
    server->closed = !server->many;
    return talk_say(server->talk, &done);
}

/* The client's PROOF, which has to be right, and this side's. */
static bool prove(struct server *server)
{
    struct message proof;
    struct talk *talk = server->talk;
    server->proof.secret = server->job->secret;
    memcpy(server->proof.hello, talk->link.said, sizeof server->proof.hello);
    if (!talk_hear(talk, &proof))
        return false;
    memcpy(server->proof.nonce, proof.bytes + 4, sizeof server->proof.nonce);
    if (!proof_is_right(&server->proof, WIRE_ROLE_WRITE, &proof)) {
        talk->problem = "the client's PROOF is wrong";
        return false;
    }
    return proof_say(talk, &server->proof, WIRE_ROLE_SERVER);
}

static bool take(struct server *server, const struct message *message)
{
    switch (message_type(message)) {
    case WIRE_OPEN:
        return take_open(server, message);
    case WIRE_RECALL:
        return take_recall(server, message);
    case WIRE_CHUNK:
        return take_chunk(server, message);
    case WIRE_END:
        return take_end(server, message);
    case WIRE_CLOSE:
        server->closed = true;
        return true;
    default:
        server->talk->over = true;
        return false;
    }
}

/* A `post` needs nothing from here. */
static void attend_post(struct talk *talk)
{
    struct message hello = {.len = 0};
    const struct deviation *deviation = talk_deviation(talk, AT_WRITE);
    message_put_bytes(&hello, talk->link.said, talk->link.said_bytes);
    if (!deviation || talk_stop(talk, deviation) || deviation->act != AIM)
        return;
    /* On iWARP all that is posted succeeds. */
    if (link_write(&talk->link, talk->link.data, 1, message_get(&hello, 28, 8),
                   (uint32_t)message_get(&hello, 36, 4), talk->deadline) == 0 &&
        link_settle(&talk->link, talk->deadline) && !link_is_iwarp(&talk->link))
        talk->problem = "the client's memory was written to";
}

/* The exchange, where there is one. Whether the RDMA connection is due. */
static bool meet(struct server *server)
{
    struct message welcome;
    const struct server_job *job = server->job;
    if (!job->exchange)
        return true;
    put_welcome(&welcome, false);
    return meeting_answer(server->talk, job->exchange, &welcome, job->address, server->token);
}

/* A client that met this side may give up before it comes by RDMA. */
static bool await_request(struct server *server, struct link_listener *listener)
{
    struct talk *talk = server->talk;
    bool meets = talk->stream.open;
    while (link_now() < talk->deadline && !(meets && stream_has_ended(&talk->stream))) {
        int64_t moment = meets ? link_now() + LOOK_MS : talk->deadline;
        if (link_await_request(listener, &talk->link, moment) == 0)
            return true;
    }
    talk->over |= meets;
    return false;
}

void server_run(struct talk *talk, struct link_listener *listener, const struct server_job *job)
{
    struct server server = {.talk = talk, .job = job};
    struct message message;
    if (!meet(&server) || !await_request(&server, listener))
        return;
    talk->deadline = link_now() + talk->limit_ms;
    if (job->exchange && !talk->deviation->act &&
        memcmp(talk->link.said + TOKEN_AT, server.token, WIRE_TOKEN_BYTES) != 0)
        talk->problem = "the client's token is not the one that it was given";
    if (!welcome(&server))
        return;
    server.many = (talk->link.said[11] & WIRE_HELLO_MANY) != 0;
    server.slots = talk->link.data;
    server.ranges = talk->link.data + SERVER_SLOTS * SERVER_SLOT_BYTES;
    if (talk->link.said[ROLE_AT] == WIRE_ROLE_POST) {
        attend_post(talk);
        return;
    }
    if (job->secret && !prove(&server))
        return;
    if (talk->link.said[ROLE_AT] == WIRE_ROLE_CHECK) {
        check_attend(talk);
        return;
    }
    while (!server.closed && talk_hear(talk, &message))
        if (!take(&server, &message))
            break;
    checksum_discard(&server.checksum);
}

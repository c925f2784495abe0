#include "config.h"

#include "client.h"

#include <stdio.h>
#include <string.h>

#include "meeting.h"

#define PRIVATE_LENGTH_AT 6
#define HELLO_MANY_AT 11
#define TOKEN_AT 12
#define POST_BYTES 64

void client_put_hello(struct message *hello, const struct client_job *job)
{
    static const char none[WIRE_TOKEN_BYTES];
    hello->len = 0;
    message_put_bytes(hello, "RPUT", 4);
    message_put(hello, 1, WIRE_VERSION);
    message_put(hello, 1,
                job->region_addr ? WIRE_ROLE_POST
                : job->checks    ? WIRE_ROLE_CHECK
                                 : WIRE_ROLE_WRITE);
    message_put(hello, 2, WIRE_HELLO_BYTES);
    message_put(hello, 4,
                (job->many ? WIRE_HELLO_MANY : 0) |
                    (job->secret && !job->region_addr ? WIRE_HELLO_SECRET : 0));
    message_put_bytes(hello, job->token ? job->token : none, WIRE_TOKEN_BYTES);
    message_put(hello, 8, 0);
    message_put(hello, 4, 0);
}

/* Of the two, what was said is in the proofs. */
static bool prove(struct client *client, const struct message *hello)
{
    struct message answer;
    struct proof_session *proof = &client->proof;
    proof->secret = client->job->secret;
    memcpy(proof->hello, hello->bytes, sizeof proof->hello);
    memcpy(proof->welcome, client->talk->link.said, sizeof proof->welcome);
    proof_random(proof->nonce, sizeof proof->nonce);
    if (!proof_say(client->talk, proof, WIRE_ROLE_WRITE) || !talk_hear(client->talk, &answer))
        return false;
    if (proof_is_right(proof, WIRE_ROLE_SERVER, &answer))
        return true;
    client->talk->problem = "the server's PROOF is wrong";
    return false;
}

/* The exchange, where there is one: the HELLO gets its token. Whether the RDMA connection is due. */
static bool meet(struct client *client, struct message *hello, const struct deviation *deviation)
{
    struct talk *talk = client->talk;
    client->meets = client->job->exchange != NULL;
    if (!client->meets)
        return true;
    struct message greeting = *hello;
    greeting.bytes[HELLO_MANY_AT] &= (uint8_t)~WIRE_HELLO_MANY;
    if (!meeting_ask(talk, client->job->exchange, &greeting, client->token))
        return false;
    memcpy(hello->bytes + TOKEN_AT, client->token, WIRE_TOKEN_BYTES);
    if (!deviation)
        return true;
    switch (deviation->act) {
    case FORGET:
        memset(hello->bytes + TOKEN_AT, 0, WIRE_TOKEN_BYTES);
        client->meets = false;
        return true;
    case HANG_UP:
        stream_close(&talk->stream);
        return true;
    case RESET:
        stream_reset(&talk->stream);
        return true;
    case DIE: /* once it has asked for the RDMA connection */
        return true;
    default:
        return !talk_stop(talk, deviation);
    }
}

bool client_connect(struct client *client, struct talk *talk, const struct client_job *job)
{
    struct message hello;
    struct checksum checksum = {.data = NULL};
    *client = (struct client){.talk = talk, .job = job};
    if (checksum_begin(&checksum) < 0)
        return false;
    for (unsigned i = 0; i < job->object->extent_count; i++)
        checksum_add(&checksum, job->object->extents[i].offset,
                     job->object->data + job->object->extents[i].offset,
                     job->object->extents[i].length);
    client->digest = checksum_end(&checksum);
    client_put_hello(&hello, job);
    const struct deviation *deviation = talk_deviation(talk, AT_HELLO);
    if (!meet(client, &hello, deviation))
        return false;
    if (link_resolve(&talk->link, job->dest, talk->deadline) < 0 ||
        link_prepare(&talk->link, job->receives, 2 * (size_t)job->chunk_limit) < 0)
        return false;
    if (deviation && deviation->act == SKIP)
        hello.len = 0;
    else if (deviation)
        talk_shape(deviation, &hello, PRIVATE_LENGTH_AT);
    link_name(&talk->link, talk->name);
    if (link_ask(&talk->link, hello.bytes, hello.len) < 0)
        return false;
    if (deviation && deviation->act == DIE && talk_stop(talk, deviation))
        return false;
    switch (link_await_answer(&talk->link, talk->deadline)) {
    case LINK_ACCEPTED:
        if (job->region_addr)
            return true;
        if (!talk_is_welcome(talk->link.said, talk->link.said_bytes, job->secret))
            return false;
        return !job->secret || job->proves_later || prove(client, &hello);
    case LINK_REFUSED:
        talk_note_refusal(talk, talk->link.said, talk->link.said_bytes);
        return false;
    default:
        talk->over = true;
        return false;
    }
}

static void take_place(struct client *client, const struct message *message)
{
    unsigned slot = (unsigned)message_get(message, 4, 2);
    if (slot >= client->slot_count)
        return;
    client->granted[slot] = true;
    client->places[slot].rkey = (uint32_t)message_get(message, 8, 4);
    client->places[slot].remote_addr = message_get(message, 12, 8);
    client->places[slot].offset = message_get(message, 20, 8);
    client->places[slot].length = message_get(message, 28, 8);
}

static void take_ready(struct client *client, const struct message *message)
{
    client->ready = true;
    client->slot_count = (unsigned)message_get(message, 4, 2);
    client->slot_size = message_get(message, 8, 4);
    client->remote_addr = message_get(message, 12, 8);
    client->rkey = (uint32_t)message_get(message, 20, 4);
    if (client->slot_count > WIRE_MAX_SLOTS || client->slot_size > client->job->chunk_limit)
        client->talk->over = true;
    for (unsigned i = 0; i < client->slot_count && i < WIRE_MAX_SLOTS; i++)
        client->granted[i] = true;
}

static void take_grant(struct client *client, const struct message *message)
{
    unsigned slot = (unsigned)message_get(message, 4, 2);
    if (slot >= client->slot_count)
        return;
    client->granted[slot] = true;
    client->places[slot].length = 0;
}

static void take_done(struct client *client, const struct message *message)
{
    struct talk *talk = client->talk;
    unsigned status = (unsigned)message_get(message, 8, 4);
    bool same = message_has_digest(message, 12, &client->digest);
    client->done_objects++;
    if (status != 0)
        talk_note(talk, status, message->bytes, 0);
    else if (same && client->done_objects == (client->job->many ? 2 : 1))
        talk->done = true;
}

/* Hears one message. */
static bool hear(struct client *client)
{
    struct message message;
    if (!talk_hear(client->talk, &message))
        return false;
    switch (message_type(&message)) {
    case WIRE_READY:
        take_ready(client, &message);
        break;
    case WIRE_OPENED:
        client->opened = true;
        client->placed = (message_get(&message, 8, 4) & WIRE_OPENED_PLACED) != 0;
        break;
    case WIRE_PLACE:
        take_place(client, &message);
        break;
    case WIRE_GRANT:
        take_grant(client, &message);
        break;
    case WIRE_FAILED:
        talk_note(client->talk, (unsigned)message_get(&message, 8, 2), message.bytes + 16,
                  message_get(&message, 10, 2));
        break;
    case WIRE_DONE:
        take_done(client, &message);
        break;
    default:
        break;
    }
    return !client->talk->over;
}

/* By TCP, where that still is: else all that is heard is by RDMA. */
static void hear_ready(struct client *client)
{
    struct message ready;
    if (meeting_hear(client->talk, &ready) && message_type(&ready) == WIRE_READY)
        take_ready(client, &ready);
    client->talk->silent |= !client->talk->stream.open;
}

static void put_open(struct message *open, const struct client *client)
{
    static const uint8_t zeros[64];
    const struct client_job *job = client->job;
    size_t len = strlen(job->name);
    message_begin(open, WIRE_OPEN);
    message_put(open, 4, job->map ? WIRE_OPEN_MAP | WIRE_OPEN_CONFIRM : 0);
    message_put(open, 8, job->object->size);
    message_put(open, 8, client->digest.bytes);
    message_put_bytes(open, zeros, 4 + 2 * 12 + WIRE_IDENTITY_BYTES);
    message_put(open, 2, 4);
    message_put(open, 2, job->many ? 2 : 1);
    message_put(open, 4, job->chunk_limit);
    message_put(open, 2, len + (client->said_objects > 0));
    message_put(open, 2, 0);
    message_put_bytes(open, job->name, len);
    if (client->said_objects > 0)
        message_put_bytes(open, "2", 1);
    message_end(open);
}

bool client_say_open(struct client *client)
{
    struct message open;
    put_open(&open, client);
    client->opened = client->placed = false;
    client->said_objects++;
    return talk_say(client->talk, &open);
}

bool client_open(struct client *client)
{
    if (!client_say_open(client))
        return false;
    if (client->meets && !client->ready)
        hear_ready(client);
    while (!client->ready || (client->job->map && !client->opened))
        if (!hear(client))
            return false;
    return true;
}

static uint64_t slot_address(const struct client *client, unsigned slot)
{
    if (client->places[slot].length > 0)
        return client->places[slot].remote_addr;
    return client->remote_addr + slot * client->slot_size;
}

bool client_write(struct client *client, unsigned slot, const uint8_t *data, uint64_t len)
{
    struct talk *talk = client->talk;
    const struct deviation *deviation = talk_deviation(talk, AT_WRITE);
    uint64_t remote_addr = slot_address(client, slot);
    uint32_t rkey = client->places[slot].length > 0 ? client->places[slot].rkey : client->rkey;
    uint8_t *from = talk->link.data;
    /* The last write has gone, so that its bytes may be others. */
    if (!link_settle(&talk->link, talk->deadline) || (deviation && talk_stop(talk, deviation)))
        return false;
    memcpy(from, data, len);
    if (deviation && deviation->act == SKIP)
        return true;
    if (deviation && deviation->act == CORRUPT)
        from[len / 2] ^= 0x40;
    if (deviation && deviation->act == AIM) {
        remote_addr = deviation->value + (deviation->absolute ? 0 : remote_addr);
        rkey ^= deviation->key;
    }
    return link_write(&talk->link, from, len, remote_addr, rkey, talk->deadline) == 0;
}

/* A slot that may be filled; placed ones in order. */
static int find_slot(const struct client *client, uint64_t at)
{
    for (unsigned i = 0; i < client->slot_count; i++)
        if (client->granted[i] &&
            (client->places[i].length == 0 ? !client->placed : client->places[i].offset == at))
            return (int)i;
    return -1;
}

static int await_slot(struct client *client, uint64_t at)
{
    int slot;
    while ((slot = find_slot(client, at)) < 0)
        if (!hear(client))
            return -1;
    return slot;
}

/* What is left of the object's extents. */
struct rest {
    const struct object *object;
    unsigned extent;
    uint64_t offset; /* in the extent */
};

/* As much as fits a slot: packed into data, and its extents into the message. The bytes. */
static uint64_t fill(struct rest *rest, uint64_t size, uint8_t *data, struct message *chunk)
{
    uint64_t filled = 0;
    unsigned count = 0;
    while (filled < size && rest->extent < rest->object->extent_count) {
        const struct wire_extent *extent = &rest->object->extents[rest->extent];
        uint64_t left = extent->length - rest->offset, at = extent->offset + rest->offset;
        uint64_t len = left < size - filled ? left : size - filled;
        memcpy(data + filled, rest->object->data + at, len);
        message_put(chunk, 8, at);
        message_put(chunk, 8, len);
        filled += len;
        count++;
        rest->offset += len;
        if (rest->offset == extent->length) {
            rest->extent++;
            rest->offset = 0;
        }
    }
    chunk->bytes[7] = (uint8_t)count;
    return filled;
}

bool client_send(struct client *client)
{
    struct rest rest = {.object = client->job->object};
    uint8_t *data = client->talk->link.data + client->job->chunk_limit;
    while (rest.extent < rest.object->extent_count) {
        struct message chunk;
        int slot = await_slot(client, rest.offset);
        if (slot < 0)
            return false;
        uint64_t placed = client->places[slot].length;
        message_begin(&chunk, WIRE_CHUNK);
        message_put(&chunk, 2, (unsigned)slot);
        message_put(&chunk, 2, 0);
        uint64_t len = fill(&rest, placed > 0 ? placed : client->slot_size, data, &chunk);
        message_end(&chunk);
        client->granted[slot] = false;
        if (!client_write(client, (unsigned)slot, data, len) || !talk_say(client->talk, &chunk))
            return false;
    }
    return true;
}

bool client_end(struct client *client)
{
    struct message end;
    message_begin(&end, WIRE_END);
    message_put(&end, 4, 0);
    struct digest_value digest = client->digest;
    digest.size = client->job->object->size;
    message_put_digest(&end, &digest);
    message_end(&end);
    return talk_say(client->talk, &end);
}

bool client_await_done(struct client *client)
{
    while (client->done_objects < client->said_objects)
        if (!hear(client))
            return false;
    return true;
}

void client_run(struct talk *talk, const struct client_job *job)
{
    struct client client;
    bool goes_on = client_connect(&client, talk, job);
    for (unsigned i = 0; goes_on && i < (job->many ? 2u : 1u); i++)
        goes_on = client_open(&client) && client_send(&client) && client_end(&client);
    if (!goes_on || !client_await_done(&client))
        return;
    if (job->many)
        talk_say_plain(talk, WIRE_CLOSE);
    if (talk->over)
        return;
    link_settle(&talk->link, talk->deadline);
    link_disconnect(&talk->link);
}

void client_post(struct talk *talk, const struct client_job *job)
{
    struct client client;
    if (!client_connect(&client, talk, job))
        return;
    client.remote_addr = job->region_addr;
    client.rkey = job->region_rkey;
    talk->done = client_write(&client, 0, job->object->data, POST_BYTES) &&
                 link_settle(&talk->link, talk->deadline);
    /* Else it is for the server to end it: on iWARP what is refused completes all the same. */
    if (!job->stays)
        link_disconnect(&talk->link);
}

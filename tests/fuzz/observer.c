#include "config.h"

#include "observer.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

void observer_begin(struct observer *observer, const struct fake_provider *fake,
                    const struct wire_hello *hello, const struct secret *secret)
{
    for (unsigned i = 0; i < observer->opened; i++)
        free(observer->objects[i].extents);
    memset(observer, 0, sizeof *observer);
    observer->fake = fake;
    observer->many = (hello->flags & WIRE_HELLO_MANY) != 0;
    observer->hello = *hello;
    observer->secret = secret;
}

static struct observed_object *last(struct observer *observer)
{
    FUZZ_ASSERT(observer->opened > 0);
    return &observer->objects[observer->opened - 1];
}

static bool is_open(struct observer *observer)
{
    return observer->opened > 0 && !last(observer)->ended;
}

/* ---- what a client may not say -------------------------------------------------------------- */

/* It has to wait for something else. */
static bool is_too_early(struct observer *observer)
{
    return !is_open(observer) || observer->recalling || observer->opened_due ||
           (observer->opened == 1 && observer->ready.type != WIRE_READY);
}

static bool breaks_open(struct observer *observer, const struct wire_message *message)
{
    unsigned at_a_time = observer->ready.type == WIRE_READY ? observer->ready.ready.object_limit
                                                            : observer->object_limit;
    if (is_open(observer) || observer->closed || (observer->many && message->open.object_limit < 2))
        return true;
    return observer->opened > 0 &&
           (!observer->many || observer->opened - observer->done >= at_a_time ||
            message->open.slot_limit != observer->slot_limit ||
            message->open.object_limit != observer->object_limit ||
            message->open.chunk_limit != observer->chunk_limit);
}

/* Extents that go back, or past the end. */
static bool breaks_extents(const struct observer *observer, const struct wire_extent *extents,
                           unsigned count, uint64_t size)
{
    uint64_t expected = observer->expected;
    for (unsigned i = 0; i < count; i++) {
        if (extents[i].offset < expected)
            return true;
        expected = extents[i].offset + extents[i].length;
        if (size != WIRE_UNKNOWN && expected > size)
            return true;
    }
    return false;
}

static bool breaks_chunk(struct observer *observer, const struct wire_message *message)
{
    const struct wire_extent *extents = message->chunk.extents;
    const struct observed_slot *slot = &observer->slots[message->chunk.slot];
    unsigned count = message->chunk.extent_count;
    if (is_too_early(observer) || message->chunk.slot >= observer->ready.ready.slot_count ||
        slot->sent || wire_chunk_bytes(message) > observer->ready.ready.slot_size)
        return true;
    if (slot->place.length > 0 && (count != 1 || extents->offset != slot->place.offset ||
                                   extents->length != slot->place.length))
        return true;
    return breaks_extents(observer, extents, count, last(observer)->size);
}

static bool breaks_recall(struct observer *observer, const struct wire_message *message)
{
    return is_too_early(observer) || observer->got_chunk ||
           breaks_extents(observer, message->recall.extents, message->recall.extent_count,
                          observer->kept);
}

static bool breaks_end(struct observer *observer, const struct wire_message *message)
{
    if (is_too_early(observer))
        return true;
    if (message->end.flags & WIRE_END_ABANDONED)
        return !observer->many;
    uint64_t size = last(observer)->size;
    return size != WIRE_UNKNOWN && message->end.digest.size != size;
}

static bool awaits_proof(const struct observer *observer)
{
    return observer->secret && observer->proof.type != WIRE_PROOF;
}

static bool breaks(struct observer *observer, const struct wire_message *message)
{
    if (message->type == WIRE_PROOF)
        return !awaits_proof(observer);
    if (awaits_proof(observer) && message->type != WIRE_PING && message->type != WIRE_PONG &&
        message->type != WIRE_ERROR)
        return true;
    switch (message->type) {
    case WIRE_OPEN:
        return breaks_open(observer, message);
    case WIRE_CHUNK:
        return breaks_chunk(observer, message);
    case WIRE_RECALL:
        return breaks_recall(observer, message);
    case WIRE_END:
        return breaks_end(observer, message);
    case WIRE_CLOSE:
        return !observer->many || is_open(observer) || observer->done < observer->opened;
    case WIRE_PONG:
        return observer->server_pings == 0;
    case WIRE_PING:
    case WIRE_ERROR:
        return false;
    default:
        return true;
    }
}

/* ---- what the server takes ------------------------------------------------------------------ */

static bool is_code(const struct observer *observer, enum wire_role side, const uint8_t *code)
{
    struct error err = {.class = ERROR_NONE};
    uint8_t right[WIRE_CODE_BYTES];
    FUZZ_ASSERT(secret_prove(observer->secret, side, &observer->hello, &observer->welcome,
                             observer->proof.proof.nonce, right, &err) == 0);
    return memcmp(right, code, sizeof right) == 0;
}

static void take_proof(struct observer *observer, const struct wire_message *message)
{
    observer->proof = *message;
    observer->proved = is_code(observer, WIRE_ROLE_WRITE, message->proof.code);
}

static void take_open(struct observer *observer, const struct wire_message *message)
{
    FUZZ_ASSERT(observer->opened < OBSERVER_OBJECTS);
    if (observer->opened == 0) {
        observer->slot_limit = message->open.slot_limit;
        observer->object_limit = message->open.object_limit;
        observer->chunk_limit = message->open.chunk_limit;
    }
    struct observed_object *object = &observer->objects[observer->opened++];
    object->flags = message->open.flags;
    object->size = message->open.size;
    memcpy(object->name, message->open.name, sizeof object->name);
    observer->opened_due = (message->open.flags & WIRE_OPEN_CONFIRM) != 0;
    observer->recalling = observer->got_chunk = observer->placed = false;
    observer->kept = observer->expected = observer->place_at = 0;
}

static void make_room(struct observed_object *object)
{
    object->extent_room = object->extent_room ? 2 * object->extent_room : 16;
    object->extents = reallocarray(object->extents, object->extent_room, sizeof object->extents[0]);
    if (!object->extents)
        abort();
}

static void take_extents(struct observer *observer, const struct wire_extent *extents,
                         unsigned count)
{
    struct observed_object *object = last(observer);
    for (unsigned i = 0; i < count; i++) {
        if (object->extent_count == object->extent_room)
            make_room(object);
        object->extents[object->extent_count++] = extents[i];
        observer->expected = extents[i].offset + extents[i].length;
    }
}

static void take_end(struct observer *observer, const struct wire_message *message)
{
    struct observed_object *object = last(observer);
    object->ended = true;
    object->abandoned = (message->end.flags & WIRE_END_ABANDONED) != 0;
    object->told = message->end.digest;
    for (unsigned i = 0; i < WINDOW_MAX_SLOTS; i++)
        observer->slots[i].place.length = 0;
}

void observer_take(struct observer *observer, const struct wire_message *message)
{
    if (observer->violated || observer->over)
        return;
    observer->violated = !message || breaks(observer, message);
    if (observer->violated)
        return;
    switch (message->type) {
    case WIRE_PROOF:
        take_proof(observer, message);
        break;
    case WIRE_OPEN:
        take_open(observer, message);
        break;
    case WIRE_CHUNK:
        observer->slots[message->chunk.slot].sent = true;
        observer->got_chunk = true;
        take_extents(observer, message->chunk.extents, message->chunk.extent_count);
        break;
    case WIRE_RECALL:
        observer->recall = *message;
        observer->recalling = true;
        take_extents(observer, message->recall.extents, message->recall.extent_count);
        break;
    case WIRE_END:
        take_end(observer, message);
        break;
    case WIRE_PING:
        observer->pings++;
        break;
    case WIRE_PONG:
        observer->server_pings = 0;
        break;
    case WIRE_CLOSE:
        observer->closed = true;
        break;
    default: /* ERROR */
        observer->over = true;
        break;
    }
}

/* ---- what the server says ------------------------------------------------------------------- */

/* Whoever does not know the secret gets nothing but a refusal. */
static void hear_proof(struct observer *observer, const struct wire_message *message)
{
    static const uint8_t none[WIRE_NONCE_BYTES];
    FUZZ_ASSERT(observer->secret && observer->proved && !observer->answered);
    FUZZ_ASSERT(is_code(observer, WIRE_ROLE_SERVER, message->proof.code));
    FUZZ_ASSERT(memcmp(message->proof.nonce, none, sizeof none) == 0);
    observer->answered = true;
}

static void hear_ready(struct observer *observer, const struct wire_message *message)
{
    FUZZ_ASSERT(observer->ready.type != WIRE_READY && observer->opened > 0);
    FUZZ_ASSERT(message->ready.slot_count <= observer->slot_limit);
    FUZZ_ASSERT(message->ready.slot_size <= observer->chunk_limit);
    FUZZ_ASSERT(message->ready.object_limit <= observer->object_limit);
    FUZZ_ASSERT(fake_remote(observer->fake, message->ready.remote_addr, message->ready.rkey,
                            (uint64_t)message->ready.slot_count * message->ready.slot_size));
    observer->ready = *message;
}

static void hear_opened(struct observer *observer, const struct wire_message *message)
{
    const struct observed_object *object = last(observer);
    FUZZ_ASSERT(observer->opened_due && message->opened.object == observer->opened - 1);
    FUZZ_ASSERT((object->flags & WIRE_OPEN_RESUME) || message->opened.kept == 0);
    FUZZ_ASSERT((object->flags & WIRE_OPEN_MAP) || message->opened.flags == 0);
    observer->opened_due = false;
    observer->kept = message->opened.kept;
    observer->placed = (message->opened.flags & WIRE_OPENED_PLACED) != 0;
}

/* GRANT, or PLACE in its stead. */
static struct observed_slot *hear_slot(struct observer *observer, unsigned slot,
                                       uint64_t acknowledged)
{
    FUZZ_ASSERT(observer->ready.type == WIRE_READY && slot < observer->ready.ready.slot_count);
    FUZZ_ASSERT(acknowledged >= observer->acknowledged);
    observer->acknowledged = acknowledged;
    return &observer->slots[slot];
}

static void hear_grant(struct observer *observer, const struct wire_message *message)
{
    struct observed_slot *slot = hear_slot(observer, message->grant.slot,
                                           message->grant.acknowledged);
    FUZZ_ASSERT(slot->sent);
    *slot = (struct observed_slot){.sent = false};
}

static void hear_place(struct observer *observer, const struct wire_message *message)
{
    struct observed_slot *slot = hear_slot(observer, message->place.slot,
                                           message->place.acknowledged);
    FUZZ_ASSERT(observer->placed && is_open(observer));
    FUZZ_ASSERT(slot->sent || slot->place.length == 0);
    FUZZ_ASSERT(message->place.offset == observer->place_at);
    FUZZ_ASSERT(message->place.length <= observer->ready.ready.slot_size);
    observer->place_at += message->place.length;
    FUZZ_ASSERT(observer->place_at <= last(observer)->size);
    FUZZ_ASSERT(fake_remote(observer->fake, message->place.remote_addr, message->place.rkey,
                            message->place.length));
    *slot = (struct observed_slot){.place = {.offset = message->place.offset,
                                             .length = message->place.length,
                                             .remote_addr = message->place.remote_addr,
                                             .rkey = message->place.rkey}};
}

/* Where they differ, what was recalled is forgotten. */
static void hear_recalled(struct observer *observer, const struct wire_message *message)
{
    FUZZ_ASSERT(observer->recalling && message->recalled.object == observer->opened - 1);
    observer->recalling = false;
    if (digest_equal(&message->recalled.digest, &observer->recall.recall.digest))
        return;
    last(observer)->extent_count = 0;
    observer->kept = observer->expected = 0;
}

static void hear_failed(struct observer *observer, const struct wire_message *message)
{
    uint32_t index = message->error.object;
    FUZZ_ASSERT(observer->many && index >= observer->done && index < observer->opened);
    struct observed_object *object = &observer->objects[index];
    FUZZ_ASSERT(!object->failed && !object->reported);
    FUZZ_ASSERT(message->error.status != OBSERVER_DATA || object->ended);
    object->failed = true;
    if (index == observer->opened - 1)
        observer->opened_due = observer->recalling = false;
}

static void hear_done(struct observer *observer, const struct wire_message *message)
{
    FUZZ_ASSERT(message->done.object == observer->done && observer->done < observer->opened);
    struct observed_object *object = &observer->objects[observer->done++];
    FUZZ_ASSERT(object->ended);
    FUZZ_ASSERT((message->done.status == 0) == !(object->failed || object->abandoned));
    if (message->done.status == 0)
        FUZZ_ASSERT(digest_equal(&message->done.digest, &object->told));
    object->done = true;
    observer->over |= !observer->many;
}

/* The client is blamed if, and only if, it is to blame. */
static void hear_error(struct observer *observer, const struct wire_message *message)
{
    bool refused = observer->proof.type == WIRE_PROOF && !observer->proved;
    FUZZ_ASSERT(observer->violated == (message->error.status == OBSERVER_PROTOCOL));
    FUZZ_ASSERT(!refused || message->error.status == OBSERVER_UNAVAILABLE);
    observer->over = true;
}

/* No more is under way than a client that keeps to the protocol has receives for. */
static void assert_room(const struct observer *observer)
{
    unsigned under_way = observer->fake->request_count - observer->fake->run_count;
    if (observer->opened > 0 && !observer->deaf)
        FUZZ_ASSERT(under_way <=
                    observer->slot_limit +
                        wire_extra_messages(observer->many ? observer->object_limit : 1));
}

/* Before both have proved that they know the secret. */
static bool is_for_strangers(enum wire_type type)
{
    return type == WIRE_PROOF || type == WIRE_ERROR || type == WIRE_PING || type == WIRE_PONG;
}

void observer_hear(struct observer *observer, const struct wire_message *message)
{
    FUZZ_ASSERT(!observer->over);
    FUZZ_ASSERT(!observer->violated || message->type == WIRE_ERROR);
    FUZZ_ASSERT(!observer->secret || observer->answered || is_for_strangers(message->type));
    switch (message->type) {
    case WIRE_PROOF:
        hear_proof(observer, message);
        break;
    case WIRE_READY:
        hear_ready(observer, message);
        break;
    case WIRE_OPENED:
        hear_opened(observer, message);
        break;
    case WIRE_GRANT:
        hear_grant(observer, message);
        break;
    case WIRE_PLACE:
        hear_place(observer, message);
        break;
    case WIRE_RECALLED:
        hear_recalled(observer, message);
        break;
    case WIRE_FAILED:
        hear_failed(observer, message);
        break;
    case WIRE_DONE:
        hear_done(observer, message);
        break;
    case WIRE_ERROR:
        hear_error(observer, message);
        break;
    case WIRE_PING:
        FUZZ_ASSERT(observer->server_pings == 0);
        observer->server_pings++;
        break;
    case WIRE_PONG:
        FUZZ_ASSERT(observer->pings > 0);
        observer->pings--;
        break;
    default:
        FUZZ_ASSERT(!"a message that servers do not send");
    }
    assert_room(observer);
}

/* ---- what was committed --------------------------------------------------------------------- */

bool observer_matches(const struct observed_object *object, const uint8_t *content, uint64_t size)
{
    struct digest *digest = digest_new();
    struct digest_value value;
    FUZZ_ASSERT(object->ended && !object->abandoned);
    for (unsigned i = 0; i < object->extent_count; i++) {
        const struct wire_extent *extent = &object->extents[i];
        FUZZ_ASSERT(digest_add(digest, extent->offset, content + extent->offset, extent->length));
    }
    digest_value(digest, &value);
    digest_free(digest);
    bool within = value.size <= size;
    value.size = size;
    return within && digest_equal(&value, &object->told);
}

static bool is_committed(const struct observed_object *object, const char *name,
                         const struct digest_value *digest)
{
    return object->ended && !object->reported && !object->failed && !object->abandoned &&
           strcmp(object->name, name) == 0 && digest_equal(&object->told, digest);
}

/* Those before it may have failed without a word, if the connection broke. */
struct observed_object *observer_report(struct observer *observer, const char *name,
                                        const struct digest_value *digest)
{
    unsigned index = 0;
    while (index < observer->opened && !is_committed(&observer->objects[index], name, digest))
        index++;
    FUZZ_ASSERT(index < observer->opened);
    observer->objects[index].reported = true;
    return &observer->objects[index];
}

unsigned observer_end(const struct observer *observer)
{
    unsigned reported = 0;
    for (unsigned i = 0; i < observer->opened; i++) {
        const struct observed_object *object = &observer->objects[i];
        FUZZ_ASSERT(!object->done || object->reported == !(object->failed || object->abandoned));
        reported += object->reported;
    }
    return reported;
}

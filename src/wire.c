/*
 * wire.c - encodes and decodes the messages and the private data of the protocol.
 */
#include "config.h"

#include "wire.h"

#include <assert.h>
#include <string.h>

#define EXTENT_BYTES 16
#define DIGEST_FIELD_BYTES 48
#define PERMISSIONS 0777
#define NS_PER_S 1000000000u
#define REFUSAL_FIXED_BYTES 10
#define VERSION_END 5 /* magic and version stand at the same place in every version */

static const uint8_t magic[4] = {'R', 'P', 'U', 'T'};

struct message_kind {
    const char *name;
    size_t fixed_bytes; /* header included */
    bool variable;      /* more may follow, as the fixed part says */
};

static const struct message_kind kinds[] = {
    [WIRE_OPEN] = {"OPEN", 80, true},
    [WIRE_READY] = {"READY", 28, false},
    [WIRE_CHUNK] = {"CHUNK", 8, true},
    [WIRE_GRANT] = {"GRANT", 20, false},
    [WIRE_END] = {"END", 56, false},
    [WIRE_DONE] = {"DONE", 60, false},
    [WIRE_ERROR] = {"ERROR", 12, true},
    [WIRE_PING] = {"PING", 4, false},
    [WIRE_PONG] = {"PONG", 4, false},
    [WIRE_OPENED] = {"OPENED", 20, false},
    [WIRE_RECALL] = {"RECALL", 56, true},
    [WIRE_RECALLED] = {"RECALLED", 56, false},
    [WIRE_FAILED] = {"FAILED", 16, true},
    [WIRE_CLOSE] = {"CLOSE", 4, false},
    [WIRE_PLACE] = {"PLACE", 44, false},
    [WIRE_MEET] = {"MEET", 24, true},
    [WIRE_PROOF] = {"PROOF", 68, false},
    [WIRE_CHECK] = {"CHECK", 12, false},
    [WIRE_SCRATCH] = {"SCRATCH", 20, false},
    [WIRE_VERIFY] = {"VERIFY", 36, false},
    [WIRE_VERIFIED] = {"VERIFIED", 20, false},
    [WIRE_ECHO] = {"ECHO", 12, false},
    [WIRE_ECHOED] = {"ECHOED", 12, false},
};

struct writer {
    uint8_t *start;
    uint8_t *at;
};

struct reader {
    const uint8_t *at;
    size_t left;
};

static void put(struct writer *writer, size_t size, uint64_t value)
{
    for (size_t i = size; i-- > 0; value >>= 8)
        writer->at[i] = (uint8_t)value;
    writer->at += size;
}

static void put_bytes(struct writer *writer, const void *bytes, size_t len)
{
    memcpy(writer->at, bytes, len);
    writer->at += len;
}

static size_t written(const struct writer *writer)
{
    return (size_t)(writer->at - writer->start);
}

static uint64_t get(struct reader *reader, size_t size)
{
    uint64_t value = 0;

    assert(size <= reader->left);
    for (size_t i = 0; i < size; i++)
        value = value << 8 | reader->at[i];
    reader->at += size;
    reader->left -= size;
    return value;
}

static void get_bytes(struct reader *reader, void *bytes, size_t len)
{
    assert(len <= reader->left);
    memcpy(bytes, reader->at, len);
    reader->at += len;
    reader->left -= len;
}

/* False when the text holds a NUL, which would end it early. */
static bool get_text(struct reader *reader, char *text, size_t len)
{
    get_bytes(reader, text, len);
    text[len] = '\0';
    return strlen(text) == len;
}

static size_t character_bytes(uint8_t lead)
{
    if (lead >= 0xf0)
        return 4;
    if (lead >= 0xe0)
        return 3;
    return lead >= 0xc0 ? 2 : 1;
}

/* The bytes of text within limit, without a UTF-8 character whose end was cut off. */
static size_t text_length(const char *text, size_t limit)
{
    size_t len = strnlen(text, limit);
    size_t lead = len;

    while (lead > 0 && len - lead < 4) {
        lead--;
        if (((uint8_t)text[lead] & 0xc0) != 0x80)
            return len - lead < character_bytes((uint8_t)text[lead]) ? lead : len;
    }
    return len;
}

/*
 * Private data
 */

static struct writer begin_private(uint8_t *buf, uint8_t version, uint8_t role, size_t len)
{
    struct writer writer = {buf, buf};

    put_bytes(&writer, magic, sizeof(magic));
    put(&writer, 1, version);
    put(&writer, 1, role);
    put(&writer, 2, len);
    return writer;
}

size_t wire_encode_hello(const struct wire_hello *hello, uint8_t buf[WIRE_HELLO_BYTES])
{
    struct writer writer = begin_private(buf, hello->version, hello->role, WIRE_HELLO_BYTES);

    put(&writer, 4, hello->flags);
    put_bytes(&writer, hello->token, WIRE_TOKEN_BYTES);
    put(&writer, 8, hello->probe_addr);
    put(&writer, 4, hello->probe_rkey);
    return written(&writer);
}

size_t wire_encode_welcome(const struct wire_welcome *welcome, uint8_t buf[WIRE_WELCOME_BYTES])
{
    struct writer writer = begin_private(buf, welcome->version, WIRE_ROLE_SERVER,
                                         WIRE_WELCOME_BYTES);

    put(&writer, 4, welcome->flags);
    put_bytes(&writer, welcome->nonce, WIRE_NONCE_BYTES);
    return written(&writer);
}

size_t wire_encode_refusal(const struct wire_refusal *refusal, uint8_t buf[WIRE_REFUSAL_MAX_BYTES])
{
    size_t len = text_length(refusal->text, WIRE_REFUSAL_MAX_TEXT);
    struct writer writer = begin_private(buf, refusal->version, WIRE_ROLE_SERVER,
                                         REFUSAL_FIXED_BYTES + len);

    put(&writer, 1, refusal->status);
    put(&writer, 1, len);
    put_bytes(&writer, refusal->text, len);
    return written(&writer);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* What came after magic and version: the reader is left at the fields after the length, and ends
 * where the length says. */
static enum wire_result open_private(struct reader *reader, size_t fixed_bytes, uint8_t *role)
{
    size_t total = VERSION_END + reader->left;
    size_t len;

    if (total < fixed_bytes)
        return WIRE_BROKEN;
    *role = (uint8_t)get(reader, 1);
    len = get(reader, 2);
    if (len < fixed_bytes || len > total)
        return WIRE_BROKEN;
    if (!is_zero(reader->at + (len - (total - reader->left)), total - len))
        return WIRE_BROKEN;
    reader->left -= total - len;
    return WIRE_OK;
}

static enum wire_result decode_private(const void *data, size_t len, size_t fixed_bytes,
                                       struct reader *reader, uint8_t *version, uint8_t *role)
{
    if (len < sizeof(magic) || memcmp(data, magic, sizeof(magic)) != 0)
        return WIRE_FOREIGN;
    if (len < VERSION_END)
        return WIRE_BROKEN;
    *reader = (struct reader){data, len};
    reader->at += sizeof(magic);
    reader->left -= sizeof(magic);
    *version = (uint8_t)get(reader, 1);
    if (*version != WIRE_VERSION)
        return WIRE_OTHER_VERSION;
    return open_private(reader, fixed_bytes, role);
}

static bool is_client_role(uint8_t role)
{
    return role == WIRE_ROLE_WRITE || role == WIRE_ROLE_POST || role == WIRE_ROLE_CHECK;
}

/* A knock goes with nothing else. */
static bool has_known_flags(const struct wire_hello *hello)
{
    switch (hello->role) {
    case WIRE_ROLE_WRITE:
        return !(hello->flags & ~(WIRE_HELLO_MANY | WIRE_HELLO_SECRET));
    case WIRE_ROLE_CHECK:
        return hello->flags == 0 || hello->flags == WIRE_HELLO_SECRET ||
               hello->flags == WIRE_HELLO_KNOCK;
    default:
        return hello->flags == 0;
    }
}

enum wire_result wire_decode_hello(const void *data, size_t len, struct wire_hello *hello)
{
    struct reader reader;
    enum wire_result result;

    *hello = (struct wire_hello){.version = 0};
    result = decode_private(data, len, WIRE_HELLO_BYTES, &reader, &hello->version, &hello->role);
    if (result != WIRE_OK)
        return result;
    hello->flags = (uint32_t)get(&reader, 4);
    get_bytes(&reader, hello->token, WIRE_TOKEN_BYTES);
    hello->probe_addr = get(&reader, 8);
    hello->probe_rkey = (uint32_t)get(&reader, 4);
    if (reader.left != 0 || !is_client_role(hello->role))
        return WIRE_BROKEN;
    if (!has_known_flags(hello))
        return WIRE_BROKEN;
    if (hello->role != WIRE_ROLE_POST && (hello->probe_addr || hello->probe_rkey))
        return WIRE_BROKEN;
    if (hello->role == WIRE_ROLE_CHECK && !is_zero(hello->token, WIRE_TOKEN_BYTES))
        return WIRE_BROKEN;
    return WIRE_OK;
}

enum wire_result wire_decode_welcome(const void *data, size_t len, struct wire_welcome *welcome)
{
    struct reader reader;
    enum wire_result result;
    uint8_t role;

    *welcome = (struct wire_welcome){.version = 0};
    result = decode_private(data, len, WIRE_WELCOME_BYTES, &reader, &welcome->version, &role);
    if (result != WIRE_OK)
        return result;
    welcome->flags = (uint32_t)get(&reader, 4);
    get_bytes(&reader, welcome->nonce, WIRE_NONCE_BYTES);
    if (reader.left != 0 || role != WIRE_ROLE_SERVER || welcome->flags & ~WIRE_WELCOME_SECRET)
        return WIRE_BROKEN;
    if (welcome->flags == 0 && !is_zero(welcome->nonce, WIRE_NONCE_BYTES))
        return WIRE_BROKEN;
    return WIRE_OK;
}

enum wire_result wire_decode_refusal(const void *data, size_t len, struct wire_refusal *refusal)
{
    struct reader reader;
    enum wire_result result;
    uint8_t role;
    size_t text_bytes;

    *refusal = (struct wire_refusal){.version = 0};
    result = decode_private(data, len, REFUSAL_FIXED_BYTES, &reader, &refusal->version, &role);
    if (result != WIRE_OK)
        return result;
    refusal->status = (uint8_t)get(&reader, 1);
    text_bytes = get(&reader, 1);
    if (role != WIRE_ROLE_SERVER || refusal->status == 0 || text_bytes > WIRE_REFUSAL_MAX_TEXT)
        return WIRE_BROKEN;
    if (reader.left != text_bytes || !get_text(&reader, refusal->text, text_bytes))
        return WIRE_BROKEN;
    return WIRE_OK;
}

/*
 * Messages: encoding
 */

static void put_time(struct writer *writer, const struct wire_time *time)
{
    put(writer, 8, (uint64_t)time->seconds);
    put(writer, 4, time->nanoseconds);
}

static void encode_open(struct writer *writer, const struct wire_message *message)
{
    size_t len = strnlen(message->open.name, WIRE_MAX_NAME);

    put(writer, 4, message->open.flags);
    put(writer, 8, message->open.size);
    put(writer, 8, message->open.bytes);
    put(writer, 4, message->open.mode);
    put_time(writer, &message->open.accessed);
    put_time(writer, &message->open.modified);
    put_bytes(writer, message->open.identity, WIRE_IDENTITY_BYTES);
    put(writer, 2, message->open.slot_limit);
    put(writer, 2, message->open.object_limit);
    put(writer, 4, message->open.chunk_limit);
    put(writer, 2, len);
    put(writer, 2, 0);
    put_bytes(writer, message->open.name, len);
}

static void encode_ready(struct writer *writer, const struct wire_message *message)
{
    put(writer, 2, message->ready.slot_count);
    put(writer, 2, message->ready.object_limit);
    put(writer, 4, message->ready.slot_size);
    put(writer, 8, message->ready.remote_addr);
    put(writer, 4, message->ready.rkey);
    put(writer, 4, message->ready.flags);
}

static void put_extents(struct writer *writer, const struct wire_extent *extents, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put(writer, 8, extents[i].offset);
        put(writer, 8, extents[i].length);
    }
}

static void encode_chunk(struct writer *writer, const struct wire_message *message)
{
    assert(message->chunk.extent_count <= WIRE_MAX_EXTENTS);
    put(writer, 2, message->chunk.slot);
    put(writer, 2, message->chunk.extent_count);
    put_extents(writer, message->chunk.extents, message->chunk.extent_count);
}

static void encode_grant(struct writer *writer, const struct wire_message *message)
{
    put(writer, 2, message->grant.slot);
    put(writer, 2, 0);
    put(writer, 4, 0);
    put(writer, 8, message->grant.acknowledged);
}

static void put_digest(struct writer *writer, const struct digest_value *digest)
{
    put(writer, 8, digest->size);
    put(writer, 8, digest->bytes);
    put_bytes(writer, digest->data, DIGEST_BYTES);
    put_bytes(writer, digest->map, DIGEST_BYTES);
}

static void encode_end(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->end.flags);
    put_digest(writer, &message->end.digest);
}

static void encode_done(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->done.object);
    put(writer, 4, message->done.status);
    put_digest(writer, &message->done.digest);
}

static void encode_opened(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->opened.object);
    put(writer, 4, message->opened.flags);
    put(writer, 8, message->opened.kept);
}

static void encode_place(struct writer *writer, const struct wire_message *message)
{
    put(writer, 2, message->place.slot);
    put(writer, 2, 0);
    put(writer, 4, message->place.rkey);
    put(writer, 8, message->place.remote_addr);
    put(writer, 8, message->place.offset);
    put(writer, 8, message->place.length);
    put(writer, 8, message->place.acknowledged);
}

static void encode_recall(struct writer *writer, const struct wire_message *message)
{
    assert(message->recall.extent_count <= WIRE_MAX_RECALLED);
    put(writer, 2, 0);
    put(writer, 2, message->recall.extent_count);
    put_digest(writer, &message->recall.digest);
    put_extents(writer, message->recall.extents, message->recall.extent_count);
}

static void encode_recalled(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->recalled.object);
    put_digest(writer, &message->recalled.digest);
}

static void encode_error(struct writer *writer, const struct wire_message *message)
{
    size_t text_bytes = text_length(message->error.text, WIRE_MAX_TEXT);
    size_t hint_bytes = text_length(message->error.hint, WIRE_MAX_TEXT);

    put(writer, 2, message->error.status);
    put(writer, 2, text_bytes);
    put(writer, 2, hint_bytes);
    put(writer, 2, 0);
    put_bytes(writer, message->error.text, text_bytes);
    put_bytes(writer, message->error.hint, hint_bytes);
}

static void encode_meet(struct writer *writer, const struct wire_message *message)
{
    size_t text_bytes = strnlen(message->meet.text, WIRE_MAX_MEET);

    put_bytes(writer, message->meet.token, WIRE_TOKEN_BYTES);
    put(writer, 2, text_bytes);
    put(writer, 2, 0);
    put_bytes(writer, message->meet.text, text_bytes);
}

static void encode_check(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->check.wanted);
    put(writer, 4, 0);
}

static void encode_scratch(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->scratch.size);
    put(writer, 4, message->scratch.rkey);
    put(writer, 8, message->scratch.remote_addr);
}

static void encode_verify(struct writer *writer, const struct wire_message *message)
{
    put(writer, 4, message->verify.guard);
    put(writer, 4, 0);
    put(writer, 8, message->verify.offset);
    put(writer, 8, message->verify.length);
    put(writer, 8, message->verify.seed);
}

static void encode_verified(struct writer *writer, const struct wire_message *message)
{
    put(writer, 2, message->verified.verdict);
    put(writer, 1, message->verified.found);
    put(writer, 1, message->verified.expected);
    put(writer, 4, message->verified.wrong);
    put(writer, 8, message->verified.at);
}

static void encode_fields(struct writer *writer, const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_PROOF:
        put_bytes(writer, message->proof.nonce, WIRE_NONCE_BYTES);
        put_bytes(writer, message->proof.code, WIRE_CODE_BYTES);
        break;
    case WIRE_MEET:
        encode_meet(writer, message);
        break;
    case WIRE_OPEN:
        encode_open(writer, message);
        break;
    case WIRE_READY:
        encode_ready(writer, message);
        break;
    case WIRE_CHUNK:
        encode_chunk(writer, message);
        break;
    case WIRE_GRANT:
        encode_grant(writer, message);
        break;
    case WIRE_END:
        encode_end(writer, message);
        break;
    case WIRE_DONE:
        encode_done(writer, message);
        break;
    case WIRE_FAILED:
        put(writer, 4, message->error.object);
        encode_error(writer, message);
        break;
    case WIRE_ERROR:
        encode_error(writer, message);
        break;
    case WIRE_OPENED:
        encode_opened(writer, message);
        break;
    case WIRE_PLACE:
        encode_place(writer, message);
        break;
    case WIRE_RECALL:
        encode_recall(writer, message);
        break;
    case WIRE_RECALLED:
        encode_recalled(writer, message);
        break;
    case WIRE_CHECK:
        encode_check(writer, message);
        break;
    case WIRE_SCRATCH:
        encode_scratch(writer, message);
        break;
    case WIRE_VERIFY:
        encode_verify(writer, message);
        break;
    case WIRE_VERIFIED:
        encode_verified(writer, message);
        break;
    case WIRE_ECHO:
    case WIRE_ECHOED:
        put(writer, 8, message->echo.number);
        break;
    case WIRE_PING:
    case WIRE_PONG:
    case WIRE_CLOSE:
        break;
    }
}

size_t wire_encode(const struct wire_message *message, uint8_t buf[WIRE_MESSAGE_BYTES])
{
    struct writer writer = {buf, buf + WIRE_HEADER_BYTES};
    size_t len;

    encode_fields(&writer, message);
    len = written(&writer);
    writer.at = buf;
    put(&writer, 2, message->type);
    put(&writer, 2, len);
    return len;
}

/*
 * Messages: decoding. Each decoder is given at least its fixed bytes, leaves nothing unread, and
 * returns what is wrong or NULL.
 */

static struct wire_time get_time(struct reader *reader)
{
    struct wire_time time = {.seconds = (int64_t)get(reader, 8)};

    time.nanoseconds = (uint32_t)get(reader, 4);
    return time;
}

static bool is_no_time(const struct wire_time *time)
{
    return time->seconds == 0 && time->nanoseconds == 0;
}

static const char *check_open_size(const struct wire_message *message)
{
    if (message->open.size == WIRE_UNKNOWN)
        return message->open.bytes == WIRE_UNKNOWN ? NULL : "OPEN knows bytes but no size";
    if (message->open.size > WIRE_MAX_SIZE)
        return "OPEN's size is too large";
    return message->open.bytes > message->open.size ? "OPEN has more bytes than its size" : NULL;
}

static const char *check_open_attributes(const struct wire_message *message)
{
    if (message->open.accessed.nanoseconds >= NS_PER_S ||
        message->open.modified.nanoseconds >= NS_PER_S)
        return "OPEN's times have too many nanoseconds";
    if (message->open.mode & ~(uint32_t)PERMISSIONS)
        return "OPEN's mode is more than permissions";
    if (!(message->open.flags & WIRE_OPEN_PRESERVE) &&
        (message->open.mode || !is_no_time(&message->open.accessed) ||
         !is_no_time(&message->open.modified)))
        return "OPEN has mode or times that it does not preserve";
    return NULL;
}

/* All but the name. */
static const char *check_open(const struct wire_message *message)
{
    const char *problem;

    if (message->open.flags & ~WIRE_OPEN_FLAGS)
        return "OPEN has unknown flags";
    problem = check_open_size(message);
    if (!problem)
        problem = check_open_attributes(message);
    if (problem)
        return problem;
    if (message->open.slot_limit < WIRE_MIN_SLOTS || message->open.slot_limit > WIRE_MAX_SLOTS)
        return "OPEN's slot limit is out of range";
    if (message->open.object_limit < 1 || message->open.object_limit > WIRE_MAX_OBJECTS)
        return "OPEN's object limit is out of range";
    if (message->open.chunk_limit < WIRE_MIN_SLOT_SIZE ||
        message->open.chunk_limit > WIRE_MAX_SLOT_SIZE)
        return "OPEN's chunk limit is out of range";
    if ((message->open.flags & WIRE_OPEN_MAP) &&
        ((message->open.flags & WIRE_OPEN_RESUME) || !(message->open.flags & WIRE_OPEN_CONFIRM) ||
         message->open.size == WIRE_UNKNOWN || message->open.bytes != message->open.size))
        return "OPEN would map what cannot be";
    if (!(message->open.flags & WIRE_OPEN_RESUME))
        return is_zero(message->open.identity, WIRE_IDENTITY_BYTES)
                   ? NULL
                   : "OPEN has an identity and does not resume";
    if (!(message->open.flags & WIRE_OPEN_CONFIRM) || message->open.size == WIRE_UNKNOWN)
        return "OPEN resumes without a size or an answer";
    return NULL;
}

static const char *decode_open(struct reader *reader, struct wire_message *message)
{
    const char *problem;
    size_t name_bytes;
    uint64_t reserved;

    message->open.flags = (uint32_t)get(reader, 4);
    message->open.size = get(reader, 8);
    message->open.bytes = get(reader, 8);
    message->open.mode = (uint32_t)get(reader, 4);
    message->open.accessed = get_time(reader);
    message->open.modified = get_time(reader);
    get_bytes(reader, message->open.identity, WIRE_IDENTITY_BYTES);
    message->open.slot_limit = (uint16_t)get(reader, 2);
    message->open.object_limit = (uint16_t)get(reader, 2);
    message->open.chunk_limit = (uint32_t)get(reader, 4);
    name_bytes = get(reader, 2);
    reserved = get(reader, 2);
    problem = check_open(message);
    if (problem)
        return problem;
    if (reserved != 0)
        return "OPEN's reserved field is not zero";
    if (name_bytes > WIRE_MAX_NAME)
        return "OPEN's name is too long";
    if (name_bytes != reader->left)
        return "OPEN's name does not fit its message";
    if (!get_text(reader, message->open.name, name_bytes))
        return "OPEN's name contains a NUL";
    return NULL;
}

static const char *decode_ready(struct reader *reader, struct wire_message *message)
{
    uint64_t end;

    message->ready.slot_count = (uint16_t)get(reader, 2);
    message->ready.object_limit = (uint16_t)get(reader, 2);
    message->ready.slot_size = (uint32_t)get(reader, 4);
    message->ready.remote_addr = get(reader, 8);
    message->ready.rkey = (uint32_t)get(reader, 4);
    message->ready.flags = (uint32_t)get(reader, 4);
    if (message->ready.flags & ~WIRE_READY_DENSE)
        return "READY has unknown flags";
    if (message->ready.object_limit < 1 || message->ready.object_limit > WIRE_MAX_OBJECTS)
        return "READY's object limit is out of range";
    if (message->ready.slot_count < WIRE_MIN_SLOTS || message->ready.slot_count > WIRE_MAX_SLOTS)
        return "READY's slot count is out of range";
    if (message->ready.slot_size < WIRE_MIN_SLOT_SIZE ||
        message->ready.slot_size > WIRE_MAX_SLOT_SIZE)
        return "READY's slot size is out of range";
    if (__builtin_add_overflow(message->ready.remote_addr,
                               (uint64_t)message->ready.slot_count * message->ready.slot_size,
                               &end))
        return "READY's slots go past the end of memory";
    return NULL;
}

/* Adds their bytes to *sum, which cannot overflow: their ends are bounded. */
static const char *decode_extents(struct reader *reader, struct wire_extent *extents,
                                  unsigned count, uint64_t *sum)
{
    uint64_t end = 0;

    for (unsigned i = 0; i < count; i++) {
        extents[i].offset = get(reader, 8);
        extents[i].length = get(reader, 8);
        if (extents[i].length == 0)
            return "an empty extent";
        if (extents[i].offset < end)
            return "extents that go back";
        if (__builtin_add_overflow(extents[i].offset, extents[i].length, &end) ||
            end > WIRE_MAX_SIZE)
            return "extents that end too far out";
        *sum += extents[i].length;
    }
    return NULL;
}

static const char *decode_chunk(struct reader *reader, struct wire_message *message)
{
    const char *problem;
    uint64_t sum = 0;

    message->chunk.slot = (uint16_t)get(reader, 2);
    message->chunk.extent_count = (uint16_t)get(reader, 2);
    if (message->chunk.slot >= WIRE_MAX_SLOTS)
        return "CHUNK's slot is out of range";
    if (message->chunk.extent_count < 1 || message->chunk.extent_count > WIRE_MAX_EXTENTS)
        return "CHUNK's extent count is out of range";
    if (reader->left != (size_t)message->chunk.extent_count * EXTENT_BYTES)
        return "CHUNK's extents do not fit its message";
    problem = decode_extents(reader, message->chunk.extents, message->chunk.extent_count, &sum);
    if (problem)
        return problem;
    return sum > WIRE_MAX_SLOT_SIZE ? "CHUNK's extents are larger than a slot" : NULL;
}

static const char *decode_grant(struct reader *reader, struct wire_message *message)
{
    uint64_t reserved;

    message->grant.slot = (uint16_t)get(reader, 2);
    reserved = get(reader, 2);
    reserved |= get(reader, 4);
    message->grant.acknowledged = get(reader, 8);
    if (reserved != 0)
        return "GRANT's reserved fields are not zero";
    if (message->grant.slot >= WIRE_MAX_SLOTS)
        return "GRANT's slot is out of range";
    if (message->grant.acknowledged > WIRE_MAX_SIZE)
        return "GRANT acknowledges too much";
    return NULL;
}

static const char *decode_digest(struct reader *reader, struct digest_value *digest)
{
    digest->size = get(reader, 8);
    digest->bytes = get(reader, 8);
    get_bytes(reader, digest->data, DIGEST_BYTES);
    get_bytes(reader, digest->map, DIGEST_BYTES);
    if (digest->size > WIRE_MAX_SIZE)
        return "the digest's size is too large";
    if (digest->bytes > digest->size)
        return "the digest has more bytes than its size";
    return NULL;
}

static const char *decode_end(struct reader *reader, struct wire_message *message)
{
    message->end.flags = (uint32_t)get(reader, 4);
    if (message->end.flags & ~WIRE_END_ABANDONED)
        return "END has unknown flags";
    return decode_digest(reader, &message->end.digest);
}

static const char *decode_done(struct reader *reader, struct wire_message *message)
{
    uint64_t status;

    message->done.object = (uint32_t)get(reader, 4);
    status = get(reader, 4);
    if (status > UINT8_MAX)
        return "DONE's status is out of range";
    message->done.status = (uint8_t)status;
    if (status != 0 && !is_zero(reader->at, DIGEST_FIELD_BYTES))
        return "DONE has a digest of what was not committed";
    return decode_digest(reader, &message->done.digest);
}

static const char *decode_opened(struct reader *reader, struct wire_message *message)
{
    message->opened.object = (uint32_t)get(reader, 4);
    message->opened.flags = (uint32_t)get(reader, 4);
    message->opened.kept = get(reader, 8);
    if (message->opened.flags & ~WIRE_OPENED_PLACED)
        return "OPENED has unknown flags";
    return message->opened.kept > WIRE_MAX_SIZE ? "OPENED keeps too much" : NULL;
}

static const char *decode_place(struct reader *reader, struct wire_message *message)
{
    uint64_t end, reserved;

    message->place.slot = (uint16_t)get(reader, 2);
    reserved = get(reader, 2);
    message->place.rkey = (uint32_t)get(reader, 4);
    message->place.remote_addr = get(reader, 8);
    message->place.offset = get(reader, 8);
    message->place.length = get(reader, 8);
    message->place.acknowledged = get(reader, 8);
    if (reserved != 0)
        return "PLACE's reserved field is not zero";
    if (message->place.slot >= WIRE_MAX_SLOTS)
        return "PLACE's slot is out of range";
    if (message->place.length < 1 || message->place.length > WIRE_MAX_SLOT_SIZE)
        return "PLACE's length is out of range";
    if (message->place.offset > WIRE_MAX_SIZE - message->place.length)
        return "PLACE ends too far out";
    if (__builtin_add_overflow(message->place.remote_addr, message->place.length, &end))
        return "PLACE goes past the end of memory";
    return message->place.acknowledged > WIRE_MAX_SIZE ? "PLACE acknowledges too much" : NULL;
}

static const char *decode_recall(struct reader *reader, struct wire_message *message)
{
    uint64_t reserved = get(reader, 2), sum = 0;
    const char *problem;

    message->recall.extent_count = (uint16_t)get(reader, 2);
    problem = decode_digest(reader, &message->recall.digest);
    if (problem)
        return problem;
    if (reserved != 0)
        return "RECALL's reserved field is not zero";
    if (message->recall.extent_count < 1 || message->recall.extent_count > WIRE_MAX_RECALLED)
        return "RECALL's extent count is out of range";
    if (reader->left != (size_t)message->recall.extent_count * EXTENT_BYTES)
        return "RECALL's extents do not fit its message";
    return decode_extents(reader, message->recall.extents, message->recall.extent_count, &sum);
}

static const char *decode_recalled(struct reader *reader, struct wire_message *message)
{
    message->recalled.object = (uint32_t)get(reader, 4);
    return decode_digest(reader, &message->recalled.digest);
}

static const char *decode_error(struct reader *reader, struct wire_message *message)
{
    uint64_t status = get(reader, 2);
    size_t text_bytes = get(reader, 2);
    size_t hint_bytes = get(reader, 2);
    uint64_t reserved = get(reader, 2);

    if (reserved != 0)
        return "an error's reserved field is not zero";
    if (status < 1 || status > UINT8_MAX)
        return "an error's status is out of range";
    if (text_bytes > WIRE_MAX_TEXT || hint_bytes > WIRE_MAX_TEXT)
        return "an error's text is too long";
    if (text_bytes + hint_bytes != reader->left)
        return "an error's text does not fit its message";
    message->error.status = (uint8_t)status;
    if (!get_text(reader, message->error.text, text_bytes) ||
        !get_text(reader, message->error.hint, hint_bytes))
        return "an error's text contains a NUL";
    return NULL;
}

/* The lines of printable bytes that text consists of; 0 when it does not, or one is empty. */
static unsigned count_lines(const char *text, size_t len)
{
    unsigned count = 1;
    char before = '\n';

    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n' ? before == '\n' : (uint8_t)text[i] < 0x20 || text[i] == 0x7f)
            return 0;
        count += text[i] == '\n';
        before = text[i];
    }
    return before != '\n' ? count : 0;
}

static const char *decode_meet(struct reader *reader, struct wire_message *message)
{
    size_t text_bytes;
    uint64_t reserved;
    unsigned lines;

    get_bytes(reader, message->meet.token, WIRE_TOKEN_BYTES);
    text_bytes = get(reader, 2);
    reserved = get(reader, 2);
    if (is_zero(message->meet.token, WIRE_TOKEN_BYTES))
        return "MEET has no token";
    if (reserved != 0)
        return "MEET's reserved field is not zero";
    if (text_bytes > WIRE_MAX_MEET)
        return "MEET's addresses are too long";
    if (text_bytes != reader->left)
        return "MEET's addresses do not fit its message";
    if (!get_text(reader, message->meet.text, text_bytes))
        return "MEET's addresses contain a NUL";
    lines = count_lines(message->meet.text, text_bytes);
    if (lines == 0)
        return "MEET's addresses are not lines of text";
    return lines > WIRE_MAX_ADDRESSES ? "MEET has too many addresses" : NULL;
}

static bool is_scratch_size(uint64_t bytes)
{
    return bytes >= WIRE_MIN_SCRATCH && bytes <= WIRE_MAX_SCRATCH;
}

static const char *decode_check(struct reader *reader, struct wire_message *message)
{
    uint64_t reserved;

    message->check.wanted = (uint32_t)get(reader, 4);
    reserved = get(reader, 4);
    if (reserved != 0)
        return "CHECK's reserved field is not zero";
    return is_scratch_size(message->check.wanted) ? NULL : "CHECK wants too much or too little";
}

static const char *decode_scratch(struct reader *reader, struct wire_message *message)
{
    uint64_t end;

    message->scratch.size = (uint32_t)get(reader, 4);
    message->scratch.rkey = (uint32_t)get(reader, 4);
    message->scratch.remote_addr = get(reader, 8);
    if (!is_scratch_size(message->scratch.size))
        return "SCRATCH's size is out of range";
    if (__builtin_add_overflow(message->scratch.remote_addr, message->scratch.size, &end))
        return "SCRATCH goes past the end of memory";
    return NULL;
}

static const char *decode_verify(struct reader *reader, struct wire_message *message)
{
    uint64_t reserved;

    message->verify.guard = (uint32_t)get(reader, 4);
    reserved = get(reader, 4);
    message->verify.offset = get(reader, 8);
    message->verify.length = get(reader, 8);
    message->verify.seed = get(reader, 8);
    if (reserved != 0)
        return "VERIFY's reserved field is not zero";
    if (message->verify.guard > WIRE_MAX_GUARD)
        return "VERIFY's guard is too long";
    if (message->verify.length > WIRE_MAX_SCRATCH ||
        message->verify.offset > WIRE_MAX_SCRATCH - message->verify.length)
        return "VERIFY ends too far out";
    return message->verify.seed == WIRE_BACKGROUND_SEED ? "VERIFY has the background's seed" : NULL;
}

static const char *decode_verified(struct reader *reader, struct wire_message *message)
{
    uint64_t verdict = get(reader, 2);

    if (verdict > WIRE_WRONG_GUARD)
        return "VERIFIED has an unknown verdict";
    if (verdict == WIRE_EQUAL && !is_zero(reader->at, reader->left))
        return "VERIFIED has a wrong byte where all is right";
    message->verified.verdict = (enum wire_verdict)verdict;
    message->verified.found = (uint8_t)get(reader, 1);
    message->verified.expected = (uint8_t)get(reader, 1);
    message->verified.wrong = (uint32_t)get(reader, 4);
    message->verified.at = get(reader, 8);
    if (verdict == WIRE_EQUAL)
        return NULL;
    if (message->verified.found == message->verified.expected)
        return "VERIFIED takes a right byte for a wrong one";
    if (message->verified.at >= WIRE_MAX_SCRATCH)
        return "VERIFIED's wrong byte is too far out";
    return message->verified.wrong < 1 || message->verified.wrong > WIRE_MAX_SCRATCH
               ? "VERIFIED's wrong bytes are too many or none"
               : NULL;
}

static const char *decode_fields(struct reader *reader, struct wire_message *message)
{
    switch (message->type) {
    case WIRE_PROOF:
        get_bytes(reader, message->proof.nonce, WIRE_NONCE_BYTES);
        get_bytes(reader, message->proof.code, WIRE_CODE_BYTES);
        break;
    case WIRE_MEET:
        return decode_meet(reader, message);
    case WIRE_OPEN:
        return decode_open(reader, message);
    case WIRE_READY:
        return decode_ready(reader, message);
    case WIRE_CHUNK:
        return decode_chunk(reader, message);
    case WIRE_GRANT:
        return decode_grant(reader, message);
    case WIRE_END:
        return decode_end(reader, message);
    case WIRE_DONE:
        return decode_done(reader, message);
    case WIRE_ERROR:
        return decode_error(reader, message);
    case WIRE_FAILED:
        message->error.object = (uint32_t)get(reader, 4);
        return decode_error(reader, message);
    case WIRE_OPENED:
        return decode_opened(reader, message);
    case WIRE_PLACE:
        return decode_place(reader, message);
    case WIRE_RECALL:
        return decode_recall(reader, message);
    case WIRE_RECALLED:
        return decode_recalled(reader, message);
    case WIRE_CHECK:
        return decode_check(reader, message);
    case WIRE_SCRATCH:
        return decode_scratch(reader, message);
    case WIRE_VERIFY:
        return decode_verify(reader, message);
    case WIRE_VERIFIED:
        return decode_verified(reader, message);
    case WIRE_ECHO:
    case WIRE_ECHOED:
        message->echo.number = get(reader, 8);
        break;
    case WIRE_PING:
    case WIRE_PONG:
    case WIRE_CLOSE:
        break;
    }
    return NULL;
}

static const struct message_kind *find_kind(unsigned type)
{
    if (type >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[type].name)
        return NULL;
    return &kinds[type];
}

static const char *decode_message(const void *data, size_t len, struct wire_message *message)
{
    struct reader reader = {data, len};
    const struct message_kind *kind;
    unsigned type;

    if (len < WIRE_HEADER_BYTES)
        return "a message is shorter than its header";
    if (len > WIRE_MESSAGE_BYTES)
        return "a message is too long";
    type = (unsigned)get(&reader, 2);
    if (get(&reader, 2) != len)
        return "a message's length is not what arrived";
    kind = find_kind(type);
    if (!kind)
        return "a message of unknown type";
    if (len < kind->fixed_bytes || (len > kind->fixed_bytes && !kind->variable))
        return "a message's length is wrong for its type";
    message->type = type;
    return decode_fields(&reader, message);
}

enum wire_result wire_decode(const void *data, size_t len, struct wire_message *message,
                             const char **problem)
{
    *problem = decode_message(data, len, message);
    return *problem ? WIRE_BROKEN : WIRE_OK;
}

unsigned wire_extra_messages(unsigned objects)
{
    /* A server's: READY, OPENED or RECALLED, ERROR, PING, PONG; DONE, and among several FAILED. */
    return objects == 1 ? 6 : 5 + 2 * objects;
}

size_t wire_message_length(const uint8_t header[WIRE_HEADER_BYTES])
{
    return (size_t)(header[2] << 8 | header[3]);
}

size_t wire_private_length(const uint8_t header[WIRE_PRIVATE_HEADER_BYTES])
{
    return (size_t)(header[6] << 8 | header[7]);
}

const char *wire_type_name(unsigned type)
{
    const struct message_kind *kind = find_kind(type);

    return kind ? kind->name : "unknown";
}

uint64_t wire_chunk_bytes(const struct wire_message *message)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < message->chunk.extent_count; i++)
        sum += message->chunk.extents[i].length;
    return sum;
}

/*
 * fuzz-session.c - a whole session of a server, whose client does what the input says.
 *
 * The input begins with the session's mode and the client's limits, then come instructions (see
 * instructions below): messages that are right but for what the input changes in them, bytes that are
 * no messages, RDMA writes, failures of device, storage and connection, and when the worker and the
 * device get on. '/' begins another session with the same destination.
 *
 * Whatever the client does: nothing is committed that is not what its END says, what the server says
 * keeps to the protocol, it never runs out of receives, ends in time, and leaves nothing behind.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "far-end.h"
#include "fuzz.h"
#include "guard.h"
#include "log.h"
#include "model-sink.h"
#include "observer.h"
#include "receiver.h"
#include "session.h"
#include "tree.h"

#define TIMEOUT (4 * CLOCK_NS_PER_S)
#define PAGE 4096

enum mode {
    MODE_MANY = 1,
    MODE_TREE = 2,     /* into files; else into the model */
    MODE_EXCHANGE = 4, /* READY comes by another way */
    MODE_SILENT = 8,   /* the client is frozen once the input is over, and answers no PING */
    MODE_NEVER_MAP = 16,
    MODE_SECRET = 32,
};

struct client {
    struct far_end far;
    struct endpoint endpoint;
    int stop_fd, exchange[2];
    unsigned mode;
    uint64_t memory;            /* that the server may pin */
    struct wire_message limits; /* of each OPEN */
    bool ended;                 /* the input is over, and so is the client */
    bool again;                 /* but another session follows */
    bool broken;                /* the connection or the device was told to fail */
    unsigned opened, pings;     /* that it has said */
    uint64_t size;              /* of the last OPEN */
};

static const struct secret secret = {.bytes = "what nobody else knows", .len = 22};
static struct client client;
static struct observer observer;
static struct digest *said; /* the client's, of the object that it is at */
static struct model_sink model;

/* ---- what the server does ------------------------------------------------------------------- */

/* Of the model. */
static void committing(unsigned index, const uint8_t *content, uint64_t size)
{
    FUZZ_ASSERT(index < observer.opened);
    const struct observed_object *object = &observer.objects[index];
    FUZZ_ASSERT(!object->reported && !object->failed);
    FUZZ_ASSERT(size == object->told.size && observer_matches(object, content, size));
}

/* A receiver_settled. */
static void report(void *context, const char *peer, const struct receiver_object *committed,
                   const struct error *cause)
{
    (void)context;
    if (cause)
        return;
    const struct observed_object *object = observer_report(&observer, committed->name,
                                                           &committed->digest);
    FUZZ_ASSERT(strcmp(peer, client.endpoint.peer) == 0);
    /* Later ones of that name may have replaced it. */
    if ((client.mode & MODE_TREE) && object == &observer.objects[observer.opened - 1]) {
        struct tree_file file = tree_open(object->name);
        FUZZ_ASSERT(file.size == object->told.size);
        FUZZ_ASSERT(observer_matches(object, file.content, file.size));
        tree_close(&file);
    }
}

static void listen_to_exchange(void)
{
    uint8_t bytes[WIRE_MESSAGE_BYTES];
    struct wire_message message;
    const char *problem;
    if (client.exchange[1] < 0)
        return;
    ssize_t len = recv(client.exchange[1], bytes, sizeof bytes, MSG_DONTWAIT);
    if (len <= 0)
        return;
    FUZZ_ASSERT(wire_decode(bytes, (size_t)len, &message, &problem) == WIRE_OK);
    FUZZ_ASSERT(message.type == WIRE_READY);
    observer_hear(&observer, &message);
}

/* A receive is posted again once the server has taken what was in it, if it was a message. */
static void heed_receive(void)
{
    struct wire_message message;
    if (client.far.untaken_count == 0)
        return;
    for (; !far_end_look(&client.far, &message); far_end_taken(&client.far))
        observer_take(&observer, NULL);
    observer_take(&observer, &message);
    far_end_taken(&client.far);
}

/* The content is still that of the object that the server complains of. */
static void assert_wrong(void)
{
    const struct observed_object *object = &observer.objects[observer.opened - 1];
    if (!(client.mode & MODE_TREE) && !model.cut)
        FUZZ_ASSERT(!observer_matches(object, model.content, object->told.size));
}

static void heed_message(const struct wire_message *message)
{
    struct wire_message next;
    if (message->type == WIRE_READY)
        FUZZ_ASSERT(!(client.mode & MODE_EXCHANGE));
    if (message->type == WIRE_ERROR && message->error.status == OBSERVER_DATA)
        assert_wrong();
    if (message->type == WIRE_ERROR && message->error.status == OBSERVER_PROTOCOL &&
        client.far.untaken_count > 0 && !far_end_look(&client.far, &next))
        observer_take(&observer, NULL);
    if (message->type == WIRE_RECALLED &&
        !digest_equal(&message->recalled.digest, &observer.recall.recall.digest))
        digest_reset(said);
    observer_hear(&observer, message);
}

/* The server posts something. */
static void heed(void *context, const struct fake_request *request)
{
    struct wire_message message;
    const char *problem;
    (void)context;
    listen_to_exchange();
    FUZZ_ASSERT(client.far.host.fake.memory.bytes <= client.memory + PAGE);
    if (!request) {
        heed_receive();
        return;
    }
    const struct ibv_sge *entry = &request->entries[0];
    FUZZ_ASSERT(request->opcode == IBV_WR_SEND && request->count == 1);
    FUZZ_ASSERT(wire_decode((const void *)(uintptr_t)entry->addr, entry->length, &message,
                            &problem) == WIRE_OK);
    heed_message(&message);
}

/* ---- what the client says ------------------------------------------------------------------- */

/* What the client's RDMA writes to a slot go to. NULL: there is no such slot, or not any more. */
static uint8_t *slot_memory(unsigned slot, uint64_t len)
{
    const struct wire_message *ready = &observer.ready;
    const struct window_place *place = &observer.slots[slot].place;
    const struct fake_provider *fake = &client.far.host.fake;
    if (ready->type != WIRE_READY || slot >= ready->ready.slot_count)
        return NULL;
    if (place->length > 0 && model.cut)
        return NULL;
    if (place->length > 0)
        return fake_remote(fake, place->remote_addr, place->rkey, len);
    if (len > ready->ready.slot_size)
        return NULL;
    return fake_remote(fake, ready->ready.remote_addr + (uint64_t)slot * ready->ready.slot_size,
                       ready->ready.rkey, len);
}

static void remember_chunk(const struct wire_message *message)
{
    const uint8_t *data = slot_memory(message->chunk.slot, wire_chunk_bytes(message));
    for (unsigned i = 0; data && i < message->chunk.extent_count; i++) {
        const struct wire_extent *extent = &message->chunk.extents[i];
        digest_add(said, extent->offset, data, extent->length);
        data += extent->length;
    }
}

/* For what is said later. */
static void remember(const struct wire_message *message)
{
    switch (message->type) {
    case WIRE_OPEN:
        client.opened++;
        client.size = message->open.size;
        digest_reset(said);
        break;
    case WIRE_CHUNK:
        remember_chunk(message);
        break;
    case WIRE_PING:
        observer.deaf |= client.pings++ > 0;
        break;
    default:
        break;
    }
}

/* Sends bytes as they are. */
static void deliver(const void *bytes, size_t len)
{
    struct wire_message message;
    const char *problem;
    const struct fake_provider *fake = &client.far.host.fake;
    bool valid = wire_decode(bytes, len, &message, &problem) == WIRE_OK;
    if ((valid && message.type == WIRE_OPEN && client.opened == OBSERVER_OBJECTS) ||
        !far_end_deliver(&client.far, bytes, len))
        return;
    /* A client that does not listen may say what it cannot know to be in order. */
    observer.deaf |= fake->run_count < fake->request_count;
    if (valid)
        remember(&message);
}

/* Sends a message, with what the input changes in it. */
static void say(const struct wire_message *message)
{
    uint8_t bytes[WIRE_MESSAGE_BYTES];
    deliver(bytes, far_end_compose(&client.far, message, bytes));
}

/* ---- instructions --------------------------------------------------------------------------- */

static uint64_t take_length(void)
{
    static const uint64_t lengths[] = {8, 1, 0, 100, 4096, 4097, 65536, 262144, 1 << 20, 1 << 30};
    return lengths[input_below(&client.far.input, sizeof lengths / sizeof lengths[0])];
}

/* OPEN: flags, size, whether all of it is data, length of the name, name */
static void say_open(void)
{
    struct wire_message message = client.limits;
    unsigned flags = input_number(&client.far.input);
    message.open.flags = flags & WIRE_OPEN_FLAGS;
    message.open.size = flags & 0x20 ? WIRE_UNKNOWN : take_length();
    message.open.bytes = message.open.size;
    if (message.open.flags & WIRE_OPEN_PRESERVE) {
        message.open.mode = 0640;
        message.open.modified = (struct wire_time){.seconds = 1700000000, .nanoseconds = 1};
    }
    if (message.open.flags & WIRE_OPEN_RESUME)
        message.open.identity[0] = 1;
    size_t len = input_bytes(&client.far.input, message.open.name, input_number(&client.far.input));
    message.open.name[len] = '\0';
    say(&message);
}

/* Ends the connection, as a device does, when a client writes to a placed slot that is none any more. */
static void refuse_write(unsigned slot)
{
    if (observer.slots[slot].place.length == 0 || model.cut)
        return;
    client.broken = true;
    fake_host_end(&client.far.host);
}

/* The RDMA writes that go before a CHUNK. */
static void write_chunk(const struct wire_message *message)
{
    uint8_t *to = slot_memory(message->chunk.slot, wire_chunk_bytes(message));
    if (!to)
        refuse_write(message->chunk.slot);
    for (unsigned i = 0; to && i < message->chunk.extent_count; i++)
        for (uint64_t j = 0; j < message->chunk.extents[i].length; j++)
            *to++ = model_kept(message->chunk.extents[i].offset + j);
}

/* One without a CHUNK: slot, length */
static void write_slot(void)
{
    unsigned slot = input_below(&client.far.input, WINDOW_MAX_SLOTS);
    uint64_t len = take_length();
    uint8_t *to = slot_memory(slot, len);
    if (to)
        memset(to, 'w', len);
    else
        refuse_write(slot);
}

/* CHUNK: slot, gap before, length; of a placed slot what it was placed for, unless there is a gap */
static void say_chunk(void)
{
    struct wire_message message = {.type = WIRE_CHUNK};
    unsigned slot = input_below(&client.far.input, WINDOW_MAX_SLOTS);
    uint64_t gap = input_number(&client.far.input), length = take_length();
    const struct window_place *place = &observer.slots[slot].place;
    struct wire_extent extent = {.offset = digest_end(said) + gap, .length = length};
    if (place->length > 0 && gap == 0)
        extent = (struct wire_extent){.offset = place->offset, .length = place->length};
    message.chunk.slot = (uint16_t)slot;
    message.chunk.extent_count = 1;
    message.chunk.extents[0] = extent;
    write_chunk(&message);
    say(&message);
}

/* CHUNK of several extents: slot, count, length and gap of each */
static void say_extents(void)
{
    struct wire_message message = {.type = WIRE_CHUNK};
    uint64_t at = digest_end(said);
    message.chunk.slot = (uint16_t)input_below(&client.far.input, WINDOW_MAX_SLOTS);
    message.chunk.extent_count = (uint16_t)(1 + input_below(&client.far.input, WIRE_MAX_EXTENTS));
    uint64_t length = 1 + input_number(&client.far.input), gap = input_number(&client.far.input);
    for (unsigned i = 0; i < message.chunk.extent_count; i++, at += length + gap)
        message.chunk.extents[i] = (struct wire_extent){.offset = at, .length = length};
    write_chunk(&message);
    say(&message);
}

/* RECALL: gap before, length, count of extents; all with the digest of what was kept */
static void say_recall(void)
{
    struct wire_message message = {.type = WIRE_RECALL};
    uint8_t kept[256];
    uint64_t at = digest_end(said) + input_number(&client.far.input);
    uint64_t length = 1 + input_number(&client.far.input);
    message.recall.extent_count = (uint16_t)(1 + input_below(&client.far.input, WIRE_MAX_RECALLED));
    for (unsigned i = 0; i < message.recall.extent_count; i++, at += length) {
        message.recall.extents[i] = (struct wire_extent){.offset = at, .length = length};
        for (uint64_t j = 0; j < length; j++)
            kept[j % sizeof kept] = model_kept(at + j);
        digest_add(said, at, kept, length);
    }
    digest_value(said, &message.recall.digest);
    say(&message);
}

/* END, with the digest of what was said; for an object of known size, of that size */
static void say_end(uint32_t flags)
{
    struct wire_message message = {.type = WIRE_END};
    digest_value(said, &message.end.digest);
    message.end.flags = flags;
    if (client.size <= WIRE_MAX_SIZE && client.size > message.end.digest.size)
        message.end.digest.size = client.size;
    say(&message);
}

/* PROOF, right but for what the input changes in it */
static void say_proof(void)
{
    struct wire_message message = {.type = WIRE_PROOF};
    struct error err = {.class = ERROR_NONE};
    memset(message.proof.nonce, 'n', sizeof message.proof.nonce);
    FUZZ_ASSERT(secret_prove(&secret, WIRE_ROLE_WRITE, &observer.hello, &observer.welcome,
                             message.proof.nonce, message.proof.code, &err) == 0);
    say(&message);
}

static void say_plain(enum wire_type type)
{
    const struct wire_message message = {.type = type};
    say(&message);
}

/* ERROR: status */
static void say_error(void)
{
    struct wire_message message = {.type = WIRE_ERROR};
    message.error.status = (uint8_t)(1 + input_below(&client.far.input, UINT8_MAX));
    strcpy(message.error.text, "no more");
    say(&message);
}

/* bytes: length, bytes */
static void say_bytes(void)
{
    uint8_t bytes[UINT8_MAX];
    deliver(bytes, input_bytes(&client.far.input, bytes, input_byte(&client.far.input)));
}

/* what fails next */
static void fail(void)
{
    struct fake_provider *fake = &client.far.host.fake;
    unsigned what = input_below(&client.far.input, 11);
    client.broken |= what >= 5 && what < 10;
    fake->fail_errno = ENOMEM;
    switch (what) {
    case 0:
        model.fail_begin = true;
        break;
    case 1:
        model.fail_store = true;
        break;
    case 2:
        model.fail_commit = true;
        break;
    case 3:
        model.fail_map = true;
        break;
    case 4:
        model.fail_recall = true;
        break;
    case 5:
        fake->fail_registration = fake->fail_registration ? 0 : ENOMEM;
        break;
    case 6:
        fake->fail_send = 1;
        break;
    case 7:
        fake->fail_receive = 1;
        break;
    case 8:
        fake->next_status = IBV_WC_RETRY_EXC_ERR;
        break;
    case 9:
        fake->poll_result = -1;
        break;
    case 10:
        model_cut(&model);
        break;
    }
}

/* Of the connection, or of the server's host. */
static void end_session(void)
{
    client.broken = true;
    switch (input_below(&client.far.input, 3)) {
    case 0:
        fake_host_end(&client.far.host);
        break;
    case 1:
        fake_host_event(&client.far.host, RDMA_CM_EVENT_DEVICE_REMOVAL);
        break;
    case 2:
        eventfd_write(client.stop_fd, 1);
        break;
    }
}

/* Whether the world has gone on by itself. */
static bool work(bool device, bool worker)
{
    struct fake_provider *fake = &client.far.host.fake;
    if (device && fake->run_count < fake->request_count) {
        fake_run(fake, UINT32_MAX);
        return true;
    }
    return worker && fake_host_work(&client.far.host);
}

static void instruct(uint8_t letter)
{
    switch (letter) {
    case 'k':
        say_proof();
        break;
    case 'o':
        say_open();
        break;
    case 'c':
        say_chunk();
        break;
    case 'x':
        say_extents();
        break;
    case 'r':
        say_recall();
        break;
    case 'e':
        say_end(0);
        break;
    case 'a':
        say_end(WIRE_END_ABANDONED);
        break;
    case 'z':
        say_plain(WIRE_CLOSE);
        break;
    case '?':
        say_plain(WIRE_PING);
        break;
    case '!':
        say_plain(WIRE_PONG);
        break;
    case 'g':
        say_error();
        break;
    case 'b':
        say_bytes();
        break;
    case 'w':
        write_slot();
        break;
    case 'd': /* the device waits, or does not any more */
        client.far.device_waits = !client.far.device_waits;
        break;
    case 'j':
        client.far.worker_waits = !client.far.worker_waits;
        break;
    case 'D': /* it carries one request out */
        fake_run(&client.far.host.fake, 1);
        break;
    case 'J':
        fake_host_work(&client.far.host);
        break;
    case 't': /* time passes: tenths of a second */
        fake_host_pass(&client.far.host, 100 * input_below(&client.far.input, 64));
        break;
    case 'f':
        fail();
        break;
    case 'q':
        end_session();
        break;
    case '/':
        client.ended = client.again = true;
        break;
    }
}

/* Whether the server is still to take what comes. */
static bool is_going_on(void)
{
    return client.far.host.accepted && client.far.host.has_queue_pair &&
           !client.far.host.disconnected && !observer.over && !observer.violated &&
           !observer.closed && !client.broken && !client.ended;
}

/* The server waits, and nothing is under way: it has taken all that came, and has receives for more. */
static void assert_receives(void)
{
    const struct fake_provider *fake = &client.far.host.fake;
    if (!is_going_on() || client.far.untaken_count > 0)
        return;
    FUZZ_ASSERT(fake->receive_count - fake->received_count == client.far.host.recv_depth);
}

/* The client leaves, unless it is frozen. */
static bool leave(void)
{
    client.ended = true;
    if (work(true, true))
        return true;
    if ((client.mode & MODE_SILENT) || client.broken)
        return false;
    client.broken = true;
    fake_host_end(&client.far.host);
    return true;
}

/* One step of the world: the server waits for something. */
static bool go_on(void *context)
{
    (void)context;
    wire_decode_welcome(client.far.host.answer, client.far.host.answer_len, &observer.welcome);
    listen_to_exchange();
    if (work(!client.far.device_waits, !client.far.worker_waits))
        return true;
    assert_receives();
    if (observer.server_pings > 0 && !client.broken && !(client.mode & MODE_SILENT)) {
        const struct wire_message pong = {.type = WIRE_PONG};
        say(&pong);
        return client.far.untaken_count > 0;
    }
    if (client.ended || client.far.input.left == 0)
        return leave();
    far_end_act(&client.far, instruct);
    return true;
}

/* ---- the session ---------------------------------------------------------------------------- */

static void take_limits(void)
{
    static const uint32_t chunks[] = {4096, 5000, 65536, 1 << 20};
    struct wire_message *limits = &client.limits;
    *limits = (struct wire_message){.type = WIRE_OPEN};
    limits->open.slot_limit = (uint16_t)(1 + input_below(&client.far.input, WIRE_MAX_SLOTS));
    limits->open.object_limit = (uint16_t)(1 + input_below(&client.far.input, WIRE_MAX_OBJECTS));
    unsigned chunk = input_below(&client.far.input, 8);
    limits->open.chunk_limit = chunks[chunk % 4];
    client.memory = chunk < 4 ? receiver_wanted_memory() : receiver_least_memory() * (chunk - 3);
}

static void prepare(void)
{
    struct input input = client.far.input;
    memset(&client, 0, sizeof client);
    far_end_begin(&client.far, input);
    digest_reset(said);
    client.mode = input_number(&client.far.input);
    client.exchange[0] = client.exchange[1] = -1;
    model_reset(&model, take_length() % MODEL_BYTES);
    take_limits();
    bool is_secret = client.mode & MODE_SECRET;
    const struct wire_hello hello = {
        .version = WIRE_VERSION,
        .role = WIRE_ROLE_WRITE,
        .flags = (client.mode & MODE_MANY ? WIRE_HELLO_MANY : 0) |
                 (is_secret ? WIRE_HELLO_SECRET : 0),
    };
    observer_begin(&observer, &client.far.host.fake, &hello, is_secret ? &secret : NULL);
    client.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (client.stop_fd < 0 ||
        ((client.mode & MODE_EXCHANGE) && socketpair(AF_UNIX, SOCK_STREAM, 0, client.exchange) < 0))
        abort();
}

static void assert_result(const struct receiver_result *result, int rc, const struct error *err)
{
    unsigned reported = observer_end(&observer);
    FUZZ_ASSERT((rc == 0) == !error_is_set(err));
    FUZZ_ASSERT(result->committed == reported);
    if (rc == 0)
        FUZZ_ASSERT(result->failed == 0 && (observer.closed || reported == 1));
    if (observer.many && observer.violated)
        FUZZ_ASSERT(rc < 0);
    if (!(client.mode & MODE_TREE)) {
        FUZZ_ASSERT(model.committed == reported);
        FUZZ_ASSERT(model.alive == 0);
    }
}

static void ignore_stuck(void *context, const struct error *err)
{
    (void)context, (void)err;
}

static void run_session(void)
{
    static const struct rdma_conn_param offered = {.initiator_depth = 1, .responder_resources = 1};
    struct receiver_result result;
    struct error err = {.class = ERROR_NONE};
    prepare();
    fake_host_open(&client.far.host, go_on, NULL);
    client.far.host.fake.posted = heed;
    struct sink *sink = client.mode & MODE_TREE ? tree_sink() : &model.sink;
    sink->never_map = (client.mode & MODE_NEVER_MAP) != 0;
    const struct receiver_job job = {.sink = sink,
                                     .hello = &observer.hello,
                                     .secret = observer.secret,
                                     .memory = client.memory,
                                     .ready_fd = client.exchange[0],
                                     .settled = report,
                                     .stuck = ignore_stuck};
    FUZZ_ASSERT(endpoint_adopt(&client.endpoint, fake_host_request(&client.far.host), &offered,
                               TIMEOUT, client.stop_fd, &err) == 0);
    int rc = receiver_run(&client.endpoint, &job, &result, &err);
    endpoint_close(&client.endpoint);
    fake_host_close(&client.far.host);
    assert_result(&result, rc, &err);
    close(client.stop_fd);
    if (client.exchange[0] >= 0) {
        close(client.exchange[0]);
        close(client.exchange[1]);
    }
}

static void open_once(void)
{
    static bool is_open;
    if (is_open)
        return;
    is_open = true;
    log_set_level(LOG_TRACE);
    if (guard_init() < 0)
        abort();
    model_open(&model);
    model.committing = committing;
    tree_make();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool uses_tree = false;
    open_once();
    said = digest_new();
    client.far.input = (struct input){.at = data, .left = size};
    do {
        run_session();
        uses_tree |= (client.mode & MODE_TREE) != 0;
        while (!client.again && client.far.input.left > 0)
            client.again = input_byte(&client.far.input) == '/';
    } while (client.again);
    if (uses_tree)
        tree_empty();
    digest_free(said);
    return 0;
}

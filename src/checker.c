#include "config.h"

#include "checker.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "handshake.h"
#include "memory.h"
#include "pattern.h"
#include "report.h"
#include "samples.h"
#include "session.h"
#include "units.h"

/* Where a target begins, without a shift: a page behind the start of the memory, at both ends. */
#define BASE 4096
#define GUARD 512
#define MOST_SHIFT 4095
#define LARGEST ((uint64_t)1 << 20)
#define ALIGNED_BYTES 4099
/* Gather entries are odd in every way. */
#define GATHER_BYTES 257
#define GATHER_STRIDE 271
#define INLINE_WANTED 512
#define MOST_CASES 64
#define MOST_ENTRIES 256
/* Work requests for one write. */
#define MOST_PARTS 64
#define LATENCY_BYTES 8
#define MOST_SAMPLES 50000
#define WARM_UP 16
/* What is under way takes no longer than that, as far as the rate so far tells. */
#define UNDER_WAY_NS (100 * CLOCK_NS_PER_MS)

enum layer {
    LAYER_RESOLVE_ADDRESS,
    LAYER_RESOLVE_ROUTE,
    LAYER_CONNECT,
    LAYER_EXCHANGE,
    LAYER_WRITES,
    LAYER_LATENCY,
    LAYER_BANDWIDTH,
    LAYERS
};

static const char *const layer_names[] = {
    [LAYER_RESOLVE_ADDRESS] = "resolve-address",
    [LAYER_RESOLVE_ROUTE] = "resolve-route",
    [LAYER_CONNECT] = "connect",
    [LAYER_EXCHANGE] = "exchange",
    [LAYER_WRITES] = "writes",
    [LAYER_LATENCY] = "latency",
    [LAYER_BANDWIDTH] = "bandwidth",
};

/* A write that is compared. */
struct write {
    char name[48];
    uint64_t bytes;
    unsigned entries; /* places in memory that it is gathered from */
    unsigned local_shift, remote_shift;
    bool is_inline;
    const char *impossible; /* why it cannot be; NULL: it can */
};

struct checker {
    const struct checker_job *job;
    struct findings *findings;
    struct checker_figures *figures;
    struct client_target target; /* the job's, with the figures' facts */
    struct endpoint endpoint;
    struct handshake handshake;
    struct session session;
    struct memory memory;       /* what is written */
    struct wire_message remote; /* SCRATCH: where it is written to */
    uint64_t seed;              /* of the last pattern */
    uint64_t arrived;           /* bytes of the largest write that was compared */
    uint64_t echo;              /* the last number */
    bool connected;
    int64_t connected_at; /* clock.h */
    struct error failure; /* the first */
    char failed[48];      /* the name of what failed then; empty: nothing */
    struct error broken;  /* what the session ended with */
};

/* ---- findings ------------------------------------------------------------------------------ */

static void skip(struct checker *checker, const char *name)
{
    findings_add(checker->findings, FINDING_SKIPPED, name, NULL, 0, "not tried, since %s failed",
                 checker->failed);
}

static void skip_behind(struct checker *checker, enum layer failed)
{
    for (int layer = (int)failed + 1; layer < LAYERS; layer++)
        skip(checker, layer_names[layer]);
}

/* Something failed, with *err: but for bytes that arrived wrong, nothing goes on after it. Always
 * -1. */
static int fail(struct checker *checker, const char *name, uint64_t ns, const struct error *err)
{
    findings_add_error(checker->findings, name, ns, err);
    if (err->class != ERROR_DATA)
        checker->broken = *err;
    if (error_is_set(&checker->failure))
        return -1;
    snprintf(checker->failed, sizeof checker->failed, "%s", name);
    checker->failure = *err;
    return -1;
}

/* ---- up to the connection ------------------------------------------------------------------ */

static size_t whole_pages(uint64_t bytes)
{
    return (bytes + WIRE_MIN_SCRATCH - 1) / WIRE_MIN_SCRATCH * WIRE_MIN_SCRATCH;
}

/* One byte more than a work request may have, if that can be tried at all; else 0. */
static uint64_t past_limit(const struct checker *checker)
{
    uint64_t most = checker->endpoint.max_msg_sz;
    return most < WIRE_MAX_SCRATCH - BASE - GUARD ? most + 1 : 0;
}

/* As much as the largest write takes, at either end. */
static uint32_t wanted_memory(const struct checker *checker)
{
    uint64_t most = LARGEST + MOST_SHIFT, past = past_limit(checker);
    size_t wanted = whole_pages(BASE + (past > most ? past : most) + GUARD);
    return wanted < WIRE_MAX_SCRATCH ? (uint32_t)wanted : WIRE_MAX_SCRATCH;
}

/* One attempt to connect (client_attempt). */
static int attempt(void *context, struct endpoint *endpoint, int64_t deadline, struct error *err)
{
    struct checker *checker = context;
    struct wire_hello *hello = &checker->handshake.hello;
    struct endpoint_answer answer;
    struct endpoint_wants wants = session_wants(WIRE_MAX_ECHOES, 1, MOST_PARTS);
    wants.max_inline = INLINE_WANTED;
    checker->handshake.secret = checker->job->secret;
    *hello = (struct wire_hello){.version = WIRE_VERSION,
                                 .role = WIRE_ROLE_CHECK,
                                 .flags = checker->job->secret ? WIRE_HELLO_SECRET : 0};
    if (endpoint_create_queues(endpoint, &wants, NULL, err) == 0 &&
        session_open(&checker->session, endpoint, WIRE_MAX_ECHOES, 1, checker->target.timeout,
                     err) == 0 &&
        client_greet(endpoint, hello, deadline, &checker->handshake.welcome, &answer, err) == 0)
        return 0;
    session_close(&checker->session);
    return -1;
}

static enum layer layer_of(enum error_stage stage)
{
    if (stage <= STAGE_RESOLVE_ADDRESS)
        return LAYER_RESOLVE_ADDRESS;
    return stage == STAGE_RESOLVE_ROUTE ? LAYER_RESOLVE_ROUTE : LAYER_CONNECT;
}

/* The layers below that one. */
static void add_reached(struct checker *checker, enum layer layer)
{
    const struct facts *facts = &checker->figures->facts;
    if (layer > LAYER_RESOLVE_ADDRESS)
        findings_add(checker->findings, FINDING_OK, layer_names[LAYER_RESOLVE_ADDRESS], NULL,
                     facts->ns[FACTS_RESOLVE] - facts->route_ns, "%s", facts->peer);
    if (layer > LAYER_RESOLVE_ROUTE)
        findings_add(checker->findings, FINDING_OK, layer_names[LAYER_RESOLVE_ROUTE], NULL,
                     facts->route_ns, "by device %s port %u, from %s", facts->device, facts->port,
                     facts->local);
    if (layer > LAYER_CONNECT)
        findings_add(checker->findings, FINDING_OK, layer_names[LAYER_CONNECT], NULL,
                     facts->ns[FACTS_CONNECT], "%s, MTU %" PRIu32, facts->kind, facts->mtu);
}

/* -1 with the layer that failed. */
static int connect_server(struct checker *checker, enum layer *failed)
{
    struct error err = {.class = ERROR_NONE};
    int64_t start = clock_now();
    int rc = client_connect(&checker->target, attempt, checker, &checker->endpoint, &err);
    checker->connected_at = clock_now();
    checker->connected = rc == 0;
    if (checker->connected)
        checker->figures->facts = checker->endpoint.facts;
    *failed = checker->connected ? LAYER_EXCHANGE : layer_of(err.stage);
    add_reached(checker, *failed);
    return rc < 0 ? fail(checker, layer_names[*failed], (uint64_t)(checker->connected_at - start),
                         &err)
                  : 0;
}

static int await_kind(struct checker *checker, enum wire_type type, struct wire_message *message,
                      struct error *err)
{
    if (session_await(&checker->session, message, err) < 0)
        return -1;
    return message->type == type ? 0 : session_unexpected(&checker->session, message, err);
}

static int register_memory(struct checker *checker, struct error *err)
{
    struct facts *facts = &checker->endpoint.facts;
    unsigned count = 1;
    size_t size = wanted_memory(checker);
    int64_t start = clock_now();
    if (memory_register_buffers(&checker->memory, checker->endpoint.id, false, &count, &size,
                                "memory to check with", err) < 0)
        return -1;
    facts_took(facts, FACTS_REGISTER, start);
    facts->slots = count;
    facts->slot_size = size;
    facts->pinned = checker->memory.bytes + checker->session.messages.memory.bytes;
    return 0;
}

/* The secret, memory here, and what the server says of its own. */
static int exchange(struct checker *checker, struct error *err)
{
    struct wire_message check = {.type = WIRE_CHECK, .check = {.wanted = wanted_memory(checker)}};
    if (secret_random(&checker->seed, sizeof checker->seed, err) < 0 ||
        handshake_as_client(&checker->handshake, &checker->session, err) < 0 ||
        register_memory(checker, err) < 0 || session_send(&checker->session, &check, err) < 0 ||
        await_kind(checker, WIRE_SCRATCH, &checker->remote, err) < 0)
        return -1;
    if (checker->remote.scratch.size <= check.check.wanted)
        return 0;
    return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, checker->endpoint.peer,
                     "the peer broke the protocol: more memory than was wanted");
}

static int try_exchange(struct checker *checker)
{
    struct error err = {.class = ERROR_NONE};
    char size[UNITS_TEXT];
    int64_t start = clock_now();
    session_begin(&checker->session);
    checker->session.poll_ns = SESSION_POLL_NS;
    int rc = exchange(checker, &err);
    uint64_t ns = (uint64_t)(clock_now() - start);
    if (rc < 0)
        return fail(checker, layer_names[LAYER_EXCHANGE], ns, &err);
    findings_add(checker->findings, FINDING_OK, layer_names[LAYER_EXCHANGE], NULL, ns,
                 "%s of memory at %#" PRIx64 ", rkey %#" PRIx32,
                 units_format_size(checker->remote.scratch.size, size),
                 checker->remote.scratch.remote_addr, checker->remote.scratch.rkey);
    report_connection(&checker->endpoint.facts, "buffers");
    return 0;
}

/* ---- the table of writes ------------------------------------------------------------------- */

struct table {
    struct write writes[MOST_CASES];
    unsigned count;
};

static struct write *add_write(struct table *table, uint64_t bytes)
{
    struct write *write = &table->writes[table->count++];
    assert(table->count <= MOST_CASES);
    *write = (struct write){.bytes = bytes, .entries = 1};
    return write;
}

static void add_size(struct table *table, uint64_t bytes)
{
    for (unsigned i = 0; i < table->count; i++)
        if (table->writes[i].bytes == bytes)
            return;
    struct write *write = add_write(table, bytes);
    snprintf(write->name, sizeof write->name, "size-%" PRIu64, bytes);
}

static void add_sizes(struct table *table, const struct checker *checker)
{
    static const uint64_t small[] = {0, 1, 2, 3, 63, 64, 65};
    static const uint64_t large[] = {4095, 4096, 4097, 65535, 65536, 65537, LARGEST};
    uint64_t mtu = checker->endpoint.facts.mtu, past = past_limit(checker);
    for (unsigned i = 0; i < sizeof small / sizeof small[0]; i++)
        add_size(table, small[i]);
    for (uint64_t bytes = mtu - 1; mtu > 0 && bytes <= mtu + 1; bytes++)
        add_size(table, bytes);
    for (unsigned i = 0; i < sizeof large / sizeof large[0]; i++)
        add_size(table, large[i]);
    struct write *write = add_write(table, past);
    snprintf(write->name, sizeof write->name, "size-past-limit");
    if (past == 0)
        write->impossible = "a work request may have more bytes than there is memory for";
}

static void add_gather(struct table *table, unsigned entries)
{
    struct write *write = add_write(table, (uint64_t)entries * GATHER_BYTES);
    snprintf(write->name, sizeof write->name, "gather-%u", entries);
    write->entries = entries;
    write->local_shift = 1;
    if (entries > MOST_ENTRIES)
        write->impossible = "more places than this program gathers from";
}

/* 1, 2, and up to what the device can. */
static void add_gathers(struct table *table, const struct checker *checker)
{
    unsigned most = checker->endpoint.max_sge;
    for (unsigned entries = 1; entries <= 2 && entries <= most; entries++)
        add_gather(table, entries);
    for (unsigned entries = most > 3 ? most - 1 : 3; entries <= most; entries++)
        add_gather(table, entries);
}

static void add_alignments(struct table *table)
{
    static const unsigned shifts[][2] = {{1, 0}, {0, 1}, {3, 5}, {63, 65}, {4095, 4095}};
    for (unsigned i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        struct write *write = add_write(table, ALIGNED_BYTES);
        write->local_shift = shifts[i][0];
        write->remote_shift = shifts[i][1];
        snprintf(write->name, sizeof write->name, "align-%u-%u", shifts[i][0], shifts[i][1]);
    }
}

static void add_inline(struct table *table, unsigned bytes, const char *impossible)
{
    struct write *write = add_write(table, bytes);
    snprintf(write->name, sizeof write->name, "inline-%u", bytes);
    write->is_inline = true;
    write->remote_shift = 1;
    write->impossible = impossible;
}

static void add_inlines(struct table *table, const struct checker *checker)
{
    unsigned most = checker->endpoint.max_inline;
    add_inline(table, 1, most > 0 ? NULL : "the device takes no inline data");
    if (most > 3)
        add_inline(table, most / 2, NULL);
    if (most > 1)
        add_inline(table, most, NULL);
}

static void make_table(const struct checker *checker, struct table *table)
{
    table->count = 0;
    add_sizes(table, checker);
    add_gathers(table, checker);
    add_alignments(table);
    add_inlines(table, checker);
}

/* ---- one write ----------------------------------------------------------------------------- */

/* The bytes of memory here that it takes, and there. */
static uint64_t local_bytes(const struct write *write)
{
    uint64_t bytes = write->entries > 1 ? (uint64_t)write->entries * GATHER_STRIDE : write->bytes;
    return BASE + write->local_shift + bytes;
}

static uint64_t remote_bytes(const struct write *write)
{
    return BASE + write->remote_shift + write->bytes + (write->bytes > 0 ? GUARD : 0);
}

/* Why a write cannot be tried, perhaps in buf; NULL: it can. */
static const char *find_obstacle(const struct checker *checker, const struct write *write,
                                 char *buf, size_t size)
{
    char text[UNITS_TEXT];
    uint64_t there = checker->remote.scratch.size;
    if (write->impossible)
        return write->impossible;
    if (remote_bytes(write) > there)
        snprintf(buf, size, "the server has no more than %s of memory for it",
                 units_format_size(there, text));
    else if (local_bytes(write) > checker->memory.bytes)
        snprintf(buf, size, "this host has no more than %s of memory for it",
                 units_format_size(checker->memory.bytes, text));
    else
        return NULL;
    return buf;
}

/* Puts the pattern where the write takes it from. The number of gather entries. */
static unsigned fill(struct checker *checker, const struct write *write, struct ibv_sge *entries)
{
    uint64_t len = write->bytes / write->entries;
    uint8_t *at = checker->memory.addr + BASE + write->local_shift;
    if (write->bytes == 0)
        return 0;
    for (unsigned i = 0; i < write->entries; i++, at += GATHER_STRIDE) {
        pattern_fill(at, len, checker->seed, i * len);
        entries[i] = (struct ibv_sge){.addr = (uint64_t)(uintptr_t)at,
                                      .length = (uint32_t)len,
                                      .lkey = checker->memory.mr->lkey};
    }
    return write->entries;
}

/* What is one work request, or as many as it takes of one entry. */
static int post(struct checker *checker, struct ibv_sge *entries, unsigned count, int flags,
                uint64_t remote_addr, struct error *err)
{
    uint32_t rkey = checker->remote.scratch.rkey;
    uint64_t most = checker->endpoint.max_msg_sz;
    while (count == 1 && entries->length > most) {
        struct ibv_sge part = *entries;
        part.length = (uint32_t)most;
        if (session_write(&checker->session, &part, 1, flags, remote_addr, rkey, err) < 0)
            return -1;
        entries->addr += most;
        entries->length -= part.length;
        remote_addr += most;
    }
    return session_write(&checker->session, entries, count, flags, remote_addr, rkey, err);
}

/* Whether what the server found wrong can be so. */
static bool is_plausible(const struct wire_message *verify, const struct wire_message *verified)
{
    uint64_t start = verify->verify.offset, end = start + verify->verify.length;
    uint64_t at = verified->verified.at, guard = verify->verify.guard;
    bool in_target = at >= start && at < end;
    if (verified->verified.verdict == WIRE_WRONG_TARGET)
        return in_target &&
               verified->verified.expected == pattern_byte(verify->verify.seed, at - start);
    return !in_target && at + guard >= start && at < end + guard &&
           verified->verified.expected == pattern_byte(WIRE_BACKGROUND_SEED, at);
}

static int wrong_error(const struct checker *checker, const struct wire_message *verify,
                       const struct wire_message *verified, struct error *err)
{
    uint64_t start = verify->verify.offset, length = verify->verify.length;
    uint64_t at = verified->verified.at;
    char where[96];
    if (!is_plausible(verify, verified))
        return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, checker->endpoint.peer,
                         "the peer broke the protocol: it found wrong what cannot be");
    if (verified->verified.verdict == WIRE_WRONG_TARGET)
        snprintf(where, sizeof where, "byte %" PRIu64 " of %" PRIu64, at - start, length);
    else if (at < start)
        snprintf(where, sizeof where, "a byte that was not written, %" PRIu64 " before the target",
                 start - at);
    else
        snprintf(where, sizeof where, "a byte that was not written, %" PRIu64 " behind the target",
                 at - (start + length) + 1);
    error_set(err, ERROR_DATA, STAGE_COMMIT, checker->endpoint.peer,
              "arrived wrong: %s is %#04x and should be %#04x; bytes wrong: %" PRIu32, where,
              verified->verified.found, verified->verified.expected, verified->verified.wrong);
    return error_hint(err, "an adapter, its driver, or memory damages data: see whether it is so "
                           "between other hosts, and with other adapters");
}

/* Has the server compare. 1: all is right; 0: *err says what is wrong (ERROR_DATA); -1 with *err. */
static int verify(struct checker *checker, uint64_t offset, uint64_t length, struct error *err)
{
    struct wire_message message = {
        .type = WIRE_VERIFY,
        .verify = {.guard = GUARD, .offset = offset, .length = length, .seed = checker->seed}};
    struct wire_message answer;
    if (session_send(&checker->session, &message, err) < 0 ||
        await_kind(checker, WIRE_VERIFIED, &answer, err) < 0)
        return -1;
    if (answer.verified.verdict == WIRE_EQUAL)
        return 1;
    wrong_error(checker, &message, &answer, err);
    return err->class == ERROR_DATA ? 0 : -1;
}

static void next_seed(struct checker *checker)
{
    if (++checker->seed == WIRE_BACKGROUND_SEED)
        checker->seed++;
}

/* As verify. */
static int make_write(struct checker *checker, const struct write *write, struct error *err)
{
    struct ibv_sge entries[MOST_ENTRIES];
    uint64_t offset = BASE + write->remote_shift;
    next_seed(checker);
    unsigned count = fill(checker, write, entries);
    if (post(checker, entries, count, write->is_inline ? IBV_SEND_INLINE : 0,
             checker->remote.scratch.remote_addr + offset, err) < 0)
        return -1;
    /* Inline data is the device's by now. */
    if (write->is_inline)
        memset(checker->memory.addr, 0, local_bytes(write));
    return verify(checker, offset, write->bytes, err);
}

/* A packet that is full is lost on a path that takes smaller ones only, whatever its hosts agreed on. */
static void hint_packet_size(const struct checker *checker, const struct write *write,
                             struct error *err)
{
    uint64_t mtu = checker->endpoint.facts.mtu;
    bool unanswered = err->status &&
                      strcmp(err->status, ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)) == 0;
    if (!unanswered || checker->arrived == 0 || checker->arrived + 1 >= mtu ||
        write->bytes + 1 < mtu)
        return;
    err->hint[0] = '\0';
    error_hint(err,
               "writes of up to %" PRIu64 " bytes arrived, and packets of about the MTU, %" PRIu64
               " bytes, do not: give both hosts and the switches between them one MTU ('ip link', "
               "and 'rdmaput check' at both ends)",
               checker->arrived, mtu);
}

/* -1 when the session is over: what arrived wrong does not end it. */
static int try_write(struct checker *checker, const struct write *write)
{
    struct error err = {.class = ERROR_NONE};
    char buf[96];
    const char *obstacle = find_obstacle(checker, write, buf, sizeof buf);
    if (obstacle) {
        checker->figures->untried += !write->impossible;
        findings_add(checker->findings, FINDING_SKIPPED, write->name, NULL, 0, "%s", obstacle);
        return 0;
    }
    int64_t start = clock_now();
    int rc = make_write(checker, write, &err);
    uint64_t ns = (uint64_t)(clock_now() - start);
    if (rc < 0)
        hint_packet_size(checker, write, &err);
    if (rc <= 0) {
        fail(checker, write->name, ns, &err);
        return rc;
    }
    if (write->bytes > checker->arrived)
        checker->arrived = write->bytes;
    findings_add(checker->findings, FINDING_OK, write->name, NULL, ns,
                 "arrived as sent, and nothing else; bytes: %" PRIu64, write->bytes);
    return 0;
}

/* A path is not sound for that nothing could be tried. Always -1. */
static int fail_untried(struct checker *checker)
{
    static const struct write least = {.bytes = 1, .entries = 1};
    struct error err = {.class = ERROR_NONE};
    char buf[96];
    bool there = remote_bytes(&least) > checker->remote.scratch.size;
    error_set(&err, there ? ERROR_TEMPORARY : ERROR_RESOURCE, STAGE_REGISTER,
              checker->endpoint.peer, "not a byte could be written: %s",
              find_obstacle(checker, &least, buf, sizeof buf));
    error_hint(&err, "%s",
               there ? "try again when other sessions of the server have ended, or give it more "
                       "memory: its --max-memory, and 'ulimit -l' there"
                     : memory_limit_hint());
    return fail(checker, layer_names[LAYER_WRITES], 0, &err);
}

/* -1 when one failed, or none could be tried but those of no bytes. */
static int try_writes(struct checker *checker)
{
    struct table table;
    make_table(checker, &table);
    for (unsigned i = 0; i < table.count; i++) {
        if (try_write(checker, &table.writes[i]) == 0)
            continue;
        while (++i < table.count)
            skip(checker, table.writes[i].name);
        return -1;
    }
    if (error_is_set(&checker->failure))
        return -1;
    return checker->arrived > 0 ? 0 : fail_untried(checker);
}

/* ---- latency ------------------------------------------------------------------------------- */

static int send_echo(struct checker *checker, struct error *err)
{
    struct wire_message message = {.type = WIRE_ECHO, .echo = {.number = ++checker->echo}};
    return session_send(&checker->session, &message, err);
}

/* The answer to the one that was sent when so many were behind it. */
static int await_echo(struct checker *checker, unsigned behind, struct error *err)
{
    struct wire_message message;
    if (await_kind(checker, WIRE_ECHOED, &message, err) < 0)
        return -1;
    if (message.echo.number == checker->echo - behind)
        return 0;
    return error_set(err, ERROR_PROTOCOL, STAGE_TRANSFER, checker->endpoint.peer,
                     "the peer broke the protocol: the echo of another number");
}

static int sample(struct checker *checker, uint64_t *ns, struct error *err)
{
    bool is_inline = checker->endpoint.max_inline >= LATENCY_BYTES;
    struct ibv_sge entry = {.addr = (uint64_t)(uintptr_t)checker->memory.addr,
                            .length = LATENCY_BYTES,
                            .lkey = checker->memory.mr->lkey};
    int64_t start = clock_now();
    if (session_write(&checker->session, &entry, 1, is_inline ? IBV_SEND_INLINE : 0,
                      checker->remote.scratch.remote_addr, checker->remote.scratch.rkey, err) < 0 ||
        send_echo(checker, err) < 0 || await_echo(checker, 0, err) < 0)
        return -1;
    *ns = (uint64_t)(clock_now() - start);
    return 0;
}

static uint64_t duration(const struct checker_job *job)
{
    uint64_t ns = job->duration_ns ? job->duration_ns : (uint64_t)CHECKER_DURATION_NS;
    return job->quick && ns > (uint64_t)CHECKER_QUICK_NS ? (uint64_t)CHECKER_QUICK_NS : ns;
}

/* At least one. */
static int take_samples(struct checker *checker, struct samples *samples, struct error *err)
{
    int64_t until = clock_after(duration(checker->job));
    uint64_t ns;
    for (unsigned i = 0; i < WARM_UP && clock_now() < until; i++)
        if (sample(checker, &ns, err) < 0)
            return -1;
    do {
        if (sample(checker, &ns, err) < 0)
            return -1;
        samples_add(samples, ns);
    } while (clock_now() < until);
    return 0;
}

static void note_latency(struct checker *checker, struct samples *samples, uint64_t ns)
{
    struct checker_figures *figures = checker->figures;
    char median[UNITS_TEXT], most[UNITS_TEXT], worst[UNITS_TEXT];
    samples_sort(samples);
    figures->latency_measured = true;
    figures->samples = samples->count;
    figures->latency_median_ns = samples_percentile(samples, 500);
    figures->latency_99_ns = samples_percentile(samples, 990);
    figures->latency_999_ns = samples_percentile(samples, 999);
    findings_add(checker->findings, FINDING_OK, layer_names[LAYER_LATENCY], NULL, ns,
                 "median %s, 99 %% within %s, 99.9 %% within %s, of %" PRIu64 " round trips",
                 units_format_time(figures->latency_median_ns, median),
                 units_format_time(figures->latency_99_ns, most),
                 units_format_time(figures->latency_999_ns, worst), samples->count);
}

static int measure_latency(struct checker *checker)
{
    struct error err = {.class = ERROR_NONE};
    int64_t start = clock_now();
    struct samples samples = {.items = malloc(MOST_SAMPLES * sizeof *samples.items),
                              .room = MOST_SAMPLES};
    int rc = samples.items ? take_samples(checker, &samples, &err)
                           : error_set_errno(&err, ERROR_RESOURCE, STAGE_TRANSFER, NULL, ENOMEM,
                                             "cannot keep the samples");
    uint64_t ns = (uint64_t)(clock_now() - start);
    if (rc < 0)
        fail(checker, layer_names[LAYER_LATENCY], ns, &err);
    else
        note_latency(checker, &samples, ns);
    free(samples.items);
    return rc;
}

/* ---- bandwidth ----------------------------------------------------------------------------- */

/* How many ECHOs, each behind a write, may be under way: as many as there may be, but of a slow link
 * less, so that what is under way does not keep the answers waiting. */
static unsigned depth(uint64_t bytes, uint64_t answered, int64_t took)
{
    double fitting = took > 0 ? (double)answered / (double)took * UNDER_WAY_NS / (double)bytes : 0;
    return fitting >= WIRE_MAX_ECHOES ? WIRE_MAX_ECHOES : fitting < 1 ? 1 : (unsigned)fitting;
}

/* Writes the same until the time has passed, and until all is answered. */
static int write_for_a_while(struct checker *checker, const struct write *write, struct error *err)
{
    int64_t start = clock_now(), until = clock_after(duration(checker->job)), now = start;
    uint64_t answered = 0;
    unsigned under_way = 0;
    struct ibv_sge entry, again;
    fill(checker, write, &entry);
    do {
        while (under_way < depth(write->bytes, answered, now - start) && now < until) {
            again = entry;
            if (post(checker, &again, 1, 0, checker->remote.scratch.remote_addr + BASE, err) < 0 ||
                send_echo(checker, err) < 0)
                return -1;
            under_way++;
        }
        if (await_echo(checker, --under_way, err) < 0)
            return -1;
        answered += write->bytes;
        now = clock_now();
    } while (under_way > 0 || now < until);
    checker->figures->bytes = answered;
    checker->figures->bytes_per_second = (uint64_t)((double)answered * CLOCK_NS_PER_S /
                                                    (double)(now - start));
    return 0;
}

/* 1 MiB, or what there is memory for at both ends. */
static struct write bandwidth_write(const struct checker *checker)
{
    uint64_t here = checker->memory.bytes, there = checker->remote.scratch.size;
    uint64_t least = here < there ? here : there;
    uint64_t most = least > BASE + GUARD ? least - BASE - GUARD : 0;
    return (struct write){.bytes = most < LARGEST ? most : LARGEST, .entries = 1};
}

static void note_bandwidth(struct checker *checker, const struct write *write, uint64_t ns)
{
    struct checker_figures *figures = checker->figures;
    char bytes[UNITS_TEXT], each[UNITS_TEXT];
    figures->bandwidth_measured = true;
    findings_add(checker->findings, FINDING_OK, layer_names[LAYER_BANDWIDTH], NULL, ns,
                 "%.3g Gb/s: %s by writes of %s", (double)figures->bytes_per_second * 8 / 1e9,
                 units_format_size(figures->bytes, bytes), units_format_size(write->bytes, each));
}

static void measure_bandwidth(struct checker *checker)
{
    struct error err = {.class = ERROR_NONE};
    struct write write = bandwidth_write(checker);
    int64_t start = clock_now();
    if (write.bytes == 0) {
        findings_add(checker->findings, FINDING_SKIPPED, layer_names[LAYER_BANDWIDTH], NULL, 0,
                     "there is not the memory for it");
        return;
    }
    next_seed(checker);
    int rc = write_for_a_while(checker, &write, &err) == 0
                 ? verify(checker, BASE, write.bytes, &err)
                 : -1;
    uint64_t ns = (uint64_t)(clock_now() - start);
    if (rc <= 0)
        fail(checker, layer_names[LAYER_BANDWIDTH], ns, &err);
    else
        note_bandwidth(checker, &write, ns);
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void run(struct checker *checker)
{
    enum layer failed;
    if (connect_server(checker, &failed) < 0)
        skip_behind(checker, failed);
    else if (try_exchange(checker) < 0)
        skip_behind(checker, LAYER_EXCHANGE);
    else if (try_writes(checker) < 0)
        skip_behind(checker, LAYER_WRITES);
    else if (measure_latency(checker) < 0)
        skip_behind(checker, LAYER_LATENCY);
    else
        measure_bandwidth(checker);
}

/* All is known by now: whether the server hears of it does not matter. */
static void take_leave(struct checker *checker)
{
    static const struct wire_message close = {.type = WIRE_CLOSE};
    struct error ignored = {.class = ERROR_NONE};
    if (error_is_set(&checker->broken))
        session_give_up(&checker->session, &checker->broken);
    else if (session_send(&checker->session, &close, &ignored) == 0)
        session_flush(&checker->session);
}

static void clean_up(struct checker *checker)
{
    if (checker->connected) {
        facts_took(&checker->endpoint.facts, FACTS_TRANSFER, checker->connected_at);
        take_leave(checker);
        checker->figures->facts = checker->endpoint.facts;
    }
    session_close(&checker->session);
    memory_free(&checker->memory);
    endpoint_close(&checker->endpoint);
}

int checker_run(const struct checker_job *job, struct findings *findings,
                struct checker_figures *figures, struct error *err)
{
    struct checker checker = {
        .job = job, .findings = findings, .figures = figures, .target = job->target};
    *figures = (struct checker_figures){.samples = 0};
    checker.target.facts = &figures->facts;
    run(&checker);
    clean_up(&checker);
    if (!error_is_set(&checker.failure))
        return 0;
    *err = checker.failure;
    return -1;
}

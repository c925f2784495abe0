/*
 * test-exchange.c - the exchange over TCP, on loopback: the server's end pumped by the test, the
 * client's on a thread; and each of them with a peer that does not keep to the protocol.
 */
#include "config.h"

#include "exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "exchange-client.h"
#include "exchange-stream.h"
#include "log.h"
#include "signals.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define LONG_NS (20 * CLOCK_NS_PER_S) /* a test that waits so long has failed */
#define SHORT_NS (200 * CLOCK_NS_PER_MS)
#define ADDRESSES "192.0.2.1:7475\n[2001:db8::1]:7476"

static const uint8_t zero_token[WIRE_TOKEN_BYTES];

/*
 * The server's end
 */

struct bench {
    struct exchange exchange;
    struct exchange_job job;
    struct admission admission;
    struct network network;
    struct error err;
};

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        return -1;
    log_set_level(LOG_QUIET);
    bench->admission.anybody = true;
    bench->job = (struct exchange_job){
        .addresses = ADDRESSES, .admission = &bench->admission, .timeout = LONG_NS};
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;

    exchange_close(&bench->exchange);
    free(bench);
    return 0;
}

static void open_exchange(struct bench *bench)
{
    assert_int_equal(exchange_open(&bench->exchange, &bench->job, &bench->err), 0);
    assert_int_not_equal(bench->exchange.port, 0);
}

static void allow_only(struct bench *bench, const char *network)
{
    assert_true(network_parse(network, &bench->network));
    bench->admission = (struct admission){
        .networks = &bench->network, .count = 1, .anybody = false};
}

/* Turns the server's loop once, for at most until. With stop, that it becomes readable ends it. */
static bool pump_once(struct bench *bench, int stop, int64_t until)
{
    struct pollfd fds[1 + EXCHANGE_FDS] = {{.fd = stop, .events = POLLIN}};
    int64_t moment = exchange_deadline(&bench->exchange);
    unsigned count = 1 + exchange_poll_fds(&bench->exchange, fds + 1, EXCHANGE_FDS);

    poll(fds, count, clock_poll_ms(moment < until ? moment : until));
    exchange_work(&bench->exchange);
    return fds[0].revents != 0;
}

/* Until fd is readable, or has ended. */
static void pump_until_readable(struct bench *bench, int fd)
{
    int64_t until = clock_after(LONG_NS);

    while (!pump_once(bench, fd, until))
        assert_true(clock_now() < until);
}

static void pump_for(struct bench *bench, int64_t ns)
{
    int64_t until = clock_after((uint64_t)ns);

    while (clock_now() < until)
        pump_once(bench, -1, until);
}

static void pump_until_count(struct bench *bench, unsigned count)
{
    int64_t until = clock_after(LONG_NS);

    while (bench->exchange.count != count) {
        assert_true(clock_now() < until);
        pump_once(bench, -1, clock_after(10 * CLOCK_NS_PER_MS));
    }
}

/*
 * Clients that the test plays itself
 */

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A connected client; from a source address, unless that is NULL. */
static int dial_from(const struct bench *bench, const char *source)
{
    struct sockaddr_in dest = loopback(bench->exchange.port), src = loopback(0);
    struct timeval limit = {.tv_sec = LONG_NS / CLOCK_NS_PER_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    if (source) {
        assert_int_equal(inet_pton(AF_INET, source, &src.sin_addr), 1);
        assert_int_equal(bind(fd, (struct sockaddr *)&src, sizeof(src)), 0);
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&dest, sizeof(dest)), 0);
    return fd;
}

static int dial(const struct bench *bench)
{
    return dial_from(bench, NULL);
}

static void say(int fd, const void *data, size_t len)
{
    assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
}

static size_t encode_hello(uint8_t role, uint8_t buf[WIRE_HELLO_BYTES])
{
    const struct wire_hello hello = {.version = WIRE_VERSION, .role = role};

    return wire_encode_hello(&hello, buf);
}

static void say_hello(int fd)
{
    uint8_t hello[WIRE_HELLO_BYTES];

    say(fd, hello, encode_hello(WIRE_ROLE_WRITE, hello));
}

static void hear(int fd, void *data, size_t len)
{
    assert_int_equal(recv(fd, data, len, MSG_WAITALL), len);
}

/* The server has ended the connection, and says nothing more. */
static void assert_ended(struct bench *bench, int fd)
{
    uint8_t byte;

    pump_until_readable(bench, fd);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void assert_not_ended(int fd)
{
    uint8_t byte;

    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Takes WELCOME and MEET from the bytes, strictly as the protocol has them. */
static void hear_meet(struct bench *bench, int fd, uint8_t token[WIRE_TOKEN_BYTES])
{
    uint8_t data[WIRE_MESSAGE_BYTES];
    struct wire_welcome welcome;
    struct wire_message message;
    const char *problem;
    size_t len;

    pump_until_readable(bench, fd);
    hear(fd, data, WIRE_WELCOME_BYTES);
    assert_int_equal(wire_decode_welcome(data, WIRE_WELCOME_BYTES, &welcome), WIRE_OK);
    hear(fd, data, WIRE_HEADER_BYTES);
    len = wire_message_length(data);
    hear(fd, data + WIRE_HEADER_BYTES, len - WIRE_HEADER_BYTES);
    assert_int_equal(wire_decode(data, len, &message, &problem), WIRE_OK);
    assert_int_equal(message.type, WIRE_MEET);
    assert_string_equal(message.meet.text, bench->exchange.addresses);
    memcpy(token, message.meet.token, WIRE_TOKEN_BYTES);
}

static void hear_refusal(struct bench *bench, int fd, struct wire_refusal *refusal)
{
    uint8_t data[WIRE_REFUSAL_MAX_BYTES + 1];
    ssize_t len = 0, n;

    pump_until_readable(bench, fd);
    while ((n = recv(fd, data + len, sizeof(data) - (size_t)len, 0)) > 0)
        len += n;
    assert_true(len > 0);
    assert_int_equal(wire_decode_refusal(data, (size_t)len, refusal), WIRE_OK);
}

static int claim(struct bench *bench, const uint8_t token[WIRE_TOKEN_BYTES])
{
    return exchange_claim(&bench->exchange, token);
}

/*
 * Clients that run exchange_meet, on a thread
 */

struct visit {
    struct client_target target;
    uint16_t port;
    struct exchange_meeting meeting;
    struct error err;
    int rc;
    int done_fd;
};

static void *visit_main(void *argument)
{
    struct visit *visit = argument;

    visit->rc = exchange_meet(&visit->target, visit->port, false, &visit->meeting, &visit->err);
    eventfd_write(visit->done_fd, 1);
    return NULL;
}

static void meet_at(struct bench *bench, const char *host, uint64_t wait, struct visit *visit)
{
    pthread_t thread;

    *visit = (struct visit){.target = {.host = host, .port = 1, .timeout = LONG_NS, .wait = wait},
                            .port = bench->exchange.port,
                            .done_fd = eventfd(0, EFD_CLOEXEC)};
    assert_true(visit->done_fd >= 0);
    assert_int_equal(pthread_create(&thread, NULL, visit_main, visit), 0);
    pump_until_readable(bench, visit->done_fd);
    pthread_join(thread, NULL);
    close(visit->done_fd);
}

static void meet(struct bench *bench, struct visit *visit)
{
    meet_at(bench, "127.0.0.1", 0, visit);
}

static void assert_met(const struct visit *visit)
{
    assert_string_equal(visit->err.text, "");
    assert_int_equal(visit->rc, 0);
    assert_true(visit->meeting.fd >= 0);
}

static void assert_failed(const struct visit *visit, enum error_class class)
{
    assert_int_equal(visit->rc, -1);
    assert_int_equal(visit->err.class, class);
    assert_int_equal(visit->meeting.fd, -1);
}

static struct exchange_stream stream_on(int fd)
{
    return (struct exchange_stream){
        .fd = fd, .stop_fd = -1, .deadline = clock_after(LONG_NS), .peer = "peer"};
}

static void make_ready(struct wire_message *message)
{
    *message = (struct wire_message){.type = WIRE_READY,
                                     .ready = {.slot_count = 4,
                                               .object_limit = 1,
                                               .slot_size = 0x10000,
                                               .remote_addr = 0x7f0102030405060,
                                               .rkey = 0xdeadbeef}};
}

/*
 * Meetings
 */

static void a_meeting_tells_a_token_and_the_addresses(void **state)
{
    struct bench *bench = *state;
    struct visit visit;

    open_exchange(bench);
    meet(bench, &visit);
    assert_met(&visit);
    assert_int_equal(visit.meeting.places.count, 2);
    assert_string_equal(visit.meeting.places.addresses[0].host, "192.0.2.1");
    assert_int_equal(visit.meeting.places.addresses[0].port, 7475);
    assert_string_equal(visit.meeting.places.addresses[1].host, "2001:db8::1");
    assert_int_equal(visit.meeting.places.addresses[1].port, 7476);
    assert_memory_not_equal(visit.meeting.token, zero_token, WIRE_TOKEN_BYTES);
    exchange_leave(&visit.meeting);
    exchange_leave(&visit.meeting);
}

static void ready_comes_byte_for_byte(void **state)
{
    struct bench *bench = *state;
    struct wire_message ready, message;
    uint8_t expected[WIRE_MESSAGE_BYTES], bytes[WIRE_MESSAGE_BYTES];
    struct exchange_stream stream, there;
    struct visit visit;
    size_t len;
    int fd;

    open_exchange(bench);
    meet(bench, &visit);
    assert_met(&visit);
    fd = claim(bench, visit.meeting.token);
    assert_true(fd >= 0);
    stream = stream_on(fd);
    there = stream_on(visit.meeting.fd);
    make_ready(&ready);
    len = wire_encode(&ready, expected);

    assert_int_equal(exchange_send(&stream, &ready, &bench->err), 0);
    assert_int_equal(exchange_read(&there, bytes, len, &bench->err), 0);
    assert_memory_equal(bytes, expected, len);
    assert_not_ended(visit.meeting.fd);

    assert_int_equal(exchange_send(&stream, &ready, &bench->err), 0);
    assert_int_equal(exchange_receive(&there, &message, &bench->err), 0);
    assert_int_equal(wire_encode(&message, bytes), len);
    assert_memory_equal(bytes, expected, len);
    close(fd);
    exchange_leave(&visit.meeting);
}

static void each_token_claims_its_own_connection(void **state)
{
    struct bench *bench = *state;
    struct visit visits[3];

    open_exchange(bench);
    for (size_t i = 0; i < COUNT_OF(visits); i++) {
        meet(bench, &visits[i]);
        assert_met(&visits[i]);
    }
    for (size_t i = COUNT_OF(visits); i-- > 0;) {
        int fd = claim(bench, visits[i].meeting.token);
        struct exchange_stream there = stream_on(visits[i].meeting.fd);
        char byte;

        assert_true(fd >= 0);
        say(fd, "!", 1);
        assert_int_equal(exchange_read(&there, &byte, 1, &bench->err), 0);
        close(fd);
        exchange_leave(&visits[i].meeting);
    }
}

static void a_token_is_good_once_and_a_wrong_one_never(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    int client, fd;

    open_exchange(bench);
    client = dial(bench);
    pump_until_count(bench, 1);
    assert_int_equal(claim(bench, zero_token), -1);
    say_hello(client);
    hear_meet(bench, client, token);
    assert_int_equal(claim(bench, zero_token), -1);
    for (unsigned bit = 0; bit < 8 * WIRE_TOKEN_BYTES; bit++) {
        token[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(claim(bench, token), -1);
        token[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    fd = claim(bench, token);
    assert_true(fd >= 0);
    assert_int_equal(claim(bench, token), -1);
    assert_int_equal(bench->exchange.count, 0);
    assert_not_ended(client);
    close(fd);
    close(client);
}

static void a_token_is_no_good_once_its_connection_was_misused_or_closed(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    int fd;

    open_exchange(bench);
    for (int closes = 0; closes < 2; closes++) {
        fd = dial(bench);
        say_hello(fd);
        hear_meet(bench, fd, token);
        if (closes)
            shutdown(fd, SHUT_WR);
        else
            say(fd, "x", 1);
        /* Though nobody has looked at it since. */
        assert_int_equal(claim(bench, token), -1);
        assert_int_equal(bench->exchange.count, 0);
        close(fd);
    }
}

static void a_claimed_connection_outlives_the_exchange(void **state)
{
    struct bench *bench = *state;
    uint8_t tokens[2][WIRE_TOKEN_BYTES];
    int clients[2], fd;

    open_exchange(bench);
    for (int i = 0; i < 2; i++) {
        clients[i] = dial(bench);
        say_hello(clients[i]);
        hear_meet(bench, clients[i], tokens[i]);
    }
    fd = claim(bench, tokens[0]);
    exchange_close(&bench->exchange);
    assert_not_ended(clients[0]);
    assert_ended(bench, clients[1]);
    assert_int_equal(claim(bench, tokens[1]), -1);
    close(fd);
    close(clients[0]);
    close(clients[1]);
}

static void a_client_of_ipv6_and_one_by_name_are_met(void **state)
{
    struct bench *bench = *state;
    struct visit visit;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool ipv6 = fd >= 0 && bind(fd, (struct sockaddr *)&here, sizeof(here)) == 0;

    if (fd >= 0)
        close(fd);
    open_exchange(bench);
    meet_at(bench, "localhost", 0, &visit);
    assert_met(&visit);
    exchange_leave(&visit.meeting);
    if (!ipv6)
        skip(); /* this host has no IPv6 */
    meet_at(bench, "::1", 0, &visit);
    assert_met(&visit);
    exchange_leave(&visit.meeting);
}

/*
 * The server, and clients that do not keep to the protocol
 */

static void a_client_that_is_not_allowed_is_told(void **state)
{
    struct bench *bench = *state;
    struct visit visit;

    allow_only(bench, "192.0.2.0/24");
    open_exchange(bench);
    meet(bench, &visit);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_string_equal(visit.err.text, "the server refused: address not allowed");
    assert_string_equal(visit.err.hint, "ask for 'rdmaput serve --allow 127.0.0.1' there");
}

/* A reset for what was not read would otherwise take back what was said. */
static void a_refusal_survives_a_late_hello(void **state)
{
    struct bench *bench = *state;
    struct wire_refusal refusal;
    int fd;

    allow_only(bench, "192.0.2.0/24");
    open_exchange(bench);
    fd = dial(bench);
    pump_until_readable(bench, fd);
    say_hello(fd);
    pump_for(bench, 50 * CLOCK_NS_PER_MS);
    hear_refusal(bench, fd, &refusal);
    assert_int_equal(refusal.status, 69);
    assert_int_equal(bench->exchange.count, 1);
    close(fd);
    pump_until_count(bench, 0);
}

static void a_refused_client_that_stays_is_ended(void **state)
{
    struct bench *bench = *state;
    int64_t start = clock_now();
    int fd;

    allow_only(bench, "192.0.2.0/24");
    open_exchange(bench);
    fd = dial(bench);
    pump_until_count(bench, 1);
    pump_until_count(bench, 0);
    assert_true(clock_now() - start < 5 * CLOCK_NS_PER_S);
    close(fd);
}

static void what_is_no_hello_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        uint8_t status;
    } cases[] = {
        {"GET / HTTP/1.0\r\n\r\n", 18, 76},
        {"hey\n", 4, 76},
        {"RPUT\2", 5, 76}, /* another version, with a HELLO of its own */
        {"RPUT\1\1\0\50\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 76},
        {"RPUT\1\2\0\50\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 76},
        {"RPUT\1\1\0\50\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 69},
        {"RPUT\1\1\0\50\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 69},
        {"RPUT\1\2\0\50\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 69},
        {"RPUT\1\3\0\50\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 69},
        {"RPUT\1\0\0\50\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 40, 76},
    };
    struct bench *bench = *state;

    open_exchange(bench);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct wire_refusal refusal;
        int fd = dial(bench);

        say(fd, cases[i].bytes, cases[i].len);
        hear_refusal(bench, fd, &refusal);
        assert_int_equal(refusal.status, cases[i].status);
        close(fd);
        pump_until_count(bench, 0);
    }
}

static void a_hello_may_come_in_pieces(void **state)
{
    struct bench *bench = *state;
    uint8_t hello[WIRE_HELLO_BYTES], token[WIRE_TOKEN_BYTES];
    int fd;

    open_exchange(bench);
    fd = dial(bench);
    encode_hello(WIRE_ROLE_WRITE, hello);
    for (size_t i = 0; i < sizeof(hello); i++) {
        assert_not_ended(fd);
        say(fd, hello + i, 1);
        pump_for(bench, CLOCK_NS_PER_MS);
    }
    hear_meet(bench, fd, token);
    close(fd);
}

static void a_client_that_closes_is_forgotten(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    int silent, waiting;

    open_exchange(bench);
    silent = dial(bench);
    pump_until_count(bench, 1);
    waiting = dial(bench);
    say_hello(waiting);
    hear_meet(bench, waiting, token);
    close(silent);
    pump_until_count(bench, 1);
    close(waiting);
    pump_until_count(bench, 0);
    assert_int_equal(claim(bench, token), -1);
}

static void a_client_that_talks_while_it_is_to_wait_is_ended(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    int fd;

    open_exchange(bench);
    fd = dial(bench);
    say_hello(fd);
    hear_meet(bench, fd, token);
    say(fd, "x", 1);
    assert_ended(bench, fd);
    assert_int_equal(claim(bench, token), -1);
    close(fd);
}

/* It must not be early either. */
static int64_t assert_due_in_time(const struct bench *bench, int64_t start)
{
    int64_t deadline = exchange_deadline(&bench->exchange);

    assert_in_range(deadline - start, SHORT_NS, SHORT_NS + CLOCK_NS_PER_S);
    return deadline;
}

static void assert_nobody_left(const struct bench *bench)
{
    assert_int_equal(bench->exchange.count, 0);
    assert_true(exchange_deadline(&bench->exchange) == CLOCK_NEVER);
}

static void a_silent_client_is_refused_at_its_deadline(void **state)
{
    struct bench *bench = *state;
    struct wire_refusal refusal;
    int64_t start = clock_now(), deadline;
    int fd;

    bench->job.timeout = SHORT_NS;
    open_exchange(bench);
    assert_true(exchange_deadline(&bench->exchange) == CLOCK_NEVER);
    fd = dial(bench);
    say(fd, "RPUT", 4);
    pump_until_count(bench, 1);
    deadline = assert_due_in_time(bench, start);
    hear_refusal(bench, fd, &refusal);
    assert_true(clock_now() >= deadline);
    assert_int_equal(refusal.status, 75);
    assert_string_equal(refusal.text, "timed out: no whole greeting has come");
    close(fd);
    pump_until_count(bench, 0);
    assert_nobody_left(bench);
}

static void a_client_that_never_comes_by_rdma_is_ended_at_its_deadline(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    int64_t start, deadline;
    int fd;

    bench->job.timeout = SHORT_NS;
    open_exchange(bench);
    fd = dial(bench);
    pump_for(bench, SHORT_NS / 4);
    start = clock_now();
    say_hello(fd);
    hear_meet(bench, fd, token);
    deadline = assert_due_in_time(bench, start);
    assert_ended(bench, fd);
    assert_true(clock_now() >= deadline);
    assert_nobody_left(bench);
    assert_int_equal(claim(bench, token), -1);
    close(fd);
}

/* The first ones are of one host, as many as it may have. */
static int dial_as_nth(const struct bench *bench, unsigned nth)
{
    return dial_from(bench, nth < EXCHANGE_OF_HOST ? "127.0.0.8" : "127.0.0.9");
}

/* It had to make room. */
static void assert_told_busy(struct bench *bench, int fd)
{
    struct wire_refusal refusal;

    hear_refusal(bench, fd, &refusal);
    assert_int_equal(refusal.status, 75);
    assert_string_equal(refusal.text, "busy with other exchanges\ntry again later");
}

static void silent_clients_keep_nobody_out(void **state)
{
    struct bench *bench = *state;
    int silent[EXCHANGE_GUESTS], fd;
    struct visit visit;

    open_exchange(bench);
    for (unsigned i = 0; i < COUNT_OF(silent); i++) {
        silent[i] = dial_as_nth(bench, i);
        pump_until_count(bench, i + 1);
    }
    meet(bench, &visit);
    assert_met(&visit);
    assert_told_busy(bench, silent[0]);
    for (unsigned i = 1; i < COUNT_OF(silent); i++)
        assert_not_ended(silent[i]);
    fd = claim(bench, visit.meeting.token);
    assert_true(fd >= 0);
    close(fd);
    exchange_leave(&visit.meeting);
    for (unsigned i = 0; i < COUNT_OF(silent); i++)
        close(silent[i]);
}

static void waiting_clients_are_not_driven_out(void **state)
{
    struct bench *bench = *state;
    uint8_t tokens[EXCHANGE_GUESTS][WIRE_TOKEN_BYTES];
    int clients[EXCHANGE_GUESTS], fd;
    struct visit visit;

    open_exchange(bench);
    for (unsigned i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = dial_as_nth(bench, i);
        say_hello(clients[i]);
        hear_meet(bench, clients[i], tokens[i]);
    }
    meet(bench, &visit);
    assert_failed(&visit, ERROR_TEMPORARY);
    assert_string_equal(visit.err.text, "the server refused: busy with other exchanges");
    for (unsigned i = 0; i < COUNT_OF(clients); i++) {
        assert_not_ended(clients[i]);
        fd = claim(bench, tokens[i]);
        assert_true(fd >= 0);
        close(fd);
        close(clients[i]);
    }
}

static void one_host_does_not_keep_others_out(void **state)
{
    struct bench *bench = *state;
    uint8_t token[WIRE_TOKEN_BYTES];
    struct wire_refusal refusal;
    int clients[EXCHANGE_OF_HOST], fd;
    struct visit others[EXCHANGE_GUESTS - EXCHANGE_OF_HOST];

    open_exchange(bench);
    for (unsigned i = 0; i < COUNT_OF(clients); i++) {
        clients[i] = dial_from(bench, "127.0.0.8");
        say_hello(clients[i]);
        hear_meet(bench, clients[i], token);
    }
    fd = dial_from(bench, "127.0.0.8");
    hear_refusal(bench, fd, &refusal);
    assert_int_equal(refusal.status, 75);
    close(fd);
    for (unsigned i = 0; i < COUNT_OF(others); i++) {
        meet(bench, &others[i]);
        assert_met(&others[i]);
    }
    for (unsigned i = 0; i < COUNT_OF(others); i++)
        exchange_leave(&others[i].meeting);
    for (unsigned i = 0; i < COUNT_OF(clients); i++) {
        assert_not_ended(clients[i]);
        close(clients[i]);
    }
}

/* Its newer ones take the place of its own. */
static void silent_clients_of_one_host_drive_out_no_others(void **state)
{
    struct bench *bench = *state;
    int silent[EXCHANGE_GUESTS], other;

    open_exchange(bench);
    other = dial(bench);
    pump_until_count(bench, 1);
    for (unsigned i = 0; i < COUNT_OF(silent); i++) {
        silent[i] = dial_from(bench, "127.0.0.8");
        if (i < EXCHANGE_OF_HOST)
            pump_until_count(bench, i + 2);
        else
            assert_told_busy(bench, silent[i - EXCHANGE_OF_HOST]);
        assert_not_ended(other);
    }
    assert_int_equal(bench->exchange.count, 1 + EXCHANGE_OF_HOST);
    for (unsigned i = 0; i < COUNT_OF(silent); i++)
        close(silent[i]);
    close(other);
}

/* Clients that are slow to say HELLO, in front of others. */
static void dial_slowly(struct bench *bench, int *slow, unsigned count)
{
    allow_only(bench, "127.0.0.8/31");
    open_exchange(bench);
    for (unsigned i = 0; i < count; i++) {
        slow[i] = dial_as_nth(bench, i);
        pump_until_count(bench, i + 1);
    }
}

static void assert_can_meet(struct bench *bench, const int *slow, unsigned count)
{
    uint8_t token[WIRE_TOKEN_BYTES];

    for (unsigned i = 0; i < count; i++) {
        say_hello(slow[i]);
        hear_meet(bench, slow[i], token);
        close(slow[i]);
    }
}

static void clients_that_are_not_allowed_drive_nobody_out(void **state)
{
    struct bench *bench = *state;
    int slow[EXCHANGE_GUESTS];

    dial_slowly(bench, slow, EXCHANGE_GUESTS);
    for (unsigned i = 0; i < 3; i++) {
        struct wire_refusal refusal;
        int fd = dial_from(bench, "127.0.0.2");

        hear_refusal(bench, fd, &refusal);
        assert_int_equal(refusal.status, 69);
        close(fd);
    }
    assert_can_meet(bench, slow, EXCHANGE_GUESTS);
}

static void nobody_goes_for_a_client_that_has_gone(void **state)
{
    struct bench *bench = *state;
    int slow[EXCHANGE_OF_HOST], goes;

    dial_slowly(bench, slow, EXCHANGE_OF_HOST - 1);
    /* Both are taken in one turn of the loop. */
    goes = dial_as_nth(bench, 0);
    say_hello(goes);
    close(goes);
    slow[EXCHANGE_OF_HOST - 1] = dial_as_nth(bench, 0);
    pump_for(bench, 20 * CLOCK_NS_PER_MS);
    assert_can_meet(bench, slow, EXCHANGE_OF_HOST);
}

static void clients_that_were_refused_go_first(void **state)
{
    struct bench *bench = *state;
    int slow[EXCHANGE_GUESTS], refused;

    dial_slowly(bench, slow, EXCHANGE_GUESTS - 1);
    refused = dial_from(bench, "127.0.0.2");
    pump_until_count(bench, EXCHANGE_GUESTS);
    slow[EXCHANGE_GUESTS - 1] = dial_as_nth(bench, EXCHANGE_GUESTS - 1);
    pump_for(bench, 20 * CLOCK_NS_PER_MS);
    assert_can_meet(bench, slow, EXCHANGE_GUESTS);
    close(refused);
}

static void no_more_descriptors_are_asked_for_than_there_is_room(void **state)
{
    struct bench *bench = *state;
    struct pollfd fds[EXCHANGE_FDS];
    int client;

    open_exchange(bench);
    client = dial(bench);
    pump_until_count(bench, 1);
    assert_int_equal(exchange_poll_fds(&bench->exchange, fds, EXCHANGE_FDS), 2);
    assert_int_equal(exchange_poll_fds(&bench->exchange, fds, 1), 1);
    assert_int_equal(exchange_poll_fds(&bench->exchange, fds, 0), 0);
    close(client);
}

/* A descriptor that stays readable would keep the server's loop from ever waiting. */
static void a_lack_of_descriptors_is_waited_out(void **state)
{
    struct bench *bench = *state;
    struct rlimit before, none;
    struct pollfd fds[EXCHANGE_FDS];
    uint8_t token[WIRE_TOKEN_BYTES];
    int64_t deadline;
    unsigned count;
    int early, late;

    open_exchange(bench);
    early = dial(bench);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    exchange_work(&bench->exchange);
    count = exchange_poll_fds(&bench->exchange, fds, EXCHANGE_FDS);
    deadline = exchange_deadline(&bench->exchange);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(count, 0);
    assert_true(deadline <= clock_after(CLOCK_NS_PER_S));
    late = dial(bench);
    say_hello(late);
    hear_meet(bench, late, token);
    close(early);
    close(late);
}

/*
 * Opening
 */

static void a_port_in_use_is_an_error_with_a_hint(void **state)
{
    struct bench *bench = *state;
    struct exchange second;

    open_exchange(bench);
    bench->job.port = bench->exchange.port;
    assert_int_equal(exchange_open(&second, &bench->job, &bench->err), -1);
    assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    assert_non_null(strstr(bench->err.text, strerror(EADDRINUSE)));
    assert_non_null(strstr(bench->err.hint, "--exchange-port"));
    assert_non_null(strstr(bench->err.hint, "iWARP"));
    exchange_close(&second);
}

static void a_bound_exchange_listens_there_alone(void **state)
{
    struct bench *bench = *state;
    struct sockaddr_in bind_addr = loopback(1);
    struct visit visit;

    bench->job.bind = (const struct sockaddr *)&bind_addr;
    open_exchange(bench);
    assert_int_not_equal(bench->exchange.port, 1);
    meet(bench, &visit);
    assert_met(&visit);
    exchange_leave(&visit.meeting);
    meet_at(bench, "127.0.0.2", 0, &visit);
    assert_failed(&visit, ERROR_UNAVAILABLE);
}

static void assert_keeps(struct bench *bench, const char *lines, const char *kept)
{
    bench->job.addresses = lines;
    open_exchange(bench);
    assert_string_equal(bench->exchange.addresses, kept);
    exchange_close(&bench->exchange);
}

static void addresses_are_lines_as_many_as_fit(void **state)
{
    struct bench *bench = *state;
    char lines[2 * WIRE_MAX_MEET + 1], kept[2 * WIRE_MAX_MEET + 1];

    assert_keeps(bench, "a", "a");
    assert_keeps(bench, "a\nb\n", "a\nb");
    assert_keeps(bench, "\n\na\n\nb", "a\nb");
    assert_keeps(bench, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n",
                 "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16");

    snprintf(kept, sizeof(kept), "%0*d\n%0*d", WIRE_MAX_MEET / 2, 7, WIRE_MAX_MEET / 2 - 1, 8);
    assert_int_equal(strlen(kept), WIRE_MAX_MEET);
    snprintf(lines, sizeof(lines), "%s\n9\n", kept);
    assert_keeps(bench, lines, kept);
    snprintf(kept, sizeof(kept), "%0*d", WIRE_MAX_MEET / 2, 7);
    snprintf(lines, sizeof(lines), "%s\n%0*d\n", kept, WIRE_MAX_MEET / 2, 8);
    assert_keeps(bench, lines, kept);
}

static void without_an_address_there_is_no_exchange(void **state)
{
    static const char *const nothing[] = {"", "\n\n"};
    struct bench *bench = *state;

    for (size_t i = 0; i < COUNT_OF(nothing); i++) {
        error_clear(&bench->err);
        bench->job.addresses = nothing[i];
        assert_int_equal(exchange_open(&bench->exchange, &bench->job, &bench->err), -1);
        assert_int_equal(bench->err.class, ERROR_UNAVAILABLE);
    }
}

static void nothing_is_done_for_one_that_is_not_open(void **state)
{
    struct exchange exchange = {.open = false};
    struct pollfd fds[EXCHANGE_FDS];
    int null = open("/dev/null", O_RDONLY);

    (void)state;
    assert_true(null >= 0 && dup2(null, 0) == 0); /* the descriptor that zeros would mean */
    assert_int_equal(exchange_poll_fds(&exchange, fds, EXCHANGE_FDS), 0);
    assert_true(exchange_deadline(&exchange) == CLOCK_NEVER);
    exchange_work(&exchange);
    assert_int_equal(exchange_claim(&exchange, zero_token), -1);
    exchange_close(&exchange);
    assert_true(fcntl(0, F_GETFD) >= 0);
    close(null);
}

/*
 * The client, and servers that do not keep to the protocol
 */

/* A server that says something, and then closes or says nothing more. */
struct script {
    const uint8_t *bytes;
    size_t len;
    bool closes;
    int listen_fd;
};

static int listen_somewhere(uint16_t *port)
{
    struct sockaddr_in addr = loopback(0);
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

static void *script_main(void *argument)
{
    const struct script *script = argument;
    const struct timeval limit = {.tv_sec = LONG_NS / CLOCK_NS_PER_S};
    uint8_t buf[WIRE_HELLO_BYTES];
    int fd = accept(script->listen_fd, NULL, NULL);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    recv(fd, buf, sizeof(buf), MSG_WAITALL);
    send(fd, script->bytes, script->len, MSG_NOSIGNAL);
    if (!script->closes)
        recv(fd, buf, 1, 0);
    close(fd);
    return NULL;
}

/* Visits a server that says so, for at most timeout. */
static void visit_script(struct visit *visit, const void *bytes, size_t len, bool closes,
                         uint64_t timeout)
{
    struct script script = {.bytes = bytes, .len = len, .closes = closes};
    pthread_t thread;

    *visit = (struct visit){.target = {.host = "127.0.0.1", .timeout = timeout}};
    script.listen_fd = listen_somewhere(&visit->port);
    assert_int_equal(pthread_create(&thread, NULL, script_main, &script), 0);
    visit->rc = exchange_meet(&visit->target, visit->port, false, &visit->meeting, &visit->err);
    pthread_join(thread, NULL);
    close(script.listen_fd);
}

static size_t encode_answer(const char *addresses, uint8_t buf[2 * WIRE_MESSAGE_BYTES])
{
    const struct wire_welcome welcome = {.version = WIRE_VERSION};
    struct wire_message meet = {.type = WIRE_MEET};
    size_t len = wire_encode_welcome(&welcome, buf);

    memset(meet.meet.token, 0x5a, WIRE_TOKEN_BYTES);
    strcpy(meet.meet.text, addresses);
    return len + wire_encode(&meet, buf + len);
}

static void what_is_whole_is_taken_at_once(void **state)
{
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];
    size_t len = encode_answer("192.0.2.1:1\n[fe80::1%eth0]:65535", answer);
    struct visit visit;

    (void)state;
    visit_script(&visit, answer, len, true, LONG_NS);
    assert_met(&visit);
    assert_int_equal(visit.meeting.places.count, 2);
    assert_string_equal(visit.meeting.places.addresses[1].host, "fe80::1%eth0");
    assert_memory_equal(visit.meeting.token, answer + WIRE_WELCOME_BYTES + 4, WIRE_TOKEN_BYTES);
    exchange_leave(&visit.meeting);
}

static void an_answer_that_ends_early_is_temporary(void **state)
{
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];
    size_t len = encode_answer(ADDRESSES, answer);

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        struct visit visit;

        visit_script(&visit, answer, cut, true, LONG_NS);
        assert_failed(&visit, ERROR_TEMPORARY);
        assert_string_equal(visit.err.text, "the peer closed the exchange connection");
        assert_true(strncmp(visit.err.subject, "127.0.0.1:", 10) == 0);
    }
}

static void a_server_that_falls_silent_is_left_at_the_deadline(void **state)
{
    static const size_t cuts[] = {0, 3, 4, 11, 12, 15, 16, 40};
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];

    (void)state;
    encode_answer(ADDRESSES, answer);
    for (size_t i = 0; i < COUNT_OF(cuts); i++) {
        int64_t start = clock_now();
        struct visit visit;

        visit_script(&visit, answer, cuts[i], false, SHORT_NS);
        assert_failed(&visit, ERROR_TEMPORARY);
        assert_true(strncmp(visit.err.text, "timed out", 9) == 0);
        assert_in_range(clock_now() - start, SHORT_NS, SHORT_NS + 5 * CLOCK_NS_PER_S);
    }
}

/* Also one that says less than a WELCOME has bytes, and then waits. */
static void another_program_is_told_from_ours_at_once(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"SSH-2.0-OpenSSH_9.2\r\n", 21}, {"220 ", 4},
        {"RPUS\1\0\0\14\0\0\0\0", 12},   {"RPUT\1\0\0\7", 8},
        {"RPUT\1\0\0\203", 8},           {"RPUT\1\0\377\377", 8},
        {"RPUT\1\0\0\14\0\0\0\1", 12},   {"RPUT\1\0\0\12\0\0", 10},
        {"RPUT\1\1\0\14\0\0\0\0", 12},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct visit visit;

        visit_script(&visit, cases[i].bytes, cases[i].len, false, LONG_NS);
        assert_failed(&visit, ERROR_PROTOCOL);
        assert_non_null(strstr(visit.err.text, "another program listens on that port"));
        assert_non_null(strstr(visit.err.hint, "--exchange-port"));
    }
}

static void another_version_is_named(void **state)
{
    struct visit visit;

    (void)state;
    visit_script(&visit, "RPUT\7\0\0\14\0\0\0\0", 12, false, LONG_NS);
    assert_failed(&visit, ERROR_PROTOCOL);
    assert_non_null(strstr(visit.err.text, "version 7"));
}

static void a_refusal_says_why_whether_the_server_closes_or_not(void **state)
{
    const struct wire_refusal refusal = {
        .version = WIRE_VERSION, .status = 75, .text = "busy\ntry again"};
    uint8_t bytes[WIRE_REFUSAL_MAX_BYTES];
    size_t len = wire_encode_refusal(&refusal, bytes);

    (void)state;
    for (int closes = 0; closes <= 1; closes++) {
        struct visit visit;

        visit_script(&visit, bytes, len, closes, LONG_NS);
        assert_failed(&visit, ERROR_TEMPORARY);
        assert_string_equal(visit.err.text, "the server refused: busy");
        assert_string_equal(visit.err.hint, "try again");
    }
}

/* With two bytes of text, it is as long as a WELCOME. */
static void a_short_refusal_is_no_welcome(void **state)
{
    struct visit visit;

    (void)state;
    visit_script(&visit, "RPUT\1\0\0\14\105\2no", 12, false, LONG_NS);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_string_equal(visit.err.text, "the server refused: no");
}

static void what_follows_the_welcome_is_a_meet(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {
        {"\0\0\0\0", 4},      {"\0\40\0\3", 4},  {"\0\40\10\1", 4}, /* 2049 bytes */
        {"\0\40\377\377", 4}, {"\0\40\0\5x", 5}, {"\0\10\0\4", 4},  /* PING */
        {"\0\143\0\4", 4},
    };
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];

    (void)state;
    encode_answer(ADDRESSES, answer);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct visit visit;

        memcpy(answer + WIRE_WELCOME_BYTES, cases[i].bytes, cases[i].len);
        visit_script(&visit, answer, WIRE_WELCOME_BYTES + cases[i].len, false, LONG_NS);
        assert_failed(&visit, ERROR_PROTOCOL);
    }
}

static void a_message_other_than_meet_is_named(void **state)
{
    const struct wire_message ping = {.type = WIRE_PING};
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];
    size_t len = WIRE_WELCOME_BYTES;
    struct visit visit;

    (void)state;
    encode_answer(ADDRESSES, answer);
    len += wire_encode(&ping, answer + len);
    visit_script(&visit, answer, len, false, LONG_NS);
    assert_failed(&visit, ERROR_PROTOCOL);
    assert_string_equal(visit.err.text, "received PING where MEET was due");
}

static void addresses_are_numbers_with_a_port(void **state)
{
    static const char *const wrong[] = {
        "192.0.2.1",         "192.0.2.1:0",    "192.0.2.1:65536", "192.0.2.1:7475/x",
        "host:7475",         "user@1.2.3.4:5", "::1:7475",        "[::1]",
        "1.2.3.4:5\nhost:6", " 1.2.3.4:5",     "1.2.3.4:5 ",      "\xff",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        uint8_t answer[2 * WIRE_MESSAGE_BYTES];
        size_t len = encode_answer(wrong[i], answer);
        struct visit visit;

        visit_script(&visit, answer, len, false, LONG_NS);
        assert_failed(&visit, ERROR_PROTOCOL);
        assert_non_null(strstr(visit.err.text, "an address that is none"));
        assert_null(strchr(visit.err.text, 0xff));
    }
}

static void sixteen_addresses_are_taken(void **state)
{
    char lines[WIRE_MAX_MEET + 1] = "10.0.0.1:1";
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];
    struct visit visit;

    (void)state;
    for (int i = 2; i <= WIRE_MAX_ADDRESSES; i++)
        snprintf(lines + strlen(lines), 32, "\n10.0.0.%d:%d", i, i);
    visit_script(&visit, answer, encode_answer(lines, answer), true, LONG_NS);
    assert_met(&visit);
    assert_int_equal(visit.meeting.places.count, WIRE_MAX_ADDRESSES);
    assert_string_equal(visit.meeting.places.addresses[15].host, "10.0.0.16");
    assert_int_equal(visit.meeting.places.addresses[15].port, 16);
    exchange_leave(&visit.meeting);
}

/* A socket that is bound keeps its port free of others, and refuses connections. */
static int bind_somewhere(uint16_t *port)
{
    struct sockaddr_in addr = loopback(0);
    socklen_t size = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
    *port = ntohs(addr.sin_port);
    return fd;
}

static void that_nobody_listens_is_said_with_a_hint(void **state)
{
    struct visit visit = {.target = {.host = "127.0.0.1", .timeout = LONG_NS}};
    int fd = bind_somewhere(&visit.port);

    (void)state;
    visit.rc = exchange_meet(&visit.target, visit.port, false, &visit.meeting, &visit.err);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_int_equal(visit.err.stage, STAGE_CONNECT);
    assert_string_equal(visit.err.hint,
                        "start the server with --exchange-port, or leave out --exchange=tcp");
    close(fd);
}

static void the_wait_for_a_listener_ends(void **state)
{
    struct visit visit = {
        .target = {.host = "127.0.0.1", .timeout = LONG_NS, .wait = 2 * SHORT_NS}};
    int64_t start = clock_now();
    int fd = bind_somewhere(&visit.port);

    (void)state;
    visit.rc = exchange_meet(&visit.target, visit.port, false, &visit.meeting, &visit.err);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_in_range(clock_now() - start, 2 * SHORT_NS, 2 * SHORT_NS + 5 * CLOCK_NS_PER_S);
    close(fd);
}

static void *listen_late(void *argument)
{
    struct script *script = argument;

    poll(NULL, 0, 250);
    listen(script->listen_fd, 4);
    return script_main(script);
}

static void a_server_that_starts_late_is_waited_for(void **state)
{
    uint8_t answer[2 * WIRE_MESSAGE_BYTES];
    struct visit visit = {.target = {.host = "127.0.0.1", .timeout = LONG_NS, .wait = LONG_NS}};
    struct script script = {
        .bytes = answer, .len = encode_answer(ADDRESSES, answer), .closes = true};
    pthread_t thread;

    (void)state;
    script.listen_fd = bind_somewhere(&visit.port);
    assert_int_equal(pthread_create(&thread, NULL, listen_late, &script), 0);
    visit.rc = exchange_meet(&visit.target, visit.port, false, &visit.meeting, &visit.err);
    pthread_join(thread, NULL);
    assert_met(&visit);
    exchange_leave(&visit.meeting);
    close(script.listen_fd);
}

static void a_server_that_refuses_is_not_waited_for(void **state)
{
    struct bench *bench = *state;
    int64_t start = clock_now();
    struct visit visit;

    allow_only(bench, "192.0.2.0/24");
    open_exchange(bench);
    meet_at(bench, "127.0.0.1", LONG_NS, &visit);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_true(clock_now() - start < LONG_NS / 2);
}

static void a_host_that_is_none_is_not_found(void **state)
{
    struct visit visit = {.target = {.host = "256.1.1.1.", .timeout = LONG_NS}, .port = 1};

    (void)state;
    visit.rc = exchange_meet(&visit.target, visit.port, false, &visit.meeting, &visit.err);
    assert_failed(&visit, ERROR_UNAVAILABLE);
    assert_int_equal(visit.err.stage, STAGE_RESOLVE_ADDRESS);
}

/*
 * Messages on a stream
 */

struct pair {
    int ours, theirs;
    struct exchange_stream stream;
    struct error err;
};

static void open_pair(struct pair *pair)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *pair = (struct pair){.ours = fds[0], .theirs = fds[1], .stream = stream_on(fds[0])};
}

static void close_pair(struct pair *pair)
{
    close(pair->ours);
    if (pair->theirs >= 0)
        close(pair->theirs);
}

static void hang_up(struct pair *pair)
{
    close(pair->theirs);
    pair->theirs = -1;
}

static int receive(struct pair *pair)
{
    struct wire_message message;

    return exchange_receive(&pair->stream, &message, &pair->err);
}

static void a_message_leaves_the_next_one(void **state)
{
    uint8_t bytes[2 * WIRE_MESSAGE_BYTES];
    struct wire_message ready, message;
    struct pair pair;
    size_t len;

    (void)state;
    open_pair(&pair);
    make_ready(&ready);
    len = wire_encode(&ready, bytes);
    ready.ready.rkey++;
    len += wire_encode(&ready, bytes + len);
    say(pair.theirs, bytes, len);
    assert_int_equal(exchange_receive(&pair.stream, &message, &pair.err), 0);
    assert_int_equal(message.ready.rkey, ready.ready.rkey - 1);
    assert_int_equal(exchange_receive(&pair.stream, &message, &pair.err), 0);
    assert_int_equal(message.ready.rkey, ready.ready.rkey);
    close_pair(&pair);
}

static void *say_in_pieces(void *argument)
{
    const struct pair *pair = argument;
    struct wire_message ready;
    uint8_t bytes[WIRE_MESSAGE_BYTES];
    size_t len;

    make_ready(&ready);
    len = wire_encode(&ready, bytes);
    for (size_t i = 0; i < len; i++) {
        poll(NULL, 0, 2);
        send(pair->theirs, bytes + i, 1, MSG_NOSIGNAL);
    }
    return NULL;
}

static void a_message_may_come_in_pieces(void **state)
{
    struct wire_message message;
    struct pair pair;
    pthread_t thread;

    (void)state;
    open_pair(&pair);
    assert_int_equal(pthread_create(&thread, NULL, say_in_pieces, &pair), 0);
    assert_int_equal(exchange_receive(&pair.stream, &message, &pair.err), 0);
    assert_int_equal(message.type, WIRE_READY);
    assert_int_equal(message.ready.rkey, 0xdeadbeef);
    pthread_join(thread, NULL);
    close_pair(&pair);
}

static void a_message_that_ends_early_is_temporary(void **state)
{
    struct wire_message ready;
    uint8_t bytes[WIRE_MESSAGE_BYTES];
    size_t len;

    (void)state;
    make_ready(&ready);
    len = wire_encode(&ready, bytes);
    for (size_t cut = 0; cut < len; cut++) {
        struct pair pair;

        open_pair(&pair);
        say(pair.theirs, bytes, cut);
        hang_up(&pair);
        assert_int_equal(receive(&pair), -1);
        assert_int_equal(pair.err.class, ERROR_TEMPORARY);
        assert_string_equal(pair.err.subject, "peer");
        close_pair(&pair);
    }
}

static void a_message_that_does_not_come_is_temporary(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    say(pair.theirs, "\0\2\0", 3);
    pair.stream.deadline = clock_after(SHORT_NS);
    assert_int_equal(receive(&pair), -1);
    assert_int_equal(pair.err.class, ERROR_TEMPORARY);
    assert_true(clock_now() >= pair.stream.deadline);
    close_pair(&pair);
}

static void messages_that_break_the_protocol_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } cases[] = {{"\0\2\0\0", 4}, {"\0\2\0\3", 4}, {"\0\2\10\1", 4}, {"HTTP", 4}, {"\0\2\0\5x", 5}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct pair pair;

        open_pair(&pair);
        say(pair.theirs, cases[i].bytes, cases[i].len);
        assert_int_equal(receive(&pair), -1);
        assert_int_equal(pair.err.class, ERROR_PROTOCOL);
        close_pair(&pair);
    }
}

static void the_largest_message_passes(void **state)
{
    struct wire_message message = {.type = WIRE_CHUNK, .chunk.extent_count = WIRE_MAX_EXTENTS};
    struct wire_message received;
    struct pair pair;

    (void)state;
    for (unsigned i = 0; i < WIRE_MAX_EXTENTS; i++)
        message.chunk.extents[i] = (struct wire_extent){.offset = i, .length = 1};
    open_pair(&pair);
    assert_int_equal(exchange_send(&pair.stream, &message, &pair.err), 0);
    pair.stream.fd = pair.theirs;
    assert_int_equal(exchange_receive(&pair.stream, &received, &pair.err), 0);
    assert_int_equal(received.chunk.extent_count, WIRE_MAX_EXTENTS);
    close_pair(&pair);
}

static void a_wait_ends_with_the_stop(void **state)
{
    struct pair pair;
    int stop_fd = eventfd(1, EFD_CLOEXEC);

    (void)state;
    open_pair(&pair);
    pair.stream.stop_fd = stop_fd;
    assert_int_equal(receive(&pair), -1);
    assert_int_equal(pair.err.class, ERROR_INTERRUPTED);
    close_pair(&pair);
    close(stop_fd);
}

static void fill(int fd)
{
    static const char zeros[4096];

    while (send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0)
        ;
    while (send(fd, zeros, 1, MSG_NOSIGNAL) > 0)
        ;
    assert_int_equal(errno, EAGAIN);
}

static void sending_ends_at_its_deadline_and_with_the_connection(void **state)
{
    const struct wire_message ping = {.type = WIRE_PING};
    struct pair pair;

    (void)state;
    open_pair(&pair);
    fill(pair.ours);
    pair.stream.deadline = clock_after(SHORT_NS);
    assert_int_equal(exchange_send(&pair.stream, &ping, &pair.err), -1);
    assert_int_equal(pair.err.class, ERROR_TEMPORARY);
    assert_true(clock_now() >= pair.stream.deadline);

    error_clear(&pair.err);
    hang_up(&pair);
    pair.stream.deadline = clock_after(LONG_NS);
    assert_int_equal(exchange_send(&pair.stream, &ping, &pair.err), -1);
    assert_int_equal(pair.err.class, ERROR_TEMPORARY);
    assert_string_equal(pair.err.text, "the peer closed the exchange connection");
    close_pair(&pair);
}

static void *drain_late(void *argument)
{
    const struct pair *pair = argument;
    char buf[4096];

    poll(NULL, 0, 20);
    while (recv(pair->theirs, buf, sizeof(buf), 0) > 0)
        ;
    return NULL;
}

static void sending_waits_for_room(void **state)
{
    const struct wire_message ping = {.type = WIRE_PING};
    struct pair pair;
    pthread_t thread;

    (void)state;
    open_pair(&pair);
    fill(pair.ours);
    assert_int_equal(pthread_create(&thread, NULL, drain_late, &pair), 0);
    assert_int_equal(exchange_send(&pair.stream, &ping, &pair.err), 0);
    pthread_join(thread, NULL);
    close_pair(&pair);
}

/* The last test: a signal that has come stays so. */
static void a_signal_ends_a_visit(void **state)
{
    struct visit visit;

    (void)state;
    assert_int_equal(signals_init(), 0);
    raise(SIGTERM);
    visit_script(&visit, "", 0, false, LONG_NS);
    assert_failed(&visit, ERROR_INTERRUPTED);
}

#define test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_meeting_tells_a_token_and_the_addresses),
        test(ready_comes_byte_for_byte),
        test(each_token_claims_its_own_connection),
        test(a_token_is_good_once_and_a_wrong_one_never),
        test(a_token_is_no_good_once_its_connection_was_misused_or_closed),
        test(a_claimed_connection_outlives_the_exchange),
        test(a_client_of_ipv6_and_one_by_name_are_met),
        test(a_client_that_is_not_allowed_is_told),
        test(a_refusal_survives_a_late_hello),
        test(a_refused_client_that_stays_is_ended),
        test(what_is_no_hello_is_refused),
        test(a_hello_may_come_in_pieces),
        test(a_client_that_closes_is_forgotten),
        test(a_client_that_talks_while_it_is_to_wait_is_ended),
        test(a_silent_client_is_refused_at_its_deadline),
        test(a_client_that_never_comes_by_rdma_is_ended_at_its_deadline),
        test(silent_clients_keep_nobody_out),
        test(waiting_clients_are_not_driven_out),
        test(one_host_does_not_keep_others_out),
        test(silent_clients_of_one_host_drive_out_no_others),
        test(clients_that_are_not_allowed_drive_nobody_out),
        test(nobody_goes_for_a_client_that_has_gone),
        test(clients_that_were_refused_go_first),
        test(no_more_descriptors_are_asked_for_than_there_is_room),
        test(a_lack_of_descriptors_is_waited_out),
        test(a_port_in_use_is_an_error_with_a_hint),
        test(a_bound_exchange_listens_there_alone),
        test(addresses_are_lines_as_many_as_fit),
        test(without_an_address_there_is_no_exchange),
        test(a_server_that_refuses_is_not_waited_for),
        cmocka_unit_test(nothing_is_done_for_one_that_is_not_open),
        cmocka_unit_test(what_is_whole_is_taken_at_once),
        cmocka_unit_test(an_answer_that_ends_early_is_temporary),
        cmocka_unit_test(a_server_that_falls_silent_is_left_at_the_deadline),
        cmocka_unit_test(another_program_is_told_from_ours_at_once),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(a_refusal_says_why_whether_the_server_closes_or_not),
        cmocka_unit_test(a_short_refusal_is_no_welcome),
        cmocka_unit_test(what_follows_the_welcome_is_a_meet),
        cmocka_unit_test(a_message_other_than_meet_is_named),
        cmocka_unit_test(addresses_are_numbers_with_a_port),
        cmocka_unit_test(sixteen_addresses_are_taken),
        cmocka_unit_test(that_nobody_listens_is_said_with_a_hint),
        cmocka_unit_test(the_wait_for_a_listener_ends),
        cmocka_unit_test(a_server_that_starts_late_is_waited_for),
        cmocka_unit_test(a_host_that_is_none_is_not_found),
        cmocka_unit_test(a_message_leaves_the_next_one),
        cmocka_unit_test(a_message_may_come_in_pieces),
        cmocka_unit_test(a_message_that_ends_early_is_temporary),
        cmocka_unit_test(a_message_that_does_not_come_is_temporary),
        cmocka_unit_test(messages_that_break_the_protocol_are_refused),
        cmocka_unit_test(the_largest_message_passes),
        cmocka_unit_test(a_wait_ends_with_the_stop),
        cmocka_unit_test(sending_ends_at_its_deadline_and_with_the_connection),
        cmocka_unit_test(sending_waits_for_room),
        cmocka_unit_test(a_signal_ends_a_visit),
    };

    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}

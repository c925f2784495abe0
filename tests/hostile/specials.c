#include "config.h"

#include "specials.h"

#include <stdlib.h>

#include "meeting.h"

#define FLOOD 24
#define FLOOD_MS 20000 /* for all of them to be asked for */
#define STRANGERS 40
#define PINGS 40
#define PINGS_AT_A_TIME 4

/* Writes 64 bytes there, as if it were a slot of its own. */
static void write_there(struct client *client, uint64_t remote_addr, uint32_t rkey)
{
    client->remote_addr = remote_addr;
    client->rkey = rkey;
    client->places[0].length = 0;
    client_write(client, 0, client->job->object->data, 64);
}

static void start_honest(struct talk *honest, const struct talk *talk)
{
    *honest = (struct talk){.deadline = talk->deadline};
}

static void end_honest(struct talk *honest)
{
    link_disconnect(&honest->link);
    talk_conclude(honest);
    link_close(&honest->link);
}

/* A session from its beginning to its end. Whether all went well. */
static bool run_before(struct client *before, const struct talk *talk, const struct client_job *job)
{
    struct talk honest;
    start_honest(&honest, talk);
    bool served = client_connect(before, &honest, job) && client_open(before) &&
                  client_send(before) && client_end(before) && client_await_done(before);
    end_honest(&honest);
    return served;
}

void special_neighbour(struct talk *talk, const struct client_job *job)
{
    struct talk honest;
    struct client neighbour, client;
    start_honest(&honest, talk);
    if (!client_connect(&neighbour, &honest, job) || !client_open(&neighbour))
        talk->problem = "the neighbour was not served";
    else if (client_connect(&client, talk, job) && client_open(&client))
        write_there(&client, neighbour.remote_addr, neighbour.rkey);
    link_await_end(&talk->link, talk->deadline);
    if (!talk->problem &&
        (!client_send(&neighbour) || !client_end(&neighbour) || !client_await_done(&neighbour)))
        talk->problem = "the neighbour's session did not go on";
    end_honest(&honest);
}

void special_ended(struct talk *talk, const struct client_job *job)
{
    struct client before, client;
    if (!run_before(&before, talk, job))
        talk->problem = "the session before was not served";
    else if (client_connect(&client, talk, job) && client_open(&client))
        write_there(&client, before.remote_addr, before.rkey);
}

void special_revoked(struct talk *talk, const struct client_job *job)
{
    struct client client;
    if (!client_connect(&client, talk, job) || !client_open(&client))
        return;
    if (!client.placed) {
        talk->problem = "no slot was placed";
        return;
    }
    uint64_t remote_addr = client.places[0].remote_addr;
    uint32_t rkey = client.places[0].rkey;
    if (client_send(&client))
        write_there(&client, remote_addr, rkey);
}

void special_late(struct talk *talk, const struct client_job *job)
{
    struct client client;
    if (!client_connect(&client, talk, job) || !client_open(&client) || !client_send(&client) ||
        !client_end(&client) || !client_await_done(&client))
        return;
    for (unsigned slot = 0; slot < client.slot_count; slot++)
        client_write(&client, slot, job->object->data, client.slot_size);
    link_settle(&talk->link, talk->deadline);
    link_disconnect(&talk->link);
}

static bool exchange_pings(struct talk *talk)
{
    struct message message;
    unsigned pongs = 0;
    for (unsigned i = 0; i < PINGS_AT_A_TIME; i++)
        if (!talk_say_plain(talk, WIRE_PING))
            return false;
    while (pongs < PINGS_AT_A_TIME) {
        if (link_next(&talk->link, message.bytes, sizeof message.bytes, &message.len,
                      talk->deadline) != LINK_MESSAGE)
            return false;
        pongs += message_type(&message) == WIRE_PONG;
    }
    return true;
}

void special_pings(struct talk *talk, const struct client_job *job)
{
    struct client client;
    bool goes_on = client_connect(&client, talk, job) && client_open(&client);
    for (unsigned i = 0; goes_on && i < PINGS / PINGS_AT_A_TIME; i++)
        goes_on = exchange_pings(talk);
    if (!goes_on)
        talk->problem = "PINGs were not answered";
    else if (client_send(&client) && client_end(&client) && client_await_done(&client))
        link_disconnect(&talk->link);
}

void special_replay(struct talk *talk, const struct client_job *job)
{
    struct talk honest;
    struct client before, client;
    struct client_job silent = *job;
    struct message proof;
    uint8_t code[WIRE_CODE_BYTES];
    start_honest(&honest, talk);
    if (!client_connect(&before, &honest, job))
        talk->problem = "the session before was not served";
    end_honest(&honest);
    /* It connects as one that knows the secret, but does not go on to prove it. */
    silent.proves_later = true;
    if (talk->problem || !client_connect(&client, talk, &silent))
        return;
    proof_code(&before.proof, WIRE_ROLE_WRITE, code);
    message_begin(&proof, WIRE_PROOF);
    message_put_bytes(&proof, before.proof.nonce, WIRE_NONCE_BYTES);
    message_put_bytes(&proof, code, sizeof code);
    message_end(&proof);
    talk_say(talk, &proof);
}

void special_flood(struct talk *talk, const struct client_job *job)
{
    struct talk *flood = calloc(FLOOD, sizeof *flood);
    struct client client;
    struct message hello;
    if (!flood)
        return;
    client_put_hello(&hello, job);
    talk->deadline += FLOOD_MS;
    for (unsigned i = 0; i < FLOOD; i++) {
        flood[i] = (struct talk){.deadline = talk->deadline};
        if (link_resolve(&flood[i].link, job->dest, talk->deadline) < 0 ||
            link_prepare(&flood[i].link, 4, 1) < 0)
            talk->problem = "a connection could not be made";
        else
            link_ask(&flood[i].link, hello.bytes, hello.len);
    }
    if (client_connect(&client, talk, job))
        talk->silent = true;
    talk->deadline = link_now() + talk->limit_ms;
    talk_conclude(talk);
    /* Some were given up before this side had taken note of the answer: of these no end is told. */
    for (unsigned i = 0; i < FLOOD; i++) {
        flood[i].deadline = talk->deadline;
        if (link_await_answer(&flood[i].link, talk->deadline) == LINK_ACCEPTED)
            talk_conclude(&flood[i]);
    }
    for (unsigned i = 0; i < FLOOD; i++)
        link_close(&flood[i].link);
    free(flood);
}

/* By RDMA alone, as if there had been an exchange. */
static struct client_job with_token(const struct client_job *job, const uint8_t *token)
{
    struct client_job come = *job;
    come.exchange = NULL;
    come.token = token;
    return come;
}

void special_stale_token(struct talk *talk, const struct client_job *job)
{
    struct client before, client;
    if (!run_before(&before, talk, job)) {
        talk->problem = "the session before was not served";
        return;
    }
    struct client_job late = with_token(job, before.token);
    client_connect(&client, talk, &late);
}

void special_stolen_token(struct talk *talk, const struct client_job *job)
{
    struct talk other;
    struct client thief, victim;
    struct message hello, ready;
    uint8_t token[WIRE_TOKEN_BYTES];
    start_honest(&other, talk);
    client_put_hello(&hello, job);
    if (!meeting_ask(talk, job->exchange, &hello, token))
        return;
    struct client_job come = with_token(job, token);
    if (!client_connect(&thief, &other, &come) || !client_say_open(&thief))
        talk->problem = "who comes first is not served";
    else if (!meeting_hear(talk, &ready) || message_type(&ready) != WIRE_READY)
        talk->problem = "READY did not come where the token was given out";
    end_honest(&other);
    if (!talk->problem)
        client_connect(&victim, talk, &come);
}

void special_strangers(struct talk *talk, const struct client_job *job)
{
    struct stream strangers[STRANGERS] = {{.open = false}};
    for (unsigned i = 0; i < STRANGERS; i++)
        if (stream_connect(&strangers[i], job->exchange, talk->deadline) < 0)
            talk->problem = "a connection could not be made";
    client_run(talk, job);
    for (unsigned i = 0; i < STRANGERS; i++)
        stream_close(&strangers[i]);
}

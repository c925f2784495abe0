/*
 * fuzz-ticket.c - tickets: what is parsed is formatted to what parses equal, and a ticket that was cut
 * short never grants more.
 */
#include "config.h"

#include "ticket.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define PROBLEM 96

static void assert_equal(const struct ticket *a, const struct ticket *b)
{
    FUZZ_ASSERT(strcmp(a->host, b->host) == 0);
    FUZZ_ASSERT(a->port == b->port);
    FUZZ_ASSERT(a->remote_addr == b->remote_addr);
    FUZZ_ASSERT(a->rkey == b->rkey);
    FUZZ_ASSERT(a->length == b->length);
    FUZZ_ASSERT(a->has_token == b->has_token);
    FUZZ_ASSERT(memcmp(a->token, b->token, sizeof a->token) == 0);
}

static void assert_valid(const struct ticket *ticket)
{
    uint64_t end;
    FUZZ_ASSERT(ticket->host[0] != '\0');
    FUZZ_ASSERT(ticket->port > 0);
    FUZZ_ASSERT(ticket->length > 0);
    FUZZ_ASSERT(!__builtin_add_overflow(ticket->remote_addr, ticket->length, &end));
}

static void try_cut(const char *text, size_t len, const struct ticket *whole)
{
    char problem[PROBLEM], *cut = fuzz_text((const uint8_t *)text, len);
    struct ticket ticket;
    if (ticket_parse(cut, &ticket, problem, sizeof problem) == TICKET_OK) {
        FUZZ_ASSERT(!ticket.has_token);
        FUZZ_ASSERT(ticket.length <= whole->length);
        ticket.length = whole->length;
        ticket.has_token = whole->has_token;
        memcpy(ticket.token, whole->token, sizeof ticket.token);
        assert_equal(&ticket, whole);
    }
    free(cut);
}

static void try_ticket(const struct ticket *ticket)
{
    char text[TICKET_TEXT], twice[TICKET_TEXT], problem[PROBLEM];
    struct ticket again;
    assert_valid(ticket);
    FUZZ_ASSERT(ticket_format(ticket, text) == text);
    FUZZ_ASSERT(strlen(text) < TICKET_TEXT);
    FUZZ_ASSERT(ticket_looks_like(text));
    FUZZ_ASSERT(ticket_parse(text, &again, problem, sizeof problem) == TICKET_OK);
    assert_equal(&again, ticket);
    FUZZ_ASSERT(strcmp(ticket_format(&again, twice), text) == 0);
    for (size_t len = 0; text[len] != '\0'; len++)
        try_cut(text, len, ticket);
}

/* The parts that have one spelling alone, but for capitals, stand in the text. */
static void assert_spelled(const struct ticket *ticket, const char *text)
{
    char formatted[TICKET_TEXT];
    ticket_format(ticket, formatted);
    FUZZ_ASSERT(strstr(text, ticket->host));
    if (ticket->has_token)
        FUZZ_ASSERT(strcasestr(text, strrchr(formatted, ',')));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), problem[PROBLEM] = "";
    struct ticket ticket;
    enum ticket_result result = ticket_parse(text, &ticket, problem, sizeof problem);
    FUZZ_ASSERT((result == TICKET_NOT_ONE) == !ticket_looks_like(text));
    if (result == TICKET_OK) {
        try_ticket(&ticket);
        assert_spelled(&ticket, text);
    } else {
        fuzz_assert_told(problem, sizeof problem);
    }
    free(text);
    return 0;
}

/*
 * test-ticket.c - a region and where to connect, as one line of text.
 */
#include "config.h"

#include "ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOKEN_TEXT "000102030405060708090a0b0c0d0eff"
#define TOKEN_VALUE                                           \
    {                                                         \
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255 \
    }
#define PLAIN "rdmaput1,10.0.0.2,7475,0x7f0012345678,0x1a2b,65536"

static const struct {
    const char *text;
    struct ticket ticket;
} valid[] = {
    {PLAIN, {"10.0.0.2", 7475, UINT64_C(0x7f0012345678), 0x1a2b, 65536, false, {0}}},
    {PLAIN "," TOKEN_TEXT,
     {"10.0.0.2", 7475, UINT64_C(0x7f0012345678), 0x1a2b, 65536, true, TOKEN_VALUE}},
    {"rdmaput1,fe80::1%eth0,1,0x0,0x0,1", {"fe80::1%eth0", 1, 0, 0, 1, false, {0}}},
    {"rdmaput1,::1,65535,0x0,0xffffffff,18446744073709551615",
     {"::1", 65535, 0, UINT32_MAX, UINT64_MAX, false, {0}}},
    {"rdmaput1,::1,80,0xfffffffffffffffe,0x1,1", {"::1", 80, UINT64_MAX - 1, 1, 1, false, {0}}},
    {"rdmaput1,::1,80,0x1,0x1,18446744073709551614", {"::1", 80, 1, 1, UINT64_MAX - 1, false, {0}}},
    {"rdmaput1,::1,80,0x1,0x1,4294967296", {"::1", 80, 1, 1, UINT64_C(4294967296), false, {0}}},
    {"rdmaput1,ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%fifteen-letters,65535,"
     "0x7fffffffffffffff,0xffffffff,9223372036854775808," TOKEN_TEXT,
     {"ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%fifteen-letters", 65535, INT64_MAX, UINT32_MAX,
      UINT64_C(9223372036854775808), true, TOKEN_VALUE}},
};

static enum ticket_result parse(const char *text)
{
    struct ticket ticket;
    char problem[128];

    return ticket_parse(text, &ticket, problem, sizeof(problem));
}

static void assert_same(const struct ticket *a, const struct ticket *b)
{
    assert_string_equal(a->host, b->host);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->remote_addr, b->remote_addr);
    assert_int_equal(a->rkey, b->rkey);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->has_token, b->has_token);
    assert_memory_equal(a->token, b->token, TICKET_TOKEN_BYTES);
}

static void test_tickets_are_read_and_written_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(valid); i++) {
        char problem[128], buf[TICKET_TEXT];
        struct ticket got;

        if (ticket_parse(valid[i].text, &got, problem, sizeof(problem)) != TICKET_OK)
            fail_msg("'%s': %s", valid[i].text, problem);
        assert_same(&got, &valid[i].ticket);
        assert_string_equal(ticket_format(&valid[i].ticket, buf), valid[i].text);
    }
}

static void test_white_space_around_is_ignored(void **state)
{
    static const char *const texts[] = {PLAIN "\n", PLAIN "\r\n", "  " PLAIN " \t\n\n",
                                        ("\n" PLAIN)};
    char problem[128];
    struct ticket got;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        assert_int_equal(ticket_parse(texts[i], &got, problem, sizeof(problem)), TICKET_OK);
        assert_same(&got, &valid[0].ticket);
    }
}

static void test_hexadecimal_digits_of_either_case(void **state)
{
    char problem[128];
    struct ticket got;

    (void)state;
    assert_int_equal(ticket_parse("rdmaput1,10.0.0.2,7475,0x7F0012345678,0x1A2B,65536,"
                                  "000102030405060708090A0B0C0D0EFF",
                                  &got, problem, sizeof(problem)),
                     TICKET_OK);
    assert_same(&got, &valid[1].ticket);
}

/* What a cut leaves is a ticket only inside LENGTH, or just before ",TOKEN". */
static bool cut_is_invisible(const char *text, size_t len)
{
    unsigned commas = 0;

    for (size_t i = 0; i < len; i++)
        commas += text[i] == ',';
    return commas == 5 && text[len - 1] != ',';
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(valid); i++) {
        size_t full = strlen(valid[i].text);

        for (size_t len = 0; len < full; len++) {
            char *text = strndup(valid[i].text, len);
            enum ticket_result expected = len < strlen("rdmaput1") ? TICKET_NOT_ONE
                                                                   : TICKET_CUT_SHORT;

            assert_non_null(text);
            if (cut_is_invisible(text, len))
                expected = TICKET_OK;
            if (parse(text) != expected)
                fail_msg("'%s' gives %d, not %d", text, (int)parse(text), (int)expected);
            free(text);
        }
    }
}

static void test_a_cut_that_cannot_be_seen_grants_less(void **state)
{
    const char *text = valid[1].text;
    const struct ticket *whole = &valid[1].ticket;
    struct ticket got;
    char problem[128];

    (void)state;
    for (size_t len = 1; len < strlen(text); len++) {
        char *cut = strndup(text, len);

        assert_non_null(cut);
        if (ticket_parse(cut, &got, problem, sizeof(problem)) == TICKET_OK) {
            assert_false(got.has_token);
            assert_true(got.length <= whole->length);
            assert_int_equal(got.remote_addr, whole->remote_addr);
        }
        free(cut);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *text;
        enum ticket_result result;
        const char *problem;
    } rows[] = {
        {"", TICKET_NOT_ONE, "not a ticket: those begin with 'rdmaput1,'"},
        {"10.0.0.2:7475", TICKET_NOT_ONE, "not a ticket: those begin with 'rdmaput1,'"},
        {"rdmaput", TICKET_NOT_ONE, "not a ticket: those begin with 'rdmaput1,'"},
        {"rdmaput,", TICKET_NOT_ONE, "not a ticket: those begin with 'rdmaput1,'"},
        {"RDMAPUT1,", TICKET_NOT_ONE, "not a ticket: those begin with 'rdmaput1,'"},
        {"rdmaput2,::1,80,0x1,0x1,1", TICKET_VERSION, "the ticket's version is 2, not 1"},
        {"rdmaput11,::1,80,0x1,0x1,1", TICKET_VERSION, "the ticket's version is 11, not 1"},
        {"rdmaput01,::1,80,0x1,0x1,1", TICKET_VERSION, "the ticket's version is 01, not 1"},
        {"rdmaput0", TICKET_VERSION, "the ticket's version is 0, not 1"},
        {"rdmaput1", TICKET_CUT_SHORT, "the ticket is cut short at ADDR"},
        {"rdmaput1,", TICKET_CUT_SHORT, "the ticket is cut short at ADDR"},
        {"rdmaput1,::1", TICKET_CUT_SHORT, "the ticket is cut short at ADDR"},
        {"rdmaput1,::1,80", TICKET_CUT_SHORT, "the ticket is cut short at PORT"},
        {"rdmaput1,::1,80,0x", TICKET_CUT_SHORT, "the ticket is cut short at REMOTE_ADDR"},
        {"rdmaput1,::1,80,0x1,0x1", TICKET_CUT_SHORT, "the ticket is cut short at RKEY"},
        {"rdmaput1,::1,80,0x1,0x1,\n", TICKET_CUT_SHORT, "the ticket is cut short at LENGTH"},
        {PLAIN ",", TICKET_CUT_SHORT, "the ticket is cut short at TOKEN"},
        {PLAIN ",00", TICKET_CUT_SHORT, "the ticket is cut short at TOKEN"},
        {PLAIN "," TOKEN_TEXT ",", TICKET_MALFORMED, "the ticket has too many fields"},
        {PLAIN "," TOKEN_TEXT ",1,2,3", TICKET_MALFORMED, "the ticket has too many fields"},
        {"rdmaput1,,80,0x1,0x1,1", TICKET_MALFORMED, "the ticket's ADDR is not a numeric address"},
        {"rdmaput1,host,80,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,[::1],80,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1, ::1,80,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,fe80::1%$(id),80,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,,0x1,0x1,1", TICKET_MALFORMED, "the ticket's PORT is not 1 to 65535"},
        {"rdmaput1,::1,0,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,65536,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,0x50,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,-1,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,4294967376,0x1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,1,0x1,1", TICKET_MALFORMED,
         "the ticket's REMOTE_ADDR is not 0x and at most 16 hexadecimal digits"},
        {"rdmaput1,::1,80,0x,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0X1,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1K,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x10000000000000000,0x1,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,1,1", TICKET_MALFORMED,
         "the ticket's RKEY is not 0x and at most 8 hexadecimal digits"},
        {"rdmaput1,::1,80,0x1,0x100000000,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,0xg,1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,0x1,0", TICKET_MALFORMED,
         "the ticket's LENGTH is not a count of bytes, at least 1, that fits after REMOTE_ADDR"},
        {"rdmaput1,::1,80,0x1,0x1,0x10", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,0x1,4K", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,0x1,-1", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x0,0x1,18446744073709551616", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0x1,0x1,18446744073709551615", TICKET_MALFORMED, NULL},
        {"rdmaput1,::1,80,0xffffffffffffffff,0x1,1", TICKET_MALFORMED, NULL},
        {PLAIN "," TOKEN_TEXT "0", TICKET_MALFORMED,
         "the ticket's TOKEN is not 32 hexadecimal digits"},
        {PLAIN ",0001020304050607g8090a0b0c0d0eff", TICKET_MALFORMED, NULL},
        {PLAIN ",0x0102030405060708090a0b0c0d0eff", TICKET_MALFORMED, NULL},
        {PLAIN ", 00102030405060708090a0b0c0d0eff", TICKET_MALFORMED, NULL},
        {PLAIN " " TOKEN_TEXT, TICKET_MALFORMED, NULL},
        {PLAIN "\n" PLAIN, TICKET_MALFORMED, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char problem[128] = "";
        struct ticket got = {.port = 4711};
        enum ticket_result result = ticket_parse(rows[i].text, &got, problem, sizeof(problem));

        if (result != rows[i].result)
            fail_msg("'%s' gives %d: %s", rows[i].text, (int)result, problem);
        if (rows[i].problem)
            assert_string_equal(problem, rows[i].problem);
        assert_int_not_equal(strlen(problem), 0);
        assert_int_equal(got.port, 4711);
    }
}

static void test_length_of_the_text(void **state)
{
    char text[TICKET_TEXT + 64];

    (void)state;
    /* Leading zeros make a ticket as long as one likes. */
    snprintf(text, sizeof(text), "rdmaput1,::1,80,0x1,0x1,%0*d", TICKET_TEXT - 1 - 24, 1);
    assert_int_equal(strlen(text), TICKET_TEXT - 1);
    assert_int_equal(parse(text), TICKET_OK);
    strcat(text, "0");
    assert_int_equal(parse(text), TICKET_MALFORMED);
}

static void test_what_looks_like_a_ticket(void **state)
{
    static const struct {
        const char *text;
        bool looks;
    } rows[] = {
        {"rdmaput1,", true},   {"rdmaput2", true},   {"rdmaput9whatever", true},
        {"rdmaput", false},    {"rdmaput-1", false}, {"rdmaput.example.org", false},
        {" rdmaput1,", true},  {"", false},          {"rdmapu", false},
        {"xrdmaput1,", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        if (ticket_looks_like(rows[i].text) != rows[i].looks)
            fail_msg("'%s'", rows[i].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tickets_are_read_and_written_alike),
        cmocka_unit_test(test_white_space_around_is_ignored),
        cmocka_unit_test(test_hexadecimal_digits_of_either_case),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_a_cut_that_cannot_be_seen_grants_less),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_length_of_the_text),
        cmocka_unit_test(test_what_looks_like_a_ticket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

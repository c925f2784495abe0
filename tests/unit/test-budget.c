/*
 * test-budget.c - what sessions, and hosts, may have of a server at once.
 */
#include "config.h"

#include "budget.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define KIB UINT64_C(1024)
#define COUNT 64

static struct budget_share shares[COUNT];

static int take_for(struct budget *budget, enum budget_use use, unsigned share, const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct error err = {.class = ERROR_NONE};
    const struct sockaddr *peer = (const struct sockaddr *)&v4;

    if (inet_pton(AF_INET, address, &v4.sin_addr) != 1) {
        assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
        peer = (const struct sockaddr *)&v6;
    }
    int rc = budget_take(budget, peer, use, &shares[share], &err);
    assert_int_equal(err.class, rc < 0 ? ERROR_TEMPORARY : ERROR_NONE);
    return rc;
}

static int take(struct budget *budget, unsigned share, const char *address)
{
    return take_for(budget, BUDGET_TRANSFER, share, address);
}

/* As many hosts as there are shares. */
static int take_for_another(struct budget *budget, enum budget_use use, unsigned share)
{
    char address[] = "10.0.0.0";

    address[5] = (char)('0' + share / 10);
    address[7] = (char)('0' + share % 10);
    return take_for(budget, use, share, address);
}

static int take_from_another(struct budget *budget, unsigned share)
{
    return take_for_another(budget, BUDGET_TRANSFER, share);
}

static void there_are_no_more_sessions_than_that(void **state)
{
    struct budget budget = {.most_sessions = 3, .most_bytes = BUDGET_UNLIMITED, .wanted = 100};

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(take_from_another(&budget, i), 0);
    assert_int_equal(take_from_another(&budget, 3), -1);
    budget_return(&budget, &shares[1]);
    assert_int_equal(take_from_another(&budget, 4), 0);
    assert_int_equal(take_from_another(&budget, 5), -1);
    assert_int_equal(budget.count, 3);
}

static void each_use_has_a_limit_of_its_own(void **state)
{
    struct budget budget = {.most_sessions = 4,
                            .most_of = {[BUDGET_TRANSFER] = 1, [BUDGET_CHECK] = 2},
                            .most_bytes = BUDGET_UNLIMITED,
                            .wanted = 100};

    (void)state;
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 0), 0);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 1), 0);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 2), -1);
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 3), 0);
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 4), -1);
    budget_return(&budget, &shares[1]);
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 4), -1);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 5), 0);
    budget_return(&budget, &shares[0]);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 6), -1);
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 7), 0);
    assert_int_equal(budget.count, 3);
}

static void all_uses_together_have_the_limit_of_sessions(void **state)
{
    struct budget budget = {.most_sessions = 2,
                            .most_of = {[BUDGET_TRANSFER] = 2, [BUDGET_CHECK] = 2},
                            .most_bytes = BUDGET_UNLIMITED,
                            .wanted = 100};

    (void)state;
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 0), 0);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 1), 0);
    assert_int_equal(take_for_another(&budget, BUDGET_TRANSFER, 2), -1);
    assert_int_equal(take_for_another(&budget, BUDGET_CHECK, 3), -1);
}

static void one_host_has_three_quarters_of_them(void **state)
{
    static const unsigned most[][2] = {{1, 1}, {2, 2}, {3, 3}, {4, 3}, {8, 6}, {40, 30}};

    (void)state;
    for (unsigned i = 0; i < sizeof most / sizeof most[0]; i++) {
        struct budget budget = {
            .most_sessions = most[i][0], .most_bytes = BUDGET_UNLIMITED, .wanted = 100};
        unsigned taken = 0;

        while (take(&budget, taken, "10.1.1.1") == 0)
            taken++;
        assert_int_equal(taken, most[i][1]);
        if (taken < most[i][0])
            assert_int_equal(take(&budget, taken, "10.1.1.2"), 0);
    }
}

static void a_host_is_an_address_or_a_network_of_ipv6(void **state)
{
    static const struct {
        const char *first, *second;
        bool same;
    } pairs[] = {
        {"10.1.1.1", "10.1.1.1", true},
        {"10.1.1.1", "10.1.1.2", false},
        {"10.1.1.1", "::ffff:10.1.1.1", true},
        {"::ffff:10.1.1.1", "::ffff:10.1.1.2", false},
        {"fd00:1:2:3::1", "fd00:1:2:3:ffff::2", true},
        {"fd00:1:2:3::1", "fd00:1:2:4::1", false},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct budget budget = {.most_sessions = 4, .most_bytes = BUDGET_UNLIMITED};

        for (unsigned j = 0; j < 3; j++)
            assert_int_equal(take(&budget, j, pairs[i].first), 0);
        assert_int_equal(take(&budget, 3, pairs[i].second), pairs[i].same ? -1 : 0);
    }
}

static void without_a_limit_each_has_what_it_wants(void **state)
{
    struct budget budget = {
        .most_sessions = COUNT, .most_bytes = BUDGET_UNLIMITED, .least = 10, .wanted = 2000 * KIB};

    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        assert_int_equal(take_from_another(&budget, i), 0);
        assert_true(shares[i].bytes == 2000 * KIB);
    }
}

/* Late ones get less, and there is never more out than there is. */
static void memory_is_shared_out(void **state)
{
    struct budget budget = {
        .most_sessions = COUNT, .most_bytes = 8192 * KIB, .least = 64 * KIB, .wanted = 2048 * KIB};
    unsigned taken = 0;

    (void)state;
    for (; taken < COUNT && take_from_another(&budget, taken) == 0; taken++) {
        assert_true(shares[taken].bytes >= 64 * KIB);
        assert_true(taken == 0 || shares[taken].bytes <= shares[taken - 1].bytes);
        assert_true(budget.bytes <= 8192 * KIB);
    }
    assert_true(shares[0].bytes >= 1024 * KIB);
    assert_true(8192 * KIB - budget.bytes < 64 * KIB);
    assert_in_range(taken, 30, COUNT - 1);
    for (unsigned i = 0; i < taken; i++)
        budget_return(&budget, &shares[i]);
    assert_true(budget.bytes == 0 && budget.count == 0 && !budget.shares);
}

static void one_host_has_three_quarters_of_the_memory(void **state)
{
    struct budget budget = {
        .most_sessions = COUNT, .most_bytes = 8192 * KIB, .least = 64 * KIB, .wanted = 2048 * KIB};
    unsigned taken = 0;

    (void)state;
    while (take(&budget, taken, "10.1.1.1") == 0)
        taken++;
    assert_true(budget.bytes <= 6144 * KIB);
    assert_true(budget.bytes > 6000 * KIB);
    assert_int_equal(take(&budget, taken, "10.1.1.2"), 0);
    assert_true(shares[taken].bytes >= 64 * KIB);
}

/* What cannot be pinned is told by whoever tries to. */
static void a_session_that_is_alone_gets_the_least(void **state)
{
    struct budget budget = {
        .most_sessions = 4, .most_bytes = 10 * KIB, .least = 64 * KIB, .wanted = 2048 * KIB};

    (void)state;
    assert_int_equal(take(&budget, 0, "10.1.1.1"), 0);
    assert_true(shares[0].bytes == 64 * KIB);
    assert_int_equal(take(&budget, 1, "10.1.1.2"), -1);
    budget_return(&budget, &shares[0]);
    assert_int_equal(take(&budget, 1, "10.1.1.2"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_no_more_sessions_than_that),
        cmocka_unit_test(each_use_has_a_limit_of_its_own),
        cmocka_unit_test(all_uses_together_have_the_limit_of_sessions),
        cmocka_unit_test(one_host_has_three_quarters_of_them),
        cmocka_unit_test(a_host_is_an_address_or_a_network_of_ipv6),
        cmocka_unit_test(without_a_limit_each_has_what_it_wants),
        cmocka_unit_test(memory_is_shared_out),
        cmocka_unit_test(one_host_has_three_quarters_of_the_memory),
        cmocka_unit_test(a_session_that_is_alone_gets_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

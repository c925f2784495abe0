/*
 * test-delivery.c - which objects an attempt is for, after others have failed.
 */
#include "config.h"

#include "delivery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sandbox.h"

static struct delivery delivery;
static struct error err;

/* What the command line of these paths comes to. */
static void begin(const char *dest, char *const *paths, size_t count)
{
    static const struct options_segments none = {.from = NULL};

    error_clear(&err);
    delivery = (struct delivery){.dest = dest};
    assert_int_equal(delivery_parse_destination(&delivery, &err), 0);
    assert_int_equal(options_parse_segments(&none, paths, count, &delivery.list, &err), 0);
    assert_int_equal(delivery_list(&delivery, &err), 0);
}

static void begin_many(void)
{
    static char names[3][2] = {"0", "1", "2"};
    static char *const paths[] = {names[0], names[1], names[2]};

    for (unsigned i = 0; i < 3; i++)
        sandbox_make(paths[i], "x", 1, 0644);
    begin("host/d/", paths, 3);
    assert_int_equal(delivery.order_count, 3);
}

static int end(void **state)
{
    (void)state;
    delivery_free(&delivery);
    sandbox_empty();
    return 0;
}

static void settle(size_t index, enum error_class class)
{
    static const struct digest_value digest = {.bytes = 1, .size = 1};
    const struct error cause = {.class = class};

    if (class == ERROR_NONE)
        delivery_settled(&delivery, index, &digest, 0, NULL);
    else
        delivery_settled(&delivery, index, NULL, 0, &cause);
}

static enum error_class try_again(enum error_class class, size_t left)
{
    struct error passing;

    error_clear(&err);
    error_set(&err, class, STAGE_NONE, NULL, "failed");
    assert_int_equal(delivery_try_again(&delivery, &err, &passing), left > 0);
    assert_int_equal(delivery.order_count, left);
    return passing.class;
}

static void what_is_committed_or_failed_for_good_is_not_tried_again(void **state)
{
    (void)state;
    begin_many();
    settle(0, ERROR_NONE);
    settle(1, ERROR_SOURCE);
    settle(2, ERROR_TEMPORARY);
    assert_int_equal(try_again(ERROR_SOURCE, 1), ERROR_TEMPORARY);
    assert_int_equal(delivery.order[0], 2);
    settle(0, ERROR_NONE);
    error_clear(&err);
    assert_int_equal(delivery_sum_up(&delivery, &err), -1);
    assert_int_equal(err.class, ERROR_SOURCE);
    assert_non_null(strstr(err.text, "2 of 3 objects were committed, and 1 were not"));
}

static void what_a_broken_session_left_is_tried_again(void **state)
{
    (void)state;
    begin_many();
    settle(0, ERROR_NONE);
    assert_int_equal(try_again(ERROR_TEMPORARY, 2), ERROR_TEMPORARY);
    settle(0, ERROR_NONE);
    settle(1, ERROR_NONE);
    error_clear(&err);
    assert_int_equal(delivery_sum_up(&delivery, &err), 0);
}

/* The last attempt counts, not one before. */
static void a_failure_for_good_does_not_pass_because_one_before_it_did(void **state)
{
    (void)state;
    begin_many();
    settle(0, ERROR_TEMPORARY);
    assert_int_equal(try_again(ERROR_TEMPORARY, 3), ERROR_TEMPORARY);
    assert_int_equal(try_again(ERROR_UNAVAILABLE, 3), ERROR_UNAVAILABLE);
}

static void another_attempt_reads_what_is_there_then(void **state)
{
    static char name[] = "file";
    static char *const paths[] = {name};

    (void)state;
    sandbox_make("file", "old", 3, 0644);
    begin("host", paths, 1);
    assert_int_equal(delivery_check(&delivery, &err), 0);
    assert_int_equal(plan_size(delivery.objects[0].plan), 3);
    sandbox_empty();
    sandbox_make("file", "newer", 5, 0644);
    assert_int_equal(try_again(ERROR_TEMPORARY, 1), ERROR_TEMPORARY);
    assert_int_equal(delivery_check(&delivery, &err), 0);
    assert_int_equal(plan_size(delivery.objects[0].plan), 5);
}

static void a_stream_is_kept_until_it_may_have_been_read(void **state)
{
    static char name[] = "-";
    static char *const paths[] = {name};
    struct sender_object object;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    begin("host", paths, 1);
    assert_int_equal(delivery_check(&delivery, &err), 0);
    const struct source *source = delivery.objects[0].source;
    assert_int_equal(try_again(ERROR_TEMPORARY, 1), ERROR_TEMPORARY);
    assert_ptr_equal(delivery.objects[0].source, source);
    assert_int_equal(delivery_open(&delivery, 0, &object, &err), 0);
    delivery_close(&delivery, 0, &object);
    try_again(ERROR_TEMPORARY, 0);
    close(ends[0]);
    close(ends[1]);
}

/* Though all that was tried again came to be committed. */
static void a_stream_that_is_gone_has_failed_of_what_the_session_did(void **state)
{
    (void)state;
    begin_many();
    delivery.objects[1].spent = true;
    settle(0, ERROR_NONE);
    assert_int_equal(try_again(ERROR_TEMPORARY, 1), ERROR_TEMPORARY);
    assert_int_equal(delivery.order[0], 2);
    settle(0, ERROR_NONE);
    error_clear(&err);
    assert_int_equal(delivery_sum_up(&delivery, &err), -1);
    assert_int_equal(err.class, ERROR_TEMPORARY);
    assert_non_null(strstr(err.text, "2 of 3 objects were committed, and 1 were not"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, end)
    const struct CMUnitTest tests[] = {
        TEST(what_is_committed_or_failed_for_good_is_not_tried_again),
        TEST(what_a_broken_session_left_is_tried_again),
        TEST(a_failure_for_good_does_not_pass_because_one_before_it_did),
        TEST(another_attempt_reads_what_is_there_then),
        TEST(a_stream_is_kept_until_it_may_have_been_read),
        TEST(a_stream_that_is_gone_has_failed_of_what_the_session_did),
    };
    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

/*
 * test-document.c - documents, each a line, as text.
 */
#include "config.h"

#include "document.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "sandbox.h"

#define BEGIN "{\"version\":1,\"program\":\"" PACKAGE_STRING "\",\"command\":\"test\""
/* As clock_gettime and getrusage below have it. */
#define PROCESS \
    ",\"time\":\"2026-11-30T20:11:14.007Z\",\"process\":{\"user_ns\":1500000000,\"system_ns\":2000,\"resident_bytes\":3072}"
#define END_WELL PROCESS ",\"exit_status\":0,\"error\":null}\n"

int clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_sec = 1796069474, .tv_nsec = 7999999};
    return 0;
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
    assert_int_equal(who, RUSAGE_SELF);
    *usage = (struct rusage){
        .ru_utime = {.tv_sec = 1, .tv_usec = 500000}, .ru_stime = {.tv_usec = 2}, .ru_maxrss = 3};
    return 0;
}

static const struct error none = {.class = ERROR_NONE};

static void open_document(struct json_object **document)
{
    struct error err = {.class = ERROR_NONE};
    assert_int_equal(document_open("document", &err), 0);
    *document = document_new("test");
    assert_non_null(*document);
}

/* What was printed since then is this. */
static void assert_printed(const char *text)
{
    struct error err = {.class = ERROR_NONE};
    assert_int_equal(document_close(&err), 0);
    sandbox_assert_content("document", text, strlen(text));
}

static void without_a_place_there_is_none_and_nothing_is_done(void **state)
{
    struct error err = {.class = ERROR_NONE};
    struct facts facts = {.port = 1};
    (void)state;
    assert_false(document_is_wanted());
    assert_false(document_takes_stdout());
    assert_null(document_new("test"));
    document_add_text(NULL, "name", "text");
    document_add_number(NULL, "name", 1);
    document_add_flag(NULL, "name", true);
    document_add(NULL, "name", json_object_new_array());
    document_add_amount(NULL, 1, 1);
    document_add_facts(NULL, &facts);
    document_append_object(NULL, "name", NULL, 0, &none);
    document_print(NULL, &none);
    assert_int_equal(document_close(&err), 0);
}

static void a_document_is_a_line_with_error_and_exit_status_at_its_end(void **state)
{
    struct json_object *document;
    struct error err = {.class = ERROR_NONE};
    (void)state;
    open_document(&document);
    assert_true(document_is_wanted());
    document_print(document, &none);
    document = document_new("test");
    error_set_errno(&err, ERROR_STORAGE, STAGE_COMMIT, "a/b", ENOSPC, "cannot write");
    error_hint(&err, "make room");
    error_status(&err, "an event");
    document_print(document, &err);
    assert_printed(
        BEGIN END_WELL BEGIN PROCESS
        ",\"exit_status\":74,\"error\":{\"kind\":\"storage\",\"stage\":\"commit\",\"subject\":\"a/b\","
        "\"message\":\"cannot write: No space left on device\",\"hint\":\"make room\",\"errno\":28,"
        "\"errno_text\":\"No space left on device\",\"status\":\"an event\"}}\n");
    assert_false(document_is_wanted());
}

static void an_error_has_what_is_known_of_it(void **state)
{
    struct json_object *document;
    struct error err = {.class = ERROR_NONE};
    (void)state;
    open_document(&document);
    error_set(&err, ERROR_USAGE, STAGE_NONE, NULL, "wrong");
    document_print(document, &err);
    assert_printed(BEGIN PROCESS
                   ",\"exit_status\":64,\"error\":{\"kind\":\"usage\",\"message\":\"wrong\"}}\n");
}

static void text_becomes_valid_and_null_is_left_out(void **state)
{
    struct json_object *document;
    (void)state;
    open_document(&document);
    document_add_text(document, "bad", "a\xff\"\n/\xc3\xa4");
    document_add_text(document, "none", NULL);
    document_add_text(document, "empty", "");
    document_print(document, &none);
    assert_printed(BEGIN ",\"bad\":\"a\xef\xbf\xbd\\\"\\n/\xc3\xa4\",\"empty\":\"\"" END_WELL);
}

static void numbers_are_exact_up_to_the_largest(void **state)
{
    struct json_object *document;
    (void)state;
    open_document(&document);
    document_add_number(document, "a", 0);
    document_add_number(document, "b", INT64_MAX);
    document_add_number(document, "c", (uint64_t)INT64_MAX + 1);
    document_add_number(document, "d", UINT64_MAX);
    document_print(document, &none);
    assert_printed(BEGIN ",\"a\":0,\"b\":9223372036854775807,\"c\":9223372036854775808,"
                         "\"d\":18446744073709551615" END_WELL);
}

static void a_field_that_is_added_again_is_replaced(void **state)
{
    struct json_object *document;
    (void)state;
    open_document(&document);
    document_add_number(document, "attempts", 1);
    document_add_flag(document, "confirmed", false);
    document_add_number(document, "attempts", 2);
    document_print(document, &none);
    assert_printed(BEGIN ",\"attempts\":2,\"confirmed\":false" END_WELL);
}

static void a_rate_is_there_where_time_passed(void **state)
{
    struct json_object *document;
    (void)state;
    open_document(&document);
    document_add_amount(document, 3000, 2000000);
    document_print(document, &none);
    document = document_new("test");
    document_add_amount(document, 3000, 0);
    document_print(document, &none);
    assert_printed(
        BEGIN ",\"bytes\":3000,\"duration_ns\":2000000,\"bytes_per_second\":1500000" END_WELL BEGIN
              ",\"bytes\":3000,\"duration_ns\":0" END_WELL);
}

#define TIMES(resolve, commit)             \
    ",\"times\":{\"resolve_ns\":" #resolve \
    ",\"connect_ns\":0,\"register_ns\":0,\"transfer_ns\":0,\"commit_ns\":" #commit "}"

static void of_a_connection_it_tells_what_is_known(void **state)
{
    struct json_object *document;
    struct facts nothing = {.kind = NULL};
    struct facts facts = {.device = "rxe0",
                          .port = 1,
                          .kind = "RoCE",
                          .mtu = 1024,
                          .local = "10.0.0.1:1",
                          .peer = "10.0.0.2:2",
                          .send_depth = 5,
                          .max_sge = 3,
                          .max_msg_sz = 8,
                          .slots = 4,
                          .slot_size = 6,
                          .pinned = 7,
                          .ns = {[FACTS_RESOLVE] = 1, [FACTS_COMMIT] = 9}};
    (void)state;
    open_document(&document);
    document_add_facts(document, &nothing);
    document_print(document, &none);
    document = document_new("test");
    document_add_facts(document, &facts);
    document_print(document, &none);
    assert_printed(
        BEGIN ",\"connection\":{}" TIMES(0, 0) END_WELL BEGIN
        ",\"connection\":{\"peer\":\"10.0.0.2:2\",\"local\":\"10.0.0.1:1\",\"device\":\"rxe0\","
        "\"port\":1,\"kind\":\"RoCE\",\"mtu_bytes\":1024,\"max_sge\":3,\"send_queue_depth\":5,"
        "\"max_inline_bytes\":0,\"max_message_bytes\":8,\"slots\":4,\"slot_bytes\":6,"
        "\"pinned_bytes\":7}" TIMES(1, 9) END_WELL);
}

static void an_object_is_committed_or_has_an_error(void **state)
{
    struct json_object *document, *objects = json_object_new_array();
    struct digest_value digest = {.data = {0x01, 0xff}, .size = 20, .bytes = 10};
    struct error err = {.class = ERROR_NONE};
    (void)state;
    open_document(&document);
    document_append_object(objects, "", &digest, 5, NULL);
    error_set(&err, ERROR_SOURCE, STAGE_OPEN, NULL, "gone");
    document_append_object(objects, "n\xff", NULL, 0, &err);
    document_add(document, "objects", objects);
    document_print(document, &none);
    assert_printed(BEGIN
                   ",\"objects\":[{\"committed\":true,\"bytes\":10,\"size_bytes\":20,"
                   "\"resumed_bytes\":5,\"xxh3_128\":\"01ff0000000000000000000000000000\"},"
                   "{\"name\":\"n\xef\xbf\xbd\",\"committed\":false,\"error\":{\"kind\":\"source\","
                   "\"stage\":\"open\",\"message\":\"gone\"}}]" END_WELL);
}

static void a_place_that_cannot_be_made_or_written_is_an_error(void **state)
{
    struct error err = {.class = ERROR_NONE};
    (void)state;
    assert_int_equal(document_open("missing/document", &err), -1);
    assert_int_equal(err.class, ERROR_CANNOT_CREATE);
    assert_string_equal(err.subject, "missing/document");
    assert_false(document_is_wanted());
    error_clear(&err);
    assert_int_equal(document_open("/dev/full", &err), 0);
    document_print(document_new("test"), &none);
    assert_int_equal(document_close(&err), -1);
    assert_int_equal(err.class, ERROR_STORAGE);
    assert_int_equal(err.errnum, ENOSPC);
    assert_string_equal(err.subject, "/dev/full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_place_there_is_none_and_nothing_is_done),
        cmocka_unit_test(a_document_is_a_line_with_error_and_exit_status_at_its_end),
        cmocka_unit_test(an_error_has_what_is_known_of_it),
        cmocka_unit_test(text_becomes_valid_and_null_is_left_out),
        cmocka_unit_test(numbers_are_exact_up_to_the_largest),
        cmocka_unit_test(a_field_that_is_added_again_is_replaced),
        cmocka_unit_test(a_rate_is_there_where_time_passed),
        cmocka_unit_test(of_a_connection_it_tells_what_is_known),
        cmocka_unit_test(an_object_is_committed_or_has_an_error),
        cmocka_unit_test(
            a_place_that_cannot_be_made_or_written_is_an_error), /* the last: what failed stays so */
    };
    return cmocka_run_group_tests(tests, sandbox_enter, sandbox_leave);
}

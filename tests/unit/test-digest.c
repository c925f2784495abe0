/*
 * test-digest.c - the checksum of data and of the extent map.
 */
#include "config.h"

#include "digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#define DATA_BYTES 100003

/* What xxhash's XXH3_128bits gives, in canonical form. */
#define HEX_EMPTY "99aa06d3014798d86001c324468d497f"
#define HEX_RDMAPUT "81d1460d3b52b8b0d228272765938fa7"
#define HEX_MAP_0_7 "4bd21e2783e23cd5912971ac9d2bb8b2"
#define HEX_MAP_GAPS "1a5d73a11762d711872f3c16733b59da"

static uint8_t data[DATA_BYTES];

static int setup_data(void **state)
{
    uint32_t x = 1;

    (void)state;
    for (size_t i = 0; i < DATA_BYTES; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (uint8_t)(x >> 24);
    }
    return 0;
}

static int setup_digest(void **state)
{
    *state = digest_new();
    return *state ? 0 : -1;
}

static int teardown_digest(void **state)
{
    digest_free(*state);
    return 0;
}

static void assert_hex(const uint8_t bytes[DIGEST_BYTES], const char *hex)
{
    struct digest_value value;
    char buf[2 * DIGEST_BYTES + 1];

    memcpy(value.data, bytes, DIGEST_BYTES);
    assert_string_equal(digest_format(&value, buf), hex);
}

/* Where the next len bytes of data go. */
struct range {
    uint64_t offset;
    size_t len;
};

static struct digest_value value_of(const struct range *ranges, size_t count)
{
    struct digest *digest = digest_new();
    struct digest_value value;
    size_t at = 0;

    assert_non_null(digest);
    for (size_t i = 0; i < count; i++) {
        assert_true(digest_add(digest, ranges[i].offset, data + at, ranges[i].len));
        at += ranges[i].len;
    }
    digest_value(digest, &value);
    digest_free(digest);
    return value;
}

#define VALUE_OF(...)                             \
    value_of((const struct range[]){__VA_ARGS__}, \
             sizeof((const struct range[]){__VA_ARGS__}) / sizeof(struct range))

static void free_of_null_does_nothing(void **state)
{
    (void)state;
    digest_free(NULL);
}

static void nothing_has_the_known_value(void **state)
{
    struct digest_value value;

    digest_value(*state, &value);
    assert_hex(value.data, HEX_EMPTY);
    assert_hex(value.map, HEX_EMPTY);
    assert_int_equal(value.size, 0);
    assert_int_equal(value.bytes, 0);
    assert_int_equal(digest_end(*state), 0);
}

static void a_short_string_has_the_known_value(void **state)
{
    struct digest_value value;

    assert_true(digest_add(*state, 0, "rdmaput", 7));
    digest_value(*state, &value);
    assert_hex(value.data, HEX_RDMAPUT);
    assert_hex(value.map, HEX_MAP_0_7);
    assert_int_equal(value.size, 7);
    assert_int_equal(value.bytes, 7);
}

static void gaps_have_the_known_map(void **state)
{
    struct digest_value value;

    assert_true(digest_add(*state, 5, "rd", 2));
    assert_true(digest_add(*state, 7, "map", 3));
    assert_true(digest_add(*state, 0x0102030405060708, "ut", 2));
    digest_value(*state, &value);
    assert_hex(value.data, HEX_RDMAPUT);
    assert_hex(value.map, HEX_MAP_GAPS);
    assert_int_equal(value.size, 0x010203040506070a);
    assert_int_equal(value.bytes, 7);
}

static void odd_portions_equal_one_shot(void **state)
{
    static const size_t portions[] = {1, 3, 0, 17, 255, 256, 257, 1023, 4099, 16384};
    struct digest_value value, whole = VALUE_OF({0, DATA_BYTES});
    XXH128_canonical_t canonical;
    size_t at = 0;

    for (size_t i = 0; at < DATA_BYTES; i++) {
        size_t len = portions[i % (sizeof(portions) / sizeof(portions[0]))];

        if (len > DATA_BYTES - at)
            len = DATA_BYTES - at;
        assert_true(digest_add(*state, at, data + at, len));
        at += len;
        assert_int_equal(digest_end(*state), at);
    }
    digest_value(*state, &value);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, DATA_BYTES));
    assert_memory_equal(value.data, canonical.digest, DIGEST_BYTES);
    assert_true(digest_equal(&value, &whole));
}

static void a_value_leaves_room_for_more(void **state)
{
    struct digest_value before, again, value, whole = VALUE_OF({0, 10}, {20, 10}, {30, 5}, {50, 5});

    assert_true(digest_add(*state, 0, data, 10));
    assert_true(digest_add(*state, 20, data + 10, 10));
    digest_value(*state, &before);
    digest_value(*state, &again);
    assert_true(digest_equal(&before, &again));
    assert_true(digest_add(*state, 30, data + 20, 5));
    digest_value(*state, &value);
    assert_false(digest_equal(&before, &value));
    assert_true(digest_add(*state, 50, data + 25, 5));
    digest_value(*state, &value);
    assert_true(digest_equal(&whole, &value));
}

static void adjacent_ranges_are_one_extent(void **state)
{
    struct digest_value one = VALUE_OF({100, 30}, {200, 10});
    struct digest_value many = VALUE_OF({100, 1}, {101, 28}, {129, 1}, {200, 9}, {209, 1});

    (void)state;
    assert_true(digest_equal(&one, &many));
}

static void the_map_tells_where_a_gap_is(void **state)
{
    struct digest_value value = VALUE_OF({0, 10}, {20, 10}, {40, 10});
    struct digest_value moved = VALUE_OF({0, 12}, {22, 8}, {40, 10});
    struct digest_value wider = VALUE_OF({0, 10}, {19, 11}, {40, 9});

    (void)state;
    assert_memory_equal(value.data, moved.data, DIGEST_BYTES);
    assert_memory_equal(value.data, wider.data, DIGEST_BYTES);
    assert_int_equal(value.size, moved.size);
    assert_int_equal(value.bytes, moved.bytes);
    assert_memory_not_equal(value.map, moved.map, DIGEST_BYTES);
    assert_memory_not_equal(value.map, wider.map, DIGEST_BYTES);
    assert_false(digest_equal(&value, &moved));
}

static void a_gap_at_the_start_is_a_gap(void **state)
{
    struct digest_value at_start = VALUE_OF({0, 10});
    struct digest_value behind = VALUE_OF({1, 10});

    (void)state;
    assert_memory_equal(at_start.data, behind.data, DIGEST_BYTES);
    assert_memory_not_equal(at_start.map, behind.map, DIGEST_BYTES);
    assert_int_equal(behind.size, 11);
    assert_int_equal(behind.bytes, 10);
}

static void data_may_not_go_back(void **state)
{
    struct digest_value before, after;

    assert_true(digest_add(*state, 100, data, 50));
    digest_value(*state, &before);
    assert_false(digest_add(*state, 149, data, 1));
    assert_false(digest_add(*state, 0, data, 10));
    assert_false(digest_add(*state, 149, data, 0));
    digest_value(*state, &after);
    assert_true(digest_equal(&before, &after));
    assert_int_equal(digest_end(*state), 150);
    assert_true(digest_add(*state, 150, data, 1));
}

static void an_offset_that_overflows_is_refused(void **state)
{
    struct digest_value value;

    assert_false(digest_add(*state, UINT64_MAX, data, 1));
    assert_false(digest_add(*state, UINT64_MAX - 99, data, 100));
    digest_value(*state, &value);
    assert_int_equal(value.bytes, 0);
    assert_true(digest_add(*state, UINT64_MAX - 100, data, 100));
    assert_int_equal(digest_end(*state), UINT64_MAX);
}

static void no_bytes_make_no_extent(void **state)
{
    struct digest_value value, whole = VALUE_OF({10, 5}, {20, 5});

    assert_true(digest_add(*state, 5, NULL, 0));
    assert_int_equal(digest_end(*state), 0);
    assert_true(digest_add(*state, 10, data, 5));
    assert_true(digest_add(*state, 18, NULL, 0));
    assert_int_equal(digest_end(*state), 15);
    assert_true(digest_add(*state, 20, data + 5, 5));
    digest_value(*state, &value);
    assert_true(digest_equal(&value, &whole));
}

static void bytes_leave_gaps_out(void **state)
{
    assert_int_equal(digest_bytes(*state), 0);
    assert_true(digest_add(*state, 5, data, 10));
    assert_int_equal(digest_bytes(*state), 10);
    assert_true(digest_add(*state, 1000, data, 0));
    assert_int_equal(digest_bytes(*state), 10);
    assert_true(digest_add(*state, 1000, data, 7));
    assert_int_equal(digest_bytes(*state), 17);
    assert_false(digest_add(*state, 1006, data, 1));
    assert_int_equal(digest_bytes(*state), 17);
}

static void nothing_is_left_after_a_reset(void **state)
{
    struct digest_value value, fresh = VALUE_OF({3, 500}, {900, 40});

    assert_true(digest_add(*state, 10, data, 77));
    assert_true(digest_add(*state, 2000, data, 5000));
    digest_value(*state, &value);
    digest_reset(*state);
    assert_int_equal(digest_end(*state), 0);
    assert_int_equal(digest_bytes(*state), 0);
    digest_value(*state, &value);
    assert_hex(value.data, HEX_EMPTY);
    assert_hex(value.map, HEX_EMPTY);
    assert_int_equal(value.size, 0);
    assert_int_equal(value.bytes, 0);
    assert_true(digest_add(*state, 3, data, 500));
    assert_true(digest_add(*state, 900, data + 500, 40));
    digest_value(*state, &value);
    assert_true(digest_equal(&value, &fresh));
}

static void every_field_counts_when_compared(void **state)
{
    struct digest_value value = VALUE_OF({0, 10}), other;

    (void)state;
    other = value;
    assert_true(digest_equal(&value, &other));
    other.size++;
    assert_false(digest_equal(&value, &other));
    other = value;
    other.bytes--;
    assert_false(digest_equal(&value, &other));
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        other = value;
        other.data[i] ^= 1;
        assert_false(digest_equal(&value, &other));
        other = value;
        other.map[i] ^= 0x80;
        assert_false(digest_equal(&value, &other));
    }
}

static void hexadecimal_is_lower_case(void **state)
{
    struct digest_value value = {.data = {0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                          0xff, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba}};
    char buf[2 * DIGEST_BYTES + 1];

    (void)state;
    assert_ptr_equal(digest_format(&value, buf), buf);
    assert_string_equal(buf, "000123456789abcdefff1032547698ba");
}

#define WITH_DIGEST(test) cmocka_unit_test_setup_teardown(test, setup_digest, teardown_digest)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_of_null_does_nothing),
        WITH_DIGEST(nothing_has_the_known_value),
        WITH_DIGEST(a_short_string_has_the_known_value),
        WITH_DIGEST(gaps_have_the_known_map),
        WITH_DIGEST(odd_portions_equal_one_shot),
        WITH_DIGEST(a_value_leaves_room_for_more),
        cmocka_unit_test(adjacent_ranges_are_one_extent),
        cmocka_unit_test(the_map_tells_where_a_gap_is),
        cmocka_unit_test(a_gap_at_the_start_is_a_gap),
        WITH_DIGEST(data_may_not_go_back),
        WITH_DIGEST(an_offset_that_overflows_is_refused),
        WITH_DIGEST(no_bytes_make_no_extent),
        WITH_DIGEST(bytes_leave_gaps_out),
        WITH_DIGEST(nothing_is_left_after_a_reset),
        cmocka_unit_test(every_field_counts_when_compared),
        cmocka_unit_test(hexadecimal_is_lower_case),
    };

    return cmocka_run_group_tests_name("digest", tests, setup_data, NULL);
}

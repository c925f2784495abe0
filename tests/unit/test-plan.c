/*
 * test-plan.c - plans: places, order, overlaps, work requests, and what random plans deliver.
 */
#include "config.h"

#include "plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MAX_SIZE ((uint64_t)INT64_MAX)
#define MAX_SGE 64
#define NO_LIMIT (UINT64_C(1) << 62)

/*
 * One plan and the slot that it is being carried out in
 */

struct bench {
    struct plan *plan;
    struct plan_limits limits;
    uint64_t slot_bytes;
    struct plan_slot slot;
    struct plan_entry entries[MAX_SGE];
    struct plan_work work;
    size_t requests, slots;
};

static int setup_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        return -1;
    bench->limits = (struct plan_limits){.max_sge = 32, .max_bytes = GIB, .max_extents = 127};
    bench->slot_bytes = MIB;
    bench->work.entries = bench->entries;
    bench->slots = 1;
    plan_slot_reset(&bench->slot);
    *state = bench;
    return 0;
}

static int teardown_bench(void **state)
{
    struct bench *bench = *state;

    plan_free(bench->plan);
    free(bench);
    return 0;
}

static void begin(struct bench *bench, enum plan_order order, enum plan_target target)
{
    plan_free(bench->plan);
    bench->plan = plan_new(order, target);
    assert_non_null(bench->plan);
    bench->requests = 0;
    bench->slots = 1;
    plan_slot_reset(&bench->slot);
}

static void add(struct bench *bench, uint64_t length, uint64_t dest)
{
    struct plan_piece piece = {.offset = 0, .length = length, .dest = dest};

    assert_int_equal(plan_add(bench->plan, &piece), PLAN_OK);
}

static void add_hole(struct bench *bench, uint64_t length, uint64_t dest)
{
    struct plan_piece piece = {.length = length, .dest = dest, .hole = true};

    assert_int_equal(plan_add(bench->plan, &piece), PLAN_OK);
}

static void add_many(struct bench *bench, size_t count, uint64_t length)
{
    for (size_t i = 0; i < count; i++)
        add(bench, length, PLAN_UNKNOWN);
}

static void seal(struct bench *bench)
{
    size_t a, b;

    assert_int_equal(plan_seal(bench->plan, &a, &b), PLAN_OK);
}

static void assert_not_sealed(struct bench *bench, enum plan_result result, size_t a, size_t b)
{
    size_t conflict_a = SIZE_MAX, conflict_b = SIZE_MAX;

    assert_int_equal(plan_seal(bench->plan, &conflict_a, &conflict_b), result);
    assert_int_equal(conflict_a, a);
    assert_int_equal(conflict_b, b);
}

static bool next(struct bench *bench)
{
    return plan_next(bench->plan, &bench->limits, bench->slot_bytes, &bench->slot, &bench->work);
}

static void fresh_slot(struct bench *bench)
{
    plan_slot_reset(&bench->slot);
    bench->slots++;
}

/* The next request that has entries, in the slot or else in a fresh one. */
static bool next_request(struct bench *bench)
{
    if (!next(bench))
        return false;
    if (bench->work.count == 0) {
        assert_true(bench->work.ends_slot);
        assert_int_equal(bench->work.bytes, 0);
        assert_true(bench->slot.used > 0);
        fresh_slot(bench);
        assert_true(next(bench));
    }
    assert_true(bench->work.count > 0);
    bench->requests++;
    return true;
}

static void assert_request(struct bench *bench, const uint64_t *lengths, size_t count)
{
    uint64_t bytes = 0;

    assert_true(next(bench));
    assert_int_equal(bench->work.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(bench->entries[i].length, lengths[i]);
        bytes += lengths[i];
    }
    assert_int_equal(bench->work.bytes, bytes);
}

#define ASSERT_REQUEST(bench, ...)                         \
    assert_request(bench, (const uint64_t[]){__VA_ARGS__}, \
                   COUNT_OF(((const uint64_t[]){__VA_ARGS__})))

static void assert_put_off(struct bench *bench)
{
    struct plan_slot before = bench->slot;

    assert_true(next(bench));
    assert_int_equal(bench->work.count, 0);
    assert_true(bench->work.ends_slot);
    assert_memory_equal(&bench->slot, &before, sizeof(before));
    fresh_slot(bench);
}

static void assert_done(struct bench *bench)
{
    assert_false(next(bench));
    assert_false(next(bench));
}

static size_t count_requests(struct bench *bench)
{
    while (next_request(bench))
        continue;
    return bench->requests;
}

/*
 * Places and order
 */

static void assert_placed(const struct bench *bench, size_t index, size_t added_as, uint64_t dest)
{
    size_t added;
    const struct plan_piece *piece = plan_piece(bench->plan, index, &added);

    assert_int_equal(added, added_as);
    assert_int_equal(piece->dest, dest);
    assert_ptr_equal(plan_piece(bench->plan, index, NULL), piece);
}

static void free_of_null_does_nothing(void **state)
{
    (void)state;
    plan_free(NULL);
}

static void a_plan_of_nothing_has_no_work(void **state)
{
    struct bench *bench = *state;

    for (int order = PLAN_AS_GIVEN; order <= PLAN_BY_DEST; order++) {
        begin(bench, (enum plan_order)order, PLAN_TARGET_SLOT);
        seal(bench);
        assert_int_equal(plan_count(bench->plan), 0);
        assert_int_equal(plan_size(bench->plan), 0);
        assert_int_equal(plan_bytes(bench->plan), 0);
        assert_done(bench);
    }
}

static void a_piece_without_a_place_follows_the_one_added_before(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 20, 1000);
    add(bench, 30, PLAN_UNKNOWN);
    add(bench, 40, 100);
    add(bench, 50, PLAN_UNKNOWN);
    seal(bench);
    assert_int_equal(plan_count(bench->plan), 5);
    assert_placed(bench, 0, 0, 0);
    assert_placed(bench, 1, 1, 1000);
    assert_placed(bench, 2, 2, 1020);
    assert_placed(bench, 3, 3, 100);
    assert_placed(bench, 4, 4, 140);
    assert_int_equal(plan_size(bench->plan), 1050);
    assert_int_equal(plan_bytes(bench->plan), 150);
}

static void pieces_are_sorted_by_place(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 20, 1000);
    add(bench, 30, PLAN_UNKNOWN);
    add(bench, 40, 100);
    add(bench, 50, PLAN_UNKNOWN);
    seal(bench);
    assert_placed(bench, 0, 0, 0);
    assert_placed(bench, 1, 3, 100);
    assert_placed(bench, 2, 4, 140);
    assert_placed(bench, 3, 1, 1000);
    assert_placed(bench, 4, 2, 1020);
    ASSERT_REQUEST(bench, 10, 40, 50, 20, 30);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(bench->entries[i].piece, i);
    assert_done(bench);
}

static void pieces_of_one_place_keep_their_order(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    for (size_t i = 0; i < 500; i++)
        add(bench, i == 250, 7);
    for (size_t i = 0; i < 500; i++)
        add(bench, 0, 3);
    seal(bench);
    for (size_t i = 0; i < 500; i++) {
        assert_placed(bench, i, 500 + i, 3);
        assert_placed(bench, 500 + i, i, 7);
    }
}

static void order_as_given_is_kept(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_REGION);
    add(bench, 10, 500);
    add(bench, 20, 100);
    add(bench, 30, 505);
    seal(bench);
    ASSERT_REQUEST(bench, 10);
    assert_int_equal(bench->entries[0].dest, 500);
    ASSERT_REQUEST(bench, 20);
    assert_int_equal(bench->entries[0].dest, 100);
    ASSERT_REQUEST(bench, 30);
    assert_int_equal(bench->entries[0].dest, 505);
    assert_done(bench);
    assert_int_equal(plan_size(bench->plan), 535);
}

static void entries_name_piece_source_and_offset(void **state)
{
    struct bench *bench = *state;
    const struct plan_piece pieces[] = {
        {.source = 7, .offset = 100, .length = 250, .dest = 1000},
        {.source = 3, .offset = 5, .length = 60, .dest = PLAN_UNKNOWN},
    };

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    bench->limits.max_bytes = 200;
    for (size_t i = 0; i < COUNT_OF(pieces); i++)
        assert_int_equal(plan_add(bench->plan, &pieces[i]), PLAN_OK);
    seal(bench);
    ASSERT_REQUEST(bench, 200);
    assert_int_equal(bench->entries[0].piece, 0);
    assert_int_equal(bench->entries[0].source, 7);
    assert_int_equal(bench->entries[0].offset, 100);
    assert_int_equal(bench->entries[0].dest, 1000);
    ASSERT_REQUEST(bench, 50, 60);
    assert_int_equal(bench->entries[0].piece, 0);
    assert_int_equal(bench->entries[0].source, 7);
    assert_int_equal(bench->entries[0].offset, 300);
    assert_int_equal(bench->entries[0].dest, 1200);
    assert_int_equal(bench->entries[1].piece, 1);
    assert_int_equal(bench->entries[1].source, 3);
    assert_int_equal(bench->entries[1].offset, 5);
    assert_int_equal(bench->entries[1].dest, 1250);
    assert_done(bench);
}

static void empty_pieces_make_no_work_but_count_for_the_size(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 0, PLAN_UNKNOWN);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 0, PLAN_UNKNOWN);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 0, 5000);
    seal(bench);
    assert_int_equal(plan_count(bench->plan), 5);
    assert_int_equal(plan_size(bench->plan), 5000);
    assert_int_equal(plan_bytes(bench->plan), 20);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->entries[0].piece, 1);
    assert_int_equal(bench->entries[1].piece, 3);
    assert_int_equal(bench->slot.extents, 1);
    assert_done(bench);
}

/*
 * Overlaps
 */

static void overlaps_are_found(void **state)
{
    struct bench *bench = *state;
    static const struct {
        uint64_t a, a_length, b, b_length;
    } cases[] = {
        {100, 10, 100, 10}, {100, 10, 109, 1},
        {100, 10, 91, 10},  {100, 10, 103, 2},
        {100, 10, 50, 100}, {100, 1, 100, 1},
        {0, 1, 0, 1},       {MAX_SIZE - 9, 9, MAX_SIZE - 1, 1},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        add(bench, 0, 95);
        add(bench, cases[i].a_length, cases[i].a);
        add(bench, 5, 100000);
        add(bench, cases[i].b_length, cases[i].b);
        assert_not_sealed(bench, PLAN_OVERLAP, 1, 3);
    }
}

static void an_overlap_with_a_piece_that_has_no_place_of_its_own_is_found(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add(bench, 10, 50);
    add(bench, 10, 30);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 1, PLAN_UNKNOWN);
    assert_not_sealed(bench, PLAN_OVERLAP, 0, 3);
}

static void adjacent_and_empty_pieces_do_not_overlap(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 110);
    add(bench, 10, 90);
    add(bench, 10, 100);
    add(bench, 0, 100);
    add(bench, 0, 105);
    add(bench, 0, 90);
    add(bench, 0, 120);
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10, 10);
    assert_int_equal(bench->slot.extents, 1);
    assert_done(bench);
}

static void an_empty_piece_hides_no_overlap(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 100);
    add(bench, 0, 105);
    add(bench, 10, 106);
    assert_not_sealed(bench, PLAN_OVERLAP, 0, 2);
}

static void overlaps_as_given_apply_in_order(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_REGION);
    add(bench, 10, 100);
    add(bench, 10, 100);
    add(bench, 10, 95);
    seal(bench);
    assert_int_equal(count_requests(bench), 3);
    assert_int_equal(plan_size(bench->plan), 110);
    assert_int_equal(plan_bytes(bench->plan), 30);
}

/*
 * Work requests
 */

static void small_pieces_give_the_fewest_requests(void **state)
{
    struct bench *bench = *state;
    static const unsigned max_sge[] = {32, 6, 1, 30, 7, MAX_SGE};
    static const uint64_t slots[] = {256 * KIB, MIB, 4 * KIB, 5000, 6400, 65537};

    for (int target = PLAN_TARGET_REGION; target <= PLAN_TARGET_SLOT; target++) {
        for (size_t i = 0; i < COUNT_OF(max_sge); i++) {
            for (size_t j = 0; j < COUNT_OF(slots); j++) {
                if (max_sge[i] * UINT64_C(100) > slots[j])
                    continue;
                begin(bench, PLAN_BY_DEST, (enum plan_target)target);
                bench->limits.max_sge = max_sge[i];
                bench->slot_bytes = slots[j];
                add_many(bench, 10000, 100);
                seal(bench);
                assert_int_equal(count_requests(bench), (10000 + max_sge[i] - 1) / max_sge[i]);
            }
        }
    }
}

static void small_pieces_with_gaps_give_the_fewest_requests(void **state)
{
    struct bench *bench = *state;
    static const unsigned max_sge[] = {32, 6, 1, 30};

    for (size_t i = 0; i < COUNT_OF(max_sge); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        bench->limits.max_sge = max_sge[i];
        for (size_t j = 0; j < 10000; j++)
            add(bench, 100, 200 * j);
        seal(bench);
        assert_int_equal(count_requests(bench), (10000 + max_sge[i] - 1) / max_sge[i]);
        assert_true((bench->slots - 1) * (127 / max_sge[i] * max_sge[i]) < 10000);
    }
}

/* Requests of at most half a slot, of pieces of at most an eighth. */
static void uneven_small_pieces_are_never_cut(void **state)
{
    struct bench *bench = *state;
    uint32_t random = 1;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 4;
    bench->slot_bytes = 4096;
    for (size_t i = 0; i < 10000; i++) {
        random = random * 1664525 + 1013904223;
        add(bench, 1 + (random >> 8) % 512, PLAN_UNKNOWN);
    }
    seal(bench);
    assert_int_equal(count_requests(bench), 10000 / 4);
}

static void a_large_piece_fills_every_slot(void **state)
{
    struct bench *bench = *state;

    for (uint64_t used = 0; used < 2 * MIB; used += 100 * KIB + 1) {
        uint64_t length = 10 * MIB + 12345;

        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        bench->limits.max_sge = 1;
        add(bench, used, PLAN_UNKNOWN);
        add(bench, length, PLAN_UNKNOWN);
        seal(bench);
        count_requests(bench);
        assert_int_equal(bench->slots, (used + length + MIB - 1) / MIB);
    }
}

static void a_large_piece_is_cut_though_a_fresh_slot_would_hold_it(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 2;
    add_many(bench, 2, 400 * KIB);
    add_many(bench, 2, 300 * KIB);
    add_many(bench, 1, MIB);
    seal(bench);
    ASSERT_REQUEST(bench, 400 * KIB, 400 * KIB);
    assert_false(bench->work.ends_slot);
    ASSERT_REQUEST(bench, 224 * KIB);
    assert_true(bench->work.ends_slot);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 76 * KIB, 300 * KIB);
    ASSERT_REQUEST(bench, 648 * KIB);
    assert_true(bench->work.ends_slot);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 376 * KIB);
    assert_false(bench->work.ends_slot);
    assert_done(bench);
}

static void a_request_that_fits_whole_into_a_fresh_slot_is_put_off(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 3;
    bench->slot_bytes = 1000;
    add_many(bench, 9, 125);
    seal(bench);
    ASSERT_REQUEST(bench, 125, 125, 125);
    ASSERT_REQUEST(bench, 125, 125, 125);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 125, 125, 125);
    assert_done(bench);
}

static void what_fits_to_the_last_byte_is_not_put_off(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 4;
    bench->slot_bytes = 1000;
    add_many(bench, 12, 125);
    seal(bench);
    ASSERT_REQUEST(bench, 125, 125, 125, 125);
    assert_false(bench->work.ends_slot);
    ASSERT_REQUEST(bench, 125, 125, 125, 125);
    assert_true(bench->work.ends_slot);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 125, 125, 125, 125);
    assert_done(bench);
}

static void the_last_request_of_a_slot_is_put_off_at_a_pieces_end_too(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 3;
    bench->slot_bytes = 800;
    add_many(bench, 9, 100);
    seal(bench);
    ASSERT_REQUEST(bench, 100, 100, 100);
    ASSERT_REQUEST(bench, 100, 100, 100);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 100, 100, 100);
    assert_done(bench);
}

static void a_slot_less_than_half_used_is_filled(void **state)
{
    struct bench *bench = *state;
    static const uint64_t used[] = {499, 500};

    for (size_t i = 0; i < COUNT_OF(used); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        bench->limits.max_sge = 8;
        bench->slot_bytes = 1000;
        bench->slot.used = used[i];
        bench->slot.extents = 1;
        add_many(bench, 8, 100);
        seal(bench);
        if (used[i] < 500) {
            ASSERT_REQUEST(bench, 100, 100, 100, 100, 100, 1);
            assert_true(bench->work.ends_slot);
        } else {
            assert_put_off(bench);
        }
    }
}

static void a_piece_of_an_eighth_of_a_slot_is_small(void **state)
{
    struct bench *bench = *state;
    static const uint64_t lengths[] = {125, 126};

    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        bench->limits.max_sge = 1;
        bench->slot_bytes = 1000;
        bench->slot.used = 900;
        bench->slot.extents = 1;
        add(bench, lengths[i], 0);
        seal(bench);
        if (lengths[i] == 125)
            assert_put_off(bench);
        else
            ASSERT_REQUEST(bench, 100);
    }
}

static void pieces_that_no_slot_holds_together_are_cut(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->slot_bytes = 1000;
    add_many(bench, 25, 100);
    seal(bench);
    ASSERT_REQUEST(bench, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100);
    assert_true(bench->work.ends_slot);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 100, 100, 100, 100, 100);
    assert_done(bench);
}

static void a_request_that_no_slot_holds_whole_is_not_put_off(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->slot_bytes = 1000;
    bench->slot.used = 700;
    bench->slot.extents = 1;
    add_many(bench, 11, 100);
    seal(bench);
    ASSERT_REQUEST(bench, 100, 100, 100);
    assert_true(bench->work.ends_slot);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 100, 100, 100, 100, 100, 100, 100, 100);
    assert_done(bench);
}

static void a_request_is_cut_at_max_bytes(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_bytes = 300;
    add(bench, 1000, PLAN_UNKNOWN);
    add_many(bench, 3, 150);
    seal(bench);
    ASSERT_REQUEST(bench, 300);
    ASSERT_REQUEST(bench, 300);
    ASSERT_REQUEST(bench, 300);
    ASSERT_REQUEST(bench, 100, 150, 50);
    ASSERT_REQUEST(bench, 100, 150);
    assert_done(bench);
}

static void a_request_of_one_byte_is_possible(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    bench->limits = (struct plan_limits){.max_sge = 1, .max_bytes = 1, .max_extents = 1};
    bench->slot_bytes = 1;
    add(bench, 3, PLAN_UNKNOWN);
    seal(bench);
    assert_int_equal(count_requests(bench), 3);
    assert_int_equal(bench->slots, 3);
}

static void pieces_of_one_request_adjoin_in_a_region(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add(bench, 10, 0);
    add(bench, 10, 10);
    add(bench, 10, 21);
    add(bench, 0, 31);
    add(bench, 10, 31);
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10);
    assert_false(bench->work.ends_slot);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->slot.used, 40);
    assert_done(bench);
}

static void extents_do_not_limit_a_region(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    bench->limits.max_extents = 1;
    for (uint64_t i = 0; i < 100; i++)
        add(bench, 10, 20 * i);
    seal(bench);
    assert_int_equal(count_requests(bench), 100);
    assert_int_equal(bench->slots, 1);
}

static void extents_of_a_slot_are_counted(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 2;
    add(bench, 10, 0);
    add(bench, 10, 10);
    add(bench, 10, 20);
    add(bench, 10, 40);
    add(bench, 10, 60);
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->slot.extents, 1);
    assert_int_equal(bench->slot.last_end, 20);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->slot.extents, 2);
    assert_int_equal(bench->slot.last_end, 50);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, 10);
    assert_int_equal(bench->slot.extents, 1);
    assert_int_equal(bench->slot.used, 10);
    assert_int_equal(bench->slot.last_end, 70);
}

static void a_slot_without_extents_left_takes_what_adjoins(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_sge = 1;
    bench->limits.max_extents = 2;
    add(bench, 10, 0);
    add(bench, 10, 20);
    add(bench, 10, 30);
    add(bench, 10, 41);
    seal(bench);
    ASSERT_REQUEST(bench, 10);
    ASSERT_REQUEST(bench, 10);
    ASSERT_REQUEST(bench, 10);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 10);
    assert_done(bench);
}

static void a_piece_goes_on_in_its_extent(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_bytes = 300;
    bench->limits.max_extents = 1;
    add(bench, 700, 50);
    seal(bench);
    ASSERT_REQUEST(bench, 300);
    ASSERT_REQUEST(bench, 300);
    ASSERT_REQUEST(bench, 100);
    assert_int_equal(bench->slot.extents, 1);
    assert_done(bench);
}

static void fewer_extents_than_entries_end_every_slot(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_extents = 3;
    for (uint64_t i = 0; i < 7; i++)
        add(bench, 10, 20 * i);
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10, 10);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 10, 10, 10);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 10);
    assert_done(bench);
}

static void a_slot_with_less_than_half_of_its_extents_is_filled(void **state)
{
    struct bench *bench = *state;

    for (uint64_t extents = 1; extents <= 2; extents++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        bench->limits.max_extents = 4;
        bench->slot.used = 10;
        bench->slot.extents = extents;
        for (uint64_t i = 0; i < 4; i++)
            add(bench, 10, 20 * i);
        seal(bench);
        if (extents == 1)
            ASSERT_REQUEST(bench, 10, 10, 10);
        else
            assert_put_off(bench);
    }
}

static void a_hundred_thousand_pieces_are_planned(void **state)
{
    struct bench *bench = *state;
    const size_t count = 100000;

    for (int target = PLAN_TARGET_REGION; target <= PLAN_TARGET_SLOT; target++) {
        begin(bench, PLAN_BY_DEST, (enum plan_target)target);
        for (size_t i = count; i-- > 0;)
            add(bench, 100, 100 * i);
        for (size_t i = 0; i < count; i++)
            add(bench, 0, 100 * (i / 50000 * 50000));
        seal(bench);
        assert_int_equal(plan_size(bench->plan), 100 * count);
        assert_int_equal(count_requests(bench), (count + 31) / 32);
    }
}

/*
 * Large numbers
 */

static void an_entry_is_no_longer_than_32_bits(void **state)
{
    struct bench *bench = *state;
    const uint64_t two32 = UINT64_C(1) << 32;

    bench->limits.max_bytes = NO_LIMIT;
    bench->slot_bytes = NO_LIMIT;
    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add(bench, two32 - 1, PLAN_UNKNOWN);
    add(bench, two32, PLAN_UNKNOWN);
    add(bench, two32 + 1, PLAN_UNKNOWN);
    seal(bench);
    assert_int_equal(plan_size(bench->plan), 3 * two32);
    ASSERT_REQUEST(bench, two32 - 1, two32 - 1, 1, two32 - 1, 2);
    assert_int_equal(bench->entries[2].piece, 1);
    assert_int_equal(bench->entries[2].offset, two32 - 1);
    assert_int_equal(bench->entries[2].dest, 2 * two32 - 2);
    assert_int_equal(bench->entries[4].piece, 2);
    assert_int_equal(bench->entries[4].dest, 3 * two32 - 2);
    assert_done(bench);
}

static void max_bytes_of_2_to_the_32_hold(void **state)
{
    struct bench *bench = *state;
    const uint64_t two32 = UINT64_C(1) << 32;

    bench->limits.max_bytes = two32;
    bench->slot_bytes = two32 + 1;
    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 3 * two32, PLAN_UNKNOWN);
    seal(bench);
    ASSERT_REQUEST(bench, two32 - 1, 1);
    ASSERT_REQUEST(bench, 1);
    assert_true(bench->work.ends_slot);
    fresh_slot(bench);
    ASSERT_REQUEST(bench, two32 - 1, 1);
}

static void the_largest_object_is_planned(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 100, MAX_SIZE - 100);
    add(bench, MAX_SIZE - 100, 0);
    seal(bench);
    assert_placed(bench, 0, 1, 0);
    assert_int_equal(plan_size(bench->plan), MAX_SIZE);
    assert_int_equal(plan_bytes(bench->plan), MAX_SIZE);
    ASSERT_REQUEST(bench, MIB);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 100, MAX_SIZE - 100);
    add(bench, 0, MAX_SIZE);
    seal(bench);
    ASSERT_REQUEST(bench, 100);
    assert_int_equal(bench->entries[0].dest, MAX_SIZE - 100);
    assert_int_equal(bench->slot.last_end, MAX_SIZE);
    assert_done(bench);
}

static void places_past_the_largest_object_overflow(void **state)
{
    struct bench *bench = *state;
    static const struct {
        uint64_t length, dest;
    } cases[] = {
        {1, MAX_SIZE},
        {0, MAX_SIZE + 1},
        {MAX_SIZE, 1},
        {100, MAX_SIZE - 99},
        {1, PLAN_UNKNOWN - 1},
        {100, PLAN_UNKNOWN - 50},
        {PLAN_UNKNOWN, MAX_SIZE + 1},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (int order = PLAN_AS_GIVEN; order <= PLAN_BY_DEST; order++) {
            begin(bench, (enum plan_order)order, PLAN_TARGET_SLOT);
            add(bench, 0, 5);
            add(bench, cases[i].length, cases[i].dest);
            assert_not_sealed(bench, PLAN_OVERFLOW, 1, 1);
        }
    }
}

static void a_follower_past_the_largest_object_overflows(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, MAX_SIZE - 10);
    add(bench, 1, PLAN_UNKNOWN);
    assert_not_sealed(bench, PLAN_OVERFLOW, 1, 1);
}

static void assert_not_added(struct bench *bench, uint64_t offset, uint64_t length)
{
    struct plan_piece piece = {.offset = offset, .length = length, .dest = 0};
    size_t count = plan_count(bench->plan);
    uint64_t bytes = plan_bytes(bench->plan);

    assert_int_equal(plan_add(bench->plan, &piece), PLAN_OVERFLOW);
    assert_int_equal(plan_count(bench->plan), count);
    assert_int_equal(plan_bytes(bench->plan), bytes);
}

static void lengths_and_offsets_past_the_largest_object_overflow(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    assert_not_added(bench, 0, MAX_SIZE + 1);
    assert_not_added(bench, 0, PLAN_UNKNOWN - 1);
    assert_not_added(bench, 1, MAX_SIZE);
    assert_not_added(bench, MAX_SIZE, 1);
    assert_not_added(bench, PLAN_UNKNOWN, 1);
    assert_not_added(bench, MAX_SIZE + 1, 0);
    assert_not_added(bench, MAX_SIZE + 1, PLAN_UNKNOWN);
    add(bench, MAX_SIZE - 5, 0);
    assert_not_added(bench, 0, 6);
    assert_not_added(bench, 0, MAX_SIZE);
    add(bench, 5, 0);
    assert_not_added(bench, 0, 1);
    seal(bench);
    assert_int_equal(plan_bytes(bench->plan), MAX_SIZE);
    assert_int_equal(plan_size(bench->plan), MAX_SIZE - 5);
}

/*
 * Unknown lengths
 */

static void got(struct bench *bench, uint64_t bytes, bool ended)
{
    assert_int_equal(plan_got(bench->plan, &bench->slot, bytes, ended), PLAN_OK);
}

static void a_piece_of_unknown_length_is_offered_the_room(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->slot_bytes = 1000;
    add(bench, 100, PLAN_UNKNOWN);
    add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
    seal(bench);
    assert_int_equal(plan_size(bench->plan), PLAN_UNKNOWN);
    assert_int_equal(plan_bytes(bench->plan), PLAN_UNKNOWN);
    ASSERT_REQUEST(bench, 100);
    ASSERT_REQUEST(bench, 900);
    assert_int_equal(bench->entries[0].offset, 0);
    assert_int_equal(bench->entries[0].dest, 100);
    got(bench, 333, false);
    assert_int_equal(bench->slot.used, 433);
    assert_int_equal(bench->slot.last_end, 433);
    assert_int_equal(bench->slot.extents, 1);
    ASSERT_REQUEST(bench, 567);
    assert_int_equal(bench->entries[0].offset, 333);
    assert_int_equal(bench->entries[0].dest, 433);
    got(bench, 567, false);
    assert_put_off(bench);
    ASSERT_REQUEST(bench, 1000);
    assert_int_equal(bench->slot.extents, 1);
    got(bench, 1, true);
    assert_int_equal(bench->slot.used, 1);
    assert_int_equal(plan_size(bench->plan), 1001);
    assert_int_equal(plan_bytes(bench->plan), 1001);
    assert_int_equal(plan_piece(bench->plan, 1, NULL)->length, 901);
    assert_done(bench);
}

static void a_piece_of_unknown_length_keeps_to_the_limits(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_REGION);
    bench->limits.max_bytes = 300;
    add(bench, PLAN_UNKNOWN, 5);
    seal(bench);
    ASSERT_REQUEST(bench, 300);
    got(bench, 300, false);
    bench->limits.max_bytes = NO_LIMIT;
    bench->slot_bytes = NO_LIMIT;
    ASSERT_REQUEST(bench, UINT32_MAX);
    got(bench, UINT32_MAX, true);
    assert_int_equal(plan_size(bench->plan), 5 + 300 + (uint64_t)UINT32_MAX);
    assert_done(bench);
}

static void nothing_got_leaves_the_slot_as_it_was(void **state)
{
    struct bench *bench = *state;
    struct plan_slot before;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 0);
    add(bench, PLAN_UNKNOWN, 50);
    add(bench, 10, PLAN_UNKNOWN);
    seal(bench);
    ASSERT_REQUEST(bench, 10);
    before = bench->slot;
    ASSERT_REQUEST(bench, MIB - 10);
    assert_int_equal(bench->slot.extents, 2);
    got(bench, 0, false);
    assert_memory_equal(&bench->slot, &before, sizeof(before));
    ASSERT_REQUEST(bench, MIB - 10);
    got(bench, 0, true);
    assert_memory_equal(&bench->slot, &before, sizeof(before));
    assert_int_equal(plan_size(bench->plan), 60);
    ASSERT_REQUEST(bench, 10);
    assert_int_equal(bench->entries[0].dest, 50);
    assert_done(bench);
}

static void pieces_follow_where_the_unknown_length_ended(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add(bench, PLAN_UNKNOWN, 100);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
    add(bench, 20, PLAN_UNKNOWN);
    add(bench, 30, PLAN_UNKNOWN);
    seal(bench);
    assert_placed(bench, 0, 0, 100);
    assert_placed(bench, 1, 1, PLAN_UNKNOWN);
    ASSERT_REQUEST(bench, MIB);
    got(bench, 7, true);
    assert_placed(bench, 1, 1, 107);
    assert_placed(bench, 2, 2, 117);
    assert_placed(bench, 3, 3, PLAN_UNKNOWN);
    assert_int_equal(plan_size(bench->plan), PLAN_UNKNOWN);
    ASSERT_REQUEST(bench, 10);
    ASSERT_REQUEST(bench, MIB - 17);
    got(bench, 3, true);
    assert_placed(bench, 3, 3, 120);
    assert_placed(bench, 4, 4, 140);
    assert_int_equal(plan_size(bench->plan), 170);
    assert_int_equal(plan_bytes(bench->plan), 70);
    ASSERT_REQUEST(bench, 20, 30);
    assert_done(bench);
}

static void a_place_after_an_unknown_length_is_unordered(void **state)
{
    struct bench *bench = *state;
    static const uint64_t places[] = {0, 5, 10, 1000};

    for (size_t i = 0; i < COUNT_OF(places); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        add(bench, 10, PLAN_UNKNOWN);
        add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
        add(bench, 10, PLAN_UNKNOWN);
        add(bench, i & 1, places[i]);
        assert_not_sealed(bench, PLAN_UNORDERED, 1, 3);
    }
}

static void known_pieces_end_before_an_unknown_length(void **state)
{
    struct bench *bench = *state;
    static const struct {
        uint64_t length, dest;
        enum plan_result result;
    } cases[] = {
        {10, 0, PLAN_OK},          {10, 90, PLAN_OK},          {10, 91, PLAN_OVERLAP},
        {10, 99, PLAN_OVERLAP},    {10, 100, PLAN_OVERLAP},    {1, 100, PLAN_OVERLAP},
        {10, 101, PLAN_UNORDERED}, {10, 5000, PLAN_UNORDERED}, {0, 100, PLAN_OK},
        {0, 101, PLAN_OK},         {1000, 0, PLAN_OVERLAP},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
        add(bench, 0, 3);
        add(bench, cases[i].length, cases[i].dest);
        add(bench, 0, 2);
        add(bench, PLAN_UNKNOWN, 100);
        if (cases[i].result == PLAN_OK)
            seal(bench);
        else
            assert_not_sealed(bench, cases[i].result, 1, 3);
    }
}

static void known_pieces_are_sorted_before_an_unknown_length(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 50);
    add(bench, 10, 20);
    add(bench, 10, 80);
    add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
    add(bench, 5, PLAN_UNKNOWN);
    seal(bench);
    assert_placed(bench, 0, 1, 20);
    assert_placed(bench, 1, 0, 50);
    assert_placed(bench, 2, 2, 80);
    assert_placed(bench, 3, 3, 90);
    assert_placed(bench, 4, 4, PLAN_UNKNOWN);
}

static void known_pieces_that_overlap_are_found_before_an_unknown_length(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 50);
    add(bench, 10, 41);
    add(bench, PLAN_UNKNOWN, 200);
    assert_not_sealed(bench, PLAN_OVERLAP, 0, 1);
}

static void unknown_lengths_as_given_may_stand_anywhere(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_REGION);
    add(bench, PLAN_UNKNOWN, 1000);
    add(bench, 10, PLAN_UNKNOWN);
    add(bench, 10, 0);
    add(bench, 10, PLAN_UNKNOWN);
    seal(bench);
    assert_placed(bench, 1, 1, PLAN_UNKNOWN);
    assert_placed(bench, 2, 2, 0);
    assert_placed(bench, 3, 3, 10);
    ASSERT_REQUEST(bench, MIB);
    got(bench, 5, true);
    ASSERT_REQUEST(bench, 10);
    assert_int_equal(bench->entries[0].dest, 1005);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->entries[0].dest, 0);
    assert_done(bench);
}

static void a_source_of_unknown_length_may_begin_at_the_largest_offset(void **state)
{
    struct bench *bench = *state;
    struct plan_piece piece = {.offset = MAX_SIZE, .length = PLAN_UNKNOWN, .dest = MAX_SIZE};

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    assert_int_equal(plan_add(bench->plan, &piece), PLAN_OK);
    seal(bench);
    assert_true(next(bench));
    got(bench, 0, true);
    assert_int_equal(plan_size(bench->plan), MAX_SIZE);
    assert_int_equal(plan_bytes(bench->plan), 0);
    assert_done(bench);
}

static void what_is_got_past_the_largest_object_overflows(void **state)
{
    struct bench *bench = *state;
    struct plan_piece far_source = {.offset = MAX_SIZE - 5, .length = PLAN_UNKNOWN, .dest = 0};

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, PLAN_UNKNOWN, MAX_SIZE - 5);
    seal(bench);
    assert_true(next(bench));
    got(bench, 5, false);
    assert_true(next(bench));
    assert_int_equal(plan_got(bench->plan, &bench->slot, 1, false), PLAN_OVERFLOW);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    assert_int_equal(plan_add(bench->plan, &far_source), PLAN_OK);
    seal(bench);
    assert_true(next(bench));
    assert_int_equal(plan_got(bench->plan, &bench->slot, 6, true), PLAN_OVERFLOW);

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    add(bench, PLAN_UNKNOWN, 0);
    add(bench, MAX_SIZE - 5, 0);
    seal(bench);
    assert_true(next(bench));
    assert_int_equal(plan_got(bench->plan, &bench->slot, 6, true), PLAN_OVERFLOW);
}

static void a_follower_of_an_unknown_length_may_overflow(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, PLAN_UNKNOWN, MAX_SIZE - 10);
    add(bench, 6, PLAN_UNKNOWN);
    seal(bench);
    assert_true(next(bench));
    assert_int_equal(plan_got(bench->plan, &bench->slot, 5, true), PLAN_OVERFLOW);
}

/*
 * Holes
 */

static void a_hole_is_placed_but_not_sent(void **state)
{
    struct bench *bench = *state;

    for (int order = PLAN_AS_GIVEN; order <= PLAN_BY_DEST; order++) {
        begin(bench, (enum plan_order)order, PLAN_TARGET_SLOT);
        add_hole(bench, 5, PLAN_UNKNOWN);
        add(bench, 10, PLAN_UNKNOWN);
        add_hole(bench, 100, PLAN_UNKNOWN);
        add(bench, 20, PLAN_UNKNOWN);
        add_hole(bench, 1000, PLAN_UNKNOWN);
        seal(bench);
        assert_int_equal(plan_count(bench->plan), 5);
        assert_placed(bench, 2, 2, 15);
        assert_placed(bench, 3, 3, 115);
        assert_true(plan_piece(bench->plan, 2, NULL)->hole);
        assert_int_equal(plan_size(bench->plan), 1135);
        assert_int_equal(plan_bytes(bench->plan), 30);
        ASSERT_REQUEST(bench, 10, 20);
        assert_int_equal(bench->entries[0].piece, 1);
        assert_int_equal(bench->entries[0].dest, 5);
        assert_int_equal(bench->entries[1].piece, 3);
        assert_int_equal(bench->entries[1].dest, 115);
        assert_int_equal(bench->slot.used, 30);
        assert_int_equal(bench->slot.extents, 2);
        assert_done(bench);
    }
}

static void a_plan_of_holes_has_no_work(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, MAX_SIZE, 0);
    seal(bench);
    assert_true(plan_size(bench->plan) == MAX_SIZE);
    assert_int_equal(plan_bytes(bench->plan), 0);
    assert_done(bench);
}

static void a_request_ends_at_a_hole_in_a_region(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add(bench, 10, PLAN_UNKNOWN);
    add_hole(bench, 1, PLAN_UNKNOWN);
    add(bench, 20, PLAN_UNKNOWN);
    add_hole(bench, 0, PLAN_UNKNOWN);
    add(bench, 30, PLAN_UNKNOWN);
    seal(bench);
    ASSERT_REQUEST(bench, 10);
    ASSERT_REQUEST(bench, 20, 30);
    assert_int_equal(bench->entries[0].dest, 11);
    assert_done(bench);
}

static void holes_take_extents_as_gaps_do(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    bench->limits.max_extents = 4;
    bench->limits.max_sge = 3;
    for (size_t i = 0; i < 6; i++) {
        add(bench, 10, PLAN_UNKNOWN);
        add_hole(bench, 100, PLAN_UNKNOWN);
    }
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10, 10);
    assert_int_equal(bench->slot.extents, 3);
    assert_put_off(bench); /* as three fit into a fresh slot, and but one into this */
    ASSERT_REQUEST(bench, 10, 10, 10);
    assert_int_equal(bench->entries[0].dest, 330);
    assert_done(bench);
}

static void holes_overlap_as_any_piece(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, 10, 0);
    add_hole(bench, 10, PLAN_UNKNOWN);
    add(bench, 1, 19);
    assert_not_sealed(bench, PLAN_OVERLAP, 1, 2);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, 10, 15);
    add_hole(bench, 10, 5);
    add(bench, 5, 0);
    add(bench, 5, 25);
    seal(bench);
    ASSERT_REQUEST(bench, 5, 5);

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    add(bench, 10, 0);
    add_hole(bench, 10, 5);
    add(bench, 10, 10);
    seal(bench);
    ASSERT_REQUEST(bench, 10, 10);
    assert_int_equal(bench->slot.extents, 1); /* the hole is not there */
}

static void holes_follow_an_unknown_length(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, 10, 1000);
    add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
    add_hole(bench, 100, PLAN_UNKNOWN);
    add(bench, 7, PLAN_UNKNOWN);
    add_hole(bench, 50, PLAN_UNKNOWN);
    seal(bench);
    assert_true(plan_bytes(bench->plan) == PLAN_UNKNOWN);
    assert_true(next(bench));
    assert_int_equal(bench->entries[0].dest, 1010);
    got(bench, 5, true);
    ASSERT_REQUEST(bench, 7);
    assert_int_equal(bench->entries[0].dest, 1115);
    assert_done(bench);
    assert_int_equal(plan_size(bench->plan), 1172);
    assert_int_equal(plan_bytes(bench->plan), 12);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, PLAN_UNKNOWN, PLAN_UNKNOWN);
    add_hole(bench, 100, 5000);
    assert_not_sealed(bench, PLAN_UNORDERED, 0, 1);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, 100, 50);
    add(bench, PLAN_UNKNOWN, 149);
    assert_not_sealed(bench, PLAN_OVERLAP, 0, 1);
}

static void holes_count_towards_the_largest_object(void **state)
{
    struct bench *bench = *state;
    struct plan_piece hole = {.length = 6, .dest = 0, .hole = true};

    begin(bench, PLAN_AS_GIVEN, PLAN_TARGET_SLOT);
    add(bench, MAX_SIZE - 5, 0);
    assert_int_equal(plan_add(bench->plan, &hole), PLAN_OVERFLOW);
    hole.length = 5;
    assert_int_equal(plan_add(bench->plan, &hole), PLAN_OK);
    hole = (struct plan_piece){.offset = MAX_SIZE, .length = 1, .hole = true};
    assert_int_equal(plan_add(bench->plan, &hole), PLAN_OVERFLOW);

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, 6, MAX_SIZE - 5);
    assert_not_sealed(bench, PLAN_OVERFLOW, 0, 0);
}

static void holes_that_are_filled_are_ordinary_pieces(void **state)
{
    struct bench *bench = *state;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_REGION);
    add_hole(bench, 5, PLAN_UNKNOWN);
    add(bench, 10, PLAN_UNKNOWN);
    add_hole(bench, 100, PLAN_UNKNOWN);
    seal(bench);
    plan_fill_holes(bench->plan);
    assert_int_equal(plan_bytes(bench->plan), 115);
    assert_int_equal(plan_size(bench->plan), 115);
    assert_int_equal(plan_count(bench->plan), 3);
    assert_false(plan_piece(bench->plan, 0, NULL)->hole);
    ASSERT_REQUEST(bench, 5, 10, 100);
    assert_done(bench);
}

/*
 * Going on from within
 */

/* A hole, then pieces at 100, 200 and 1000, with a hole between and empty pieces beside. */
static void make_resumable(struct bench *bench)
{
    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add_hole(bench, 100, 0);
    add(bench, 50, PLAN_UNKNOWN);
    add(bench, 0, PLAN_UNKNOWN);
    add_hole(bench, 50, PLAN_UNKNOWN);
    add(bench, 50, PLAN_UNKNOWN);
    add(bench, 10, 1000);
    add(bench, 0, 2000);
    seal(bench);
}

static void work_begins_where_it_is_told(void **state)
{
    static const struct {
        uint64_t start;
        uint64_t lengths[3];
        size_t count;
        uint64_t dest, offset;
    } rows[] = {
        {0, {50, 50, 10}, 3, 100, 0},   {99, {50, 50, 10}, 3, 100, 0},
        {100, {50, 50, 10}, 3, 100, 0}, {101, {49, 50, 10}, 3, 101, 1},
        {149, {1, 50, 10}, 3, 149, 49}, {150, {50, 10}, 2, 200, 0},
        {170, {50, 10}, 2, 200, 0},     {249, {1, 10}, 2, 249, 49},
        {250, {10}, 1, 1000, 0},        {999, {10}, 1, 1000, 0},
        {1009, {1}, 1, 1009, 9},        {0, {50, 50, 10}, 3, 100, 0},
    };
    static const uint64_t behind[] = {1010, 1011, 2000, MAX_SIZE, PLAN_UNKNOWN};
    struct bench *bench = *state;

    make_resumable(bench);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fresh_slot(bench);
        plan_start_at(bench->plan, rows[i].start);
        assert_request(bench, rows[i].lengths, rows[i].count);
        assert_int_equal(bench->entries[0].dest, rows[i].dest);
        assert_int_equal(bench->entries[0].offset, rows[i].offset);
        assert_done(bench);
    }
    for (size_t i = 0; i < COUNT_OF(behind); i++) {
        plan_start_at(bench->plan, behind[i]);
        assert_done(bench);
    }
    assert_int_equal(plan_bytes(bench->plan), 110);
    assert_int_equal(plan_size(bench->plan), 2000);
}

static void work_may_begin_anew_amid_a_piece(void **state)
{
    struct bench *bench = *state;

    make_resumable(bench);
    bench->limits.max_bytes = 30;
    ASSERT_REQUEST(bench, 30);
    plan_start_at(bench->plan, 120);
    ASSERT_REQUEST(bench, 30);
    assert_int_equal(bench->entries[0].offset, 20);
    plan_start_at(bench->plan, 0);
    ASSERT_REQUEST(bench, 30);
    assert_int_equal(bench->entries[0].offset, 0);
    assert_int_equal(bench->slot.extents, 3);
}

static void work_may_begin_amid_a_hole_that_is_filled(void **state)
{
    struct bench *bench = *state;

    make_resumable(bench);
    plan_fill_holes(bench->plan);
    plan_start_at(bench->plan, 160);
    ASSERT_REQUEST(bench, 40, 50, 10);
    assert_int_equal(bench->entries[0].dest, 160);
    assert_int_equal(bench->entries[0].offset, 10);

    make_resumable(bench);
    plan_start_at(bench->plan, 160);
    plan_fill_holes(bench->plan);
    ASSERT_REQUEST(bench, 40, 50, 10);
    assert_int_equal(bench->entries[0].dest, 160);
    assert_int_equal(bench->entries[0].offset, 10);
}

static void assert_walks(const struct bench *bench, struct plan_position *at, uint64_t limit,
                         uint64_t dest, uint64_t offset, uint32_t length)
{
    struct plan_entry entry;

    assert_true(plan_walk(bench->plan, at, limit, 40, &entry));
    assert_int_equal(entry.dest, dest);
    assert_int_equal(entry.offset, offset);
    assert_int_equal(entry.length, length);
}

static void a_walk_gives_what_is_sent_below_a_place(void **state)
{
    static const uint64_t nothing_below[] = {0, 1, 99, 100};
    struct bench *bench = *state;
    struct plan_position at = {0};
    struct plan_entry entry;

    make_resumable(bench);
    assert_walks(bench, &at, 210, 100, 0, 40);
    assert_walks(bench, &at, 210, 140, 40, 10);
    assert_walks(bench, &at, 210, 200, 0, 10);
    assert_false(plan_walk(bench->plan, &at, 210, 40, &entry));
    assert_false(plan_walk(bench->plan, &at, 210, 40, &entry));
    assert_walks(bench, &at, 1001, 210, 10, 40);
    assert_walks(bench, &at, 1001, 1000, 0, 1);
    assert_false(plan_walk(bench->plan, &at, 1001, 40, &entry));
    assert_walks(bench, &at, MAX_SIZE, 1001, 1, 9);
    assert_int_equal(at.index, 5);
    assert_false(plan_walk(bench->plan, &at, MAX_SIZE, 40, &entry));
    for (size_t i = 0; i < COUNT_OF(nothing_below); i++) {
        at = (struct plan_position){0};
        assert_false(plan_walk(bench->plan, &at, nothing_below[i], 40, &entry));
    }
    ASSERT_REQUEST(bench, 50, 50, 10); /* which the walk is apart from */
}

static void a_walk_gives_the_largest_object(void **state)
{
    struct bench *bench = *state;
    struct plan_position at = {.done = MAX_SIZE - 7};
    struct plan_entry entry;

    begin(bench, PLAN_BY_DEST, PLAN_TARGET_SLOT);
    add(bench, MAX_SIZE, 0);
    seal(bench);
    assert_true(plan_walk(bench->plan, &at, PLAN_UNKNOWN, UINT32_MAX, &entry));
    assert_int_equal(entry.length, 7);
    assert_true(entry.dest == MAX_SIZE - 7);
    assert_false(plan_walk(bench->plan, &at, PLAN_UNKNOWN, UINT32_MAX, &entry));
    plan_start_at(bench->plan, MAX_SIZE - 1);
    ASSERT_REQUEST(bench, 1);
    assert_done(bench);
}

/*
 * Random plans, carried out against byte arrays
 */

#define RANDOM_PLANS 6000
#define RANDOM_PIECES 40
#define RANDOM_SOURCES 3
#define SOURCE_BYTES 4096
#define DEST_BYTES 65536

/* What a random plan is made of: pieces with the lengths that they will turn out to have. */
struct model {
    struct plan_piece pieces[RANDOM_PIECES]; /* as added */
    struct plan_piece truth[RANDOM_PIECES];  /* with place and length */
    size_t count;
    bool has_unknown;
    uint8_t sources[RANDOM_SOURCES][SOURCE_BYTES];
    uint8_t expected[DEST_BYTES];
    uint8_t delivered[DEST_BYTES];
    uint8_t slot[DEST_BYTES];
};

static uint64_t random_state;

/* xorshift64*: the same numbers everywhere. */
static uint64_t draw(uint64_t below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * UINT64_C(2685821657736338717) >> 16) % below;
}

static bool chance(unsigned percent)
{
    return draw(100) < percent;
}

static uint64_t draw_length(void)
{
    if (chance(10))
        return 0;
    return chance(70) ? draw(40) : draw(1000);
}

static struct plan_piece draw_piece(void)
{
    struct plan_piece piece = {.source = (unsigned)draw(RANDOM_SOURCES), .length = draw_length()};

    piece.offset = draw(SOURCE_BYTES - piece.length + 1);
    return piece;
}

static void add_to_model(struct model *model, const struct plan_piece *truth, bool has_place,
                         bool is_unknown)
{
    struct plan_piece *piece = &model->pieces[model->count];

    *piece = *truth;
    piece->hole = !is_unknown && chance(20);
    model->truth[model->count] = *piece;
    model->count++;
    if (!has_place)
        piece->dest = PLAN_UNKNOWN;
    if (is_unknown)
        piece->length = PLAN_UNKNOWN;
    model->has_unknown |= is_unknown;
}

/* Anything goes. */
static void make_wild_model(struct model *model, size_t count)
{
    uint64_t end = 0;

    for (size_t i = 0; i < count; i++) {
        struct plan_piece piece = draw_piece();
        bool has_place = chance(50);

        piece.dest = has_place ? draw(chance(50) ? 20000 : 60) : end;
        end = piece.dest + piece.length;
        add_to_model(model, &piece, has_place, chance(3));
    }
}

static void shuffle(struct plan_piece *pieces, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = draw(i);
        struct plan_piece piece = pieces[i - 1];

        pieces[i - 1] = pieces[other];
        pieces[other] = piece;
    }
}

/* Pieces that do not overlap, in any order, and behind them some that may be of unknown length. */
static void make_tidy_model(struct model *model, size_t count)
{
    struct plan_piece pieces[RANDOM_PIECES];
    size_t known = chance(50) ? count : draw(count + 1);
    uint64_t end = 0, last_end = 0;

    for (size_t i = 0; i < count; i++) {
        pieces[i] = draw_piece();
        pieces[i].dest = i > known || chance(60) ? end : end + draw(400);
        end = pieces[i].dest + pieces[i].length;
    }
    if (chance(50))
        shuffle(pieces, known);
    for (size_t i = 0; i < count; i++) {
        bool may_follow = pieces[i].dest == last_end;

        add_to_model(model, &pieces[i], i <= known && !(may_follow && chance(80)),
                     i >= known && chance(50));
        last_end = pieces[i].dest + pieces[i].length;
    }
}

static void make_model(struct model *model)
{
    size_t count = draw(RANDOM_PIECES + 1);

    model->count = 0;
    model->has_unknown = false;
    if (chance(50))
        make_wild_model(model, count);
    else
        make_tidy_model(model, count);
}

static bool pieces_overlap(const struct plan_piece *a, const struct plan_piece *b)
{
    return a->length > 0 && b->length > 0 && a->dest < b->dest + b->length &&
           b->dest < a->dest + a->length;
}

static bool has_overlap(const struct model *model)
{
    for (size_t i = 0; i < model->count; i++)
        for (size_t j = 0; j < i; j++)
            if (pieces_overlap(&model->truth[i], &model->truth[j]))
                return true;
    return false;
}

static void copy_naively(struct model *model)
{
    memset(model->expected, 0, DEST_BYTES);
    memset(model->delivered, 0, DEST_BYTES);
    for (size_t i = 0; i < model->count; i++) {
        const struct plan_piece *piece = &model->truth[i];

        if (!piece->hole)
            memcpy(model->expected + piece->dest, model->sources[piece->source] + piece->offset,
                   piece->length);
    }
}

static void make_limits(struct bench *bench)
{
    bench->limits.max_sge = 1 + (unsigned)draw(chance(50) ? 4 : MAX_SGE);
    bench->limits.max_bytes = 1 + draw(chance(50) ? 100 : 10000);
    bench->limits.max_extents = 1 + draw(chance(50) ? 4 : 127);
    bench->slot_bytes = 1 + draw(chance(30) ? 100 : 5000);
}

/* Seals the plan of a model. Whether it is to be carried out: it is not when it is refused. */
static bool seal_model(struct bench *bench, const struct model *model, enum plan_order order)
{
    size_t a, b;
    enum plan_result result = plan_seal(bench->plan, &a, &b);

    if (order == PLAN_AS_GIVEN || (!model->has_unknown && !has_overlap(model)))
        assert_int_equal(result, PLAN_OK);
    if (!model->has_unknown && has_overlap(model))
        assert_int_equal(result, order == PLAN_AS_GIVEN ? PLAN_OK : PLAN_OVERLAP);
    if (result == PLAN_OK)
        return true;
    assert_true(a < b && b < model->count);
    if (result == PLAN_OVERLAP && model->pieces[b].length != PLAN_UNKNOWN)
        assert_true(pieces_overlap(&model->truth[a], &model->truth[b]));
    return false;
}

/* The pipe had some of the bytes that were asked for, and perhaps told that it had no more. */
static void get_some(struct bench *bench, const struct model *model)
{
    struct plan_entry *entry = &bench->entries[0];
    size_t added_as;
    const struct plan_piece *piece = plan_piece(bench->plan, entry->piece, &added_as);
    const struct plan_piece *truth = &model->truth[added_as];
    uint64_t left, bytes;

    if (piece->length != PLAN_UNKNOWN)
        return;
    left = truth->length - (entry->offset - truth->offset);
    bytes = draw((left < entry->length ? left : entry->length) + 1);
    if (chance(30))
        bytes = left < entry->length ? left : entry->length;
    got(bench, bytes, bytes == left && chance(70));
    entry->length = (uint32_t)bytes;
    bench->work.bytes = bytes;
}

static void check_entry(const struct bench *bench, const struct model *model,
                        const struct plan_entry *entry)
{
    size_t added_as;
    const struct plan_piece *piece = plan_piece(bench->plan, entry->piece, &added_as);
    const struct plan_piece *truth = &model->truth[added_as];

    assert_false(truth->hole);
    assert_int_equal(piece->dest, truth->dest);
    assert_int_equal(entry->source, truth->source);
    assert_in_range(entry->offset, truth->offset, truth->offset + truth->length);
    assert_in_range(entry->length, 0, truth->length - (entry->offset - truth->offset));
    assert_int_equal(entry->dest - truth->dest, entry->offset - truth->offset);
}

static void check_request(const struct bench *bench)
{
    uint64_t bytes = 0;

    assert_in_range(bench->work.count, 1, bench->limits.max_sge);
    for (unsigned i = 0; i < bench->work.count; i++) {
        assert_true(bench->entries[i].length > 0);
        bytes += bench->entries[i].length;
    }
    assert_int_equal(bytes, bench->work.bytes);
    assert_true(bytes <= bench->limits.max_bytes);
    assert_true(bench->slot.used <= bench->slot_bytes);
    assert_int_equal(bench->work.ends_slot, bench->slot.used == bench->slot_bytes);
}

static void check_slot(const struct bench *bench, const struct plan_slot *account,
                       enum plan_target target)
{
    assert_int_equal(bench->slot.used, account->used);
    assert_int_equal(bench->slot.extents, account->extents);
    assert_int_equal(bench->slot.last_end, account->last_end);
    if (target == PLAN_TARGET_SLOT)
        assert_true(account->extents <= bench->limits.max_extents);
}

/* Gathers into the slot, packed; from there to the destination, for a region in one range. */
static void deliver(const struct bench *bench, struct model *model, enum plan_target target,
                    struct plan_slot *account)
{
    uint64_t start = account->used, at = account->used;

    for (unsigned i = 0; i < bench->work.count; i++) {
        const struct plan_entry *entry = &bench->entries[i];

        check_entry(bench, model, entry);
        if (entry->length == 0)
            continue;
        memcpy(model->slot + at, model->sources[entry->source] + entry->offset, entry->length);
        if (target == PLAN_TARGET_SLOT)
            memcpy(model->delivered + entry->dest, model->slot + at, entry->length);
        else if (i > 0)
            assert_int_equal(entry->dest, account->last_end);
        at += entry->length;
        account->extents += entry->dest != account->last_end;
        account->last_end = entry->dest + entry->length;
    }
    account->used = at;
    if (target == PLAN_TARGET_REGION)
        memcpy(model->delivered + bench->entries[0].dest, model->slot + start, at - start);
}

static bool is_half_used(const struct bench *bench)
{
    return 2 * bench->slot.used >= bench->slot_bytes ||
           2 * bench->slot.extents >= bench->limits.max_extents;
}

static void carry_out(struct bench *bench, struct model *model, enum plan_target target)
{
    struct plan_slot account;

    plan_slot_reset(&account);
    while (next(bench)) {
        if (bench->work.count == 0) {
            assert_true(is_half_used(bench));
            fresh_slot(bench);
            plan_slot_reset(&account);
            continue;
        }
        bench->requests++;
        check_request(bench);
        get_some(bench, model);
        deliver(bench, model, target, &account);
        check_slot(bench, &account, target);
    }
}

static uint64_t true_size(const struct model *model)
{
    uint64_t size = 0;

    for (size_t i = 0; i < model->count; i++)
        if (model->truth[i].dest + model->truth[i].length > size)
            size = model->truth[i].dest + model->truth[i].length;
    return size;
}

static uint64_t true_bytes(const struct model *model)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < model->count; i++)
        bytes += model->truth[i].hole ? 0 : model->truth[i].length;
    return bytes;
}

static void add_model(struct bench *bench, const struct model *model)
{
    for (size_t i = 0; i < model->count; i++)
        assert_int_equal(plan_add(bench->plan, &model->pieces[i]), PLAN_OK);
}

/* A plan without unknown lengths, as often as it would be posted if one slot held everything. */
static size_t count_requests_without_slots(struct bench *bench, const struct model *model,
                                           enum plan_order order, enum plan_target target)
{
    uint64_t max_extents = bench->limits.max_extents;

    begin(bench, order, target);
    bench->slot_bytes = NO_LIMIT;
    bench->limits.max_extents = NO_LIMIT;
    add_model(bench, model);
    seal(bench);
    count_requests(bench);
    bench->limits.max_extents = max_extents;
    return bench->requests;
}

static void fill_holes(struct bench *bench, struct model *model)
{
    plan_fill_holes(bench->plan);
    for (size_t i = 0; i < model->count; i++)
        model->pieces[i].hole = model->truth[i].hole = false;
}

/* Part of the object was there already, and the work goes on behind it. */
static void check_going_on(struct bench *bench, struct model *model, enum plan_target target)
{
    uint64_t kept = draw(true_size(model) + 10);
    struct plan_position at = {0};
    struct plan_entry entry;

    memset(model->delivered, 0, DEST_BYTES);
    while (plan_walk(bench->plan, &at, kept, 1 + (uint32_t)draw(300), &entry)) {
        check_entry(bench, model, &entry);
        assert_true(entry.length > 0 && entry.dest + entry.length <= kept);
        memcpy(model->delivered + entry.dest, model->sources[entry.source] + entry.offset,
               entry.length);
    }
    assert_memory_equal(model->delivered, model->expected, kept);
    memset(model->delivered, 0, kept);
    memset(model->expected, 0, kept);
    fresh_slot(bench);
    plan_start_at(bench->plan, kept);
    carry_out(bench, model, target);
    assert_memory_equal(model->delivered, model->expected, DEST_BYTES);
}

static void check_random_plan(struct bench *bench, struct model *model, enum plan_order order,
                              enum plan_target target)
{
    size_t requests, slots;

    begin(bench, order, target);
    make_limits(bench);
    add_model(bench, model);
    if (!seal_model(bench, model, order))
        return;
    if (chance(30))
        fill_holes(bench, model);
    copy_naively(model);
    carry_out(bench, model, target);
    assert_memory_equal(model->delivered, model->expected, DEST_BYTES);
    assert_int_equal(plan_size(bench->plan), true_size(model));
    assert_int_equal(plan_bytes(bench->plan), true_bytes(model));
    if (model->has_unknown)
        return;
    requests = bench->requests;
    slots = bench->slots;
    if (order == PLAN_BY_DEST)
        check_going_on(bench, model, target);
    assert_true(requests <= count_requests_without_slots(bench, model, order, target) + slots - 1);
}

static void random_plans_deliver_what_a_naive_copy_does(void **state)
{
    struct bench *bench = *state;
    struct model *model = calloc(1, sizeof(*model));

    assert_non_null(model);
    random_state = 20240607;
    for (size_t i = 0; i < RANDOM_SOURCES * SOURCE_BYTES; i++)
        model->sources[i / SOURCE_BYTES][i % SOURCE_BYTES] = (uint8_t)(1 + draw(255));
    for (unsigned i = 0; i < RANDOM_PLANS; i++) {
        make_model(model);
        check_random_plan(bench, model, (enum plan_order)draw(2), (enum plan_target)draw(2));
    }
    free(model);
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup_bench, teardown_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_of_null_does_nothing),
        WITH_BENCH(a_plan_of_nothing_has_no_work),
        WITH_BENCH(a_piece_without_a_place_follows_the_one_added_before),
        WITH_BENCH(pieces_are_sorted_by_place),
        WITH_BENCH(pieces_of_one_place_keep_their_order),
        WITH_BENCH(order_as_given_is_kept),
        WITH_BENCH(entries_name_piece_source_and_offset),
        WITH_BENCH(empty_pieces_make_no_work_but_count_for_the_size),
        WITH_BENCH(overlaps_are_found),
        WITH_BENCH(an_overlap_with_a_piece_that_has_no_place_of_its_own_is_found),
        WITH_BENCH(adjacent_and_empty_pieces_do_not_overlap),
        WITH_BENCH(an_empty_piece_hides_no_overlap),
        WITH_BENCH(overlaps_as_given_apply_in_order),
        WITH_BENCH(small_pieces_give_the_fewest_requests),
        WITH_BENCH(small_pieces_with_gaps_give_the_fewest_requests),
        WITH_BENCH(uneven_small_pieces_are_never_cut),
        WITH_BENCH(a_large_piece_fills_every_slot),
        WITH_BENCH(a_large_piece_is_cut_though_a_fresh_slot_would_hold_it),
        WITH_BENCH(a_request_that_fits_whole_into_a_fresh_slot_is_put_off),
        WITH_BENCH(what_fits_to_the_last_byte_is_not_put_off),
        WITH_BENCH(the_last_request_of_a_slot_is_put_off_at_a_pieces_end_too),
        WITH_BENCH(a_slot_less_than_half_used_is_filled),
        WITH_BENCH(a_piece_of_an_eighth_of_a_slot_is_small),
        WITH_BENCH(pieces_that_no_slot_holds_together_are_cut),
        WITH_BENCH(a_request_that_no_slot_holds_whole_is_not_put_off),
        WITH_BENCH(a_request_is_cut_at_max_bytes),
        WITH_BENCH(a_request_of_one_byte_is_possible),
        WITH_BENCH(pieces_of_one_request_adjoin_in_a_region),
        WITH_BENCH(extents_do_not_limit_a_region),
        WITH_BENCH(extents_of_a_slot_are_counted),
        WITH_BENCH(a_slot_without_extents_left_takes_what_adjoins),
        WITH_BENCH(a_piece_goes_on_in_its_extent),
        WITH_BENCH(fewer_extents_than_entries_end_every_slot),
        WITH_BENCH(a_slot_with_less_than_half_of_its_extents_is_filled),
        WITH_BENCH(a_hundred_thousand_pieces_are_planned),
        WITH_BENCH(an_entry_is_no_longer_than_32_bits),
        WITH_BENCH(max_bytes_of_2_to_the_32_hold),
        WITH_BENCH(the_largest_object_is_planned),
        WITH_BENCH(places_past_the_largest_object_overflow),
        WITH_BENCH(a_follower_past_the_largest_object_overflows),
        WITH_BENCH(lengths_and_offsets_past_the_largest_object_overflow),
        WITH_BENCH(a_piece_of_unknown_length_is_offered_the_room),
        WITH_BENCH(a_piece_of_unknown_length_keeps_to_the_limits),
        WITH_BENCH(nothing_got_leaves_the_slot_as_it_was),
        WITH_BENCH(pieces_follow_where_the_unknown_length_ended),
        WITH_BENCH(a_place_after_an_unknown_length_is_unordered),
        WITH_BENCH(known_pieces_end_before_an_unknown_length),
        WITH_BENCH(known_pieces_are_sorted_before_an_unknown_length),
        WITH_BENCH(known_pieces_that_overlap_are_found_before_an_unknown_length),
        WITH_BENCH(unknown_lengths_as_given_may_stand_anywhere),
        WITH_BENCH(a_source_of_unknown_length_may_begin_at_the_largest_offset),
        WITH_BENCH(what_is_got_past_the_largest_object_overflows),
        WITH_BENCH(a_follower_of_an_unknown_length_may_overflow),
        WITH_BENCH(a_hole_is_placed_but_not_sent),
        WITH_BENCH(a_plan_of_holes_has_no_work),
        WITH_BENCH(a_request_ends_at_a_hole_in_a_region),
        WITH_BENCH(holes_take_extents_as_gaps_do),
        WITH_BENCH(holes_overlap_as_any_piece),
        WITH_BENCH(holes_follow_an_unknown_length),
        WITH_BENCH(holes_count_towards_the_largest_object),
        WITH_BENCH(holes_that_are_filled_are_ordinary_pieces),
        WITH_BENCH(work_begins_where_it_is_told),
        WITH_BENCH(work_may_begin_anew_amid_a_piece),
        WITH_BENCH(work_may_begin_amid_a_hole_that_is_filled),
        WITH_BENCH(a_walk_gives_what_is_sent_below_a_place),
        WITH_BENCH(a_walk_gives_the_largest_object),
        WITH_BENCH(random_plans_deliver_what_a_naive_copy_does),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}

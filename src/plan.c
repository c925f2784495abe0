/*
 * plan.c - turns segments and limits into work requests.
 */
#include "config.h"

#include "plan.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

#define FIRST_CAPACITY 16
#define LARGE_PIECES_IN_SLOT 8 /* a piece is large that a slot does not hold so often */
#define NO_PIECE SIZE_MAX

struct placed_piece {
    struct plan_piece piece;
    size_t added_as;
};

struct plan {
    enum plan_order order;
    enum plan_target target;
    struct placed_piece *pieces;
    size_t count, capacity;
    size_t unknown; /* pieces of unknown length */
    uint64_t size;  /* of the pieces whose place and length are known */
    uint64_t bytes; /* of the pieces whose length is known, holes among them */
    uint64_t hole_bytes;
    struct plan_position next;
    uint64_t awaited;            /* bytes at most that plan_got is to tell of; 0: none */
    struct plan_slot before_got; /* the slot's account without them */
};

/* Why a request takes no further entry. */
enum stop {
    STOP_NONE = 0,
    STOP_REQUEST, /* a limit of its own, or what follows cannot be part of it */
    STOP_ROOM,    /* the slot has no more room */
    STOP_EXTENTS, /* the slot takes no more destination runs */
};

struct request {
    struct plan_position at; /* behind its last entry */
    struct plan_slot slot;   /* the slot's account with it */
    unsigned count;
    uint64_t bytes;
    enum stop stop;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* False when the sum is past INT64_MAX. */
static bool add_size(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum) && *sum <= INT64_MAX;
}

struct plan *plan_new(enum plan_order order, enum plan_target target)
{
    struct plan *plan = calloc(1, sizeof(*plan));

    if (plan) {
        plan->order = order;
        plan->target = target;
    }
    return plan;
}

void plan_free(struct plan *plan)
{
    if (plan)
        free(plan->pieces);
    free(plan);
}

/*
 * Adding and placing
 */

static enum plan_result grow(struct plan *plan)
{
    size_t capacity = plan->capacity ? 2 * plan->capacity : FIRST_CAPACITY;
    struct placed_piece *pieces;

    if (capacity > UINT_MAX)
        return PLAN_MEMORY;
    pieces = reallocarray(plan->pieces, capacity, sizeof(*pieces));
    if (!pieces)
        return PLAN_MEMORY;
    plan->pieces = pieces;
    plan->capacity = capacity;
    return PLAN_OK;
}

enum plan_result plan_add(struct plan *plan, const struct plan_piece *piece)
{
    uint64_t source_end, bytes = plan->bytes;
    bool known = piece->length != PLAN_UNKNOWN;

    assert(known || !piece->hole);
    if (!add_size(piece->offset, known ? piece->length : 0, &source_end) ||
        (known && !add_size(plan->bytes, piece->length, &bytes)))
        return PLAN_OVERFLOW;
    if (plan->count == plan->capacity && grow(plan) != PLAN_OK)
        return PLAN_MEMORY;
    plan->pieces[plan->count] = (struct placed_piece){*piece, plan->count};
    plan->count++;
    plan->bytes = bytes;
    plan->hole_bytes += piece->hole ? piece->length : 0;
    plan->unknown += !known;
    return PLAN_OK;
}

/* Where a piece ends in the destination, PLAN_UNKNOWN as long as its place or its length is. */
static uint64_t piece_end(const struct plan *plan, size_t index)
{
    const struct plan_piece *piece = &plan->pieces[index].piece;

    if (piece->dest == PLAN_UNKNOWN || piece->length == PLAN_UNKNOWN)
        return PLAN_UNKNOWN;
    return piece->dest + piece->length;
}

static enum plan_result place(struct plan *plan, size_t index)
{
    struct plan_piece *piece = &plan->pieces[index].piece;
    uint64_t end;

    if (piece->dest == PLAN_UNKNOWN)
        piece->dest = index > 0 ? piece_end(plan, index - 1) : 0;
    if (piece->dest == PLAN_UNKNOWN)
        return PLAN_OK;
    if (!add_size(piece->dest, piece->length == PLAN_UNKNOWN ? 0 : piece->length, &end))
        return PLAN_OVERFLOW;
    if (end > plan->size)
        plan->size = end;
    return PLAN_OK;
}

static size_t first_unknown(const struct plan *plan)
{
    size_t index = 0;

    while (index < plan->count && plan->pieces[index].piece.length != PLAN_UNKNOWN)
        index++;
    return index;
}

static enum plan_result place_all(struct plan *plan, size_t *a, size_t *b)
{
    size_t unknown = first_unknown(plan);

    for (size_t i = 0; i < plan->count; i++) {
        if (plan->order == PLAN_BY_DEST && i > unknown &&
            plan->pieces[i].piece.dest != PLAN_UNKNOWN) {
            *a = unknown;
            *b = i;
            return PLAN_UNORDERED;
        }
        if (place(plan, i) != PLAN_OK) {
            *a = *b = i;
            return PLAN_OVERFLOW;
        }
    }
    return PLAN_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct placed_piece *left = a, *right = b;

    if (left->piece.dest != right->piece.dest)
        return left->piece.dest < right->piece.dest ? -1 : 1;
    return left->added_as < right->added_as ? -1 : left->added_as > right->added_as;
}

static enum plan_result conflict(const struct plan *plan, enum plan_result result, size_t i,
                                 size_t j, size_t *a, size_t *b)
{
    size_t first = plan->pieces[i].added_as, second = plan->pieces[j].added_as;

    *a = first < second ? first : second;
    *b = first < second ? second : first;
    return result;
}

/* The first pieces, known of them, are sorted; what is behind them has no place of its own. */
static enum plan_result check_order(const struct plan *plan, size_t known, size_t *a, size_t *b)
{
    size_t last = NO_PIECE;

    for (size_t i = 0; i < known; i++) {
        if (plan->pieces[i].piece.length == 0)
            continue;
        if (last != NO_PIECE && plan->pieces[i].piece.dest < piece_end(plan, last))
            return conflict(plan, PLAN_OVERLAP, last, i, a, b);
        last = i;
    }
    if (known == plan->count || last == NO_PIECE)
        return PLAN_OK;
    if (plan->pieces[last].piece.dest > plan->pieces[known].piece.dest)
        return conflict(plan, PLAN_UNORDERED, last, known, a, b);
    if (piece_end(plan, last) > plan->pieces[known].piece.dest)
        return conflict(plan, PLAN_OVERLAP, last, known, a, b);
    return PLAN_OK;
}

enum plan_result plan_seal(struct plan *plan, size_t *a, size_t *b)
{
    enum plan_result result = place_all(plan, a, b);
    size_t known;

    if (result != PLAN_OK || plan->order == PLAN_AS_GIVEN || plan->count == 0)
        return result;
    known = first_unknown(plan);
    qsort(plan->pieces, known, sizeof(*plan->pieces), compare_places);
    return check_order(plan, known, a, b);
}

uint64_t plan_size(const struct plan *plan)
{
    return plan->unknown ? PLAN_UNKNOWN : plan->size;
}

uint64_t plan_bytes(const struct plan *plan)
{
    return plan->unknown ? PLAN_UNKNOWN : plan->bytes - plan->hole_bytes;
}

void plan_fill_holes(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        plan->pieces[i].piece.hole = false;
    plan->hole_bytes = 0;
}

size_t plan_count(const struct plan *plan)
{
    return plan->count;
}

const struct plan_piece *plan_piece(const struct plan *plan, size_t index, size_t *added_as)
{
    assert(index < plan->count);
    if (added_as)
        *added_as = plan->pieces[index].added_as;
    return &plan->pieces[index].piece;
}

/*
 * Work requests
 */

void plan_slot_reset(struct plan_slot *slot)
{
    *slot = (struct plan_slot){.last_end = PLAN_UNKNOWN};
}

static void slot_add(struct plan_slot *slot, uint64_t dest, uint64_t length)
{
    if (dest != slot->last_end)
        slot->extents++;
    slot->used += length;
    slot->last_end = dest + length;
}

/* Moves on to the next byte there is to send; NULL when there is none. */
static const struct plan_piece *next_piece(const struct plan *plan, struct plan_position *at)
{
    for (; at->index < plan->count; at->index++, at->done = 0) {
        const struct plan_piece *piece = &plan->pieces[at->index].piece;

        if (!piece->hole && at->done < piece->length)
            return piece;
    }
    return NULL;
}

/* Whether a piece can be part of a request that has entries. */
static bool joins(const struct plan *plan, const struct request *request,
                  const struct plan_piece *piece)
{
    if (piece->length == PLAN_UNKNOWN)
        return false;
    return plan->target == PLAN_TARGET_SLOT ||
           piece->dest + request->at.done == request->slot.last_end;
}

static bool exceeds_extents(const struct plan *plan, const struct plan_limits *limits,
                            const struct request *request, const struct plan_piece *piece)
{
    return plan->target == PLAN_TARGET_SLOT &&
           piece->dest + request->at.done != request->slot.last_end &&
           request->slot.extents >= limits->max_extents;
}

static enum stop find_stop(const struct plan *plan, const struct plan_limits *limits,
                           uint64_t slot_bytes, const struct request *request,
                           const struct plan_piece *piece)
{
    bool is_full = request->slot.used >= slot_bytes;
    bool is_in_mid_piece = request->at.done > 0;

    if (request->bytes == limits->max_bytes)
        return STOP_REQUEST;
    if (is_full && is_in_mid_piece)
        return STOP_ROOM;
    if (request->count == limits->max_sge || (request->count > 0 && !joins(plan, request, piece)))
        return STOP_REQUEST;
    if (is_full)
        return STOP_ROOM;
    return exceeds_extents(plan, limits, request, piece) ? STOP_EXTENTS : STOP_NONE;
}

static bool is_stopped_by_slot(const struct request *request)
{
    return request->stop == STOP_ROOM || request->stop == STOP_EXTENTS;
}

static struct plan_entry make_entry(const struct plan_piece *piece, const struct plan_position *at,
                                    uint64_t limit)
{
    return (struct plan_entry){
        .piece = (unsigned)at->index,
        .source = piece->source,
        .offset = piece->offset + at->done,
        .length = (uint32_t)least(least(piece->length - at->done, limit), UINT32_MAX),
        .dest = piece->dest + at->done,
    };
}

static void request_add(struct request *request, const struct plan_entry *entry)
{
    request->count++;
    request->bytes += entry->length;
    request->at.done += entry->length;
    slot_add(&request->slot, entry->dest, entry->length);
}

/* The request that a slot takes next. entries may be NULL: it is only measured. */
static struct request gather(const struct plan *plan, const struct plan_limits *limits,
                             uint64_t slot_bytes, const struct plan_slot *slot,
                             struct plan_entry *entries)
{
    struct request request = {.at = plan->next, .slot = *slot};
    const struct plan_piece *piece;

    while ((piece = next_piece(plan, &request.at))) {
        struct plan_entry entry;

        request.stop = find_stop(plan, limits, slot_bytes, &request, piece);
        if (request.stop != STOP_NONE)
            break;
        entry = make_entry(
            piece, &request.at,
            least(limits->max_bytes - request.bytes, slot_bytes - request.slot.used));
        if (entries)
            entries[request.count] = entry;
        request_add(&request, &entry);
        if (piece->length == PLAN_UNKNOWN)
            break;
    }
    return request;
}

/* A slot that holds few of a piece would stay rather empty for the sake of it. */
static bool is_large(const struct plan *plan, size_t index, uint64_t slot_bytes)
{
    return plan->pieces[index].piece.length > slot_bytes / LARGE_PIECES_IN_SLOT;
}

static bool is_half_used(const struct plan_limits *limits, uint64_t slot_bytes,
                         const struct plan_slot *slot, enum stop stop)
{
    if (stop == STOP_EXTENTS)
        return slot->extents >= limits->max_extents - limits->max_extents / 2;
    return slot->used >= slot_bytes - slot_bytes / 2;
}

static bool better_put_off(const struct plan *plan, const struct plan_limits *limits,
                           uint64_t slot_bytes, const struct plan_slot *slot,
                           const struct request *request)
{
    struct plan_slot fresh;
    struct request whole;

    if (limits->fill_slots || !is_stopped_by_slot(request) || !is_half_used(limits, slot_bytes, slot, request->stop))
        return false;
    if (request->stop == STOP_ROOM && is_large(plan, request->at.index, slot_bytes))
        return false;
    plan_slot_reset(&fresh);
    whole = gather(plan, limits, slot_bytes, &fresh, NULL);
    return !is_stopped_by_slot(&whole);
}

bool plan_next(struct plan *plan, const struct plan_limits *limits, uint64_t slot_bytes,
               struct plan_slot *slot, struct plan_work *work)
{
    const struct plan_piece *piece = next_piece(plan, &plan->next);
    struct request request;

    assert(slot_bytes > 0 && limits->max_sge > 0);
    assert(limits->max_bytes > 0 && limits->max_extents > 0);
    assert(plan->awaited == 0);
    if (!piece)
        return false;
    request = gather(plan, limits, slot_bytes, slot, work->entries);
    if (request.count == 0 || better_put_off(plan, limits, slot_bytes, slot, &request)) {
        work->count = 0;
        work->bytes = 0;
        work->ends_slot = true;
        return true;
    }
    if (piece->length == PLAN_UNKNOWN) {
        plan->awaited = request.bytes;
        plan->before_got = *slot;
    } else {
        plan->next = request.at;
    }
    *slot = request.slot;
    work->count = request.count;
    work->bytes = request.bytes;
    work->ends_slot = slot->used >= slot_bytes;
    return true;
}

/* Places the pieces behind one whose length has become known, up to the next that has a place. */
static enum plan_result place_followers(struct plan *plan, size_t index)
{
    while (++index < plan->count && plan->pieces[index].piece.dest == PLAN_UNKNOWN &&
           piece_end(plan, index - 1) != PLAN_UNKNOWN)
        if (place(plan, index) != PLAN_OK)
            return PLAN_OVERFLOW;
    return PLAN_OK;
}

static enum plan_result end_piece(struct plan *plan, size_t index, uint64_t length)
{
    plan->pieces[index].piece.length = length;
    plan->unknown--;
    return place_followers(plan, index);
}

enum plan_result plan_got(struct plan *plan, struct plan_slot *slot, uint64_t got, bool ended)
{
    const struct plan_piece *piece = &plan->pieces[plan->next.index].piece;
    uint64_t done = plan->next.done + got;
    uint64_t source_end, dest_end;

    assert(plan->awaited > 0 && got <= plan->awaited);
    plan->awaited = 0;
    *slot = plan->before_got;
    if (!add_size(plan->bytes, got, &plan->bytes) || !add_size(piece->offset, done, &source_end) ||
        !add_size(piece->dest, done, &dest_end))
        return PLAN_OVERFLOW;
    if (got > 0)
        slot_add(slot, piece->dest + plan->next.done, got);
    if (dest_end > plan->size)
        plan->size = dest_end;
    plan->next.done = done;
    return ended ? end_piece(plan, plan->next.index, done) : PLAN_OK;
}

/*
 * Going on from within
 */

static bool is_all_known_by_dest(const struct plan *plan)
{
    return plan->order == PLAN_BY_DEST && plan->unknown == 0;
}

void plan_start_at(struct plan *plan, uint64_t dest)
{
    size_t index = 0;
    uint64_t place;

    assert(is_all_known_by_dest(plan) && plan->awaited == 0);
    while (index < plan->count && piece_end(plan, index) <= dest)
        index++;
    place = index < plan->count ? plan->pieces[index].piece.dest : dest;
    plan->next = (struct plan_position){index, dest > place ? dest - place : 0};
}

bool plan_walk(const struct plan *plan, struct plan_position *at, uint64_t limit_dest,
               uint32_t most_bytes, struct plan_entry *entry)
{
    const struct plan_piece *piece = next_piece(plan, at);
    uint64_t dest;

    assert(is_all_known_by_dest(plan) && most_bytes > 0);
    if (!piece)
        return false;
    dest = piece->dest + at->done;
    if (dest >= limit_dest)
        return false;
    *entry = make_entry(piece, at, least(most_bytes, limit_dest - dest));
    at->done += entry->length;
    return true;
}

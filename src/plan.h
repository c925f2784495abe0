/*
 * plan.h - turns segments and limits into work requests.
 *
 * A plan is a list of pieces, each a range of a source with a place in the destination. From it the
 * caller takes one work request after another: at most max_sge gather entries, one per piece or
 * part of a piece, whose bytes lie at one contiguous remote range. Pure: no memory is touched, no
 * file is read. A piece may have an unknown length (a pipe): the caller says how much there was.
 *
 * A piece may be a hole: a range of a source that is all zeros, and that the destination gets as a
 * gap. It is placed, ordered and checked for overlaps as any piece, other pieces follow it, and it
 * counts for the object's size; but it is not sent, and plan_bytes leaves it out. What lies behind
 * it is another run of destination bytes. With PLAN_AS_GIVEN it leaves what earlier pieces put
 * there. plan_fill_holes is for a destination whose gaps are no zeros.
 */
#ifndef RDMAPUT_PLAN_H
#define RDMAPUT_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAN_UNKNOWN UINT64_MAX

struct plan_piece {
    unsigned source;  /* which source, an index of the caller's */
    uint64_t offset;  /* in the source, bytes */
    uint64_t length;  /* bytes; PLAN_UNKNOWN until the source ends */
    uint64_t dest;    /* in the destination, bytes; PLAN_UNKNOWN: right after the piece before it */
    bool hole;        /* zeros that are not sent; its length is known */
};

/* The order in which pieces are sent. */
enum plan_order {
    PLAN_AS_GIVEN, /* as they were added; overlaps apply in order (post) */
    PLAN_BY_DEST,  /* by their place in the destination; overlaps are refused (write) */
};

/* How a work request's remote range comes about. */
enum plan_target {
    PLAN_TARGET_REGION, /* at the pieces' own places: pieces of one request must adjoin there */
    PLAN_TARGET_SLOT,   /* packed into a slot, whatever their places: the extents are told apart */
};

enum plan_result {
    PLAN_OK = 0,
    PLAN_OVERLAP,   /* two pieces share destination bytes */
    PLAN_OVERFLOW,  /* an offset past INT64_MAX, in a source or the destination; or as many bytes,
                     * holes counted */
    PLAN_UNORDERED, /* PLAN_BY_DEST, and a piece of unknown length may run into one with a place */
    PLAN_MEMORY,
};

struct plan; /* opaque */

struct plan_limits {
    unsigned max_sge;     /* gather entries in a work request, at least 1 */
    uint64_t max_bytes;   /* bytes in a work request, at least 1: max_msg_sz, or max_inline_data */
    uint64_t max_extents; /* runs of destination bytes in a slot, at least 1 (slot targets only) */
    bool fill_slots;      /* nothing is put off: every slot is filled as far as limits allow */
};

/* One gather entry: bytes of a source. */
struct plan_entry {
    unsigned piece;  /* index in the order of sending */
    unsigned source;
    uint64_t offset; /* in the source */
    uint32_t length; /* bytes; an upper bound while the piece's length is unknown */
    uint64_t dest;   /* in the destination */
};

/* One work request. */
struct plan_work {
    struct plan_entry *entries; /* the caller's array of max_sge entries */
    unsigned count;
    uint64_t bytes; /* of all entries */
    bool ends_slot; /* no more work fits into this slot: begin another */
};

struct plan *plan_new(enum plan_order order, enum plan_target target);
void plan_free(struct plan *plan);

/* Adds a piece. Pieces of length 0 are kept out of the work, but count for the object's size.
 * PLAN_OVERFLOW, PLAN_MEMORY: nothing was added. */
enum plan_result plan_add(struct plan *plan, const struct plan_piece *piece);

/*
 * Places and orders the pieces; checks for overlaps. To be called once, after the last plan_add.
 *
 * With PLAN_BY_DEST, pieces are sorted by their place, those with the same place (all but one of
 * them empty) as they were added. A piece of unknown length has to come last, since nobody knows
 * what it will run into: only pieces without a place of their own may be added after it, else
 * PLAN_UNORDERED; they follow it in the order in which they were added, and may be of unknown
 * length too. Those added before it are sorted and must end where it starts or before; one that
 * reaches across its start is a PLAN_OVERLAP, one that starts behind it PLAN_UNORDERED. Empty
 * pieces are in nobody's way. PLAN_AS_GIVEN refuses none of this.
 *
 * On failure *a <= *b are the pieces it concerns, as counted by plan_add from 0: the two that are
 * in each other's way, or for PLAN_OVERFLOW twice the same one.
 */
enum plan_result plan_seal(struct plan *plan, size_t *a, size_t *b);

/* The size of the destination: where the last piece ends; PLAN_UNKNOWN while a length is. */
uint64_t plan_size(const struct plan *plan);

/* The bytes to send in all, without holes; PLAN_UNKNOWN while a length is. */
uint64_t plan_bytes(const struct plan *plan);

/* Makes ordinary pieces of the holes, to be read and sent like any. After plan_seal, before the
 * first plan_next. */
void plan_fill_holes(struct plan *plan);

/* How many pieces there are, holes among them, and each of them in the order of sending. Its place
 * is filled in, unless it follows a piece of unknown length. added_as may be NULL. */
size_t plan_count(const struct plan *plan);
const struct plan_piece *plan_piece(const struct plan *plan, size_t index, size_t *added_as);

/* The account of a slot, or of a registered buffer: the same thing for a region target. The caller
 * keeps it, one for the slot being filled, and resets it for each fresh slot. */
struct plan_slot {
    uint64_t used;     /* bytes of the slot in use */
    uint64_t extents;  /* destination runs in it */
    uint64_t last_end; /* where its last run ends in the destination; PLAN_UNKNOWN when empty */
};

void plan_slot_reset(struct plan_slot *slot);

/*
 * The next work request, into what is left of a slot of slot_bytes (at least 1). *slot counts it.
 *
 * Returns true with *work filled: either count entries, or none (count 0 and ends_slot), because
 * what comes next does not fit into the room well: the caller goes on with a fresh slot, where it
 * always fits. Returns false when the plan is done.
 *
 * Where the slot ends a request that would go on, it is cut there, or put off to the next slot.
 * Put off is what fits whole into a fresh slot, so that slots do not raise the number of work
 * requests: n pieces of 100 bytes give ceil(n / max_sge). But a slot is never left less than half
 * used, nor for the sake of a large piece, one of more than an eighth of a slot: it fills the room.
 * So requests of up to half a slot, of pieces of up to an eighth, are never cut by slots, nor are
 * those of equal pieces of up to an eighth that fit into a slot at all; and each slot adds at most
 * one request. The same holds for max_extents, but for the pieces' sizes.
 *
 * A piece of unknown length gives a work request of one entry of the largest length that fits; the
 * caller must call plan_got with the bytes there really were before the next plan_next.
 */
bool plan_next(struct plan *plan, const struct plan_limits *limits, uint64_t slot_bytes,
               struct plan_slot *slot, struct plan_work *work);

/*
 * For the piece of unknown length just planned: there were got bytes, at most the entry's length,
 * and it ended there if ended. Shrinks slot's account to what was got, and places the pieces that
 * follow. PLAN_OVERFLOW when an offset or the bytes get too large: the plan cannot be used further.
 */
enum plan_result plan_got(struct plan *plan, struct plan_slot *slot, uint64_t got, bool ended);

/*
 * Going on from within an object, part of which is there already: for a sealed plan with
 * PLAN_BY_DEST whose lengths are all known.
 */

/* From here on the work is what has its place at dest or behind it: a piece across dest is cut.
 * It may go back; dest 0 is the whole work again. */
void plan_start_at(struct plan *plan, uint64_t dest);

/* A byte of the plan: before the first one when all is 0. */
struct plan_position {
    size_t index;  /* of a piece, in the order of sending */
    uint64_t done; /* bytes of it that lie before */
};

/* The next bytes to send behind *at whose place is below limit_dest, at most most_bytes (at least
 * 1) of one piece; *at moves behind them. False when there are none left. Apart from plan_next,
 * which it does not touch. */
bool plan_walk(const struct plan *plan, struct plan_position *at, uint64_t limit_dest,
               uint32_t most_bytes, struct plan_entry *entry);

#endif

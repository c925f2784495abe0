/*
 * window.h - the account of slots: which are granted, which are filled, which are at the peer.
 *
 * A slot goes round: GRANTED (the client may write into it) -> FILLING (the client does; the server
 * cannot tell) -> SENT (announced, the server stores it) -> GRANTED again. FREE is nobody's. Pure;
 * every step is checked, since the peer's messages drive it.
 */
#ifndef RDMAPUT_WINDOW_H
#define RDMAPUT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define WINDOW_MAX_SLOTS 64

enum window_state {
    WINDOW_FREE = 0,
    WINDOW_GRANTED,
    WINDOW_FILLING,
    WINDOW_SENT
};

/* What a slot is at the server: a range of the object that is on its way, or an ordinary one. */
struct window_place {
    uint64_t offset, length; /* in the object, bytes; length 0: an ordinary one */
    uint64_t remote_addr;
    uint32_t rkey;
};

struct window {
    unsigned count;
    uint8_t state[WINDOW_MAX_SLOTS];
    uint64_t bytes[WINDOW_MAX_SLOTS];             /* announced in the slot */
    struct window_place places[WINDOW_MAX_SLOTS]; /* as the client knows them */
    uint64_t acknowledged;                        /* bytes of slots that came back */
};

/* count slots, 1 to WINDOW_MAX_SLOTS, all granted. false when count is out of range. */
bool window_init(struct window *window, unsigned count);

/* The lowest granted slot, which becomes FILLING, or -1 when none is. */
int window_take(struct window *window);

/* As window_take, for this slot. false when it is not granted, or there is none. */
bool window_take_slot(struct window *window, unsigned slot);

/* A slot becomes a range of the object. */
void window_place(struct window *window, unsigned slot, const struct window_place *place);

/* All slots are ordinary ones again. */
void window_unplace(struct window *window);

/* A slot that was FILLING (the client) or GRANTED (the server, on hearing of it) is SENT with that
 * many bytes, and an ordinary one from then on. false if it was neither, or there is no such slot. */
bool window_sent(struct window *window, unsigned slot, uint64_t bytes);

/* A sent slot is granted again and its bytes count as acknowledged. false if it was not SENT, or
 * the sum overflows. */
bool window_granted(struct window *window, unsigned slot);

/* A filling slot that was not used after all is granted again. false if it was not FILLING. */
bool window_put_back(struct window *window, unsigned slot);

/* How many slots are in a state. */
unsigned window_in_state(const struct window *window, enum window_state state);

#endif

/*
 * window.c - the account of slots.
 */
#include "config.h"

#include "window.h"

#include <assert.h>
#include <string.h>

static bool is_in_state(const struct window *window, unsigned slot, enum window_state state)
{
    return slot < window->count && window->state[slot] == state;
}

bool window_init(struct window *window, unsigned count)
{
    if (count < 1 || count > WINDOW_MAX_SLOTS)
        return false;
    *window = (struct window){.count = count};
    for (unsigned slot = 0; slot < count; slot++)
        window->state[slot] = WINDOW_GRANTED;
    return true;
}

bool window_take_slot(struct window *window, unsigned slot)
{
    if (slot >= window->count || window->state[slot] != WINDOW_GRANTED)
        return false;
    window->state[slot] = WINDOW_FILLING;
    return true;
}

int window_take(struct window *window)
{
    for (unsigned slot = 0; slot < window->count; slot++) {
        if (window->state[slot] == WINDOW_GRANTED) {
            window->state[slot] = WINDOW_FILLING;
            return (int)slot;
        }
    }
    return -1;
}

void window_place(struct window *window, unsigned slot, const struct window_place *place)
{
    assert(slot < window->count);
    window->places[slot] = *place;
}

void window_unplace(struct window *window)
{
    memset(window->places, 0, sizeof(window->places));
}

bool window_sent(struct window *window, unsigned slot, uint64_t bytes)
{
    if (!is_in_state(window, slot, WINDOW_FILLING) && !is_in_state(window, slot, WINDOW_GRANTED))
        return false;
    window->state[slot] = WINDOW_SENT;
    window->bytes[slot] = bytes;
    window->places[slot] = (struct window_place){.length = 0};
    return true;
}

bool window_granted(struct window *window, unsigned slot)
{
    uint64_t acknowledged;

    if (!is_in_state(window, slot, WINDOW_SENT))
        return false;
    if (__builtin_add_overflow(window->acknowledged, window->bytes[slot], &acknowledged))
        return false;
    window->acknowledged = acknowledged;
    window->bytes[slot] = 0;
    window->state[slot] = WINDOW_GRANTED;
    return true;
}

bool window_put_back(struct window *window, unsigned slot)
{
    if (!is_in_state(window, slot, WINDOW_FILLING))
        return false;
    window->state[slot] = WINDOW_GRANTED;
    return true;
}

unsigned window_in_state(const struct window *window, enum window_state state)
{
    unsigned found = 0;

    for (unsigned slot = 0; slot < window->count; slot++)
        found += window->state[slot] == state;
    return found;
}

/*
 * fake-memory.c - the registrations of an adapter that is none: keys, bounds, domains and rights.
 */
#include "fake-memory.h"

#include <stdlib.h>

#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct fake_registration {
    struct ibv_mr mr;
    int access;
    struct fake_registration *next;
};

struct ibv_mr *fake_memory_register(struct fake_memory *memory, struct ibv_pd *pd, void *addr,
                                    size_t length, int access)
{
    struct fake_registration *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->mr.context = pd->context;
    new->mr.pd = pd;
    new->mr.addr = addr;
    new->mr.length = length;
    new->mr.lkey = ++memory->last_key;
    new->mr.rkey = UINT32_C(0x80000000) | memory->last_key;
    new->access = access;
    new->next = memory->first;
    memory->first = new;
    memory->count++;
    memory->bytes += length;
    return &new->mr;
}

bool fake_memory_deregister(struct fake_memory *memory, struct ibv_mr *mr)
{
    struct fake_registration **at = &memory->first;
    struct fake_registration *found;

    while (*at && &(*at)->mr != mr)
        at = &(*at)->next;
    found = *at;
    if (!found)
        return false;
    *at = found->next;
    memory->count--;
    memory->bytes -= mr->length;
    free(found);
    return true;
}

void fake_memory_deregister_all(struct fake_memory *memory)
{
    while (memory->first)
        fake_memory_deregister(memory, &memory->first->mr);
}

static bool holds(const struct ibv_mr *mr, uint64_t addr, uint64_t length)
{
    uint64_t start = (uintptr_t)mr->addr;

    return addr >= start && addr - start <= mr->length && length <= mr->length - (addr - start);
}

bool fake_memory_allows(const struct fake_memory *memory, const struct ibv_pd *pd, uint32_t key,
                        uint64_t addr, uint64_t length, int access)
{
    bool is_remote = access & REMOTE_RIGHTS;

    if (length == 0)
        return true;
    for (const struct fake_registration *at = memory->first; at; at = at->next)
        if ((is_remote ? at->mr.rkey : at->mr.lkey) == key)
            return at->mr.pd == pd && (at->access & access) == access &&
                   holds(&at->mr, addr, length);
    return false;
}

bool fake_memory_uses(const struct fake_memory *memory, const struct ibv_pd *pd)
{
    for (const struct fake_registration *at = memory->first; at; at = at->next)
        if (at->mr.pd == pd)
            return true;
    return false;
}

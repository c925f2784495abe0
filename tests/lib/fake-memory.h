/*
 * fake-memory.h - the registrations of an adapter that is none: keys, bounds, domains and rights.
 *
 * An lkey never equals an rkey here, as they often do on soft devices.
 */
#ifndef FAKE_MEMORY_H
#define FAKE_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_memory {
    struct fake_registration *first;
    unsigned count;      /* registrations that are in effect */
    unsigned long bytes; /* of them */
    uint32_t last_key;
};

/* Registers memory; NULL with errno. */
struct ibv_mr *fake_memory_register(struct fake_memory *memory, struct ibv_pd *pd, void *addr,
                                    size_t length, int access);

/* false: it is not registered. */
bool fake_memory_deregister(struct fake_memory *memory, struct ibv_mr *mr);

void fake_memory_deregister_all(struct fake_memory *memory);

/*
 * Whether all of the range lies in a registration of the domain that key stands for, with the
 * rights of access: for remote ones key is an rkey, else an lkey. No bytes need no registration.
 */
bool fake_memory_allows(const struct fake_memory *memory, const struct ibv_pd *pd, uint32_t key,
                        uint64_t addr, uint64_t length, int access);

/* Whether a domain has registrations. */
bool fake_memory_uses(const struct fake_memory *memory, const struct ibv_pd *pd);

#endif

/*
 * memory.h - page-aligned memory, registered with the device.
 *
 * Memory comes straight from mmap(2), in whole pages, so that nothing else shares its pages.
 */
#ifndef RDMAPUT_MEMORY_H
#define RDMAPUT_MEMORY_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct memory {
    uint8_t *addr;
    size_t bytes;      /* as asked for; the mapping has whole pages */
    struct ibv_mr *mr; /* NULL while not registered */
};

/* Maps bytes (at least 1) of zeroed memory. 0, or -1 with *err (ERROR_RESOURCE). */
int memory_map(struct memory *memory, size_t bytes, struct error *err);

/* Maps bytes of a file that is open for reading and writing, from an offset of whole pages on. What
 * is written there is the file's. 0, or -1 with *err. */
int memory_map_file(struct memory *memory, int fd, uint64_t offset, size_t bytes,
                    struct error *err);

/* Registers it for messages, and as their local side for writes, in the domain of the id's
 * queue pair: rdma_reg_msgs(3). -1 with *err says what was to be pinned and what the limit is. */
int memory_register_messages(struct memory *memory, struct rdma_cm_id *id, const char *what,
                             struct error *err);

/* Registers it so that the peer of the id may write into it: rdma_reg_write(3). */
int memory_register_write(struct memory *memory, struct rdma_cm_id *id, const char *what,
                          struct error *err);

/*
 * Maps and registers *count buffers of *size bytes as one piece of memory, or fewer and smaller
 * ones where the limit of locked memory allows no more: first smaller down to 64 KiB, then fewer
 * down to two, then smaller down to a page, then one. remote: as memory_register_write, else as
 * memory_register_messages. *count and *size become what there is.
 */
int memory_register_buffers(struct memory *memory, struct rdma_cm_id *id, bool remote,
                            unsigned *count, size_t *size, const char *what, struct error *err);

/* Makes *count and *size less, in the same order, until all the buffers have at most limit bytes, or
 * there is no less. */
void memory_fit_buffers(unsigned *count, size_t *size, uint64_t limit);

/* The same rights as memory_register_write, in a domain that belongs to no connection yet. */
int memory_register_region(struct memory *memory, struct ibv_pd *pd, const char *what,
                           struct error *err);

/* Registers it so that the peer may read it, and no more. */
int memory_register_read(struct memory *memory, struct ibv_pd *pd, const char *what,
                         struct error *err);

/* From here on no device reaches it. */
void memory_deregister(struct memory *memory);

/* Deregisters and unmaps. Fine for one that was never mapped, when zeroed. */
void memory_free(struct memory *memory);

/* Where the limit of locked memory is raised. Static storage. */
const char *memory_limit_hint(void);

/* The same of the limit of open files. */
const char *memory_files_hint(void);

/* Whether *err is that memory could not be registered, or queues not be made, within a limit of locked
 * memory: here or, as a peer tells of it, there. */
bool memory_is_limited(const struct error *err);

/* The error of a failed allocation of device resources (queues, domains): which often is the limit
 * of locked memory too. Always -1. */
int memory_resource_error(struct error *err, const char *subject, int errnum, const char *what);

#endif

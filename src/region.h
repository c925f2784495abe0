/*
 * region.h - memory that a server exposes: written by sessions through slots, and, with a ticket,
 * by one-sided writes of whoever holds it.
 *
 * With a ticket the memory is registered once, in a domain of its own on the device that the
 * listener is bound to.
 */
#ifndef RDMAPUT_REGION_H
#define RDMAPUT_REGION_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "endpoint.h"
#include "error.h"
#include "memory.h"
#include "ticket.h"
#include "wire.h"

struct region {
    struct memory memory;
    struct ibv_pd *pd;   /* NULL without a ticket */
    struct memory probe; /* where a byte of a client's is read to */
    char *dump;          /* the file to write it out to; NULL: none */
    bool sync;           /* each dump is to be on stable storage */
};

/* size bytes of zeroed memory. dump: NULL, or copied. */
struct region *region_new(uint64_t size, const char *dump, struct error *err);
void region_free(struct region *region);

/* Registers the memory whole, on the device of a bound id. */
int region_publish(struct region *region, struct rdma_cm_id *listener, struct error *err);

/* The ticket of a published region, where a listener at that address and port takes connections. */
void region_ticket(const struct region *region, const struct sockaddr *listener,
                   struct ticket *ticket);

/* Writes the memory to the dump file, which appears by rename; sync: on stable storage, as
 * region->sync says too. 0, also when none is wanted; -1 with *err (74, 73). */
int region_dump(const struct region *region, bool sync, struct error *err);

/*
 * Serves one client of one-sided writes: makes its queue pair in the region's domain, accepts, and
 * watches until the client disconnects. Nothing is sent or received; an RDMA read now and then
 * tells a client whose host is gone, which is ERROR_TEMPORARY. It reads the byte that the client's
 * hello offers, or nothing; where the connection grants no reads, it writes nothing. From an iWARP
 * client that offers no byte it does not read, since siw breaks the connection over a read of nothing
 * that comes while it sends, and waits for TCP to find out.
 */
int region_serve(struct region *region, struct endpoint *endpoint, const struct wire_hello *hello,
                 bool *stood, struct error *err);

#endif

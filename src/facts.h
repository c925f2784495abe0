/*
 * facts.h - what a connection turned out to be, and where its time went.
 */
#ifndef RDMAPUT_FACTS_H
#define RDMAPUT_FACTS_H

#include <stdint.h>

#include "address.h"
#include "clock.h"

enum facts_stage {
    FACTS_RESOLVE,  /* address and route */
    FACTS_CONNECT,  /* from the request to the established connection */
    FACTS_REGISTER, /* queues, and memory to write from or into */
    FACTS_TRANSFER, /* from there until all data was on its way */
    FACTS_COMMIT,   /* and from there until the far end has answered for all of it */
    FACTS_STAGES
};

struct facts {
    char device[64]; /* empty: none was reached yet */
    uint8_t port;
    const char *kind;         /* "InfiniBand", "RoCE" or "iWARP"; NULL: not known yet */
    uint32_t mtu;             /* bytes of the port's active MTU; 0: not known yet */
    char gid[ADDRESS_TEXT];   /* that the port speaks from; empty: none yet, or iWARP */
    char local[ADDRESS_TEXT]; /* ADDR:PORT; empty: none yet */
    char peer[ADDRESS_TEXT];
    unsigned send_depth, max_sge, max_inline; /* of the queue pair; 0: there was none */
    uint64_t max_msg_sz;
    unsigned slots;     /* what the data goes through: there, of a write session, or here */
    uint64_t slot_size; /* bytes */
    uint64_t pinned;    /* bytes of registered memory here */
    uint64_t ns[FACTS_STAGES];
    uint64_t route_ns; /* of FACTS_RESOLVE, the route's part */
};

/* A stage has gone on since then (clock.h). Returns now. */
static inline int64_t facts_took(struct facts *facts, enum facts_stage stage, int64_t since)
{
    int64_t now = clock_now();
    facts->ns[stage] += (uint64_t)(now - since);
    return now;
}

#endif

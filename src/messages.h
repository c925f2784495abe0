/*
 * messages.h - the registered buffers of a connection's messages (rdma_reg_msgs(3)): receives that
 * are posted and posted again, sends that come back when they complete.
 */
#ifndef RDMAPUT_MESSAGES_H
#define RDMAPUT_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"
#include "memory.h"
#include "wire.h"
#include "writer.h"

#define MESSAGES_MAX (WIRE_MAX_SLOTS + WIRE_MAX_EXTRA_MESSAGES)

/* The wr_id of a receive or send: a kind in the top byte, a buffer's number below. Kinds of RDMA
 * writes are the caller's, below MESSAGES_WRID_SEND. */
#define MESSAGES_WRID_SEND (UINT64_C(1) << 56)
#define MESSAGES_WRID_RECV (UINT64_C(2) << 56)

struct messages {
    struct memory memory;
    struct rdma_cm_id *id; /* not owned */
    unsigned count;        /* receive buffers, and as many send buffers after them */
    unsigned free_count;
    uint8_t free[MESSAGES_MAX]; /* send buffers not under way */
};

/* Maps and registers count receives and as many sends, and posts the receives: 1 to MESSAGES_MAX.
 * After rdma_create_qp, before connecting or accepting. Where it fails once a receive is posted,
 * free_count is not 0, and the queue pair is of no more use. */
int messages_open(struct messages *messages, struct rdma_cm_id *id, unsigned count,
                  struct error *err);
void messages_close(struct messages *messages);

/* Whether a message can be sent now. */
bool messages_can_send(const struct messages *messages, const struct writer *writer);

/* The wr_id of the next message that is sent; asserts that one can be. */
uint64_t messages_next_wr_id(const struct messages *messages);

/* Encodes and posts a message; asserts messages_can_send. */
int messages_send(struct messages *messages, struct writer *writer,
                  const struct wire_message *message, struct error *err);

/* A send completed: its buffer may be used again. */
void messages_sent(struct messages *messages, uint64_t wr_id);

/* A receive of len bytes completed: decodes it and posts the buffer again. -1 with *err
 * (ERROR_PROTOCOL, subject peer) when it is no valid message. */
int messages_received(struct messages *messages, uint64_t wr_id, uint32_t len, const char *peer,
                      struct wire_message *message, struct error *err);

#endif

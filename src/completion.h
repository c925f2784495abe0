/*
 * completion.h - a completion queue with its channel: polling, waiting, and what a status means.
 */
#ifndef RDMAPUT_COMPLETION_H
#define RDMAPUT_COMPLETION_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "error.h"

struct completion_queue {
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
};

/* A queue of at least depth entries on the device, with a non-blocking channel. 0, or -1 with
 * *err. */
int completion_open(struct completion_queue *queue, struct ibv_context *verbs, unsigned depth,
                    struct error *err);

/* Destroys both. The queue pairs that use the queue must be gone. Fine when zeroed. */
void completion_close(struct completion_queue *queue);

/* Takes one completion. 1 with *wc, 0 when there is none, -1 with *err when the queue is
 * broken. When wc->status is not success only wr_id, status, vendor_err and qp_num are valid
 * (ibv_poll_cq(3)). */
int completion_poll(struct completion_queue *queue, struct ibv_wc *wc, struct error *err);

/* Asks for an event for the next completion. A completion that came before is not announced: poll
 * once more after arming, before waiting for the descriptor. 0, or -1 with *err. */
int completion_arm(struct completion_queue *queue, struct error *err);

/* The descriptor that becomes readable for an event. */
int completion_fd(const struct completion_queue *queue);

/*
 * How many milliseconds to poll(2) that descriptor for, in a loop that then looks for completions:
 * until the moment (clock.h), but not for long. A device may lose an event: rxe does so now and then
 * on a busy host, where a completion comes just as the queue is armed.
 */
int completion_poll_ms(int64_t moment);

/* Takes and acknowledges the events that have come. */
void completion_drain_events(struct completion_queue *queue);

/*
 * Fills *err with what a failed status means for a work request to peer: 75 for a peer that does
 * not answer or a link that is down, 69 for a peer whose adapter refuses access, 70 for what can
 * only be a fault of our own. On iWARP some mean something else. what names the work ("RDMA
 * write"). Always -1.
 */
int completion_error(const struct ibv_wc *wc, bool iwarp, const char *peer, const char *what,
                     struct error *err);

#endif

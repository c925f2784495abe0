/*
 * check.h - either end of a check session: with `rdmaput serve`, and with the test of a path.
 */
#ifndef HOSTILE_CHECK_H
#define HOSTILE_CHECK_H

#include "client.h"
#include "talk.h"

/* Memory that a server has for it, besides that for the slots. */
#define CHECK_DATA_BYTES WIRE_MAX_SCRATCH

/* The client's: one write that is compared, and two ECHOs. It is done when all came back as it had to,
 * a deviation of the write or the VERIFY as something wrong. */
void check_run(struct talk *talk, const struct client_job *job);

/* The server's, once it has said WELCOME, and proved the secret: its memory is the link's data. */
void check_attend(struct talk *talk);

#endif

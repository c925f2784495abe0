/*
 * retry.h - trying again what failed for the time being (exit status 75), after pauses that grow.
 */
#ifndef RDMAPUT_RETRY_H
#define RDMAPUT_RETRY_H

#include <stdbool.h>

#include "error.h"

struct retry {
    unsigned most; /* how many times at most; 0: not at all */
    unsigned done; /* how many times so far */
};

/*
 * Whether to try again after *err, which is ERROR_TEMPORARY, or, once that was so before, a network
 * that leads nowhere, as while this host's own link is down: says so, and waits for 1 s, then 2 s, and so on, up to a minute,
 * each a little more or less, so that clients that were refused together do not come back together.
 * true, with *err cleared; false: *err stays, or is ERROR_INTERRUPTED when a signal ended the wait.
 */
bool retry_after(struct retry *retry, struct error *err);

#endif

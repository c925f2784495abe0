/*
 * checker.h - the test of the path to a server: layer by layer up to a connection, RDMA writes of many
 * kinds that the server compares (wire.h, "A check session"), latency and bandwidth.
 */
#ifndef RDMAPUT_CHECKER_H
#define RDMAPUT_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"
#include "error.h"
#include "facts.h"
#include "findings.h"
#include "secret.h"

/* How long latency and bandwidth are measured, unless told, and at most when it is to be quick. */
#define CHECKER_DURATION_NS (2 * CLOCK_NS_PER_S)
#define CHECKER_QUICK_NS (250 * CLOCK_NS_PER_MS)

struct checker_job {
    struct client_target target;
    const struct secret *secret; /* not owned; NULL: none */
    bool quick;                  /* no more than CHECKER_QUICK_NS for each figure */
    uint64_t duration_ns;        /* for each figure; 0: CHECKER_DURATION_NS */
};

struct checker_figures {
    bool latency_measured, bandwidth_measured;
    /*
     * A sample is the time from just before an RDMA write of 8 bytes (inline where the device takes
     * that) and an ECHO message behind it are posted, one after the other, until the server's answer
     * is taken from the completion queue: one round trip, with what the programs at both ends take
     * for it. Each polls its queue for up to 50 us before it sleeps. The percentiles are by nearest rank,
     * of all or, where there are more than 50,000, of as many by chance.
     */
    uint64_t latency_median_ns, latency_99_ns, latency_999_ns;
    /*
     * RDMA writes of 1 MiB, or of what memory there is: all their bytes, by the time from the first one
     * until the server has answered to a message behind the last. Bytes of headers do not count.
     */
    uint64_t bytes_per_second;
    uint64_t samples, bytes; /* that they come of */
    unsigned untried;        /* writes, for which there was not the memory at both ends */
    struct facts facts; /* as far as it came; its transfer is all that was written and compared */
};

/*
 * Adds findings, in this order: resolve-address, resolve-route, connect, exchange; one for each kind
 * of write:
 *
 *     size-N             N bytes: 0, 1, 2, 3, around 64, the MTU, 4096 and 65536, and 1 MiB
 *     size-past-limit    one byte more than a work request may have: several of them
 *     gather-N           from N places in memory: 1, 2, max_sge - 1, max_sge
 *     align-LOCAL-REMOTE from and to addresses so many bytes behind a page's start
 *     inline-N           N bytes that the work request itself holds
 *
 * and latency, bandwidth. The first layer that fails is FINDING_FAILED, and what comes later is
 * FINDING_SKIPPED with that reason; all writes together as "writes" where none could be tried. Writes
 * that arrive wrong fail one by one: the others are still made, and latency and bandwidth skipped. What
 * this host, its device or the server's memory does not allow is skipped, with the reason, and has not
 * failed; but where not a byte could be written for that, "writes" has.
 *
 * 0 when none failed; -1 with *err, the first failure, otherwise. ERROR_DATA when bytes arrived wrong.
 * No wait for the server is longer than target.timeout.
 */
int checker_run(const struct checker_job *job, struct findings *findings,
                struct checker_figures *figures, struct error *err);

#endif

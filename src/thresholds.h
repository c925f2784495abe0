/*
 * thresholds.h - what figures of a check have to reach.
 */
#ifndef RDMAPUT_THRESHOLDS_H
#define RDMAPUT_THRESHOLDS_H

#include <stdbool.h>
#include <stdint.h>

#include "checker.h"
#include "findings.h"

enum thresholds_percentile {
    PERCENTILE_50,
    PERCENTILE_99,
    PERCENTILE_999,
};

struct thresholds {
    bool has_bandwidth, has_latency;
    uint64_t least_bytes_per_second;
    uint64_t most_latency_ns;
    enum thresholds_percentile percentile; /* of the latency */
};

/* "50", "99" or "99.9"; false for another. */
bool thresholds_parse_percentile(const char *text, enum thresholds_percentile *percentile);

/* Adds a finding for each threshold there is, "min-bandwidth" and "max-latency": failed when it is missed;
 * when the figure was not measured, skipped where a finding has failed, else failed. A percentile is measured
 * by as many round trips as one of is beyond it: 2, 100 or 1000. */
void thresholds_add(const struct thresholds *thresholds, const struct checker_figures *figures,
                    struct findings *findings);

#endif

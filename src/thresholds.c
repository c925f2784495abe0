#include "config.h"

#include "thresholds.h"

#include <inttypes.h>
#include <string.h>

#include "units.h"

static const char *const names[] = {
    [PERCENTILE_50] = "50",
    [PERCENTILE_99] = "99",
    [PERCENTILE_999] = "99.9",
};

bool thresholds_parse_percentile(const char *text, enum thresholds_percentile *percentile)
{
    for (int i = PERCENTILE_50; i <= PERCENTILE_999; i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *percentile = (enum thresholds_percentile)i;
        return true;
    }
    return false;
}

/* Where something failed, that is why; else a figure that is asked for is missed. */
static void lack(struct findings *findings, bool broken, const char *name, const char *what)
{
    findings_add(findings, broken ? FINDING_SKIPPED : FINDING_FAILED, name,
                 broken ? NULL : "see above what was skipped, and why", 0, "no %s was measured",
                 what);
}

static void add_bandwidth(const struct thresholds *thresholds,
                          const struct checker_figures *figures, bool broken,
                          struct findings *findings)
{
    static const char name[] = "min-bandwidth";
    char is[UNITS_RATE_TEXT], least[UNITS_RATE_TEXT];
    units_format_rate(figures->bytes_per_second, is);
    units_format_rate(thresholds->least_bytes_per_second, least);
    if (!figures->bandwidth_measured)
        lack(findings, broken, name, "bandwidth");
    else if (figures->bytes_per_second >= thresholds->least_bytes_per_second)
        findings_add(findings, FINDING_OK, name, NULL, 0, "%s, no less than %s", is, least);
    else
        findings_add(findings, FINDING_FAILED, name,
                     "see what else uses the path, its MTU ('rdmaput check' at both ends), pause "
                     "frames and retransmissions ('ethtool -S', 'rdma statistic')",
                     0, "%s, less than %s", is, least);
}

static uint64_t latency(const struct checker_figures *figures,
                        enum thresholds_percentile percentile)
{
    switch (percentile) {
    case PERCENTILE_99:
        return figures->latency_99_ns;
    case PERCENTILE_999:
        return figures->latency_999_ns;
    default:
        return figures->latency_median_ns;
    }
}

/* One in so many round trips is beyond it: of fewer, no one may be. */
static uint64_t least_samples(enum thresholds_percentile percentile)
{
    static const uint64_t least[] = {
        [PERCENTILE_50] = 2, [PERCENTILE_99] = 100, [PERCENTILE_999] = 1000};
    return least[percentile];
}

static void add_latency(const struct thresholds *thresholds, const struct checker_figures *figures,
                        bool broken, struct findings *findings)
{
    static const char name[] = "max-latency";
    char is[UNITS_TEXT], most[UNITS_TEXT];
    const char *percentile = names[thresholds->percentile];
    uint64_t ns = latency(figures, thresholds->percentile);
    units_format_time(ns, is);
    units_format_time(thresholds->most_latency_ns, most);
    if (!figures->latency_measured)
        lack(findings, broken, name, "latency");
    else if (figures->samples < least_samples(thresholds->percentile))
        findings_add(findings, FINDING_FAILED, name, "measure for longer: give a longer --duration",
                     0, "%s %% takes %" PRIu64 " round trips, and there were %" PRIu64, percentile,
                     least_samples(thresholds->percentile), figures->samples);
    else if (ns <= thresholds->most_latency_ns)
        findings_add(findings, FINDING_OK, name, NULL, 0, "%s %% within %s, no more than %s",
                     percentile, is, most);
    else
        findings_add(findings, FINDING_FAILED, name,
                     "see what else the path and both hosts are at, and how their processors save "
                     "power ('cpupower frequency-info')",
                     0, "%s %% within %s, more than %s", percentile, is, most);
}

void thresholds_add(const struct thresholds *thresholds, const struct checker_figures *figures,
                    struct findings *findings)
{
    bool broken = findings_count(findings, FINDING_FAILED) > 0;
    if (thresholds->has_bandwidth)
        add_bandwidth(thresholds, figures, broken, findings);
    if (thresholds->has_latency)
        add_latency(thresholds, figures, broken, findings);
}

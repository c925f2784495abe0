#include "config.h"

#include "report.h"

#include <inttypes.h>
#include <stdio.h>

#include "log.h"
#include "units.h"

/* "1.50 MiB in 12 ms, 125 MiB/s"; what was there before is no speed: "1.50 MiB, of which 1.00 MiB were
 * there, in ...". */
static char *describe(uint64_t bytes, uint64_t kept, uint64_t ns, char *buf, size_t size)
{
    char amount[UNITS_TEXT], before[UNITS_TEXT], time[UNITS_TEXT], rate[UNITS_TEXT];
    double per_second = ns ? (double)(bytes - kept) * 1e9 / (double)ns : 0;
    snprintf(buf, size, "%s%s%s%s in %s, %s/s", units_format_size(bytes, amount),
             kept ? ", of which " : "", kept ? units_format_size(kept, before) : "",
             kept ? " were there," : "", units_format_time(ns, time),
             units_format_size((uint64_t)per_second, rate));
    return buf;
}

void report_connection(const struct facts *facts, const char *slots)
{
    char size[UNITS_TEXT], pinned[UNITS_TEXT], most[UNITS_TEXT];
    log_verbose("%s: device %s port %u, %s%s%s, MTU %" PRIu32 ", from %s", facts->peer,
                facts->device, facts->port, facts->kind, facts->gid[0] ? ", GID " : "", facts->gid,
                facts->mtu, facts->local);
    log_verbose("%s: %s %u x %s, max_sge %u, depth %u, inline %u, messages up to %s, %s pinned",
                facts->peer, slots, facts->slots, units_format_size(facts->slot_size, size),
                facts->max_sge, facts->send_depth, facts->max_inline,
                units_format_size(facts->max_msg_sz, most),
                units_format_size(facts->pinned, pinned));
}

void report_progress(struct error *err, uint64_t bytes, const char *done)
{
    if (bytes > 0 || err->class == ERROR_TEMPORARY)
        error_append(err, "; %" PRIu64 " bytes were %s", bytes, done);
}

void report_received(const char *peer, const struct receiver_object *object)
{
    char text[128], checksum[2 * DIGEST_BYTES + 1], pinned[UNITS_TEXT], name[256];
    snprintf(name, sizeof name, "%s%s", object->name[0] ? ", " : "", object->name);
    error_mask(name);
    log_verbose(
        "%s: committed%s: %s, XXH3-128 %s, %s pinned", peer, name,
        describe(object->digest.bytes, object->kept, object->duration_ns, text, sizeof text),
        digest_format(&object->digest, checksum), units_format_size(object->pinned, pinned));
}

static unsigned percent(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (unsigned)((double)part * 100 / (double)whole + 0.5) : 0;
}

/* What a session waited for most, of what it could not go on without; or that it was busy itself for
 * longer than with any of these. */
static void report_waits(const char *destination, const struct sender_waits *waits, uint64_t ns)
{
    uint64_t waited = waits->source + waits->fabric + waits->destination;
    unsigned source = percent(waits->source, ns), fabric = percent(waits->fabric, ns);
    unsigned there = percent(waits->destination, ns);
    unsigned own = percent(ns > waited ? ns - waited : 0, ns);
    const char *most = source >= fabric && source >= there ? "the source"
                       : fabric >= there                   ? "the fabric"
                                                           : "the destination";
    char who[64];
    if (own > source && own > fabric && own > there)
        snprintf(who, sizeof who, "this host: its own work took %u %%;", own);
    else
        snprintf(who, sizeof who, "%s:", most);
    log_success("%s: held back most by %s waited for the source %u %%, the fabric %u %%, the "
                "destination %u %% of the time",
                destination, who, source, fabric, there);
}

void report_sent(const char *destination, const struct sender_result *result)
{
    char text[128], checksum[2 * DIGEST_BYTES + 1], sent[UNITS_TEXT], kept[UNITS_TEXT];
    describe(result->committed_bytes, result->kept, result->duration_ns, text, sizeof text);
    if (result->committed == 1)
        log_success("%s: delivered %s, XXH3-128 %s", destination, text,
                    digest_format(&result->digest, checksum));
    else
        log_success("%s: delivered %zu objects, %s", destination, result->committed, text);
    if (result->committed_bytes > 0)
        report_waits(destination, &result->waits, result->duration_ns);
    log_verbose("%s: work requests %" PRIu64 ", gather entries %" PRIu64 ", chunks %" PRIu64,
                destination, result->work_requests, result->gather_entries, result->chunks);
    if (result->kept > 0)
        log_verbose("%s: resumed: %s were there, %s were sent", destination,
                    units_format_size(result->kept, kept), units_format_size(result->sent, sent));
}

void report_posted(const char *destination, const struct poster_result *result)
{
    char text[128];
    log_success("%s: wrote %s", destination,
                describe(result->acknowledged, 0, result->duration_ns, text, sizeof text));
    log_verbose("%s: work requests %" PRIu64 ", gather entries %" PRIu64, destination,
                result->work_requests, result->gather_entries);
}

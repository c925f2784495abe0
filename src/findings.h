/*
 * findings.h - what `rdmaput check` has found out, one finding after another.
 */
#ifndef RDMAPUT_FINDINGS_H
#define RDMAPUT_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

enum finding_result {
    FINDING_OK,
    FINDING_WARNING, /* works, but might not for long, or for everybody */
    FINDING_SKIPPED, /* could not be tried: the text says why */
    FINDING_FAILED,
};

struct finding {
    enum finding_result result;
    enum error_class class; /* of findings_add_error, else ERROR_NONE */
    char name[48];  /* what was tried, for programs: "modules", "size-4096"; of a-z, 0-9 and - */
    char text[320]; /* what was found, on one line */
    char hint[320]; /* the command or the setting that mends it; may be empty */
    uint64_t ns;    /* how long it took; 0: not measured */
};

struct findings {
    struct finding *items;
    size_t count, capacity;
    bool short_of_memory; /* some are missing */
    /* Called for each as it is added; NULL: not. */
    void (*added)(void *context, const struct finding *finding);
    void *context;
};

/* Adds one. Fine when zeroed. */
void findings_add(struct findings *findings, enum finding_result result, const char *name,
                  const char *hint, uint64_t ns, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* Adds a failed one: what *err says. */
void findings_add_error(struct findings *findings, const char *name, uint64_t ns,
                        const struct error *err);

/* How many have that result. */
size_t findings_count(const struct findings *findings, enum finding_result result);

/* Makes text a finding's name, in place: small letters, and - for what a name does not have. */
void findings_name(char *text);

void findings_free(struct findings *findings);

/* "ok", "warning", "skipped" or "FAIL". */
const char *finding_result_name(enum finding_result result);

#endif

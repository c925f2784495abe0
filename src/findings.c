#include "config.h"

#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(struct findings *findings)
{
    if (findings->count < findings->capacity)
        return true;
    size_t capacity = findings->capacity ? 2 * findings->capacity : 32;
    struct finding *grown = realloc(findings->items, capacity * sizeof *grown);
    if (!grown)
        return false;
    findings->items = grown;
    findings->capacity = capacity;
    return true;
}

static void add(struct findings *findings, struct finding *finding)
{
    error_mask(finding->text);
    error_mask(finding->hint);
    if (findings->added)
        findings->added(findings->context, finding);
    if (make_room(findings))
        findings->items[findings->count++] = *finding;
    else
        findings->short_of_memory = true;
}

void findings_add(struct findings *findings, enum finding_result result, const char *name,
                  const char *hint, uint64_t ns, const char *fmt, ...)
{
    struct finding finding = {.result = result, .ns = ns};
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding.text, sizeof finding.text, fmt, args);
    va_end(args);
    snprintf(finding.name, sizeof finding.name, "%s", name);
    snprintf(finding.hint, sizeof finding.hint, "%s", hint ? hint : "");
    add(findings, &finding);
}

void findings_add_error(struct findings *findings, const char *name, uint64_t ns,
                        const struct error *err)
{
    size_t before = findings->count;
    findings_add(findings, FINDING_FAILED, name, err->hint, ns, "%s%s%s", err->subject,
                 err->subject[0] ? ": " : "", err->text);
    if (findings->count > before)
        findings->items[before].class = err->class;
}

size_t findings_count(const struct findings *findings, enum finding_result result)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->items[i].result == result;
    return count;
}

void findings_name(char *text)
{
    for (; *text; text++) {
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
        else if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9'))
            *text = '-';
    }
}

void findings_free(struct findings *findings)
{
    free(findings->items);
    *findings = (struct findings){.items = NULL};
}

const char *finding_result_name(enum finding_result result)
{
    static const char *const names[] = {
        [FINDING_OK] = "ok",
        [FINDING_WARNING] = "warning",
        [FINDING_SKIPPED] = "skipped",
        [FINDING_FAILED] = "FAIL",
    };
    return names[result];
}

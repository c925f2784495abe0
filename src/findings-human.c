#include "config.h"

#include "findings-human.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool findings_human_wants_colour(FILE *out)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(out)) && !(none && none[0]) && terminal && strcmp(terminal, "dumb") != 0;
}

static const char *colour_of(enum finding_result result)
{
    static const char *const colours[] = {
        [FINDING_OK] = "\033[32m",
        [FINDING_WARNING] = "\033[33m",
        [FINDING_SKIPPED] = "\033[2m",
        [FINDING_FAILED] = "\033[1;31m",
    };
    return colours[result];
}

void findings_human_line(FILE *out, bool colour, const struct finding *finding)
{
    fprintf(out, "%-22s %s%-7s%s %s\n", finding->name, colour ? colour_of(finding->result) : "",
            finding_result_name(finding->result), colour ? "\033[0m" : "", finding->text);
    if (finding->hint[0])
        fprintf(out, "%23shint: %s\n", "", finding->hint);
    fflush(out);
}

void findings_human_sum(FILE *out, const struct findings *findings)
{
    size_t warnings = findings_count(findings, FINDING_WARNING);
    fprintf(out, "%zu ok, %zu failed, %zu warning%s, %zu skipped\n",
            findings_count(findings, FINDING_OK), findings_count(findings, FINDING_FAILED),
            warnings, warnings == 1 ? "" : "s", findings_count(findings, FINDING_SKIPPED));
}

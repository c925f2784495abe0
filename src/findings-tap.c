#include "config.h"

#include "findings-tap.h"

#include <inttypes.h>

#include "utf8.h"

/* What a description may hold: # begins a directive there. */
static void write_description(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '#' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
}

/* A string of YAML; findings are one line of valid UTF-8 without control characters; of what is left,
 * YAML has no noncharacters. */
static void write_string(FILE *out, const char *key, const char *text)
{
    if (!text[0])
        return;
    fprintf(out, "  %s: \"", key);
    for (; *text; text++) {
        if (utf8_is_noncharacter(text)) {
            putc('?', out);
            text += 2;
            continue;
        }
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    fputs("\"\n", out);
}

static void write_finding(FILE *out, size_t number, const struct finding *finding)
{
    fprintf(out, "%s %zu - %s", finding->result == FINDING_FAILED ? "not ok" : "ok", number,
            finding->name);
    fputs(finding->result == FINDING_SKIPPED ? " # SKIP " : ": ", out);
    write_description(out, finding->text);
    fputs("\n  ---\n", out);
    write_string(out, "result", finding_result_name(finding->result));
    write_string(out, "message", finding->text);
    write_string(out, "hint", finding->hint);
    if (finding->ns > 0)
        fprintf(out, "  duration_ns: %" PRIu64 "\n", finding->ns);
    fputs("  ...\n", out);
}

void findings_tap(FILE *out, const struct findings *findings)
{
    fprintf(out, "TAP version 13\n1..%zu\n", findings->count);
    for (size_t i = 0; i < findings->count; i++)
        write_finding(out, i + 1, &findings->items[i]);
}

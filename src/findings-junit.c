#include "config.h"

#include "findings-junit.h"

#include "utf8.h"

/* Text and attributes alike. Findings are valid UTF-8 without control characters; of what is left, XML
 * has no noncharacters. */
static void write_text(FILE *out, const char *text)
{
    static const struct {
        char c;
        const char *entity;
    } entities[] = {
        {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
    for (; *text; text++) {
        size_t i = 0, count = sizeof entities / sizeof entities[0];
        if (utf8_is_noncharacter(text)) {
            putc('?', out);
            text += 2;
            continue;
        }
        while (i < count && entities[i].c != *text)
            i++;
        if (i < count)
            fputs(entities[i].entity, out);
        else
            putc(*text, out);
    }
}

static void write_attribute(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    write_text(out, value);
    putc('"', out);
}

static void write_time(FILE *out, uint64_t ns)
{
    fprintf(out, " time=\"%.9f\"", (double)ns / 1e9);
}

static void write_counts(FILE *out, const struct findings *findings, const char *suite, uint64_t ns)
{
    write_attribute(out, "name", suite);
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"0\"", findings->count,
            findings_count(findings, FINDING_FAILED));
    write_time(out, ns);
}

static void write_body(FILE *out, const struct finding *finding)
{
    write_text(out, finding->text);
    if (finding->hint[0]) {
        fputs("\nhint: ", out);
        write_text(out, finding->hint);
    }
}

static void write_result(FILE *out, const struct finding *finding)
{
    switch (finding->result) {
    case FINDING_FAILED:
        fputs("      <failure type=\"failed\"", out);
        write_attribute(out, "message", finding->text);
        putc('>', out);
        write_body(out, finding);
        fputs("</failure>\n", out);
        break;
    case FINDING_SKIPPED:
        fputs("      <skipped", out);
        write_attribute(out, "message", finding->text);
        fputs("/>\n", out);
        break;
    default:
        fprintf(out, "      <system-out>%s", finding->result == FINDING_WARNING ? "warning: " : "");
        write_body(out, finding);
        fputs("</system-out>\n", out);
    }
}

void findings_junit(FILE *out, const struct findings *findings, const char *suite, uint64_t ns)
{
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites", out);
    write_counts(out, findings, suite, ns);
    fputs(">\n  <testsuite", out);
    write_counts(out, findings, suite, ns);
    fprintf(out, " skipped=\"%zu\">\n", findings_count(findings, FINDING_SKIPPED));
    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *finding = &findings->items[i];
        fputs("    <testcase classname=\"rdmaput.check\"", out);
        write_attribute(out, "name", finding->name);
        write_time(out, finding->ns);
        fputs(">\n", out);
        write_result(out, finding);
        fputs("    </testcase>\n", out);
    }
    fputs("  </testsuite>\n</testsuites>\n", out);
}

#include "config.h"

#include "findings-json.h"

#include "document.h"

static const char *const names[] = {
    [FINDING_OK] = "ok",
    [FINDING_WARNING] = "warning",
    [FINDING_SKIPPED] = "skipped",
    [FINDING_FAILED] = "failed",
};

static void append(struct json_object *array, const struct finding *finding)
{
    struct json_object *object = json_object_new_object();
    document_add_text(object, "name", finding->name);
    document_add_text(object, "result", names[finding->result]);
    document_add_text(object, "message", finding->text);
    if (finding->class != ERROR_NONE)
        document_add_text(object, "kind", error_class_name(finding->class));
    document_add_text(object, "hint", finding->hint[0] ? finding->hint : NULL);
    if (finding->ns > 0)
        document_add_number(object, "duration_ns", finding->ns);
    if (json_object_array_add(array, object) != 0)
        json_object_put(object);
}

void findings_json_add(struct json_object *document, const struct findings *findings)
{
    struct json_object *array = document ? json_object_new_array() : NULL;
    struct json_object *counts = document ? json_object_new_object() : NULL;
    for (size_t i = 0; array && i < findings->count; i++)
        append(array, &findings->items[i]);
    for (int result = FINDING_OK; result <= FINDING_FAILED; result++)
        document_add_number(counts, names[result],
                            findings_count(findings, (enum finding_result)result));
    document_add(document, "counts", counts);
    document_add(document, "findings", array);
}

void findings_json_add_figures(struct json_object *document, const struct checker_figures *figures)
{
    struct json_object *object = document ? json_object_new_object() : NULL;
    if (figures->latency_measured) {
        document_add_number(object, "latency_median_ns", figures->latency_median_ns);
        document_add_number(object, "latency_99_ns", figures->latency_99_ns);
        document_add_number(object, "latency_999_ns", figures->latency_999_ns);
        document_add_number(object, "latency_samples", figures->samples);
    }
    if (figures->bandwidth_measured) {
        document_add_number(object, "bandwidth_bytes_per_second", figures->bytes_per_second);
        document_add_number(object, "bandwidth_bytes", figures->bytes);
    }
    document_add(document, "figures", object);
    document_add_facts(document, &figures->facts);
}

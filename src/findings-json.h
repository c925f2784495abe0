/* findings-json.h - findings, and what was measured, in the document of `check`. */
#ifndef RDMAPUT_FINDINGS_JSON_H
#define RDMAPUT_FINDINGS_JSON_H

#include <json-c/json.h>

#include "checker.h"
#include "findings.h"

/* Adds "findings", and how many there are of each result. Nothing to a document that is NULL. */
void findings_json_add(struct json_object *document, const struct findings *findings);

/* Adds "figures", of what was measured, and the connection. */
void findings_json_add_figures(struct json_object *document, const struct checker_figures *figures);

#endif

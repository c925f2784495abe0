/*
 * document.h - what a command or a session came to, as a line of JSON: its fields are those of
 * share/rdmaput.schema.json, and only ever grow in number.
 */
#ifndef RDMAPUT_DOCUMENT_H
#define RDMAPUT_DOCUMENT_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "digest.h"
#include "error.h"
#include "facts.h"

#define DOCUMENT_VERSION 1

/* Where documents go, from now on: to path, which is created, or made empty where a document begins it,
 * and refused where it holds something else; NULL: standard output.
 * A pipe that nobody reads yet is waited for. -1 with *err: 73, 74, or ERROR_INTERRUPTED. */
int document_open(const char *path, struct error *err);

/* Whether that was called: without it no document is made, and nothing below does anything. */
bool document_is_wanted(void);

/* Whether documents go to standard output. */
bool document_takes_stdout(void);

/* A document that a command or session begins with; NULL when none is wanted or memory is short. To
 * document_print, or json_object_put. */
struct json_object *document_new(const char *command);

/* Each adds a field, and does nothing to a document that is NULL. Text is made valid UTF-8; NULL is
 * left out. */
void document_add_text(struct json_object *document, const char *name, const char *text);
void document_add_number(struct json_object *document, const char *name, uint64_t number);
void document_add_flag(struct json_object *document, const char *name, bool flag);
/* Takes over part. */
void document_add(struct json_object *document, const char *name, struct json_object *part);

/* bytes, duration_ns, and the rate that they come to. */
void document_add_amount(struct json_object *document, uint64_t bytes, uint64_t duration_ns);

/* The connection: what is known of it, and its times. */
void document_add_facts(struct json_object *document, const struct facts *facts);

/* Appends an object to an array (json_object_new_array): delivered or committed, with its checksum and
 * the bytes that were there before; or failed, with cause. name: empty: none. */
void document_append_object(struct json_object *objects, const char *name,
                            const struct digest_value *digest, uint64_t kept,
                            const struct error *cause);

/* Adds the time, the error (none: null) and the exit status it stands for, prints the document as one line, and
 * frees it. May be called on any thread. */
void document_print(struct json_object *document, const struct error *err);

/* -1 with *err (74) when something could not be written to a file; of standard output output_close
 * tells. */
int document_close(struct error *err);

#endif

#include "config.h"

#include "delivery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "document.h"
#include "log.h"
#include "name.h"

/* ---- names ----------------------------------------------------------------------------------- */

static int bad_name(const char *dest, const char *name, const char *problem, struct error *err)
{
    char masked[160];
    snprintf(masked, sizeof masked, "%s", name);
    error_mask(masked);
    return error_set(err, ERROR_USAGE, STAGE_OPEN, dest, "no object can be named '%s': %s", masked,
                     problem);
}

static int check_name(const char *dest, const char *name, struct error *err)
{
    char problem[128];
    if (strlen(name) > WIRE_MAX_NAME)
        return error_set(err, ERROR_USAGE, STAGE_OPEN, NULL,
                         "the object's name is longer than %d bytes", WIRE_MAX_NAME);
    return name_check(name, problem, sizeof problem) ? 0 : bad_name(dest, name, problem, err);
}

int delivery_parse_destination(struct delivery *delivery, struct error *err)
{
    const char *text = delivery->dest;
    struct address *address = &delivery->address;
    if (delivery->remote) {
        delivery->many = remote_parse(text, &delivery->place, err) == 0 &&
                         delivery->place.directory;
        return error_is_set(err) ? -1 : 0;
    }
    if (options_parse_destination(text, address, err) < 0)
        return -1;
    size_t len = address->has_name ? strlen(address->name) : 0;
    delivery->many = address->has_name && (len == 0 || address->name[len - 1] == '/');
    return address->has_name && !delivery->many ? check_name(text, address->name, err) : 0;
}

static int out_of_memory(struct error *err)
{
    return error_set_errno(err, ERROR_RESOURCE, STAGE_OPEN, NULL, ENOMEM,
                           "cannot take in the arguments");
}

/* DIRECTORY/ and the last component of the segment's path. A '/' behind it is no part of that: what
 * is wrong with "dir/" is that it is a directory. */
static char *name_after_file(const struct delivery *delivery, const struct segment *segment,
                             struct error *err)
{
    const char *path = segment->path;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    const char *directory = delivery->address.name;
    char *name;
    if (asprintf(&name, "%s%.*s", directory ? directory : "", (int)(end - start), path + start) <
        0) {
        out_of_memory(err);
        return NULL;
    }
    if (check_name(segment->path, name, err) == 0)
        return name;
    free(name);
    return NULL;
}

static int check_segment_of_many(const struct segment *segment, struct error *err)
{
    if (segment_is_stdin(segment)) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, "-",
                  "standard input has no name, and DEST ends in '/'");
        return error_hint(err, "name the object: HOST[:PORT]/NAME");
    }
    if (segment->has_remote) {
        error_set(err, ERROR_USAGE, STAGE_OPEN, segment->path,
                  "REMOTE, where each segment becomes an object of its own");
        return error_hint(err, "leave out '=REMOTE', or the '/' at the end of DEST");
    }
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_unique(const struct delivery *delivery, struct error *err)
{
    char **names = calloc(delivery->count, sizeof *names);
    int rc = names ? 0 : out_of_memory(err);
    for (size_t i = 0; names && i < delivery->count; i++)
        names[i] = delivery->objects[i].name;
    if (names)
        qsort(names, delivery->count, sizeof *names, compare_names);
    for (size_t i = 1; rc == 0 && i < delivery->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            rc = error_set(err, ERROR_USAGE, STAGE_OPEN, names[i],
                           "two segments would become one object of that name");
    free(names);
    return rc;
}

static int list_many(struct delivery *delivery, struct error *err)
{
    for (size_t i = 0; i < delivery->count; i++) {
        const struct segment *segment = &delivery->list.items[i];
        struct delivery_object *object = &delivery->objects[i];
        *object = (struct delivery_object){.segments = segment, .segment_count = 1};
        if (check_segment_of_many(segment, err) < 0 ||
            !(object->name = name_after_file(delivery, segment, err)))
            return -1;
    }
    return check_unique(delivery, err);
}

static int list_single(struct delivery *delivery, struct error *err)
{
    const char *name = delivery->address.name;
    struct delivery_object *object = &delivery->objects[0];
    *object = (struct delivery_object){.segments = delivery->list.items,
                                       .segment_count = delivery->list.count,
                                       .name = strdup(name ? name : "")};
    return object->name ? 0 : out_of_memory(err);
}

int delivery_name_single(struct delivery *delivery, bool directory, struct error *err)
{
    struct delivery_object *object = &delivery->objects[0];
    char *name = NULL;
    if (delivery->many)
        return 0;
    if (!directory) {
        name = strdup("");
        if (!name)
            return out_of_memory(err);
    } else if (object->segment_count > 1 || segment_is_stdin(object->segments)) {
        error_set(err, ERROR_CANNOT_CREATE, STAGE_OPEN, delivery->dest,
                  "is a directory there, and the object has no name");
        return error_hint(err, "name it: %s/NAME", delivery->dest);
    } else if (!(name = name_after_file(delivery, object->segments, err))) {
        return -1;
    }
    free(object->name);
    object->name = name;
    return 0;
}

/* ---- sources --------------------------------------------------------------------------------- */

int delivery_open_sources(const struct delivery *delivery, struct delivery_object *object,
                          struct error *err)
{
    const struct options_segment_list list = {.items = (struct segment *)object->segments,
                                              .count = object->segment_count};
    return options_plan(&list, PLAN_BY_DEST, PLAN_TARGET_SLOT, !delivery->dense, &object->source,
                        &object->plan, err);
}

void delivery_close_sources(struct delivery_object *object)
{
    plan_free(object->plan);
    source_free(object->source);
    object->plan = NULL;
    object->source = NULL;
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* Whether an object is neither committed nor beyond hope. */
static bool is_open(const struct delivery_object *object)
{
    return !object->committed && !object->spent &&
           (object->failure == ERROR_NONE || object->failure == ERROR_TEMPORARY);
}

/* What the next attempt is for: it opens its files anew, and what failed in the last one may not fail. */
static void begin_attempt(struct delivery *delivery)
{
    delivery->order_count = 0;
    for (size_t i = 0; i < delivery->count; i++) {
        struct delivery_object *object = &delivery->objects[i];
        if (!is_open(object))
            continue;
        object->failure = ERROR_NONE;
        object->begun = false;
        if (object->source && !source_stream(object->source))
            delivery_close_sources(object);
        delivery->order[delivery->order_count++] = i;
    }
}

int delivery_list(struct delivery *delivery, struct error *err)
{
    delivery->count = delivery->many ? delivery->list.count : 1;
    delivery->objects = calloc(delivery->count, sizeof *delivery->objects);
    delivery->order = calloc(delivery->count, sizeof *delivery->order);
    if (!delivery->objects || !delivery->order)
        return out_of_memory(err);
    begin_attempt(delivery);
    return delivery->many ? list_many(delivery, err) : list_single(delivery, err);
}

void delivery_free(struct delivery *delivery)
{
    for (size_t i = 0; delivery->objects && i < delivery->count; i++) {
        delivery_close_sources(&delivery->objects[i]);
        free(delivery->objects[i].name);
        free(delivery->objects[i].cause);
    }
    free(delivery->objects);
    free(delivery->order);
    options_free_segments(&delivery->list);
    address_free(&delivery->address);
}

/* ---- for the sender -------------------------------------------------------------------------- */

static int open_object(const struct delivery *delivery, struct delivery_object *object,
                       struct sender_object *result, struct error *err)
{
    struct source_attributes attributes = {.mode = 0};
    if ((!object->plan && delivery_open_sources(delivery, object, err) < 0) ||
        (delivery->preserve && source_attributes(object->source, &attributes, err) < 0) ||
        (delivery->resume &&
         source_identity(object->source, object->plan, result->identity, err) < 0)) {
        delivery_close_sources(object);
        return -1;
    }
    result->name = object->name;
    result->plan = object->plan;
    result->source = object->source;
    result->preserve = delivery->preserve;
    result->mode = attributes.mode;
    result->accessed = attributes.accessed;
    result->modified = attributes.modified;
    return 0;
}

int delivery_open(void *context, size_t index, struct sender_object *result, struct error *err)
{
    struct delivery *delivery = context;
    struct delivery_object *object = &delivery->objects[delivery->order[index]];
    object->begun = true;
    return open_object(delivery, object, result, err);
}

void delivery_close(void *context, size_t index, struct sender_object *result)
{
    struct delivery *delivery = context;
    struct delivery_object *object = &delivery->objects[delivery->order[index]];
    (void)result;
    object->spent = source_stream(object->source) != NULL;
    delivery_close_sources(object);
}

int64_t delivery_progressed(void *context, const struct sender_state *now)
{
    struct delivery *delivery = context;
    struct progress_state *state = &delivery->state;
    state->bytes = now->stored + now->kept;
    state->before = now->kept;
    state->objects = now->committed;
    /* Where holes are sent, too, it is more than it was. */
    if (now->total != PLAN_UNKNOWN)
        state->total = now->total;
    state->of_objects = delivery->order_count;
    return progress_note(delivery->progress, state);
}

static void keep_cause(struct delivery_object *object, const struct error *cause)
{
    free(object->cause);
    object->cause = cause && document_is_wanted() ? malloc(sizeof *object->cause) : NULL;
    if (object->cause)
        *object->cause = *cause;
}

void delivery_settled(void *context, size_t index, const struct digest_value *digest, uint64_t kept,
                      const struct error *cause)
{
    struct delivery *delivery = context;
    struct delivery_object *object = &delivery->objects[delivery->order[index]];
    object->committed = !cause;
    object->failure = cause ? cause->class : ERROR_NONE;
    object->kept = kept;
    if (digest)
        object->digest = *digest;
    keep_cause(object, cause);
}

void delivery_describe(const struct delivery *delivery, struct json_object *document)
{
    struct json_object *objects = document ? json_object_new_array() : NULL;
    size_t committed = 0;
    for (size_t i = 0; objects && delivery->objects && i < delivery->count; i++) {
        const struct delivery_object *object = &delivery->objects[i];
        committed += object->committed;
        if (object->committed || object->cause)
            document_append_object(objects, object->name, &object->digest, object->kept,
                                   object->cause);
    }
    document_add_text(document, "destination", delivery->dest);
    document_add_number(document, "segments", delivery->list.count);
    document_add_number(document, "objects_due", delivery->count);
    document_add_number(document, "objects_committed", committed);
    document_add(document, "objects", objects);
}

int delivery_check(struct delivery *delivery, struct error *err)
{
    struct sender_object ignored;
    /* Of many, each file's size is known only once it is opened. */
    delivery->state.total = PROGRESS_UNKNOWN;
    if (delivery->many)
        return 0;
    if (open_object(delivery, &delivery->objects[0], &ignored, err) < 0)
        return -1;
    /* Once it is sent, the plan is the loader's. */
    delivery->state.total = plan_bytes(delivery->objects[0].plan);
    return 0;
}

/* What a session was at as it failed has failed of that, until it is tried again; what may be gone of a
 * stream cannot be. */
static void fail_begun(struct delivery_object *object, const struct error *err)
{
    if (object->committed || object->failure != ERROR_NONE)
        return;
    if (object->spent)
        object->failure = err->class;
    if (object->spent || object->begun)
        keep_cause(object, err);
}

bool delivery_try_again(struct delivery *delivery, const struct error *err, struct error *passing)
{
    *passing = *err;
    for (size_t i = 0; i < delivery->order_count; i++) {
        struct delivery_object *object = &delivery->objects[delivery->order[i]];
        if (object->failure == ERROR_TEMPORARY)
            passing->class = ERROR_TEMPORARY;
        fail_begun(object, err);
    }
    begin_attempt(delivery);
    return delivery->order_count > 0;
}

static void note_spent(const struct delivery_object *object)
{
    char name[WIRE_MAX_NAME + 1];
    snprintf(name, sizeof name, "%s", object->name);
    error_mask(name);
    log_note("%s: not committed, and what was read of a stream cannot be sent again", name);
}

int delivery_sum_up(const struct delivery *delivery, struct error *err)
{
    size_t committed = 0;
    enum error_class first = err->class;
    for (size_t i = delivery->count; i-- > 0;) {
        committed += delivery->objects[i].committed;
        if (delivery->objects[i].committed)
            continue;
        if (delivery->objects[i].failure != ERROR_NONE)
            first = delivery->objects[i].failure;
        if (delivery->objects[i].spent && delivery->objects[i].failure == ERROR_TEMPORARY)
            note_spent(&delivery->objects[i]);
    }
    if (committed == delivery->count)
        return 0;
    error_clear(err);
    return error_set(err, first, STAGE_NONE, delivery->dest,
                     "%zu of %zu objects were committed, and %zu were not", committed,
                     delivery->count, delivery->count - committed);
}

/*
 * segment.c - the grammar of a segment: PATH[@[OFFSET][+LENGTH][=REMOTE]].
 */
#include "config.h"

#include "segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"

static bool begins_suffix(const char *tail)
{
    return *tail == '\0' || strchr("0123456789-+=", *tail);
}

/* Parses the len bytes at text, the first sign_len of them aside, as the size in a field. */
static enum segment_result parse_field(const char *name, const char *text, size_t len,
                                       size_t sign_len, uint64_t *bytes, char *problem,
                                       size_t problem_size)
{
    char what[96];
    enum units_result result = units_size(text + sign_len, len - sign_len, bytes);

    if (result == UNITS_OK)
        return SEGMENT_OK;
    if (result == UNITS_EMPTY && sign_len > 0)
        result = UNITS_MALFORMED;
    snprintf(problem, problem_size, "%s '%.*s' %s", name, (int)len, text,
             units_problem(result, "a size", what, sizeof(what)));
    return SEGMENT_MALFORMED;
}

static enum segment_result parse_suffix(const char *tail, struct segment *segment, char *problem,
                                        size_t problem_size)
{
    size_t len = strcspn(tail, "+=");
    enum segment_result result = SEGMENT_OK;

    segment->has_suffix = true;
    segment->has_offset = len > 0;
    segment->from_end = tail[0] == '-';
    if (segment->has_offset)
        result = parse_field("OFFSET", tail, len, segment->from_end ? 1 : 0, &segment->offset,
                             problem, problem_size);
    tail += len;
    if (result == SEGMENT_OK && *tail == '+') {
        tail++;
        len = strcspn(tail, "=");
        segment->has_length = true;
        result = parse_field("LENGTH", tail, len, 0, &segment->length, problem, problem_size);
        tail += len;
    }
    if (result == SEGMENT_OK && *tail == '=') {
        tail++;
        segment->has_remote = true;
        result = parse_field("REMOTE", tail, strlen(tail), 0, &segment->remote, problem,
                             problem_size);
    }
    return result;
}

static enum segment_result set_path(struct segment *segment, const char *path, size_t len)
{
    segment->path = strndup(path, len);
    return segment->path ? SEGMENT_OK : SEGMENT_MEMORY;
}

enum segment_result segment_parse(const char *argument, struct segment *segment, char *problem,
                                  size_t problem_size)
{
    const char *at = strrchr(argument, '@');
    struct segment parsed = {.path = NULL};
    enum segment_result result;
    size_t path_len = strlen(argument);

    if (at && begins_suffix(at + 1)) {
        path_len = (size_t)(at - argument);
        result = parse_suffix(at + 1, &parsed, problem, problem_size);
        if (result != SEGMENT_OK)
            return result;
    }
    if (path_len == 0) {
        snprintf(problem, problem_size, "PATH is empty");
        return SEGMENT_EMPTY;
    }
    result = set_path(&parsed, argument, path_len);
    if (result == SEGMENT_OK)
        *segment = parsed;
    return result;
}

enum segment_result segment_literal(const char *argument, struct segment *segment)
{
    *segment = (struct segment){.path = NULL};
    if (*argument == '\0')
        return SEGMENT_EMPTY;
    return set_path(segment, argument, strlen(argument));
}

bool segment_is_stdin(const struct segment *segment)
{
    return strcmp(segment->path, "-") == 0;
}

void segment_free(struct segment *segment)
{
    free(segment->path);
    segment->path = NULL;
}

static bool sum_overflows(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > SEGMENT_MAX_BYTES;
}

enum segment_range segment_resolve(const struct segment *segment, uint64_t file_size,
                                   uint64_t *offset, uint64_t *length)
{
    uint64_t start = segment->offset, bytes = segment->length;

    if (segment->from_end) {
        if (start > file_size)
            return SEGMENT_BEFORE_START;
        start = file_size - start;
    }
    if (segment->has_length && sum_overflows(start, bytes))
        return SEGMENT_OVERFLOW;
    if (start > file_size)
        return SEGMENT_PAST_END;
    if (!segment->has_length)
        bytes = file_size - start;
    if (bytes > file_size - start)
        return SEGMENT_PAST_END;
    *offset = start;
    *length = bytes;
    return SEGMENT_RANGE_OK;
}

bool segment_remote_overflows(uint64_t remote, uint64_t length)
{
    return sum_overflows(remote, length);
}

/*
 * fuzz-segment.c - segments: what is parsed is spelt out to what parses equal, and a range lies within
 * its file.
 */
#include "config.h"

#include "segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define PROBLEM 96
#define SUFFIX 80 /* "@-", "+", "=" and three numbers */

/* The suffix, in plain bytes. */
static void spell_suffix(const struct segment *segment, char suffix[SUFFIX])
{
    int used = snprintf(suffix, SUFFIX, "@");
    if (segment->has_offset)
        used += snprintf(suffix + used, SUFFIX - (size_t)used, "%s%" PRIu64,
                         segment->from_end ? "-" : "", segment->offset);
    if (segment->has_length)
        used += snprintf(suffix + used, SUFFIX - (size_t)used, "+%" PRIu64, segment->length);
    if (segment->has_remote)
        snprintf(suffix + used, SUFFIX - (size_t)used, "=%" PRIu64, segment->remote);
}

static void assert_equal(const struct segment *a, const struct segment *b)
{
    FUZZ_ASSERT(strcmp(a->path, b->path) == 0);
    FUZZ_ASSERT(a->has_suffix == b->has_suffix);
    FUZZ_ASSERT(a->from_end == b->from_end);
    FUZZ_ASSERT(a->has_offset == b->has_offset);
    FUZZ_ASSERT(a->offset == b->offset);
    FUZZ_ASSERT(a->has_length == b->has_length);
    FUZZ_ASSERT(a->length == b->length);
    FUZZ_ASSERT(a->has_remote == b->has_remote);
    FUZZ_ASSERT(a->remote == b->remote);
}

static void assert_valid(const struct segment *segment, const char *argument)
{
    size_t len = strlen(segment->path);
    FUZZ_ASSERT(len > 0);
    FUZZ_ASSERT(strncmp(argument, segment->path, len) == 0);
    FUZZ_ASSERT(argument[len] == (segment->has_suffix ? '@' : '\0'));
    FUZZ_ASSERT(segment->has_suffix ||
                !(segment->has_offset || segment->has_length || segment->has_remote));
    FUZZ_ASSERT(segment->has_offset || !segment->from_end);
    FUZZ_ASSERT(segment->offset <= SEGMENT_MAX_BYTES);
    FUZZ_ASSERT(segment->length <= SEGMENT_MAX_BYTES);
    FUZZ_ASSERT(segment->remote <= SEGMENT_MAX_BYTES);
}

static void try_spelling(const struct segment *segment)
{
    char suffix[SUFFIX], problem[PROBLEM], *argument;
    struct segment again;
    spell_suffix(segment, suffix);
    if (asprintf(&argument, "%s%s", segment->path, suffix) < 0)
        abort();
    FUZZ_ASSERT(segment_parse(argument, &again, problem, sizeof problem) == SEGMENT_OK);
    FUZZ_ASSERT(again.has_suffix);
    again.has_suffix = segment->has_suffix;
    assert_equal(&again, segment);
    segment_free(&again);
    free(argument);
}

static void try_range(const struct segment *segment, uint64_t file_size)
{
    uint64_t offset, length;
    if (segment_resolve(segment, file_size, &offset, &length) != SEGMENT_RANGE_OK)
        return;
    FUZZ_ASSERT(offset <= file_size && length <= file_size - offset);
    FUZZ_ASSERT((segment->from_end ? file_size - offset : offset) == segment->offset);
    FUZZ_ASSERT(length == (segment->has_length ? segment->length : file_size - offset));
    FUZZ_ASSERT(segment_remote_overflows(segment->remote, length) ==
                (length > SEGMENT_MAX_BYTES - segment->remote));
}

static void try_segment(const struct segment *segment, const char *argument)
{
    assert_valid(segment, argument);
    try_spelling(segment);
    try_range(segment, 0);
    try_range(segment, 4096);
    try_range(segment, segment->offset);
    try_range(segment, SEGMENT_MAX_BYTES);
}

static void try_literal(const char *argument)
{
    struct segment segment;
    enum segment_result result = segment_literal(argument, &segment);
    FUZZ_ASSERT(result == (argument[0] ? SEGMENT_OK : SEGMENT_EMPTY));
    if (result != SEGMENT_OK)
        return;
    FUZZ_ASSERT(strcmp(segment.path, argument) == 0);
    FUZZ_ASSERT(!segment.has_suffix);
    segment_free(&segment);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argument = fuzz_text(data, size), problem[PROBLEM] = "";
    struct segment segment;
    if (segment_parse(argument, &segment, problem, sizeof problem) == SEGMENT_OK) {
        try_segment(&segment, argument);
        segment_free(&segment);
    } else {
        fuzz_assert_told(problem, sizeof problem);
    }
    try_literal(argument);
    free(argument);
    return 0;
}

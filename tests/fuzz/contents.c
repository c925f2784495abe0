#include "config.h"

#include "contents.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

struct content contents[CONTENTS] = {
    {.size = 100},
    {.size = 0},
    {.size = 4096},
    {.size = 70000},
    {.size = 600000},
    {.size = (1 << 20) + 5000}, /* large enough to be mapped */
    {.size = 300000, .hole_at = 4096, .hole_end = 200704},
    {.size = (2 * CONTENT_MOST_PIECES - 1) * CONTENT_PIECE, .pieces = CONTENT_MOST_PIECES},
};

static bool is_data(const struct content *content, uint64_t at)
{
    if (content->pieces > 0)
        return at / CONTENT_PIECE % 2 == 0;
    return at < content->hole_at || at >= content->hole_end;
}

static void make_pieces(struct content *content, const char *name)
{
    uint8_t file[CONTENT_PIECE * CONTENT_MOST_PIECES];
    for (unsigned i = 0; i < content->pieces; i++)
        memcpy(file + i * CONTENT_PIECE, content->bytes + 2 * i * CONTENT_PIECE, CONTENT_PIECE);
    tree_write(name, file, content->pieces * CONTENT_PIECE, 0, 0, content->path);
}

static void make(struct content *content, const char *name)
{
    if (!(content->bytes = calloc(1, content->size + 1)))
        abort();
    for (uint64_t i = 0; i < content->size; i++)
        if (is_data(content, i))
            content->bytes[i] = (uint8_t)(i * 31 % 251);
    if (content->pieces > 0)
        make_pieces(content, name);
    else
        tree_write(name, content->bytes, content->size, content->hole_at, content->hole_end,
                   content->path);
}

void contents_make(void)
{
    char name[] = "0";
    for (unsigned i = 0; i < CONTENTS; i++, name[0]++)
        make(&contents[i], name);
}

static int add_pieces(const struct content *content, struct sender_object *object,
                      struct segment *segment, struct error *err)
{
    segment->has_suffix = segment->has_offset = segment->has_length = segment->has_remote = true;
    segment->length = CONTENT_PIECE;
    for (unsigned i = 0; i < content->pieces; i++) {
        segment->offset = i * CONTENT_PIECE;
        segment->remote = 2 * i * CONTENT_PIECE;
        if (source_add(object->source, segment, true, object->plan, err) < 0)
            return -1;
    }
    return 0;
}

void content_open(const struct content *content, struct sender_object *object, struct error *err)
{
    struct segment segment = {.path = (char *)(uintptr_t)content->path};
    size_t a, b;
    object->plan = plan_new(PLAN_BY_DEST, PLAN_TARGET_SLOT);
    object->source = source_new(err);
    int rc = content->pieces > 0 ? add_pieces(content, object, &segment, err)
                                 : source_add(object->source, &segment, true, object->plan, err);
    if (rc < 0 || plan_seal(object->plan, &a, &b) != PLAN_OK)
        abort();
}

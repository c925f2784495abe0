/*
 * name.c - the names of objects, and of files on their way.
 */
#include "config.h"

#include "name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEMPORARY_MARK ".rdmaput-"
#define PARTIAL_MARK ".rdmaput-part-"

/* How the hidden names of a kind end: the mark, and hexadecimal digits. */
static const struct ending {
    const char *mark;
    size_t mark_len, digits;
} endings[] = {
    [NAME_TEMPORARY] = {TEMPORARY_MARK, sizeof TEMPORARY_MARK - 1, 16},
    [NAME_PARTIAL] = {PARTIAL_MARK, sizeof PARTIAL_MARK - 1, 2 * NAME_DIGEST_BYTES},
};

static size_t ending_len(enum name_kind kind)
{
    return endings[kind].mark_len + endings[kind].digits;
}

static bool ends_as(const char *at, size_t len, enum name_kind kind)
{
    const struct ending *ending = &endings[kind];
    if (len < 2 + ending_len(kind) || at[0] != '.')
        return false;
    const char *mark = at + len - ending_len(kind);
    return memcmp(mark, ending->mark, ending->mark_len) == 0 &&
           strspn(mark + ending->mark_len, "0123456789abcdef") >= ending->digits;
}

static enum name_kind kind_of(const char *at, size_t len)
{
    if (ends_as(at, len, NAME_TEMPORARY))
        return NAME_TEMPORARY;
    return ends_as(at, len, NAME_PARTIAL) ? NAME_PARTIAL : NAME_PLAIN;
}

enum name_kind name_kind(const char *component)
{
    return kind_of(component, strlen(component));
}

static bool has_control(const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)at[i] < 0x20 || at[i] == 0x7f)
            return true;
    return false;
}

/* What is wrong with one component; NULL: nothing. */
static const char *component_problem(const char *at, size_t len)
{
    if (len == 0)
        return "it has an empty part: two slashes in a row, or one at the end";
    if (len == 1 && at[0] == '.')
        return "it has a part '.'";
    if (len == 2 && at[0] == '.' && at[1] == '.')
        return "it has a part '..'";
    if (len > NAME_MOST)
        return "a part of it has more than 255 bytes";
    if (has_control(at, len))
        return "it has a control character";
    if (kind_of(at, len) != NAME_PLAIN)
        return "it looks like one of rdmaput's own hidden files";
    return NULL;
}

static const char *name_problem(const char *name)
{
    const char *problem = NULL;
    if (name[0] == '\0')
        return "it is empty";
    if (name[0] == '/')
        return "it is absolute";
    while (!problem) {
        size_t len = strcspn(name, "/");
        problem = component_problem(name, len);
        if (name[len] == '\0')
            break;
        name += len + 1;
    }
    return problem;
}

bool name_check(const char *name, char *problem, size_t size)
{
    const char *found = name_problem(name);
    if (found)
        snprintf(problem, size, "%s", found);
    return !found;
}

/* How much of a leaf fits into a hidden name. */
static size_t cut(const char *leaf, enum name_kind kind)
{
    size_t len = strlen(leaf), most = NAME_MOST - 1 - ending_len(kind);
    if (len <= most)
        return len;
    while (most > 1 && ((unsigned char)leaf[most] & 0xc0) == 0x80)
        most--;
    return most;
}

bool name_is_of(const char *hidden, const char *leaf)
{
    enum name_kind kind = name_kind(hidden);
    if (kind == NAME_PLAIN)
        return false;
    size_t len = cut(leaf, kind);
    return strlen(hidden) == 1 + len + ending_len(kind) && memcmp(hidden + 1, leaf, len) == 0;
}

void name_make_temporary(char hidden[NAME_MOST + 1], const char *leaf, uint64_t random)
{
    snprintf(hidden, NAME_MOST + 1, ".%.*s" TEMPORARY_MARK "%016" PRIx64,
             (int)cut(leaf, NAME_TEMPORARY), leaf, random);
}

void name_make_partial(char hidden[NAME_MOST + 1], const char *leaf,
                       const uint8_t digest[NAME_DIGEST_BYTES])
{
    int used = snprintf(hidden, NAME_MOST + 1, ".%.*s" PARTIAL_MARK, (int)cut(leaf, NAME_PARTIAL),
                        leaf);
    for (size_t i = 0; i < NAME_DIGEST_BYTES; i++)
        snprintf(hidden + used + 2 * i, 3, "%02x", digest[i]);
}

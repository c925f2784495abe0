/*
 * fuzz.c - what fuzz targets share.
 */
#include "config.h"

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    if (!text)
        abort();
    return text;
}

void fuzz_assert_told(const char *text, size_t size)
{
    size_t len = strnlen(text, size);
    FUZZ_ASSERT(len > 0);
    FUZZ_ASSERT(len < size);
}

#include "config.h"

#include "utf8.h"

#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

size_t utf8_length(const char *s)
{
    static const struct {
        unsigned char first, last, second_first, second_last, length;
    } rows[] = {
        {0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2},
        {0xe0, 0xe0, 0xa0, 0xbf, 3},                              /* less overlong forms */
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, /* less surrogates */
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4}, /* less overlong forms */
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}, /* up to U+10FFFF */
    };
    const unsigned char *byte = (const unsigned char *)s;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (byte[0] < rows[i].first || byte[0] > rows[i].last)
            continue;
        if (rows[i].length > 1 && (byte[1] < rows[i].second_first || byte[1] > rows[i].second_last))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if ((byte[k] & 0xc0) != 0x80)
                return 0;
        return rows[i].length;
    }
    return 0;
}

bool utf8_is_valid(const char *text)
{
    size_t length;
    while (*text && (length = utf8_length(text)) > 0)
        text += length;
    return *text == '\0';
}

bool utf8_is_control(const char *s, size_t length)
{
    const unsigned char *byte = (const unsigned char *)s;
    if (length == 1)
        return byte[0] < 0x20 || byte[0] == 0x7f;
    return length == 2 && byte[0] == 0xc2 && byte[1] < 0xa0;
}

bool utf8_is_noncharacter(const char *s)
{
    return strncmp(s, "\xef\xbf\xbe", 3) == 0 || strncmp(s, "\xef\xbf\xbf", 3) == 0;
}

char *utf8_repair(const char *text)
{
    char *repaired = malloc(strlen(text) * strlen(REPLACEMENT) + 1), *to = repaired;
    while (repaired && *text) {
        size_t length = utf8_length(text);
        if (length > 0) {
            memcpy(to, text, length);
            to += length;
            text += length;
        } else {
            memcpy(to, REPLACEMENT, strlen(REPLACEMENT));
            to += strlen(REPLACEMENT);
            text++;
        }
    }
    if (repaired)
        *to = '\0';
    return repaired;
}

#include "config.h"

#include "words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PLAIN                                                        \
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" \
    "%+,-./:@_"

/* What may not stand between single quotes: csh takes '!' for its history there, fish a backslash for
 * what it is elsewhere. */
#define ENDING "'!\\"

/* Moves *text behind the word, whose characters go to *out, with a NUL. */
static bool take_word(const char **text, char **out)
{
    char quote = '\0';
    const char *at = *text;
    for (; *at && (quote || *at != ' '); at++) {
        if (quote && at[0] == quote && at[1] == quote)
            *(*out)++ = *at++;
        else if (*at == quote)
            quote = '\0';
        else if (!quote && (*at == '\'' || *at == '"'))
            quote = *at;
        else
            *(*out)++ = *at;
    }
    *(*out)++ = '\0';
    *text = at;
    return !quote;
}

/* Words are parted by a character at least, which is the room for their NULs. */
enum words_result words_split(const char *text, char ***words)
{
    size_t len = strlen(text), most = len / 2 + 2, count = 0;
    char **made = calloc(1, most * sizeof *made + len + 1);
    if (!made)
        return WORDS_MEMORY;
    char *out = (char *)(made + most);
    bool closed = true;
    for (text += strspn(text, " "); *text && closed; text += strspn(text, " ")) {
        made[count++] = out;
        closed = take_word(&text, &out);
    }
    if (count > 0 && closed) {
        *words = made;
        return WORDS_OK;
    }
    free(made);
    return closed ? WORDS_NONE : WORDS_QUOTE;
}

char *words_quote(const char *word)
{
    size_t len = strlen(word);
    if (len > 0 && strspn(word, PLAIN) == len)
        return strdup(word);
    char *quoted = malloc(4 * len + 3), *out = quoted;
    if (!quoted)
        return NULL;
    *out++ = '\'';
    for (; *word; word++) {
        if (strchr(ENDING, *word)) {
            memcpy(out, (const char[]){'\'', '\\', *word, '\''}, 4);
            out += 4;
        } else {
            *out++ = *word;
        }
    }
    *out++ = '\'';
    *out = '\0';
    return quoted;
}

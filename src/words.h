/*
 * words.h - a command as one argument becomes words, and a word becomes part of a shell's line.
 */
#ifndef RDMAPUT_WORDS_H
#define RDMAPUT_WORDS_H

enum words_result {
    WORDS_OK = 0,
    WORDS_NONE,  /* nothing but spaces */
    WORDS_QUOTE, /* a quote does not close */
    WORDS_MEMORY,
};

/*
 * Splits a command as rsync(1) does that of its -e: at spaces alone, but for those between single or
 * double quotes, between which the doubled quote is the quote itself. There are no backslashes and no
 * variables. *words ends with NULL; free() it. It stays as it is unless WORDS_OK.
 */
enum words_result words_split(const char *text, char ***words);

/* The word so that a shell takes it for that word, a POSIX shell, fish or, less line ends, csh: as it is
 * where that is safe, else between single quotes. The caller frees it. NULL when memory is short. */
char *words_quote(const char *word);

#endif

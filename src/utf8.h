/*
 * utf8.h - text from outside, which may be any bytes.
 */
#ifndef RDMAPUT_UTF8_H
#define RDMAPUT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* How many bytes the character at s has, which ends with a NUL at the latest: 1 to 4; 0 when they are
 * no valid UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF). NUL is 1. */
size_t utf8_length(const char *s);

/* Whether all of a text is valid. */
bool utf8_is_valid(const char *text);

/* Whether the character at s, of that many bytes, is a control character: of C0, DEL, or of C1. */
bool utf8_is_control(const char *s, size_t length);

/* Whether the character at s is U+FFFE or U+FFFF, which neither XML nor YAML has. */
bool utf8_is_noncharacter(const char *s);

/* A copy in which each byte that is no part of valid UTF-8 is U+FFFD. The caller frees it; NULL when
 * memory is short. */
char *utf8_repair(const char *text);

#endif

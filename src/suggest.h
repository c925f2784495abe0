/*
 * suggest.h - what a misspelt word was probably meant to be.
 *
 * Pure.
 */
#ifndef RDMAPUT_SUGGEST_H
#define RDMAPUT_SUGGEST_H

#include <stddef.h>

/* The word of a set that is nearest so far; begin with zeros. */
struct suggestion {
    const char *word; /* NULL: none was near enough to be meant; not copied */
    unsigned distance;
};

/* Weighs a word that could have been meant by what was written. Near is one that it is the beginning of, or
 * that a letter left out, added or replaced, or two that changed places, make of it: once, and once more for
 * each three letters past the first three. Of equally near ones the first stays. */
void suggestion_weigh(struct suggestion *suggestion, const char *written, const char *word);

/* Optimal string alignment distance: how many such slips lie between two words, where no letter is
 * touched twice. UINT_MAX for words of more than SUGGEST_MOST bytes. */
unsigned suggest_distance(const char *a, const char *b);
#define SUGGEST_MOST 63

#endif

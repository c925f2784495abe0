/*
 * samples.h - numbers that were measured, and their percentiles: all are kept, or of more than there
 * is room for as many, by chance, each as likely as any other. Pure.
 */
#ifndef RDMAPUT_SAMPLES_H
#define RDMAPUT_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
    uint64_t *items; /* the caller's; in no order */
    size_t room;     /* at least 1 */
    uint64_t count;  /* that were added */
};

void samples_add(struct samples *samples, uint64_t number);

/* Puts those that are kept in order: the last thing before samples_percentile. */
void samples_sort(struct samples *samples);

/* By nearest rank, of one or more. */
uint64_t samples_percentile(const struct samples *samples, unsigned per_mille);

#endif

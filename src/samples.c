#include "config.h"

#include "samples.h"

#include <stdlib.h>

static size_t kept(const struct samples *samples)
{
    return samples->count < samples->room ? (size_t)samples->count : samples->room;
}

/* SplitMix64's number of that index: which ones are kept depends on how many there are, and on
 * nothing else. */
static uint64_t random_of(uint64_t index)
{
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void samples_add(struct samples *samples, uint64_t number)
{
    uint64_t place = samples->count++;
    if (place >= samples->room)
        place = random_of(place) % samples->count;
    if (place < samples->room)
        samples->items[place] = number;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

void samples_sort(struct samples *samples)
{
    qsort(samples->items, kept(samples), sizeof *samples->items, compare_numbers);
}

uint64_t samples_percentile(const struct samples *samples, unsigned per_mille)
{
    size_t rank = (kept(samples) * per_mille + 999) / 1000;
    return samples->items[rank > 0 ? rank - 1 : 0];
}

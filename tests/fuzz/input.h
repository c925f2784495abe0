/*
 * input.h - the bytes of a fuzz target's input, one after another, as instructions and their
 * arguments. Most are letters and digits, so that seeds can be written by hand.
 */
#ifndef RDMAPUT_TEST_INPUT_H
#define RDMAPUT_TEST_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *at;
    size_t left;
};

/* The next byte; 0 at the end. */
uint8_t input_byte(struct input *input);

/* One byte as a number: digits and small letters as in base 36, others for themselves. */
unsigned input_number(struct input *input);

/* One of the first count numbers. */
unsigned input_below(struct input *input, unsigned count);

/* The next len bytes, as far as there are so many; their count. */
size_t input_bytes(struct input *input, void *bytes, size_t len);

#endif

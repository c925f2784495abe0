/*
 * output.h - standard output, as stdio has it: whether all of it arrived. Any thread may use it.
 */
#ifndef RDMAPUT_OUTPUT_H
#define RDMAPUT_OUTPUT_H

#include "error.h"

/* Prints text and a line end, and writes them out. */
void output_line(const char *text);

/* Writes out what was printed so far. */
void output_flush(void);

/* The same; -1 with *err (74) when anything was lost since the start, but once only. */
int output_check(struct error *err);

/* The same, and nothing is printed any more. A standard output that was closed from the start is none. */
int output_close(struct error *err);

#endif

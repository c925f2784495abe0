/*
 * output.h - standard output, as stdio has it: whether all of it arrived. Any thread may use it.
 */
#ifndef RDMAPUT_OUTPUT_H
#define RDMAPUT_OUTPUT_H

#include "error.h"

/* Prints text and a line end, and writes them out, as output_write_line does. */
void output_line(const char *text);

/* The same to another descriptor, unbuffered. Who does not read is waited for, until a signal has come:
 * then for a second, and once only; a second signal ends that, too. -1 with errno. */
int output_write_line(int fd, const char *text);

/* Writes out what was printed so far. */
void output_flush(void);

/* The same; -1 with *err (74) when anything was lost since the start, but once only. */
int output_check(struct error *err);

/* The same, and nothing is printed any more. A standard output that was closed from the start is none. */
int output_close(struct error *err);

#endif

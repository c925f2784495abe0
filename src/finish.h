/*
 * finish.h - how the process ends when a command has failed.
 */
#ifndef RDMAPUT_FINISH_H
#define RDMAPUT_FINISH_H

#include "error.h"

/* Prints the error and returns its exit status, 0 for none; for ERROR_INTERRUPTED it dies by the
 * signal instead. */
int finish_status(const struct error *err);

/* Exits with that, whatever other threads are at. Nothing is freed. */
void finish(const struct error *err) __attribute__((noreturn));

#endif

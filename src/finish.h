/*
 * finish.h - how the process ends when a command has.
 */
#ifndef RDMAPUT_FINISH_H
#define RDMAPUT_FINISH_H

#include <json-c/json.h>

#include "error.h"

/* What the command is to be told as, from now on, once it has ended: taken over; NULL: as nothing. */
void finish_with(struct json_object *document);

/* What holds all the same, such as that all was delivered, if it is found as the process ends that what was
 * printed is lost, and nothing else has failed. Static storage. */
void finish_in_spite(const char *what);

/* Prints the error, and the document of finish_with, and returns the exit status, 0 for no error; for
 * ERROR_INTERRUPTED it dies by the signal instead. */
int finish_status(const struct error *err);

/* Exits with that, whatever other threads are at. Nothing is freed. */
void finish(const struct error *err) __attribute__((noreturn));

#endif

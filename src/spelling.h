/*
 * spelling.h - a command line is looked through before argp takes it, so that a misspelt long option
 * gets a suggestion.
 */
#ifndef RDMAPUT_SPELLING_H
#define RDMAPUT_SPELLING_H

#include <argp.h>

#include "error.h"

/* argv[0] is the command. -1 with *err (64) where it has a long option that neither argp nor its children
 * have, nor argp by itself; flags are as for argp_parse. What else is wrong with it is argp's to say. */
int spelling_check(const struct argp *argp, unsigned flags, int argc, char *const *argv,
                   struct error *err);

#endif

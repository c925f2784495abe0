/* findings-human.h - findings as lines for people. */
#ifndef RDMAPUT_FINDINGS_HUMAN_H
#define RDMAPUT_FINDINGS_HUMAN_H

#include <stdbool.h>
#include <stdio.h>

#include "findings.h"

/* Whether what goes there may have colours: to a terminal that can, unless $NO_COLOR is set. */
bool findings_human_wants_colour(FILE *out);

/* One finding: its name, result and text, and below, further in, its hint. */
void findings_human_line(FILE *out, bool colour, const struct finding *finding);

/* How many there are of each result. */
void findings_human_sum(FILE *out, const struct findings *findings);

#endif

/* findings-junit.h - findings as XML, in the elements that JUnit's reports have. */
#ifndef RDMAPUT_FINDINGS_JUNIT_H
#define RDMAPUT_FINDINGS_JUNIT_H

#include <stdint.h>
#include <stdio.h>

#include "findings.h"

/* suite: its name; ns: how long all of it took. A warning has passed, and stands in its system-out. */
void findings_junit(FILE *out, const struct findings *findings, const char *suite, uint64_t ns);

#endif

/* findings-tap.h - findings as the Test Anything Protocol, version 13, with diagnostics in YAML. */
#ifndef RDMAPUT_FINDINGS_TAP_H
#define RDMAPUT_FINDINGS_TAP_H

#include <stdio.h>

#include "findings.h"

/* A warning is ok, and its diagnostics say what it is. */
void findings_tap(FILE *out, const struct findings *findings);

#endif

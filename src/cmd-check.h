/* cmd-check.h - rdmaput check: whether RDMA works on this host, and from here to there. */
#ifndef RDMAPUT_CMD_CHECK_H
#define RDMAPUT_CMD_CHECK_H

#include "error.h"

/* argv[0] is "rdmaput check". 0, or -1 with *err: ERROR_CHECK when a test failed, ERROR_UNAVAILABLE
 * where this host has no device. Usage errors end the process with 64. */
int cmd_check(int argc, char **argv, struct error *err);

#endif

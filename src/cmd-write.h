/* cmd-write.h - rdmaput write: segments of files become one object at a server. */
#ifndef RDMAPUT_CMD_WRITE_H
#define RDMAPUT_CMD_WRITE_H

#include "error.h"

/* argv[0] is "rdmaput write". 0, or -1 with *err. Usage errors end the process with 64. */
int cmd_write(int argc, char **argv, struct error *err);

#endif

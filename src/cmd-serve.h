/* cmd-serve.h - rdmaput serve: takes what clients write. */
#ifndef RDMAPUT_CMD_SERVE_H
#define RDMAPUT_CMD_SERVE_H

#include "error.h"

/* argv[0] is "rdmaput serve". 0, or -1 with *err. Usage errors end the process with 64. */
int cmd_serve(int argc, char **argv, struct error *err);

#endif

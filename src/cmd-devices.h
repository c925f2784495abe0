/* cmd-devices.h - rdmaput devices: the RDMA devices of this host. */
#ifndef RDMAPUT_CMD_DEVICES_H
#define RDMAPUT_CMD_DEVICES_H

#include "error.h"

/* argv[0] is "rdmaput devices". 0, or -1 with *err. Usage errors end the process with 64. */
int cmd_devices(int argc, char **argv, struct error *err);

#endif

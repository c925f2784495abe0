/* cmd-post.h - rdmaput post: one-sided writes into exposed memory. */
#ifndef RDMAPUT_CMD_POST_H
#define RDMAPUT_CMD_POST_H

#include "error.h"

/* argv[0] is "rdmaput post". 0, or -1 with *err. Usage errors end the process with 64. */
int cmd_post(int argc, char **argv, struct error *err);

#endif

/* sink-file.h - a regular file that is replaced whole. */
#ifndef RDMAPUT_SINK_FILE_H
#define RDMAPUT_SINK_FILE_H

#include "sink.h"

/*
 * A regular file at path, created or replaced when an object is whole (replacement.h). A path that
 * is a symbolic link stands for what it points to. Checks that the directory is there and can be
 * written, and that path is no directory, device, FIFO or socket, and with no_clobber nothing at
 * all. What a killed server left of this file goes. NULL with *err (73). options are copied.
 */
struct sink *sink_file_new(const char *path, const struct sink_options *options, struct error *err);

#endif

/* sink-file.h - a regular file that is replaced whole. */
#ifndef RDMAPUT_SINK_FILE_H
#define RDMAPUT_SINK_FILE_H

#include "sink.h"

/*
 * A regular file at path, created or replaced when an object is whole. A path that is a symbolic
 * link stands for what it points to. Checks that the directory is there and can be written, and
 * that path is no directory, device, FIFO or socket. NULL with *err (73).
 */
struct sink *sink_file_new(const char *path, struct error *err);

#endif

/* sink-dir.h - a directory below which clients name files. */
#ifndef RDMAPUT_SINK_DIR_H
#define RDMAPUT_SINK_DIR_H

#include "sink.h"

/*
 * An existing directory at path, which is opened once and must be writable. Each object is a file
 * below it, created or replaced when it is whole (replacement.h); missing directories are made with
 * it. A name leads to nothing outside, and through no symbolic link. What killed servers left in
 * the tree goes meanwhile. NULL with *err (73). options are copied.
 */
struct sink *sink_dir_new(const char *path, const struct sink_options *options, struct error *err);

#endif

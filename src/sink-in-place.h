/* sink-in-place.h - an existing file or block device, written where clients say. */
#ifndef RDMAPUT_SINK_IN_PLACE_H
#define RDMAPUT_SINK_IN_PLACE_H

#include "sink.h"

/*
 * An existing regular file or block device at path, written at the offsets that clients name.
 * Nothing else in it changes: not what gaps leave out, not mode and times (request->preserve is
 * not heeded). A file grows where an object ends behind its end, and never shrinks. A block device
 * does not grow: an object that is known to end behind its end is refused before any data (73),
 * and another one fails at the first byte that does not fit (74). What was written cannot be
 * taken back.
 *
 * path is opened for each object, so that one is written to what has the name by then, and a block
 * device only while nobody else uses it: a mounted one is refused. Without sync, and unless the
 * client asks for it, commit does not wait for stable storage.
 *
 * NULL with *err: 73 when there is no such file, when it cannot be opened for writing now, and for
 * a directory, character device, FIFO or socket; 64 for an empty path.
 */
struct sink *sink_in_place_new(const char *path, bool sync, struct error *err);

#endif

/* sink-stdout.h - standard output, in order. */
#ifndef RDMAPUT_SINK_STDOUT_H
#define RDMAPUT_SINK_STDOUT_H

#include "sink.h"

/*
 * Standard output: a pipe, a socket, a file or a device, written from where it stands. Gaps, also
 * the one before the size at commit, come out as zeros. A reader may be as slow as it likes: only
 * stop_fd ends the wait for it (ERROR_INTERRUPTED). One that leaves before commit is an error
 * (74), and so is a full device. What was written cannot be taken back. The descriptor is neither
 * made non-blocking nor closed; SIGPIPE is to be ignored.
 *
 * NULL with *err: 74 for a standard output that is closed or cannot be written, 64 for a
 * terminal, where an object would be noise or worse ('| cat' shows it all the same).
 */
struct sink *sink_stdout_new(struct error *err);

#endif

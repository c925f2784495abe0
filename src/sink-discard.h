/* sink-discard.h - sinks that keep nothing. */
#ifndef RDMAPUT_SINK_DISCARD_H
#define RDMAPUT_SINK_DISCARD_H

#include "sink.h"

/* Verified, counted and thrown away. NULL with *err. */
struct sink *sink_discard_new(struct error *err);

/* No sink: every object is refused. NULL with *err. */
struct sink *sink_none_new(struct error *err);

#endif

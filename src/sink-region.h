/* sink-region.h - the memory of a region, written at the offsets of the objects that arrive. */
#ifndef RDMAPUT_SINK_REGION_H
#define RDMAPUT_SINK_REGION_H

#include "region.h"
#include "sink.h"

/* region: not owned. NULL with *err. */
struct sink *sink_region_new(struct region *region, struct error *err);

#endif

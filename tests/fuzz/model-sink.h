/*
 * model-sink.h - a sink in memory, for fuzz targets: what it holds can be looked at, and it fails when it
 * is told to.
 */
#ifndef RDMAPUT_TEST_MODEL_SINK_H
#define RDMAPUT_TEST_MODEL_SINK_H

#include "sink.h"

#define MODEL_BYTES ((size_t)1 << 20) /* no object is larger */

struct model_sink {
    struct sink sink;
    uint8_t *content; /* of the object that was begun last, MODEL_BYTES */
    uint64_t kept;    /* bytes that are there of every object that is resumed, of model_kept */
    bool fail_begin, fail_store, fail_commit, fail_map, fail_recall; /* the next one; then false */
    bool
        cut; /* somebody has cut the file, until the next object begins: content may not be touched */
    unsigned begun, committed, alive; /* objects */
    /* The object that was begun as number index, from 0, is to be committed. */
    void (*committing)(unsigned index, const uint8_t *content, uint64_t size);
    /* Private. */
    int fd;
    uint64_t used, resumed_at; /* bytes of content */
};

/* Once in a program; model_reset before each session. */
void model_open(struct model_sink *sink);
void model_reset(struct model_sink *sink, uint64_t kept);

/* Somebody cuts the file of the object that is there. */
void model_cut(struct model_sink *sink);

/* The byte of what was kept at that offset. */
uint8_t model_kept(uint64_t offset);

#endif

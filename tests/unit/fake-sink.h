/*
 * fake-sink.h - a sink for unit tests: it counts what it is asked for, and fails where it is told to.
 */
#ifndef RDMAPUT_TEST_FAKE_SINK_H
#define RDMAPUT_TEST_FAKE_SINK_H

#include "sink.h"

struct fake_sink {
    struct sink sink;
    uint64_t kept;       /* bytes that the next object finds */
    const char *content; /* of what was kept; NULL: all of it is 'k' */
    bool fail_begin, fail_recall, fail_resume, fail_commit;
    unsigned fail_store; /* the number of the store that fails, from 1; 0: none */
    int map_fd;          /* where objects go, and what may be mapped; negative: nowhere */
    unsigned begun, stores, recalls, committed, abandoned, kept_again;
    unsigned resumed;    /* calls of resume_at */
    uint64_t resumed_at; /* by the last one; UINT64_MAX before */
    unsigned stores_before_resume;
    uint64_t committed_size;
    uint64_t stored_end; /* of the last store */
};

void fake_sink_open(struct fake_sink *sink);

#endif

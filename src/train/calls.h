// calls.h -- issues planned calls (parallel/calls.h): resolves their arrays and their communicators. The plan
// says which calls there are. No strategy has a name here.
#ifndef TRIREME_TRAIN_CALLS_H
#define TRIREME_TRAIN_CALLS_H

#include "parallel/calls.h"
#include "train/compress/compress.h"
#include "train/spans/spans.h"

// What the calls of a bucket need, borrowed.
typedef struct calls_run {
    comm *const *groups;    // communicators of process groups by number (parallel/plan.h)
    compressor *compressor; // NULL: no call is compressed
    device_stream *on;
    int bucket;
    uint64_t step; // finished optimizer steps
    // Of the instruction's calls, of which the first is `first`; NULL: the step is not timed.
    trainer_call_spans spans;
    const schedule_call *first;
} calls_run;

// Issues `count` calls in one array. `array` is the first element of the bucket, in memory of comm_alloc.
// `shards` are this rank's shards, for calls that are not in place. Collective over the groups of the calls.
status calls_issue(const calls_run *r, const schedule_call *c, int count, void *array, void *shards,
                   err *e);

#endif

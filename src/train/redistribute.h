// redistribute.h -- executes the plan's redistributions: a bucket of weights or gradients goes from
// one placement to another. The plan says which collectives that takes, over which process groups
// (parallel/plan_redistribute.c). No strategy has a name here.
#ifndef TRIREME_TRAIN_REDISTRIBUTE_H
#define TRIREME_TRAIN_REDISTRIBUTE_H

#include "comm/packed.h"
#include "parallel/plan.h"

// Carries out redistribution m of bucket `bucket`. `full` [bucket elements of m->layout] has
// elements of type t and is memory of comm_alloc. With shards NULL all steps run in place.
// Otherwise this rank's shards lie in `shards`: a first step that is an all-gather reads them there,
// in the layout that the step starts from, and a last step that is a reduce-scatter writes them
// there, in the layout that the step ends with. groups[] has the communicators of process groups by
// number (parallel/plan.h). The work is issued to stream `on`. Collective over the groups of m's steps.
status redistribute_bucket(const plan *p, const plan_redistribution *m, int bucket, void *shards,
                           void *full, dtype t, comm *const *groups, device_stream *on, err *e);

// How redistribute_bucket will be called.
typedef struct redistribute_use {
    dtype type;
    device_stream_kind stream;
    bool has_shards; // `shards` is not NULL
} redistribute_use;

// Adds the calls over segments that redistribute_bucket will issue to the tables of packed calls.
status redistribute_add_calls(const plan *p, const plan_redistribution *m, int bucket,
                              const redistribute_use *use, comm_packing *to, err *e);

#endif

// redistribute.h -- executes the plan's redistributions: a bucket of weights or gradients goes from
// one placement to another. The plan says which collectives that takes, over which process groups
// (parallel/plan_redistribute.c). No strategy has a name here.
#ifndef TRIREME_TRAIN_REDISTRIBUTE_H
#define TRIREME_TRAIN_REDISTRIBUTE_H

#include "comm/comm.h"
#include "parallel/plan.h"

// Carries out redistribution m of bucket `bucket`. `full` [bucket elements of m->layout] has
// elements of type t and is memory of comm_alloc. With shards NULL all steps run in place.
// Otherwise the first step, an all-gather, reads this rank's shards from `shards`, in the layout
// that the step starts from. groups[] has the communicators of process groups by
// number (parallel/plan.h). The work is issued to stream `on`. Collective over the groups of m's steps.
status redistribute_bucket(const plan *p, const plan_redistribution *m, int bucket,
                           const void *shards, void *full, dtype t, comm *const *groups,
                           device_stream *on, err *e);

#endif

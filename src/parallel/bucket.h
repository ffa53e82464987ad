// bucket.h -- the buckets that weights and gradients travel in. Which collectives a move needs, on
// which axes, stands in the plan (plan_redistribute.c): this file does not know the name of any strategy.
#ifndef TRIREME_PARALLEL_BUCKET_H
#define TRIREME_PARALLEL_BUCKET_H

#include "comm/comm.h"
#include "parallel/plan.h"

// Carries out `m` for bucket b, whose elements of type t start at `at`, laid out as an array of
// level m->array. own NULL: everything in place; else the first move (a gather) takes this rank's
// parts from there, laid out as an array of the level that it starts from. Collective over the axes
// of the moves; along[] has a communicator for each axis.
status bucket_redistribute(const plan *p, const plan_redistribution *m, int b, const void *own,
                           void *at, dtype t, comm *const *along, device_stream *on, err *e);

#endif

// bucket.h -- the flat arrays that gradients are reduced in. Which collective a bucket needs is
// looked up in the table of placements and never decided here: this file does not know the name of
// any strategy.
#ifndef TRIREME_PARALLEL_BUCKET_H
#define TRIREME_PARALLEL_BUCKET_H

#include "comm/comm.h"
#include "parallel/plan.h"

// Takes bucket b's gradients (fp32, flat, of the whole plan) from how they are accumulated to how
// the optimizer needs them. Collective over c (the data-parallel group).
status bucket_reduce(const plan *p, int b, float *gradients, comm *c, stream *on, err *e);

// Takes bucket b's weights from how the optimizer leaves them to how they are kept. Collective over
// c.
status bucket_publish(const plan *p, int b, void *weights, dtype type, comm *c, stream *on, err *e);

#endif

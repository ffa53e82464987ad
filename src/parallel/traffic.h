// traffic.h -- the bytes that a rank sends in one training step, by link, from its plan and its
// list of instructions alone: what `trireme plan` prints beside the bytes of memory, and what a
// communicator that counts (comm/trace.h) must show.
//
// Collectives count as by the formulas of a ring of n ranks: all-reduce 2(n-1)/n of the payload,
// reduce-scatter and all-gather the whole less the rank's own part; a message counts where it is
// sent. What repeats more rarely than every step (comparing replicas, evaluation, saving) is left
// out.
#ifndef TRIREME_PARALLEL_TRAFFIC_H
#define TRIREME_PARALLEL_TRAFFIC_H

#include "parallel/instructions.h"

// What a block sends in one micro-batch, in bytes.
typedef struct traffic_block {
    double input, output; // its input gradient, its output: to another stage
    double tp[COMPUTES];  // over tp, by what a pass computes (COMPUTES_FORWARD, …)
} traffic_block;

// Fills p->moved. `blocks` has a row for every block of the model (those of other stages are not
// read); `agreed` is the payload of CLIP_GRAD_NORM's all-reduce.
void traffic_count(plan *p, const schedule *s, const traffic_block *blocks, double agreed);

// "tp", "neighbours", …
const char *process_group_name(int link);
double traffic_total(const plan *p);

#endif

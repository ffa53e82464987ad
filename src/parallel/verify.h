// verify.h -- proof, before anything runs, that the lists of a pipeline's stages come to their end
// and that no instruction uses what is not there.
#ifndef TRIREME_PARALLEL_CHECK_H
#define TRIREME_PARALLEL_CHECK_H

#include "parallel/schedule.h"

// of_stage[i] and plan_of_stage[i] are of stage i; the lists of one data-parallel and
// tensor-parallel coordinate stand for all, which have the same.
//
// Between stages (replay.h): every message is sent to and received from a neighbour, in the order in
// which it was sent; no stage waits for ever.
// Within a list: a block has its input, weights, batch and gradient when it runs, each once for
// every micro-batch; activations are not overwritten before their backward, nor gradients or
// gathered weights while they are needed; every bucket is reduced for the last time once, after its
// last gradient, after REDUCE_TIED_GRAD where two stages share it; then follow CLIP_GRAD_NORM, its OPTIMIZER_STEP and its ALL_GATHER_UPDATED;
// state is fetched from its file before it is read, and written back.
//
// E_INTERNAL naming stage, instruction (its number from 0, and its text) and what is wrong.
status schedule_verify(const schedule *const *of_stage, const plan *const *plan_of_stage,
                       int stages, err *e);

#endif

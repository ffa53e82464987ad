// state.h -- the flat arrays of a trainer: weights, post-forward shards, gradients, fp32 master weights
// and the optimizer's moments. Each holds this rank's local shards, bucket by bucket, in the layout
// that the plan gives to the bucket's group. It owns the arrays that lie in memory, and the flags that
// say which gradients a step has written. State that is swapped is in tiers.h.
#ifndef TRIREME_TRAIN_STATE_H
#define TRIREME_TRAIN_STATE_H

#include "train/trainer.h"

typedef struct trainer_state trainer_state;

// Counts memory, or allocates it.
status state_allocate(trainer *t, err *e);
void state_close(trainer *t);

// An array; NULL where nothing of it is in memory.
char *state_array(const trainer *t, plan_array a);
// A bucket's part of an array; NULL where its group has no such array in memory.
char *state_bucket(const trainer *t, plan_array a, int bucket);
// Row r's tied gradient, [r->count]; the row must have one.
float *state_tied_gradient(const trainer *t, const plan_row *r);
// The shards of the second uses of a bucket (plan_bucket.second_use), laid out as those of the first.
float *state_tied_shards(const trainer *t, int bucket);

// Whether this step has written the gradient of a row. While it has not, the next write overwrites.
bool *state_grad_written(const trainer *t, int row);
bool *state_tied_grad_written(const trainer *t, int row);
// Records that no gradient is written yet.
void state_reset_gradients(trainer *t);

#endif

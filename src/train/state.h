// state.h -- the flat arrays of a trainer: weights, fp32 master weights, the optimizer's moments
// and gradients, each with this rank's local shards in the layout that the plan gives the array. It
// owns the arrays that lie in memory, and the flags that say which gradients a step has written. An
// array is NULL when its state lies in a file (see tiers.h).
#ifndef TRIREME_TRAIN_STATE_H
#define TRIREME_TRAIN_STATE_H

#include "train/trainer.h"

typedef struct trainer_state trainer_state;

// Counts memory, or allocates it.
status state_allocate(trainer *t, err *e);
void state_close(trainer *t);

char *state_weights(const trainer *t); // [elements of plan->weight] in the compute type
float *state_master(const trainer *t); // [elements of plan->optimizer]; NULL: weights are F32
float *state_moment(const trainer *t, int i); // likewise; 0: m, 1: v; NULL: the rule has none
float *state_gradients(const trainer *t);     // [elements of plan->gradient]

// The address of a bucket in one of the arrays.
char *state_bucket_weights(const trainer *t, int bucket);
float *state_bucket_gradients(const trainer *t, int bucket);
// Row r's local shard in the post-forward group, in the compute type.
char *state_post_forward(const trainer *t, const plan_row *r);
// Row r's tied gradient, [r->count]; the row must have one.
float *state_tied_gradient(const trainer *t, const plan_row *r);

// Whether this step has written the gradient of a row. While it has not, the next write overwrites.
bool *state_grad_written(const trainer *t, int row);
bool *state_tied_grad_written(const trainer *t, int row);
// Records that no gradient is written yet.
void state_reset_gradients(trainer *t);

#endif

// state_shards.h -- finds this rank's local shards of one kind of state, in memory or in a file.
#ifndef TRIREME_TRAIN_STATE_SHARDS_H
#define TRIREME_TRAIN_STATE_SHARDS_H

#include "train/trainer.h"

// One kind of state.
typedef struct state_shards {
    plan_state what;
    plan_layout array;  // the layout in which the array lies
    plan_layout shards; // the layout of the elements that this rank answers for
    int number;         // index among the optimizer's arrays in a file
    char *memory;       // the array; NULL: the array is in a file
} state_shards;

state_shards state_shards_of(const trainer *t, trainer_state_kind part);
// Finds row r's local shard: *ptr is its first element, F32, and *s says which elements of the row
// it has. A shard from a file stays in the staging buffer until another bucket of the same state is
// staged. `will_write` says that the caller changes it, so it is then written back to the file.
status state_shards_find(trainer *t, const state_shards *x, const plan_row *r, bool will_write,
                         float **ptr, plan_shard *s, err *e);

#endif

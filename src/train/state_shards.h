// state_shards.h -- finds this rank's local shards of one part of the state, in memory or in a file.
#ifndef TRIREME_TRAIN_STATE_SHARDS_H
#define TRIREME_TRAIN_STATE_SHARDS_H

#include "train/trainer.h"

// One part of the state.
typedef struct state_shards {
    plan_state what;
    plan_layout array;  // the layout in which the array lies
    plan_layout shards; // the layout of the elements that this rank answers for
    int number;         // which of the optimizer's arrays it is in a file
    char *memory;       // the array; NULL: it is in a file
} state_shards;

state_shards state_shards_of(const trainer *t, trainer_state_kind part);
// Row r's local shard: *ptr is its first element, F32, and *s says which elements of the row it has. From
// a file, it stays there until another bucket of the same state is staged; `will_write`: it is
// written and goes back to the file then.
status state_shards_find(trainer *t, const state_shards *x, const plan_row *r, bool will_write,
                         float **ptr, plan_shard *s, err *e);

#endif

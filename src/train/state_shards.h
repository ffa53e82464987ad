// state_shards.h -- finds this rank's local shards of one kind of state of a parameter, in an array or on
// a tier. The parameter's group determines in which array and layout they lie.
#ifndef TRIREME_TRAIN_STATE_SHARDS_H
#define TRIREME_TRAIN_STATE_SHARDS_H

#include "train/trainer.h"

// One kind of state of a parameter group.
typedef struct state_shards {
    plan_array array;
    dtype type;         // of its elements
    plan_layout layout; // in which the array lies
    plan_layout shards; // the layout of the elements that this rank answers for
    bool packed;        // elements are words of packed rows (base/nf4.h)
} state_shards;

state_shards state_shards_of(const plan_group *g, trainer_state_kind part);
// Finds row r's local shard: *ptr is its first element, of x->type, and *s says which elements of the
// row it has. A shard that is swapped stays in the staging buffer until another bucket of the same state
// is staged. `will_write` says that the caller changes it, so it then goes back to its tier.
status state_shards_find(trainer *t, const state_shards *x, const plan_row *r, bool will_write,
                         char **ptr, plan_shard *s, err *e);
// Whether parameter p's shard passes through a staging buffer, so that work with it must end before the
// shard of another bucket is found.
bool state_is_staged(const trainer *t, const state_shards *x, int p);

// Several ranks may have the same shard of a row. They have state_shards_copies copies of it, which are
// numbered from 0.
int state_shards_copies(const trainer *t, const plan_row *r, plan_layout shards);
// Whether the rank at these coordinates has a shard of parameter p's row r, and copy `copy` of it.
bool state_shards_has_copy(const trainer *t, const plan_row *r, plan_layout shards, int copy,
                           const int coord[AXES]);

#endif

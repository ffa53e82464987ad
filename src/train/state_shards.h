// state_shards.h -- where this rank keeps its parts of the state, in memory or in a file. Inside train/.
#ifndef TRIREME_TRAIN_HOLDING_H
#define TRIREME_TRAIN_HOLDING_H

#include "train/state.h"

// A part of the state as an array: what kind it is of, its level, and which parts of rows count.
typedef struct holding {
    plan_state what;
    plan_layout array, parts;
    int number; // of the optimizer's arrays in a file
    char *at;   // NULL in a file
} holding;

holding holding_of(const trainer *t, trainer_state_kind part);
// Where this rank's part of row r is: *at its first element, *s which of the row's they are. From a
// file, it is there until another bucket is shown; what `will_write` goes back to the file then.
status holding_find(trainer *t, const holding *h, const plan_row *r, bool will_write, float **at,
                    plan_shard *s, err *e);
// The same for a whole bucket of a file.
status trainer_show_bucket(trainer *t, plan_state what, int bucket, bool will_write, char **at,
                           err *e);

#endif

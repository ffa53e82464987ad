// schedule_private.h -- shared by the files that build a schedule.
#ifndef TRIREME_PARALLEL_SCHEDULE_PRIVATE_H
#define TRIREME_PARALLEL_SCHEDULE_PRIVATE_H

#include "parallel/schedule.h"

enum { STATE_SLOTS = 3 }; // one read, one in use, one written

// One block's pass.
typedef struct visit {
    pipe_kind kind;
    int micro, block;
    int act, held; // slots of its chunk; held -1 where backward is not halved
} visit;

typedef struct builder {
    const plan *p;
    schedule *s;
    pass what;
    visit *visit;
    int visits;
    int *weight_slot, *gradient_slot, *fetched; // by bucket, -1: none
    bool *kept;                                 // by bucket: its parts are among neighbours
    bool *weight_busy, *gradient_busy;          // by slot
    bool *state_busy[TIERED];
    int *state_used[TIERED]; // by slot: the turn that filled it last
    int loaded, done;        // batches so far
    int turn[TIERED];
} builder;

// Makes the list of visits; the builder's tables are empty.
status builder_open(builder *b, err *e);
void builder_close(builder *b);

#endif

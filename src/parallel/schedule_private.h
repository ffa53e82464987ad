// schedule_private.h -- shared by the files that build a schedule.
#ifndef TRIREME_PARALLEL_SCHEDULE_PRIVATE_H
#define TRIREME_PARALLEL_SCHEDULE_PRIVATE_H

#include "parallel/schedule.h"

enum { STATE_SLOTS = 3 }; // one read, one in use, one written

// One block's pass.
typedef struct visit {
    pipeline_pass kind;
    int micro, block;
    int act, held; // slots of its chunk; held -1 where backward is not halved
} visit;

// Slots of varying size. Those that are free are in the order of their elements, then of their
// numbers.
typedef struct schedule_slot_pool {
    schedule_slots *sizes;
    int *free;
    int frees;
    size_t size_room, free_room;
    bool failed; // memory lacked
} schedule_slot_pool;

// The free slot that has to grow least for so many elements, else a new one. -1 and p->failed when
// memory lacks.
int schedule_slot_take(schedule_slot_pool *p, int64_t elements);
void schedule_slot_give(schedule_slot_pool *p, int slot);

// What comes after a visit, for one of its block's buckets.
enum {
    NEXT_IS_BACKWARD = 1, // the next visit that needs it is no forward
    MORE_GRADIENTS = 2    // a later visit of the same micro-batch adds to its gradients
};

typedef struct builder {
    const plan *p;
    schedule *s;
    schedule_pass what;
    visit *visit;
    int visits;
    int *weight_slot, *gradient_slot, *fetched; // by bucket, -1: none
    bool *kept;                                 // by bucket: its parts are among neighbours
    schedule_slot_pool weights, gradients;
    size_t *first_after; // [visits] where its block's buckets begin in
    unsigned char *after;
    bool failed;                       // memory lacked: schedule_make fails at its end
    schedule_instr no_instr;           // what cannot be added is written here
    size_t state_room[3][PLAN_STATES]; // of the elements, and of the two arrays below
    bool *state_busy[PLAN_STATES];
    int *state_used[PLAN_STATES]; // by slot: the turn that filled it last
    int loaded, done;             // batches so far
    int turn[PLAN_STATES];
} builder;

// Are the gradients of its block's weights complete for this micro-batch, but for other visits?
static inline bool visit_ends_gradients(const visit *v)
{
    return v->kind == PIPE_BACKWARD || v->kind == PIPE_BACKWARD_WEIGHT;
}

// Makes the list of visits; the builder's tables are empty.
status builder_open(builder *b, err *e);
void builder_close(builder *b);

#endif

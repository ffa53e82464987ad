// schedule_private.h -- what schedule.c, schedule_visits.c and schedule_slots.c share while they build
// a schedule.
#ifndef TRIREME_PARALLEL_SCHEDULE_PRIVATE_H
#define TRIREME_PARALLEL_SCHEDULE_PRIVATE_H

#include "parallel/schedule.h"

enum { STATE_SLOTS = 3 }; // one read, one in use, one written

// One pass over one block.
typedef struct schedule_visit {
    pipeline_pass kind;
    int micro, block;
    int act, wgrad; // slots of its chunk; wgrad -1: dgrad and wgrad run together
} schedule_visit;

// Slots of varying size.
typedef struct schedule_slot_pool {
    schedule_slots *sizes;
    int *free; // [free_count] free slots, by elements, then by number
    int free_count;
    size_t size_room, free_room; // of sizes->elements and of `free`, in items
} schedule_slot_pool;

// Takes the free slot that has to grow least for so many elements, or a new one if none is free.
// Returns -1 when out of memory.
int schedule_slot_take(schedule_slot_pool *p, int64_t elements);
void schedule_slot_give(schedule_slot_pool *p, int slot);

// Bits that say what follows a visit, for one bucket of its block.
enum {
    VISIT_NEXT_IS_BACKWARD = 1, // the next visit that uses the bucket is a backward
    VISIT_MORE_GRADIENTS = 2    // a later visit of the same micro-batch adds to its gradients
};

typedef struct schedule_builder {
    const plan *p;
    schedule *s;
    bool no_memory;           // an allocation failed; the list is incomplete
    schedule_instr discarded; // receives the instructions after that
    schedule_visit *visit;
    int visits;
    int *weight_slot, *gradient_slot; // [buckets] -1: none
    int *swapped_in;                  // [buckets] state slot of the weights from the file; -1: none
    bool *post_forward;               // [buckets] the post-forward group keeps the weights
    schedule_slot_pool weights, gradients;
    unsigned char *after;              // VISIT_… of each bucket of each visit, visit by visit
    size_t *first_after;               // [visits] index in `after` of the first bucket of the visit
    bool *state_busy[PLAN_STATES];     // [slots] UNSHARD has yet to read the weights in the slot
    int *state_used[PLAN_STATES];      // [slots] the value of `turn` when the slot was filled last
    size_t state_room[PLAN_STATES][3]; // of the arrays by slot, in items
    int turn[PLAN_STATES];             // how often a slot was filled
    int loaded, done;  // micro-batches that were loaded so far, and that were freed so far
    int act_grad;      // activation-gradient slot in use; -1: none
    int act_grad_turn; // how many activation-gradient slots were taken
} schedule_builder;

// Does the visit complete the gradients of its block's weights for its micro-batch?
static inline bool visit_ends_gradients(const schedule_visit *v)
{
    return v->kind == PIPE_BACKWARD || v->kind == PIPE_BACKWARD_WEIGHT;
}

// Takes a state slot for `elements` elements: the free slot whose size is nearest, so that one
// large bucket makes only one slot large. Returns -1 when out of memory.
int schedule_state_take(schedule_builder *b, plan_state what, int64_t elements);

// Makes the list of visits and the tables. E_USAGE where the pipeline schedule does not fit.
// schedule_builder_close also follows a failure.
status schedule_builder_open(schedule_builder *b, err *e);
void schedule_builder_close(schedule_builder *b);

#endif

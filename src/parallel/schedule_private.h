// schedule_private.h -- what schedule.c, schedule_visits.c and schedule_slots.c share while they build
// a schedule.
#ifndef TRIREME_PARALLEL_SCHEDULE_PRIVATE_H
#define TRIREME_PARALLEL_SCHEDULE_PRIVATE_H

#include "parallel/pipeline_messages.h"
#include "parallel/schedule.h"

enum { STATE_SLOTS = 3 }; // of a job that does not say it: one read, one in use, one written

// One pass over one block.
typedef struct schedule_visit {
    pipeline_pass kind;
    int micro, block;
    int act, wgrad; // slots of its chunk; wgrad -1: dgrad and wgrad run together
    // How many messages of the step stand before the pass, and how many stand before the reductions
    // that follow it.
    int messages_before, messages_after;
    bool received; // a message brings its input or its output gradient
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
    // A later visit of the same micro-batch adds to its gradients: after a second use one of the same
    // block, else any.
    VISIT_MORE_GRADIENTS = 2
};

// The buckets that the optimizer updates, and the state slots of their updates.
typedef struct schedule_updates {
    int *bucket;            // [count] in order
    int *slot[PLAN_STATES]; // [count] -1: none
    int count;
    int slots[PLAN_STATES]; // how many have their slot so far
} schedule_updates;

// The state slots of one state. The arrays grow with the slots of the schedule.
typedef struct schedule_state_slots {
    bool *busy;     // [slots] UNSHARD has yet to read the weights in the slot
    int *used;      // [slots] the value of `turn` when the slot was filled last
    size_t room[3]; // of the sizes of the slots, `busy` and `used`, in items
    int turn;       // how often a slot was filled
} schedule_state_slots;

// The messages of the step, in order. Their activation-gradient slots are assigned when they are added.
typedef struct schedule_messages {
    schedule_instr *items; // [count]
    int count, added;
    // [chunks of the stage, micros] slot of a gradient that was received or will be sent
    int *border_grad;
} schedule_messages;

// Activation-gradient slots.
typedef struct schedule_act_grads {
    int current; // the slot that the next dgrad reads; -1: none
    int turn;    // how many slots were taken
    bool *busy;  // [act_grad_slots] the slot holds a gradient
    size_t room; // of `busy`
} schedule_act_grads;

typedef struct schedule_builder {
    const plan *p;
    schedule *s;
    bool no_memory;           // an allocation failed; the list is incomplete
    schedule_instr discarded; // receives the instructions after that
    schedule_visit *visit;
    int visits;
    schedule_messages messages;
    int *weight_slot, *gradient_slot; // [buckets] -1: none
    int *swapped_in;    // [buckets] state slot of the weights that are swapped in; -1: none
    bool *post_forward; // [buckets] the post-forward group keeps the weights
    schedule_slot_pool weights, gradients;
    unsigned char *after; // VISIT_… of each bucket of each visit, visit by visit
    size_t *first_after;  // [visits] index in `after` of the first bucket of the visit
    int state_slots;      // of each state; more where UNSHARD has yet to read some
    schedule_state_slots state[PLAN_STATES];
    schedule_updates updates;
    schedule_act_grads act_grad;
} schedule_builder;

// What the visit computes (COMPUTES_ bits).
unsigned visit_computes(const schedule_visit *v);
// Does the visit add to the gradients of a bucket that its block uses?
bool visit_writes(const schedule_builder *b, const schedule_visit *v, int bucket);
// Is the visit of the block whose use of the bucket is reduced by itself?
static inline bool visit_is_second_use(const schedule_builder *b, const schedule_visit *v,
                                       int bucket)
{
    return b->p->bucket[bucket].second_use == v->block;
}

// Takes a state slot for `elements` elements: the free slot whose size is nearest, so that one
// large bucket makes only one slot large. Returns -1 when out of memory.
int schedule_state_take(schedule_builder *b, plan_state what, int64_t elements);

// Makes the list of visits and the tables. E_USAGE where the pipeline schedule does not fit.
// schedule_builder_close also follows a failure.
status schedule_builder_open(schedule_builder *b, err *e);
void schedule_builder_close(schedule_builder *b);

#endif

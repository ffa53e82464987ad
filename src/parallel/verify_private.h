// verify_private.h -- shared by the files that prove a list: what it says to be where.
#ifndef TRIREME_PARALLEL_CHECK_PRIVATE_H
#define TRIREME_PARALLEL_CHECK_PRIVATE_H

#include "parallel/replay.h"

// What has happened to a block of a micro-batch.
enum { RECEIVED = 1, RAN = 2, GOT_GRADIENT = 4, RAN_INPUT = 8, RAN_WEIGHT = 16 };
// … and to a bucket. KEPT: its gradients in parts; ASIDE: its weights by RESHARD_POST_FORWARD.
enum { KEPT = 1, TIED = 2, REDUCED = 4, UPDATED = 8, PUBLISHED = 16, ASIDE = 32 };

// Slots of a chunk, or of the whole stage, and who is in them: -1 nobody.
typedef struct verify_slots {
    int count;
    int *who;
    int *left; // blocks that are still to leave; of state: 1 until it is written to the file
    int *slot; // by who: the slot that it came to last, if it is still there
} verify_slots;

typedef struct verify_list {
    const schedule *const *of_stage;
    const schedule *s;
    const plan *p;
    replay_position at;
    unsigned char *did;              // [micros, blocks]
    unsigned char *bucket;           // [buckets]
    verify_slots *act, *held;        // [chunks]: micro-batches
    verify_slots batch;              // micro-batches
    verify_slots weights, gradients; // buckets
    verify_slots state[PLAN_STATES]; // buckets
    int chunks, clips;
    bool trains; // or evaluates
} verify_list;

// At the instruction that is looked at, which must be reachable through `c`.
#define REFUSE(...) return replay_refuse(c->of_stage, c->at, e, __VA_ARGS__)

bool verify_slots_open(verify_slots *k, int count, int whos); // false: no memory
void verify_slots_close(verify_slots *k);
int verify_slots_find(const verify_slots *k, int who); // the slot, -1: in none
void verify_slots_put(verify_slots *k, int slot, int who);

// All E_INTERNAL for the instruction at c->at. `what` names the kind of slot.
status verify_slot(const verify_list *c, int slot, int count, const char *what, err *e);
// One more block of `micro` has something in the slot; is it there; one block less.
status verify_enter(const verify_list *c, verify_slots *k, int slot, int micro, const char *what,
                    err *e);
status verify_there(const verify_list *c, const verify_slots *k, int slot, int micro,
                    const char *what, err *e);
void verify_leave(verify_slots *k, int slot);
// Bucket x->index takes the free slot x->slot; is it there.
status verify_take_bucket(const verify_list *c, verify_slots *k, const schedule_instr *x,
                          const char *what, err *e);
status verify_bucket_there(const verify_list *c, const verify_slots *k, const schedule_instr *x,
                           const char *what, err *e);
// The slot's state is that of another bucket now, `to_write` to the file or as it is there.
status verify_put_state(verify_list *c, plan_state what, int slot, int bucket, bool to_write,
                        err *e);
// OPTIMIZER_STEP has the state that it reads; what it changed is to be written.
status verify_update_state(verify_list *c, const schedule_instr *x, err *e);
status verify_swap(verify_list *c, const schedule_instr *x, err *e); // SWAP_IN and SWAP_OUT

#endif

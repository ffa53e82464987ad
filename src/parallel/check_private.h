// check_private.h -- shared by the files that prove a list: what it says to be where.
#ifndef TRIREME_PARALLEL_CHECK_PRIVATE_H
#define TRIREME_PARALLEL_CHECK_PRIVATE_H

#include "parallel/walk.h"

// What has happened to a block of a micro-batch.
enum { RECEIVED = 1, RAN = 2, GOT_GRADIENT = 4, RAN_INPUT = 8, RAN_WEIGHT = 16 };
// … and to a bucket. KEPT: its gradients in parts; ASIDE: its weights by KEEP.
enum { KEPT = 1, TIED = 2, REDUCED = 4, UPDATED = 8, PUBLISHED = 16, ASIDE = 32 };

// Slots of a chunk, or of the whole stage, and who is in them: -1 nobody.
typedef struct keepers {
    int count;
    int *who;
    int *left; // blocks that are still to leave; of state: 1 until it is written to the file
    int *slot; // by who: the slot that it came to last, if it is still there
} keepers;

typedef struct list_check {
    const schedule *const *of_stage;
    const schedule *s;
    const plan *p;
    place at;
    unsigned char *did;         // [micros, blocks]
    unsigned char *bucket;      // [buckets]
    keepers *act, *held;        // [chunks]: micro-batches
    keepers batch;              // micro-batches
    keepers weights, gradients; // buckets
    keepers state[TIERED];      // buckets
    int chunks, clips;
    bool trains; // or evaluates
} list_check;

// At the instruction that is looked at, which must be reachable through `c`.
#define REFUSE(...) return walk_refuse(c->of_stage, c->at, e, __VA_ARGS__)

bool keepers_open(keepers *k, int count, int whos); // false: no memory
void keepers_close(keepers *k);
int keepers_find(const keepers *k, int who); // the slot, -1: in none
void keepers_put(keepers *k, int slot, int who);

// All E_INTERNAL for the instruction at c->at. `what` names the kind of slot.
status check_slot(const list_check *c, int slot, int count, const char *what, err *e);
// One more block of `micro` has something in the slot; is it there; one block less.
status check_enter(const list_check *c, keepers *k, int slot, int micro, const char *what, err *e);
status check_there(const list_check *c, const keepers *k, int slot, int micro, const char *what,
                   err *e);
void check_leave(keepers *k, int slot);
// Bucket x->index takes the free slot x->slot; is it there.
status check_take_bucket(const list_check *c, keepers *k, const instr *x, const char *what, err *e);
status check_bucket_there(const list_check *c, const keepers *k, const instr *x, const char *what,
                          err *e);
// The slot's state is that of another bucket now, `to_write` to the file or as it is there.
status check_put_state(list_check *c, tiered what, int slot, int bucket, bool to_write, err *e);
// UPDATE has the state that it reads; what it changed is to be written.
status check_update_state(list_check *c, const instr *x, err *e);
status check_travel(list_check *c, const instr *x, err *e); // FETCH and FLUSH

#endif

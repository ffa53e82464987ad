// tiers.h -- state in files. It owns one file for each state that is offloaded to the file tier,
// the record of the last request that wrote each bucket, and one staging buffer for each state:
// state slot 0, which holds a bucket while no step runs. Requests are issued on the copy stream,
// which waits for them when their bytes are needed.
#ifndef TRIREME_TRAIN_TIERS_H
#define TRIREME_TRAIN_TIERS_H

#include "base/text.h"
#include "parallel/schedule.h"
#include "store/tier.h"
#include "train/trainer.h"

typedef struct trainer_tiers trainer_tiers;

// Counts memory, or allocates it.
status tiers_allocate(trainer *t, err *e);
// Makes the folder and the files. Adds warnings for the user to *note. Collective over all
// ranks.
status tiers_open(trainer *t, text *note, err *e);
void tiers_close(trainer *t);
// Adds the transfers of the files since they were opened.
void tiers_count(const trainer *t, tier_counters *to);

// The largest size in bytes of one element of a state in the files of any group. For the optimizer
// this is the sum over all its arrays.
size_t tiers_element_bytes(const trainer *t, plan_state what);

// Instructions; see the table of instructions in parallel/.
status run_swap_in(trainer *t, const schedule_instr *x, err *e);
status run_swap_out(trainer *t, const schedule_instr *x, err *e);
// Makes later work on stream `on` wait for the request of a state slot. *ptr is the slot's memory.
status tiers_await(trainer *t, plan_state what, int slot, device_stream_kind on, char **ptr,
                   err *e);
// Frees a state slot after the work that stream `on` has so far, which is the last to use it.
void tiers_free_slot(trainer *t, plan_state what, int slot, device_stream_kind on);

// Reads a bucket into the staging buffer; *ptr is its address. With `will_write` it is written back
// to the file before another bucket is staged. Must not be called while a step runs.
status tiers_stage(trainer *t, plan_state what, int bucket, bool will_write, char **ptr, err *e);
// Writes back the changed staging buffers and empties all of them.
status tiers_close_staging(trainer *t, err *e);

#endif

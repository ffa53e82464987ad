// tiers.h -- state in files. It owns one file for each state that is offloaded to the file tier, the
// record of the last request that wrote each bucket, and one staging buffer for each state: a bucket
// that is brought into state slot 0 while no step runs. Requests are issued on the copy stream and
// waited for there when their bytes are needed.
#ifndef TRIREME_TRAIN_TIERS_H
#define TRIREME_TRAIN_TIERS_H

#include "base/text.h"
#include "parallel/schedule.h"
#include "store/tier.h"
#include "train/trainer.h"

typedef struct trainer_tiers trainer_tiers;

// Counts memory, or allocates it.
status tiers_allocate(trainer *t, err *e);
// Makes the folder and the files. What the user must be told is added to *note. Collective over all
// ranks.
status tiers_open(trainer *t, text *note, err *e);
void tiers_close(trainer *t);
// Adds what the files have done since they were opened.
void tiers_count(const trainer *t, tier_counters *to);

// Bytes of one element of a state in a file; of the optimizer, all its arrays together.
size_t tiers_element_bytes(const trainer *t, plan_state what);

// Instructions; see the table of instructions in parallel/.
status run_swap_in(trainer *t, const schedule_instr *x, err *e);
status run_swap_out(trainer *t, const schedule_instr *x, err *e);
// Work issued to `on` from now on starts when the request on a state slot is done. *ptr is the
// slot's memory.
status tiers_await(trainer *t, plan_state what, int slot, device_stream_kind on, char **ptr,
                   err *e);
// The work of stream `on` up to now is the last that uses the slot's content.
void tiers_free_slot(trainer *t, plan_state what, int slot, device_stream_kind on);

// Brings a bucket into the staging buffer; *ptr is where it starts. will_write: it goes back to the
// file before another bucket comes. Not while a step runs.
status tiers_stage(trainer *t, plan_state what, int bucket, bool will_write, char **ptr, err *e);
// Empties all staging buffers.
status tiers_close_staging(trainer *t, err *e);

#endif

// tiers.h -- state that is swapped: which tier has it (parallel/memory_tier.h), and how a bucket goes
// between its tier and a slot. It owns what the tiers keep, and one staging buffer for each state: state
// slot 0, which holds a bucket while no step runs.
//
// A transfer starts at SWAP_IN or SWAP_OUT. What uses the slot next awaits the slot's last transfer.
#ifndef TRIREME_TRAIN_TIERS_H
#define TRIREME_TRAIN_TIERS_H

#include "base/text.h"
#include "device/kernels.h"
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

// The largest size in bytes of one element of a swapped state in any group. For the optimizer this is
// the sum over all its arrays.
size_t tiers_element_bytes(const trainer *t, plan_state what);

// Updates where the state lies, on the host tier of a device with a memory of its own. A bucket of a
// state there, memory of the host; NULL: the state is on the device.
char *tiers_host_bucket(const trainer *t, plan_state what, int bucket);
// Memory of the host for the updated weights of a bucket whose weights are on the device, until
// tiers_raise_weights copies them there, on the compute stream.
char *tiers_take_weights(trainer *t, int bucket);
void tiers_raise_weights(trainer *t, int bucket);
// Waits until the device has brought down all that was issued so far: reduced gradients, and what all
// ranks agreed on.
void tiers_await_host(trainer *t);
// Runs a kernel on the host's processor; its arguments are memory of the host. Returns when it is done.
status tiers_launch_on_host(trainer *t, const kernel_call *c, err *e);

// Instructions; see the table of instructions in parallel/.
status run_swap_in(trainer *t, const schedule_instr *x, err *e);
status run_swap_out(trainer *t, const schedule_instr *x, err *e);
// Makes later work on stream `on` wait for the last transfer of a state slot. *ptr is the slot's
// memory.
status tiers_await(trainer *t, plan_state what, int slot, device_stream_kind on, char **ptr,
                   err *e);
// Frees a state slot after the work that stream `on` has so far, which is the last to use it.
void tiers_free_slot(trainer *t, plan_state what, int slot, device_stream_kind on);

// Brings a bucket into the staging buffer; *ptr is its address, device memory. With `will_write` it goes
// back to its tier before another bucket is staged. Must not be called while a step runs.
status tiers_stage(trainer *t, plan_state what, int bucket, bool will_write, char **ptr, err *e);
// Brings back the changed staging buffers and empties all of them.
status tiers_close_staging(trainer *t, err *e);

#endif

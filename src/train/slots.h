// slots.h -- the slots that buckets pass through: weight slots hold unsharded weights, gradient slots
// full gradients before they are reduced, and state slots hold state that is swapped. It owns the
// slots, their events, and the record of which slot a bucket is in. The schedule assigns the slots.
#ifndef TRIREME_TRAIN_SLOTS_H
#define TRIREME_TRAIN_SLOTS_H

#include "device/device.h"
#include "parallel/schedule.h"
#include "store/tier.h"
#include "train/events.h"
#include "train/trainer.h"

typedef struct trainer_slots trainer_slots;

typedef struct trainer_slot {
    char *ptr;            // memory of comm_alloc, for the largest bucket that uses the slot
    trainer_event filled; // recorded after the work that fills the slot
    trainer_event freed;  // recorded after the last work that reads the slot
    // Between a slot and a tier (tiers.h):
    const struct tiers_functions *moved_by; // the tier of the slot's last transfer; NULL: none
    tier_ticket ticket;                     // of the last request to a file
    char *host; // [as ptr] MEMORY_HOST, for files that cannot be read into ptr; NULL: they can
    size_t in_buffer; // bytes from a file that are not copied from `host` to `ptr` yet
} trainer_slot;

// Counts the memory of the slots, or allocates it.
status slots_allocate(trainer *t, err *e);
void slots_close(trainer *t);

trainer_slot *slots_weight(const trainer *t, int slot);
trainer_slot *slots_gradient(const trainer *t, int slot);
trainer_slot *slots_state(const trainer *t, plan_state what, int slot);

// The slot that a bucket's weights or gradients are in; NULL: in none.
trainer_slot *slots_weight_of(const trainer *t, int bucket);
trainer_slot *slots_gradient_of(const trainer *t, int bucket);
// Records that a bucket is in a slot; -1: in no slot.
void slots_assign_weight(trainer *t, int bucket, int slot);
void slots_assign_gradient(trainer *t, int bucket, int slot);
// Records that no bucket is in a slot.
void slots_reset(trainer *t);

#endif

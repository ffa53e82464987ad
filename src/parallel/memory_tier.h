// memory_tier.h -- the memory tiers on which weights, gradients and optimizer state can lie between
// their uses: one row each. The plan, the schedule and what they print read the rows; train/tiers/tiers.h
// moves the bytes.
//
// State that is *swapped* passes through state slots: SWAP_IN copies or reads a bucket into a slot on
// the device before it is used, and SWAP_OUT brings it back. Whether the host tier is swapped depends
// on the device: on the CPU device the host's memory is the device's own, and state on it is used where
// it lies.
#ifndef TRIREME_PARALLEL_MEMORY_TIER_H
#define TRIREME_PARALLEL_MEMORY_TIER_H

#include <stdbool.h>

typedef enum memory_tier { TIER_DEVICE, TIER_HOST, TIER_FILE, TIERS } memory_tier;

// The names in the job file, by enumerator; ended by NULL.
extern const char *const MEMORY_TIER_NAMES[TIERS + 1];

// Where bytes are counted, each kind with a budget of its own.
typedef enum memory_kind {
    KIND_DEVICE, // memory of the device
    KIND_HOST,   // memory of the host, which it can reach by fast copies (pinned on a GPU)
    KIND_FILE
} memory_kind;

// What a tier means on a device whose memory is the host's, or on one with a memory of its own.
typedef struct memory_tier_row {
    memory_kind kind;
    bool swapped;
    bool host_updates;   // swapped state that the host can address, so its processor can update it
    const char *where;   // "in files", after the name of a state
    const char *warning; // what a user may not expect, after "STATE on TIER: "; NULL: nothing
} memory_tier_row;

// `host_is_apart`: the host's memory and the device's are two.
const memory_tier_row *memory_tier_row_of(memory_tier t, bool host_is_apart);

#endif

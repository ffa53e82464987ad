// tiers_private.h -- what a memory tier does: a table of functions for each tier whose state is swapped.
// tiers.c calls them; tiers_host.c and tiers_file.c each have the functions of one tier. A new tier is
// one more such file and its row in tiers.c.
#ifndef TRIREME_TRAIN_TIERS_PRIVATE_H
#define TRIREME_TRAIN_TIERS_PRIVATE_H

#include "train/trainer_private.h"

// A bucket of a state that goes from its tier to a slot, or back.
typedef struct tiers_move {
    plan_state what;
    int bucket;
    trainer_slot *slot;
    size_t start, bytes; // its place on the tier
} tiers_move;

typedef struct tiers_functions {
    // Counts the memory of the tier, or allocates it.
    status (*allocate)(trainer *t, err *e);
    // Opens what holds the state `what`. Adds warnings for the user to *note.
    status (*open)(trainer *t, plan_state what, text *note, err *e);
    void (*close)(trainer *t);
    // Adds the transfers since the tier was opened.
    void (*count)(const trainer *t, tier_counters *to);
    // Starts to fill the slot. The slot's last transfer has been awaited; work that uses the slot may
    // still be before slot->freed.
    status (*swap_in)(trainer *t, const tiers_move *m, err *e);
    // Starts to empty the slot. The copy stream is ordered after the work that wrote the slot.
    status (*swap_out)(trainer *t, const tiers_move *m, err *e);
    // Work that is issued to stream `on` from now on starts after the slot's last transfer, which is
    // of this tier.
    status (*await)(trainer *t, plan_state what, trainer_slot *slot, device_stream_kind on, err *e);
} tiers_functions;

extern const tiers_functions TIERS_HOST, TIERS_FILE;

// What the trainer keeps for the tiers.
typedef struct tiers_staging {
    bool open, dirty;
    int bucket;
} tiers_staging;

struct trainer_tiers {
    tiers_staging staging[PLAN_STATES];
    char *host[PLAN_STATES]; // [plan->swap_bytes] MEMORY_HOST; NULL: the state does not lie there
    // For updates that run on the host; NULL: none does.
    device_stream *updates; // of the host's own processor
    device_event *down;     // recorded after the last copy to the host
    // Updated weights on their way to the device, which take the two in turn: [the largest bucket]
    // MEMORY_HOST, and the event after the copy. NULL: no weights are on the device.
    char *rising[2];
    device_event *risen[2];
    int turn;
    tier *file[PLAN_STATES]; // NULL: nothing of the state is in a file
    // [buckets] the request that wrote the bucket last; 0: none.
    tier_ticket *written[PLAN_STATES];
};

static inline void tiers_add_note(text *note, const char *line)
{
    text_addf(note, "%s%s", note->bytes ? "; " : "", line);
}

#endif

// layouts.h -- the layouts of a job: every way in which its ranks can share the work. The search (search.h) and memory.fit
// walk them.
//
// It knows the keys of a job that a layout sets. It does not know which layout is possible, fits or is fast.
#ifndef TRIREME_SESSION_PLAN_LAYOUTS_H
#define TRIREME_SESSION_PLAN_LAYOUTS_H

#include "session/session.h"

// Where state lies, from the fastest to the largest.
typedef enum layout_tiers {
    TIERS_DEVICE,
    TIERS_OPTIMIZER_HOST,
    TIERS_ALL_HOST,
    TIERS_OPTIMIZER_FILE,
    TIERS_GRADIENTS_FILE, // and the optimizer's state
    TIERS_WEIGHTS_FILE,   // and the others
    LAYOUT_TIERS
} layout_tiers;

typedef struct layout {
    const policy *dp; // over dp_shard and cp; replicas have ddp
    int size[AXES];
    pipeline_schedule schedule;
    int virtual_stages;
    int64_t micro_batch;
    recompute_mode recompute;
    bool sequence_parallel;
    bool no_sync; // sharded gradients are reduced once a step, not in each micro-batch
    layout_tiers tiers;
} layout;

typedef struct layouts {
    layout *item; // [count]
    size_t count, room;
} layouts;

typedef struct layouts_of {
    const job *j;
    const session_inputs *in;
    int ranks, ranks_per_host;
    bool keeps_mesh;          // tp, pp, its schedule and sequence_parallel stay as the job has them
    layout_tiers least, most; // tiers; those that the job cannot have are left out
} layouts_of;

// The caller clears *out, also after a failure.
status layouts_make(const layouts_of *x, layouts *out, err *e);
void layouts_clear(layouts *l);
// A plain copy of the job with the layout's values; it borrows from the job.
void layout_apply(const job *j, const layout *l, job *out);
// Appends "tp 8, pp 16 zb, dp 128 zero1, micro-batch 1, recompute full".
void layout_print(const layout *l, text *out);
// Returns whether some state is in files.
bool layout_has_files(const layout *l);

#endif

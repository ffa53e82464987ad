// bound.h -- times below which a step does not fall, for a fraction of what its simulation costs: each stream is busy for
// at least so long, and a pipeline fills and empties. The search of a layout leaves out what cannot win by them.
//
// It knows the same as step.h, of one stage.
#ifndef TRIREME_PLANNER_BOUND_H
#define TRIREME_PLANNER_BOUND_H

#include "planner/step.h"

// Seconds of the passes of each block, where they run alone on a rank, with the collectives in them.
typedef struct planner_passes {
    int blocks;
    double *forward, *dgrad, *wgrad; // [blocks] of one micro-batch
    double all;                      // of all blocks
} planner_passes;

// The caller clears *out, also after a failure.
status planner_passes_open(const model *m, const planner_machine *machine, planner_passes *out,
                           err *e);
void planner_passes_clear(planner_passes *p);

// What a pipeline adds to the passes of `micros` micro-batches: it fills and empties. `all` are seconds of the passes of
// one micro-batch through all stages, `wgrad` of them those of zb that fill gaps.
double planner_pipeline_fill(const strategy_pipeline *s, int stages, double all, double wgrad);

// The least seconds of a step with this list of a stage.
double planner_stage_bound(const plan *p, const schedule *list, const planner_passes *passes,
                           const planner_machine *m);

#endif

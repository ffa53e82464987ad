// step_private.h -- what the files of step.h share: the kernels of an instruction as one claim.
#ifndef TRIREME_PLANNER_STEP_PRIVATE_H
#define TRIREME_PLANNER_STEP_PRIVATE_H

#include "planner/step.h"

// Kernels that run one after the other.
typedef struct planner_sum {
    planner_claim claim; // of all; shares are means over its seconds
    int kernels;
} planner_sum;

// The kernels of a pass of a block.
typedef struct planner_block_cost {
    const graph *g; // blocks of one graph cost the same
    planner_sum forward, dgrad, wgrad;
} planner_block_cost;

typedef struct planner_step_costs {
    const planner_step *x;
    planner_block_cost *block; // [model->graphs]
} planner_step_costs;

// Visits the kernels of all graphs. The caller closes *out, also after a failure.
status planner_step_costs_open(const planner_step *x, planner_step_costs *out, err *e);
void planner_step_costs_close(planner_step_costs *c);

void planner_sum_add(planner_sum *s, const planner_claim *claim, int kernels);
// The work of an instruction beside its calls: kernels, copies and files.
planner_sum planner_step_work(const planner_step_costs *c, int stage, const schedule_instr *i);

#endif

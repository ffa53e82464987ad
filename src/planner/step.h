// step.h -- predicts how long the instructions of one step take on a machine: from the very lists that would run. One
// rank stands for all of its stage, because ranks that differ in other coordinates do alike.
//
// session/plan/ calls it. It knows no job. replay/fluid.h shares resources among what runs at the same time.
#ifndef TRIREME_PLANNER_STEP_H
#define TRIREME_PLANNER_STEP_H

#include "model/model.h"
#include "parallel/simulate.h"
#include "planner/machine.h"

typedef struct planner_step {
    const plan *const *plan;     // [stages]
    const schedule *const *list; // [stages] with their calls
    int stages;
    const model *model; // its training graphs
    const planner_machine *machine;
} planner_step;

typedef struct planner_times {
    double seconds; // from step to step
    int stages;
    simulate_span **span; // [stages][instructions] begin and end
    simulate_span **
        call; // [stages][calls of the list] the same; those that no step after the first makes: zeros
    double compute_s;  // of the stage with most of it: kernels
    double exposed_s;  // of the same stage: it waits for collectives, messages of data apart
    double transfer_s; // it waits for copies and files
    double bubble;     // share of all stages' time in which their compute waits for another stage
} planner_times;

// The caller clears *out, also after a failure.
status planner_step_times(const planner_step *x, planner_times *out, err *e);
void planner_times_clear(planner_times *t);

#endif

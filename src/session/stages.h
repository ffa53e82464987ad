// stages.h -- the plans and lists of all pipeline stages of a job, in one process: to prove them,
// to simulate them, to draw them.
#ifndef TRIREME_SESSION_STAGES_H
#define TRIREME_SESSION_STAGES_H

#include "parallel/simulate.h"
#include "train/trainer.h"

// Of data-parallel and tensor-parallel coordinates 0. A job without a pipeline has one stage.
typedef struct stage_lists {
    int count;
    plan **plan;
    schedule *train, *eval; // [count]; eval's are empty where nothing is evaluated
    const plan **plan_of;   // [count] the same, as check.h and simulate.h take them
    const schedule **train_of, **eval_of;
} stage_lists;

// `o` without device and communicator, as for trainer_plan. The caller closes `out` also after a
// failure.
status stage_lists_open(const trainer_options *o, stage_lists *out, err *e);
void stage_lists_close(stage_lists *s);

// When every instruction of a training step starts and ends, if a block takes its FLOPs and all
// else nothing; `even`: if all parts of the pipeline, and their forward, input half and weight
// half, take the same.
// Cleared by the caller with sim_result_clear, also after a failure.
status stage_lists_simulate(const stage_lists *s, const trainer_options *o, bool even,
                            sim_result *out, err *e);

#endif

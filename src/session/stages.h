// stages.h -- the plans and lists of all pipeline stages of a job, in one process: to prove them,
// to simulate them, to draw them.
#ifndef TRIREME_SESSION_STAGES_H
#define TRIREME_SESSION_STAGES_H

#include "parallel/simulate.h"
#include "train/trainer.h"

// Of data-parallel and tensor-parallel coordinates 0. A job without a pipeline has one stage.
typedef struct session_stages {
    int count;
    plan **plan;
    schedule *train, *eval; // [count]; eval's are empty where nothing is evaluated
    const plan **plan_of;   // [count] the same, as verify.h and simulate.h take them
    const schedule **train_of, **eval_of;
} session_stages;

// `o` without device and communicator, as for trainer_plan. The caller closes `out` also after a
// failure.
status session_stages_open(const trainer_options *o, session_stages *out, err *e);
void session_stages_close(session_stages *s);

// When every instruction of a training step starts and ends, if a block takes its FLOPs and all
// else nothing; `even`: if all parts of the pipeline, and their forward, input half and weight
// half, take the same.
// Cleared by the caller with simulate_result_clear, also after a failure.
status session_stages_simulate(const session_stages *s, const trainer_options *o, bool even,
                               simulate_result *out, err *e);

#endif

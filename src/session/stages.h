// stages.h -- the plans and schedules of all pipeline stages of a job, made in one process to
// verify, simulate and draw them.
#ifndef TRIREME_SESSION_STAGES_H
#define TRIREME_SESSION_STAGES_H

#include "config/job.h"
#include "parallel/simulate.h"
#include "train/trainer.h"

// Each stage is that of data-parallel and tensor-parallel coordinate 0. A job without a pipeline
// has one stage.
typedef struct session_stages {
    int count;
    plan **plan;
    schedule *train, *eval; // [count]; those of eval are empty where the job has no validation data
    const plan **plan_of;   // [count] pointers to the same, as verify.h and simulate.h take them
    const schedule **train_of, **eval_of;
} session_stages;

// Traces the training graphs of all blocks. Options as in session_stages_open; the caller closes the model.
status session_open_model(const trainer_options *o, model **out, err *e);

// `o` has no device and no communicator, as for trainer_plan. The caller closes `out`, also after a
// failure.
status session_stages_open(const trainer_options *o, session_stages *out, err *e);
void session_stages_close(session_stages *s);

// Simulates a training step. A pass of a block takes as long as its FLOPs, everything else takes no
// time. With `even`, forward, dgrad and wgrad of all model chunks take equally long. The caller
// clears `out` with simulate_result_clear, also after a failure.
status session_stages_simulate(const session_stages *s, const trainer_options *o, bool even,
                               simulate_result *out, err *e);

// The options that trace a job's model once, to know its parameters.
model_options session_once(const job *j);

#endif

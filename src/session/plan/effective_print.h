// effective_print.h -- from a predicted step to a training: its checkpoints, failures, stragglers, days, energy and price
// (planner/effective.h). `trireme plan` prints it below its table.
#ifndef TRIREME_SESSION_PLAN_EFFECTIVE_PRINT_H
#define TRIREME_SESSION_PLAN_EFFECTIVE_PRINT_H

#include "planner/effective.h"
#include "session/plan/predict.h"

typedef struct session_training {
    double tokens;           // of the training
    double ranks, params;    // of the job
    double checkpoint_bytes; // of all ranks
    double step_s;           // with stragglers
    double straggler_factor; // on what a rank computes; 1: none are known
    planner_failures failures;
    planner_effective effective; // of failures; interval INFINITY: no rate is known
    planner_bill bill;
} session_training;

// `tokens` 0: those of the job. `params` are those of the full model.
session_training session_training_of(const job *j, const session_inputs *in, int ranks,
                                     double params, double tokens, const planner_machine *m,
                                     const prediction *p);
// Appends lines, or ,"training":{…}.
void session_training_print(const session_training *t, bool json, text *out);

#endif

// predict.h -- predicts the step of a job on a machine: its time, and what follows from it. `plan`, `explain --time` and
// the search of a layout call it.
#ifndef TRIREME_SESSION_PLAN_PREDICT_H
#define TRIREME_SESSION_PLAN_PREDICT_H

#include "planner/machine.h"
#include "planner/step.h"
#include "session/session.h"
#include "session/stages.h"

typedef struct prediction {
    double step_s, tokens_per_s;                     // of all ranks
    double mfu;                                      // NAN where the machine's peak is not known
    double compute_s, exposed_s, transfer_s, bubble; // planner_times
    double flops;  // of the model in a step, all ranks, without recomputation
    double joules; // of a step, all ranks; NAN: not known
    double price;  // of a step, all ranks; NAN: not known
    double
        labelled; // share of the rows of a loss that are computed, as the data have labels; 1: all
} prediction;

// E_USAGE where the job's keys exclude each other.
status session_predict(const job *j, const session_inputs *in, int ranks, const planner_machine *m,
                       prediction *out, err *e);
// The same, and keeps the lists and the times of their instructions. The caller closes both, also after a failure.
status session_predict_times(const job *j, const session_inputs *in, int ranks,
                             const planner_machine *m, session_stages *stages, planner_times *times,
                             prediction *out, err *e);

#endif

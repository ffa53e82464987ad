// advice.h -- what guides to distributed training say about a job, beside what was predicted: a table of their rules, and
// whether the fastest layout follows each of them, or the reason against. `trireme plan` prints it.
#ifndef TRIREME_SESSION_PLAN_ADVICE_H
#define TRIREME_SESSION_PLAN_ADVICE_H

#include "session/plan/estimate.h"
#include "session/plan/predict.h"

typedef struct advice_of {
    const job *j;
    const session_inputs *in;
    int ranks, ranks_per_host;
    uint64_t params; // of the full model
    const memory_estimate_base *base;
    uint64_t budget;
    const planner_machine *machine; // NULL: no times
    const job *chosen;              // what is compared with the rules
    double chosen_s;                // of a step; NAN: not known
} advice_of;

enum { ADVICE_RULES = 7, ADVICE_BYTES = 200 };

typedef struct advice {
    const char *guide, *says; // says NULL: the rule does not speak of this job
    bool agrees;
    char reason[ADVICE_BYTES]; // against it; empty where it agrees
} advice;

status advice_fill(const advice_of *x, advice out[ADVICE_RULES], err *e);

#endif

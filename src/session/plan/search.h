// search.h -- finds the layout of a job with the shortest step on a machine, of all that fit in memory. `trireme plan
// --search` and memory.fit call it.
//
// Memory is exact: the plan of the layout gives it (estimate.h). Times are predicted (predict.h), for layouts that can
// win only: the others fall out by bounds (planner/bound.h). The result does not depend on the number of threads.
#ifndef TRIREME_SESSION_PLAN_SEARCH_H
#define TRIREME_SESSION_PLAN_SEARCH_H

#include "session/plan/estimate.h"
#include "session/plan/layouts.h"
#include "session/plan/predict.h"

typedef status search_predict_fn(const job *j, const session_inputs *in, int ranks,
                                 const planner_machine *m, prediction *out, err *e);

typedef struct search_options {
    const planner_machine *machine;
    const memory_estimate_base *base;
    uint64_t budget;
    bool keeps_mesh;            // as layouts_of
    search_predict_fn *predict; // session_predict
} search_options;

// Why layouts are not the best, and how many.
typedef enum search_end {
    SEARCH_IMPOSSIBLE, // the model or the plan refuses it
    SEARCH_TOO_LARGE,  // it does not fit in memory
    SEARCH_SLOWER,     // by a bound
    SEARCH_PREDICTED,  // its time was predicted
    SEARCH_ENDS
} search_end;

typedef struct search_found {
    layout layout;
    memory_estimate estimate;
    prediction prediction;
} search_found;

typedef struct search_result {
    size_t tried, ended[SEARCH_ENDS];
    search_found best, second;
    bool has_best, has_second;
    char refused[160]; // why the first impossible layout is
} search_result;

// Tries layouts with all state on the device first, and those with other tiers only where none of them fits.
status search_run(const job *j, const session_inputs *in, const search_options *o,
                  search_result *out, err *e);

// What would have to change for the second to win.
typedef struct search_change {
    const char *what; // "the network between hosts"; NULL: none of the rates alone is enough
    double times;     // as fast; below 1: slower
} search_change;

// Varies one rate of the machine at a time, up to 16 times either way.
status search_find_change(const job *j, const session_inputs *in, const search_options *o,
                          const search_result *r, search_change *out, err *e);

#endif

// search_private.h -- what the files of search.h share: the passes of the graphs of layouts, and work for several threads.
#ifndef TRIREME_SESSION_PLAN_SEARCH_PRIVATE_H
#define TRIREME_SESSION_PLAN_SEARCH_PRIVATE_H

#include "planner/bound.h"
#include "session/plan/search.h"

typedef struct search_of {
    const job *j;
    const session_inputs *in;
    const search_options *o;
    int ranks;
} search_of;

// Layouts whose ranks run the same graphs.
typedef struct search_graphs {
    int tp, cp;
    int64_t micro_batch;
    recompute_mode recompute;
    bool sequence_parallel;
    planner_passes passes; // all 0: refused
    double wgrad;          // seconds of all blocks
    double saved;          // bytes of all blocks but the first and the last
    uint64_t params;       // of the model, and those of them that are trained
    status refused;
    err why;
} search_graphs;

// Traces the graphs of all layouts, once for each that differs. of[layouts] is the index of each layout's. The caller
// clears both with search_graphs_close and free, also after a failure.
status search_graphs_open(const search_of *x, const layouts *all, search_graphs **out,
                          size_t *count, int **of, err *e);
void search_graphs_close(search_graphs *g, size_t count);

// Bounds that need no plan: seconds of a step, and bytes of a rank.
double search_least_seconds(const search_of *x, const layout *l, const search_graphs *g);
double search_least_bytes(const search_of *x, const layout *l, const search_graphs *g);

typedef void search_task_fn(void *arg, size_t task);
// Calls task(arg, 0 … count-1) on as many threads as this process has cores.
void search_each(size_t count, search_task_fn *task, void *arg);

#endif

// run_recent.h -- what each rank of a run did in its last steps: phases, waits, and how long the others waited for it. The
// page and `trireme top` call it. The verdict has finer measures (monitor/report/).
#ifndef TRIREME_MONITOR_RUN_RECENT_H
#define TRIREME_MONITOR_RUN_RECENT_H

#include "monitor/run_view.h"

enum {
    RUN_RECENT_STEPS = 32, // that a rank is judged by, at most
};

// Means of a step.
typedef struct run_rank {
    bool recorded; // it has a record with a step in it
    int steps;     // that were read
    double phase_ns[SPANS_PHASES], step_ns, waited_ns;
    double caused_ns; // that all others waited for it
    int compared,
        slow; // steps, and those in which its own time was a tenth above the median of its stage
} run_rank;

// Fills rank[v->ranks]. *last is the last step that all recorded ranks have finished; 0: none.
status run_recent_read(const run_view *v, run_rank *rank, uint64_t *last, err *e);

// Returns whether a rank keeps the others waiting by its own time: it was a tenth above the median of its stage in four of
// five of the last steps.
bool run_recent_is_straggler(const run_rank *rank);

#endif

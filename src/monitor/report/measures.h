// measures.h -- what the records of a run say about its steps: phases, waits, memory and stragglers, of each rank and of the
// run. verdict.c judges by it, report.c prints it. It reads each recorded step of each rank once.
#ifndef TRIREME_MONITOR_REPORT_MEASURES_H
#define TRIREME_MONITOR_REPORT_MEASURES_H

#include "monitor/report/straggler.h"
#include "monitor/run_view.h"

typedef struct rank_measures {
    int64_t
        phase_ns[SPANS_PHASES]; // sums over the steps; evaluations and checkpoints lie in gap_ns
    int64_t duration_ns, gap_ns, waited_ns, comm_ns;
    int64_t charged_ns; // that others waited for it, as far as it was whom they waited for longest
    double bytes;       // median
    double
        growth; // of its memory in 1,000 steps, as a share of `bytes`; 0 where it does not grow steadily
} rank_measures;

// Shares are of the time from the begin of the first step to the end of the last one, medians over ranks.
typedef struct run_measures {
    const run_view *view;
    straggler_location *location; // [ranks]
    const char **host;            // [hosts] borrowed
    int ranks, recorded, hosts, stages;
    uint64_t first, last,
        steps;           // steps that were measured; the run's first one is not; steps 0: none
    rank_measures *rank; // [ranks]
    straggler_watch *watch;
    double step_ns;  // median over steps and ranks
    double steps_ns; // of all steps, medians over ranks
    double phase[SPANS_PHASES];
    double waited;       // part of the exposed communication
    double compute;      // forward, backward, optimizer
    double other;        // what neither a phase nor a checkpoint nor an evaluation takes
    double matmul_share; // median of the log's; NAN: none
    double
        stage_excess; // by how much the passes of the slowest stage take longer than those of the fastest one
    int slow_stage;
    int growing; // the rank whose memory grows most; -1: none
} run_measures;

// `v` is borrowed. The caller closes *out.
status run_measures_make(const run_view *v, run_measures **out, err *e);
void run_measures_close(run_measures *m); // NULL allowed
// Stages and hosts of the ranks of a run. The names of the hosts are borrowed from the records; the caller frees both arrays.
status run_measures_locate(const run_view *v, straggler_location **location, const char ***host,
                           int *hosts, err *e);
const char *run_measures_host(const run_measures *m, int rank);

#endif

// metrics_private.h -- what the files of metrics share. Private to monitor/metrics/.
#ifndef TRIREME_MONITOR_METRICS_METRICS_PRIVATE_H
#define TRIREME_MONITOR_METRICS_METRICS_PRIVATE_H

#include "base/mesh.h"
#include "monitor/metrics/metrics.h"
#include "monitor/run_view.h"

// A row's statistics: when the window began, and of the last complete window.
typedef struct metrics_row {
    uint64_t count, sum_ns, waited_ns;
    uint64_t last_count, last_sum_ns, last_waited_ns;
} metrics_row;

// What is summed of a rank's record.
typedef struct metrics_rank {
    int64_t pid, made_ns; // of the record that it is of
    uint64_t seen;        // steps of it that were added
    int64_t phase_ns[SPANS_PHASES];
    metrics_row *row; // [rows]
    uint32_t rows;
    int64_t window_ns; // when the window began
} metrics_rank;

struct metrics {
    metrics_options o;
    run_view *view;     // NULL: the folder is not there yet
    metrics_rank *rank; // [ranks]
    int ranks;
};

// A place in the text, and the metric whose samples it has reached.
typedef struct metrics_writer {
    const metrics *m;
    text *out;
    int metric; // -1: none yet
} metrics_writer;

// Appends a sample, and before the first one of a metric its help and type. `labels` stand behind that of the run.
void metrics_add(metrics_writer *w, metric of, const char *suffix, const char *labels,
                 double value);
// Appends `,key="value"`, escaped.
void metrics_add_label(text *labels, const char *key, const char *value);
// Whether this exporter is the one that exports rank `rank`.
bool metrics_has_rank(const metrics *m, int rank);

// The labels of a rank.
void metrics_label_rank(const metrics *m, int rank, text *labels);

// Closes the window of a rank's rows where it is old enough.
void metrics_turn_window(metrics_rank *r, const spans *s, int64_t now_ns);
// Appends the collectives and messages of all ranks.
void metrics_write_calls(metrics_writer *w);

#endif

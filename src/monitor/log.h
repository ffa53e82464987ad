// log.h -- log.jsonl: the events of a run in their order, one JSON object per line.
//
// A float is written as %.9g and a double as %.17g, so that each reads back to the same bits. JSON
// lacks NaN and Inf; they are written as null, with a second key "<key>_text" of "nan", "inf" or
// "-inf".
#ifndef TRIREME_MONITOR_LOG_H
#define TRIREME_MONITOR_LOG_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct log_file log_file;

typedef struct monitor_axis {
    const char *name; // "dp"
    int size;
} monitor_axis;

// The start event. Strings that are NULL and numbers that are negative are left out.
typedef struct monitor_start {
    const char *version, *model, *policy, *precision, *device;
    const char *launched_as; // "processes" | "threads" | "workers"
    const char *program;     // that the workers run
    const char *note;        // the warnings that the user has seen
    const monitor_axis *mesh;
    int axes;
    int ranks, threads_per_rank;
    int64_t params, plan_bytes_per_rank;
    int64_t steps, tokens_per_step;
    int64_t resumed_from; // step of the checkpoint that the run resumes from; < 0 for a new run
} monitor_start;

// One finished optimizer step, for the log and for the progress line.
typedef struct monitor_step {
    int64_t step, steps; // number of this step, from 1; steps of the run
    double loss;         // mean over the valid tokens of the global batch, before the step
    double grad_norm;    // before clipping
    double lr;
    int64_t tokens; // valid tokens of this step on all ranks
    float seconds;  // of this step
    float tokens_per_s;
    float mfu; // model FLOPs utilization of the measured matmul rate, in [0, 1]; NaN: not known
    bool skipped;
    double loss_scale; // of fp16 in this step; 0: none
    const char *unit;  // name of a token on the progress line; NULL means "tok"
} monitor_step;

// Opens `path` to append. It first removes an unfinished last line, which a killed run may leave, and
// keeps everything else. So the steps after the checkpoint that a run resumes from are in the file
// twice, and the later line counts. With `path` NULL there is no file, only log_copy_to. The owner calls
// log_close. E_IO.
status log_open(const char *path, log_file **out, err *e);

// From now on each line also goes to `fd`, which is borrowed, until a write to it fails. It waits where `fd`
// is a pipe that is full.
void log_copy_to(log_file *l, int fd);

// Each of these functions writes one line by one write call, so that a reader never sees a part of
// it. E_IO names the file.
status log_start(log_file *l, const monitor_start *s, err *e);
status log_step(log_file *l, const monitor_step *s, err *e);
// `perplexity` is NAN for data without one (vectors); then the line lacks the key.
status log_eval(log_file *l, int64_t step, double loss, double perplexity, err *e);
status log_save(log_file *l, int64_t step, const char *path, int64_t bytes, float seconds, err *e);
// `rank` is < 0 when the failed rank is not known.
status log_error(log_file *l, int64_t step, int rank, const char *text, err *e);
// `reason`: "done" | "interrupted" | "failed". Makes the file durable.
status log_end(log_file *l, int64_t step, const char *reason, float seconds, err *e);

void log_close(log_file *l); // NULL allowed

#endif

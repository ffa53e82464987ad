// log.h -- log.jsonl: what happened in a run, one JSON object per line, in the order it happened.
//
// The type of a field decides how it is written: float as %.9g, double as %.17g, so that each reads
// back to the same bits. NaN and Inf, which JSON lacks, are written as null beside a "<key>_text"
// of "nan", "inf" or "-inf".
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
    const char *as;   // "processes" | "threads"
    const char *note; // what the user was warned of
    const monitor_axis *mesh;
    int axes;
    int ranks, threads_per_rank;
    int64_t params, plan_bytes_per_rank;
    int64_t steps, tokens_per_step;
    int64_t resumed_from; // finished steps of the checkpoint gone on from; < 0 for a fresh run
} monitor_start;

// One finished optimizer step, for the log and for the progress line.
typedef struct monitor_step {
    int64_t step, steps; // from 1; steps of the whole run
    double loss;         // mean over the valid tokens of the global batch, before the update
    double grad_norm;    // before clipping
    double lr;
    int64_t tokens; // valid tokens of this step over all ranks
    float seconds;  // of this step
    float tokens_per_s;
    float share; // of the measured matmul rate, 1 = all of it; NaN when not known
    bool skipped;
    double loss_scale; // of fp16, during this step; 0: none
    const char *unit;  // what `tokens` counts on the progress line; NULL = "tok"
} monitor_step;

// Opens `path` to write at its end; what it holds is never emptied. A last line without its end, as
// a killed run leaves it, is cut off first and nothing else is dropped: steps after the checkpoint
// that a run resumed from stand twice, and the later line counts. E_IO.
status log_open(const char *path, log_file **out, err *e);

// Each writes one whole line at once (one write call), so that a reader never sees half of it.
// E_IO names the file.
status log_start(log_file *l, const monitor_start *s, err *e);
status log_step(log_file *l, const monitor_step *s, err *e);
// perplexity NAN: data that have none (vectors), and the line no such key.
status log_eval(log_file *l, int64_t step, double loss, double perplexity, err *e);
status log_save(log_file *l, int64_t step, const char *path, int64_t bytes, float seconds, err *e);
// `rank` < 0: not known whose it was.
status log_error(log_file *l, int64_t step, int rank, const char *text, err *e);
// `reason`: "done" | "interrupted" | "failed". Makes the file durable.
status log_end(log_file *l, int64_t step, const char *reason, float seconds, err *e);

void log_close(log_file *l); // NULL allowed

#endif

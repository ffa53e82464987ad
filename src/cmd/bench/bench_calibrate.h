// bench_calibrate.h -- what the files of `trireme bench calibrate` share. bench_calibrate.c starts the ranks and writes the
// machine file, bench_calibrate_kernels.c measures kernels, bench_calibrate_points.c says which, and
// bench_calibrate_step.c measures what a step adds.
#ifndef TRIREME_CMD_BENCH_CALIBRATE_H
#define TRIREME_CMD_BENCH_CALIBRATE_H

#include "cmd/bench/bench_copies.h"
#include "planner/calibrated_file.h"
#include "session/session.h"

enum { CALIBRATE_TYPES = 3 };

typedef struct bench_calibrate {
    job *job; // of the step; it says how many ranks and threads there are
    session_inputs inputs;
    const char *out;    // the machine file
    const char *folder; // on the disk that is measured
    double seconds;     // in which all is measured, about
    int types;
    dtype type[CALIBRATE_TYPES];
} bench_calibrate;

// One rank.
typedef struct bench_calibrate_rank {
    const bench_calibrate *q;
    session *s;
    device_stream *stream;
    double *figures;       // device memory for numbers that ranks exchange
    calibrated_file *file; // alike on all ranks
} bench_calibrate_rank;

// A call that is measured, of each type.
typedef struct bench_calibrate_point {
    kernel_kind kind;
    bench_describe describe;
    bench_model model;
    int64_t tokens;
} bench_calibrate_point;

// All points; the caller frees *out.
status bench_calibrate_points(bench_calibrate_point **out, int *count, err *e);

// Each thread has a core.
bool bench_calibrate_has_cores(const bench_calibrate *q);
// Replaces *x by its mean over the ranks. Collective.
status bench_calibrate_mean(const bench_calibrate_rank *r, double *x, err *e);

// Fills file->kernels, in about `seconds`. Collective.
status bench_calibrate_kernels(const bench_calibrate_rank *r, double seconds, err *e);
// Fills factor and step_s of file->does: trains the small model of the job for about `seconds`, and compares. Rank 0 reads
// q->out, which has the other sections. Collective.
status bench_calibrate_step(const bench_calibrate_rank *r, double seconds, err *e);

#endif

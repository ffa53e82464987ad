// bench_calibrate_calls.h -- measures the calls of an open communicator for `trireme bench calibrate`: collectives and
// messages at eight sizes, plain and over segments, with arrays that are written before each call, as training does.
#ifndef TRIREME_CMD_BENCH_CALIBRATE_CALLS_H
#define TRIREME_CMD_BENCH_CALIBRATE_CALLS_H

#include "comm/comm.h"
#include "planner/comm_rates.h"

// 8 B, 64 B, 1 KiB, 8 KiB, 64 KiB, 1 MiB, 8 MiB, 64 MiB
enum { BENCH_CALLS_SIZES = 8, BENCH_CALLS_MOST = 64 << 20 };

typedef struct bench_calls {
    comm *comm;
    device *device;      // whose memory the calls work on
    planner_group group; // how the ranks of comm lie on hosts
    double
        seconds; // in which all is measured, about; the largest sizes are measured three times at least
    size_t most_bytes; // sizes up to this one; a rank takes three times as much memory
} bench_calls;

// Appends the points of x->comm to *out, alike on every rank: of each the slowest rank's median. Their bytes are of F32,
// the smallest of F64, as the sums of a step. *out is zeroed, or has points; its `threads` is the caller's; the fits are
// made anew. Collective over x->comm.
status bench_calibrate_calls(const bench_calls *x, comm_rates *out, err *e);

#endif

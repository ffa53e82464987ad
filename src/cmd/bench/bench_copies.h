// bench_copies.h -- times a kernel over arrays that come from memory where the arrays of a step would: each launch has other
// ones. `trireme bench calibrate` and `bench kernels --machine` call it.
#ifndef TRIREME_CMD_BENCH_COPIES_H
#define TRIREME_CMD_BENCH_COPIES_H

#include "cmd/bench/bench_kernels.h"
#include "comm/comm.h"

// A call that is measured.
typedef struct bench_point {
    kernel_kind kind;
    bench_describe describe;
    const bench_model *model;
    int64_t tokens;
    dtype type;
} bench_point;

typedef struct bench_copies {
    device *d;
    device_stream *stream;
    comm *comm; // ranks that run the same call at the same time; NULL: this one is alone
    bool
        has_cores; // each thread has a core: time in which it waits for one is that of other programs
    int delay;     // bench_delay_open, where that time is left out; else -1
    char *arena;
    void *pattern;   // numbers that are valid as all types
    void *workspace; // grows with the calls
    size_t workspace_bytes;
} bench_copies;

// d, stream, comm and has_cores are set. The caller closes it, also after a failure.
status bench_copies_open(bench_copies *x, err *e);
void bench_copies_close(bench_copies *x);
// Describes the call without memory. False: its arrays have no room.
bool bench_copies_describe(const bench_point *p, bench_call *out);
// The median seconds of a launch on this rank, of samples within `seconds`, three at least. Collective over comm.
status bench_copies_time(bench_copies *x, const bench_point *p, double seconds, double *out,
                         err *e);

#endif

// bench_calibrate_arrays.h -- the arrays of bench_calibrate_calls.c at each size, in memory of the communicator, and what
// calls over segments need.
#ifndef TRIREME_CMD_BENCH_CALIBRATE_ARRAYS_H
#define TRIREME_CMD_BENCH_CALIBRATE_ARRAYS_H

#include "cmd/bench/bench_calibrate_calls.h"
#include "comm/packed.h"

enum { BENCH_SEGMENTS = 16 };

// One size. The smallest, which have less than an element of F32 for each rank, are of F64.
typedef struct bench_calls_array {
    dtype type;
    size_t bytes, count, shard; // elements of all ranks, and of one
    int segments;               // of F32
    comm_segment segment[BENCH_SEGMENTS];
} bench_calls_array;

typedef struct bench_arrays {
    char *memory, *other,
        *figures; // the largest array twice, and room for a few numbers, in one block
    void *block;
    size_t block_bytes;
    int sizes;
    bench_calls_array array[BENCH_CALLS_SIZES];
    comm_packing *packing; // NULL: the communicator packs nothing
    void *table, *workspace;
    size_t table_bytes, workspace_bytes;
} bench_arrays;

// The caller closes *out, also after a failure, when no stream works with it. Collective over x->comm.
status bench_arrays_open(const bench_calls *x, device_stream *on, bench_arrays *out, err *e);
void bench_arrays_close(const bench_calls *x, bench_arrays *a);

#endif

// bench_comm.h -- the request of `trireme bench all_reduce …`, shared by bench_comm.c, which reads
// it from the command line, and bench_comm_run.c, which measures.
#ifndef TRIREME_CMD_BENCH_COMM_H
#define TRIREME_CMD_BENCH_COMM_H

#include "comm/world.h"

typedef enum bench_collective {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_SENDRECV,
    BENCH_COLLECTIVES
} bench_collective;

typedef enum bench_average { AVERAGE_RANK_0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX } bench_average;

// One rank's figures of the latest size: [0] out-of-place, [1] in-place.
typedef struct bench_rank_figures {
    double seconds[2];
    uint64_t wrong[2];
    uint64_t sent; // messages that this rank has sent so far
    pid_t pid;
    char device[16]; // its name, and its index
    int index;
} bench_rank_figures;

// Lies in memory that all ranks share.
typedef struct bench_board {
    uint64_t wrong; // of all sizes
    double bandwidth_sum;
    int bandwidths;
    bench_rank_figures ranks[]; // [ranks]
} bench_board;

typedef struct bench_request {
    bench_collective what;
    int64_t least, most, step; // sizes in bytes
    int64_t factor;            // from row to row; 0: add step
    int iterations, warm_up, aggregate;
    bool check, as_threads, private_memory, json;
    dtype type;
    comm_reduce_op op;
    int root, ranks;
    const char *device; // a word of device_open
    bench_average average;
    bench_board *board;
} bench_request;

extern const char *const bench_names[BENCH_COLLECTIVES]; // as on the command line

// Runs on every rank: measures and checks every size; rank 0 prints the rows. Collective over the
// world.
status bench_comm_run(world *w, int rank, int ranks, void *request, err *e);

#endif

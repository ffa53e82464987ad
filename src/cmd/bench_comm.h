// bench_comm.h -- what `trireme bench all_reduce …` was asked for, and the loop that measures it.
// Inside cmd/ only.
#ifndef TRIREME_CMD_BENCH_COMM_H
#define TRIREME_CMD_BENCH_COMM_H

#include "comm/world.h"

typedef enum collective {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_SENDRECV,
    BENCH_COLLECTIVES
} collective;

typedef enum average { AVERAGE_RANK_0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX } average;

// One rank's figures of the latest size, out-of-place and in-place.
typedef struct rank_figures {
    double seconds[2];
    uint64_t wrong[2];
    uint64_t sent; // messages so far
    pid_t pid;
} rank_figures;

// In memory that all ranks share.
typedef struct bench_board {
    rank_figures ranks[WORLD_RANKS];
    uint64_t wrong; // of all sizes
    double bandwidth_sum;
    int bandwidths;
} bench_board;

typedef struct bench_request {
    collective what;
    int64_t least, most, step, factor; // bytes; factor 0: step
    int iterations, warm_up, aggregate;
    bool check, as_threads, private_memory, json;
    dtype type;
    reduce_op op;
    int root, ranks;
    average average;
    bench_board *board;
} bench_request;

extern const char *const bench_names[BENCH_COLLECTIVES]; // as on the command line

// One rank's part: every size, measured and checked; rank 0 prints the rows. Collective over the
// world.
status bench_comm_run(world *w, int rank, int ranks, void *request, err *e);

#endif

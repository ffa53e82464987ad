// bench_comm.h -- the request of `trireme bench all_reduce …`, shared by bench_comm.c, which reads
// it from the command line, bench_comm_run.c, which measures, and bench_comm_calls.c, which has the
// table of collectives.
#ifndef TRIREME_CMD_BENCH_COMM_H
#define TRIREME_CMD_BENCH_COMM_H

#include "comm/world.h"

typedef enum bench_average { AVERAGE_RANK_0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX } bench_average;

// One rank's figures of the latest size: [0] out-of-place, [1] in-place.
typedef struct bench_rank_figures {
    double seconds[2];
    uint64_t wrong[2];
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
    const struct bench_collective *what;
    int64_t least, most, step; // sizes in bytes
    int64_t factor;            // from row to row; 0: add step
    int iterations, warm_up, aggregate;
    bool check, as_threads, private_memory, json;
    dtype type;
    comm_reduce_op op;
    int root, ranks;
    const char *device; // a word of device_open
    const char *comm;   // a word of comm_open
    bench_average average;
    bench_board *board;
} bench_request;

typedef struct bench_comm_rank {
    const bench_request *q;
    device *device;
    device_stream *stream;
    comm *comm;
    char *send, *recv; // both in `memory`
    void *memory;
    size_t memory_bytes;
    char *host; // room for a buffer, where the host cannot address the device's memory; else NULL
    uint64_t *sent; // [ranks] messages to each rank so far
} bench_comm_rank;

// The sizes of one row.
typedef struct bench_comm_row {
    size_t count;       // elements, as the call counts them
    size_t in, out;     // elements of this rank's input and output
    size_t bytes;       // of the larger buffer
    size_t moved;       // bytes, as nccl-tests counts them for the bandwidth
    size_t shard_bytes; // of one rank's shard
} bench_comm_row;

// What a rank passes or receives. The root alone has an ARRAY_FULL_OF_ROOT.
typedef enum bench_comm_array { ARRAY_FULL, ARRAY_SHARD, ARRAY_FULL_OF_ROOT } bench_comm_array;

// How the bandwidth of the bus follows from that of the algorithm, on n ranks.
typedef enum bench_bus {
    BUS_ONE,        // equal
    BUS_ALL_REDUCE, // 2(n-1)/n
    BUS_OTHERS,     // (n-1)/n
    BUS_HYPERCUBE,  // equal, of n-1 shards
} bench_bus;

typedef struct bench_collective {
    const char *name; // as on the command line
    bench_comm_array in, out;
    bench_bus bus;
    bool divides; // the size is that of the shards of all ranks
    bool reduces, rooted, in_place;
    status (*run)(const bench_comm_rank *b, const bench_comm_row *r, const char *in, char *out,
                  err *e);
    double (*expect)(const bench_comm_rank *b, const bench_comm_row *r,
                     size_t i); // element i of this rank's output
} bench_collective;

extern const bench_collective BENCH_COLLECTIVES[]; // ended by one without a name

// Element i of the input of a rank.
double bench_comm_value(int rank, size_t i);

// Runs on every rank: measures and checks every size; rank 0 prints the rows. Collective over the
// world.
status bench_comm_run(world *w, int rank, int ranks, void *request, err *e);

#endif

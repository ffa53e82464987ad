// bench_comm.h -- the request of `trireme bench all_reduce …`, shared by bench_comm_flags.c, which reads
// it from the command line, bench_comm_run.c, which measures, bench_comm_calls.c, which has the
// table of collectives, bench_comm_print.c, which prints, and bench_comm_report.c, which writes the file of -J.
#ifndef TRIREME_CMD_BENCH_COMM_H
#define TRIREME_CMD_BENCH_COMM_H

#include "base/text.h"
#include "comm/registry.h"

typedef enum bench_average { AVERAGE_RANK_0, AVERAGE_MEAN, AVERAGE_MIN, AVERAGE_MAX } bench_average;

// One rank's figures of the latest size: [0] out-of-place, [1] in-place.
typedef struct bench_rank_figures {
    double seconds[2];
    double cpu_seconds[2]; // in which the calls were issued
    uint64_t wrong[2];
    int pid, index;            // of the process, and of the device
    char device[16], host[56]; // names
} bench_rank_figures;
_Static_assert(sizeof(bench_rank_figures) == 128, "ranks exchange it as whole numbers of 64 bits");

// Lies in memory that a process shares with the ranks that it starts.
typedef struct bench_shared {
    uint64_t wrong; // of all sizes
    double bandwidth_sum;
    int bandwidths;
    bench_rank_figures ranks[]; // [ranks] of all; those of other processes as they were told last
} bench_shared;

// What a rank waits for between calls, as nccl-tests numbers it.
typedef enum bench_blocking {
    BLOCK_NEVER,
    BLOCK_ALL_RANKS,  // until a call is complete on all ranks
    BLOCK_OWN,        // until a call is complete on this rank
    BLOCK_ITERATIONS, // as BLOCK_ALL_RANKS, after each iteration; the time of meeting does not count
} bench_blocking;

// How often the calls of a row run.
typedef struct bench_comm_loop {
    int iterations, warm_up, aggregate;
    int cycles;  // over all sizes; 0: until a signal ends the process
    int replays; // of a row's recorded calls; 0: nothing is recorded
    bench_blocking blocking;
} bench_comm_loop;

typedef struct bench_comm_output {
    bool json, cpu_time, timestamps;
    const char *path; // of a file with the results; NULL: none
    int argc;         // the command line, for the file
    char **argv;
} bench_comm_output;

typedef struct bench_request {
    const struct bench_collective *what;
    int64_t least, most, step; // sizes in bytes
    int64_t factor;            // from row to row; 0: add step
    bench_comm_loop loop;
    bench_comm_output output;
    bool check, as_threads, private_memory;
    bool attached;       // another launcher has started a process for each rank
    double timeout_s;    // that a rank waits for another one in a call; 0: for ever
    double expected_bus; // GB/s that the mean should have; 0: any
    dtype type;
    comm_reduce_op op;
    int root, ranks;
    const char *device; // a word of device_open
    const char *comm;   // a word of comm_open
    bench_average average;
    bench_shared *board;
} bench_request;

typedef struct bench_comm_rank {
    const bench_request *q;
    device *device;
    device_stream *stream;
    comm *comm;
    char *send, *recv; // both in `memory`
    void *memory;
    size_t memory_bytes;
    void *exchange; // in `memory`: room for the figures of all ranks
    bool counts;    // the first rank of its process adds to the board
    char *host;  // room for a buffer, where the host cannot address the device's memory; else NULL
    text report; // of rank 0: the file of -J so far
} bench_comm_rank;

enum { BENCH_TIME_TEXT = 32 };

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
    comm_call_kind kind; // where it is one call
    status (*run)(const bench_comm_rank *b, const bench_comm_row *r, const char *in, char *out,
                  err *e);
    double (*expect)(const bench_comm_rank *b, const bench_comm_row *r,
                     size_t i); // element i of this rank's output
} bench_collective;

extern const bench_collective BENCH_COLLECTIVES[]; // ended by one without a name

// One row's result, out-of-place or in-place.
typedef struct bench_comm_figures {
    bool there;        // false: the collective has no such form
    double us, cpu_us; // of one call
    double rate, bus;  // GB/s
    uint64_t wrong;    // elements
} bench_comm_figures;

// Element i of the input of a rank.
double bench_comm_value(const bench_comm_rank *b, int rank, size_t i);

// The factor from the bandwidth of the algorithm to that of the bus.
double bench_comm_bus_factor(const bench_request *q);
// The mean bandwidth of the bus of all rows in GB/s. Is it less than nine tenths of the expected one?
double bench_comm_mean_bus(const bench_request *q);
bool bench_comm_is_slow(const bench_request *q);
// The ranks that one process starts, which nccl-tests calls its threads or GPUs.
int bench_comm_ranks_of_process(const bench_request *q);
// Names as nccl-tests prints them.
const char *bench_comm_type_name(const bench_request *q);
const char *bench_comm_op_name(const bench_request *q);
// Writes the local time, as "2026-11-23 14:05:00".
void bench_comm_time(char out[BENCH_TIME_TEXT]);

// What rank 0 prints before the rows, a row, and what it prints after them. A first row is not
// separated from one before it.
void bench_comm_print_head(const bench_request *q);
void bench_comm_print_row(const bench_request *q, const bench_comm_row *r,
                          const bench_comm_figures f[2], bool first);
void bench_comm_print_foot(const bench_request *q);

// The file of -J, in the form of nccl-tests: it begins, gets a row, and is written. Rank 0 calls them.
void bench_comm_report_begin(bench_comm_rank *b);
void bench_comm_report_row(bench_comm_rank *b, const bench_comm_row *r,
                           const bench_comm_figures f[2], bool first);
status bench_comm_report_write(bench_comm_rank *b, err *e);

// Runs on every rank: measures and checks every size; rank 0 prints the rows. Collective over the
// world.
status bench_comm_run(world *w, int rank, int ranks, void *request, err *e);

#endif

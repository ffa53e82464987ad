// spans.h -- the record of what a rank does: one file for each rank, OUT/spans/rank-00003.spans. Its rank maps it and
// writes it while it trains; other processes read it from outside, also while the rank runs and after it was killed.
//
//   head     what the rank is, its clock, its memory, and how far it is
//   rows     what can run: a row for each instruction of the step's list, for each call that one makes, for the loader,
//            for evaluations and checkpoints; with running statistics of all its spans, which do not grow
//   waits    [ranks] how long this rank has waited for each rank: the last that came to a collective
//   steps    the last steps, each divided into phases
//   ring     the last spans, 40 bytes each
//
// Bytes are those of the machine that wrote them: little-endian. Times are nanoseconds of CLOCK_MONOTONIC of the rank's
// host; head.clock says how it lies beside the clock of rank 0. There is one writer. A reader copies, and then looks
// whether what it has copied was overwritten meanwhile.
//
// train/ and session/ write it, monitor/ reads it. It does not know what a row means.
#ifndef TRIREME_BASE_SPANS_H
#define TRIREME_BASE_SPANS_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SPANS_VERSION = 1,
    SPANS_STEPS = 1024, // steps that a run keeps
    SPANS_BUCKETS = 32, // of a histogram of durations
    SPANS_MOST_ROWS = 1 << 20,
    SPANS_MOST_RING = 1 << 22,
};

// Every moment of a step belongs to one phase of its rank. A moment in which a pass or an update computes is theirs. Any
// other moment is the phase of what the rank waits for.
#define SPANS_PHASE_LIST(PHASE)                                                                    \
    PHASE(INPUT, "input")         /* the loader has no batch yet */                                \
    PHASE(FORWARD, "forward")     /* a forward pass runs */                                        \
    PHASE(BACKWARD, "backward")   /* a backward pass runs */                                       \
    PHASE(OPTIMIZER, "optimizer") /* an update runs */                                             \
    PHASE(COMM, "communication")  /* a collective or message, and no pass beside it: exposed */    \
    PHASE(COPY, "copy")           /* copies, and files of the file tier */                         \
    PHASE(EVAL, "evaluation")     /* outside of steps */                                           \
    PHASE(SAVE, "checkpoint")     /* outside of steps */                                           \
    PHASE(OTHER, "other")         /* nothing that is recorded */
#define SPANS_ENUMERATOR(NAME, word) PHASE_##NAME,
typedef enum spans_phase { SPANS_PHASE_LIST(SPANS_ENUMERATOR) SPANS_PHASES } spans_phase;
#undef SPANS_ENUMERATOR
const char *spans_phase_word(spans_phase p);

// Memory of the rank by category, in bytes of the plan; spans_memory_word names them.
typedef enum spans_memory {
    MEMORY_OF_WEIGHTS,
    MEMORY_OF_GRADIENTS,
    MEMORY_OF_OPTIMIZER,
    MEMORY_OF_ACTIVATIONS,
    MEMORY_OF_WORKSPACE,
    MEMORY_OF_COMM,
    MEMORY_OF_OTHER,
    SPANS_MEMORIES
} spans_memory;
const char *spans_memory_word(spans_memory m);

typedef struct spans_clock {
    int64_t realtime_ns; // CLOCK_REALTIME minus CLOCK_MONOTONIC when the file was made
    // Added to a time of this rank it gives the time of rank 0's clock, to within error_ns; error_ns < 0: not known.
    int64_t offset_ns, error_ns;
} spans_clock;

// head.boot of a record whose step was predicted: no rank has run, and all ranks have one clock.
#define SPANS_SIMULATED "simulated"

typedef struct spans_head {
    char magic[8]; // "TRMSPAN1"
    uint32_t version, head_bytes;
    uint64_t bytes; // of the file
    uint64_t rows_at, waits_at, steps_at, ring_at;
    uint32_t rows, kept, ring;              // kept: steps; ring: spans, a power of two
    int32_t rank, ranks, local_rank, stage; // stage: of the pipeline
    int64_t pid;
    char host[64];
    char boot[40];     // the id of the machine's start: equal ones have one clock
    char place[96];    // "pp 1 dp_shard 0", as the mesh says it
    char device[96];   // "cpu", "NVIDIA H100 80GB HBM3"
    double step_flops; // of this rank in one step
    uint64_t plan_bytes[SPANS_MEMORIES];
    spans_clock clock;
    // What changes while the rank runs.
    _Atomic uint64_t spans;     // written so far; number n lies in ring[n % ring], from 0
    _Atomic uint64_t steps;     // recorded so far; number n lies in step[n % kept], from 0
    _Atomic int64_t updated_ns; // the last time that any of it changed
    _Atomic uint64_t bytes_now, bytes_peak; // of the rank: its resident memory, or its device's
    _Atomic int32_t running;                // row that runs now; -1: none
    _Atomic int32_t ended;                  // 1: the rank has closed its record
} spans_head;

typedef enum spans_kind {
    SPANS_INSTR,
    SPANS_CALL,
    SPANS_LOADER,
    SPANS_EVAL,
    SPANS_SAVE,
    SPANS_KINDS
} spans_kind;

// Its rank alone writes the statistics; a reader may see them in the middle of a change.
typedef struct spans_row {
    int32_t kind;   // spans_kind
    int32_t phase;  // spans_phase
    int32_t stream; // 0 compute, 1 communication, 2 copy; -1: the host
    int32_t parent; // row of the instruction that makes the call; -1: none
    int32_t instr;  // place in the step's list, from 0; -1: not of the list
    int32_t call;   // place among the instruction's calls; -1: not a call
    int32_t peer;   // rank of the run at the other end of a message; -1: none
    int32_t micro;  // micro-batch; -1: none
    uint64_t bytes; // that it moves; 0: none, or not known
    double flops;
    char name[56];  // "REDUCE_GRAD bucket 0", "all_reduce"
    char group[24]; // process group of a call: "dp_shard_cp"
    // Of all its spans.
    uint64_t count, sum_ns, max_ns, waited_ns;
    uint32_t bucket[SPANS_BUCKETS]; // spans_bucket_of
} spans_row;

typedef struct span {
    int64_t begin_ns, duration_ns;
    int64_t waited_ns; // of it, until the last rank had come: the wait is that rank's
    uint32_t row;
    uint32_t step; // the optimizer step, from 1, modulo 2^32; 0: before the first one
    int32_t last;  // rank of the run that came last; -1: nobody waited, or it is not known
    uint32_t
        peer_span; // of a message: the same at both of its ends, and at no other message of this pair in this direction
} span;
_Static_assert(sizeof(span) == 40, "a span takes 40 bytes");

typedef struct spans_step {
    uint64_t step; // from 1
    int64_t begin_ns, duration_ns;
    int64_t phase_ns[SPANS_PHASES]; // their sum is duration_ns
    int64_t comm_ns;                // in which a collective or message ran, exposed or not
    int64_t waited_ns;              // for ranks that came later
    int64_t gap_ns;     // since the end of the step before: evaluations, checkpoints, other work
    int32_t waited_for; // the rank that this rank waited for longest; -1: none
    int32_t waited_row; // the row in which it did; -1: none
    int64_t waited_for_ns;
    uint64_t bytes_now;  // resident memory of the process, in bytes
    uint64_t first_span; // number of the step's first span
    uint32_t spans;      // of the step
    uint32_t skipped;
    double loss; // as in log.jsonl
} spans_step;

// The bucket of a duration: 0 below 1.024 us, then each is twice as long as the one before.
int spans_bucket_of(int64_t ns);
// Where a bucket begins, in nanoseconds.
int64_t spans_bucket_begin(int bucket);

typedef struct spans {
    spans_head *head;
    spans_row *rows; // [head->rows]
    int64_t *waits;  // [head->ranks]
    spans_step *steps;
    span *ring;
    // Copies of the head's sizes, which the reader has checked against the file.
    uint32_t row_count, step_count, ring_count;
    int rank_count;
    size_t bytes;
} spans;

// ---- The writer

// How much a record has room for: steps that are kept, and at least so many spans in the ring.
typedef struct spans_room {
    uint32_t steps, ring;
} spans_room;

// Makes the file, with the folders above it, in the place of an older one. `head` gives what the rank is, and `rows` are
// copied. The caller closes *out. E_IO, E_MEMORY.
status spans_create(const char *path, const spans_head *head, const spans_row *rows, uint32_t count,
                    spans_room room, spans **out, err *e);
// Adds a span to the ring, to the statistics of its row, and to the waits. It allocates nothing.
void spans_add(spans *s, const span *x);
void spans_add_step(spans *s, const spans_step *x);
// The record is complete. NULL allowed. The file stays.
void spans_finish(spans *s);

// ---- Readers

// Maps the file for reading; E_USAGE names the path and what is wrong with it. The caller closes *out.
status spans_open(const char *path, spans **out, err *e);
void spans_close(spans *s); // also of a writer, which then has not ended its record; NULL allowed
// Copies up to `most` spans from number *from on, and moves *from behind them; spans that were overwritten are left
// out. Returns how many it has copied.
size_t spans_read(const spans *s, uint64_t *from, span *out, size_t most);
// Copies step number n, from 0. False where it is not there, or no longer.
bool spans_read_step(const spans *s, uint64_t n, spans_step *out);

#endif

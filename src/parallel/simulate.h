// simulate.h -- simulates how long a step takes: computes the start and the end of each instruction
// from the instruction lists. Stages wait for each other's messages and for their own streams.
#ifndef TRIREME_PARALLEL_SIMULATE_H
#define TRIREME_PARALLEL_SIMULATE_H

#include "parallel/schedule.h"

// The seconds that one instruction takes. For a send they end when the message has arrived, and for
// a receive they begin then. For a collective they begin when all its stages have reached it.
typedef double simulate_seconds(const void *given, int stage, const schedule_instr *x);

typedef struct simulate_costs {
    simulate_seconds *seconds;
    const void *given;
    // true: every stage has three streams (compute, communication, copy), and an instruction waits
    // only for its stream and for what it reads. false: a stage has one stream.
    bool overlap;
    // A send waits until its receive has begun, and keeps the stream that it is on busy until the
    // message has arrived, and with it all messages that start together (replay.h).
    bool sends_wait;
} simulate_costs;

// A simulate_seconds whose `given` is a simulate_blocks: only passes of blocks take time.
typedef struct simulate_blocks {
    const double *forward, *backward_input, *backward_weight; // seconds by block of the model
} simulate_blocks;
double simulate_block_seconds(const void *blocks, int stage, const schedule_instr *x);

typedef struct simulate_span {
    double start, end; // seconds from the step's begin
} simulate_span;

typedef struct simulate_result {
    int stages;
    simulate_span **span; // [stages][instructions of the stage]
    double seconds;       // until the last instruction of all stages has ended
    double *busy, *idle;  // [stages] seconds of the compute stream; their sum is `seconds`
    double bubble;        // idle seconds of all stages, as a fraction of all their seconds
} simulate_result;

// of_stage[i] and plan_of_stage[i] belong to stage i. The lists have passed schedule_verify;
// E_INTERNAL when they deadlock nevertheless. The caller clears `out`, also after a failure.
status schedule_simulate(const schedule *const *of_stage, const plan *const *plan_of_stage,
                         int stages, const simulate_costs *c, simulate_result *out, err *e);
void simulate_result_clear(simulate_result *r);

#endif

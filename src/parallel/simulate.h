// simulate.h -- what a step takes, from the very lists that would run: each instruction's start and
// end when the stages wait for each other's messages and for their own streams.
#ifndef TRIREME_PARALLEL_SIMULATE_H
#define TRIREME_PARALLEL_SIMULATE_H

#include "parallel/schedule.h"

// Seconds of one instruction by itself: of a SEND_* until its message has arrived, of a RECV_* from
// then on, of a collective from when all are there.
typedef double simulate_seconds(const void *given, int stage, const schedule_instr *x);

typedef struct simulate_costs {
    simulate_seconds *seconds;
    const void *given;
    // Three streams a stage (compute, communication, copy), which wait for each other only where
    // one needs what the other makes; otherwise one instruction after the other.
    bool overlap;
} simulate_costs;

// A simulate_seconds whose `given` is a simulate_blocks: passes of blocks only, all else takes no time.
typedef struct simulate_blocks {
    const double *forward, *backward_input, *backward_weight; // seconds by block of the model
} simulate_blocks;
double simulate_block_seconds(const void *blocks, int stage, const schedule_instr *x);

typedef struct simulate_span {
    double start, end; // seconds from the step's begin
} simulate_span;

typedef struct simulate_result {
    int stages;
    simulate_span **at;  // [stages][instructions of the stage]
    double seconds;      // until the last instruction of all has ended
    double *busy, *idle; // [stages] of the compute stream; together `seconds`
    double bubble;       // of all stages' time
} simulate_result;

// of_stage[i] and plan_of_stage[i] are of stage i, as for schedule_verify, which is the one to say
// what is wrong with lists: of such, this one says (E_INTERNAL) at most that they stand still. The
// caller clears `out` also after a failure.
status schedule_simulate(const schedule *const *of_stage, const plan *const *plan_of_stage,
                         int stages, const simulate_costs *c, simulate_result *out, err *e);
void simulate_result_clear(simulate_result *r);

#endif

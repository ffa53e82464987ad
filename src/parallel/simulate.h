// simulate.h -- what a step takes, from the very lists that would run: each instruction's start and
// end when the stages wait for each other's messages and for their own streams.
#ifndef TRIREME_PARALLEL_SIMULATE_H
#define TRIREME_PARALLEL_SIMULATE_H

#include "parallel/schedule.h"

// Seconds of one instruction by itself: of a SEND_* until its message has arrived, of a RECV_* from
// then on, of a collective from when all are there.
typedef double sim_seconds(const void *given, int stage, const instr *x);

typedef struct sim_costs {
    sim_seconds *seconds;
    const void *given;
    // Three streams a stage (compute, communication, copy), which wait for each other only where
    // one needs what the other makes; otherwise one instruction after the other.
    bool overlap;
} sim_costs;

// A sim_seconds whose `given` is a sim_blocks: passes of blocks only, all else takes no time.
typedef struct sim_blocks {
    const double *forward, *backward_input, *backward_weight; // seconds by block of the model
} sim_blocks;
double sim_block_seconds(const void *blocks, int stage, const instr *x);

typedef struct sim_span {
    double start, end; // seconds from the step's begin
} sim_span;

typedef struct sim_result {
    int stages;
    sim_span **at;       // [stages][instructions of the stage]
    double seconds;      // until the last instruction of all has ended
    double *busy, *idle; // [stages] of the compute stream; together `seconds`
    double idle_share;   // of all stages' time
} sim_result;

// of_stage[i] and plan_of_stage[i] are of stage i, as for schedule_check, which is the one to say
// what is wrong with lists: of such, this one says (E_INTERNAL) at most that they stand still. The
// caller clears `out` also after a failure.
status schedule_simulate(const schedule *const *of_stage, const plan *const *plan_of_stage,
                         int stages, const sim_costs *c, sim_result *out, err *e);
void sim_result_clear(sim_result *r);

#endif

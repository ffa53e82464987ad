// calls.h -- the calls of a schedule: which collectives and messages each instruction makes, over which
// process group, in which array, on which elements. Pure functions of the plan decide it once.
//
// train/calls.c issues the calls of weights and gradients, and ops issue those of passes. traffic.c adds
// their bytes, capture.c and train/segments.c look for them, and `trireme explain` prints them. They know
// neither addresses nor communicators.
#ifndef TRIREME_PARALLEL_CALLS_H
#define TRIREME_PARALLEL_CALLS_H

#include "comm/call.h"
#include "parallel/schedule.h"

// The array that a call works in.
typedef enum schedule_call_array {
    IN_BUCKET,        // the bucket, which the instruction has in a slot or in the flat array
    IN_SHARDS,        // this rank's shards of the bucket, where the gradients of a step are kept
    IN_LEFT_FACTORS,  // the factors that PowerSGD sends instead of the bucket
    IN_RIGHT_FACTORS, // likewise
    IN_VALUES,        // values of a pass, or of a message
    IN_SUMS,          // the sums of the step
} schedule_call_array;

// In which steps a call takes place.
typedef enum schedule_call_steps {
    STEPS_ALL,
    STEPS_BEFORE_POWERSGD, // those before the first step in which PowerSGD compresses
    STEPS_OF_POWERSGD,
} schedule_call_steps;

typedef struct schedule_call {
    // Without its arrays and its peer. Segments and counts are borrowed from the plan or the graph.
    comm_call call;
    int group; // process group
    schedule_call_array array;
    int64_t offset; // the first element in the array
    schedule_call_steps steps;
    bool compressed; // a hook may send the elements in another form
    // A compressed redistribution of several calls starts or ends with this one: before it the elements
    // take that form, and after it they have their own again.
    bool starts, ends;
    double bytes; // of the payload; of an all_to_all with counts, of what this rank gives
    double sent;  // bytes that this rank sends, by the formulas of traffic.h
} schedule_call;

// How a redistribution is carried out.
typedef struct calls_use {
    dtype type;
    bool
        apart; // a first all-gather reads shards from an array of their own, a last reduce-scatter writes them there
    schedule_call_array array;
} calls_use;

// Lists the calls of redistribution m of a bucket. Returns their number.
enum { CALLS_MOST = 10 };
int calls_redistribute(const plan *p, const plan_redistribution *m, int bucket, calls_use use,
                       schedule_call out[CALLS_MOST]);
// Likewise for a redistribution of gradients, which the hook may compress.
int calls_reduce(const plan *p, const plan_redistribution *m, int bucket, calls_use use,
                 schedule_call out[CALLS_MOST]);

// A value that a stage sends to another one.
typedef struct calls_value {
    dtype type;
    int64_t count;
} calls_value;

// The calls of the passes of a block, and what it gives to other blocks.
typedef struct calls_block {
    const schedule_call *call; // [forward + dgrad + wgrad] call and group
    int forward, dgrad,
        wgrad; // calls of each pass; a backward that is not split makes the last two
    calls_value input, output;
} calls_block;

// Lists the calls of all instructions in s->call. blocks[b] belongs to block b of the model; it is read only
// for blocks of this stage. NULL: passes make no calls, and messages are empty.
status calls_list(schedule *s, const plan *p, const calls_block *blocks, err *e);

#endif

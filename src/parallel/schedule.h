// schedule.h -- what happens when: the flat list of instructions of one step on this rank. Built
// once by a pure function, then executed by train/step.c, printed by `trireme explain`, checked for
// deadlock (check.h) and simulated (simulate.h).
//
// Overlap is a matter of streams: an instruction goes to the compute, communication or copy stream
// and waits for what it needs; issuing the next block's GATHER before this block's FORWARD is all
// that prefetching is.
#ifndef TRIREME_PARALLEL_SCHEDULE_H
#define TRIREME_PARALLEL_SCHEDULE_H

#include "parallel/pipeline.h"
#include "parallel/plan.h"

typedef enum instr_kind {
    LOAD,            // micro-batch `micro` to the device, into batch slot `slot`
    FETCH,           // file to state slot `slot`: `what` of bucket `index`; gradients that are
                     // summed over micro-batches: to gradient slot `slot`
    GATHER,          // weights of bucket `index`, whole, into weight slot `slot`
    KEEP,            // this rank's part of the weights of bucket `index`, for backward
    RELEASE,         // weight slot `slot`, of bucket `index`, is free again
    CLAIM,           // gradient slot `slot` is for bucket `index` from now on
    RECV_ACT,        // the input of block `index` from stage `peer`, for act slot `slot`
    FORWARD,         // block `index` of micro-batch `micro`, in act slot `slot`
    SEND_ACT,        // the output of block `index` to stage `peer`
    RECV_GRAD,       // the gradient of the output of block `index`, from stage `peer`
    BACKWARD,        // block `index` of micro-batch `micro`: gradients of input and weights
    BACKWARD_INPUT,  // … of its input,
    BACKWARD_WEIGHT, // … of its weights, later
    SEND_GRAD,       // the gradient of the input of block `index`, to stage `peer`
    TIE,             // gradients of weights that two stages share: their sum, on both
    REDUCE,          // gradients of bucket `index` as they are kept; `last` of the step: as the
                     // optimizer needs them
    CLIP,            // loss, norm and whether all is finite, agreed by all ranks
    UPDATE,          // weights of bucket `index`
    PUBLISH,         // weights of bucket `index` as they are kept
    FLUSH,           // the reverse of FETCH
    INSTRS
} instr_kind;

typedef struct instr {
    instr_kind kind;
    int micro, index;
    int slot;          // of the kind's buffers; -1: none is needed
    int held;          // FORWARD … : slot between the two halves of backward; -1: not halved
    int peer;          // pp coordinate
    int state[TIERED]; // UPDATE, GATHER for weights, REDUCE for gradients: state slots; -1: not in
                       // a file
    bool kept;         // GATHER: from the parts of KEEP
    bool last;         // REDUCE: the step's last of this bucket
    bool whole;        // FETCH, FLUSH: gradients in a gradient slot, not a part in a state slot
    tiered what;
} instr;

// The buffers of one kind: how many there are at once, and how large each has to be.
typedef struct slot_sizes {
    int count;
    int64_t *elements;
} slot_sizes;

typedef struct schedule {
    instr *at;
    int count, room;
    int *act_slots;       // [chunks of the stage] so many micro-batches' activations live at once
    int *held_slots;      // [chunks] so many are between the two halves of their backward
    int batch_slots;      // micro-batches on the device
    slot_sizes weights;   // gathered buckets
    slot_sizes gradients; // buckets whose gradients are not yet reduced
    slot_sizes state[TIERED]; // buckets between a tier and their use
} schedule;

typedef enum pass { PASS_TRAIN, PASS_EVAL } pass;

// The list of a training step, or of one micro-batch's evaluation (forward only).
status schedule_make(const plan *p, pass what, schedule *out, err *e);
void schedule_clear(schedule *s);
const char *instr_name(instr_kind k);
void instr_print(const instr *x, text *out);
void schedule_print(const schedule *s, bool json, text *out);

#endif

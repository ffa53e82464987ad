// schedule.h -- what happens when: the flat list of instructions of one step on this rank. Built
// once by a pure function, then executed by train/step.c, printed by `trireme explain`, checked for
// deadlock (verify.h) and simulated (simulate.h).
//
// Overlap is a matter of streams: an instruction goes to the compute, communication or copy stream
// and waits for what it needs; issuing the next block's UNSHARD before this block's FORWARD is all
// that prefetching is.
#ifndef TRIREME_PARALLEL_SCHEDULE_H
#define TRIREME_PARALLEL_SCHEDULE_H

#include "parallel/pipeline.h"
#include "parallel/plan.h"

typedef enum schedule_instr_kind {
    LOAD_BATCH,           // micro-batch `micro` to the device, into batch slot `slot`
    SWAP_IN,              // file to state slot `slot`: `what` of bucket `index`; gradients that are
                          // summed over micro-batches: to gradient slot `slot`
    UNSHARD,              // weights of bucket `index`, whole, into weight slot `slot`
    RESHARD_POST_FORWARD, // this rank's part of the weights of bucket `index`, for backward
    RESHARD,              // weight slot `slot`, of bucket `index`, is free again
    ALLOC_GRAD,           // gradient slot `slot` is for bucket `index` from now on
    RECV_ACT,             // the input of block `index` from stage `peer`, for act slot `slot`
    FORWARD,              // block `index` of micro-batch `micro`, in act slot `slot`
    SEND_ACT,             // the output of block `index` to stage `peer`
    RECV_GRAD,            // the gradient of the output of block `index`, from stage `peer`
    BACKWARD,             // block `index` of micro-batch `micro`: gradients of input and weights
    BACKWARD_INPUT,       // … of its input,
    BACKWARD_WEIGHT,      // … of its weights, later
    SEND_GRAD,            // the gradient of the input of block `index`, to stage `peer`
    REDUCE_TIED_GRAD,     // gradients of weights that two stages share: their sum, on both
    REDUCE_GRAD,        // gradients of bucket `index` as they are kept; `last` of the step: as the
                        // optimizer needs them
    CLIP_GRAD_NORM,     // loss, norm and whether all is finite, agreed by all ranks
    OPTIMIZER_STEP,     // weights of bucket `index`
    ALL_GATHER_UPDATED, // weights of bucket `index` as they are kept
    SWAP_OUT,           // the reverse of SWAP_IN
    INSTRS
} schedule_instr_kind;

typedef struct schedule_instr {
    schedule_instr_kind kind;
    int micro, index;
    int slot;       // of the kind's buffers; -1: none is needed
    int wgrad_slot; // FORWARD … : slot between the two halves of backward; -1: not halved
    int peer;       // pp coordinate
    int state
        [PLAN_STATES]; // OPTIMIZER_STEP, UNSHARD for weights, REDUCE_GRAD for gradients: state slots; -1: not in
                       // a file
    bool post_forward; // UNSHARD: from the parts of RESHARD_POST_FORWARD
    bool last;         // REDUCE_GRAD: the step's last of this bucket
    bool full; // SWAP_IN, SWAP_OUT: gradients in a gradient slot, not a part in a state slot
    plan_state what;
} schedule_instr;

// The buffers of one kind: how many there are at once, and how large each has to be.
typedef struct schedule_slots {
    int count;
    int64_t *elements;
} schedule_slots;

typedef struct schedule {
    schedule_instr *instr;
    int count;
    size_t room;
    int *act_slots;         // [chunks of the stage] so many micro-batches' activations live at once
    int *wgrad_slots;       // [chunks] so many are between the two halves of their backward
    int batch_slots;        // micro-batches on the device
    schedule_slots weights; // gathered buckets
    schedule_slots gradients;          // buckets whose gradients are not yet reduced
    schedule_slots state[PLAN_STATES]; // buckets between a tier and their use
} schedule;

typedef enum schedule_pass { PASS_TRAIN, PASS_EVAL } schedule_pass;

// The list of a training step, or of one micro-batch's evaluation (forward only).
status schedule_make(const plan *p, schedule_pass what, schedule *out, err *e);
void schedule_clear(schedule *s);
const char *instr_name(schedule_instr_kind k);
void instr_print(const schedule_instr *x, text *out);
void schedule_print(const schedule *s, bool json, text *out);

#endif

// schedule.h -- the schedule: the flat list of instructions that one rank executes in one step, in
// order. A pure function makes it once, from the plan.
//
// train/step.c executes the list, `trireme explain` prints it, verify.h checks it and simulate.h
// times it. What an instruction is (its stream, what it reads and writes, how it prints) stands in
// one table, instructions.h. The list knows neither memory addresses nor communicators.
//
// Streams make work overlap. An instruction runs on the compute, the communication or the copy
// stream and waits only for what it reads. Prefetching means that the UNSHARD of the next block
// stands before the FORWARD of this block.
#ifndef TRIREME_PARALLEL_SCHEDULE_H
#define TRIREME_PARALLEL_SCHEDULE_H

#include "parallel/pipeline.h"
#include "parallel/plan.h"

// Every kind of instruction, and the name of the function run_NAME (train/) that executes it.
// instructions.c has a row for each kind and says what the kind does.
#define SCHEDULE_INSTRS(KIND)                                                                      \
    KIND(LOAD_BATCH, load_batch)                                                                   \
    KIND(LOAD_STEP, load_step)                                                                     \
    KIND(SWAP_IN, swap_in)                                                                         \
    KIND(UNSHARD, unshard)                                                                         \
    KIND(RESHARD_POST_FORWARD, reshard_post_forward)                                               \
    KIND(RESHARD, reshard)                                                                         \
    KIND(ALLOC_GRAD, alloc_grad)                                                                   \
    KIND(RECV_ACT, recv_act)                                                                       \
    KIND(FORWARD, forward)                                                                         \
    KIND(SEND_ACT, send_act)                                                                       \
    KIND(RECV_GRAD, recv_grad)                                                                     \
    KIND(BACKWARD, backward)                                                                       \
    KIND(BACKWARD_INPUT, backward_input)                                                           \
    KIND(BACKWARD_WEIGHT, backward_weight)                                                         \
    KIND(SEND_GRAD, send_grad)                                                                     \
    KIND(REDUCE_TIED_GRAD, reduce_tied_grad)                                                       \
    KIND(REDUCE_GRAD, reduce_grad)                                                                 \
    KIND(CLIP_GRAD_NORM, clip_grad_norm)                                                           \
    KIND(OPTIMIZER_STEP, optimizer_step)                                                           \
    KIND(ALL_GATHER_UPDATED, all_gather_updated)                                                   \
    KIND(SWAP_OUT, swap_out)

#define SCHEDULE_ENUMERATOR(KIND, name) KIND,
typedef enum schedule_instr_kind {
    SCHEDULE_INSTRS(SCHEDULE_ENUMERATOR) INSTRS
} schedule_instr_kind;
#undef SCHEDULE_ENUMERATOR

typedef struct schedule_instr {
    schedule_instr_kind kind;
    int micro; // micro-batch
    int index; // block or bucket, as the kind's row says
    int slot;  // the slot of the kind's main buffer; -1: it needs none
    // Slot of what dgrad saves for wgrad; -1: the schedule computes both at once.
    int wgrad_slot;
    // Activation-gradient slots: of the gradient that is read, and of the one that is written; -1:
    // none, or the gradient lies in the wgrad slot.
    int grad_in, grad_out;
    int peer; // pipeline coordinate of the stage at the other end of a message
    // State slots of OPTIMIZER_STEP, UNSHARD (weights) and REDUCE_GRAD (gradients); -1: not swapped.
    int state[PLAN_STATES];
    bool post_forward; // UNSHARD: from the shards that RESHARD_POST_FORWARD kept
    bool last;         // REDUCE_GRAD: the last of this bucket in the step
    bool second_use;   // REDUCE_GRAD: of the use that the plan's bucket reduces by itself
    bool on_host;      // OPTIMIZER_STEP: the host's processor runs it
    bool full;         // SWAP_IN, SWAP_OUT: full gradients in a gradient slot, not a local shard
    bool with_next;    // messages: starts together with the next instruction
    plan_state what;   // SWAP_IN, SWAP_OUT
    int first_call, calls; // the calls that it makes (calls.h), in the list of the schedule
} schedule_instr;

// The buffers of one kind: how many live at once, and how large each of them is.
typedef struct schedule_slots {
    int count;
    int64_t *elements; // [count]
} schedule_slots;

typedef enum schedule_pass { PASS_TRAIN, PASS_EVAL } schedule_pass;

typedef struct schedule {
    schedule_pass pass;
    schedule_instr *instr; // [count]
    int count;
    size_t room;                       // of `instr`, in instructions
    int *act_slots;                    // [chunks of the stage] micro-batches of saved activations
    int *wgrad_slots;                  // [chunks] micro-batches between their dgrad and wgrad
    int act_grad_slots;                // activation-gradient buffers
    schedule_slots weights;            // unsharded buckets
    schedule_slots gradients;          // buckets whose gradients are not yet reduced
    schedule_slots state[PLAN_STATES]; // buckets between their tier and their use
    struct schedule_call *call;        // [calls] of all instructions (calls.h)
    int calls;
} schedule;

// Makes the list of a training step, or of the evaluation of one micro-batch (forward only).
// E_USAGE when the pipeline schedule does not fit the plan. The caller clears *out.
status schedule_make(const plan *p, schedule_pass pass, schedule *out, err *e);
void schedule_clear(schedule *s);
const char *instr_name(schedule_instr_kind k);
// Appends one line without its end: "UNSHARD bucket 0 into weight slot 0".
void instr_print(const schedule_instr *x, text *out);
// Appends instruction i with its calls, as one line without its end.
void schedule_print_line(const plan *p, const schedule *s, int i, text *out);
// Appends the list, with the calls of each instruction, as indented lines or as a JSON array of strings.
void schedule_print(const plan *p, const schedule *s, bool json, text *out);

#endif

// blocks.h -- the blocks of this stage and what they compute with. It owns the activations of the
// micro-batches in flight, what dgrad saves for wgrad, the activation-gradient buffers, the
// workspace and the rotary table. Other objects own weights, gradients and batches; a block is
// bound to them when it runs.
#ifndef TRIREME_TRAIN_BLOCKS_H
#define TRIREME_TRAIN_BLOCKS_H

#include "parallel/schedule.h"
#include "train/trainer.h"

typedef struct trainer_blocks trainer_blocks;

// Counts memory, or allocates it and fills the rotary table.
status blocks_allocate(trainer *t, err *e);
void blocks_close(trainer *t);

status run_forward(trainer *t, const schedule_instr *x, err *e);
status run_backward(trainer *t, const schedule_instr *x, err *e);
status run_backward_input(trainer *t, const schedule_instr *x, err *e);
status run_backward_weight(trainer *t, const schedule_instr *x, err *e);
status run_recv_act(trainer *t, const schedule_instr *x, err *e);
status run_send_act(trainer *t, const schedule_instr *x, err *e);
status run_recv_grad(trainer *t, const schedule_instr *x, err *e);
status run_send_grad(trainer *t, const schedule_instr *x, err *e);

// The values that instruction x has just written for another block: the output of a forward, the input gradient of a
// backward, or what came from another stage. ptr NULL: it wrote none.
typedef struct blocks_values {
    const void *ptr;
    dtype type;
    int64_t count;
} blocks_values;
blocks_values blocks_written(const trainer *t, const schedule_instr *x);

#endif

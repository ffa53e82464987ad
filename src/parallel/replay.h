// replay.h -- visits the instructions of all pipeline stages in an order in which they can run.
// verify.c checks that there is such an order; simulate.c computes how long the instructions take
// in it.
//
// Activations and gradients use two channels. Each is first in, first out between two stages. A
// send never waits. A receive waits until its message is sent. CLIP_GRAD_NORM waits for all stages,
// REDUCE_TIED_GRAD for the first and the last.
#ifndef TRIREME_PARALLEL_REPLAY_H
#define TRIREME_PARALLEL_REPLAY_H

#include "parallel/schedule.h"

// An instruction: its stage, and its number in the stage's list, from 0.
typedef struct replay_position {
    int stage, number;
} replay_position;

typedef struct replay_step {
    // One instruction, or for a collective between stages the instruction of each of its stages.
    const replay_position *items;
    int count;
    replay_position sent; // for a receive: the send of the same message
} replay_step;

typedef status replay_visit(void *given, const replay_step *s, err *e);

// Calls `visit` (NULL allowed) for every instruction, after the instructions that it waits for.
// E_INTERNAL when the stages deadlock, when a message has the wrong sender, receiver or content, or
// when no stage receives it. The text names the stage, the instruction, and for a deadlock which
// stage waits for which.
status schedule_replay(const schedule *const *of_stage, int stages, replay_visit *visit,
                       void *given, err *e);

// Returns E_INTERNAL with "stage 1, instruction 14 (FORWARD micro 3 block 2): " before the message.
status replay_refuse(const schedule *const *of_stage, replay_position position, err *e,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif

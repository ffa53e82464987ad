// replay.h -- goes through the instruction lists of all pipeline stages at once, in an order in which
// they can run. verify.c asks whether there is such an order, simulate.c how long it takes.
//
// Activations and gradients travel on two channels. Each is first in, first out between two stages.
// A send never waits. A receive waits until its message is the next. CLIP_GRAD_NORM waits for all
// stages, REDUCE_TIED_GRAD for the first and the last.
#ifndef TRIREME_PARALLEL_REPLAY_H
#define TRIREME_PARALLEL_REPLAY_H

#include "parallel/schedule.h"

// An instruction: its stage, and its number in the stage's list, from 0.
typedef struct replay_position {
    int stage, number;
} replay_position;

typedef struct replay_step {
    // One instruction; of a collective between stages, that of each stage in it.
    const replay_position *items;
    int count;
    replay_position sent; // of a receive: the send whose message it receives
} replay_step;

typedef status replay_visit(void *given, const replay_step *s, err *e);

// Calls `visit` (NULL allowed) for every instruction, after all that it waits for. E_INTERNAL when
// the stages deadlock, or when a message goes to or comes from the wrong stage, is not the one that
// is received, or is received by nobody. The text names stage, instruction, and which stage waits
// for which.
status schedule_replay(const schedule *const *of_stage, int stages, replay_visit *visit,
                       void *given, err *e);

// E_INTERNAL: "stage 1, instruction 14 (FORWARD micro 3 block 2): " and what is wrong there.
status replay_refuse(const schedule *const *of_stage, replay_position position, err *e,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif

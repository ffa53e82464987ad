// replay.h -- goes through the instruction lists of all pipeline stages at once, in an order in which
// they can run. verify.c asks whether there is one, simulate.c what time it takes.
//
// Activations and gradients travel on two communicators, each first in, first out between two
// stages. A send never waits; a receive waits until its message is the next; CLIP_GRAD_NORM waits for all
// stages, REDUCE_TIED_GRAD for the first and the last.
#ifndef TRIREME_PARALLEL_WALK_H
#define TRIREME_PARALLEL_WALK_H

#include "parallel/schedule.h"

// An instruction: its stage, and its number in the stage's list, from 0.
typedef struct replay_position {
    int stage, number;
} replay_position;

typedef struct replay_step {
    const replay_position
        *at; // one instruction; of a collective between stages, that of each stage in it
    int count;
    replay_position sent; // RECV_*: the SEND_* whose message it receives
} replay_step;

typedef status replay_visit(void *given, const replay_step *s, err *e);

// Calls `visit` (NULL allowed) for every instruction, after all that it waits for. E_INTERNAL when
// the stages come to a standstill, or when a message goes to or comes from a stage that is no
// neighbour, is not the one that is received, or is received by nobody: the text names stage,
// instruction, and who waits for whom.
status schedule_replay(const schedule *const *of_stage, int stages, replay_visit *visit,
                       void *given, err *e);

// E_INTERNAL: "stage 1, instruction 14 (FORWARD micro 3 block 2): " and what is wrong there.
status replay_refuse(const schedule *const *of_stage, replay_position at, err *e,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif

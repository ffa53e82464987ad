// replay.h -- visits the instructions of all pipeline stages in an order in which they can run.
// verify.c checks that there is such an order; simulate.c computes how long the instructions take
// in it.
//
// Activations and gradients use two channels. Each is first in, first out between two stages. A
// receive waits until its message is sent. CLIP_GRAD_NORM waits for all stages, REDUCE_TIED_GRAD for the
// first and the last. A communicator has one of two kinds of sends:
//   sends that do not wait   a send is over at once
//   sends that wait          a send is over when its receive has begun. Messages that start together
//                            are over when the last of them is.
// A stage's instructions follow each other in the order of the list, as on a device that runs all its
// streams in turn. On a device that runs them side by side an instruction waits for fewer others.
#ifndef TRIREME_PARALLEL_REPLAY_H
#define TRIREME_PARALLEL_REPLAY_H

#include "parallel/schedule.h"

// An instruction: its stage, and its number in the stage's list, from 0.
typedef struct replay_position {
    int stage, number;
} replay_position;

typedef struct replay_step {
    // One instruction, or for a collective between stages the instruction of each of its stages.
    // … or messages that start together.
    const replay_position *items;
    int count;
    // [count] the other end of each message; stage -1: an instruction that waits for no message.
    const replay_position *others;
} replay_step;

typedef status replay_visit(void *given, const replay_step *s, err *e);

// Calls `visit` (NULL allowed) for every instruction, after the instructions that it waits for. Where
// sends wait, one end of a message may be visited before the other, when both have begun. E_INTERNAL
// when the stages deadlock, when a message has the wrong sender, receiver or content, or when no stage
// receives it. The text names the stage, the instruction, and for a deadlock which stage waits for
// which.
status schedule_replay(const schedule *const *of_stage, int stages, bool sends_wait,
                       replay_visit *visit, void *given, err *e);
// How many instructions, from this one on, start together: 1 for all but messages.
int replay_together(const schedule *s, int number);

// Returns E_INTERNAL with "stage 1, instruction 14 (FORWARD micro 3 block 2): " before the message.
status replay_refuse(const schedule *const *of_stage, replay_position position, err *e,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif

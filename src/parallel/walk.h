// walk.h -- goes through the instruction lists of all pipeline stages at once, in an order in which
// they can run. check.c asks whether there is one, simulate.c what time it takes.
//
// Activations and gradients travel on two communicators, each first in, first out between two
// stages. A send never waits; a receive waits until its message is the next; CLIP waits for all
// stages, TIE for the first and the last.
#ifndef TRIREME_PARALLEL_WALK_H
#define TRIREME_PARALLEL_WALK_H

#include "parallel/schedule.h"

// An instruction: its stage, and its number in the stage's list, from 0.
typedef struct place {
    int stage, number;
} place;

typedef struct walk_step {
    const place *at; // one instruction; of a collective between stages, that of each stage in it
    int count;
    place sent; // RECV_*: the SEND_* whose message it receives
} walk_step;

typedef status walk_visit(void *given, const walk_step *s, err *e);

// Calls `visit` (NULL allowed) for every instruction, after all that it waits for. E_INTERNAL when
// the stages come to a standstill, or when a message goes to or comes from a stage that is no
// neighbour, is not the one that is received, or is received by nobody: the text names stage,
// instruction, and who waits for whom.
status schedule_walk(const schedule *const *of_stage, int stages, walk_visit *visit, void *given,
                     err *e);

// E_INTERNAL: "stage 1, instruction 14 (FORWARD micro 3 block 2): " and what is wrong there.
status walk_refuse(const schedule *const *of_stage, place at, err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif

// schedule.h -- what happens when: the flat list of instructions of one step on this rank. Built
// once, then executed by train/step.c and printed by `trireme explain`.
#ifndef TRIREME_PARALLEL_SCHEDULE_H
#define TRIREME_PARALLEL_SCHEDULE_H

#include "parallel/plan.h"

typedef enum instr_kind {
    LOAD,     // micro-batch `micro` to the device
    FORWARD,  // block `index` of micro-batch `micro`
    BACKWARD, // block `index` of micro-batch `micro`
    REDUCE,   // gradients of bucket `index`
    CLIP,     // loss, norm and whether all is finite, agreed by all ranks
    UPDATE,   // weights of bucket `index`
    PUBLISH,  // weights of bucket `index` as they are kept
    INSTRS
} instr_kind;

typedef struct instr {
    instr_kind kind;
    int micro, index;
} instr;

typedef struct schedule {
    instr *at;
    int count;
} schedule;

// One stage: every micro-batch forward and backward, each bucket reduced as soon as its last
// gradient is there, then clip, update and publish.
status schedule_flat(const plan *p, int blocks, int micros, schedule *out, err *e);
void schedule_clear(schedule *s);
const char *instr_name(instr_kind k);
void schedule_print(const schedule *s, bool json, text *out);

#endif

// waits.h -- why the instructions of a predicted step begin when they do, and why a stage computes nothing meanwhile.
// It follows from the lists and their predicted times (step.h). `explain --time` prints it. It knows no machine.
#ifndef TRIREME_PLANNER_WAITS_H
#define TRIREME_PLANNER_WAITS_H

#include "planner/step.h"

// The instruction that another one waits for, after the one before it in its stream; stage -1: none.
typedef struct planner_wait {
    int stage, instr;
} planner_wait;

typedef enum planner_idle {
    IDLE_STAGES,    // it waits for messages of other stages
    IDLE_CALLS,     // for collectives
    IDLE_TRANSFERS, // for copies and files
    IDLE_OTHER,     // for the host, and for what stands between steps
    PLANNER_IDLES
} planner_idle;
const char *planner_idle_name(planner_idle i); // "other stages"

typedef struct planner_stage_time {
    double busy_s; // its passes and updates
    double idle_s[PLANNER_IDLES];
    double first_s, last_s; // begin of its first pass, end of its last one
} planner_stage_time;

typedef struct planner_waits {
    int stages;
    planner_wait **of;         // [stages][instructions]
    planner_stage_time *stage; // [stages] busy and idle seconds add up to those of the step
} planner_waits;

// The caller clears *out, also after a failure.
status planner_waits_find(const planner_step *x, const planner_times *t, planner_waits *out,
                          err *e);
void planner_waits_clear(planner_waits *w);

#endif

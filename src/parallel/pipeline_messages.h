// pipeline_messages.h -- where a stage's messages stand among its passes. Pure functions:
// schedule_visits.c calls pipeline_add_messages, schedule.c turns passes and messages into
// instructions.
//
// Where a send does not wait for its receive, a message is sent right after the pass that computes
// it, and received right before the pass that reads it.
//
// Where a send waits until its receive has begun, that order would deadlock: under 1F1B two stages
// would send to each other at the same time. So every message gets one time, the same for both of its
// ends: the moment at which the value is computed and the receiver has room for it, if a forward takes
// one unit, a backward two, and dgrad and wgrad one each. Every stage orders its messages by that time,
// and messages of the same time start together, as between ncclGroupStart and ncclGroupEnd. Then no
// stages can wait for each other in a circle: a message waits only for passes and messages of earlier
// times. Under 1F1B and interleaved 1F1B the groups are those of Megatron-LM
// (send_forward_recv_backward and the like).
#ifndef TRIREME_PARALLEL_PIPELINE_MESSAGES_H
#define TRIREME_PARALLEL_PIPELINE_MESSAGES_H

#include "parallel/pipeline.h"

typedef struct pipeline_stages {
    const pipeline_list *passes; // [stages] of every stage; without sends_wait, of this stage only
    int stages, virtual_stages, micros;
    int first_backward; // the first model chunk with a backward; passes of others are left out
    bool sends_wait;    // a send waits until its receive has begun
} pipeline_stages;

// The passes of a stage that have something to compute, with its messages among them; sets `received`
// of passes. E_INTERNAL where the passes of the stages wait for each other for ever. The caller clears
// the list.
status pipeline_add_messages(const pipeline_stages *x, int stage, pipeline_list *out, err *e);

#endif

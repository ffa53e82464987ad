// replay_change.h -- what if: the durations of a recorded step are changed, and all waits are computed anew from who
// then comes last. A collective keeps the time that it takes from its last rank on.
#ifndef TRIREME_MONITOR_REPLAY_REPLAY_CHANGE_H
#define TRIREME_MONITOR_REPLAY_REPLAY_CHANGE_H

#include "monitor/replay/replay_record.h"

typedef enum replay_change_kind {
    CHANGE_NOTHING,
    CHANGE_RANK, // work, input and host of one rank take as long as the median of the other ranks of its stage
    CHANGE_COMM,  // collectives and messages take no time; ranks still wait for each other
    CHANGE_INPUT, // the loader is never waited for
    CHANGE_INSTR, // instructions of one kind take less time, beside their calls
} replay_change_kind;

typedef struct replay_change {
    replay_change_kind kind;
    int rank;          // of CHANGE_RANK
    const char *instr; // of CHANGE_INSTR: "BACKWARD"; borrowed
    double faster;     // likewise: share of the time that is saved, from 0 to 1
} replay_change;

// The rank that does its own work slowest beside its peers; -1: no rank has a peer. E_MEMORY.
status replay_change_slowest(const replay_record *r, int *rank, err *e);
// The seconds from step to step with the change. E_USAGE where the change does not fit the record.
status replay_change_period(replay_record *r, const replay_change *c, double *seconds, err *e);

#endif

// replay_causes.h -- why a replayed step takes as long as it does: the chain of pieces that nothing overlaps, and what
// each rank waits for.
#ifndef TRIREME_MONITOR_REPLAY_REPLAY_CAUSES_H
#define TRIREME_MONITOR_REPLAY_REPLAY_CAUSES_H

#include "monitor/replay/replay_record.h"

// A part of the critical path. The next one begins where it ends, on this rank or on another.
typedef struct replay_segment {
    int rank, piece; // -1: the host, between pieces and at the ends of the step
    double begin, seconds;
} replay_segment;

typedef struct replay_segments {
    replay_segment *items; // [count] in the order of time
    int count;
    size_t room;
    double seconds; // of all: from the first rank's begin to the last rank's end
} replay_segments;

// Every moment of a rank's step belongs to the first of these that runs.
typedef enum replay_use {
    USE_COMPUTE,      // passes, updates
    USE_COMM,         // a collective or message whose ranks have all come: exposed communication
    USE_INPUT,        // waits for a batch
    USE_WAIT_RANK,    // waits for the last rank of a collective
    USE_WAIT_MESSAGE, // waits for a message to be sent
    USE_COPY,         // waits for copies and files, on its copy stream
    USE_HOST,         // nothing that is recorded: the host
    REPLAY_USES
} replay_use;
// Its key in JSON: "compute", "communication", …
const char *replay_use_word(replay_use u);

typedef struct replay_rank_uses {
    double seconds[REPLAY_USES]; // their sum is the rank's step
    int last, stage;             // the rank and the stage that it waits for longest; -1: none
    double last_seconds, stage_seconds;
} replay_rank_uses;

// The caller clears *out. E_MEMORY.
status replay_path_find(const replay_record *r, const replay_span *time, replay_segments *out,
                        err *e);
void replay_path_clear(replay_segments *p);
// Fills out[ranks]. E_MEMORY.
status replay_uses_find(const replay_record *r, const replay_span *time, replay_rank_uses *out,
                        err *e);

#endif

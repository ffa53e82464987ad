// replay_report.h -- what `trireme trace report` prints of a step: its replay, its critical path, what each rank waits
// for, and what the step would be if something were otherwise.
#ifndef TRIREME_MONITOR_REPLAY_REPLAY_REPORT_H
#define TRIREME_MONITOR_REPLAY_REPLAY_REPORT_H

#include "monitor/replay/replay_causes.h"
#include "monitor/replay/replay_change.h"

// A step that would be otherwise.
typedef struct replay_answer {
    char what[96];  // "rank 3 were as fast as its peers"
    double seconds; // of a step
} replay_answer;

enum { REPLAY_ANSWERS = 16 };

typedef struct replay_report {
    replay_record *record;     // borrowed
    bool is_median;            // nobody asked for this step
    const char *note;          // why the lists are not known; NULL: they are. Borrowed
    double measured, replayed; // seconds of the step
    double period;             // seconds from step to step, where it is repeated unchanged
    replay_span *time;
    replay_segments path;
    replay_rank_uses *uses; // [ranks]
    replay_answer answer[REPLAY_ANSWERS];
    int answers;
} replay_report;

// Replays the step as it was measured, and finds its causes. The caller clears *out, also after a failure.
status replay_report_make(replay_record *r, replay_report *out, err *e);
void replay_report_clear(replay_report *r);
// Adds the answer to a change. E_USAGE as replay_change_period.
status replay_report_ask(replay_report *r, const replay_change *c, err *e);
// Adds the answer of a replay that the caller has made: seconds from step to step.
void replay_report_answer(replay_report *r, const char *what, double period);
// What is asked of every step: the slowest rank, communication, input. E_MEMORY.
status replay_report_ask_all(replay_report *r, err *e);
// Appends lines, or one JSON object.
void replay_report_print(const replay_report *r, bool json, text *out);

#endif

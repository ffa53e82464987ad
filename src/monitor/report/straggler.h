// straggler.h -- finds the ranks that keep the others waiting, step after step, and why. A run's report and its rank 0 call
// it, the one with all recorded steps, the other while the run goes. It knows neither files nor what a rank computes.
//
// A wait is charged to the last arriver; where that one itself waited for another for as long, to the other. A rank keeps
// its stage waiting in a step where more than half of the stage's other ranks wait for it; a host, where more than half of
// the ranks of other hosts wait for its ranks and all of these are late. A rank that is alone in its stage is compared
// with its own earlier steps. So stages of unequal length are no stragglers.
//
// Steps below 10 ms are judged several at a time. In a step it is late where the wait is at least 3 % of the step, and slow where it is also at least 5 deviations. The
// deviation is that of the largest change of any rank's wait from step to step, so waits that move between ranks raise it.
// A rank is named when it was slow in each of the last 3 steps by 15 %. It is chronic when it was slow in 8 of the last 10,
// or late in 80 % of the last 10, 20, 30, 50 or 100 and more often than chance has it. Neither happens before one cause
// explains 80 % of the wait in the late steps of the last 32, nor where all others of its stage together were late as often
// in the last 100: then delays move between ranks.
#ifndef TRIREME_MONITOR_REPORT_STRAGGLER_H
#define TRIREME_MONITOR_REPORT_STRAGGLER_H

#include "base/spans.h"

typedef enum straggler_cause {
    STRAGGLER_UNCLEAR,
    STRAGGLER_COMPUTE, // its passes and updates take longer than those of the others, and perhaps its communication
    STRAGGLER_INPUT, // its loader has batches later
    STRAGGLER_LINK,  // neither, but its communication or its messages, between hosts or devices
    STRAGGLER_CAUSES
} straggler_cause;
const char *straggler_cause_word(straggler_cause c); // "compute"

// Where a rank is.
typedef struct straggler_location {
    int stage, host; // numbers from 0
    bool is_recorded;
    bool has_device; // of its own, so that ranks of one host have links, too
} straggler_location;

typedef struct straggler {
    int rank, host;        // rank -1: all ranks of the host
    uint64_t first_step;   // that was slow; 0: none
    uint64_t last_step;    // likewise
    uint64_t named_step;   // 0: not named
    uint64_t chronic_step; // in which it became chronic; 0: it did not
    bool is_chronic;       // now
    uint64_t slow_steps;   // how many; of a chronic one, late steps
    int64_t lost_ns;       // that the others waited in them
    double share;          // of a step, median of these late steps
    straggler_cause cause; // of these steps
    double explained;      // share of their wait that the cause explains
} straggler;

typedef struct straggler_watch straggler_watch;

// `locations` [ranks] is copied. The caller closes *out.
status straggler_watch_open(const straggler_location *locations, int ranks, straggler_watch **out,
                            err *e);
void straggler_watch_close(straggler_watch *w); // NULL allowed
// Takes one step of all ranks [ranks]; those of ranks without a record are ignored. The first step that it takes is not
// judged, because caches and memory are cold. It allocates nothing.
void straggler_watch_add(straggler_watch *w, const spans_step *step);
// The next one that the last step has made named or chronic for the first time; NULL: no more.
const straggler *straggler_watch_news(straggler_watch *w);
// All ranks, then all hosts.
int straggler_watch_count(const straggler_watch *w);
const straggler *straggler_watch_get(const straggler_watch *w, int i);

#endif

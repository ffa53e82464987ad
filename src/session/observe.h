// observe.h -- what rank 0 sees of the ranks of its run while it goes: stragglers and loss spikes, of which it reports and
// has traces cut; and the verdict at the end. It reads the records that the ranks write (base/spans.h) from outside, as any
// other process would. Where a run has no records, nothing happens. session/run.c calls it.
#ifndef TRIREME_SESSION_OBSERVE_H
#define TRIREME_SESSION_OBSERVE_H

#include "base/err.h"
#include "base/event.h"

enum { SESSION_TRACES = 3 }; // that a run cuts by itself

typedef struct session_observer session_observer;

// `folder` is the run's. The caller closes *out.
status session_observer_open(const char *folder, session_observer **out, err *e);
void session_observer_close(session_observer *o); // NULL allowed
// Rank 0 calls it after each step. At most ten times a second it looks at the steps that all ranks have finished since, and
// at the run's last step. It gives events of stragglers and notes of traces to the sinks, whose failures alone it returns.
status session_observe_step(session_observer *o, const event_step *s, const event_sinks *sinks,
                            err *e);

// The verdict of a run of at least VERDICT_STEPS steps.
typedef struct session_verdict {
    char *word, *host, *line,
        *next; // owned; word NULL: there is none; host NULL: it is about no host
    int rank;  // -1: it is about no rank
} session_verdict;

// Writes report.json and report.html into the run's folder where any rank has a record. A run that failed has its last
// steps traced. The owner calls session_verdict_clear. It cannot fail: a run must not end because nobody sees it.
void session_observe_end(const char *folder, bool failed, session_verdict *out);
void session_verdict_clear(session_verdict *v);
// The event of a verdict, whose texts it borrows.
event session_verdict_event(const session_verdict *v);

#endif

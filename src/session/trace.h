// trace.h -- the trace that observe.trace_steps asks for: rank 0 has it cut once the steps are done. The run of a rank
// (run.c) calls it. It does not know the format (monitor/trace/trace.h).
//
// A thread of rank 0 cuts, so that no step waits for it. It begins a step later than the last one that is traced, because
// a rank records a step after its end, and waits until all ranks have recorded it. A trace of few ranks takes
// milliseconds; one of a thousand a second of one core.
#ifndef TRIREME_SESSION_TRACE_H
#define TRIREME_SESSION_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct session_trace session_trace;

// Steps `first` to `last` of the run in `folder`; where first is 0, *out is NULL. The caller calls session_trace_close.
status session_trace_open(const char *folder, int64_t first, int64_t last, session_trace **out,
                          err *e);
// After a step. *note is set once, to a line about the trace that was made, or why it was not; the caller frees it.
// NULL allowed.
void session_trace_due(session_trace *t, uint64_t step, char **note);
// After the last step: waits for a trace that is being cut, and cuts those of its steps that the run has taken. *note
// as in session_trace_due.
void session_trace_finish(session_trace *t, char **note);
void session_trace_close(session_trace *t); // NULL allowed

#endif

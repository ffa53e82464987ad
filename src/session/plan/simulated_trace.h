// simulated_trace.h -- writes a predicted step as a trace (monitor/trace/trace.h): records of its ranks, which every
// command that reads a run reads, and an archive for Perfetto. One rank of each stage stands for the others.
// explain_job.c calls it.
#ifndef TRIREME_SESSION_PLAN_SIMULATED_TRACE_H
#define TRIREME_SESSION_PLAN_SIMULATED_TRACE_H

#include "session/plan/explain_time.h"

//   FOLDER/spans/rank-00003.spans   with base/spans.h: SPANS_SIMULATED
//   FOLDER/step.tar
// An earlier predicted step in the folder is replaced; E_USAGE where it holds a run.
status simulated_trace_write(const job *j, const session_inputs *in, const explained_times *t,
                             const char *folder, err *e);

#endif

// trace_perfetto.h -- the files inside the archive for Perfetto: one for each rank, and one with the calls of all ranks.
//
//   perfetto_manifest.json   which machine each file is of, and how the clocks of machines lie beside each other
//   rank-00003.pftrace       tracks of a rank: steps, streams, host, memory beside the bytes of the plan
//   ranks-calls.pftrace      a track for each rank with its collectives and messages, joined by arrows
//
// Perfetto joins by arrows only what is in one file, so the calls of all ranks stand together once more; there a call
// is drawn from the moment when its last rank had come, and what its rank waited before is a slice of its own.
#ifndef TRIREME_MONITOR_TRACE_TRACE_PERFETTO_H
#define TRIREME_MONITOR_TRACE_TRACE_PERFETTO_H

#include "base/text.h"
#include "monitor/trace/trace_clock.h"
#include "monitor/trace/trace_rank.h"

// The number of a process in Perfetto. Ids of processes would not do: ranks may be threads of one.
enum { TRACE_FIRST_PROCESS = 100000 };

// Appends the file of a rank, with times of its machine's clock.
status trace_perfetto_rank(const trace_rank *r, const trace_machine *m, text *out, err *e);
// Begins the file of calls, and appends those of a rank, with times of machine 0.
void trace_perfetto_calls_begin(int ranks, text *out);
status trace_perfetto_calls(const trace_rank *r, const trace_machine *m, text *out, err *e);

#endif

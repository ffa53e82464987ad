// trace.h -- traces: some steps of a run, copied out of the records of its ranks (base/spans.h), and written for other
// programs. The ring of a record always has the last steps, so a trace needs nothing of the ranks, and works while they
// run and after they have ended. `trace`, `train` and the report call it. It does not know why these steps were chosen.
//
//   RUN/traces/steps-00000010-00000012/
//     spans/rank-00003.spans          a record of these steps alone; run_view_open reads the folder
//     steps-00000010-00000012.tar     for Perfetto (trace_perfetto.h)
//     kineto/rank-00003.json          as PyTorch's profiler writes it, on request
#ifndef TRIREME_MONITOR_TRACE_TRACE_H
#define TRIREME_MONITOR_TRACE_TRACE_H

#include "monitor/run_view.h"

// Cuts steps first to last of the run's records into FOLDER/traces/steps-A-B/, with the archive for Perfetto. An
// earlier trace of the same steps is replaced once the new one is complete. *folder: owned by the caller. E_USAGE names
// the rank whose record does not have a step, or no longer has its spans, or whose clock was not compared with rank 0's.
status trace_cut(const run_view *v, uint64_t first, uint64_t last, char **folder, err *e);

// "steps-00000010-00000012"
enum { TRACE_NAME_BYTES = 64 };
const char *trace_name(uint64_t first, uint64_t last, char out[TRACE_NAME_BYTES]);

// Writes the archive for Perfetto of a trace that was cut.
status trace_write_perfetto(const run_view *cut, const char *path, err *e);
// Writes FOLDER/rank-00003.json of each rank, as PyTorch's profiler does; tools such as Holistic Trace Analysis read it.
status trace_write_kineto(const run_view *cut, const char *folder, err *e);

#endif

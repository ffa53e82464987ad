// trace_flow.h -- ids that are equal at both ends of a message, and for one collective on all its ranks. Each rank
// computes them from its own record: from the process group, the kind of the call, and how many of these its step had
// before. trace_rank.c calls it.
#ifndef TRIREME_MONITOR_TRACE_TRACE_FLOW_H
#define TRIREME_MONITOR_TRACE_TRACE_FLOW_H

#include "monitor/trace/trace_rank.h"

// *out: [r->count], 0 where a span is no call, or where the record does not say which ranks its group has. The caller
// frees it.
status trace_flow_find(const trace_rank *r, uint64_t **out, err *e);

// A number that is equal on the ranks of a process group, and differs between groups of the same name. `place` are the
// coordinates of the rank, "pp 1 dp_shard 0". False where the name is not made of axes.
bool trace_flow_group(const char *place, const char *group, uint64_t *out);

#endif

// trace_rank.h -- one rank of a trace, ready to be drawn: its spans in memory, the calls inside their instructions, the
// ids that join the two ends of a message and the calls of a collective on all its ranks, and slices of a track that
// never overlap but by nesting. The writers of formats (trace_perfetto.c, trace_kineto.c) call it. It knows no format.
#ifndef TRIREME_MONITOR_TRACE_TRACE_RANK_H
#define TRIREME_MONITOR_TRACE_TRACE_RANK_H

#include "base/spans.h"

// The streams of a rank, as tracks. A row of stream s is of track s + 1.
typedef enum trace_track {
    TRACK_HOST,
    TRACK_COMPUTE,
    TRACK_COMM,
    TRACK_COPY,
    TRACE_TRACKS
} trace_track;
const char *trace_track_name(trace_track t); // "compute"

typedef struct trace_rank {
    const spans *record;
    span *span; // [count] in the order of the record
    size_t count;
    int64_t *parent;  // [count] the span of the instruction that makes this call; -1: none
    bool *has_calls;  // [count] it is the parent of a span
    uint64_t *flow;   // [count] equal for the calls of one collective or message; 0: not joined
    spans_step *step; // [steps]
    size_t steps;
} trace_rank;

// Copies what the record of a cut trace has. The caller calls trace_rank_clear; `r` is zeroed at first.
status trace_rank_read(const spans *record, trace_rank *r, err *e);
void trace_rank_clear(trace_rank *r);

static inline const spans_row *trace_row(const trace_rank *r, size_t i)
{
    return &r->record->rows[r->span[i].row];
}

typedef struct trace_slice {
    int64_t begin_ns, end_ns;
    size_t span;
    size_t instr; // the span of the instruction: its own, or that which makes this call
    bool is_call;
    bool is_empty; // the instruction took no time
} trace_slice;

// The slices of one track by their begin, an outer one before those in it. Two slices lie apart or one in the other:
// where spans overlap otherwise, the earlier ends where the later begins. The caller frees *out.
status trace_rank_slices(const trace_rank *r, trace_track t, trace_slice **out, size_t *count,
                         err *e);

#endif

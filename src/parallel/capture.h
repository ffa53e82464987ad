// capture.h -- which parts of a schedule a device can record and replay, as a CUDA graph does. Pure
// functions of the plan and the list: `trireme explain` prints the segments, and train/captures.c records
// them.
//
// A recording holds the work that was issued to streams, with its arguments. So a segment contains only
// instructions for which the host does no more than to issue work that is the same in every step: it
// reads no batch, writes no number, waits for no file. The table of instructions says for which
// instructions the host is needed, and why. A call of a communicator can be recorded only if the
// communicator says so.
#ifndef TRIREME_PARALLEL_CAPTURE_H
#define TRIREME_PARALLEL_CAPTURE_H

#include "parallel/schedule.h"

typedef struct capture_segment {
    int first, count; // instructions
    // Why instruction first + count is in no segment; NULL: the list ends there.
    const char *why;
} capture_segment;

typedef struct capture_segments {
    capture_segment *items; // [count]
    int count;
    int instructions; // in all segments
} capture_segments;

// Divides a list. `comm_records`: the calls of the communicator can be recorded. The caller clears *out.
status capture_divide(const plan *p, const schedule *s, bool comm_records, capture_segments *out,
                      err *e);
void capture_clear(capture_segments *c);
// Appends the segments as lines of text, or as a JSON object: those with a communicator whose calls can
// be recorded, and the number of those without one. E_MEMORY.
status capture_print(const plan *p, const schedule *s, bool json, text *out, err *e);

#endif

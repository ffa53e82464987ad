// replay_private.h -- what replay_record.c and replay_read.c share.
#ifndef TRIREME_MONITOR_REPLAY_REPLAY_PRIVATE_H
#define TRIREME_MONITOR_REPLAY_REPLAY_PRIVATE_H

#include "monitor/replay/replay_record.h"

#define REPLAY_NS 1e-9 // seconds

// Nanoseconds that make a time of the rank one of rank 0's clock.
int64_t replay_clock_offset(const run_view *v, int rank);
// Sets r->apart where instructions of different streams of this rank overlap.
status replay_read_overlap(replay_record *r, int rank, err *e);
// Adds the pieces of the rank. first_ns is the begin of the step on rank 0's clock.
status replay_read_rank(replay_record *r, int rank, int64_t first_ns, err *e);

#endif

// trace.h -- a communicator that wraps another one and counts its calls and bytes.
//
// Used to compare the traffic of a strategy with the planned traffic. A call is counted when it has
// been issued without an error. A call over segments is counted as the collective that it is named
// after. Barriers, aborts and waits are not counted.
#ifndef TRIREME_COMM_TRACE_H
#define TRIREME_COMM_TRACE_H

#include "comm/comm.h"

typedef enum trace_kind {
    TRACE_ALL_REDUCE,
    TRACE_REDUCE_SCATTER,
    TRACE_ALL_GATHER,
    TRACE_BROADCAST,
    TRACE_SEND,
    TRACE_RECV,
    TRACE_KINDS,
} trace_kind;

// `bytes` is the traffic of one rank of n by the formulas of a ring, whatever moves the bytes:
//   all_reduce                              2(n-1)/n of the payload
//   reduce_scatter, all_gather, broadcast   (n-1)/n of the full array
//   the same over segments                  the full array without this rank's shards
//   send, recv                              the payload
// The numbers are exact when n is a power of two, and over segments.
typedef struct trace_counts {
    struct {
        uint64_t calls;
        double bytes;
    } kind[TRACE_KINDS];
} trace_counts;

// Opens a wrapper of `inner`. The wrapper owns `inner` and closes it; after a failure `inner` is
// still the caller's. A communicator that is split from a wrapper is a wrapper with its own counts.
status trace_comm_open(comm *inner, comm **out, err *e);
// Returns the counts so far, or NULL when c is not such a wrapper. Call it on the thread that
// issues c's calls. Not collective.
const trace_counts *trace_comm_counts(const comm *c);
// Sets all counts to 0. Not collective.
void trace_comm_reset(comm *c);
const char *trace_kind_name(trace_kind k); // "all_reduce", …

#endif

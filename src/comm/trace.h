// trace.h -- a communicator that counts what passes through it: a wrapper of the same table.
//
// A call is counted when it is issued without an error. Calls over segments count as those they are
// named after. Barriers, aborts and waits are not counted.
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

// `bytes`: what one rank of n moves by the formulas of a ring, whatever really moves them:
// all_reduce 2(n-1)/n of the payload; reduce_scatter, all_gather and broadcast (n-1)/n of the whole
// (over segments: the whole less this rank's parts); send and recv the payload. Exact where n is a
// power of two, and over segments.
typedef struct trace_counts {
    struct {
        uint64_t calls;
        double bytes;
    } kind[TRACE_KINDS];
} trace_counts;

// Wraps `inner`, which the wrapper closes. After a failure `inner` is still the caller's. A split
// gives a wrapper with counts of its own.
status trace_comm_open(comm *inner, comm **out, err *e);
// The counts so far, NULL when c is not such a wrapper. Of the thread that issues c's calls.
const trace_counts *trace_comm_counts(const comm *c);
void trace_comm_reset(comm *c);            // all counts to 0
const char *trace_kind_name(trace_kind k); // "all_reduce", …

#endif

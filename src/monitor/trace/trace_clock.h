// trace_clock.h -- the machines of a trace, and how their clocks lie beside each other. Ranks of one machine have one
// clock; between machines the records say what was measured. A clock that nobody measured is refused, because a trace
// with a wrong clock looks right. The writers of formats call it.
#ifndef TRIREME_MONITOR_TRACE_TRACE_CLOCK_H
#define TRIREME_MONITOR_TRACE_TRACE_CLOCK_H

#include "monitor/run_view.h"

typedef struct trace_machine {
    const spans_head *head; // of the rank whose clock was measured best
    int first;              // its first rank
    // Added to a time of this machine it gives the time of the first machine, to within error_ns.
    int64_t offset_ns, error_ns;
    char name[80]; // of the host; hosts of equal names are numbered
} trace_machine;

typedef struct trace_clocks {
    trace_machine *machine; // [machines]; the first rank with a record is of machine 0
    int machines;
    size_t room;
    int *of; // [ranks] the machine of a rank
} trace_clocks;

// E_USAGE names a rank whose clock is not known. The caller calls trace_clocks_clear; `c` is zeroed at first.
status trace_clocks_find(const run_view *v, trace_clocks *c, err *e);
void trace_clocks_clear(trace_clocks *c);

#endif

// order.h -- which instructions of a list an instruction waits for on a device that runs the streams side by side.
// Within a stream the list's order holds; on a device that runs all streams in turn it is the only one that counts.
//
// session/ gives it to the replay of all ranks (replay_ranks.h), which asks in words of its own pieces. It follows from
// what instructions read and write (instructions.h), and it knows no seconds.
#ifndef TRIREME_PARALLEL_ORDER_H
#define TRIREME_PARALLEL_ORDER_H

#include "parallel/schedule.h"

typedef struct schedule_order {
    int count; // instructions
    int *
        first; // [count + 1] instruction i waits for wait[first[i]] … wait[first[i + 1] - 1], all of other streams
    int *wait;
    size_t room; // of `wait`
} schedule_order;

// The caller clears *out, also after a failure. E_MEMORY.
status schedule_order_make(const plan *p, const schedule *s, schedule_order *out, err *e);
void schedule_order_clear(schedule_order *o);

#endif

// comm_rates.h -- rates of collectives and messages: for each communicator, kind of call and form of the group, seconds
// at measured sizes, piecewise in the logarithm of the bytes. A group that was not measured takes those of the nearest
// one, by the messages that the communicator's algorithm sends.
#ifndef TRIREME_PLANNER_COMM_RATES_H
#define TRIREME_PLANNER_COMM_RATES_H

#include "base/err.h"
#include "planner/cost.h"

#include <jansson.h>

typedef struct comm_point {
    char communicator[16];
    comm_call_kind kind;
    bool segments; // the call is over segments
    planner_group group;
    double bytes, seconds;
} comm_point;

typedef struct comm_rates {
    comm_point *point; // [points]
    size_t points;
} comm_rates;

// `memory_bytes_per_s` as in kernel_rates: what the call takes of it.
planner_claim comm_rates_claim(const comm_rates *r, const char *communicator,
                               const planner_group *g, const comm_call *c, double bytes,
                               double memory_bytes_per_s);
status comm_rates_read(const json_t *section, comm_rates *out, err *e);
json_t *comm_rates_write(const comm_rates *r);
void comm_rates_clear(comm_rates *r);

#endif

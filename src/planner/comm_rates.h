// comm_rates.h -- rates of collectives and messages: for each communicator, kind of call and form of the group, seconds
// at a few sizes, between which they are linear in the bytes. A call or a group that was not measured takes those of
// the nearest one, times the ratio of what the communicator's algorithm costs for the two (comm/algorithm.h, flows.h).
//
// `trireme bench calibrate` measures them, and calibrated.c asks for claims.
#ifndef TRIREME_PLANNER_COMM_RATES_H
#define TRIREME_PLANNER_COMM_RATES_H

#include "base/err.h"
#include "planner/cost.h"
#include "planner/flows.h"

#include <jansson.h>

enum { COMM_RATES_NAME = 16 };

typedef struct comm_point {
    char communicator[COMM_RATES_NAME];
    comm_call_kind kind;
    bool segments; // the call is over segments
    planner_group group;
    double bytes, seconds; // bytes as comm_described_call counts them
    double cores;          // that the thread of the call kept busy meanwhile, 0 to 1
} comm_point;

// What the points of a communicator say of its links.
typedef struct comm_fit {
    char communicator[COMM_RATES_NAME];
    planner_links links;
} comm_fit;

typedef struct comm_rates {
    comm_point *point; // [points]
    size_t points;
    int threads; // of a rank, of which a thread that waits for a network takes one; 0: the device is no CPU
    comm_fit *fit; // [fits] comm_rates_fit
    size_t fits;
} comm_rates;

// Fits the links of each communicator to its points. Call it when the points are complete.
status comm_rates_fit(comm_rates *r, err *e);
// `memory_bytes_per_s` as in kernel_rates: what the call takes of it. No seconds for one rank, and where the
// communicator has no points.
planner_claim comm_rates_claim(const comm_rates *r, const char *communicator,
                               const planner_group *g, const comm_call *c, double bytes,
                               double memory_bytes_per_s);
// Has the communicator points?
bool comm_rates_have(const comm_rates *r, const char *communicator);
// The points of a section, and their fit. E_USAGE names the key.
status comm_rates_read(const json_t *section, comm_rates *out, err *e);
json_t *comm_rates_write(const comm_rates *r); // NULL: no memory
void comm_rates_clear(comm_rates *r);

#endif

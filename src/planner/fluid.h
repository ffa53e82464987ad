// fluid.h -- the simulation of work that shares resources. A piece of work takes so many seconds where it runs alone; two
// pieces that together want more of a resource than there is are slowed, max-min fairly, until one of them ends.
//
// step.c makes the pieces of a step. It knows neither lists nor kernels. The same idea with a solver of its own stands in
// SimGrid (Casanova et al. 2014, flow-level models).
#ifndef TRIREME_PLANNER_FLUID_H
#define TRIREME_PLANNER_FLUID_H

#include "base/err.h"
#include "planner/cost.h"

// A piece begins when the piece before it in its thread and those that it waits for have ended. It runs from when its
// partners, which are pieces of other ranks, have begun as well.
typedef struct planner_piece {
    int rank,
        thread; // thread below PLANNER_THREADS; the pieces of a thread follow each other as in the array
    planner_claim claim;
    int first_wait, waits;       // in `other` of the work: pieces
    int first_partner, partners; // likewise
} planner_piece;

enum { PLANNER_THREADS = 3 };

typedef struct planner_work {
    const planner_piece *piece; // [pieces]
    int pieces, ranks;
    const int *other;
} planner_work;

typedef struct planner_run {
    double begin; // seconds
    double run;   // from when it runs
    double end;
    int cause; // the piece that ended last of those that it waited for; -1: it waited for none
    int last;  // the partner that began last; -1: itself, or it has none
} planner_run;

// Fills out[pieces]. E_INTERNAL where pieces wait for each other in a circle: *stuck (NULL allowed) is one of them.
status planner_fluid_run(const planner_work *w, planner_run *out, int *stuck, err *e);

// The speed of each of `count` pieces that run at once on one rank: 1 is the speed of a piece alone.
void planner_fluid_speeds(const planner_claim *const *claim, int count, double *speed);

#endif

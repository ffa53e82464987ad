// placement.h -- how one tensor lies on one axis of the mesh, and the one table that says which
// collective takes it from one placement to another.
#ifndef TRIREME_PARALLEL_PLACEMENT_H
#define TRIREME_PARALLEL_PLACEMENT_H

// REPLICATE every rank has all of it; PARTIAL every rank has a summand; SHARD every rank has its
// part.
typedef enum placement { REPLICATE, PARTIAL, SHARD, PLACEMENTS } placement;

typedef enum placement_collective {
    REDISTRIBUTE_NOTHING,
    REDISTRIBUTE_ALL_REDUCE,
    REDISTRIBUTE_REDUCE_SCATTER,
    REDISTRIBUTE_ALL_GATHER,
    REDISTRIBUTE_TAKE_SHARD,
    REDISTRIBUTE_ILLEGAL
} placement_collective;

placement_collective placement_redistribute(placement from, placement to);
char placement_letter(placement p); // W, P, S
const char *placement_collective_name(placement_collective t);

#endif

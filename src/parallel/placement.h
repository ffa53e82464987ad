// placement.h -- how one tensor lies on one axis of the mesh, and the table of redistributions:
// which collective changes one placement into another. DTensor has the same three placements.
// The planner calls it; it does not know ranks, buckets or communicators.
#ifndef TRIREME_PARALLEL_PLACEMENT_H
#define TRIREME_PARALLEL_PLACEMENT_H

typedef enum placement {
    REPLICATE, // every rank has the full tensor
    PARTIAL,   // every rank has a full-size summand; the tensor is their sum
    SHARD,     // every rank has its shard
    PLACEMENTS
} placement;

typedef enum placement_collective {
    REDISTRIBUTE_NOTHING,
    REDISTRIBUTE_ALL_REDUCE,
    REDISTRIBUTE_REDUCE_SCATTER,
    REDISTRIBUTE_ALL_GATHER,
    REDISTRIBUTE_TAKE_SHARD, // no communication: the rank already has the full tensor
    REDISTRIBUTE_ILLEGAL     // no step of a schedule needs this change
} placement_collective;

placement_collective placement_redistribute(placement from, placement to);
char placement_letter(placement p);                                     // R, P, S
const char *placement_collective_name(placement_collective collective); // "all-reduce", …

#endif

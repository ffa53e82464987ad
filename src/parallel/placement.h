// placement.h -- how one tensor lies on one axis of the mesh, and the one table that says which
// collective takes it from one placement to another.
#ifndef TRIREME_PARALLEL_PLACEMENT_H
#define TRIREME_PARALLEL_PLACEMENT_H

// WHOLE every rank has all of it; PARTIAL every rank has a summand; SHARDED every rank has its
// part.
typedef enum placement { WHOLE, PARTIAL, SHARDED, PLACEMENTS } placement;

typedef enum transition {
    MOVE_NOTHING,
    MOVE_ALL_REDUCE,
    MOVE_REDUCE_SCATTER,
    MOVE_ALL_GATHER,
    MOVE_TAKE_PART,
    MOVE_ILLEGAL
} transition;

transition placement_move(placement from, placement to);
char placement_letter(placement p); // W, P, S
const char *transition_name(transition t);

#endif

// placement.c -- the table. See placement.h.
#include "parallel/placement.h"

transition placement_move(placement from, placement to)
{
    static const transition table[PLACEMENTS][PLACEMENTS] = {
        [WHOLE] = {[WHOLE] = MOVE_NOTHING, [PARTIAL] = MOVE_ILLEGAL, [SHARDED] = MOVE_TAKE_PART},
        [PARTIAL] =
            {[WHOLE] = MOVE_ALL_REDUCE, [PARTIAL] = MOVE_NOTHING, [SHARDED] = MOVE_REDUCE_SCATTER},
        [SHARDED] = {[WHOLE] = MOVE_ALL_GATHER, [PARTIAL] = MOVE_ILLEGAL, [SHARDED] = MOVE_NOTHING},
    };
    return table[from][to];
}

char placement_letter(placement p)
{
    return "WPS"[p];
}

const char *transition_name(transition t)
{
    static const char *const name[] = {"nothing",    "all-reduce",    "reduce-scatter",
                                       "all-gather", "take own part", "illegal"};
    return name[t];
}

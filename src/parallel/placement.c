// placement.c -- the table of redistributions. See placement.h.
#include "parallel/placement.h"

placement_collective placement_redistribute(placement from, placement to)
{
    static const placement_collective table[PLACEMENTS][PLACEMENTS] = {
        [REPLICATE] = {[REPLICATE] = REDISTRIBUTE_NOTHING,
                       [PARTIAL] = REDISTRIBUTE_ILLEGAL,
                       [SHARD] = REDISTRIBUTE_TAKE_SHARD},
        [PARTIAL] = {[REPLICATE] = REDISTRIBUTE_ALL_REDUCE,
                     [PARTIAL] = REDISTRIBUTE_NOTHING,
                     [SHARD] = REDISTRIBUTE_REDUCE_SCATTER},
        [SHARD] = {[REPLICATE] = REDISTRIBUTE_ALL_GATHER,
                   [PARTIAL] = REDISTRIBUTE_ILLEGAL,
                   [SHARD] = REDISTRIBUTE_NOTHING},
    };
    return table[from][to];
}

char placement_letter(placement p)
{
    return "RPS"[p];
}

const char *placement_collective_name(placement_collective collective)
{
    static const char *const name[] = {"nothing",    "all-reduce",     "reduce-scatter",
                                       "all-gather", "take the shard", "illegal"};
    return name[collective];
}

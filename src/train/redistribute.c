// redistribute.c -- one collective for each step of a redistribution. See redistribute.h. Called by
// the instructions of step_state.c, by compress.c and by weights.c.
#include "train/redistribute.h"

// All-reduce of many segments: a reduce-scatter gives each rank the sum of its shards, then an
// all-gather gives all ranks the full sum.
static status sum_segments(const comm_segment *s, int rows, void *full, dtype t, comm *c,
                           device_stream *on, err *e)
{
    status result = OK;
    TRY(comm_reduce_scatter_segments(c, s, rows, full, NULL, t, REDUCE_SUM, on, e));
    TRY(comm_all_gather_segments(c, s, rows, NULL, full, t, on, e));
done:
    return result;
}

status redistribute_bucket(const plan *p, const plan_redistribution *m, int bucket,
                           const void *shards, void *full, dtype t, comm *const *groups,
                           device_stream *on, err *e)
{
    status result = OK;
    const plan_bucket *b = &p->bucket[bucket];
    const size_t count = (size_t)b->count[m->layout];
    for (int i = 0; i < m->count; i++) {
        const plan_redistribution_step *x = &m->step[i];
        const comm_segment *s = x->segment ? x->segment + b->first_row : NULL;
        comm *c = groups[x->group];
        if (x->collective == REDISTRIBUTE_ALL_REDUCE && !s)
            TRY(comm_all_reduce(c, full, count, t, REDUCE_SUM, on, e));
        else if (x->collective == REDISTRIBUTE_ALL_REDUCE)
            TRY(sum_segments(s, b->rows, full, t, c, on, e));
        else if (x->collective == REDISTRIBUTE_REDUCE_SCATTER)
            TRY(comm_reduce_scatter_segments(c, s, b->rows, full, NULL, t, REDUCE_SUM, on, e));
        else if (x->collective == REDISTRIBUTE_ALL_GATHER)
            TRY(comm_all_gather_segments(c, s, b->rows, i == 0 ? shards : NULL, full, t, on, e));
        else
            FAIL(E_INTERNAL, "no collective makes this redistribution step");
    }
done:
    return result;
}

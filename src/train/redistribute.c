// redistribute.c -- one collective for each step of a redistribution. See redistribute.h. Called by the
// instructions of step_state.c, by compress.c and by weights.c.
#include "train/redistribute.h"

// A sum over the ranks of many runs: each rank sums its shards, and all ranks gather them.
static status sum_segments(const comm_segment *s, int rows, void *full, dtype t, comm *c,
                           device_stream *on, err *e)
{
    status result = OK;
    TRY(comm_reduce_scatter_segments(c, s, rows, full, NULL, t, REDUCE_SUM, on, e));
    TRY(comm_all_gather_segments(c, s, rows, NULL, full, t, on, e));
done:
    return result;
}

static status run_redistribution_step(const plan_redistribution_step *x, const plan_bucket *b,
                                      int64_t count, const void *shards, void *full, dtype t,
                                      comm *c, device_stream *on, err *e)
{
    const comm_segment *s = x->segment ? x->segment + b->first_row : NULL;
    switch (x->collective) {
    case REDISTRIBUTE_NOTHING:
    case REDISTRIBUTE_TAKE_SHARD:
        return OK;
    case REDISTRIBUTE_ALL_REDUCE:
        if (!s) return comm_all_reduce(c, full, (size_t)count, t, REDUCE_SUM, on, e);
        return sum_segments(s, b->rows, full, t, c, on, e);
    case REDISTRIBUTE_REDUCE_SCATTER:
        return comm_reduce_scatter_segments(c, s, b->rows, full, NULL, t, REDUCE_SUM, on, e);
    case REDISTRIBUTE_ALL_GATHER:
        return comm_all_gather_segments(c, s, b->rows, shards, full, t, on, e);
    case REDISTRIBUTE_ILLEGAL:
        break;
    }
    return err_set(e, E_INTERNAL, "no collective makes this redistribution step");
}

status redistribute_bucket(const plan *p, const plan_redistribution *m, int bucket,
                           const void *shards, void *full, dtype t, comm *const *groups,
                           device_stream *on, err *e)
{
    status result = OK;
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = 0; i < m->count; i++)
        TRY(run_redistribution_step(&m->step[i], b, b->count[m->layout], i == 0 ? shards : NULL,
                                    full, t, groups[m->step[i].axis], on, e));
done:
    return result;
}

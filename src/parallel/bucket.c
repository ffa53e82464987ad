// bucket.c -- moves a bucket from one placement to another. See bucket.h.
#include "parallel/bucket.h"

static status sum_parts(const comm_segment *s, int rows, void *at, dtype t, comm *c,
                        device_stream *on, err *e)
{
    status result = OK;
    TRY(comm_reduce_scatter_segments(c, s, rows, at, NULL, t, REDUCE_SUM, on, e));
    TRY(comm_all_gather_segments(c, s, rows, NULL, at, t, on, e));
done:
    return result;
}

static status move(const plan_redistribution_step *x, const plan_bucket *b, int64_t count,
                   const void *own, void *at, dtype t, comm *c, device_stream *on, err *e)
{
    const comm_segment *s = x->segment ? x->segment + b->first_row : NULL;
    switch (x->collective) {
    case REDISTRIBUTE_NOTHING:
    case REDISTRIBUTE_TAKE_SHARD:
        return OK;
    case REDISTRIBUTE_ALL_REDUCE:
        if (!s) return comm_all_reduce(c, at, (size_t)count, t, REDUCE_SUM, on, e);
        return sum_parts(s, b->rows, at, t, c, on, e);
    case REDISTRIBUTE_REDUCE_SCATTER:
        return comm_reduce_scatter_segments(c, s, b->rows, at, NULL, t, REDUCE_SUM, on, e);
    case REDISTRIBUTE_ALL_GATHER:
        return comm_all_gather_segments(c, s, b->rows, own, at, t, on, e);
    case REDISTRIBUTE_ILLEGAL:
        break;
    }
    return err_set(e, E_INTERNAL, "no collective makes this move of placements");
}

status bucket_redistribute(const plan *p, const plan_redistribution *m, int b, const void *own,
                           void *at, dtype t, comm *const *along, device_stream *on, err *e)
{
    status result = OK;
    const plan_bucket *r = &p->bucket[b];
    for (int i = 0; i < m->count; i++)
        TRY(move(&m->step[i], r, r->count[m->layout], i == 0 ? own : NULL, at, t,
                 along[m->step[i].axis], on, e));
done:
    return result;
}

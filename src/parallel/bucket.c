// bucket.c -- moves a bucket from one placement to another. See bucket.h.
#include "parallel/bucket.h"

static status move(transition how, const bucket_range *b, char *at, dtype t, comm *c, stream *on,
                   err *e)
{
    size_t own = (size_t)b->count / (size_t)c->size;
    char *part = at + own * (size_t)c->rank * dtype_bytes(t);
    switch (how) {
    case MOVE_NOTHING:
    case MOVE_TAKE_PART:
        return OK;
    case MOVE_ALL_REDUCE:
        return comm_all_reduce(c, at, (size_t)b->count, t, REDUCE_SUM, on, e);
    case MOVE_REDUCE_SCATTER:
        return comm_reduce_scatter(c, at, part, own, t, REDUCE_SUM, on, e);
    case MOVE_ALL_GATHER:
        return comm_all_gather(c, part, at, own, t, on, e);
    case MOVE_ILLEGAL:
        break;
    }
    return err_set(e, E_INTERNAL, "no collective makes this move of placements");
}

status bucket_reduce(const plan *p, int b, float *gradients, comm *c, stream *on, err *e)
{
    const bucket_range *r = &p->bucket[b];
    return move(placement_move(p->policy->gradient, p->policy->optimizer), r,
                (char *)(gradients + r->first), F32, c, on, e);
}

status bucket_publish(const plan *p, int b, void *weights, dtype type, comm *c, stream *on, err *e)
{
    const bucket_range *r = &p->bucket[b];
    char *at = (char *)weights + (size_t)r->first * dtype_bytes(type);
    return move(placement_move(p->policy->optimizer, p->policy->weight), r, at, type, c, on, e);
}

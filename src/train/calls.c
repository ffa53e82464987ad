// calls.c -- see calls.h. Called by the instructions of step_state.c and by weights.c.
#include "train/calls.h"

// Issues one call between its stamps.
static status issue(const calls_run *r, const schedule_call *c, comm_call *call, err *e)
{
    status result = OK;
    const int64_t number = c - r->first;
    int64_t *stamp = r->spans.stamp ? r->spans.stamp + 2 * number : NULL;
    if (stamp) r->on->device->ops->stamp(r->on, &stamp[0]);
    if (stamp) call->visit = &r->spans.visit[number];
    TRY(comm_issue(r->groups[c->group], call, r->on, e));
    if (stamp) r->on->device->ops->stamp(r->on, &stamp[1]);
done:
    return result;
}

status calls_issue(const calls_run *r, const schedule_call *c, int count, void *array, void *shards,
                   err *e)
{
    status result = OK;
    for (const schedule_call *end = c + count; c < end; c++) {
        comm_call call = c->call;
        char *in = (char *)array + (size_t)c->offset * dtype_bytes(call.type);
        if (c->compressed && !compress_is_due(r->compressor, c, r->step)) continue;
        if (c->compressed) in = compress_begin(r->compressor, c, r->bucket, array, r->step, r->on);
        char *const own = call.segment && !call.in_place ? shards : in;
        call.in = call.kind == CALL_ALL_GATHER ? own : in;
        call.out = call.kind == CALL_REDUCE_SCATTER ? own : in;
        TRY(issue(r, c, &call, e));
        if (c->compressed) compress_end(r->compressor, c, r->bucket, array, r->on);
    }
done:
    return result;
}

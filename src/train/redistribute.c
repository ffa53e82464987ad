// redistribute.c -- one collective for each step of a redistribution. See redistribute.h. Called by
// the instructions of step_state.c, by compress.c and by weights.c.
#include "train/redistribute.h"

// The calls over segments of one step. The sum of segments takes two: a reduce-scatter gives each rank
// the sum of its shards, then an all-gather gives all ranks the full sum.
typedef struct step_calls {
    bool scatters, gathers;
    bool in_place; // this rank's shards lie in the full array
} step_calls;

static step_calls step_calls_of(const plan_redistribution *m, int step, bool has_shards)
{
    const plan_redistribution_step *x = &m->step[step];
    const bool sums = x->collective == REDISTRIBUTE_ALL_REDUCE && x->segment,
               gathers = x->collective == REDISTRIBUTE_ALL_GATHER,
               scatters = x->collective == REDISTRIBUTE_REDUCE_SCATTER;
    const bool reads = gathers && step == 0, writes = scatters && step == m->count - 1;
    return (step_calls){.scatters = sums || scatters,
                        .gathers = sums || gathers,
                        .in_place = !has_shards || !(reads || writes)};
}

status redistribute_bucket(const plan *p, const plan_redistribution *m, int bucket, void *shards,
                           void *full, dtype t, comm *const *groups, device_stream *on, err *e)
{
    status result = OK;
    const plan_bucket *b = &p->bucket[bucket];
    const size_t count = (size_t)b->count[m->layout];
    for (int i = 0; i < m->count; i++) {
        const plan_redistribution_step *x = &m->step[i];
        const comm_segment *s = x->segment ? x->segment + b->first_row : NULL;
        const step_calls k = step_calls_of(m, i, shards != NULL);
        comm *c = groups[x->group];
        void *own = k.in_place ? NULL : shards;
        if (!k.scatters && !k.gathers && x->collective != REDISTRIBUTE_ALL_REDUCE)
            FAIL(E_INTERNAL, "no collective makes this redistribution step");
        if (!k.scatters && !k.gathers) TRY(comm_all_reduce(c, full, count, t, REDUCE_SUM, on, e));
        if (k.scatters)
            TRY(comm_reduce_scatter_segments(c, s, b->rows, full, own, t, REDUCE_SUM, on, e));
        if (k.gathers) TRY(comm_all_gather_segments(c, s, b->rows, own, full, t, on, e));
    }
done:
    return result;
}

status redistribute_add_calls(const plan *p, const plan_redistribution *m, int bucket,
                              const redistribute_use *use, comm_packing *to, err *e)
{
    status result = OK;
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = 0; i < m->count; i++) {
        const plan_redistribution_step *x = &m->step[i];
        const step_calls k = step_calls_of(m, i, use->has_shards);
        comm_packed_call c = {.segment = x->segment ? x->segment + b->first_row : NULL,
                              .segments = b->rows,
                              .rank = plan_group_index(p, x->group),
                              .size = x->ranks,
                              .in_place = k.in_place,
                              .type = use->type,
                              .stream = use->stream};
        if (k.scatters) TRY(comm_packing_add(to, &c, e));
        c.gathers = true;
        if (k.gathers) TRY(comm_packing_add(to, &c, e));
    }
done:
    return result;
}

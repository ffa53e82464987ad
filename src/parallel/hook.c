// hook.c -- what a communication hook compresses. See hook.h. Called by traffic.c, and by
// train/compress.c and train/powersgd.c. It knows neither buffers nor communicators.
#include "parallel/hook.h"

#include "base/size.h"

dtype hook_type(const plan *p)
{
    if (p->o.strategy.hook.kind == HOOK_FP16) return F16;
    return p->o.strategy.hook.kind == HOOK_BF16 ? BF16 : p->o.strategy.reduce_dtype;
}

int64_t hook_rank(const plan *p, const plan_row *r)
{
    return size_min(p->o.strategy.hook.rank, size_min(r->rows, r->cols));
}

bool hook_factors_row(const plan *p, const plan_row *r)
{
    if (p->o.strategy.hook.kind != HOOK_POWERSGD || r->cols < 2) return false;
    if (p->group[r->group].o.frozen) return false;
    const double factors = (double)((r->rows + r->cols) * hook_rank(p, r));
    return factors * p->o.strategy.hook.min_compression_rate < (double)r->count;
}

int64_t hook_factor_elements(const plan *p, const plan_row *r)
{
    return hook_factors_row(p, r) ? (r->rows + r->cols) * hook_rank(p, r) : 0;
}

bool hook_sends_factors(const plan *p, const plan_group *g, const plan_redistribution *m)
{
    if (p->o.strategy.hook.kind != HOOK_POWERSGD || m->count == 0) return false;
    return m == &g->redistribute.reduce_micro_batch ||
           g->redistribute.reduce_micro_batch.count == 0;
}

comm_segment hook_row_segment(const plan *p, const plan_redistribution *m, int step, int position)
{
    const plan_redistribution_step *x = &m->step[step];
    const plan_row *r = &p->row[p->order[position]];
    if (hook_factors_row(p, r)) return (comm_segment){0};
    if (x->segment) return x->segment[position];
    // The redistribution step sums full buckets. Row by row, each rank sums an equal part of the
    // row.
    const int64_t offset = r->offset[m->layout],
                  count = plan_local_shard(p, r, m->layout, p->coord).count;
    return (comm_segment){.full_offset = offset,
                          .shard_offset = offset,
                          .count = count,
                          .shard_count = size_ceil_div(count, x->ranks)};
}

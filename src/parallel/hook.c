// hook.c -- what a communication hook compresses. See hook.h. Called by calls.c and
// plan_redistribute.c, and by train/compress/compress.c and train/compress/powersgd.c. It knows neither buffers nor communicators.
#include "parallel/hook.h"

#include "base/size.h"

dtype hook_type(const plan *p)
{
    if (p->o.strategy.hook.kind == HOOK_FP16) return F16;
    return p->o.strategy.hook.kind == HOOK_BF16 ? BF16 : p->o.strategy.reduce_dtype;
}

bool hook_compresses(const plan *p)
{
    bool sums = false;
    for (int i = 0; i < p->groups; i++) {
        const plan_redistributions *r = &p->group[i].redistribute;
        sums = sums || r->reduce_micro_batch.count > 0 || r->reduce_step.count > 0;
    }
    return sums && (p->o.strategy.hook.kind == HOOK_POWERSGD || hook_type(p) != F32);
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

bool hook_leaves_rows(const plan *p, int bucket)
{
    const plan_bucket *b = &p->bucket[bucket];
    for (int i = b->first_row; i < b->first_row + b->rows; i++)
        if (!hook_factors_row(p, &p->row[p->order[i]])) return true;
    return false;
}

void hook_factors(const plan *p, int bucket, int64_t *left, int64_t *right)
{
    const plan_bucket *b = &p->bucket[bucket];
    *left = *right = 0;
    for (int i = b->first_row; i < b->first_row + b->rows; i++) {
        const plan_row *r = &p->row[p->order[i]];
        if (!hook_factors_row(p, r)) continue;
        *left += r->rows * hook_rank(p, r);
        *right += r->cols * hook_rank(p, r);
    }
}

bool hook_sends_factors(const plan *p, const plan_group *g, const plan_redistribution *m)
{
    if (p->o.strategy.hook.kind != HOOK_POWERSGD || m->count == 0) return false;
    return m == &g->redistribute.reduce_micro_batch ||
           g->redistribute.reduce_micro_batch.count == 0;
}

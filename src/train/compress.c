// compress.c -- redistributes gradients in a shorter element type, as low-rank factors, or both.
// See compress.h. Called by step_state.c instead of redistribute_bucket. It knows no policy: the
// plan says which collectives there are, parallel/hook.h says what they carry, and powersgd.c
// computes the factors.
#include "train/compress.h"

#include "base/alloc.h"
#include "base/size.h"
#include "parallel/hook.h"
#include "train/launch.h"
#include "train/powersgd.h"
#include "train/redistribute.h"

#include <stdlib.h>

// With PowerSGD: the redistributions of a group's gradients, restricted to the rows that PowerSGD does
// not factor.
typedef struct compress_rest {
    plan_redistribution micro_batch, step;
} compress_rest;

struct compressor {
    compress_options o;
    // The element type in which gradients are sent.
    dtype type;
    // Gradients are multiplied by these before they are sent, and after.
    float scale_before, scale_after;
    // A bucket [low_bytes] in that type, memory of comm_alloc; NULL when the type is F32.
    char *low;
    size_t low_bytes;
    // NULL with another hook.
    powersgd *powersgd;
    compress_rest *rest; // [groups of the plan]; NULL with another hook
};

static bool plan_compresses(const plan *p)
{
    bool sums = false;
    for (int i = 0; i < p->groups; i++) {
        const plan_redistributions *r = &p->group[i].redistribute;
        sums = sums || r->reduce_micro_batch.count > 0 || r->reduce_step.count > 0;
    }
    return sums && (p->o.strategy.hook.kind == HOOK_POWERSGD || hook_type(p) != F32);
}

// Neither the P nor the Q of a bucket has more elements than the bucket.
static uint64_t low_bytes(const plan *p)
{
    int64_t most = 0;
    if (hook_type(p) == F32) return 0;
    for (int b = 0; b < p->buckets; b++) {
        const plan_redistributions *r = &plan_group_of(p, b)->redistribute;
        const plan_redistribution *m[2] = {&r->reduce_micro_batch, &r->reduce_step};
        for (int i = 0; i < 2; i++)
            if (m[i]->count > 0) most = size_max(most, p->bucket[b].count[m[i]->layout]);
    }
    return (uint64_t)most * dtype_bytes(hook_type(p));
}

uint64_t compress_bytes(const plan *p, const kernel_needs *needs)
{
    if (!plan_compresses(p)) return 0;
    return low_bytes(p) + (p->o.strategy.hook.kind == HOOK_POWERSGD ? powersgd_bytes(p, needs) : 0);
}

// Makes *out a copy of redistribution m of group g in which the segments of the rows that PowerSGD
// factors are empty.
static status make_rest(const plan *p, const plan_group *g, const plan_redistribution *m,
                        plan_redistribution *out, err *e)
{
    out->layout = m->layout;
    for (; out->count < m->count; out->count++) {
        comm_segment *s = NULL;
        const status result = alloc_zeroed(&s, (size_t)p->local_rows, sizeof *s, "PowerSGD", e);
        if (result != OK) return result;
        out->step[out->count] = m->step[out->count];
        out->step[out->count].segment = s;
        for (int k = g->first_bucket; k < g->first_bucket + g->buckets; k++) {
            const plan_bucket *b = &p->bucket[k];
            for (int i = b->first_row; i < b->first_row + b->rows; i++)
                s[i] = hook_row_segment(p, m, out->count, i);
        }
    }
    return OK;
}

static void free_rest(plan_redistribution *m)
{
    for (int i = 0; i < m->count; i++) free(m->step[i].segment);
}

static status open_powersgd(compressor *c, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    TRY(alloc_zeroed(&c->rest, (size_t)p->groups, sizeof *c->rest, "PowerSGD", e));
    for (int i = 0; i < p->groups; i++) {
        const plan_group *g = &p->group[i];
        TRY(make_rest(p, g, &g->redistribute.reduce_micro_batch, &c->rest[i].micro_batch, e));
        TRY(make_rest(p, g, &g->redistribute.reduce_step, &c->rest[i].step, e));
    }
    TRY(powersgd_open(p, c->o.device, c->o.comm, c->o.seed, &c->powersgd, e));
done:
    return result;
}

status compress_open(const compress_options *o, compressor **out, err *e)
{
    status result = OK;
    const plan *p = o->plan;
    void *low = NULL;
    compressor *c = NULL;
    *out = NULL;
    if (!plan_compresses(p)) return OK;
    if (hook_type(p) == F16 && !(o->scale > 0))
        FAIL(E_INTERNAL, "fp16 gradients: scale %g; valid: more than 0", o->scale);
    TRY(alloc_zeroed(&c, 1, sizeof *c, "compression", e));
    c->o = *o;
    c->type = hook_type(p);
    c->scale_before = c->type == F16 ? (float)o->scale : 1;
    c->scale_after = c->type == F16 ? (float)(1 / o->scale) : 1;
    if (low_bytes(p)) TRY(comm_alloc(o->comm, o->device, low_bytes(p), &low, e));
    c->low = low;
    c->low_bytes = low_bytes(p);
    if (p->o.strategy.hook.kind == HOOK_POWERSGD) TRY(open_powersgd(c, e));
    *out = c;
    c = NULL;
done:
    compress_close(c);
    return result;
}

void compress_close(compressor *c)
{
    if (!c) return;
    if (c->low) comm_release(c->o.comm, c->o.device, c->low, c->low_bytes);
    powersgd_close(c->powersgd);
    for (int i = 0; c->rest && i < c->o.plan->groups; i++) {
        free_rest(&c->rest[i].micro_batch);
        free_rest(&c->rest[i].step);
    }
    free(c->rest);
    free(c);
}

void compress_end_step(compressor *c, uint64_t step, bool restart)
{
    if (c && c->powersgd) powersgd_end_step(c->powersgd, step, restart);
}

powersgd *compress_powersgd(compressor *c)
{
    return c ? c->powersgd : NULL;
}

// ---- The shorter type

// Converts elements first … first+count-1 of x to the same elements of c->low.
static void shorten(compressor *c, float *x, int64_t first, int64_t count, device_stream *on)
{
    if (c->scale_before != 1) launch_scale(on, x + first, c->scale_before, count);
    launch_convert(on, c->low + (size_t)first * dtype_bytes(c->type), c->type, x + first, F32,
                   count);
}

static void lengthen(compressor *c, float *x, int64_t first, int64_t count, device_stream *on)
{
    launch_convert(on, x + first, F32, c->low + (size_t)first * dtype_bytes(c->type), c->type,
                   count);
    if (c->scale_after != 1) launch_scale(on, x + first, c->scale_after, count);
}

static status redistribute_whole_bucket(compressor *c, const plan_redistribution *m, int bucket,
                                        float *gradients, device_stream *on, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    const int64_t count = p->bucket[bucket].count[m->layout];
    if (c->type == F32)
        return redistribute_bucket(p, m, bucket, NULL, gradients, F32, c->o.groups, on, e);
    shorten(c, gradients, 0, count, on);
    TRY(redistribute_bucket(p, m, bucket, NULL, c->low, c->type, c->o.groups, on, e));
    lengthen(c, gradients, 0, count, on);
done:
    return result;
}

// ---- PowerSGD

// Converts each row that PowerSGD does not factor. Returns the number of such rows.
static int convert_rest(compressor *c, const plan_redistribution *m, int bucket, float *gradients,
                        void (*convert)(compressor *, float *, int64_t, int64_t, device_stream *),
                        device_stream *on)
{
    const plan *p = c->o.plan;
    const plan_bucket *b = &p->bucket[bucket];
    int rows = 0;
    for (int i = 0; i < b->rows; i++) {
        const plan_row *r = &p->row[p->order[b->first_row + i]];
        const int64_t count = plan_local_shard(p, r, m->layout, p->coord).count;
        if (hook_factors_row(p, r)) continue;
        rows++;
        if (c->type != F32 && count > 0) convert(c, gradients, r->offset[m->layout], count, on);
    }
    return rows;
}

static status redistribute_rest(compressor *c, const plan_redistribution *m, int bucket,
                                float *gradients, device_stream *on, err *e)
{
    status result = OK;
    void *sent = c->type == F32 ? (void *)gradients : (void *)c->low;
    if (convert_rest(c, m, bucket, gradients, shorten, on) == 0) return OK;
    TRY(redistribute_bucket(c->o.plan, m, bucket, NULL, sent, c->type, c->o.groups, on, e));
    convert_rest(c, m, bucket, gradients, lengthen, on);
done:
    return result;
}

static status sum_factors(compressor *c, int bucket, powersgd_factors f, device_stream *on, err *e)
{
    status result = OK;
    comm *over = c->o.groups[plan_group_axes(plan_group_of(c->o.plan, bucket))];
    void *sent = c->type == F32 ? (void *)f.items : (void *)c->low;
    if (f.count == 0) return OK;
    if (c->type != F32) shorten(c, f.items, 0, f.count, on);
    TRY(comm_all_reduce(over, sent, (size_t)f.count, c->type, REDUCE_SUM, on, e));
    if (c->type != F32) lengthen(c, f.items, 0, f.count, on);
done:
    return result;
}

static status sum_low_rank(compressor *c, int bucket, float *gradients, uint64_t step,
                           device_stream *on, err *e)
{
    status result = OK;
    TRY(sum_factors(c, bucket, powersgd_left(c->powersgd, bucket, gradients, step, on), on, e));
    TRY(sum_factors(c, bucket, powersgd_right(c->powersgd, bucket, gradients, on), on, e));
    powersgd_product(c->powersgd, bucket, gradients, on);
done:
    return result;
}

status compress_redistribute(compressor *c, const plan_redistribution *m, int bucket,
                             float *gradients, uint64_t step, device_stream *on, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    const plan_group *g = plan_group_of(p, bucket);
    if (m->count == 0) return OK;
    if (!c->powersgd || step < (uint64_t)p->o.strategy.hook.start_step)
        return redistribute_whole_bucket(c, m, bucket, gradients, on, e);
    const compress_rest *rest = &c->rest[p->bucket[bucket].group];
    TRY(redistribute_rest(c, m == &g->redistribute.reduce_step ? &rest->step : &rest->micro_batch,
                          bucket, gradients, on, e));
    if (hook_sends_factors(p, g, m)) TRY(sum_low_rank(c, bucket, gradients, step, on, e));
done:
    return result;
}

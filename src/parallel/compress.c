// compress.c -- gradients reduced in a shorter type, or as low-rank factors, or both. See
// compress.h. Called by the trainer in the place of bucket_redistribute. Which collectives a policy needs
// stands in the plan; the arithmetic of the factors is powersgd.c's.
#include "parallel/compress.h"

#include "base/alloc.h"
#include "device/kernels.h"
#include "parallel/powersgd.h"

#include <stdlib.h>

struct compressor {
    compress_options o;
    dtype type;          // that gradients travel in
    float before, after; // what they are multiplied by
    char *low;           // a bucket in that type; NULL: F32
    size_t low_bytes;
    powersgd *factors;               // NULL: another hook
    plan_redistribution micro, step; // PowerSGD: the plan's, of the rows that it does not take
};

dtype compress_type(const plan *p)
{
    if (p->o.hook.kind == HOOK_FP16) return F16;
    return p->o.hook.kind == HOOK_BF16 ? BF16 : p->o.reduce;
}

static bool is_wanted(const plan *p)
{
    const bool sums = p->reduce_micro_batch.count > 0 || p->reduce_step.count > 0;
    return sums && (p->o.hook.kind == HOOK_POWERSGD || compress_type(p) != F32);
}

// A bucket's factors of either side are never more than its elements.
static uint64_t low_bytes(const plan *p)
{
    const plan_redistribution *m[2] = {&p->reduce_micro_batch, &p->reduce_step};
    int64_t most = 0;
    if (compress_type(p) == F32) return 0;
    for (int i = 0; i < 2; i++)
        for (int b = 0; b < p->buckets && m[i]->count > 0; b++)
            if (p->bucket[b].count[m[i]->layout] > most) most = p->bucket[b].count[m[i]->layout];
    return (uint64_t)most * dtype_bytes(compress_type(p));
}

uint64_t compress_bytes(const plan *p)
{
    if (!is_wanted(p)) return 0;
    return low_bytes(p) + (p->o.hook.kind == HOOK_POWERSGD ? powersgd_bytes(p) : 0);
}

// The segment of a row in a move whose bucket is one run.
static comm_segment segment_of_run(const plan *p, const plan_row *r, plan_layout array, int parts)
{
    const int64_t at = r->offset[array] - p->bucket[r->bucket].first[array];
    const int64_t count = plan_local_shard(p, r, array, p->coord).count;
    return (comm_segment){.full_offset = at,
                          .shard_offset = at,
                          .count = count,
                          .shard_count = (count + parts - 1) / parts};
}

// The moves `m` of the rows that PowerSGD does not take: the others' segments are empty.
static status leave_out(const plan *p, const plan_redistribution *m, plan_redistribution *out,
                        err *e)
{
    out->layout = m->layout;
    for (; out->count < m->count; out->count++) {
        const plan_redistribution_step *x = &m->step[out->count];
        comm_segment *s = NULL;
        const status result = alloc_zeroed(&s, (size_t)p->local_rows, sizeof *s, "PowerSGD", e);
        if (result != OK) return result;
        for (int i = 0; i < p->local_rows; i++) {
            const plan_row *r = &p->row[p->order[i]];
            if (powersgd_takes(p, r)) continue;
            s[i] = x->segment ? x->segment[i]
                              : segment_of_run(p, r, m->layout, p->o.mesh.size[x->axis]);
        }
        out->step[out->count] = *x;
        out->step[out->count].segment = s;
    }
    return OK;
}

static void free_moves(plan_redistribution *m)
{
    for (int i = 0; i < m->count; i++) free(m->step[i].segment);
}

static status open_factors(compressor *c, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    TRY(leave_out(p, &p->reduce_micro_batch, &c->micro, e));
    TRY(leave_out(p, &p->reduce_step, &c->step, e));
    TRY(powersgd_open(p, c->o.device, c->o.comm, c->o.seed, &c->factors, e));
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
    if (!is_wanted(p)) return OK;
    if (compress_type(p) == F16 && !(o->scale > 0))
        FAIL(E_INTERNAL, "fp16 gradients: scale %g; valid: more than 0", o->scale);
    TRY(alloc_zeroed(&c, 1, sizeof *c, "compression", e));
    c->o = *o;
    c->type = compress_type(p);
    c->before = c->type == F16 ? (float)o->scale : 1;
    c->after = c->type == F16 ? (float)(1 / o->scale) : 1;
    if (low_bytes(p)) TRY(comm_alloc(o->comm, o->device, low_bytes(p), &low, e));
    c->low = low;
    c->low_bytes = low_bytes(p);
    if (p->o.hook.kind == HOOK_POWERSGD) TRY(open_factors(c, e));
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
    powersgd_close(c->factors);
    free_moves(&c->micro);
    free_moves(&c->step);
    free(c);
}

void compress_restart(compressor *c)
{
    if (c && c->factors) powersgd_restart(c->factors);
}

powersgd *compress_powersgd(compressor *c)
{
    return c ? c->factors : NULL;
}

// ---- The shorter type

static void scale(float *at, int64_t count, float by, device_stream *on)
{
    if (by == 1) return;
    kernel_call k = {.kind = K_ADD};
    k.u.add = (kernel_add_args){.count = count, .a = at, .y = at, .alpha = by, .type = F32};
    device_launch(on, &k);
}

// Elements first … first+count-1 of `at`, to the same place of the shorter type's buffer.
static void shorten(compressor *c, float *at, int64_t first, int64_t count, device_stream *on)
{
    kernel_call k = {.kind = K_CONVERT};
    k.u.convert = (kernel_convert_args){.count = count,
                                        .src = at + first,
                                        .dst = c->low + (size_t)first * dtype_bytes(c->type),
                                        .src_type = F32,
                                        .dst_type = c->type};
    scale(at + first, count, c->before, on);
    device_launch(on, &k);
}

static void lengthen(compressor *c, float *at, int64_t first, int64_t count, device_stream *on)
{
    kernel_call k = {.kind = K_CONVERT};
    k.u.convert = (kernel_convert_args){.count = count,
                                        .src = c->low + (size_t)first * dtype_bytes(c->type),
                                        .dst = at + first,
                                        .src_type = c->type,
                                        .dst_type = F32};
    device_launch(on, &k);
    scale(at + first, count, c->after, on);
}

static status move_all(compressor *c, const plan_redistribution *m, int b, float *at,
                       device_stream *on, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    const int64_t count = p->bucket[b].count[m->layout];
    if (c->type == F32) return bucket_redistribute(p, m, b, NULL, at, F32, c->o.along, on, e);
    shorten(c, at, 0, count, on);
    TRY(bucket_redistribute(p, m, b, NULL, c->low, c->type, c->o.along, on, e));
    lengthen(c, at, 0, count, on);
done:
    return result;
}

// ---- PowerSGD

// Applies `each` to the rows of bucket b that PowerSGD does not take, and counts them.
static int each_rest(compressor *c, const plan_redistribution *m, int b, float *at,
                     void (*each)(compressor *, float *, int64_t, int64_t, device_stream *),
                     device_stream *on)
{
    const plan *p = c->o.plan;
    const plan_bucket *r = &p->bucket[b];
    int rows = 0;
    for (int i = 0; i < r->rows; i++) {
        const plan_row *x = &p->row[p->order[r->first_row + i]];
        const int64_t count = plan_local_shard(p, x, m->layout, p->coord).count;
        if (powersgd_takes(p, x)) continue;
        rows++;
        if (c->type != F32 && count > 0)
            each(c, at, x->offset[m->layout] - r->first[m->layout], count, on);
    }
    return rows;
}

static status move_rest(compressor *c, const plan_redistribution *m, int b, float *at,
                        device_stream *on, err *e)
{
    status result = OK;
    void *moved = c->type == F32 ? (void *)at : (void *)c->low;
    if (each_rest(c, m, b, at, shorten, on) == 0) return OK;
    TRY(bucket_redistribute(c->o.plan, m, b, NULL, moved, c->type, c->o.along, on, e));
    each_rest(c, m, b, at, lengthen, on);
done:
    return result;
}

static status sum_factors(compressor *c, powersgd_factors f, device_stream *on, err *e)
{
    status result = OK;
    void *summed = c->type == F32 ? (void *)f.at : (void *)c->low;
    if (f.count == 0) return OK;
    if (c->type != F32) shorten(c, f.at, 0, f.count, on);
    TRY(comm_all_reduce(c->o.data, summed, (size_t)f.count, c->type, REDUCE_SUM, on, e));
    if (c->type != F32) lengthen(c, f.at, 0, f.count, on);
done:
    return result;
}

static status move_factors(compressor *c, int b, float *at, uint64_t step, device_stream *on,
                           err *e)
{
    status result = OK;
    TRY(sum_factors(c, powersgd_left(c->factors, b, at, step, on), on, e));
    TRY(sum_factors(c, powersgd_right(c->factors, b, at, on), on, e));
    powersgd_product(c->factors, b, at, on);
done:
    return result;
}

status compress_redistribute(compressor *c, const plan_redistribution *m, int b, float *at,
                             uint64_t step, device_stream *on, err *e)
{
    status result = OK;
    const plan *p = c->o.plan;
    const bool of_micro = m == &p->reduce_micro_batch;
    if (m->count == 0) return OK;
    if (!c->factors || step < (uint64_t)p->o.hook.start_step) return move_all(c, m, b, at, on, e);
    TRY(move_rest(c, of_micro ? &c->micro : &c->step, b, at, on, e));
    if (of_micro || p->reduce_micro_batch.count == 0) TRY(move_factors(c, b, at, step, on, e));
done:
    return result;
}

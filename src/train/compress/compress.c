// compress.c -- gradients in a shorter element type, as low-rank factors, or both. See compress.h. Called by
// calls.c around each compressed call. It knows no policy: the plan says which calls there are, parallel/hook.h
// says what they carry, and powersgd.c computes the factors.
#include "train/compress/compress.h"

#include "base/alloc.h"
#include "base/size.h"
#include "parallel/hook.h"
#include "train/compress/powersgd.h"
#include "train/launch.h"

#include <stdlib.h>

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
    powersgd_factors factors; // of the call that is under way
};

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
    if (!hook_compresses(p)) return 0;
    return low_bytes(p) + (p->o.strategy.hook.kind == HOOK_POWERSGD ? powersgd_bytes(p, needs) : 0);
}

status compress_open(const compress_options *o, compressor **out, err *e)
{
    status result = OK;
    const plan *p = o->plan;
    void *low = NULL;
    compressor *c = NULL;
    *out = NULL;
    if (!hook_compresses(p)) return OK;
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
    if (p->o.strategy.hook.kind == HOOK_POWERSGD)
        TRY(powersgd_open(p, o->device, o->comm, o->seed, &c->powersgd, e));
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

// Converts the elements of a call: the factors, the rows that PowerSGD does not factor, or the whole bucket.
static void convert(compressor *c, const schedule_call *k, int bucket, float *gradients,
                    void (*to)(compressor *, float *, int64_t, int64_t, device_stream *),
                    device_stream *on)
{
    const plan *p = c->o.plan;
    const plan_bucket *b = &p->bucket[bucket];
    const plan_layout l = k->array == IN_SHARDS ? plan_group_of(p, bucket)->gradient : LAYOUT_FULL;
    if (c->factors.items) {
        to(c, c->factors.items, 0, c->factors.count, on);
    } else if (k->steps != STEPS_OF_POWERSGD) {
        to(c, gradients, 0, b->count[l], on);
    } else {
        for (int i = b->first_row; i < b->first_row + b->rows; i++) {
            const plan_row *r = &p->row[p->order[i]];
            const int64_t count = plan_local_shard(p, r, l, p->coord).count;
            if (!hook_factors_row(p, r) && count > 0) to(c, gradients, r->offset[l], count, on);
        }
    }
}

// ---- Around a call

bool compress_is_due(const compressor *c, const schedule_call *k, uint64_t step)
{
    const bool started = step >= (uint64_t)c->o.plan->o.strategy.hook.start_step;
    return k->steps == STEPS_ALL || (k->steps == STEPS_OF_POWERSGD) == started;
}

void *compress_begin(compressor *c, const schedule_call *k, int bucket, float *gradients,
                     uint64_t step, device_stream *on)
{
    c->factors = (powersgd_factors){.items = NULL};
    if (k->array == IN_LEFT_FACTORS)
        c->factors = powersgd_left(c->powersgd, bucket, gradients, step, on);
    if (k->array == IN_RIGHT_FACTORS)
        c->factors = powersgd_right(c->powersgd, bucket, gradients, on);
    if (c->type == F32) return c->factors.items ? c->factors.items : gradients;
    if (k->starts) convert(c, k, bucket, gradients, shorten, on);
    return c->low;
}

void compress_end(compressor *c, const schedule_call *k, int bucket, float *gradients,
                  device_stream *on)
{
    if (c->type != F32 && k->ends) convert(c, k, bucket, gradients, lengthen, on);
    if (k->array == IN_RIGHT_FACTORS) powersgd_product(c->powersgd, bucket, gradients, on);
}

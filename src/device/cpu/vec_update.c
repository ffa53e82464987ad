// vec_update.c -- vector form of one optimizer step on flat ranges. Its time is that of reading
// and writing memory: adamw reads four arrays and writes three. It prefetches, and uses ordinary
// stores, because stores that bypass the caches were measured at half the speed. The divisions by
// c1 and c2 are moved out of the loop.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec.h"

#include <math.h>

enum {
    UPDATE_GRAIN = 16384, // elements for which it pays to wake a thread
    LINE = 16,            // floats in a cache line
    AHEAD = 256,          // floats from use to prefetch: 1 KB
    FLUSH_INPUTS = 0x40,  // control bit: operands below the normal range count as 0
};

// The scalars of the formulas, broadcast to vectors once.
typedef struct vec_update_factors {
    vf grad_scale, decay, lr, step, beta1, rest1, beta2, rest2, root, eps;
    vf keep, rest; // of the moving average
} vec_update_factors;

static vec_update_factors factors_of(const ref_update_call *c)
{
    const kernel_update_args *p = &c->p;
    const kernel_step_group *s = &c->group;
    bool scaled = p->rule == UPDATE_ADAMW || p->rule == UPDATE_ADAM;
    bool decoupled = p->rule == UPDATE_ADAMW || p->rule == UPDATE_LION; // weight decay
    return (vec_update_factors){
        .grad_scale = v_set(c->grad_scale),
        .decay = v_set(decoupled ? s->lr * p->weight_decay : p->weight_decay),
        .lr = v_set(s->lr),
        .step = v_set(scaled ? s->lr / s->c1 : 0),
        .beta1 = v_set(s->beta1),
        .rest1 = v_set(1 - s->beta1),
        .beta2 = v_set(p->beta2),
        .rest2 = v_set(1 - p->beta2),
        .root = v_set(scaled ? 1 / sqrtf(s->c2) : 0),
        .eps = v_set(p->eps),
        .keep = v_set(1 - s->average_rest),
        .rest = v_set(s->average_rest),
    };
}

// Returns the new weights of n <= VL elements from i on, and updates m and v.
VEC_INLINE vf update_lanes(const ref_update_call *c, const vec_update_factors *t, int64_t i,
                           int64_t n, kernel_update_rule rule)
{
    const kernel_update_args *p = &c->p;
    vf w = v_load_n(p->w, i, n, F32), g = v_load_n(p->g, i, n, F32) * t->grad_scale;
    if (rule == UPDATE_SGD) {
        g += t->decay * w;
        if (p->m) {
            if (!c->group.first) g += t->beta1 * v_load_n(p->m, i, n, F32);
            v_store_n(p->m, i, n, F32, g);
        }
        return w - t->lr * g;
    }
    if (rule == UPDATE_ADAM) {
        g += t->decay * w;
    } else {
        w -= t->decay * w;
    }
    vf m = v_load_n(p->m, i, n, F32), mixed = t->beta1 * m + t->rest1 * g;
    if (rule == UPDATE_LION) {
        vf down = v_pick(v_less(v_zero(), mixed), t->lr, v_zero());
        vf up = v_pick(v_less(mixed, v_zero()), t->lr, v_zero());
        v_store_n(p->m, i, n, F32, t->beta2 * m + t->rest2 * g);
        return w - down + up;
    }
    vf v = t->beta2 * v_load_n(p->v, i, n, F32) + t->rest2 * g * g;
    v_store_n(p->m, i, n, F32, mixed);
    v_store_n(p->v, i, n, F32, v);
    return w - t->step * mixed / (v_sqrt(v) * t->root + t->eps);
}

VEC_INLINE void prefetch_line(const kernel_update_args *p, int64_t i)
{
    __builtin_prefetch(p->w + i + AHEAD, 1);
    __builtin_prefetch(p->g + i + AHEAD, 0);
    if (p->m) __builtin_prefetch(p->m + i + AHEAD, 1);
    if (p->v) __builtin_prefetch(p->v + i + AHEAD, 1);
    if (p->average) __builtin_prefetch(p->average + i + AHEAD, 1);
}

VEC_INLINE void update_range(const ref_update_call *c, int64_t first, int64_t last,
                             kernel_update_rule rule, bool low, dtype low_type)
{
    const kernel_update_args *p = &c->p;
    vec_update_factors t = factors_of(c);
#define UPDATE_LANES(i, n)                                                                         \
    do {                                                                                           \
        vf updated = update_lanes(c, &t, i, n, rule);                                              \
        v_store_n(p->w, i, n, F32, updated);                                                       \
        if (low) v_store_n(p->low, i, n, low_type, updated);                                       \
        if (p->average)                                                                            \
            v_store_n(p->average, i, n, F32,                                                       \
                      t.keep *v_load_n(p->average, i, n, F32) + t.rest * updated);                 \
    } while (0)
    int64_t line = first;
    for (; line + LINE <= last; line += LINE) {
        prefetch_line(p, line);
#pragma GCC unroll 2
        for (int64_t i = line; i < line + LINE; i += VL) UPDATE_LANES(i, VL);
    }
    V_EACH(i, line, last, UPDATE_LANES);
#undef UPDATE_LANES
}

VEC_INLINE void update_rule_range(const ref_update_call *c, int64_t first, int64_t last,
                                  kernel_update_rule rule)
{
    const kernel_update_args *p = &c->p;
    if (!p->low) update_range(c, first, last, rule, false, F32);
    if (p->low && p->low_type == F32) update_range(c, first, last, rule, true, F32);
    if (p->low && p->low_type == BF16) update_range(c, first, last, rule, true, BF16);
    if (p->low && p->low_type == F16) update_range(c, first, last, rule, true, F16);
}

// The step has no update: the weights stay, and low is written from them.
VEC_INLINE void store_low(const ref_update_call *c, int64_t first, int64_t last, dtype low_type)
{
    const kernel_update_args *p = &c->p;
#define STORE_LOW(i, n) v_store_n(p->low, i, n, low_type, v_load_n(p->w, i, n, F32))
    V_EACH(i, first, last, STORE_LOW);
#undef STORE_LOW
}

static void skip_range(const ref_update_call *c, int64_t first, int64_t last)
{
#define CALL(type) store_low(c, first, last, type)
    if (c->p.low) V_BY_TYPE(c->p.low_type, CALL);
#undef CALL
}

static void update_piece(const ref_update_call *c, int64_t first, int64_t last)
{
    const kernel_update_rule rule = c->p.rule;
    if (rule == UPDATE_ADAMW) update_rule_range(c, first, last, UPDATE_ADAMW);
    if (rule == UPDATE_ADAM) update_rule_range(c, first, last, UPDATE_ADAM);
    if (rule == UPDATE_SGD) update_rule_range(c, first, last, UPDATE_SGD);
    if (rule == UPDATE_LION) update_rule_range(c, first, last, UPDATE_LION);
}

// Takes grains first … last-1 of the segments. Moments of tokens that never occur decay to numbers below the normal range. Such a number costs
// some processors a hundred cycles, so they are flushed to 0.
static void update_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                        int thread)
{
    (void)x, (void)thread;
    const ref_update_call *all = args;
    vec_piece c = {0};
    unsigned control = _mm_getcsr();
    _mm_setcsr(control | _MM_FLUSH_ZERO_ON | FLUSH_INPUTS);
    while (vec_next_piece(all->p.segment, all->p.segments, UPDATE_GRAIN, first, last, &c)) {
        const ref_update_call one = ref_update_segment(all, c.segment);
        if (all->applies)
            update_piece(&one, c.first, c.last);
        else
            skip_range(&one, c.first, c.last);
    }
    _mm_setcsr(control);
}

void VEC(update)(const cpu_context *x, const void *args)
{
    ref_update_call c = ref_update_read(args);
    kernel_update_args *p = &c.p;
    const kernel_segment whole = {.count = p->count, .decays = true};
    if (!p->segment) p->segment = &whole, p->segments = 1;
    vec_share_segments(x, &c, p->segment, p->segments, UPDATE_GRAIN, p->count, update_part);
}

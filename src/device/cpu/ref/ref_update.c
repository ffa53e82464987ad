// ref_update.c -- reference of the end of a step: what follows from the reduced sums, and one optimizer
// step on flat ranges, in fp32, operation by operation as kernels.h writes it.
#include "device/cpu/ref/ref.h"

#include <math.h>

void ref_clip(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_clip_args *p = args;
    const double *sums = p->step->sums, factor = p->step->loss_scale;
    // Without a valid position the gradient is zero, and so is the norm.
    const double count = sums[SUM_COUNT] > 0 ? sums[SUM_COUNT] : 1;
    kernel_step_result r = {.loss = sums[SUM_LOSS] / count,
                            .count = sums[SUM_COUNT],
                            .norm = sqrt(sums[SUM_SQUARES]) / count / factor,
                            .samples = sums[SUM_SAMPLES],
                            .scale = 1 / count / factor,
                            .stop = sums[SUM_STOP] > 0};
    r.finite = isfinite(r.loss) && isfinite(r.norm);
    r.applies = r.finite && r.samples > 0;
    if (p->max_norm > 0 && p->max_norm / (r.norm + 1e-6) < 1)
        r.scale *= p->max_norm / (r.norm + 1e-6);
    p->step->result = r;
}

// ---- The update

ref_update_call ref_update_read(const kernel_update_args *p)
{
    const kernel_step_result r = kernel_step_read(p->step).result;
    return (ref_update_call){
        .p = *p, .group = *p->group, .grad_scale = (float)r.scale, .applies = r.applies};
}

static ref_real update_adam(const ref_update_call *c, int64_t i, ref_real w, ref_real g)
{
    const kernel_update_args *p = &c->p;
    const kernel_step_group *s = &c->group;
    const ref_real lr = s->lr, decay = p->weight_decay, beta1 = s->beta1, beta2 = p->beta2;
    if (p->rule == UPDATE_ADAM) {
        g += decay * w;
    } else {
        w -= lr * decay * w;
    }
    const ref_real m = beta1 * p->m[i] + (1 - beta1) * g;
    const ref_real v = beta2 * p->v[i] + (1 - beta2) * g * g;
    p->m[i] = (float)m;
    p->v[i] = (float)v;
    return w - lr * (m / s->c1) / ((ref_real)sqrt(v / s->c2) + p->eps);
}

static ref_real update_sgd(const ref_update_call *c, int64_t i, ref_real w, ref_real g)
{
    const kernel_update_args *p = &c->p;
    const kernel_step_group *s = &c->group;
    g += p->weight_decay * w;
    if (p->m) {
        g = s->first ? g : (ref_real)s->beta1 * p->m[i] + g;
        p->m[i] = (float)g;
    }
    return w - s->lr * g;
}

static ref_real update_lion(const ref_update_call *c, int64_t i, ref_real w, ref_real g)
{
    const kernel_update_args *p = &c->p;
    const kernel_step_group *s = &c->group;
    const ref_real lr = s->lr, beta1 = s->beta1, beta2 = p->beta2;
    w -= lr * p->weight_decay * w;
    const ref_real step = beta1 * p->m[i] + (1 - beta1) * g;
    p->m[i] = (float)(beta2 * p->m[i] + (1 - beta2) * g);
    return w - lr * (ref_real)((step > 0) - (step < 0));
}

static void update_element(const ref_update_call *c, int64_t i)
{
    const kernel_update_args *p = &c->p;
    const ref_real g = (ref_real)p->g[i] * c->grad_scale;
    switch (p->rule) {
    case UPDATE_ADAMW:
    case UPDATE_ADAM:
        p->w[i] = (float)update_adam(c, i, p->w[i], g);
        break;
    case UPDATE_SGD:
        p->w[i] = (float)update_sgd(c, i, p->w[i], g);
        break;
    case UPDATE_LION:
        p->w[i] = (float)update_lion(c, i, p->w[i], g);
        break;
    case UPDATE_RULES:
        break;
    }
}

static void update_average(const ref_update_call *c, int64_t i)
{
    const ref_real rest = c->group.average_rest;
    c->p.average[i] = (float)((1 - rest) * c->p.average[i] + rest * c->p.w[i]);
}

static void update_segment(const ref_update_call *c)
{
    const kernel_update_args *p = &c->p;
    for (int64_t i = 0; i < p->count; i++) {
        if (c->applies) update_element(c, i);
        if (c->applies && p->average) update_average(c, i);
        if (p->low) ref_store(p->low, i, p->low_type, p->w[i]);
    }
}

void ref_update(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_update_args *p = args;
    const ref_update_call all = ref_update_read(p);
    if (!p->segment) update_segment(&all);
    for (int64_t s = 0; p->segment && s < p->segments; s++) {
        const ref_update_call one = ref_update_segment(&all, &p->segment[s]);
        update_segment(&one);
    }
}

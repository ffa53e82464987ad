// ref_update.c -- reference of one optimizer step on flat ranges, in fp32, operation by operation
// as kernels.h writes it. Clipping and loss scaling come in as grad_scale, the learning rate as lr.
#include "device/cpu/ref.h"

#include <math.h>

static float update_adam(const kernel_update_args *p, int64_t i, float w, float g)
{
    if (p->rule == UPDATE_ADAM) {
        g += p->weight_decay * w;
    } else {
        w -= p->lr * p->weight_decay * w;
    }
    p->m[i] = p->beta1 * p->m[i] + (1 - p->beta1) * g;
    p->v[i] = p->beta2 * p->v[i] + (1 - p->beta2) * g * g;
    return w - p->lr * (p->m[i] / p->c1) / (sqrtf(p->v[i] / p->c2) + p->eps);
}

static float update_sgd(const kernel_update_args *p, int64_t i, float w, float g)
{
    g += p->weight_decay * w;
    if (p->m) {
        p->m[i] = p->first ? g : p->beta1 * p->m[i] + g;
        g = p->m[i];
    }
    return w - p->lr * g;
}

static float update_lion(const kernel_update_args *p, int64_t i, float w, float g)
{
    w -= p->lr * p->weight_decay * w;
    float step = p->beta1 * p->m[i] + (1 - p->beta1) * g;
    p->m[i] = p->beta2 * p->m[i] + (1 - p->beta2) * g;
    return w - p->lr * (float)((step > 0) - (step < 0));
}

static void update_segment(const kernel_update_args *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        float g = p->g[i] * p->grad_scale;
        switch (p->rule) {
        case UPDATE_ADAMW:
        case UPDATE_ADAM:
            p->w[i] = update_adam(p, i, p->w[i], g);
            break;
        case UPDATE_SGD:
            p->w[i] = update_sgd(p, i, p->w[i], g);
            break;
        case UPDATE_LION:
            p->w[i] = update_lion(p, i, p->w[i], g);
            break;
        case UPDATE_RULES:
            break;
        }
        if (p->low) ref_store(p->low, i, p->low_type, p->w[i]);
    }
}

void ref_update(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_update_args *p = args;
    if (!p->segment) update_segment(p);
    for (int64_t s = 0; p->segment && s < p->segments; s++) {
        const kernel_update_args one = ref_update_segment(p, &p->segment[s]);
        update_segment(&one);
    }
}

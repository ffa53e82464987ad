// kernel_rates.c -- how long a kernel takes: its time at the roofline, times how much longer its curve (kernel_fit.c) says
// that a call of its sizes takes. See kernel_rates.h.
#include "planner/kernel_rates.h"

#include <math.h>
#include <stdlib.h>

// ---- The roofline

// A type without a rate of its own has the best one there is.
static double product_rate(const kernel_rates *r, dtype type)
{
    double best = r->product_flops[type];
    for (int t = 0; t < DTYPES && !(r->product_flops[type] > 0); t++)
        best = fmax(best, r->product_flops[t]);
    return best;
}

static double over(double work, double rate)
{
    return rate > 0 ? work / rate : 0;
}

double kernel_rates_roofline(const kernel_rates *r, const kernel_cost *k)
{
    return fmax(over(k->flops, product_rate(r, k->type)), over(k->bytes, r->memory_bytes_per_s));
}

// ---- The nearest curve

// A kind that has no points is taken for one that works alike: products for products, or sums of elements.
static int kind_distance(const kernel_fit *f, const kernel_cost *k)
{
    const bool is_product = f->kind == K_MATMUL;
    if (f->kind == k->kind) return 0;
    if (f->kind == K_ATTENTION || f->kind == K_ATTENTION_GRAD) return k->flops > 0 ? 1 : 4;
    if (is_product) return k->flops > 0 ? 2 : 5;
    return f->kind == K_ADD && k->flops == 0 ? 1 : 3;
}

// Forms of products are near each other where the same factors are transposed.
static int form_distance(const kernel_fit *f, const kernel_cost *k)
{
    if (f->form == k->form) return 0;
    return k->kind == K_MATMUL && (f->form & 3) == (k->form & 3) ? 1 : 2 + abs(f->form - k->form);
}

static const kernel_fit *nearest(const kernel_rates *r, const kernel_cost *k)
{
    const kernel_fit *best = NULL;
    int least = 0;
    for (size_t i = 0; i < r->fits; i++) {
        const kernel_fit *f = &r->fit[i];
        const int form = form_distance(f, k);
        const int distance =
            kind_distance(f, k) * 1000 + (form < 400 ? form : 400) * 2 + (f->type != k->type);
        if (!best || distance < least) best = f, least = distance;
    }
    return best;
}

// Another kind has other sizes: the elements stand for all of them.
static void sizes_for(const kernel_fit *f, const kernel_cost *k, double *out)
{
    for (int i = 0; i < KERNEL_COST_SIZES; i++) out[i] = log2(fmax(k->size[i], 1));
    if (f->kind == k->kind || f->kind == K_MATMUL) return;
    if (f->kind == K_ATTENTION || f->kind == K_ATTENTION_GRAD) return;
    out[0] += out[1] + out[2];
    out[1] = out[2] = 0;
}

// ---- Times

// How many times longer than at the roofline. Sizes beyond those that were measured have the value at the edge, which is
// then at least 1.
static double slowness(const kernel_fit *f, const kernel_cost *k)
{
    double x[KERNEL_COST_SIZES];
    bool larger = false;
    sizes_for(f, k, x);
    for (int i = 0; i < KERNEL_COST_SIZES; i++) {
        larger = larger || x[i] > f->high[i];
        x[i] = fmin(fmax(x[i], f->low[i]), f->high[i]);
    }
    return fmax(kernel_fit_slowness(f, x), larger ? 1 : 0);
}

// The share of a kernel's bytes that come from memory. It is not known which arrays are still in a cache: of a call with
// as many bytes as the cache it is taken to be half.
static double from_memory(const kernel_rates *r, const kernel_cost *k)
{
    return k->bytes > 0 ? k->bytes / (k->bytes + r->cache_bytes) : 0;
}

planner_claim kernel_rates_claim(const kernel_rates *r, const kernel_cost *k)
{
    planner_claim out = {.seconds = kernel_rates_roofline(r, k)};
    const kernel_fit *f = nearest(r, k);
    if (f && out.seconds > 0) out.seconds *= slowness(f, k);
    if (!(out.seconds > 0)) return out;
    out.share[RESOURCE_COMPUTE] = 1;
    out.share[RESOURCE_MEMORY] =
        fmin(1, over(k->bytes * from_memory(r, k), r->memory_bytes_per_s) / out.seconds);
    return out;
}

// bench_calibrate_kernels.c -- the rates of kernels under the conditions of training: all ranks run the same call at the same
// time (bench_copies.h). See bench_calibrate.h.
#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/bench/bench_calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const size_t COPY = (size_t)128 << 20;
static const double BEYOND_CACHES = 32 << 20; // bytes of a call that no cache of a rank holds
static const double POINT_S = 0.02;

typedef struct calibrate_measured {
    kernel_cost cost;
    double seconds; // mean of the ranks
} calibrate_measured;

typedef struct calibrate_run {
    const bench_calibrate_rank *r;
    bench_copies copies;
    double end;                   // when all is to be measured
    int left;                     // points
    calibrate_measured *measured; // [count]
    size_t count, room;
} calibrate_run;

status bench_calibrate_mean(const bench_calibrate_rank *r, double *x, err *e)
{
    status result = OK;
    comm *const c = r->s->comm;
    TRY(device_upload(r->stream, r->figures, x, sizeof *x, e));
    TRY(comm_all_reduce(c, r->figures, 1, F64, REDUCE_SUM, r->stream, e));
    TRY(device_download(r->stream, x, r->figures, sizeof *x, e));
    *x /= c->size;
done:
    return result;
}

// ---- Points

// Some kernels do not depend on the type, or on all sizes.
static bool is_measured(const calibrate_run *x, const kernel_cost *c)
{
    for (size_t i = 0; i < x->count; i++) {
        const kernel_cost *k = &x->measured[i].cost;
        if (k->kind == c->kind && k->type == c->type && k->form == c->form &&
            memcmp(k->size, c->size, sizeof k->size) == 0)
            return true;
    }
    return false;
}

// Ranks decide alike: by sizes alone.
static status measure_point(calibrate_run *x, const bench_point *p, err *e)
{
    status result = OK;
    bench_call call;
    const double budget = (x->end - clock_seconds()) / x->left--;
    double seconds = 0;
    if (!bench_copies_describe(p, &call)) return OK;
    const kernel_cost c = kernel_cost_of(&call.call);
    if (is_measured(x, &c)) return OK;
    TRY(bench_copies_time(&x->copies, p, fmax(budget, 0), &seconds, e));
    TRY(bench_calibrate_mean(x->r, &seconds, e));
    TRY(alloc_grow(&x->measured, &x->room, x->count + 1, sizeof *x->measured, "the points", e));
    x->measured[x->count++] = (calibrate_measured){c, seconds};
done:
    return result;
}

// Few seconds are for each stride-th point.
static status measure_points(calibrate_run *x, double seconds, err *e)
{
    status result = OK;
    bench_calibrate_point *point = NULL;
    int points = 0;
    const bench_calibrate *q = x->r->q;
    TRY(bench_calibrate_points(&point, &points, e));
    const int all = points * q->types, stride = 1 + (int)(all * POINT_S / seconds);
    x->left = (all + stride - 1) / stride;
    x->end = clock_seconds() + seconds;
    for (int i = 0; i < all; i += stride) {
        const bench_calibrate_point *p = &point[i % points];
        const bench_point of_type = {p->kind, p->describe, &p->model, p->tokens,
                                     q->type[i / points]};
        TRY(measure_point(x, &of_type, e));
    }
done:
    free(point);
    return result;
}

// ---- The roofline

static status measure_roofline(const calibrate_run *x, double seconds, err *e)
{
    status result = OK;
    calibrated_file *f = x->r->file;
    comm *const all = x->r->s->comm;
    TRY(comm_barrier(all, e));
    TRY(device_copy_rate(x->r->s->device, COPY, seconds / 2, &f->does.copy_bytes_per_s, e));
    TRY(bench_calibrate_mean(x->r, &f->does.copy_bytes_per_s, e));
    f->kernels.memory_bytes_per_s = f->does.copy_bytes_per_s;
    for (int t = 0; t < x->r->q->types; t++) {
        const dtype type = x->r->q->type[t];
        double *rate = &f->kernels.product_flops[type];
        TRY(comm_barrier(all, e));
        *rate = device_matmul_rate(x->r->s->device, type, seconds / 2 / x->r->q->types);
        TRY(bench_calibrate_mean(x->r, rate, e));
    }
    const long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    f->kernels.cache_bytes = cache > 0 ? (double)cache * f->threads : 0;
done:
    return result;
}

// The best rates that were seen are the roofline: reading alone is faster than copying.
static void raise_roofline(const calibrate_run *x)
{
    kernel_rates *k = &x->r->file->kernels;
    for (size_t i = 0; i < x->count; i++) {
        const kernel_cost *c = &x->measured[i].cost;
        double *const products = &k->product_flops[c->type];
        if (c->kind == K_MATMUL) *products = fmax(*products, c->flops / x->measured[i].seconds);
        if (c->flops == 0 && c->bytes >= BEYOND_CACHES)
            k->memory_bytes_per_s = fmax(k->memory_bytes_per_s, c->bytes / x->measured[i].seconds);
    }
}

static status make_rates(const calibrate_run *x, err *e)
{
    status result = OK;
    kernel_rates *k = &x->r->file->kernels;
    raise_roofline(x);
    TRY(alloc_zeroed(&k->point, x->count, sizeof *k->point, "the points", e));
    for (size_t i = 0; i < x->count; i++) {
        const kernel_cost *c = &x->measured[i].cost;
        kernel_point *p = &k->point[k->points++];
        *p = (kernel_point){.kind = c->kind, .type = c->type, .form = c->form};
        memcpy(p->size, c->size, sizeof p->size);
        p->efficiency = kernel_rates_roofline(k, c) / x->measured[i].seconds;
    }
    TRY(kernel_rates_fit(k, e));
done:
    return result;
}

// ---- All of it

status bench_calibrate_kernels(const bench_calibrate_rank *r, double seconds, err *e)
{
    status result = OK;
    const double end = clock_seconds() + seconds;
    calibrate_run x = {.r = r,
                       .copies = {.d = r->s->device,
                                  .stream = r->stream,
                                  .comm = r->s->comm,
                                  .has_cores = bench_calibrate_has_cores(r->q),
                                  .delay = -1}};
    TRY(measure_roofline(&x, seconds / 10, e));
    TRY(bench_copies_open(&x.copies, e));
    TRY(measure_points(&x, fmax(end - clock_seconds(), seconds / 4), e));
    TRY(make_rates(&x, e));
done:
    free(x.measured);
    bench_copies_close(&x.copies);
    return result;
}

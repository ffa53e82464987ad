// bench_copies.c -- see bench_copies.h. The arrays of many copies of a call lie behind one another in one block of memory, which
// is filled again before each call that is measured, as kernels overwrite their inputs.
#include "cmd/bench/bench_copies.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/bench/bench_delay.h"
#include "cmd/bench/bench_job.h"
#include "device/kernel_needs.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_COPIES = 48, // of the arrays of a call, which launches take in turn
    LEAST_SAMPLES = 3,
    SURE_SAMPLES = 7, // from which on their spread is believed
    MOST_SAMPLES = 400,
    MOST_LAUNCHES = 64, // of a sample
};
// The arrays of all copies together: more than the cache of a rank.
static const size_t COPIED = (size_t)96 << 20, ARENA = (size_t)400 << 20, PATTERN = (size_t)1 << 20;
static const double SAMPLE_S = 2e-4, SURE = 0.02;

// ---- The arrays of a call

// Numbers of BF16, two of which are also a number of F32 and each of which is also one of F16.
static status fill_pattern(const bench_copies *x, err *e)
{
    status result = OK;
    const int64_t count = (int64_t)(PATTERN / dtype_bytes(BF16));
    kernel_call draw = {.kind = K_INIT}, round = {.kind = K_CONVERT};
    draw.u.init = (kernel_init_args){.count = count,
                                     .y = (float *)x->arena,
                                     .key = rng_key_make(1, RNG_MOCK, 0, 0),
                                     .std = 0.5f,
                                     .normal = true};
    round.u.convert = (kernel_convert_args){
        .count = count, .src = x->arena, .dst = x->pattern, .src_type = F32, .dst_type = BF16};
    device_launch(x->stream, &draw);
    device_launch(x->stream, &round);
    TRY(x->d->ops->sync(x->stream, e));
done:
    return result;
}

static void fill_arena(const bench_copies *x, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += PATTERN)
        x->d->ops->copy(x->stream, x->arena + offset, x->pattern,
                        bytes - offset < PATTERN ? bytes - offset : PATTERN);
}

typedef struct copies_list {
    bench_call call[MOST_COPIES];
    int count;
} copies_list;

static void describe(const bench_point *p, bench_arena *m, bench_call *out)
{
    const bench_sizes q = {p->model, p->tokens, p->type};
    *out = (bench_call){.call.kind = p->kind};
    p->describe(m, &q, out);
}

// The bytes of one copy; 0: they have no room.
static size_t copy_bytes(const bench_point *p, bench_call *out)
{
    bench_arena m = {.is_filled = true};
    describe(p, &m, out);
    return m.result == OK && m.used <= ARENA ? m.used : 0;
}

bool bench_copies_describe(const bench_point *p, bench_call *out)
{
    return copy_bytes(p, out) > 0;
}

static status grow_workspace(bench_copies *x, const kernel_call *c, err *e)
{
    status result = OK;
    const size_t bytes = kernel_workspace_bytes(x->d->needs, c);
    if (bytes <= x->workspace_bytes) return OK;
    device_release(x->d, MEMORY_DEVICE, x->workspace, x->workspace_bytes);
    x->workspace = NULL;
    x->workspace_bytes = 0;
    TRY(device_alloc(x->d, MEMORY_DEVICE, bytes, &x->workspace, e));
    x->workspace_bytes = bytes;
done:
    return result;
}

static status make_copy(bench_copies *x, const bench_point *p, char *base, bench_call *out, err *e)
{
    status result = OK;
    bench_arena m = {.stream = x->stream, .base = base, .is_filled = true};
    describe(p, &m, out);
    if (m.result != OK) {
        *e = m.failure;
        return m.result;
    }
    TRY(grow_workspace(x, &out->call, e));
    out->call.workspace_bytes = kernel_workspace_bytes(x->d->needs, &out->call);
    out->call.workspace = out->call.workspace_bytes > 0 ? x->workspace : NULL;
    if (x->d->ops->prepare) TRY(x->d->ops->prepare(x->d, &out->call, e));
done:
    return result;
}

static status make_copies(bench_copies *x, const bench_point *p, copies_list *out, err *e)
{
    status result = OK;
    const size_t each = copy_bytes(p, &out->call[0]), fit = each > 0 ? COPIED / each : 0;
    if (each == 0) FAIL(E_FIT, "%s: its arrays have no room", kernel_name(p->kind));
    out->count = fit < 1 ? 1 : fit > MOST_COPIES ? MOST_COPIES : (int)fit;
    fill_arena(x, each * (size_t)out->count);
    for (int i = 0; i < out->count; i++)
        TRY(make_copy(x, p, x->arena + each * (size_t)i, &out->call[i], e));
    TRY(x->d->ops->sync(x->stream, e));
done:
    return result;
}

// ---- Times

// Is the median known well enough? By the quartiles, of samples that are independent.
static bool is_sure(double *samples, int count)
{
    if (count < SURE_SAMPLES) return false;
    bench_sort(samples, count);
    const double spread = samples[count * 3 / 4] - samples[count / 4];
    return spread / sqrt(count) < SURE * samples[count / 2];
}

static status time_launches(const bench_copies *x, const copies_list *c, int *next, int count,
                            double *out, err *e)
{
    status result = OK;
    const double delay = bench_delay_seconds(x->delay), start = clock_seconds();
    for (int i = 0; i < count; i++) {
        device_launch(x->stream, &c->call[*next].call);
        *next = (*next + 1) % c->count;
    }
    TRY(x->d->ops->sync(x->stream, e));
    const double lasted = clock_seconds() - start;
    *out = fmax(lasted - (bench_delay_seconds(x->delay) - delay), 0) / count;
done:
    return result;
}

// The median of samples, for at most `seconds`.
static status time_copies(const bench_copies *x, const copies_list *c, double seconds, double *out,
                          err *e)
{
    status result = OK;
    double samples[MOST_SAMPLES], once;
    int next = 0, count = 0;
    if (x->comm) TRY(comm_barrier(x->comm, e));
    TRY(time_launches(x, c, &next, 1, &once, e));
    const double end = clock_seconds() + seconds, fit = SAMPLE_S / fmax(once, 1e-7);
    const int launches = fit < 1 ? 1 : fit > MOST_LAUNCHES ? MOST_LAUNCHES : (int)fit;
    while (count < MOST_SAMPLES && (count < LEAST_SAMPLES || clock_seconds() < end)) {
        TRY(time_launches(x, c, &next, launches, &samples[count++], e));
        if (is_sure(samples, count)) break;
    }
    bench_sort(samples, count);
    *out = samples[count / 2];
done:
    return result;
}

status bench_copies_time(bench_copies *x, const bench_point *p, double seconds, double *out, err *e)
{
    status result = OK;
    copies_list *copies = NULL;
    TRY(alloc_zeroed(&copies, 1, sizeof *copies, "the calls", e));
    TRY(make_copies(x, p, copies, e));
    TRY(time_copies(x, copies, seconds, out, e));
done:
    free(copies);
    return result;
}

// ---- Opening

status bench_copies_open(bench_copies *x, err *e)
{
    status result = OK;
    void *arena = NULL;
    x->delay = x->has_cores ? bench_delay_open() : -1;
    TRY(device_alloc(x->d, MEMORY_DEVICE, ARENA, &arena, e));
    x->arena = arena;
    TRY(device_alloc(x->d, MEMORY_DEVICE, PATTERN, &x->pattern, e));
    TRY(fill_pattern(x, e));
    fill_arena(x, ARENA); // the first use of memory is slow
    TRY(x->d->ops->sync(x->stream, e));
done:
    return result;
}

void bench_copies_close(bench_copies *x)
{
    bench_delay_close(x->delay);
    device_release(x->d, MEMORY_DEVICE, x->workspace, x->workspace_bytes);
    device_release(x->d, MEMORY_DEVICE, x->pattern, PATTERN);
    device_release(x->d, MEMORY_DEVICE, x->arena, ARENA);
}

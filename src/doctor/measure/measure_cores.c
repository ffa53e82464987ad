// measure_cores.c -- the rate of matrix products of each core, while all cores compute, and whether they compute the same
// bits. Called by the checks; every core has a device of one thread.
#include "doctor/measure/measure.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/device.h"
#include "device/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A product takes about a millisecond, so that some run without a pause also on a busy machine.
enum { ROUNDS = 2, ROWS = 192, COLS = 384, DEPTH = 384 };
static const double SECONDS = 0.15; // of a round of one type

typedef struct cores_work {
    doctor_measured *out;
    uint64_t *digest; // [cores] of the first product
    double seconds;   // of measure_sustained
} cores_work;

static status place_list(measured_list *out, const int *core, int count, err *e)
{
    status result = OK;
    TRY(measured_list_make(out, count, e));
    for (int i = 0; i < count; i++) out->place[i] = core[i];
done:
    return result;
}

// ---- A product

// A product on the device of the calling thread's core.
typedef struct core_product {
    device *device;
    device_stream *stream;
    float *memory;
    kernel_call call;
} core_product;

enum { FACTORS = ROWS * DEPTH + COLS * DEPTH, SUMS = ROWS * COLS };

// Factors without a pattern that a stuck bit could hide in.
static void fill(void *factors, dtype type)
{
    uint32_t seed = 12345;
    for (int i = 0; i < FACTORS; i++) {
        seed = seed * 1664525 + 1013904223;
        const float x = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
        if (type == F32)
            ((float *)factors)[i] = x;
        else
            ((uint16_t *)factors)[i] = float_to_bf16(x);
    }
}

static status open_product(core_product *p, dtype type, err *e)
{
    status result = OK;
    const device_options one = {.threads = 1};
    TRY(device_open("cpu", &one, &p->device, e));
    TRY(p->device->ops->stream_open(p->device, STREAM_COMPUTE, false, &p->stream, e));
    TRY(alloc_aligned(&p->memory, DEVICE_ALIGN, FACTORS + SUMS, sizeof *p->memory, "a product", e));
    fill(p->memory, type);
    p->call = (kernel_call){.kind = K_MATMUL,
                            .u.matmul = {.m = ROWS,
                                         .n = COLS,
                                         .k = DEPTH,
                                         .a = p->memory,
                                         .b = (char *)p->memory + ROWS * DEPTH * dtype_bytes(type),
                                         .c = p->memory + FACTORS,
                                         .lda = DEPTH,
                                         .ldb = DEPTH,
                                         .ldc = COLS,
                                         .type = type,
                                         .c_type = F32,
                                         .trans_b = true}};
done:
    return result;
}

static void close_product(core_product *p)
{
    free(p->memory);
    if (p->stream) p->device->ops->stream_close(p->stream);
    device_close(p->device);
}

static status run_product(const core_product *p, err *e)
{
    device_launch(p->stream, &p->call);
    return p->device->ops->sync(p->stream, e);
}

// The best GFLOP/s of single products for some seconds.
static status best_rate(const core_product *p, double seconds, double *out, err *e)
{
    status result = OK;
    TRY(run_product(p, e)); // its first use of the memory is slow
    for (double now = clock_seconds(), end = now + seconds; now < end;) {
        const double start = clock_seconds();
        TRY(run_product(p, e));
        now = clock_seconds();
        *out = fmax(*out, 2e-9 * ROWS * COLS * DEPTH / (now - start));
    }
done:
    return result;
}

// ---- Rates

static status time_products(int index, void *arg, err *e)
{
    status result = OK;
    const cores_work *w = arg;
    core_product fp32 = {0}, bf16 = {0};
    TRY(open_product(&fp32, F32, e));
    TRY(open_product(&bf16, BF16, e));
    for (int i = 0; i < ROUNDS; i++) {
        TRY(best_rate(&fp32, SECONDS, &w->out->products.value[index], e));
        TRY(best_rate(&bf16, SECONDS, &w->out->products_bf16.value[index], e));
    }
done:
    close_product(&fp32);
    close_product(&bf16);
    return result;
}

status measure_products(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int *core = NULL, count = 0;
    TRY(measure_list_cores(c, &core, &count, e));
    TRY(place_list(&out->products, core, count, e));
    TRY(place_list(&out->products_bf16, core, count, e));
    TRY(measure_run_on_cores(core, count, time_products, &(cores_work){.out = out}, e));
done:
    free(core);
    return result;
}

// ---- Bits

static uint64_t digest_of(const float *x, size_t count)
{
    uint64_t digest = 1469598103934665603u;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        digest = (digest ^ bits) * 1099511628211u;
    }
    return digest;
}

// Repeats one product and counts those whose bits are not those of the first one on this core.
static status compare_products(int index, void *arg, err *e)
{
    status result = OK;
    const cores_work *w = arg;
    core_product p = {0};
    TRY(open_product(&p, F32, e));
    float *const sums = p.memory + FACTORS;
    const double end = clock_seconds() + SECONDS;
    for (int i = 0; i < 2 || clock_seconds() < end; i++) {
        memset(sums, 0xff, SUMS * sizeof *sums); // so that a product that was not made is seen
        TRY(run_product(&p, e));
        const uint64_t digest = digest_of(sums, SUMS);
        if (i == 0) w->digest[index] = digest;
        w->out->bits.value[index] += digest != w->digest[index];
    }
done:
    close_product(&p);
    return result;
}

// The digest that most cores have.
static uint64_t most_common(const uint64_t *digest, int count)
{
    int most = 0;
    uint64_t common = 0;
    for (int i = 0; i < count; i++) {
        int same = 0;
        for (int k = 0; k < count; k++) same += digest[k] == digest[i];
        if (same > most) common = digest[i];
        if (same > most) most = same;
    }
    return common;
}

status measure_bits(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int *core = NULL, count = 0;
    cores_work w = {.out = out};
    TRY(measure_list_cores(c, &core, &count, e));
    TRY(place_list(&out->bits, core, count, e));
    TRY(alloc_zeroed(&w.digest, (size_t)count, sizeof *w.digest, "the digests", e));
    TRY(measure_run_on_cores(core, count, compare_products, &w, e));
    const uint64_t common = most_common(w.digest, count);
    for (int i = 0; i < count; i++) out->bits.value[i] += w.digest[i] != common;
done:
    free(w.digest);
    free(core);
    return result;
}

// ---- For long

// The best rate of the last tenth of the time, as a share of that of the first tenth.
static status time_long(int index, void *arg, err *e)
{
    status result = OK;
    const cores_work *w = arg;
    core_product p = {0};
    double first = 0, between = 0, last = 0;
    TRY(open_product(&p, F32, e));
    TRY(best_rate(&p, w->seconds / 10, &first, e));
    TRY(best_rate(&p, w->seconds * 8 / 10, &between, e));
    TRY(best_rate(&p, w->seconds / 10, &last, e));
    w->out->sustained.value[index] = last / first;
done:
    close_product(&p);
    return result;
}

status measure_sustained(const doctor_context *c, doctor_measured *out, err *e)
{
    status result = OK;
    int *core = NULL, count = 0;
    cores_work w = {.out = out, .seconds = doctor_threshold(c, "stress_seconds", 60)};
    TRY(measure_list_cores(c, &core, &count, e));
    TRY(place_list(&out->sustained, core, count, e));
    TRY(measure_run_on_cores(core, count, time_long, &w, e));
done:
    free(core);
    return result;
}

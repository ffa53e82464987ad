// device.c -- closes a device, counts its memory, and measures its matrix products. Called for every
// allocation. It knows no back end.
#include "device/device.h"

#include "base/clock.h"
#include "device/kernel_needs.h"

void device_close(device *d)
{
    if (!d) return;
    device_staging_close(d);
    d->ops->close(d);
}

static void count_taken(size_t *now, size_t *peak, size_t bytes)
{
    *now += bytes;
    if (*now > *peak) *peak = *now;
}

void device_count_taken(device *d, size_t bytes)
{
    count_taken(&d->bytes_now, &d->bytes_peak, bytes);
}

void device_count_given(device *d, size_t bytes)
{
    d->bytes_now -= bytes;
}

// Returns whether memory of this kind is apart from the device's.
static bool is_apart(const device *d, device_memory_kind kind)
{
    return kind == MEMORY_HOST && !d->is_host_memory;
}

status device_alloc(device *d, device_memory_kind kind, size_t bytes, void **out, err *e)
{
    status result = OK;
    TRY(d->ops->alloc(d, kind, bytes, out, e));
    d->allocations++;
    if (is_apart(d, kind))
        count_taken(&d->host_bytes_now, &d->host_bytes_peak, bytes);
    else
        device_count_taken(d, bytes);
done:
    return result;
}

void device_release(device *d, device_memory_kind kind, void *p, size_t bytes)
{
    if (!p) return;
    d->ops->release(d, kind, p);
    if (is_apart(d, kind))
        d->host_bytes_now -= bytes;
    else
        device_count_given(d, bytes);
}

bool kernel_takes_workspace(kernel_kind k)
{
    static const bool small[KERNELS] = {
        [K_ADD] = true,    [K_DROPOUT] = true, [K_INIT] = true,       [K_UPDATE] = true,
        [K_CLIP] = true,   [K_CONVERT] = true, [K_COPY_ROWS] = true,  [K_FILL] = true,
        [K_DIGEST] = true, [K_REDUCE] = true,  [K_UNPACK_NF4] = true,
    };
    return !small[k];
}

size_t kernel_workspace_bytes(const kernel_needs *n, const kernel_call *c)
{
    return n && n->workspace_bytes && kernel_takes_workspace(c->kind) ? n->workspace_bytes(c) : 0;
}

const char *kernel_name(kernel_kind k)
{
    static const char *const names[KERNELS] = {
        [K_MATMUL] = "matmul",
        [K_BIAS_GRAD] = "bias_grad",
        [K_EMBEDDING] = "embedding",
        [K_EMBEDDING_GRAD] = "embedding_grad",
        [K_NORM] = "norm",
        [K_NORM_GRAD] = "norm_grad",
        [K_QK_NORM] = "qk_norm",
        [K_QK_NORM_SUMS] = "qk_norm_sums",
        [K_QK_NORM_GRAD] = "qk_norm_grad",
        [K_VALUE_NORM] = "value_norm",
        [K_VALUE_NORM_GRAD] = "value_norm_grad",
        [K_ROPE] = "rope",
        [K_ATTENTION] = "attention",
        [K_ATTENTION_GRAD] = "attention_grad",
        [K_CAUSAL_CONV] = "causal_conv",
        [K_CAUSAL_CONV_GRAD] = "causal_conv_grad",
        [K_DELTA_GATES] = "delta_gates",
        [K_DELTA_GATES_GRAD] = "delta_gates_grad",
        [K_DELTA_RULE] = "delta_rule",
        [K_DELTA_RULE_GRAD] = "delta_rule_grad",
        [K_GATE] = "gate",
        [K_GATE_GRAD] = "gate_grad",
        [K_ACTIVATION] = "activation",
        [K_ACTIVATION_GRAD] = "activation_grad",
        [K_GLU] = "glu",
        [K_GLU_GRAD] = "glu_grad",
        [K_XIELU] = "xielu",
        [K_XIELU_GRAD] = "xielu_grad",
        [K_ADD] = "add",
        [K_DROPOUT] = "dropout",
        [K_INIT] = "init",
        [K_CROSS_ENTROPY] = "cross_entropy",
        [K_CROSS_ENTROPY_STATS] = "cross_entropy_stats",
        [K_DOCUMENT_SUMS] = "document_sums",
        [K_PREFERENCE] = "preference",
        [K_SQUARE_ERROR] = "square_error",
        [K_SUM_SQUARES] = "sum_squares",
        [K_CLIP] = "clip",
        [K_UPDATE] = "update",
        [K_CONVERT] = "convert",
        [K_UNPACK_NF4] = "unpack_nf4",
        [K_COPY_ROWS] = "copy_rows",
        [K_FILL] = "fill",
        [K_DIGEST] = "digest",
        [K_ORTHOGONALIZE] = "orthogonalize",
        [K_REDUCE] = "reduce",
    };
    return k >= 0 && k < KERNELS ? names[k] : "unknown";
}

// The shape of an MLP's first layer. It is large enough for full speed of cores, and small enough for several products in
// the time of a measurement. A device to which it is nothing gets one that fills it.
typedef struct rate_shape {
    int64_t rows, cols, depth;
} rate_shape;
static const rate_shape RATE_SMALL = {768, 3072, 768}, RATE_SMALL_F32 = {192, 3072, 768},
                        RATE_LARGE = {8192, 4096, 4096};
static const double RATE_NOTHING_S = 1e-4;

// Of a measurement: of the fastest product, and of all together, waits for other programs included.
typedef struct rates {
    double best, mean;
} rates;

static status measure_rates(device_stream *s, const kernel_call *product, double seconds,
                            rates *out)
{
    status result = OK;
    err *e = NULL;
    const kernel_matmul_args *p = &product->u.matmul;
    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    device_launch(s, product); // not measured: its first use of the memory is slow
    TRY(s->device->ops->sync(s, e));
    const double began = clock_seconds();
    double done = 0, now = began;
    do {
        const double start = now;
        device_launch(s, product);
        TRY(s->device->ops->sync(s, e));
        now = clock_seconds();
        done += flops;
        if (flops / (now - start) > out->best) out->best = flops / (now - start);
    } while (now < began + seconds);
    out->mean = done / (now - began);
done:
    return result;
}

// Zeros where `room` is NULL, else random numbers: on zeros a GPU draws less power, and is faster. `room` holds [count] F32.
static void fill(device_stream *s, void *y, dtype type, int64_t count, float *room, uint64_t index)
{
    if (!room) {
        const int64_t bytes = count * (int64_t)dtype_bytes(type);
        device_launch(s, &(kernel_call){.kind = K_FILL, .u.fill = {y, bytes}});
        return;
    }
    device_launch(
        s, &(kernel_call){
               .kind = K_INIT,
               .u.init = {.count = count, .y = room, .index0 = index, .std = 1, .normal = true}});
    device_launch(
        s, &(kernel_call){
               .kind = K_CONVERT,
               .u.convert = {
                   .count = count, .src = room, .dst = y, .src_type = F32, .dst_type = type}});
}

static status rate_of(device *d, device_stream *s, dtype type, const rate_shape *h, double seconds,
                      rates *out)
{
    status result = OK;
    err *e = NULL;
    void *a = NULL, *b = NULL, *c = NULL, *room = NULL, *workspace = NULL;
    const size_t element = dtype_bytes(type);
    const int64_t in = h->rows * h->depth, weights = h->cols * h->depth,
                  most = in > weights ? in : weights;
    TRY(d->ops->alloc(d, MEMORY_DEVICE, element * (size_t)in, &a, e));
    TRY(d->ops->alloc(d, MEMORY_DEVICE, element * (size_t)weights, &b, e));
    TRY(d->ops->alloc(d, MEMORY_DEVICE, element * (size_t)(h->rows * h->cols), &c, e));
    if (!d->is_host_memory) // cores are as fast on zeros, and would draw for longer than they multiply
        TRY(d->ops->alloc(d, MEMORY_DEVICE, sizeof(float) * (size_t)most, &room, e));
    fill(s, a, type, in, room, 0);
    fill(s, b, type, weights, room, (uint64_t)in);
    kernel_call product = {.kind = K_MATMUL,
                           .u.matmul = {.m = h->rows,
                                        .n = h->cols,
                                        .k = h->depth,
                                        .a = a,
                                        .b = b,
                                        .c = c,
                                        .lda = h->depth,
                                        .ldb = h->depth,
                                        .ldc = h->cols,
                                        .type = type,
                                        .c_type = type,
                                        .trans_b = true}};
    product.workspace_bytes = kernel_workspace_bytes(d->needs, &product);
    if (product.workspace_bytes > 0)
        TRY(d->ops->alloc(d, MEMORY_DEVICE, product.workspace_bytes, &workspace, e));
    product.workspace = workspace;
    TRY(measure_rates(s, &product, seconds, out));
done:
    d->ops->release(d, MEMORY_DEVICE, workspace);
    d->ops->release(d, MEMORY_DEVICE, room);
    d->ops->release(d, MEMORY_DEVICE, c);
    d->ops->release(d, MEMORY_DEVICE, b);
    d->ops->release(d, MEMORY_DEVICE, a);
    return result;
}

static rates matmul_rates(device *d, dtype type, double seconds)
{
    status result = OK;
    err *e = NULL;
    rates found = {0, 0};
    device_stream *s = NULL;
    const rate_shape *small = type == F32 ? &RATE_SMALL_F32 : &RATE_SMALL;
    TRY(d->ops->stream_open(d, STREAM_COMPUTE, false, &s, e));
    TRY(rate_of(d, s, type, small, seconds, &found));
    const double flops = 2.0 * (double)small->rows * (double)small->cols * (double)small->depth;
    if (flops / found.best < RATE_NOTHING_S) TRY(rate_of(d, s, type, &RATE_LARGE, seconds, &found));
done:
    if (s) d->ops->stream_close(s);
    return result == OK ? found : (rates){0, 0};
}

double device_matmul_rate(device *d, dtype type, double seconds)
{
    return matmul_rates(d, type, seconds).best;
}

double device_matmul_mean(device *d, dtype type, double seconds)
{
    return matmul_rates(d, type, seconds).mean;
}

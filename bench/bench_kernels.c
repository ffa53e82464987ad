// bench_kernels.c -- times the cpu kernels one by one and prints their rates: the best of several runs
// on one thread, in CPU time, at the CPU level of TRIREME_CPU. An argument selects the kernels whose
// names start with it. It links the device library and the libraries that this needs:
//   cc -std=gnu17 -O2 -Isrc bench/bench_kernels.c build/libt_device.a build/libt_base.a
//      -ldnnl -lxxhash -fopenmp -lm -o bench_kernels
#include "device/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 25 };

typedef struct bench {
    cpu_context context;
    cpu_kernels table;
    const char *only; // NULL: all kernels
} bench;

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *array(int64_t count, dtype type)
{
    float *numbers = malloc(sizeof(float) * (size_t)count);
    void *data = aligned_alloc(64, (dtype_bytes(type) * (size_t)count + 63) / 64 * 64);
    for (int64_t i = 0; i < count; i++) numbers[i] = (float)((i * 7919) % 1000) * 0.004f - 2;
    dtype_convert(data, type, numbers, F32, (size_t)count);
    free(numbers);
    return data;
}

// Returns the seconds of one call: the best of RUNS runs, each long enough for the clock.
static double seconds_of(const bench *b, const kernel_call *call)
{
    double best = INFINITY;
    for (int run = 0; run < RUNS; run++) {
        int calls = 0;
        double start = cpu_seconds(), spent = 0;
        while (spent < 0.002) {
            b->table.run[call->kind](&b->context, &call->u);
            calls++;
            spent = cpu_seconds() - start;
        }
        double each = spent / calls;
        best = each < best ? each : best;
    }
    return best;
}

static void report(const bench *b, const char *shape, dtype type, const kernel_call *call,
                   double work, const char *unit)
{
    const char *name = kernel_name(call->kind);
    if (b->only && strncmp(name, b->only, strlen(b->only)) != 0) return;
    double seconds = seconds_of(b, call);
    printf("%-16s %-34s %-5s %9.3f ms %9.1f %s\n", name, shape, dtype_name(type), 1e3 * seconds,
           work / seconds * 1e-9, unit);
    fflush(stdout);
}

static void bench_attention(const bench *b, int64_t batch, int64_t t, int64_t d, dtype type)
{
    int64_t heads = 12, row = 3 * heads * d;
    size_t size = dtype_bytes(type);
    unsigned char *qkv = array(batch * t * row, type), *grads = array(batch * t * row, type);
    kernel_attention_args p = {
        .batch = batch,
        .queries = kernel_tokens_from(t, 0),
        .tk = t,
        .heads = heads,
        .kv_heads = heads,
        .head_dim = d,
        .q_stride = row,
        .k_stride = row,
        .v_stride = row,
        .o_stride = heads * d,
        .k_batch = t * row,
        .v_batch = t * row,
        .q = qkv,
        .k = qkv + size * (size_t)(heads * d),
        .v = qkv + size * (size_t)(2 * heads * d),
        .o = array(batch * t * heads * d, type),
        .lse = array(batch * heads * t, F32),
        .scale = 1 / sqrtf((float)d),
        .causal = true,
        .type = type,
    };
    kernel_attention_grad_args g = {
        .fwd = p,
        .d_o = array(batch * t * heads * d, type),
        .dq = grads,
        .dk = grads + size * (size_t)(heads * d),
        .dv = grads + size * (size_t)(2 * heads * d),
        .delta = array(batch * heads * t, F32),
    };
    char shape[64];
    snprintf(shape, sizeof shape, "B=%ld H=12 T=%ld D=%ld causal", (long)batch, (long)t, (long)d);
    double product = 2.0 * (double)(batch * heads * d) * (double)(t * (t + 1) / 2);
    report(b, shape, type, &(kernel_call){K_ATTENTION, {.attention = p}}, 2 * product, "GFLOP/s");
    report(b, shape, type, &(kernel_call){K_ATTENTION_GRAD, {.attention_grad = g}}, 5 * product,
           "GFLOP/s");
    free(qkv), free(grads), free(p.o), free(p.lse), free((void *)g.d_o), free(g.delta);
}

static void bench_decode(const bench *b, int64_t keys, dtype type)
{
    int64_t heads = 12, d = 64, row = 2 * heads * d;
    unsigned char *kv = array(keys * row, type);
    kernel_attention_args p = {
        .batch = 1,
        .queries = kernel_tokens_from(1, keys - 1),
        .tk = keys,
        .heads = heads,
        .kv_heads = heads,
        .head_dim = d,
        .q_stride = heads * d,
        .k_stride = row,
        .v_stride = row,
        .o_stride = heads * d,
        .q = array(heads * d, type),
        .k = kv,
        .v = kv + dtype_bytes(type) * (size_t)(heads * d),
        .o = array(heads * d, type),
        .lse = array(heads, F32),
        .scale = 0.125f,
        .causal = true,
        .type = type,
    };
    char shape[64];
    snprintf(shape, sizeof shape, "one query, H=12 D=64, %ld keys", (long)keys);
    report(b, shape, type, &(kernel_call){K_ATTENTION, {.attention = p}},
           (double)dtype_bytes(type) * (double)(keys * row), "GB/s");
    free(kv), free((void *)p.q), free(p.o), free(p.lse);
}

static void bench_norm(const bench *b, int64_t rows, int64_t cols, dtype type)
{
    int64_t count = rows * cols;
    kernel_norm_args p = {.rows = rows,
                          .cols = cols,
                          .eps = 1e-5f,
                          .type = type,
                          .x = array(count, type),
                          .gain = array(cols, type),
                          .bias = array(cols, type),
                          .y = array(count, type),
                          .mean = array(rows, F32),
                          .rstd = array(rows, F32)};
    kernel_norm_grad_args g = {.rows = rows,
                               .cols = cols,
                               .type = type,
                               .x = p.x,
                               .dy = p.y,
                               .gain = p.gain,
                               .mean = p.mean,
                               .rstd = p.rstd,
                               .dx = array(count, type),
                               .dgain = array(cols, F32),
                               .dbias = array(cols, F32),
                               .accumulate_dx = true,
                               .accumulate_dgain = true};
    char shape[64];
    snprintf(shape, sizeof shape, "layer [%ld, %ld]", (long)rows, (long)cols);
    report(b, shape, type, &(kernel_call){K_NORM, {.norm = p}}, (double)count, "G/s");
    report(b, shape, type, &(kernel_call){K_NORM_GRAD, {.norm_grad = g}}, (double)count, "G/s");
    free((void *)p.x), free((void *)p.gain), free((void *)p.bias), free(p.y), free(p.mean);
    free(p.rstd), free(g.dx), free(g.dgain), free(g.dbias);
}

static void bench_activation(const bench *b, int64_t rows, int64_t cols, dtype type)
{
    static const char *const names[ACTIVATIONS] = {"gelu", "gelu_tanh", "relu", "silu", "tanh"};
    int64_t count = rows * cols;
    kernel_activation_args p = {.count = count,
                                .x = array(count, type),
                                .dy = array(count, type),
                                .y = array(count, type),
                                .type = type};
    kernel_bias_grad_args bias = {.rows = rows,
                                  .cols = cols,
                                  .dy = p.dy,
                                  .db = array(cols, F32),
                                  .type = type,
                                  .accumulate = true};
    char shape[64];
    for (p.act = ACT_GELU; p.act < ACTIVATIONS; p.act++) {
        snprintf(shape, sizeof shape, "%s [%ld, %ld]", names[p.act], (long)rows, (long)cols);
        report(b, shape, type, &(kernel_call){K_ACTIVATION, {.activation = p}}, (double)count,
               "G/s");
        report(b, shape, type, &(kernel_call){K_ACTIVATION_GRAD, {.activation = p}}, (double)count,
               "G/s");
    }
    snprintf(shape, sizeof shape, "[%ld, %ld]", (long)rows, (long)cols);
    report(b, shape, type, &(kernel_call){K_BIAS_GRAD, {.bias_grad = bias}}, (double)count, "G/s");
    kernel_glu_args glu = {.rows = rows,
                           .cols = cols / 2,
                           .x = p.x,
                           .dy = p.dy,
                           .y = p.y,
                           .act = ACT_SILU,
                           .type = type};
    snprintf(shape, sizeof shape, "silu [%ld, 2 x %ld]", (long)rows, (long)cols / 2);
    report(b, shape, type, &(kernel_call){K_GLU, {.glu = glu}}, (double)count / 2, "G/s");
    report(b, shape, type, &(kernel_call){K_GLU_GRAD, {.glu = glu}}, (double)count / 2, "G/s");
    kernel_add_args add = {
        .count = count, .a = p.x, .b = p.dy, .y = p.y, .alpha = 1, .beta = 1, .type = type};
    kernel_dropout_args drop = {.rows = rows,
                                .cols = cols,
                                .row_tokens = kernel_tokens_from(rows, 0),
                                .x = p.x,
                                .y = p.y,
                                .p = 0.1f,
                                .type = type};
    report(b, "", type, &(kernel_call){K_ADD, {.add = add}}, (double)count, "G/s");
    report(b, "", type, &(kernel_call){K_DROPOUT, {.dropout = drop}}, (double)count, "G/s");
    free((void *)p.x), free((void *)p.dy), free(p.y), free(bias.db);
}

static void bench_loss(const bench *b, int64_t rows, int64_t cols, dtype type)
{
    double loss = 0, count = 0;
    int32_t *labels = calloc((size_t)rows, sizeof *labels);
    kernel_cross_entropy_args p = {.rows = rows,
                                   .cols = cols,
                                   .logits = array(rows * cols, type),
                                   .labels = labels,
                                   .loss_sum = &loss,
                                   .count = &count,
                                   .scale = 1,
                                   .ignore = -100,
                                   .gradient = true,
                                   .type = type};
    char shape[64];
    snprintf(shape, sizeof shape, "[%ld, %ld]", (long)rows, (long)cols);
    report(b, shape, type, &(kernel_call){K_CROSS_ENTROPY, {.cross_entropy = p}},
           (double)(rows * cols), "G/s");
    free(p.logits), free(labels);
}

static void bench_flat(const bench *b, int64_t count)
{
    kernel_update_args p = {.count = count,
                            .w = array(count, F32),
                            .m = array(count, F32),
                            .v = array(count, F32),
                            .g = array(count, F32),
                            .lr = 1e-9f,
                            .beta1 = 0.9f,
                            .beta2 = 0.95f,
                            .eps = 1e-8f,
                            .weight_decay = 0.1f,
                            .grad_scale = 1,
                            .c1 = 1,
                            .c2 = 1,
                            .low_type = BF16};
    for (int64_t i = 0; i < count; i++) p.v[i] = fabsf(p.v[i]);
    report(b, "adamw", F32, &(kernel_call){K_UPDATE, {.update = p}}, (double)count, "G/s");
    p.low = array(count, BF16);
    report(b, "adamw with a bf16 copy", F32, &(kernel_call){K_UPDATE, {.update = p}}, (double)count,
           "G/s");
    p.rule = UPDATE_SGD, p.beta1 = 0;
    report(b, "sgd with a bf16 copy", F32, &(kernel_call){K_UPDATE, {.update = p}}, (double)count,
           "G/s");
    double sum = 0;
    uint64_t digest = 0;
    kernel_sum_squares_args squares = {.count = count, .x = p.g, .sum = &sum};
    kernel_digest_args hash = {.bytes = 4 * count, .x = p.g, .digest = &digest};
    kernel_convert_args convert = {.count = count, .src = p.g, .dst = p.low, .dst_type = BF16};
    kernel_fill_args fill = {.dst = p.w, .bytes = 4 * count};
    report(b, "", F32, &(kernel_call){K_SUM_SQUARES, {.sum_squares = squares}}, (double)count,
           "G/s");
    report(b, "", F32, &(kernel_call){K_DIGEST, {.digest = hash}}, (double)count, "G/s");
    report(b, "to bf16", F32, &(kernel_call){K_CONVERT, {.convert = convert}}, (double)count,
           "G/s");
    report(b, "", F32, &(kernel_call){K_FILL, {.fill = fill}}, (double)count, "G/s");
    free(p.w), free(p.m), free(p.v), free((void *)p.g), free(p.low);
}

int main(int argc, char **argv)
{
    bench b = {.only = argc > 1 ? argv[1] : NULL};
    err e = {0};
    if (cpu_context_open(&(device_options){.threads = 1}, &b.context, &e) != OK) {
        fprintf(stderr, "%s\n", e.text);
        return status_exit_code(e.code);
    }
    cpu_kernels_fill(&b.table, b.context.level);
    printf("level %s, one thread, best of %d\n", cpu_level_name(b.context.level), RUNS);
    for (int half = 0; half < 2; half++) {
        dtype type = half ? BF16 : F32;
        bench_attention(&b, 2, 256, 64, type);
        bench_attention(&b, 1, 1024, 64, type);
        bench_attention(&b, 4, 64, 64, type);
        bench_attention(&b, 1, 512, 80, type);
        bench_attention(&b, 1, 512, 128, type);
        bench_decode(&b, 1000, type);
        bench_norm(&b, 512, 768, type);
        bench_norm(&b, 512, 3072, type);
        bench_activation(&b, 512, 3072, type);
        bench_loss(&b, 128, 50257, type);
    }
    bench_flat(&b, 30000000);
    cpu_context_close(&b.context);
    return 0;
}

// gpu_tape.c -- replays the call tape (stand_in/tape.h): makes each recorded call of a library again, with
// the real library on a GPU, or with the stand-in, and compares the numbers with the host's.
//   gpu_tape FILE…
// A line fails where the library refuses the call, has no algorithm or plan for it, or gives other numbers.
#include "../stand_in/lib_product.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ref/ref.h"
#include "device/cuda/libraries/cuda_blas.h"
#include "device/cuda/libraries/cuda_dnn.h"
#include "tape_nccl.h"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 1024, PLACE = 256 };

typedef struct replay {
    cpu_context host;
    struct cuda_blas *blas;
    struct cuda_dnn *dnn;
    tape_nccl *nccl;
    const char *line;
    int lines, failures;
} replay;

// An array of the host, and its copy on the device at an address of the wanted alignment.
typedef struct pair {
    void *host;
    char *memory, *device;
    size_t bytes;
} pair;

static void stop(const char *what)
{
    fprintf(stderr, "gpu_tape: %s\n", what);
    exit(1);
}

static void check_cuda(cudaError_t s)
{
    if (s != cudaSuccess) stop(cudaGetErrorString(s));
}

static void fail(replay *r, const char *why)
{
    printf("%s\n    %s\n", r->line, why);
    r->failures++;
}

// `count` numbers between -1 and 1, aligned to `align` bytes and not to more.
static pair make(int64_t count, dtype type, int64_t align)
{
    pair p = {.bytes = (size_t)count * dtype_bytes(type)};
    float *numbers = malloc(sizeof *numbers * (size_t)count);
    p.host = malloc(p.bytes);
    if (!numbers || !p.host) stop("no memory");
    for (int64_t i = 0; i < count; i++)
        numbers[i] =
            (float)((uint64_t)(i + count) * UINT64_C(0x9e3779b97f4a7c15) >> 40) / (1 << 23) - 1;
    dtype_convert(p.host, type, numbers, F32, (size_t)count);
    free(numbers);
    check_cuda(cudaMalloc((void **)&p.memory, p.bytes + PLACE));
    p.device = p.memory + align % PLACE;
    check_cuda(cudaMemcpy(p.device, p.host, p.bytes, cudaMemcpyHostToDevice));
    return p;
}

static void drop(pair *p)
{
    check_cuda(cudaFree(p->memory));
    free(p->host);
}

// The largest difference between an array of the host and its copy on the device.
static double difference(const pair *p, dtype type)
{
    const size_t count = p->bytes / dtype_bytes(type);
    float *want = malloc(sizeof *want * count), *have = malloc(sizeof *have * count);
    void *bytes = malloc(p->bytes);
    double worst = 0;
    if (!want || !have || !bytes) stop("no memory");
    check_cuda(cudaMemcpy(bytes, p->device, p->bytes, cudaMemcpyDeviceToHost));
    dtype_convert(want, F32, p->host, type, count);
    dtype_convert(have, F32, bytes, type, count);
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)want[i] - (double)have[i]);
        if (!(d <= worst)) worst = d; // also NaN
    }
    free(want), free(have), free(bytes);
    return worst;
}

// The relative error of one rounding.
static double rounding(dtype type)
{
    return type == BF16 ? 1.0 / 256 : type == F16 ? 1.0 / 2048 : 1e-6;
}

static dtype type_named(const char *name)
{
    for (dtype t = F32; t <= F16; t++)
        if (strcmp(dtype_name(t), name) == 0) return t;
    stop("a line names an unknown type");
    return F32;
}

// Launches with the workspace of the call, and waits.
static void run(replay *r, const kernel_call *c, size_t workspace_bytes)
{
    err failure = {0}, e = {0};
    void *workspace = NULL;
    if (workspace_bytes > 0) check_cuda(cudaMalloc(&workspace, workspace_bytes));
    const cuda_context x = {.workspace = workspace,
                            .workspace_bytes = workspace_bytes,
                            .blas = r->blas,
                            .dnn = r->dnn,
                            .failure = &failure};
    if (c->kind == K_MATMUL) {
        if (cuda_blas_prepare(r->blas, c, &e) == OK) cuda_matmul(&x, &c->u.matmul);
    } else if (cuda_dnn_prepare(r->dnn, c, &e) == OK &&
               !(c->kind == K_ATTENTION ? cuda_dnn_attention(&x, &c->u.attention)
                                        : cuda_dnn_attention_grad(&x, &c->u.attention_grad))) {
        err_set(&e, E_INTERNAL, "cuDNN has no plan for it");
    }
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaFree(workspace));
    if (e.code != OK || failure.code != OK) fail(r, e.code != OK ? e.text : failure.text);
}

static void compare(replay *r, const pair *p, dtype type, double limit)
{
    const double d = difference(p, type);
    char text[96];
    snprintf(text, sizeof text, "differs by %g; at most %g is valid", d, limit);
    if (!(d <= limit)) fail(r, text);
}

_Static_assert((int)LIB_GELU == EPILOGUE_ACTIVATION &&
                   (int)LIB_GELU_GRAD == EPILOGUE_ACTIVATION_GRAD,
               "both enums have one order");

static kernel_epilogue epilogue_of(int word)
{
    return word == CUBLASLT_EPILOGUE_DGELU ? EPILOGUE_ACTIVATION_GRAD
           : word & CUBLASLT_EPILOGUE_GELU ? EPILOGUE_ACTIVATION
                                           : EPILOGUE_NONE;
}

// The largest number of an array of the host.
static double largest(const pair *p, dtype type)
{
    const size_t count = p->bytes / dtype_bytes(type);
    float *numbers = malloc(sizeof *numbers * count);
    double most = 0;
    if (!numbers) stop("no memory");
    dtype_convert(numbers, F32, p->host, type, count);
    for (size_t i = 0; i < count; i++) most = fmax(most, fabs((double)numbers[i]));
    free(numbers);
    return most;
}

// Of sums of k products below 1, in another order, and one rounding, which may go either way.
static double product_limit(const pair *want, long long k, dtype type)
{
    const double most = fmax(2 + 3 * sqrt((double)k), 2 * largest(want, type));
    return 1e-6 * (double)k + rounding(type) * most;
}

static void replay_product(replay *r, const kernel_call *c, long long workspace)
{
    if ((long long)cuda_matmul_workspace(&c->u.matmul) != workspace)
        fail(r, "the workspace of this shape is another now");
    run(r, c, cuda_matmul_workspace(&c->u.matmul));
}

// How a GPU rounds factors to TF32 is not documented: a Hopper's products are not those of the nearest.
static void compare_product(replay *r, pair *d, pair *aux, const lib_product *want)
{
    const long long k = want->k;
    const double factors = want->tf32 ? (1 + sqrt((double)k)) / 2048 : 0;
    compare(r, d, want->d_type, product_limit(d, k, want->d_type) + factors);
    if (aux) compare(r, aux, want->d_type, product_limit(aux, k, want->d_type) + factors);
}

static bool uses_aux(int epilogue)
{
    return epilogue & CUBLASLT_EPILOGUE_GELU_AUX & ~CUBLASLT_EPILOGUE_GELU;
}

// The library's matrices are column-major: its A is our b.
static void replay_matmul(replay *r)
{
    char from[8], to[8], ta, tb;
    long long m, n, k, lda, ldb, ldd, ld_aux, workspace;
    int compute, align_a, align_b, align_d, epilogue;
    double alpha, beta;
    if (sscanf(
            r->line,
            "matmul type=%7s to=%7s compute=%d m=%lld n=%lld k=%lld trans=%c%c ld=%lld,%lld,%lld "
            "align=%d,%d,%d epilogue=%d ld_aux=%lld alpha=%lf beta=%lf workspace=%lld",
            from, to, &compute, &m, &n, &k, &ta, &tb, &lda, &ldb, &ldd, &align_a, &align_b,
            &align_d, &epilogue, &ld_aux, &alpha, &beta, &workspace) != 19)
        stop("a line of a product cannot be read");
    const dtype type = type_named(from), c_type = type_named(to);
    pair a = make((ta == 'T' ? m : k) * lda, type, align_a), d = make(n * ldd, c_type, align_d);
    pair b = make((tb == 'T' ? k : n) * ldb, type, align_b);
    pair bias = make(m, c_type, 0), aux = make(n * ldd, c_type, 0);
    kernel_call c = {.kind = K_MATMUL,
                     .u.matmul = {.m = n,
                                  .n = m,
                                  .k = k,
                                  .a = b.device,
                                  .b = a.device,
                                  .c = d.device,
                                  .bias = epilogue & 4 ? bias.device : NULL,
                                  .lda = ldb,
                                  .ldb = lda,
                                  .ldc = ldd,
                                  .type = type,
                                  .c_type = c_type,
                                  .trans_a = tb == 'T',
                                  .trans_b = ta == 'T',
                                  .aux = uses_aux(epilogue) ? aux.device : NULL,
                                  .epilogue = epilogue_of(epilogue),
                                  .act = ACT_GELU_TANH,
                                  .accumulate = beta != 0,
                                  .tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32}};
    const lib_product want = {.m = m,
                              .n = n,
                              .k = k,
                              .lda = lda,
                              .ldb = ldb,
                              .ldd = ldd,
                              .a = a.host,
                              .b = b.host,
                              .d = d.host,
                              .bias = epilogue & 4 ? bias.host : NULL,
                              .alpha = (float)alpha,
                              .beta = (float)beta,
                              .type = type,
                              .d_type = c_type,
                              .trans_a = ta == 'T',
                              .trans_b = tb == 'T',
                              .tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32,
                              .aux = uses_aux(epilogue) ? aux.host : NULL,
                              .ld_aux = ld_aux,
                              .epilogue = (lib_epilogue)epilogue_of(epilogue),
                              .splits = 1};
    replay_product(r, &c, workspace);
    lib_product_run(&want);
    compare_product(r, &d, uses_aux(epilogue) ? &aux : NULL, &want);
    drop(&aux), drop(&a), drop(&b), drop(&d), drop(&bias);
}

// A line of attention: its arguments, and "_grad" or nothing.
static kernel_attention_args read_attention(const replay *r, char what[16])
{
    char name[8];
    int causal;
    kernel_attention_args p = {.scale = 0.3f};
    long batch, heads, kv, tq, tk, width, qs, ks, vs, os, kb, vb;
    if (sscanf(r->line,
               "%15s type=%7s batch=%ld heads=%ld kv_heads=%ld tq=%ld tk=%ld head_dim=%ld "
               "causal=%d "
               "q_stride=%ld k_stride=%ld v_stride=%ld o_stride=%ld k_batch=%ld v_batch=%ld",
               what, name, &batch, &heads, &kv, &tq, &tk, &width, &causal, &qs, &ks, &vs, &os, &kb,
               &vb) != 15)
        stop("a line of attention cannot be read");
    p.batch = batch, p.heads = heads, p.kv_heads = kv, p.tk = tk, p.head_dim = width;
    p.queries = kernel_tokens_from(tq, 0);
    p.q_stride = qs, p.k_stride = ks, p.v_stride = vs, p.o_stride = os, p.k_batch = kb,
    p.v_batch = vb;
    p.causal = causal, p.type = type_named(name);
    return p;
}

// The gradient of outputs that the host has computed. o and lse are on the device, too.
static void replay_gradient(replay *r, kernel_attention_args here, kernel_attention_args there)
{
    const int64_t rows = here.batch * here.queries.seq;
    pair d_o = make(rows * here.o_stride, here.type, 0),
         dq = make(rows * here.q_stride, here.type, 0);
    pair dk = make(here.batch * here.k_batch, here.type, 0),
         dv = make(here.batch * here.v_batch, here.type, 0);
    pair delta = make(here.heads * rows, F32, 0);
    ref_attention_grad(&r->host, &(kernel_attention_grad_args){.fwd = here,
                                                               .d_o = d_o.host,
                                                               .dq = dq.host,
                                                               .dk = dk.host,
                                                               .dv = dv.host,
                                                               .delta = delta.host});
    kernel_call c = {.kind = K_ATTENTION_GRAD,
                     .u.attention_grad = {.fwd = there,
                                          .d_o = d_o.device,
                                          .dq = dq.device,
                                          .dk = dk.device,
                                          .dv = dv.device,
                                          .delta = (float *)delta.device,
                                          .any_order = true}};
    run(r, &c, cuda_dnn_attention_grad_workspace(&c.u.attention_grad));
    // Gradients of keys are sums over all queries.
    const double limit = 4 * rounding(here.type) * sqrt((double)here.queries.seq);
    compare(r, &dq, here.type, limit);
    compare(r, &dk, here.type, limit);
    compare(r, &dv, here.type, limit);
    drop(&d_o), drop(&dq), drop(&dk), drop(&dv), drop(&delta);
}

static void replay_attention(replay *r)
{
    char what[16];
    kernel_attention_args p = read_attention(r, what);
    const bool gradient = strcmp(what, "attention_grad") == 0;
    const int64_t rows = p.batch * p.queries.seq;
    pair q = make(rows * p.q_stride, p.type, 0), o = make(rows * p.o_stride, p.type, 0);
    pair k = make((p.batch - 1) * p.k_batch + p.tk * p.k_stride, p.type, 0),
         v = make((p.batch - 1) * p.v_batch + p.tk * p.v_stride, p.type, 0);
    pair lse = make(rows * p.heads, F32, 0);
    p.q = q.host, p.k = k.host, p.v = v.host, p.o = o.host, p.lse = lse.host;
    ref_attention(&r->host, &p);
    kernel_call c = {.kind = K_ATTENTION, .u.attention = p};
    c.u.attention.q = q.device, c.u.attention.k = k.device, c.u.attention.v = v.device;
    c.u.attention.o = o.device, c.u.attention.lse = (float *)lse.device;
    if (gradient) {
        check_cuda(cudaMemcpy(o.device, o.host, o.bytes, cudaMemcpyHostToDevice));
        check_cuda(cudaMemcpy(lse.device, lse.host, lse.bytes, cudaMemcpyHostToDevice));
        replay_gradient(r, p, c.u.attention);
    } else {
        run(r, &c, cuda_dnn_attention_workspace(&p));
        compare(r, &o, p.type, 4 * rounding(p.type));
        compare(r, &lse, F32, 1e-3);
    }
    drop(&q), drop(&k), drop(&v), drop(&o), drop(&lse);
}

static void replay_nccl(replay *r)
{
    err e = {0};
    if (tape_nccl_replay(&r->nccl, r->line, &e) != OK) fail(r, e.text);
}

static void replay_file(replay *r, const char *path)
{
    char line[LINE_BYTES];
    FILE *f = fopen(path, "r");
    if (!f) stop("cannot open the tape");
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        r->line = line;
        r->lines++;
        if (strncmp(line, "matmul ", 7) == 0)
            replay_matmul(r);
        else if (strncmp(line, "attention", 9) == 0)
            replay_attention(r);
        else if (strncmp(line, "nccl ", 5) == 0)
            replay_nccl(r);
        else
            fail(r, "a line of an unknown call");
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    replay r = {0};
    err e = {0};
    if (argc < 2) stop("usage: gpu_tape FILE…");
    if (cpu_context_open(&(device_options){.threads = 1}, &r.host, &e) != OK ||
        cuda_blas_open(&r.blas, &e) != OK || cuda_dnn_open(&r.dnn, &e, &e) != OK || !r.dnn)
        stop(e.text);
    for (int i = 1; i < argc; i++) replay_file(&r, argv[i]);
    tape_nccl_close(r.nccl);
    cuda_dnn_close(r.dnn);
    cuda_blas_close(r.blas);
    cpu_context_close(&r.host);
    printf("%d calls replayed, %d failures\n", r.lines, r.failures);
    return r.failures || r.lines == 0 ? 1 : 0;
}

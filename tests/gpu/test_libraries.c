// test_libraries.c -- products and attention by the stand-ins of cuBLASLt and cuDNN: what the cuda device
// computes with them, and controls that break a rule of each library and expect its answer.
#include "child.h"
#include "device/cpu/cpu.h"
#include "device/cpu/ref/ref.h"
#include "device/cuda/libraries/cuda_blas.h"
#include "device/cuda/libraries/cuda_dnn.h"
#include "device/cuda/libraries/cuda_dnn_graph.h"
#include "tape.h"

#include <cublasLt.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *device_bytes(size_t bytes)
{
    void *p = NULL;
    assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    return p;
}

// ---- cuBLASLt: a rule is broken, and its status comes back

typedef struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t pref;
    cublasLtMatmulHeuristicResult_t proposed[4];
    int count;
    void *memory;
} product;

enum { M = 32, N = 16, K = 512, MATRIX_BYTES = 1 << 17 };

static void product_open(product *p, cudaDataType from, cudaDataType to, int64_t lda)
{
    memset(p, 0, sizeof *p);
    tape_leave_out(true);
    assert_int_equal(cublasLtCreate(&p->handle), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasLtMatmulDescCreate(&p->op, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p->a, from, M, K, lda), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p->b, from, K, N, K), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p->c, to, M, N, M), 0);
    assert_int_equal(cublasLtMatmulPreferenceCreate(&p->pref), 0);
    p->memory = device_bytes(5 * MATRIX_BYTES);
}

static void product_close(product *p)
{
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    cublasLtMatmulPreferenceDestroy(p->pref);
    cublasLtMatrixLayoutDestroy(p->a);
    cublasLtMatrixLayoutDestroy(p->b);
    cublasLtMatrixLayoutDestroy(p->c);
    cublasLtMatmulDescDestroy(p->op);
    cublasLtDestroy(p->handle);
    assert_int_equal(cudaFree(p->memory), cudaSuccess);
    tape_leave_out(false);
}

static void wish(product *p, cublasLtMatmulPreferenceAttributes_t name, uint64_t value,
                 size_t bytes)
{
    assert_int_equal(cublasLtMatmulPreferenceSetAttribute(p->pref, name, &value, bytes), 0);
}

static cublasStatus_t ask(product *p)
{
    return cublasLtMatmulAlgoGetHeuristic(p->handle, p->op, p->a, p->b, p->c, p->c, p->pref, 4,
                                          p->proposed, &p->count);
}

// Multiplies by proposal `i`, with a matrix A that is `shift` bytes off.
static cublasStatus_t multiply(product *p, int i, size_t shift, void *workspace, size_t bytes)
{
    const float one = 1, zero = 0;
    char *m = p->memory;
    return cublasLtMatmul(p->handle, p->op, &one, m + shift, p->a, m + MATRIX_BYTES, p->b, &zero,
                          m + 2 * MATRIX_BYTES, p->c, m + 2 * MATRIX_BYTES, p->c,
                          &p->proposed[i].algo, workspace, bytes, NULL);
}

static void types_and_layouts_are_checked(void **state)
{
    (void)state;
    product p;
    product_open(&p, CUDA_R_16BF, CUDA_R_16F, M); // no kernel adds bf16 into fp16
    assert_int_equal(ask(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    product_close(&p);
    product_open(&p, CUDA_R_16BF, CUDA_R_32F, M - 1); // columns that overlap
    assert_int_equal(ask(&p), CUBLAS_STATUS_INVALID_VALUE);
    product_close(&p);
    product_open(&p, CUDA_R_16BF, CUDA_R_32F, M);
    const int32_t t = CUBLAS_OP_T; // A is not stored as [K, M]
    cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof t);
    assert_int_equal(ask(&p), CUBLAS_STATUS_INVALID_VALUE);
    product_close(&p);
}

static void alignment_and_workspace_are_checked(void **state)
{
    (void)state;
    product p;
    product_open(&p, CUDA_R_16BF, CUDA_R_32F, M);
    char *workspace = (char *)p.memory + 3 * MATRIX_BYTES;
    wish(&p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, MATRIX_BYTES, 8);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 4);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 16, 4);
    assert_int_equal(ask(&p), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(p.count, 2); // partial sums in the workspace, and none
    const size_t bytes = p.proposed[0].workspaceSize;
    assert_true(bytes > 0);
    assert_int_equal(multiply(&p, 0, 0, workspace, bytes), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(multiply(&p, 0, 2, workspace, bytes),
                     CUBLAS_STATUS_INVALID_VALUE); // misdeclared
    assert_int_equal(multiply(&p, 0, 0, workspace, bytes - 1), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(multiply(&p, 0, 0, workspace + 128, bytes), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(multiply(&p, 0, 0, NULL, bytes), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(multiply(&p, 1, 0, NULL, 0), CUBLAS_STATUS_SUCCESS);
    // An algorithm is for one shape.
    cublasLtMatrixLayoutDestroy(p.a);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_16BF, M, K, M + 8), 0);
    assert_int_equal(multiply(&p, 1, 0, NULL, 0), CUBLAS_STATUS_INVALID_VALUE);
    product_close(&p);
}

static void unordered_sums_are_proposed(void **state)
{
    (void)state;
    product p;
    product_open(&p, CUDA_R_16BF, CUDA_R_32F, M);
    assert_int_equal(ask(&p), CUBLAS_STATUS_SUCCESS);
    uint32_t scheme;
    size_t written;
    assert_int_equal(cublasLtMatmulAlgoConfigGetAttribute(&p.proposed[0].algo,
                                                          CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                          &scheme, sizeof scheme, &written),
                     0);
    assert_int_equal(scheme, CUBLASLT_REDUCTION_SCHEME_INPLACE);
    product_close(&p);
}

static void a_bias_must_be_aligned(void **state)
{
    (void)state;
    product p;
    product_open(&p, CUDA_R_32F, CUDA_R_32F, M);
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const void *bias = (char *)p.memory + 4;
    cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(p.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    assert_int_equal(ask(&p), CUBLAS_STATUS_NOT_SUPPORTED);
    product_close(&p);
}

// Bits of a product of one shape whose A is promised to be aligned to `align` bytes.
static void multiply_aligned(float *out, uint64_t align)
{
    enum { NUMBERS = 3 * MATRIX_BYTES / 4 };
    static float numbers[NUMBERS];
    product p;
    for (int i = 0; i < NUMBERS; i++) numbers[i] = 1.0f / (float)(3 * i + 1);
    product_open(&p, CUDA_R_32F, CUDA_R_32F, M);
    assert_int_equal(cudaMemcpy(p.memory, numbers, sizeof numbers, cudaMemcpyHostToDevice), 0);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_NONE, 4);
    wish(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align, 4);
    assert_int_equal(ask(&p), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(multiply(&p, 0, 0, NULL, 0), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cudaMemcpy(out, (char *)p.memory + 2 * MATRIX_BYTES, M * N * sizeof *out,
                                cudaMemcpyDeviceToHost),
                     0);
    product_close(&p);
}

// As the library may, the stand-in adds in another order where a matrix is not aligned to 16 bytes: results that
// depend on addresses do not pass the tests of equal bits.
static void bits_of_a_product_depend_on_alignment(void **state)
{
    (void)state;
    float all[M * N], half[M * N], more[M * N];
    multiply_aligned(all, 16);
    multiply_aligned(half, 8);
    multiply_aligned(more, 256);
    assert_memory_equal(all, more, sizeof all);
    assert_memory_not_equal(all, half, sizeof all);
}

// A thread that records may not load code, unless it says that it knows (cuda_blas.c does).
static void code_is_not_loaded_in_a_recording(void **state)
{
    (void)state;
    product p;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    const float one = 1, zero = 0;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    product_open(&p, CUDA_R_32F, CUDA_R_32F, M);
    wish(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_NONE, 4);
    assert_int_equal(ask(&p), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    char *m = p.memory;
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                         cudaSuccess);
        if (relaxed) assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        assert_int_equal(cublasLtMatmul(p.handle, p.op, &one, m, p.a, m + MATRIX_BYTES, p.b, &zero,
                                        m + 2 * MATRIX_BYTES, p.c, m + 2 * MATRIX_BYTES, p.c,
                                        &p.proposed[0].algo, NULL, 0, stream),
                         relaxed ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED);
        if (relaxed) assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
        assert_true((ended == cudaSuccess) == (relaxed == 1));
        cudaGetLastError();
    }
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    product_close(&p);
}

// ---- The device's side

static void a_missing_library_is_named(void **state)
{
    (void)state;
    struct cuda_blas *b = NULL;
    struct cuda_dnn *d = NULL;
    err e = {0}, why = {0};
    setenv("TRIREME_STAND_IN_WITHOUT", "cuBLASLt,cuDNN", 1);
    assert_int_equal(cuda_blas_open(&b, &e), E_USAGE);
    assert_non_null(strstr(e.text, "cuBLASLt is not on this machine"));
    assert_int_equal(cuda_dnn_open(&d, &why, &e), OK); // own kernels do the work
    assert_null(d);
    assert_non_null(strstr(why.text, "cuDNN is not on this machine"));
    unsetenv("TRIREME_STAND_IN_WITHOUT");
}

static void a_workspace_grows_with_the_rows(void **state)
{
    (void)state;
    kernel_matmul_args p = {.n = 640, .k = 768, .type = BF16, .c_type = F32};
    size_t last = 0;
    for (p.m = 0; p.m < 4000; p.m += 111) {
        const size_t bytes = cuda_matmul_workspace(&p);
        assert_true(bytes >= last && bytes <= (size_t)32 << 20);
        last = bytes;
    }
    assert_int_equal(last, (size_t)32 << 20);
}

typedef struct attention_shape {
    int64_t batch, tq, tk, heads, kv_heads, head_dim;
    dtype type;
    bool causal;
} attention_shape;

// q, k and v in one array, as a fused projection leaves them.
static kernel_attention_args attention_args(const attention_shape *h, void *qkv, void *o,
                                            float *lse)
{
    const int64_t row = (h->heads + 2 * h->kv_heads) * h->head_dim,
                  size = (int64_t)dtype_bytes(h->type);
    char *q = qkv;
    return (kernel_attention_args){.batch = h->batch,
                                   .tk = h->tk,
                                   .heads = h->heads,
                                   .kv_heads = h->kv_heads,
                                   .head_dim = h->head_dim,
                                   .queries = kernel_tokens_from(h->tq, 0),
                                   .q_stride = row,
                                   .k_stride = row,
                                   .v_stride = row,
                                   .o_stride = h->heads * h->head_dim,
                                   .k_batch = h->tk * row,
                                   .v_batch = h->tk * row,
                                   .q = q,
                                   .k = q + h->heads * h->head_dim * size,
                                   .v = q + (h->heads + h->kv_heads) * h->head_dim * size,
                                   .o = o,
                                   .lse = lse,
                                   .scale = 0.7f / sqrtf((float)h->head_dim),
                                   .causal = h->causal,
                                   .type = h->type};
}

static double largest_difference(const void *a, const void *b, dtype type, int64_t count)
{
    float *x = malloc(sizeof *x * (size_t)count), *y = malloc(sizeof *y * (size_t)count);
    double worst = 0;
    dtype_convert(x, F32, a, type, (size_t)count);
    dtype_convert(y, F32, b, type, (size_t)count);
    for (int64_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
    free(x);
    free(y);
    return worst;
}

static void check_attention(const cpu_context *host, struct cuda_dnn *d, const attention_shape *h)
{
    const int64_t rows = h->batch * (h->tq > h->tk ? h->tq : h->tk);
    const int64_t inputs = rows * (h->heads + 2 * h->kv_heads) * h->head_dim;
    const int64_t outputs = h->batch * h->tq * h->heads * h->head_dim,
                  sums = h->batch * h->heads * h->tq;
    const size_t size = dtype_bytes(h->type), in_bytes = (size_t)inputs * size;
    const size_t out_bytes = (size_t)outputs * size, sum_bytes = (size_t)sums * sizeof(float);
    float *numbers = malloc(sizeof *numbers * (size_t)inputs), *lse = malloc(sum_bytes);
    char *in = malloc(in_bytes), *want = malloc(out_bytes), *have = malloc(out_bytes);
    float *have_lse = malloc(sum_bytes);
    for (int64_t i = 0; i < inputs; i++)
        numbers[i] = (float)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u >> 53) / 512 - 2;
    dtype_convert(in, h->type, numbers, F32, (size_t)inputs);
    kernel_attention_args p = attention_args(h, in, want, lse);
    ref_attention(host, &p);

    char *there = device_bytes(in_bytes + out_bytes + sum_bytes + 1024 + (128 << 10));
    char *o = there + (in_bytes + 255) / 256 * 256, *s = o + (out_bytes + 255) / 256 * 256;
    char *workspace = s + (sum_bytes + 255) / 256 * 256;
    err failure = {0}, e = {0};
    assert_int_equal(cudaMemcpy(there, in, in_bytes, cudaMemcpyHostToDevice), cudaSuccess);
    kernel_call call = {.kind = K_ATTENTION,
                        .u.attention = attention_args(h, there, o, (float *)s)};
    const cuda_context x = {.workspace = workspace,
                            .workspace_bytes = cuda_dnn_attention_workspace(&call.u.attention),
                            .dnn = d,
                            .failure = &failure};
    assert_false(cuda_dnn_attention(&x, &call.u.attention)); // not prepared
    assert_int_equal(cuda_dnn_prepare(d, &call, &e), OK);
    assert_true(cuda_dnn_attention(&x, &call.u.attention));
    assert_int_equal(cudaMemcpy(have, o, out_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(cudaMemcpy(have_lse, s, sum_bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(failure.code, OK);
    assert_true(largest_difference(want, have, h->type, outputs) <
                (h->type == BF16 ? 0.03 : 0.004));
    assert_true(largest_difference(lse, have_lse, F32, sums) < 1e-4);
    call.u.attention.q = (const char *)call.u.attention.q + size;
    assert_false(cuda_dnn_attention(&x, &call.u.attention)); // not aligned
    assert_int_equal(cudaFree(there), cudaSuccess);
    free(numbers), free(lse), free(in), free(want), free(have), free(have_lse);
}

static void attention_equals_the_reference(void **state)
{
    (void)state;
    static const attention_shape shapes[] = {
        {1, 64, 64, 2, 2, 32, BF16, true},   {2, 96, 96, 4, 2, 64, BF16, true},
        {1, 128, 128, 3, 1, 40, F16, false}, {2, 77, 77, 2, 2, 128, F16, true},
        {1, 64, 200, 2, 1, 64, BF16, false},
    };
    struct cuda_dnn *d = NULL;
    cpu_context host;
    err why = {0}, e = {0};
    assert_int_equal(cpu_context_open(&(device_options){.threads = 1}, &host, &e), OK);
    assert_int_equal(cuda_dnn_open(&d, &why, &e), OK);
    assert_non_null(d);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_attention(&host, d, &shapes[i]);
    cuda_dnn_close(d);
    cpu_context_close(&host);
}

static void other_attention_is_not_taken(void **state)
{
    (void)state;
    const attention_shape h = {1, 64, 64, 2, 2, 32, BF16, true};
    kernel_attention_args p = attention_args(&h, NULL, NULL, NULL);
    assert_true(cuda_dnn_attention_workspace(&p) > 0);
    p.dropout.p = 0.1f;
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.queries.start[0] = 64; // context parallelism
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.type = F32;
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.queries = kernel_tokens_from(1, 0); // decoding
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.form.window = 16;
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.form.softcap = 2;
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
    p = attention_args(&h, NULL, NULL, NULL);
    p.sinks = &p;
    assert_int_equal(cuda_dnn_attention_workspace(&p), 0);
}

// ---- cuDNN: a rule is broken

static void descriptors_are_checked(void **state)
{
    (void)state;
    cudnnBackendDescriptor_t t, op;
    const int64_t four[4] = {1, 2, 3, 4}, one = 1;
    const int32_t narrow = 1;
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &t), 0);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_DATA_TYPE, 1, &narrow),
        CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &narrow),
        CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, four), 0);
    assert_int_equal(cudnnBackendFinalize(t), CUDNN_STATUS_BAD_PARAM); // no type, strides, number
    assert_int_equal(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, &op),
                     0);
    assert_int_equal(cudnnBackendSetAttribute(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(
        cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &one), 0);
    cudnnBackendDestroyDescriptor(op);
    cudnnBackendDestroyDescriptor(t);
}

static const dnn_functions DNN = {
#define FUNCTION(name) .name = (name),
    CUDA_DNN_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

enum { DNN_ROWS = 64, DNN_HEADS = 2, DNN_BYTES = DNN_ROWS * 256 * 4 }; // of one array, and more

// Makes a plan of attention with two heads of `width` elements.
static status make_plan(dnn_target *target, int64_t width, size_t workspace_most, dnn_pool *pool,
                        cudnnBackendDescriptor_t *plan, err *e)
{
    const int64_t row = DNN_HEADS * width;
    const dnn_shape s = {.batch = 1,
                         .tq = DNN_ROWS,
                         .tk = DNN_ROWS,
                         .heads = DNN_HEADS,
                         .kv_heads = DNN_HEADS,
                         .head_dim = width,
                         .q_stride = row,
                         .k_stride = row,
                         .v_stride = row,
                         .o_stride = row,
                         .k_batch = DNN_ROWS * row,
                         .v_batch = DNN_ROWS * row,
                         .type = BF16};
    *target = (dnn_target){.f = &DNN};
    if (cudnnCreate(&target->handle) != CUDNN_STATUS_SUCCESS) abort();
    return dnn_attention_plan(target, &s, workspace_most, pool, plan, e);
}

static void drop_plan(const dnn_target *target, dnn_pool *pool)
{
    dnn_pool_clear(&DNN, pool);
    cudnnDestroy(target->handle);
}

static void check_no_plan(int64_t width, size_t workspace_most, const char *line)
{
    dnn_target target;
    dnn_pool pool = {0};
    cudnnBackendDescriptor_t plan = NULL;
    err e = {0};
    assert_int_equal(make_plan(&target, width, workspace_most, &pool, &plan, &e), E_USAGE);
    assert_string_equal(e.text, line);
    drop_plan(&target, &pool);
}

// A head of 36 elements is no multiple of 8: the library has no engine. Each engine needs some workspace or adds in no
// fixed order.
static void an_unsupported_width_has_no_plan(void **state)
{
    (void)state;
    check_no_plan(36, 1 << 20, "cuDNN has no engine for this attention (0 proposed)");
    check_no_plan(32, 255, "cuDNN has no engine for this attention (3 proposed)");
}

// Executes a plan with a q that is `shift` bytes off.
static cudnnStatus_t execute_plan(size_t shift, void *workspace)
{
    dnn_target target;
    dnn_pool pool = {0};
    cudnnBackendDescriptor_t plan = NULL, pack;
    err e = {0};
    float scale = 1;
    void *memory = NULL;
    if (cudaMalloc(&memory, 6 * DNN_BYTES) != cudaSuccess) abort();
    char *m = memory;
    const int64_t uids[] = {DNN_Q, DNN_K, DNN_V, DNN_O, DNN_LSE, DNN_SCALE};
    const void *const addresses[] = {m + shift,         m + DNN_BYTES,     m + 2 * DNN_BYTES,
                                     m + 3 * DNN_BYTES, m + 4 * DNN_BYTES, &scale};
    tape_leave_out(true);
    if (make_plan(&target, 32, 1 << 20, &pool, &plan, &e) != OK) abort();
    cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 6, uids);
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 6,
                             addresses);
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                             &workspace);
    if (cudnnBackendFinalize(pack) != CUDNN_STATUS_SUCCESS) abort();
    const cudnnStatus_t s = cudnnBackendExecute(target.handle, plan, pack);
    cudaDeviceSynchronize();
    cudnnBackendDestroyDescriptor(pack);
    drop_plan(&target, &pool);
    cudaFree(memory);
    tape_leave_out(false);
    return s;
}

static void addresses_of_attention_are_checked(void **state)
{
    (void)state;
    void *workspace = device_bytes(256);
    assert_int_equal(execute_plan(0, workspace), CUDNN_STATUS_SUCCESS);
    assert_int_equal(execute_plan(8, workspace), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    assert_int_equal(execute_plan(0, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudaFree(workspace), cudaSuccess);
}

// The library is not told how large its workspace is.
static void small_workspace_body(void)
{
    void *workspace = NULL;
    CUDA(cudaMalloc(&workspace, 128));
    execute_plan(0, workspace);
}
static void a_small_workspace_of_attention_is_named(void **state)
{
    (void)state;
    child_is_ended(small_workspace_body, "cudnnBackendExecute: workspace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_small_workspace_of_attention_is_named), // before this process starts CUDA
        cmocka_unit_test(types_and_layouts_are_checked),
        cmocka_unit_test(alignment_and_workspace_are_checked),
        cmocka_unit_test(unordered_sums_are_proposed),
        cmocka_unit_test(a_bias_must_be_aligned),
        cmocka_unit_test(bits_of_a_product_depend_on_alignment),
        cmocka_unit_test(code_is_not_loaded_in_a_recording),
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(a_workspace_grows_with_the_rows),
        cmocka_unit_test(attention_equals_the_reference),
        cmocka_unit_test(other_attention_is_not_taken),
        cmocka_unit_test(descriptors_are_checked),
        cmocka_unit_test(an_unsupported_width_has_no_plan),
        cmocka_unit_test(addresses_of_attention_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

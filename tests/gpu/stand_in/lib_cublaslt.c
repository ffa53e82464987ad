// lib_cublaslt.c -- the stand-in of cuBLASLt (include/cublasLt.h). It checks descriptors, leading dimensions,
// alignments, types, epilogues and the workspace as the library's documentation says, and gives the documented
// statuses. A product runs as work of its stream (runtime.h). Every distinct product is written to the tape.
//
// Like the library it proposes algorithms that the caller must not want: one that adds in place by atomics,
// and one with partial sums in the workspace. An algorithm fits one shape, and holds what it was promised. Where a
// matrix is not promised to be aligned to 16 bytes, it adds in another order, as the library's narrow kernels may.
#include "lib_product.h"
#include "runtime.h"
#include "tape.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_ALIGN = 256, VECTOR_ALIGN = 16, SPLIT_FROM = 256, GELU_FROM = 16 };

enum { LOADED_MOST = 4096 };
struct cublasLtContext {
    int device;
    size_t loaded_count;
    uint64_t loaded[LOADED_MOST]; // algorithms whose code is loaded
};

// The words of the opaque structs.
enum { LAYOUT_TYPE, LAYOUT_ROWS, LAYOUT_COLS, LAYOUT_LD };
enum {
    DESC_COMPUTE,
    DESC_SCALE,
    DESC_TRANS_A,
    DESC_TRANS_B,
    DESC_EPILOGUE,
    DESC_BIAS,
    DESC_AUX,
    DESC_AUX_LD
};
enum { PREF_WORKSPACE, PREF_MASK, PREF_ALIGN_A, PREF_ALIGN_B, PREF_ALIGN_C, PREF_ALIGN_D };
enum {
    ALGO_SHAPE,
    ALGO_SCHEME,
    ALGO_SPLITS,
    ALGO_WORKSPACE,
    ALGO_BUDGET,
    ALGO_ALIGN_AB,
    ALGO_ALIGN_CD
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    int device;
    if (cudaGetDevice(&device) != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUBLAS_STATUS_ALLOC_FAILED;
    (*handle)->device = device;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = calloc(1, sizeof **layout);
    if (!*layout) return CUBLAS_STATUS_ALLOC_FAILED;
    (*layout)->data[LAYOUT_TYPE] = (uint64_t)type;
    (*layout)->data[LAYOUT_ROWS] = rows;
    (*layout)->data[LAYOUT_COLS] = cols;
    (*layout)->data[LAYOUT_LD] = (uint64_t)ld;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *desc = calloc(1, sizeof **desc);
    if (!*desc) return CUBLAS_STATUS_ALLOC_FAILED;
    (*desc)->data[DESC_COMPUTE] = (uint64_t)compute;
    (*desc)->data[DESC_SCALE] = (uint64_t)scale;
    (*desc)->data[DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

// Copies an attribute of `size` bytes into a word.
static cublasStatus_t set_word(uint64_t *word, size_t size, const void *buf, size_t bytes)
{
    if (!buf || bytes != size) return CUBLAS_STATUS_INVALID_VALUE;
    *word = 0;
    memcpy(word, buf, size); // the hosts of GPUs are little-endian
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr, const void *buf,
                                              size_t bytes)
{
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set_word(&desc->data[DESC_TRANS_A], 4, buf, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set_word(&desc->data[DESC_TRANS_B], 4, buf, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set_word(&desc->data[DESC_EPILOGUE], 4, buf, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set_word(&desc->data[DESC_BIAS], 8, buf, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return set_word(&desc->data[DESC_AUX], 8, buf, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return set_word(&desc->data[DESC_AUX_LD], 8, buf, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    *pref = calloc(1, sizeof **pref);
    if (!*pref) return CUBLAS_STATUS_ALLOC_FAILED;
    (*pref)->data[PREF_MASK] = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (int i = PREF_ALIGN_A; i <= PREF_ALIGN_D; i++) (*pref)->data[i] = 256;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    free(pref);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *buf, size_t bytes)
{
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set_word(&pref->data[PREF_WORKSPACE], 8, buf, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set_word(&pref->data[PREF_MASK], 4, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return set_word(&pref->data[PREF_ALIGN_A], 4, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return set_word(&pref->data[PREF_ALIGN_B], 4, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return set_word(&pref->data[PREF_ALIGN_C], 4, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set_word(&pref->data[PREF_ALIGN_D], 4, buf, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    void *buf, size_t bytes, size_t *written)
{
    const uint32_t value =
        attr == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME ? (uint32_t)algo->data[ALGO_SCHEME]
        : attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM     ? (uint32_t)algo->data[ALGO_SPLITS]
                                                      : 0;
    if (!buf || bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(buf, &value, sizeof value);
    if (written) *written = sizeof value;
    return CUBLAS_STATUS_SUCCESS;
}

static dtype type_of(uint64_t t)
{
    return t == CUDA_R_16BF ? BF16 : t == CUDA_R_16F ? F16 : F32;
}

static bool is_type(uint64_t t)
{
    return t == CUDA_R_32F || t == CUDA_R_16F || t == CUDA_R_16BF;
}

// The types of the library's table for F32 sums: a and b alike, c and d alike and of the same type or F32.
static bool are_types(const cublasLtMatmulDesc_t op, const uint64_t *a, const uint64_t *b,
                      const uint64_t *c, const uint64_t *d)
{
    const bool tf32 = op->data[DESC_COMPUTE] == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (op->data[DESC_COMPUTE] != CUBLAS_COMPUTE_32F && !tf32) return false;
    if (op->data[DESC_SCALE] != CUDA_R_32F) return false;
    if (!is_type(a[LAYOUT_TYPE]) || a[LAYOUT_TYPE] != b[LAYOUT_TYPE]) return false;
    if (tf32 && a[LAYOUT_TYPE] != CUDA_R_32F) return false;
    if (c[LAYOUT_TYPE] != d[LAYOUT_TYPE]) return false;
    return d[LAYOUT_TYPE] == a[LAYOUT_TYPE] || d[LAYOUT_TYPE] == CUDA_R_32F;
}

static bool is_layout(const uint64_t *x, uint64_t rows, uint64_t cols)
{
    return x[LAYOUT_ROWS] == rows && x[LAYOUT_COLS] == cols && rows > 0 && cols > 0 &&
           x[LAYOUT_LD] >= rows;
}

// Epilogues read and write the bias and the auxiliary matrix 16 bytes at a time.
static cublasStatus_t check_epilogue(const cublasLtMatmulDesc_t op, uint64_t m)
{
    const uint64_t epilogue = op->data[DESC_EPILOGUE], aux = op->data[DESC_AUX];
    const bool bias = epilogue & 4;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS &&
        epilogue != CUBLASLT_EPILOGUE_GELU && epilogue != CUBLASLT_EPILOGUE_GELU_BIAS &&
        epilogue != CUBLASLT_EPILOGUE_GELU_AUX && epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS &&
        epilogue != CUBLASLT_EPILOGUE_DGELU)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bias && op->data[DESC_BIAS] % VECTOR_ALIGN) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!(epilogue & 128)) return CUBLAS_STATUS_SUCCESS;
    if (op->data[DESC_AUX_LD] % 8 || op->data[DESC_AUX_LD] < m) return CUBLAS_STATUS_INVALID_VALUE;
    return aux % VECTOR_ALIGN ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

// Checks the descriptors of a product, and fills what they say. Addresses stay NULL.
static cublasStatus_t describe(const cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a,
                               cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                               cublasLtMatrixLayout_t d, lib_product *p)
{
    if (!op || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    const bool ta = op->data[DESC_TRANS_A] == CUBLAS_OP_T,
               tb = op->data[DESC_TRANS_B] == CUBLAS_OP_T;
    const uint64_t m = d->data[LAYOUT_ROWS], n = d->data[LAYOUT_COLS];
    const uint64_t k = a->data[ta ? LAYOUT_ROWS : LAYOUT_COLS];
    if (!are_types(op, a->data, b->data, c->data, d->data)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!is_layout(a->data, ta ? k : m, ta ? m : k) ||
        !is_layout(b->data, tb ? n : k, tb ? k : n) || !is_layout(c->data, m, n) ||
        !is_layout(d->data, m, n))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (c->data[LAYOUT_LD] != d->data[LAYOUT_LD])
        return CUBLAS_STATUS_NOT_SUPPORTED; // not modelled
    memset(p, 0, sizeof *p);
    p->m = (int64_t)m, p->n = (int64_t)n, p->k = (int64_t)k;
    p->lda = (int64_t)a->data[LAYOUT_LD], p->ldb = (int64_t)b->data[LAYOUT_LD];
    p->ldd = (int64_t)d->data[LAYOUT_LD];
    p->type = type_of(a->data[LAYOUT_TYPE]), p->d_type = type_of(d->data[LAYOUT_TYPE]);
    p->trans_a = ta, p->trans_b = tb;
    p->tf32 = op->data[DESC_COMPUTE] == CUBLAS_COMPUTE_32F_FAST_TF32;
    p->ld_aux = (int64_t)op->data[DESC_AUX_LD];
    p->epilogue = op->data[DESC_EPILOGUE] == CUBLASLT_EPILOGUE_DGELU ? LIB_GELU_GRAD
                  : op->data[DESC_EPILOGUE] & CUBLASLT_EPILOGUE_GELU ? LIB_GELU
                                                                     : LIB_PLAIN;
    return check_epilogue(op, m);
}

// A number for all that an algorithm was proposed for.
static uint64_t shape_hash(const cublasLtMatmulDesc_t op, const lib_product *p)
{
    const uint64_t words[] = {(uint64_t)p->m,
                              (uint64_t)p->n,
                              (uint64_t)p->k,
                              (uint64_t)p->lda,
                              (uint64_t)p->ldb,
                              (uint64_t)p->ldd,
                              p->type,
                              p->d_type,
                              op->data[DESC_TRANS_A],
                              op->data[DESC_TRANS_B],
                              op->data[DESC_EPILOGUE],
                              op->data[DESC_COMPUTE],
                              (uint64_t)p->ld_aux};
    uint64_t h = 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
    return h;
}

static void propose(cublasLtMatmulHeuristicResult_t *r, const cublasLtMatmulPreference_t pref,
                    uint64_t shape, uint64_t scheme, uint64_t splits, uint64_t workspace)
{
    memset(r, 0, sizeof *r);
    r->algo.data[ALGO_SHAPE] = shape;
    r->algo.data[ALGO_SCHEME] = scheme;
    r->algo.data[ALGO_SPLITS] = splits;
    r->algo.data[ALGO_WORKSPACE] = workspace;
    r->algo.data[ALGO_BUDGET] = pref->data[PREF_WORKSPACE];
    r->algo.data[ALGO_ALIGN_AB] = pref->data[PREF_ALIGN_A] << 32 | pref->data[PREF_ALIGN_B];
    r->algo.data[ALGO_ALIGN_CD] = pref->data[PREF_ALIGN_C] << 32 | pref->data[PREF_ALIGN_D];
    r->workspaceSize = workspace;
    r->state = CUBLAS_STATUS_SUCCESS;
    r->wavesCount = 1;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    lib_product p;
    if (!handle || !pref || !results || !count || wanted <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    *count = 0;
    const cublasStatus_t s = describe(op, a, b, c, d, &p);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    // Not every shape has an algorithm with an activation, and no list says which.
    if (p.epilogue != LIB_PLAIN && p.m < GELU_FROM) return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t shape = shape_hash(op, &p), mask = pref->data[PREF_MASK];
    const uint64_t outputs = (uint64_t)(p.m * p.n), splits = p.k >= 4 * SPLIT_FROM ? 4 : 2;
    const uint64_t partial = (splits * outputs * sizeof(float) + 255) / 256 * 256;
    if (mask & CUBLASLT_REDUCTION_SCHEME_INPLACE && p.k >= SPLIT_FROM)
        propose(&results[(*count)++], pref, shape, CUBLASLT_REDUCTION_SCHEME_INPLACE, splits, 0);
    if (mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE && p.k >= SPLIT_FROM && *count < wanted &&
        partial <= pref->data[PREF_WORKSPACE])
        propose(&results[(*count)++], pref, shape, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, splits,
                partial);
    if (*count < wanted)
        propose(&results[(*count)++], pref, shape, CUBLASLT_REDUCTION_SCHEME_NONE, 1, 0);
    return CUBLAS_STATUS_SUCCESS;
}

// A product that waits in its stream.
typedef struct pending {
    lib_product p;
    void *workspace;
    size_t workspace_bytes;
} pending;

// Bytes from the first to the last element of a column-major matrix.
static size_t span(int64_t rows, int64_t cols, int64_t ld, dtype t)
{
    return ((size_t)(cols - 1) * (size_t)ld + (size_t)rows) * dtype_bytes(t);
}

static void run_pending(void *state)
{
    pending *w = state;
    lib_product *p = &w->p;
    stand_in_check_range("cublasLtMatmul: A", p->a,
                         p->trans_a ? span(p->k, p->m, p->lda, p->type)
                                    : span(p->m, p->k, p->lda, p->type));
    stand_in_check_range("cublasLtMatmul: B", p->b,
                         p->trans_b ? span(p->n, p->k, p->ldb, p->type)
                                    : span(p->k, p->n, p->ldb, p->type));
    stand_in_check_range("cublasLtMatmul: D", p->d, span(p->m, p->n, p->ldd, p->d_type));
    if (p->bias)
        stand_in_check_range("cublasLtMatmul: bias", p->bias,
                             (size_t)p->m * dtype_bytes(p->d_type));
    if (p->aux)
        stand_in_check_range("cublasLtMatmul: aux", p->aux, span(p->m, p->n, p->ld_aux, p->d_type));
    if (w->workspace_bytes > 0) {
        stand_in_check_range("cublasLtMatmul: workspace", w->workspace, w->workspace_bytes);
        memset(w->workspace, 0xff, w->workspace_bytes);
    }
    p->partial = w->workspace;
    lib_product_run(p);
    if (w->workspace_bytes > 0) memset(w->workspace, 0xff, w->workspace_bytes);
}

static bool keeps_promise(const void *p, uint64_t align)
{
    return align > 0 && (uintptr_t)p % align == 0;
}

// Is the algorithm one for this call, and are the addresses and the workspace as it needs them?
static cublasStatus_t check_call(const cublasLtMatmulDesc_t op, const lib_product *p,
                                 const cublasLtMatmulAlgo_t *algo, const void *c,
                                 const void *workspace, size_t workspace_bytes)
{
    const uint64_t ab = algo->data[ALGO_ALIGN_AB], cd = algo->data[ALGO_ALIGN_CD];
    if (algo->data[ALGO_SHAPE] != shape_hash(op, p)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!keeps_promise(p->a, ab >> 32) || !keeps_promise(p->b, ab & UINT32_MAX) ||
        !keeps_promise(c, cd >> 32) || !keeps_promise(p->d, cd & UINT32_MAX))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo->data[ALGO_WORKSPACE] > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace_bytes > 0 && (!workspace || (uintptr_t)workspace % WORKSPACE_ALIGN))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (op->data[DESC_EPILOGUE] & 4 && !p->bias) return CUBLAS_STATUS_INVALID_VALUE;
    if (op->data[DESC_EPILOGUE] & 128 && !p->aux) return CUBLAS_STATUS_INVALID_VALUE;
    return c == p->d ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED; // not modelled
}

static bool is_narrow(const cublasLtMatmulAlgo_t *algo)
{
    const uint64_t ab = algo->data[ALGO_ALIGN_AB], cd = algo->data[ALGO_ALIGN_CD];
    return ab >> 32 < VECTOR_ALIGN || (ab & UINT32_MAX) < VECTOR_ALIGN || cd >> 32 < VECTOR_ALIGN ||
           (cd & UINT32_MAX) < VECTOR_ALIGN;
}

static void write_tape(const cublasLtMatmulDesc_t op, const lib_product *p,
                       const cublasLtMatmulAlgo_t *algo)
{
    tape_write("matmul type=%s to=%s compute=%d m=%lld n=%lld k=%lld trans=%c%c ld=%lld,%lld,%lld "
               "align=%d,%d,%d epilogue=%d ld_aux=%lld alpha=%g beta=%g workspace=%llu",
               dtype_name(p->type), dtype_name(p->d_type), (int)op->data[DESC_COMPUTE],
               (long long)p->m, (long long)p->n, (long long)p->k, p->trans_a ? 'T' : 'N',
               p->trans_b ? 'T' : 'N', (long long)p->lda, (long long)p->ldb, (long long)p->ldd,
               (int)(algo->data[ALGO_ALIGN_AB] >> 32),
               (int)(algo->data[ALGO_ALIGN_AB] & UINT32_MAX),
               (int)(algo->data[ALGO_ALIGN_CD] & UINT32_MAX), (int)op->data[DESC_EPILOGUE],
               (long long)p->ld_aux, (double)p->alpha, (double)p->beta,
               (unsigned long long)algo->data[ALGO_BUDGET]);
}

// The code of a kernel is loaded when an algorithm is first launched, which a capture may refuse.
static bool load_code(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t *algo)
{
    const uint64_t code = algo->data[ALGO_SHAPE] + algo->data[ALGO_SCHEME];
    for (size_t i = 0; i < handle->loaded_count; i++)
        if (handle->loaded[i] == code) return true;
    if (stand_in_unsafe_call() != cudaSuccess) return false;
    if (handle->loaded_count == LOADED_MOST) handle->loaded_count = 0;
    handle->loaded[handle->loaded_count++] = code;
    return true;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_desc, const void *b,
                              cublasLtMatrixLayout_t b_desc, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_desc, void *d, cublasLtMatrixLayout_t d_desc,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    lib_product p;
    int device;
    if (!handle || !alpha || !beta || !a || !b || !d || !algo) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t s = describe(op, a_desc, b_desc, c_desc, d_desc, &p);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    p.a = a, p.b = b, p.d = d;
    p.bias = op->data[DESC_EPILOGUE] & 4 ? (const void *)(uintptr_t)op->data[DESC_BIAS] : NULL;
    p.aux = op->data[DESC_EPILOGUE] & 128 ? (void *)(uintptr_t)op->data[DESC_AUX] : NULL;
    p.alpha = *(const float *)alpha, p.beta = *(const float *)beta;
    s = check_call(op, &p, algo, c, workspace, workspace_bytes);
    if (s != CUBLAS_STATUS_SUCCESS) return s;
    if (cudaGetDevice(&device) != cudaSuccess || device != handle->device)
        stand_in_die("cublasLtMatmul: the handle belongs to device %d", handle->device);
    if (algo->data[ALGO_SCHEME] == CUBLASLT_REDUCTION_SCHEME_INPLACE)
        stand_in_die("cublasLtMatmul: the algorithm adds in place by atomics, in no fixed order");
    if (!load_code(handle, algo)) return CUBLAS_STATUS_EXECUTION_FAILED;
    write_tape(op, &p, algo);
    p.splits = (int)algo->data[ALGO_SPLITS];
    p.in_halves = is_narrow(algo);
    pending *w = malloc(sizeof *w);
    if (!w) return CUBLAS_STATUS_ALLOC_FAILED;
    *w = (pending){.p = p, .workspace = workspace, .workspace_bytes = algo->data[ALGO_WORKSPACE]};
    const stand_in_work work = {
        .name = "cublasLtMatmul", .run = run_pending, .release = free, .state = w};
    return stand_in_issue(stream, work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}

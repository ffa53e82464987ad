// cuda_blas.c -- the algorithms of matrix products, and the calls of cuBLASLt. cuda_matmul.c says which
// products come here.
//
// The library's matrices are column-major, ours are row-major. A row-major matrix is the column-major
// transpose of itself with the same leading dimension, so c = a · b is computed as c^T = b^T · a^T: what
// the library calls A is our b, and its m is our n.
#include "device/cuda/libraries/cuda_blas.h"

#include "base/alloc.h"
#include "device/cuda/libraries/cuda_library.h"

#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGN_MOST = 16, // more than this chooses nothing better, and ranks would differ
    PROPOSALS = 8,   // algorithms that the library is asked for
    FIRST_ROOM = 64  // of the table, a power of two
};

// The functions of the library that we call.
#define CUDA_BLAS_FUNCTIONS(F)                                                                     \
    F(cublasLtCreate)                                                                              \
    F(cublasLtDestroy)                                                                             \
    F(cublasLtGetStatusString)                                                                     \
    F(cublasLtMatmul)                                                                              \
    F(cublasLtMatmulAlgoGetHeuristic)                                                              \
    F(cublasLtMatmulAlgoConfigGetAttribute)                                                        \
    F(cublasLtMatmulDescCreate)                                                                    \
    F(cublasLtMatmulDescDestroy)                                                                   \
    F(cublasLtMatmulDescSetAttribute)                                                              \
    F(cublasLtMatmulPreferenceCreate)                                                              \
    F(cublasLtMatmulPreferenceDestroy)                                                             \
    F(cublasLtMatmulPreferenceSetAttribute)                                                        \
    F(cublasLtMatrixLayoutCreate)                                                                  \
    F(cublasLtMatrixLayoutDestroy)

#define MEMBER(name) __typeof__(&name) name;
typedef struct blas_functions {
    CUDA_BLAS_FUNCTIONS(MEMBER)
} blas_functions;
#undef MEMBER

#define SYMBOL(name) {#name, offsetof(blas_functions, name)},
static const cuda_symbol SYMBOLS[] = {CUDA_BLAS_FUNCTIONS(SYMBOL)};
#undef SYMBOL

// The properties of a product that choose its algorithm. Padding bytes are zero, so that keys are compared as bytes.
typedef struct blas_key {
    int64_t m, n, k, lda, ldb, ldc;
    uint64_t workspace_bytes;
    uint16_t epilogue; // the library's word
    uint8_t type, c_type, trans_a, trans_b, tf32;
    uint8_t align_a, align_b, align_c; // bytes that divide the addresses
} blas_key;

// A shape, ready to be launched.
typedef struct blas_product {
    blas_key key;
    cublasLtMatmulDesc_t op; // NULL: an empty place of the table
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    bool is_refused; // the library has no algorithm for it together with its activation
} blas_product;

struct cuda_blas {
    blas_functions f;
    cublasLtHandle_t handle;
    blas_product *products; // [room], a hash table with linear probing
    size_t room, count;
};

static cudaDataType_t data_type(dtype t)
{
    return t == BF16 ? CUDA_R_16BF : t == F16 ? CUDA_R_16F : CUDA_R_32F;
}

static uint8_t alignment(const void *p)
{
    const uintptr_t a = (uintptr_t)p | ALIGN_MOST;
    return (uint8_t)(a & -a);
}

// The library adds the bias, writes or reads aux, and computes the GELU, in that order.
static uint16_t epilogue_of(const kernel_matmul_args *p)
{
    const int bias = p->bias ? CUBLASLT_EPILOGUE_BIAS : 0;
    switch (p->epilogue) {
    case EPILOGUE_ACTIVATION:
        return (uint16_t)((p->aux ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU) | bias);
    case EPILOGUE_ACTIVATION_GRAD:
        return CUBLASLT_EPILOGUE_DGELU;
    case EPILOGUE_NONE:
        break;
    }
    return (uint16_t)(bias ? bias : CUBLASLT_EPILOGUE_DEFAULT);
}

static bool has_bias(const blas_key *k)
{
    return k->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

static bool has_activation(const blas_key *k)
{
    return k->epilogue != CUBLASLT_EPILOGUE_DEFAULT && k->epilogue != CUBLASLT_EPILOGUE_BIAS;
}

static bool has_aux(const blas_key *k)
{
    return has_activation(k) && (k->epilogue & ~CUBLASLT_EPILOGUE_BIAS) != CUBLASLT_EPILOGUE_GELU;
}

static blas_key key_of(const kernel_matmul_args *p)
{
    blas_key k;
    memset(&k, 0, sizeof k);
    k.m = p->m, k.n = p->n, k.k = p->k;
    k.lda = p->lda, k.ldb = p->ldb, k.ldc = p->ldc;
    k.workspace_bytes = cuda_matmul_workspace(p);
    k.type = (uint8_t)p->type, k.c_type = (uint8_t)p->c_type;
    k.trans_a = p->trans_a, k.trans_b = p->trans_b;
    k.epilogue = epilogue_of(p);
    k.tf32 = p->tf32 && p->type == F32;
    k.align_a = alignment(p->a), k.align_b = alignment(p->b), k.align_c = alignment(p->c);
    return k;
}

static size_t hash_of(const blas_key *k)
{
    const unsigned char *bytes = (const unsigned char *)k;
    uint64_t h = UINT64_C(0xcbf29ce484222325); // FNV-1a
    for (size_t i = 0; i < sizeof *k; i++) h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 32);
}

// The place of the key in the table: its product, or an empty one.
static blas_product *slot_of(blas_product *products, size_t room, const blas_key *k)
{
    size_t i = hash_of(k) & (room - 1);
    while (products[i].op && memcmp(&products[i].key, k, sizeof *k) != 0) i = (i + 1) & (room - 1);
    return &products[i];
}

static status check(const struct cuda_blas *b, cublasStatus_t s, const char *call, err *e)
{
    if (s == CUBLAS_STATUS_SUCCESS) return OK;
    const status code = s == CUBLAS_STATUS_ALLOC_FAILED ? E_MEMORY : E_INTERNAL;
    return err_set(e, code, "cuBLASLt: %s gave %s", call, b->f.cublasLtGetStatusString(s));
}
#define LT(b, name, ...) check(b, (b)->f.name(__VA_ARGS__), #name, e)

// Puts the tables' room to at least twice its count.
static status grow(struct cuda_blas *b, err *e)
{
    status result = OK;
    blas_product *more = NULL;
    if (b->count * 2 < b->room) return OK;
    const size_t room = b->room ? b->room * 2 : FIRST_ROOM;
    TRY(alloc_zeroed(&more, room, sizeof *more, "the algorithms of products", e));
    for (size_t i = 0; i < b->room; i++)
        if (b->products[i].op) *slot_of(more, room, &b->products[i].key) = b->products[i];
    free(b->products);
    b->products = more;
    b->room = room;
done:
    return result;
}

static void destroy_product(const struct cuda_blas *b, blas_product *q)
{
    if (q->op) b->f.cublasLtMatmulDescDestroy(q->op);
    if (q->a) b->f.cublasLtMatrixLayoutDestroy(q->a);
    if (q->b) b->f.cublasLtMatrixLayoutDestroy(q->b);
    if (q->c) b->f.cublasLtMatrixLayoutDestroy(q->c);
}

static status describe_operation(const struct cuda_blas *b, blas_product *q, err *e)
{
    status result = OK;
    const blas_key *k = &q->key;
    const int32_t trans_a = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t trans_b = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint32_t epilogue = k->epilogue;
    // The heuristic reads addresses for their alignment only.
    const void *aligned = (const void *)(uintptr_t)ALIGN_MOST;
    const cublasComputeType_t math = k->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    TRY(LT(b, cublasLtMatmulDescCreate, &q->op, math, CUDA_R_32F));
    TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_TRANSA, &trans_a,
           sizeof trans_a));
    TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_TRANSB, &trans_b,
           sizeof trans_b));
    TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
           sizeof epilogue));
    if (has_bias(k))
        TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
               &aligned, sizeof aligned));
    if (has_aux(k)) {
        TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
               &aligned, sizeof aligned));
        TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
               &k->ldc, sizeof k->ldc));
    }
done:
    return result;
}

static status describe_matrices(const struct cuda_blas *b, blas_product *q, err *e)
{
    status result = OK;
    const blas_key *k = &q->key;
    const cudaDataType_t type = data_type((dtype)k->type), c_type = data_type((dtype)k->c_type);
    const uint64_t m = (uint64_t)k->m, n = (uint64_t)k->n, depth = (uint64_t)k->k;
    TRY(LT(b, cublasLtMatrixLayoutCreate, &q->a, type, k->trans_b ? depth : n,
           k->trans_b ? n : depth, k->ldb));
    TRY(LT(b, cublasLtMatrixLayoutCreate, &q->b, type, k->trans_a ? m : depth,
           k->trans_a ? depth : m, k->lda));
    TRY(LT(b, cublasLtMatrixLayoutCreate, &q->c, c_type, n, m, k->ldc));
done:
    return result;
}

static status set_preference(const struct cuda_blas *b, cublasLtMatmulPreference_t w,
                             const blas_key *k, err *e)
{
    status result = OK;
    const uint32_t a = k->align_b, bb = k->align_a, c = k->align_c;
    // Partial sums lie in the workspace and are added in order. In-place sums use atomics.
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
           &k->workspace_bytes, sizeof k->workspace_bytes));
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           &reduction, sizeof reduction));
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
           &a, sizeof a));
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
           &bb, sizeof bb));
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
           &c, sizeof c));
    TRY(LT(b, cublasLtMatmulPreferenceSetAttribute, w, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
           &c, sizeof c));
done:
    return result;
}

// Returns whether the algorithm adds in a fixed order, within the workspace.
static bool is_usable(const struct cuda_blas *b, const cublasLtMatmulHeuristicResult_t *r,
                      const blas_key *k)
{
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    size_t written = 0;
    if (r->state != CUBLAS_STATUS_SUCCESS || r->workspaceSize > k->workspace_bytes) return false;
    if (b->f.cublasLtMatmulAlgoConfigGetAttribute(&r->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                  &scheme, sizeof scheme,
                                                  &written) != CUBLAS_STATUS_SUCCESS)
        return false;
    return scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
           scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

static status choose_algorithm(const struct cuda_blas *b, blas_product *q, err *e)
{
    status result = OK;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t proposed[PROPOSALS];
    const blas_key *k = &q->key;
    int count = 0, i = 0;
    TRY(LT(b, cublasLtMatmulPreferenceCreate, &preference));
    TRY(set_preference(b, preference, k, e));
    memset(proposed, 0, sizeof proposed);
    const cublasStatus_t s = b->f.cublasLtMatmulAlgoGetHeuristic(
        b->handle, q->op, q->a, q->b, q->c, q->c, preference, PROPOSALS, proposed, &count);
    while (s == CUBLAS_STATUS_SUCCESS && i < count && !is_usable(b, &proposed[i], k)) i++;
    const bool found = s == CUBLAS_STATUS_SUCCESS && i < count;
    q->is_refused = !found && has_activation(k);
    if (!found && !q->is_refused)
        FAIL(E_INTERNAL,
             "cuBLASLt has no algorithm for m=%ld n=%ld k=%ld lda=%ld ldb=%ld ldc=%ld of %s to %s "
             "(%s, "
             "%d proposed)",
             (long)k->m, (long)k->n, (long)k->k, (long)k->lda, (long)k->ldb, (long)k->ldc,
             dtype_name((dtype)k->type), dtype_name((dtype)k->c_type),
             b->f.cublasLtGetStatusString(s), count);
    if (found) q->algo = proposed[i].algo;
done:
    if (preference) b->f.cublasLtMatmulPreferenceDestroy(preference);
    return result;
}

// The product of these arguments, made where it is new.
static status find(struct cuda_blas *b, const kernel_matmul_args *p, blas_product **out, err *e)
{
    status result = OK;
    const blas_key key = key_of(p);
    blas_product made;
    memset(&made, 0, sizeof made);
    TRY(grow(b, e));
    *out = slot_of(b->products, b->room, &key);
    if ((*out)->op) return OK;
    made.key = key;
    TRY(describe_operation(b, &made, e));
    TRY(describe_matrices(b, &made, e));
    TRY(choose_algorithm(b, &made, e));
    **out = made;
    b->count++;
done:
    if (result != OK) destroy_product(b, &made);
    return result;
}

status cuda_blas_joins(struct cuda_blas *b, const kernel_matmul_args *p, bool *joins, err *e)
{
    status result = OK;
    blas_product *q = NULL;
    *joins = false;
    if (!cuda_matmul_may_join(p)) return OK;
    TRY(find(b, p, &q, e));
    *joins = !q->is_refused;
done:
    return result;
}

status cuda_blas_prepare(struct cuda_blas *b, const kernel_call *c, err *e)
{
    status result = OK;
    kernel_matmul_args product, piece[CUDA_MATMUL_PIECES];
    blas_product *found;
    bool joins = false;
    if (c->kind != K_MATMUL || c->u.matmul.m <= 0 || c->u.matmul.n <= 0) return OK;
    TRY(cuda_blas_joins(b, &c->u.matmul, &joins, e));
    if (joins) return OK;
    const kernel_matmul_args plain = cuda_matmul_without_epilogue(&c->u.matmul);
    cuda_matmul_split(&plain, &product);
    const int count = product.k > 0 ? cuda_matmul_pieces(&product, piece) : 0;
    for (int i = 0; i < count; i++) TRY(find(b, &piece[i], &found, e));
done:
    return result;
}

// The library loads the code of a kernel when it is first launched. A thread that records may not do that,
// except in the relaxed mode.
static cublasStatus_t launch(const cuda_context *x, const kernel_matmul_args *p,
                             const blas_product *q)
{
    const struct cuda_blas *b = x->blas;
    const float one = 1.0f, beta = p->accumulate ? 1.0f : 0.0f;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    const cublasStatus_t s = b->f.cublasLtMatmul(
        b->handle, q->op, &one, p->b, q->a, p->a, q->b, &beta, p->c, q->c, p->c, q->c, &q->algo,
        x->workspace, (size_t)q->key.workspace_bytes, x->stream);
    cudaThreadExchangeStreamCaptureMode(&mode);
    return s;
}

status cuda_blas_multiply(const cuda_context *x, const kernel_matmul_args *p, err *e)
{
    status result = OK;
    struct cuda_blas *b = x->blas;
    blas_product *q = NULL;
    TRY(find(b, p, &q, e));
    if (x->workspace_bytes < q->key.workspace_bytes)
        FAIL(E_INTERNAL, "a product needs %zu bytes of workspace and has %zu",
             (size_t)q->key.workspace_bytes, x->workspace_bytes);
    if (p->bias)
        TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
               &p->bias, sizeof p->bias));
    if (has_aux(&q->key))
        TRY(LT(b, cublasLtMatmulDescSetAttribute, q->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
               &p->aux, sizeof p->aux));
    TRY(check(b, launch(x, p, q), "cublasLtMatmul", e));
done:
    return result;
}

status cuda_blas_open(struct cuda_blas **out, err *e)
{
    status result = OK;
    struct cuda_blas *b = NULL;
    TRY(alloc_zeroed(&b, 1, sizeof *b, "the state of matrix products", e));
    TRY(cuda_library_fill(CUDA_LIBRARY_CUBLASLT, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &b->f,
                          e));
    TRY(LT(b, cublasLtCreate, &b->handle));
    *out = b;
    b = NULL;
done:
    cuda_blas_close(b);
    return result;
}

void cuda_blas_close(struct cuda_blas *b)
{
    if (!b) return;
    for (size_t i = 0; i < b->room; i++) destroy_product(b, &b->products[i]);
    if (b->handle) b->f.cublasLtDestroy(b->handle);
    free(b->products);
    free(b);
}

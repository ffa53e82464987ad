// cuda_dnn.c -- which attention cuDNN computes, its plans, and their launch. cuda_dnn_graph.c makes plans.
// cuda_attention asks here first.
//
// The gradient is never taken: cuDNN's adds dq by atomics, in no fixed order, and our own kernel does not.
#include "device/cuda/cuda_dnn.h"

#include "base/alloc.h"
#include "device/cuda/cuda_dnn_graph.h"
#include "device/cuda/cuda_library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION_LEAST = 91100, // 9.11: earlier ones want another value for a masked score
    HEAD_MOST = 128,
    QUERIES_LEAST = 64, // fewer rows do not fill a tile; our own kernels are made for them
    ALIGN = 16,
    WORKSPACE = 64 << 10 // of one call; plans that need more are not used
};

// A shape that cuDNN was asked for. plan NULL: it has none, and our own kernel does the work.
typedef struct dnn_plan {
    dnn_shape shape;
    cudnnBackendDescriptor_t plan;
    dnn_pool pool;
} dnn_plan;

struct cuda_dnn {
    dnn_functions f;
    cudnnHandle_t handle;
    dnn_plan *plans; // a model has a few shapes
    size_t count, room;
};

#define SYMBOL(name) {#name, offsetof(dnn_functions, name)},
static const cuda_symbol SYMBOLS[] = {CUDA_DNN_FUNCTIONS(SYMBOL)};
#undef SYMBOL

static bool is_aligned(const void *p)
{
    return (uintptr_t)p % ALIGN == 0;
}

// Does cuDNN take the shape? The addresses are not looked at.
static bool is_taken(const kernel_attention_args *p)
{
    const kernel_tokens *q = &p->queries;
    // Every query's position is its number: no context parallelism, no earlier tokens.
    const bool plain = q->chunk == q->seq && q->start[0] == 0;
    const int64_t strides =
        p->q_stride | p->k_stride | p->v_stride | p->o_stride | p->k_batch | p->v_batch;
    return (p->type == BF16 || p->type == F16) && p->dropout.p == 0 && p->batch > 0 && p->tk > 0 &&
           q->seq >= QUERIES_LEAST && (!p->causal || plain) && p->heads % p->kv_heads == 0 &&
           p->head_dim % 8 == 0 && p->head_dim <= HEAD_MOST && strides % 8 == 0;
}

static dnn_shape shape_of(const kernel_attention_args *p)
{
    dnn_shape s;
    memset(&s, 0, sizeof s);
    s.batch = p->batch, s.tq = p->queries.seq, s.tk = p->tk;
    s.heads = p->heads, s.kv_heads = p->kv_heads, s.head_dim = p->head_dim;
    s.q_stride = p->q_stride, s.k_stride = p->k_stride, s.v_stride = p->v_stride;
    s.o_stride = p->o_stride, s.k_batch = p->k_batch, s.v_batch = p->v_batch;
    s.type = p->type, s.causal = p->causal;
    return s;
}

static const dnn_plan *find(const struct cuda_dnn *d, const dnn_shape *s)
{
    for (size_t i = 0; i < d->count; i++)
        if (memcmp(&d->plans[i].shape, s, sizeof *s) == 0) return &d->plans[i];
    return NULL;
}

size_t cuda_dnn_attention_workspace(const kernel_attention_args *p)
{
    return is_taken(p) ? WORKSPACE : 0;
}

status cuda_dnn_prepare(struct cuda_dnn *d, const kernel_call *c, err *e)
{
    status result = OK;
    err refused = {0};
    if (!d || c->kind != K_ATTENTION || !is_taken(&c->u.attention)) return OK;
    const dnn_shape s = shape_of(&c->u.attention);
    if (find(d, &s)) return OK;
    TRY(alloc_grow(&d->plans, &d->room, d->count + 1, sizeof *d->plans, "the plans of attention",
                   e));
    dnn_plan *new = &d->plans[d->count++];
    *new = (dnn_plan){.shape = s};
    const dnn_target target = {.f = &d->f, .handle = d->handle};
    const status made =
        dnn_attention_plan(&target, &s, WORKSPACE, &new->pool, &new->plan, &refused);
    if (made == OK) return OK;
    new->plan = NULL;
    dnn_pool_clear(&d->f, &new->pool);
    if (made == E_MEMORY) {
        if (e) *e = refused;
        result = made;
    }
done:
    return result;
}

// Issues a plan: gives it the addresses, in the order of the DNN_ numbers.
static cudnnStatus_t execute(const cuda_context *x, const dnn_plan *plan,
                             const kernel_attention_args *p)
{
    const struct cuda_dnn *d = x->dnn;
    cudnnBackendDescriptor_t pack = NULL;
    float scale = p->scale, masked = -INFINITY;
    const int64_t uids[] = {DNN_Q, DNN_K, DNN_V, DNN_O, DNN_LSE, DNN_SCALE, DNN_MASKED};
    const void *const addresses[] = {p->q, p->k, p->v, p->o, p->lse, &scale, &masked};
    const int64_t count = p->causal ? 7 : 6;
    cudnnStatus_t s = d->f.cudnnSetStream(d->handle, x->stream);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, count, uids);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, count, addresses);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &x->workspace);
    if (s == CUDNN_STATUS_SUCCESS) s = d->f.cudnnBackendFinalize(pack);
    // As cuda_blas.c: the library may load code at the first launch, also while the thread records.
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (s == CUDNN_STATUS_SUCCESS) s = d->f.cudnnBackendExecute(d->handle, plan->plan, pack);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (pack) d->f.cudnnBackendDestroyDescriptor(pack);
    return s;
}

bool cuda_dnn_attention(const cuda_context *x, const kernel_attention_args *p)
{
    if (!x->dnn || !is_taken(p) || x->workspace_bytes < WORKSPACE) return false;
    if (!is_aligned(p->q) || !is_aligned(p->k) || !is_aligned(p->v) || !is_aligned(p->o) ||
        !is_aligned(p->lse))
        return false;
    const dnn_shape shape = shape_of(p);
    const dnn_plan *plan = find(x->dnn, &shape);
    if (!plan || !plan->plan) return false;
    const cudnnStatus_t s = execute(x, plan, p);
    if (s != CUDNN_STATUS_SUCCESS)
        cuda_failed(x, "attention by cuDNN", x->dnn->f.cudnnGetErrorString(s));
    return true;
}

status cuda_dnn_open(struct cuda_dnn **out, err *why, err *e)
{
    status result = OK;
    struct cuda_dnn *d = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, "the state of cuDNN", e));
    if (cuda_library_fill(CUDA_LIBRARY_CUDNN, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &d->f,
                          why) != OK)
        goto done;
    const size_t version = d->f.cudnnGetVersion();
    if (version < VERSION_LEAST) {
        err_set(why, E_USAGE, "cuDNN %zu.%zu is too old; valid is %d.%d or later", version / 10000,
                version / 100 % 100, VERSION_LEAST / 10000, VERSION_LEAST / 100 % 100);
        goto done;
    }
    const cudnnStatus_t s = d->f.cudnnCreate(&d->handle);
    if (s != CUDNN_STATUS_SUCCESS) {
        err_set(why, E_USAGE, "cuDNN: cudnnCreate gave %s", d->f.cudnnGetErrorString(s));
        goto done;
    }
    *out = d;
    d = NULL;
done:
    cuda_dnn_close(d);
    return result;
}

void cuda_dnn_close(struct cuda_dnn *d)
{
    if (!d) return;
    for (size_t i = 0; i < d->count; i++) dnn_pool_clear(&d->f, &d->plans[i].pool);
    if (d->handle) d->f.cudnnDestroy(d->handle);
    free(d->plans);
    free(d);
}

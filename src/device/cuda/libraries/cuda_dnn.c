// cuda_dnn.c -- which attention cuDNN computes, its plans, and their launch. cuda_dnn_graph.c makes plans.
// cuda_attention and cuda_attention_grad ask here first.
//
// The gradient is taken only where the call lets sums be added in any order: cuDNN's adds dq by atomics, and our
// own kernel does not.
#include "device/cuda/libraries/cuda_dnn.h"

#include "base/alloc.h"
#include "base/size.h"
#include "device/cuda/libraries/cuda_dnn_graph.h"
#include "device/cuda/libraries/cuda_library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION_LEAST = 91100, // 9.11: earlier ones want another value for a masked score
    ALIGN = 16,
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

static dnn_shape shape_of(const kernel_attention_args *p, bool gradient)
{
    dnn_shape s;
    memset(&s, 0, sizeof s);
    s.batch = p->batch, s.tq = p->queries.seq, s.tk = p->tk;
    s.heads = p->heads, s.kv_heads = p->kv_heads, s.head_dim = p->head_dim;
    s.q_stride = p->q_stride, s.k_stride = p->k_stride, s.v_stride = p->v_stride;
    s.o_stride = p->o_stride, s.k_batch = p->k_batch, s.v_batch = p->v_batch;
    s.type = p->type, s.causal = p->causal, s.gradient = gradient;
    return s;
}

static const dnn_plan *find(const struct cuda_dnn *d, const dnn_shape *s)
{
    for (size_t i = 0; i < d->count; i++)
        if (memcmp(&d->plans[i].shape, s, sizeof *s) == 0) return &d->plans[i];
    return NULL;
}

// Makes the plan of a shape, where it is new.
static status prepare_shape(struct cuda_dnn *d, const dnn_shape *s, size_t workspace_most, err *e)
{
    status result = OK;
    err refused = {0};
    if (find(d, s)) return OK;
    TRY(alloc_grow(&d->plans, &d->room, d->count + 1, sizeof *d->plans, "the plans of attention",
                   e));
    dnn_plan *new = &d->plans[d->count++];
    *new = (dnn_plan){.shape = *s};
    const dnn_target target = {.f = &d->f, .handle = d->handle};
    const status made =
        dnn_attention_plan(&target, s, workspace_most, &new->pool, &new->plan, &refused);
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

status cuda_dnn_prepare(struct cuda_dnn *d, const kernel_call *c, err *e)
{
    if (!d) return OK;
    if (c->kind == K_ATTENTION && cuda_dnn_takes(&c->u.attention)) {
        const dnn_shape s = shape_of(&c->u.attention, false);
        return prepare_shape(d, &s, CUDA_DNN_WORKSPACE, e);
    }
    if (c->kind == K_ATTENTION_GRAD && c->u.attention_grad.any_order &&
        cuda_dnn_takes(&c->u.attention_grad.fwd)) {
        const kernel_attention_args *p = &c->u.attention_grad.fwd;
        const dnn_shape s = shape_of(p, true);
        return prepare_shape(d, &s, cuda_dnn_gradient_workspace(p), e);
    }
    return OK;
}

// The tensors of a call, by their DNN_ numbers, and the library's workspace.
typedef struct dnn_call {
    int64_t uids[DNN_INNER];
    const void *addresses[DNN_INNER];
    int64_t count;
    void *workspace;
} dnn_call;

static void add(dnn_call *c, int64_t uid, const void *address)
{
    c->uids[c->count] = uid;
    c->addresses[c->count++] = address;
}

// Issues a plan.
static cudnnStatus_t execute(const cuda_context *x, const dnn_plan *plan, const dnn_call *call)
{
    const struct cuda_dnn *d = x->dnn;
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t s = d->f.cudnnSetStream(d->handle, x->stream);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, call->count, call->uids);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, call->count, call->addresses);
    if (s == CUDNN_STATUS_SUCCESS)
        s = d->f.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &call->workspace);
    if (s == CUDNN_STATUS_SUCCESS) s = d->f.cudnnBackendFinalize(pack);
    // As cuda_blas.c: the library may load code at the first launch, also while the thread records.
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (s == CUDNN_STATUS_SUCCESS) s = d->f.cudnnBackendExecute(d->handle, plan->plan, pack);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (pack) d->f.cudnnBackendDestroyDescriptor(pack);
    return s;
}

// The plan of a call whose tensors are aligned; NULL: the own kernel does the work.
static const dnn_plan *plan_of(const cuda_context *x, const kernel_attention_args *p, bool gradient)
{
    const dnn_shape shape = shape_of(p, gradient);
    if (!is_aligned(p->q) || !is_aligned(p->k) || !is_aligned(p->v) || !is_aligned(p->o) ||
        !is_aligned(p->lse))
        return NULL;
    const dnn_plan *plan = find(x->dnn, &shape);
    return plan && plan->plan ? plan : NULL;
}

bool cuda_dnn_attention(const cuda_context *x, const kernel_attention_args *p)
{
    float scale = p->scale, masked = -INFINITY;
    dnn_call c = {.workspace = x->workspace};
    if (!x->dnn || !cuda_dnn_takes(p) || x->workspace_bytes < CUDA_DNN_WORKSPACE) return false;
    const dnn_plan *plan = plan_of(x, p, false);
    if (!plan) return false;
    add(&c, DNN_Q, p->q), add(&c, DNN_K, p->k), add(&c, DNN_V, p->v), add(&c, DNN_O, p->o);
    add(&c, DNN_LSE, p->lse), add(&c, DNN_SCALE, &scale);
    if (p->causal) add(&c, DNN_MASKED, &masked);
    const cudnnStatus_t s = execute(x, plan, &c);
    if (s != CUDNN_STATUS_SUCCESS)
        cuda_failed(x, "attention by cuDNN", x->dnn->f.cudnnGetErrorString(s));
    return true;
}

bool cuda_dnn_attention_grad(const cuda_context *x, const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    float scale = p->scale, masked = -INFINITY, one = 1;
    const size_t sums = cuda_dnn_gradient_sums(p);
    if (!x->dnn || !g->any_order || !cuda_dnn_takes(p) ||
        x->workspace_bytes < cuda_dnn_attention_grad_workspace(g) || !is_aligned(g->d_o) ||
        !is_aligned(g->dq) || !is_aligned(g->dk) || !is_aligned(g->dv))
        return false;
    const dnn_plan *plan = plan_of(x, p, true);
    if (!plan) return false;
    dnn_call c = {.workspace = (char *)x->workspace + sums};
    add(&c, DNN_Q, p->q), add(&c, DNN_K, p->k), add(&c, DNN_V, p->v), add(&c, DNN_O, p->o);
    add(&c, DNN_LSE, p->lse), add(&c, DNN_SCALE, &scale), add(&c, DNN_ONE, &one);
    add(&c, DNN_DO, g->d_o), add(&c, DNN_DQ, g->dq), add(&c, DNN_DK, g->dk), add(&c, DNN_DV, g->dv);
    add(&c, DNN_DQ_SUM, x->workspace);
    if (p->causal) add(&c, DNN_MASKED, &masked);
    const cudaError_t zeroed = cudaMemsetAsync(x->workspace, 0, sums, x->stream);
    const cudnnStatus_t s = zeroed == cudaSuccess ? execute(x, plan, &c) : CUDNN_STATUS_SUCCESS;
    if (zeroed != cudaSuccess)
        cuda_failed(x, "attention_grad by cuDNN", cudaGetErrorString(zeroed));
    else if (s != CUDNN_STATUS_SUCCESS)
        cuda_failed(x, "attention_grad by cuDNN", x->dnn->f.cudnnGetErrorString(s));
    return true;
}

static status find_functions(dnn_functions *f, err *e)
{
    status result = OK;
    TRY(cuda_library_fill(CUDA_LIBRARY_CUDNN, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, f, e));
    const size_t version = f->cudnnGetVersion();
    if (version < VERSION_LEAST)
        FAIL(E_USAGE, "cuDNN %zu.%zu is too old; valid is %d.%d or later", version / 10000,
             version / 100 % 100, VERSION_LEAST / 10000, VERSION_LEAST / 100 % 100);
done:
    return result;
}

status cuda_dnn_find(err *e)
{
    dnn_functions f;
    return find_functions(&f, e);
}

status cuda_dnn_open(struct cuda_dnn **out, err *why, err *e)
{
    status result = OK;
    struct cuda_dnn *d = NULL;
    *out = NULL;
    TRY(alloc_zeroed(&d, 1, sizeof *d, "the state of cuDNN", e));
    if (find_functions(&d->f, why) != OK) goto done;
    const cudnnStatus_t s = d->f.cudnnCreate(&d->handle);
    if (s != CUDNN_STATUS_SUCCESS)
        FAIL(E_USAGE, "cuDNN: cudnnCreate gave %s; valid: a cuDNN that works, or none",
             d->f.cudnnGetErrorString(s));
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

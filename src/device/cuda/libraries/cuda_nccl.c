// cuda_nccl.c -- the collectives of NCCL. See cuda_nccl.h. All cliques are opened as non-blocking, so no call waits
// inside of NCCL, and abort can end them from another thread. Called by the communicator nccl, through device_ops.
#include "device/cuda/libraries/cuda_nccl.h"

#include "base/alloc.h"
#include "device/cuda/cuda_own.h"
#include "device/cuda/libraries/cuda_library.h"
#include "device/cuda/libraries/cuda_nccl_abi.h"

#include <stdlib.h>
#include <string.h>

#define CUDA_NCCL_FUNCTIONS(F)                                                                     \
    F(ncclGetVersion)                                                                              \
    F(ncclGetErrorString)                                                                          \
    F(ncclGetLastError)                                                                            \
    F(ncclGetUniqueId)                                                                             \
    F(ncclCommInitRankConfig)                                                                      \
    F(ncclCommGetAsyncError)                                                                       \
    F(ncclCommFinalize)                                                                            \
    F(ncclCommDestroy)                                                                             \
    F(ncclCommAbort)                                                                               \
    F(ncclAllReduce)                                                                               \
    F(ncclReduceScatter)                                                                           \
    F(ncclAllGather)                                                                               \
    F(ncclBroadcast)                                                                               \
    F(ncclSend)                                                                                    \
    F(ncclRecv)                                                                                    \
    F(ncclGroupStart)                                                                              \
    F(ncclGroupEnd)

#define MEMBER(name) __typeof__(&name) name;
typedef struct nccl_functions {
    CUDA_NCCL_FUNCTIONS(MEMBER)
} nccl_functions;
#undef MEMBER

struct cuda_nccl {
    nccl_functions f;
    __typeof__(&ncclCommSplit) split; // NULL: the library has none
    int version;
};

struct device_clique {
    const cuda_device *device;
    ncclComm_t handle;
};

#define SYMBOL(name) {#name, offsetof(nccl_functions, name)},
static const cuda_symbol SYMBOLS[] = {CUDA_NCCL_FUNCTIONS(SYMBOL)};
#undef SYMBOL

static const nccl_functions *functions_of(const device_clique *c)
{
    return &c->device->nccl->f;
}

// The text of NCCL's last warning says more than its code: which environment variable, which rank, which GPU.
static status check(const cuda_device *d, ncclComm_t handle, ncclResult_t code, const char *what,
                    err *e)
{
    if (code == ncclSuccess || code == ncclInProgress) return OK;
    const nccl_functions *f = &d->nccl->f;
    const char *last = f->ncclGetLastError(handle);
    const status result = code == ncclRemoteError    ? E_PEER
                          : code == ncclInvalidUsage ? E_USAGE
                          : code == ncclSystemError  ? E_IO
                                                     : E_INTERNAL;
    return err_set(e, result, "%s: %s: %s%s%s", d->label, what, f->ncclGetErrorString(code),
                   last && *last ? ": " : "", last ? last : "");
}

// ---- Opening

static status open_library(device *base, int *version, err *e)
{
    status result = OK;
    cuda_device *d = (cuda_device *)base;
    cuda_nccl *n = NULL;
    if (!d->nccl) {
        TRY(alloc_zeroed(&n, 1, sizeof *n, "NCCL", e));
        TRY(cuda_library_fill(CUDA_LIBRARY_NCCL, SYMBOLS, sizeof SYMBOLS / sizeof *SYMBOLS, &n->f,
                              e));
        const cuda_function split = cuda_library_find(CUDA_LIBRARY_NCCL, "ncclCommSplit");
        memcpy(&n->split, &split, sizeof split);
        if (n->f.ncclGetVersion(&n->version) != ncclSuccess)
            FAIL(E_INTERNAL, "NCCL does not tell its version");
        d->nccl = n;
        n = NULL;
    }
    *version = d->nccl->version;
done:
    free(n);
    return result;
}

void cuda_nccl_close(cuda_nccl *n)
{
    free(n);
}

static status make_id(device *base, device_clique_id *out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    ncclUniqueId id;
    _Static_assert(sizeof id == sizeof *out, "an id is plain bytes");
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(check(d, NULL, d->nccl->f.ncclGetUniqueId(&id), "ncclGetUniqueId", e));
    memcpy(out, &id, sizeof id);
done:
    return result;
}

static ncclConfig_t config(void)
{
    return (ncclConfig_t){.size = sizeof(ncclConfig_t),
                          .magic = NCCL_CONFIG_MAGIC,
                          .version = NCCL_CONFIG_VERSION,
                          .blocking = 0,
                          .cgaClusterSize = NCCL_CONFIG_UNDEF_INT,
                          .minCTAs = NCCL_CONFIG_UNDEF_INT,
                          .maxCTAs = NCCL_CONFIG_UNDEF_INT,
                          .splitShare = NCCL_CONFIG_UNDEF_INT};
}

static status clique_make(const cuda_device *d, device_clique **out, err *e)
{
    status result = OK;
    TRY(alloc_zeroed(out, 1, sizeof **out, "a communicator", e));
    (*out)->device = d;
done:
    return result;
}

static status join(device *base, const device_clique_id *id, int rank, int size,
                   device_clique **out, err *e)
{
    status result = OK;
    const cuda_device *d = (const cuda_device *)base;
    ncclConfig_t how = config();
    ncclUniqueId own;
    device_clique *c = NULL;
    *out = NULL;
    memcpy(&own, id, sizeof own);
    TRY(clique_make(d, &c, e));
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(check(d, NULL, d->nccl->f.ncclCommInitRankConfig(&c->handle, size, own, rank, &how),
              "ncclCommInitRankConfig", e));
    *out = c;
    c = NULL;
done:
    free(c);
    return result;
}

static bool can_split(device *base)
{
    return ((const cuda_device *)base)->nccl->split != NULL;
}

static status split(device_clique *parent, int color, int key, device_clique **out, err *e)
{
    status result = OK;
    const cuda_device *d = parent->device;
    ncclConfig_t how = config();
    device_clique *c = NULL;
    *out = NULL;
    TRY(clique_make(d, &c, e));
    TRY(cuda_status(d, cuda_bind(d), "cudaSetDevice", e));
    TRY(check(d, parent->handle,
              d->nccl->split(parent->handle, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key,
                             &c->handle, &how),
              "ncclCommSplit", e));
    *out = c; // NCCL writes the handle when the parent's poll is done
    c = NULL;
done:
    free(c);
    return result;
}

static status poll_clique(device_clique *c, bool *done, err *e)
{
    ncclResult_t found = ncclSuccess;
    (void)cuda_bind(c->device);
    ncclResult_t code = functions_of(c)->ncclCommGetAsyncError(c->handle, &found);
    if (code == ncclSuccess) code = found;
    *done = code != ncclInProgress;
    return check(c->device, c->handle, code, "NCCL", e);
}

static status finish(device_clique *c, err *e)
{
    (void)cuda_bind(c->device);
    return check(c->device, c->handle, functions_of(c)->ncclCommFinalize(c->handle),
                 "ncclCommFinalize", e);
}

static void close_clique(device_clique *c)
{
    (void)cuda_bind(c->device);
    (void)functions_of(c)->ncclCommDestroy(c->handle);
    (void)cudaGetLastError();
    free(c);
}

static void abort_clique(device_clique *c)
{
    (void)cuda_bind(c->device);
    (void)functions_of(c)->ncclCommAbort(c->handle);
    (void)cudaGetLastError();
    free(c);
}

// ---- Calls

static ncclDataType_t type_of(dtype t)
{
    static const ncclDataType_t types[DTYPES] = {
        [F32] = ncclFloat32, [BF16] = ncclBfloat16, [F16] = ncclFloat16,
        [F64] = ncclFloat64, [I64] = ncclInt64,     [U8] = ncclUint8};
    return types[t];
}

static ncclRedOp_t op_of(reduce_op op)
{
    return op == REDUCE_MAX ? ncclMax : op == REDUCE_MIN ? ncclMin : ncclSum;
}

static cudaStream_t stream_of(device_stream *on)
{
    return ((cuda_stream *)on)->handle;
}

static status all_reduce(device_clique *c, const device_collective *x, device_stream *on, err *e)
{
    (void)cuda_bind(c->device);
    return check(c->device, c->handle,
                 functions_of(c)->ncclAllReduce(x->in, x->out, x->count, type_of(x->type),
                                                op_of(x->op), c->handle, stream_of(on)),
                 "ncclAllReduce", e);
}

static status reduce_scatter(device_clique *c, const device_collective *x, device_stream *on,
                             err *e)
{
    (void)cuda_bind(c->device);
    return check(c->device, c->handle,
                 functions_of(c)->ncclReduceScatter(x->in, x->out, x->count, type_of(x->type),
                                                    op_of(x->op), c->handle, stream_of(on)),
                 "ncclReduceScatter", e);
}

static status all_gather(device_clique *c, const device_collective *x, device_stream *on, err *e)
{
    (void)cuda_bind(c->device);
    return check(c->device, c->handle,
                 functions_of(c)->ncclAllGather(x->in, x->out, x->count * dtype_bytes(x->type),
                                                ncclUint8, c->handle, stream_of(on)),
                 "ncclAllGather", e);
}

static status broadcast(device_clique *c, const device_collective *x, device_stream *on, err *e)
{
    (void)cuda_bind(c->device);
    return check(c->device, c->handle,
                 functions_of(c)->ncclBroadcast(x->in, x->out, x->count * dtype_bytes(x->type),
                                                ncclUint8, x->root, c->handle, stream_of(on)),
                 "ncclBroadcast", e);
}

static ncclResult_t message(const device_clique *c, const device_message *m, cudaStream_t stream)
{
    const nccl_functions *f = functions_of(c);
    return m->receives ? f->ncclRecv(m->buf, m->bytes, ncclUint8, m->peer, c->handle, stream)
                       : f->ncclSend(m->buf, m->bytes, ncclUint8, m->peer, c->handle, stream);
}

// The group is ended also after a failure: NCCL counts groups.
static status exchange(device_clique *c, const device_message *m, int count, device_stream *on,
                       err *e)
{
    const nccl_functions *f = functions_of(c);
    (void)cuda_bind(c->device);
    ncclResult_t code = f->ncclGroupStart();
    if (code != ncclSuccess) return check(c->device, c->handle, code, "ncclGroupStart", e);
    for (int i = 0; i < count && (code == ncclSuccess || code == ncclInProgress); i++)
        code = message(c, &m[i], stream_of(on));
    const ncclResult_t ended = f->ncclGroupEnd();
    if (code == ncclSuccess || code == ncclInProgress) code = ended;
    return check(c->device, c->handle, code, "ncclSend and ncclRecv", e);
}

const device_collectives CUDA_COLLECTIVES = {.name = "NCCL",
                                             .open = open_library,
                                             .make_id = make_id,
                                             .join = join,
                                             .can_split = can_split,
                                             .split = split,
                                             .poll = poll_clique,
                                             .finish = finish,
                                             .close = close_clique,
                                             .abort = abort_clique,
                                             .all_reduce = all_reduce,
                                             .reduce_scatter = reduce_scatter,
                                             .all_gather = all_gather,
                                             .broadcast = broadcast,
                                             .exchange = exchange};

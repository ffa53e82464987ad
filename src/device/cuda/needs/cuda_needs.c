// cuda_needs.c -- the workspaces of the cuda device's kernels, for plans and for the device. See cuda_needs.h. It launches
// nothing, and knows no CUDA.
#include "device/cuda/needs/cuda_needs.h"
#include "device/cuda/needs/cuda_shapes.h"
#include "device/device.h"

// ---- Products

// A product whose sums are split over k keeps at most so many partial results, each of so many rows of k
// at least. The library may use less.
enum { SPLITS_MOST = 16, SPLIT_ROWS = 128 };
static const uint64_t WORKSPACE_MOST = UINT64_C(32) << 20; // what NVIDIA recommends for Hopper

// The space for partial results in F32. It grows with m, n and k, and knows no addresses.
size_t cuda_matmul_workspace(const void *args)
{
    const kernel_matmul_args *p = args;
    if (p->m <= 0 || p->n <= 0 || p->k <= 0) return 0;
    const uint64_t splits = (uint64_t)size_min(SPLITS_MOST, p->k / SPLIT_ROWS);
    const uint64_t bytes =
        size_mul(splits * sizeof(float), size_mul((uint64_t)p->m, (uint64_t)p->n));
    return bytes < WORKSPACE_MOST ? (size_t)bytes : (size_t)WORKSPACE_MOST;
}

// ---- Attention

size_t attention_decode_workspace(const kernel_attention_args *p)
{
    const int64_t pieces = decode_pieces(p->tk),
                  queries = size_min(p->queries.seq, ATTENTION_DECODE_QUERIES);
    if (pieces <= 1) return 0;
    return sizeof(float) *
           (size_t)(p->batch * p->heads * queries * pieces * (p->head_dim + DECODE_STATS));
}

enum {
    HEAD_MOST = 128,
    QUERIES_LEAST = 64 // fewer rows do not fill a tile; our own kernels are made for them
};

bool cuda_dnn_takes(const kernel_attention_args *p)
{
    const kernel_tokens *q = &p->queries;
    // Every query's position is its number: no context parallelism, no earlier tokens.
    const bool plain = q->chunk == q->seq && q->start[0] == 0;
    const int64_t strides =
        p->q_stride | p->k_stride | p->v_stride | p->o_stride | p->k_batch | p->v_batch;
    return (p->type == BF16 || p->type == F16) && p->dropout.p == 0 &&
           kernel_attention_is_plain(p) && p->batch > 0 && p->tk > 0 && q->seq >= QUERIES_LEAST &&
           (!p->causal || plain) && p->heads % p->kv_heads == 0 && p->head_dim % 8 == 0 &&
           p->head_dim <= HEAD_MOST && strides % 8 == 0;
}

size_t cuda_dnn_attention_workspace(const kernel_attention_args *p)
{
    return cuda_dnn_takes(p) ? CUDA_DNN_WORKSPACE : 0;
}

size_t cuda_dnn_gradient_sums(const kernel_attention_args *p)
{
    const int64_t bytes =
        p->batch * p->heads * p->queries.seq * p->head_dim * (int64_t)sizeof(float);
    return (size_t)size_ceil_div(bytes, KERNEL_WORKSPACE_ALIGN) * KERNEL_WORKSPACE_ALIGN;
}

// Two numbers for each query, sums in F32 as dq has (before Hopper), and, where heads share keys, gradients of keys and
// values for each head.
size_t cuda_dnn_gradient_workspace(const kernel_attention_args *p)
{
    const int64_t heads = p->batch * p->heads, width = p->head_dim;
    const int64_t queries = size_ceil_div(p->queries.seq, CUDA_DNN_TILE) * CUDA_DNN_TILE,
                  keys = p->heads == p->kv_heads
                             ? 0
                             : size_ceil_div(p->tk, CUDA_DNN_TILE) * CUDA_DNN_TILE;
    const int64_t numbers = heads * (queries * (2 + width) + keys * width);
    return (size_t)numbers * sizeof(float) + CUDA_DNN_WORKSPACE;
}

size_t cuda_dnn_attention_grad_workspace(const kernel_attention_grad_args *g)
{
    if (!g->any_order || !cuda_dnn_takes(&g->fwd)) return 0;
    return cuda_dnn_gradient_sums(&g->fwd) + cuda_dnn_gradient_workspace(&g->fwd);
}

static size_t attention(const void *args)
{
    const kernel_attention_args *p = args;
    const size_t own = attention_decode_workspace(p), dnn = cuda_dnn_attention_workspace(p);
    return own > dnn ? own : dnn;
}

size_t cuda_attention_grad_workspace(const void *args)
{
    return cuda_dnn_attention_grad_workspace(args);
}

// ---- Norms

static size_t norm_grad(const void *args)
{
    const kernel_norm_grad_args *p = args;
    const size_t means = p->dx && p->cols > GRAD_COLS ? (size_t)p->rows * 2 * sizeof(float) : 0;
    return grad_sums_bytes(p) + means;
}

// For each block the sums of the columns of the queries' gain, then of the keys'.
static size_t qk_norm_grad(const void *args)
{
    const kernel_qk_norm_args *p = args;
    if (!p->dq_gain && !p->dk_gain) return 0;
    const int64_t cols = kernel_qk_norm_gains(p, true) + kernel_qk_norm_gains(p, false);
    return (size_t)(size_min(p->rows, QK_MOST_BLOCKS) * cols) * sizeof(float);
}

// ---- Sums

static size_t bias_grad(const void *args)
{
    const kernel_bias_grad_args *p = args;
    return p->rows > 0 ? (size_t)(bias_parts(p->rows) * p->cols) * sizeof(float) : 0;
}

static size_t embedding_grad(const void *args)
{
    const kernel_embedding_grad_args *p = args;
    if (!p->d_tokens || p->rows <= 0) return 0;
    const int64_t slots =
        p->rows > EMBEDDING_PIECE ? 2 * size_ceil_div(p->rows, EMBEDDING_PIECE) : 0;
    return sort_bytes(p->rows) + (size_t)(slots * p->cols) * sizeof(float);
}

// As pieces become larger, more elements have fewer of them. The workspace must not shrink.
static size_t square_error(const void *args)
{
    const kernel_square_error_args *p = args;
    const int64_t most = gpu_piece_count(p->rows * p->cols, GPU_SUM_SHIFT);
    return (size_t)size_min(most, GPU_SUM_PIECES) * sizeof(double);
}

static size_t xielu_grad(const void *args)
{
    const int64_t most = xielu_pieces(((const kernel_xielu_args *)args)->count, GPU_SUM_SHIFT);
    return (size_t)size_min(most, GPU_SUM_PIECES) * 2 * sizeof(double);
}

static size_t sum_squares(const void *args)
{
    const kernel_sum_squares_args *p = args;
    const int64_t segments = squares_segments(p);
    return (size_t)(gpu_most_pieces(p->count, segments, GPU_SUM_SHIFT) + 2 * segments) * 8;
}

static size_t cross_entropy(const void *args)
{
    const kernel_cross_entropy_args *p = args;
    return loss_is_wanted(p) ? (size_t)p->rows * sizeof(double) : 0;
}

static size_t preference(const void *args)
{
    const kernel_preference_args *p = args;
    return (size_t)(p->documents / 2) * (PREFERENCE_SUMS + 2) * sizeof(double);
}

// ---- Others

static size_t delta_rule_grad(const void *args)
{
    const kernel_delta_rule_args *p = &((const kernel_delta_rule_grad_args *)args)->fwd;
    return sizeof(float) * (size_t)(p->batch * p->key_heads * delta_block_floats(p));
}

static size_t orthogonalize(const void *args)
{
    const kernel_orthogonalize_args *p = args;
    return p->rows > 0 ? (size_t)(orth_blocks(p->rows) * (p->cols + 1)) * sizeof(double) : 0;
}

static size_t (*const WORKSPACE[KERNELS])(const void *args) = {
    [K_MATMUL] = cuda_matmul_workspace,
    [K_BIAS_GRAD] = bias_grad,
    [K_EMBEDDING_GRAD] = embedding_grad,
    [K_NORM_GRAD] = norm_grad,
    [K_QK_NORM_GRAD] = qk_norm_grad,
    [K_ATTENTION] = attention,
    [K_ATTENTION_GRAD] = cuda_attention_grad_workspace,
    [K_DELTA_RULE_GRAD] = delta_rule_grad,
    [K_XIELU_GRAD] = xielu_grad,
    [K_CROSS_ENTROPY] = cross_entropy,
    [K_PREFERENCE] = preference,
    [K_SQUARE_ERROR] = square_error,
    [K_SUM_SQUARES] = sum_squares,
    [K_ORTHOGONALIZE] = orthogonalize,
};

static size_t workspace_bytes(const kernel_call *c)
{
    return WORKSPACE[c->kind] ? WORKSPACE[c->kind](&c->u) : 0;
}

static const char *own_kernel(const kernel_call *c)
{
    (void)c;
    return "own kernel";
}

static const char *computed_by(const kernel_call *c)
{
    const bool taken = c->kind == K_ATTENTION
                           ? cuda_dnn_attention_workspace(&c->u.attention) > 0
                           : cuda_dnn_attention_grad_workspace(&c->u.attention_grad) > 0;
    return taken ? "cuDNN" : own_kernel(c);
}

// Rows of logits at multiples of 8 elements: a 16-bit row then starts at 16 bytes, which cuBLASLt's fastest
// algorithms ask for. The loss takes wide chunks, because a product of few rows leaves most of a GPU idle.
#define NEEDS(by)                                                                                  \
    {                                                                                              \
        .workspace_bytes = workspace_bytes, .logits_align = 8, .loss_rows = 4096,                  \
        .computed_by = (by)                                                                        \
    }
const kernel_needs CUDA_NEEDS = NEEDS(computed_by), CUDA_NEEDS_WITHOUT_CUDNN = NEEDS(own_kernel);

void cuda_describe_absent(device_description *out)
{
    *out = (device_description){.kind = "sm_90",
                                .count = 1,
                                .own_bytes = cuda_own_bytes(),
                                .has_tf32 = true,
                                .utilization = -1,
                                .needs = &CUDA_NEEDS};
}

// cuda_attention_decode.cu -- attention of a few queries of each sequence, as in decoding. Its time is that
// of reading keys and values once. cuda_attention calls it, for every type, width and alignment.
//
// A block does one query of one head against one piece of DECODE_KEYS keys. With several pieces, it leaves
// its sums in the workspace, and a second kernel combines them in order of the pieces. The pieces depend on
// the positions of the keys only.
#include "device/cuda/attention/cuda_attention.h"

constexpr int DECODE_THREADS = 128;
constexpr int DECODE_LANES = 8; // threads that read one key
constexpr int DECODE_WARPS = DECODE_THREADS / (int)GPU_WARP;

// A query: which, and the keys that it sees.
struct decode_query {
    attention_head a;
    int64_t t, row;   // row: its number in the workspace
    int hidden, seen; // keys hidden … seen-1
};

static __device__ inline decode_query decode_query_of(const kernel_attention_args &p, int64_t i,
                                                      int64_t b)
{
    decode_query q;
    const int64_t h = i / p.queries.seq;
    q.a = {b, h, h / (p.heads / p.kv_heads)};
    q.t = i % p.queries.seq;
    q.row = b * p.heads * p.queries.seq + i;
    q.hidden = attention_hidden(p, b, q.t);
    q.seen = attention_seen(p, q.t);
    return q;
}

// Shared memory of a block, as floats: the scaled query [head_dim], the scores [DECODE_KEYS], the sums of
// groups of keys.
static inline size_t decode_floats(int64_t head_dim, int n)
{
    const int64_t sums = head_dim > DECODE_THREADS * n ? head_dim : DECODE_THREADS * n;
    return (size_t)(head_dim + DECODE_KEYS + sums + DECODE_WARPS);
}

// Writes the scores of `keys` keys from k0 on, in units of log 2.
template <typename T, int N>
static __device__ inline void decode_scores(const kernel_attention_args &p, const decode_query &q,
                                            int k0, int keys, const float *query, float *score)
{
    const T *k = static_cast<const T *>(p.k) + attention_key(p, q.a, p.k_batch) + k0 * p.k_stride;
    const int part = (int)threadIdx.x % DECODE_LANES;
    float slope;
    for (int j0 = 0; j0 < keys; j0 += DECODE_THREADS / DECODE_LANES) {
        const int j = j0 + (int)threadIdx.x / DECODE_LANES;
        float sum = 0;
        for (int c = part * N; j < keys && c < p.head_dim; c += DECODE_LANES * N) {
            float x[N];
            attention_read<T, N>(x, k + j * p.k_stride + c);
            GPU_UNROLL
            for (int i = 0; i < N; i++) sum += query[c + i] * x[i];
        }
        for (int lane = DECODE_LANES / 2; lane > 0; lane /= 2)
            sum += __shfl_xor_sync(GPU_ALL_LANES, sum, lane);
        if (j < keys && part == 0) score[j] = attention_cap(p, sum, &slope);
    }
}

// The block's maximum of x.
static __device__ inline float decode_max(float x, float *shared)
{
    x = gpu_warp_max(x);
    if (threadIdx.x % GPU_WARP == 0) shared[threadIdx.x / GPU_WARP] = x;
    __syncthreads();
    for (int i = 0; i < DECODE_WARPS; i++) x = fmaxf(x, shared[i]);
    __syncthreads();
    return x;
}

// Writes to `sums` [head_dim] the sum of score * value over the keys. Threads that share elements of the
// width take every groups-th key each; their sums are then added in order.
template <typename T, int N>
static __device__ inline void decode_values(const kernel_attention_args &p, const decode_query &q,
                                            int k0, int keys, const float *score, float *sums)
{
    const T *v = static_cast<const T *>(p.v) + attention_key(p, q.a, p.v_batch) + k0 * p.v_stride;
    const int chunks = (int)p.head_dim / N, width = min(chunks, DECODE_THREADS);
    const int groups = DECODE_THREADS / width, group = (int)threadIdx.x / width;
    for (int c = (int)threadIdx.x % width; group < groups && c < chunks; c += width) {
        float sum[N] = {};
        for (int j = group; j < keys; j += groups) {
            float x[N];
            attention_read<T, N>(x, v + j * p.v_stride + c * N);
            GPU_UNROLL
            for (int i = 0; i < N; i++) sum[i] += score[j] * x[i];
        }
        GPU_UNROLL
        for (int i = 0; i < N; i++) sums[group * p.head_dim + c * N + i] = sum[i];
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < p.head_dim; c += DECODE_THREADS)
        for (int i = 1; i < groups; i++) sums[c] += sums[i * p.head_dim + c];
    __syncthreads();
}

// Stores the output of the query from its sums, whose scores have maximum `top` and sum `total`.
template <typename T>
static __device__ inline void decode_store(const kernel_attention_args &p, const decode_query &q,
                                           int c, float sum, float top, float total)
{
    const float keep_scale = p.dropout.p > 0 ? 1 / (1 - p.dropout.p) : 1;
    T *o = static_cast<T *>(p.o) + attention_row(p, q.a, q.t, p.o_stride);
    o[c] = gpu_from_float<T>(sum * (keep_scale / total));
    if (c == 0) p.lse[attention_stat(p, q.a) + q.t] = (top + log2f(total)) * ATTENTION_LN2;
}

// Grid: pieces, heads times queries, sequences. partial [rows, pieces, head_dim + DECODE_STATS].
template <typename T, int N>
static __global__ void __launch_bounds__(DECODE_THREADS)
    attention_decode_kernel(const kernel_attention_args p, float *partial)
{
    const decode_query q = decode_query_of(p, blockIdx.y, blockIdx.z);
    const int k0 = max((int)blockIdx.x * DECODE_KEYS, q.hidden);
    const int keys = min(((int)blockIdx.x + 1) * DECODE_KEYS, q.seen) - k0;
    if (keys <= 0) return;
    float *query = gpu_shared<float>(), *score = query + p.head_dim, *few = score + DECODE_KEYS;
    float *sums = few + DECODE_WARPS;
    const T *from = static_cast<const T *>(p.q) + attention_row(p, q.a, q.t, p.q_stride);
    for (int c = (int)threadIdx.x; c < p.head_dim; c += DECODE_THREADS)
        query[c] = gpu_to_float(from[c]) * (p.scale * ATTENTION_LOG2E);
    __syncthreads();
    decode_scores<T, N>(p, q, k0, keys, query, score);
    __syncthreads();
    const float sink = gridDim.x == 1 ? attention_sink(p, q.a.h) : -INFINITY;
    float top = sink;
    for (int j = (int)threadIdx.x; j < keys; j += DECODE_THREADS) top = fmaxf(top, score[j]);
    top = decode_max(top, few);
    float total = threadIdx.x == 0 ? gpu_exp2(sink - top) : 0;
    const bool drops = p.dropout.p > 0;
    const attention_draw draw = drops ? attention_draw_read(p) : attention_draw();
    const uint64_t index = drops ? attention_draw_index(p, draw, q.a, q.t) + (uint64_t)k0 : 0;
    for (int j = (int)threadIdx.x; j < keys; j += DECODE_THREADS) {
        const float x = gpu_exp2(score[j] - top);
        total += x;
        score[j] = drops && !attention_keeps(draw, index + (uint64_t)j) ? 0 : x;
    }
    total = gpu_block_sum<DECODE_WARPS>(total, few);
    decode_values<T, N>(p, q, k0, keys, score, sums);
    float *out = partial + (q.row * gridDim.x + blockIdx.x) * (p.head_dim + DECODE_STATS);
    for (int c = (int)threadIdx.x; c < p.head_dim; c += DECODE_THREADS) {
        if (gridDim.x == 1)
            decode_store<T>(p, q, c, sums[c], top, total);
        else
            out[c] = sums[c];
    }
    if (gridDim.x > 1 && threadIdx.x == 0) out[p.head_dim] = top, out[p.head_dim + 1] = total;
}

// Grid: heads times queries, sequences.
template <typename T>
static __global__ void __launch_bounds__(DECODE_THREADS)
    attention_combine_kernel(const kernel_attention_args p, const float *partial, int64_t pieces)
{
    const decode_query q = decode_query_of(p, blockIdx.x, blockIdx.y);
    const int64_t width = p.head_dim + DECODE_STATS, used = decode_pieces(q.seen),
                  first = q.hidden / DECODE_KEYS;
    const float *piece = partial + q.row * pieces * width;
    const float sink = attention_sink(p, q.a.h);
    float top = sink;
    for (int64_t i = first; i < used; i++) top = fmaxf(top, piece[i * width + p.head_dim]);
    float total = gpu_exp2(sink - top);
    for (int64_t i = first; i < used; i++)
        total += piece[i * width + p.head_dim + 1] * gpu_exp2(piece[i * width + p.head_dim] - top);
    for (int c = (int)threadIdx.x; c < p.head_dim; c += DECODE_THREADS) {
        float sum = 0;
        for (int64_t i = first; i < used; i++)
            sum += piece[i * width + c] * gpu_exp2(piece[i * width + p.head_dim] - top);
        decode_store<T>(p, q, c, sum, top, total);
    }
}

void attention_decode(const cuda_context *x, const kernel_attention_args *p)
{
    gpu_with_type(p->type, [=](auto zero) {
        typedef decltype(zero) T;
        constexpr int N = 16 / (int)sizeof(T);
        const bool aligned = p->head_dim % N == 0 && gpu_is_aligned16(p->k) &&
                             gpu_is_aligned16(p->v) && p->k_stride % N == 0 &&
                             p->v_stride % N == 0 && p->k_batch % N == 0 && p->v_batch % N == 0;
        const int64_t pieces = decode_pieces(p->tk), rows = p->heads * p->queries.seq;
        float *partial = static_cast<float *>(x->workspace);
        gpu_launch(x, "attention_decode",
                   aligned ? attention_decode_kernel<T, N> : attention_decode_kernel<T, 1>,
                   dim3((unsigned)pieces, (unsigned)rows, (unsigned)p->batch), dim3(DECODE_THREADS),
                   sizeof(float) * decode_floats(p->head_dim, aligned ? N : 1), *p, partial);
        if (pieces > 1)
            gpu_launch(x, "attention_combine", attention_combine_kernel<T>,
                       dim3((unsigned)rows, (unsigned)p->batch), dim3(DECODE_THREADS), 0, *p,
                       partial, pieces);
    });
}

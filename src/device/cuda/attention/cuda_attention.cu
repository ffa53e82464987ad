// cuda_attention.cu -- attention, and which of its forms runs: cuDNN's, the tiles of this file, the decode
// kernel for a few queries, or the plain form for what tensor cores do not take.
//
// The tile kernel: a block does FORWARD_QUERIES queries of one head. It goes through the keys tile by
// tile, from key 0 on, and keeps a running maximum and sum of each query's softmax. Each warp has 32
// queries, whose scores, probabilities and outputs stay in its registers. Tiles that the mask hides are
// skipped. While a warp multiplies by the keys of a tile the values are copied, and the other way round.
#include "device/cuda/attention/cuda_attention.h"
#include "device/cuda/gpu_tile.h"
#include "device/cuda/libraries/cuda_dnn.h"

constexpr int FORWARD_THREADS = 128, FORWARD_WARPS = FORWARD_THREADS / (int)GPU_WARP;
constexpr int FORWARD_PARTS = 2; // groups of 16 queries of a warp
constexpr int FORWARD_WARP_QUERIES = 16 * FORWARD_PARTS;
constexpr int FORWARD_QUERIES = FORWARD_WARPS * FORWARD_WARP_QUERIES; // of a block
// Keys of a tile: as many as leave the registers for the outputs.
template <int D, bool DROPS> constexpr int FORWARD_KEYS = D <= 96 ? 64 : DROPS ? 32 : 48;

template <int D, bool DROPS> struct alignas(128) forward_tiles {
    uint16_t q[FORWARD_QUERIES * D]; // at the end, the outputs
    uint16_t k[FORWARD_KEYS<D, DROPS> * D], v[FORWARD_KEYS<D, DROPS> * D];
};

// A lane's share of its warp's queries: of each part, rows lane/4 and lane/4 + 8.
template <int D> struct forward_state {
    float o[FORWARD_PARTS][D / 8][4]; // not yet divided by the sums
    float top[FORWARD_PARTS][2];      // maximum of the scores so far, in units of log 2
    float sum[FORWARD_PARTS][2];      // over this lane's keys
    uint64_t draw[FORWARD_PARTS][2];  // index of the random word of key 0
};

template <int D, bool DROPS>
using forward_scores = float[FORWARD_PARTS][FORWARD_KEYS<D, DROPS> / 8][4];

// s = the products of the warp's queries with the keys of the tile.
template <typename T, int D, bool DROPS>
static __device__ inline void forward_multiply_keys(forward_scores<D, DROPS> &s,
                                                    const forward_tiles<D, DROPS> *tiles, int row0,
                                                    int lane)
{
    GPU_UNROLL
    for (int i = 0; i < FORWARD_PARTS * FORWARD_KEYS<D, DROPS> / 8 * 4; i++) (&s[0][0][0])[i] = 0;
    GPU_UNROLL
    for (int k = 0; k < D / 16; k++) {
        uint32_t a[FORWARD_PARTS][4], b[4];
        GPU_UNROLL
        for (int m = 0; m < FORWARD_PARTS; m++)
            tile_a<D>(a[m], tiles->q, row0 + 16 * m, k, gpu_opaque(lane));
        GPU_UNROLL
        for (int n = 0; n < FORWARD_KEYS<D, DROPS> / 16; n++) {
            tile_b<D>(b, tiles->k, 16 * n, k, lane);
            GPU_UNROLL
            for (int m = 0; m < FORWARD_PARTS; m++) {
                tile_mma(T(), s[m][2 * n], a[m], b);
                tile_mma(T(), s[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

// Hides the keys that a query does not see from it, in a tile that has such keys.
// t is the query of row 0 of the lane, and k0 the first key of the tile.
template <int D, bool DROPS, bool FORM>
static __device__ inline void forward_mask(forward_scores<D, DROPS> &s,
                                           const kernel_attention_args &p, int64_t b, int64_t t,
                                           int k0, int lane)
{
    GPU_UNROLL
    for (int i = 0; i < 2 * FORWARD_PARTS; i++) {
        const int64_t row = t + 16 * (i / 2) + 8 * (i % 2), last = p.queries.seq - 1;
        const int seen = attention_seen(p, row < last ? row : last) - k0 - 2 * (lane % 4);
        const int hidden =
            FORM ? attention_hidden(p, b, row < last ? row : last) - k0 - 2 * (lane % 4) : 0;
        GPU_UNROLL
        for (int n = 0; n < FORWARD_KEYS<D, DROPS> / 4; n++) {
            const int key = 8 * (n / 2) + n % 2;
            if (key >= seen || (FORM && key < hidden))
                s[i / 2][n / 2][2 * (i % 2) + n % 2] = -INFINITY;
        }
    }
}

template <int D, bool DROPS>
static __device__ inline void forward_cap(forward_scores<D, DROPS> &s,
                                          const kernel_attention_args &p)
{
    float slope;
    if (p.form.softcap <= 0) return;
    GPU_UNROLL
    for (int i = 0; i < FORWARD_PARTS * FORWARD_KEYS<D, DROPS> / 8 * 4; i++)
        (&s[0][0][0])[i] = attention_cap(p, (&s[0][0][0])[i], &slope);
}

// Replaces the scores of rows `half` of part m by exp2(score - maximum), with the new maximum, and scales
// the row's sum and outputs to it.
template <int D, bool DROPS, bool FORM>
static __device__ inline void forward_softmax(forward_state<D> *f, forward_scores<D, DROPS> &s,
                                              int m, int half)
{
    float top = f->top[m][half];
    GPU_UNROLL
    for (int n = 0; n < FORWARD_KEYS<D, DROPS> / 8; n++)
        top = fmaxf(top, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(GPU_ALL_LANES, top, 1));
    top = fmaxf(top, __shfl_xor_sync(GPU_ALL_LANES, top, 2));
    const float base =
        FORM && top == -INFINITY ? 0 : top; // the window, or the document, is yet to begin
    const float fade = gpu_exp2(f->top[m][half] - base);
    float sum = f->sum[m][half] * fade;
    f->top[m][half] = top;
    GPU_UNROLL
    for (int n = 0; n < FORWARD_KEYS<D, DROPS> / 8; n++) {
        GPU_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; e++) {
            s[m][n][e] = gpu_exp2(s[m][n][e] - base);
            sum += s[m][n][e];
        }
    }
    f->sum[m][half] = sum;
    GPU_UNROLL
    for (int n = 0; n < D / 8; n++) {
        f->o[m][n][2 * half] *= fade;
        f->o[m][n][2 * half + 1] *= fade;
    }
}

template <int D, bool DROPS>
static __device__ inline void forward_drop(const forward_state<D> *f, forward_scores<D, DROPS> &s,
                                           const attention_draw &d, int k0, int lane)
{
    GPU_UNROLL
    for (int m = 0; m < FORWARD_PARTS; m++) {
        GPU_UNROLL
        for (int n = 0; n < FORWARD_KEYS<D, DROPS> / 8; n++) {
            const unsigned kept = attention_keeps_rows(d, f->draw[m], k0 + 8 * n, lane);
            GPU_UNROLL
            for (int i = 0; i < 4; i++)
                if (!(kept >> i & 1)) s[m][n][i] = 0;
        }
    }
}

// Adds the probabilities times the values of the tile to the outputs.
template <typename T, int D, bool DROPS>
static __device__ inline void
forward_multiply_values(forward_state<D> *f, const forward_scores<D, DROPS> &s,
                        const forward_tiles<D, DROPS> *tiles, int lane)
{
    GPU_UNROLL
    for (int k = 0; k < FORWARD_KEYS<D, DROPS> / 16; k++) {
        uint32_t a[FORWARD_PARTS][4], b[4];
        GPU_UNROLL
        for (int m = 0; m < FORWARD_PARTS; m++) tile_round<T>(a[m], s[m][2 * k], s[m][2 * k + 1]);
        GPU_UNROLL
        for (int n = 0; n < D / 16; n++) {
            tile_b_rows<D>(b, tiles->v, 16 * k, n, lane);
            GPU_UNROLL
            for (int m = 0; m < FORWARD_PARTS; m++) {
                tile_mma(T(), f->o[m][2 * n], a[m], b);
                tile_mma(T(), f->o[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

// The state before the first key. Rows beyond the last query act as it does, and are not stored.
template <int D, bool DROPS>
static __device__ inline void forward_start(forward_state<D> *f, const kernel_attention_args &p,
                                            const attention_draw &d, attention_head a, int64_t t0,
                                            float sink, int lane)
{
    GPU_UNROLL
    for (int m = 0; m < FORWARD_PARTS; m++) {
        GPU_UNROLL
        for (int half = 0; half < 2; half++) {
            int64_t t = t0 + 16 * m + lane / 4 + 8 * half;
            if (t >= p.queries.seq) t = p.queries.seq - 1;
            f->top[m][half] = sink;
            f->sum[m][half] = sink > -INFINITY && lane % 4 == 0 ? 1 : 0;
            if (DROPS) f->draw[m][half] = attention_draw_index(p, d, a, t);
        }
        GPU_UNROLL
        for (int i = 0; i < D / 8 * 4; i++) (&f->o[m][0][0])[i] = 0;
    }
}

// Divides by the sums, and writes the outputs and lse of the warp's queries, from query t0 on. row0 is
// the first of them in the block.
template <typename T, int D, bool DROPS>
static __device__ inline void forward_finish(forward_state<D> *f, const kernel_attention_args &p,
                                             attention_head a, forward_tiles<D, DROPS> *tiles,
                                             int64_t t0, int row0, float keep_scale, int lane)
{
    GPU_UNROLL
    for (int m = 0; m < FORWARD_PARTS; m++) {
        float factor[2];
        GPU_UNROLL
        for (int half = 0; half < 2; half++) {
            float sum = f->sum[m][half];
            sum += __shfl_xor_sync(GPU_ALL_LANES, sum, 1);
            sum += __shfl_xor_sync(GPU_ALL_LANES, sum, 2);
            factor[half] = keep_scale / sum;
            const int64_t t = t0 + 16 * m + lane / 4 + 8 * half;
            if (lane % 4 == 0 && t < p.queries.seq)
                p.lse[attention_stat(p, a) + t] = (f->top[m][half] + log2f(sum)) * ATTENTION_LN2;
        }
        tile_put<T, D>(tiles->q, row0 + 16 * m, f->o[m], factor[0], factor[1], lane);
    }
    __syncwarp();
    const int64_t rows = p.queries.seq - (t0 - row0);
    uint16_t *o = static_cast<uint16_t *>(p.o) + attention_row(p, a, t0 - row0, p.o_stride);
    tile_store<FORWARD_WARP_QUERIES, D>(
        o, p.o_stride, tiles->q, row0,
        (int)(rows < (int64_t)FORWARD_QUERIES ? rows : (int64_t)FORWARD_QUERIES), (int)p.head_dim,
        lane);
}

// Grid: heads of all sequences, blocks of queries. The last queries, which see the most keys, go first.
template <typename T, int D, bool DROPS, bool FORM>
static __global__ void __launch_bounds__(FORWARD_THREADS)
    attention_forward_kernel(const kernel_attention_args p)
{
    forward_tiles<D, DROPS> *tiles = gpu_shared<forward_tiles<D, DROPS>>();
    constexpr int KEYS = FORWARD_KEYS<D, DROPS>;
    const int lane = (int)threadIdx.x % GPU_WARP;
    const int row0 = (int)threadIdx.x / GPU_WARP * FORWARD_WARP_QUERIES;
    const attention_head a = attention_head_of(p, blockIdx.x);
    const int t0 = (int)(gridDim.y - 1 - blockIdx.y) * FORWARD_QUERIES;
    const int queries = (int)p.queries.seq, last = min(t0 + FORWARD_QUERIES, queries) - 1;
    const auto k = tile_from(p.k, attention_key(p, a, p.k_batch), p.k_stride, p.head_dim);
    const auto v = tile_from(p.v, attention_key(p, a, p.v_batch), p.v_stride, p.head_dim);
    const attention_draw draw = DROPS ? attention_draw_read(p) : attention_draw();
    forward_state<D> f;
    forward_start<D, DROPS>(&f, p, draw, a, t0 + row0, FORM ? attention_sink(p, a.h) : -INFINITY,
                            lane);
    tile_copy<FORWARD_QUERIES, D, FORWARD_THREADS>(
        tiles->q, tile_from(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, p.head_dim), t0,
        queries, p.q);
    // The keys that some query of the block, some query of the warp, and every query of the warp sees.
    const int keys = attention_seen(p, last);
    const int some =
        t0 + row0 > last ? 0 : attention_seen(p, min(t0 + row0 + FORWARD_WARP_QUERIES - 1, last));
    const int all = attention_seen(p, min(t0 + row0, last));
    const attention_limits hidden = attention_hidden_of<FORM, KEYS>(
        p, a.b, t0, min(t0 + row0, last), min(t0 + row0 + FORWARD_WARP_QUERIES - 1, last));
    tile_copy<KEYS, D, FORWARD_THREADS>(tiles->k, k, hidden.block, keys, p.k);
    gpu_copy_commit();
    for (int k0 = hidden.block; k0 < keys; k0 += KEYS) {
        gpu_copy_wait<0>();
        __syncthreads(); // the keys are there, and the values before them have been used
        tile_copy<KEYS, D, FORWARD_THREADS>(tiles->v, v, k0, keys, p.v);
        gpu_copy_commit();
        forward_scores<D, DROPS> s;
        // With dropout the mask, too, is computed anew for each tile: registers are short.
        const int here = gpu_opaque(lane), masked = DROPS ? here : lane;
        const bool used = k0 < some && (!FORM || k0 + KEYS > hidden.all);
        if (used) forward_multiply_keys<T, D, DROPS>(s, tiles, row0, here);
        gpu_copy_wait<0>();
        __syncthreads(); // the values are there, and the keys have been used
        tile_copy<KEYS, D, FORWARD_THREADS>(tiles->k, k, k0 + KEYS, keys, p.k);
        gpu_copy_commit();
        if (!used) continue;
        GPU_UNROLL
        for (int i = 0; i < FORWARD_PARTS * KEYS / 8 * 4; i++)
            (&s[0][0][0])[i] *= p.scale * ATTENTION_LOG2E;
        if (FORM) forward_cap<D, DROPS>(s, p);
        if (all < k0 + KEYS || (FORM && k0 < hidden.some))
            forward_mask<D, DROPS, FORM>(s, p, a.b, t0 + row0 + masked / 4, k0, masked);
        GPU_UNROLL
        for (int i = 0; i < 2 * FORWARD_PARTS; i++)
            forward_softmax<D, DROPS, FORM>(&f, s, i / 2, i % 2);
        if (DROPS) forward_drop<D, DROPS>(&f, s, draw, k0, here);
        forward_multiply_values<T, D, DROPS>(&f, s, tiles, here);
    }
    gpu_copy_wait<0>();
    if (some > 0)
        forward_finish<T, D, DROPS>(&f, p, a, tiles, t0 + row0, row0,
                                    DROPS ? 1 / (1 - p.dropout.p) : 1, lane);
}

template <typename T, int D, bool DROPS, bool FORM>
static void launch_forward(const cuda_context *x, const kernel_attention_args *p)
{
    const int64_t blocks = (p->queries.seq + FORWARD_QUERIES - 1) / FORWARD_QUERIES;
    gpu_launch(x, "attention_forward", attention_forward_kernel<T, D, DROPS, FORM>,
               dim3((unsigned)(p->batch * p->heads), (unsigned)blocks), dim3(FORWARD_THREADS),
               sizeof(forward_tiles<D, DROPS>), *p);
}

extern "C" void cuda_attention(const cuda_context *x, const void *args)
{
    const kernel_attention_args *p = static_cast<const kernel_attention_args *>(args);
    if (p->batch <= 0 || p->queries.seq <= 0 || p->heads <= 0) return;
    if (p->queries.seq <= ATTENTION_DECODE_QUERIES)
        attention_decode(x, p);
    else if (!attention_has_tiles(p))
        attention_plain(x, p);
    else if (!cuda_dnn_attention(x, p))
        attention_with_tiles(p, [=]<typename T, int D, bool DROPS, bool FORM>() {
            launch_forward<T, D, DROPS, FORM>(x, p);
        });
}

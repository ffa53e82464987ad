// cuda_attention_grad.cu -- the gradients of attention: which form runs, delta, those of the sinks, and dq by tensor cores.
// cuda_attention_grad_keys.cu has dk and dv.
//
// cuDNN's gradient runs first, where sums may be added in any order (cuda_dnn.h).
//
// The kernel of dq: a block does GRAD_ROWS queries of one head and goes through the keys that they see.
// The queries and their output gradients stay in registers; keys and values of the next tile are copied
// while a tile is used.
#include "device/cuda/attention/cuda_attention_grad.h"
#include "device/cuda/libraries/cuda_dnn.h"

constexpr int DELTA_THREADS = 128, DELTA_LANES = 8; // lanes of a row

// delta = sum of do * o, for each row and head in the order of the memory. N elements are read at once.
template <typename T, int N>
static __global__ void __launch_bounds__(DELTA_THREADS)
    attention_delta_kernel(const kernel_attention_args p, const T *d_o, float *delta)
{
    const int64_t i =
        (int64_t)blockIdx.x * (DELTA_THREADS / DELTA_LANES) + threadIdx.x / DELTA_LANES;
    const int64_t row = i / p.heads, h = i % p.heads;
    const bool valid = row < p.batch * p.queries.seq;
    float sum = 0;
    if (valid) {
        const int64_t offset = row * p.o_stride + h * p.head_dim;
        const T *o = static_cast<const T *>(p.o) + offset;
        for (int c = (int)threadIdx.x % DELTA_LANES * N; c < p.head_dim; c += DELTA_LANES * N) {
            float x[N], y[N];
            attention_read<T, N>(x, o + c);
            attention_read<T, N>(y, d_o + offset + c);
            GPU_UNROLL
            for (int e = 0; e < N; e++) sum += x[e] * y[e];
        }
    }
    for (int lane = DELTA_LANES / 2; lane > 0; lane /= 2)
        sum += __shfl_xor_sync(GPU_ALL_LANES, sum, lane);
    if (valid && threadIdx.x % DELTA_LANES == 0)
        delta[(row / p.queries.seq * p.heads + h) * p.queries.seq + row % p.queries.seq] = sum;
}

static void launch_delta(const cuda_context *x, const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    gpu_with_type(p->type, [=](auto zero) {
        typedef decltype(zero) T;
        constexpr int N = 16 / (int)sizeof(T), ROWS = DELTA_THREADS / DELTA_LANES;
        const bool aligned = gpu_is_aligned16(p->o) && gpu_is_aligned16(g->d_o) &&
                             p->o_stride % N == 0 && p->head_dim % N == 0;
        const int64_t rows = p->batch * p->queries.seq * p->heads;
        gpu_launch(x, "attention_delta",
                   aligned ? attention_delta_kernel<T, N> : attention_delta_kernel<T, 1>,
                   dim3((unsigned)((rows + ROWS - 1) / ROWS)), dim3(DELTA_THREADS), 0, *p,
                   static_cast<const T *>(g->d_o), g->delta);
    });
}

constexpr int SINKS_THREADS = 256;

// Grid: heads. Each thread adds up every SINKS_THREADS-th row of the head, in order.
static __global__ void __launch_bounds__(SINKS_THREADS)
    attention_sinks_kernel(const kernel_attention_args p, const float *delta, float *d_sinks,
                           bool accumulate)
{
    const int64_t h = blockIdx.x, rows = p.batch * p.queries.seq;
    const float sink = attention_sink(p, h);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += SINKS_THREADS) {
        const int64_t stat = (i / p.queries.seq * p.heads + h) * p.queries.seq + i % p.queries.seq;
        sum += gpu_exp2(sink - p.lse[stat] * ATTENTION_LOG2E) * delta[stat];
    }
    sum = gpu_block_sum<SINKS_THREADS / (int)GPU_WARP>(sum, gpu_shared<float>());
    if (threadIdx.x == 0) d_sinks[h] = (accumulate ? d_sinks[h] : 0) - sum;
}

static void launch_sinks(const cuda_context *x, const kernel_attention_grad_args *g)
{
    gpu_launch(x, "attention_sinks", attention_sinks_kernel, dim3((unsigned)g->fwd.heads),
               dim3(SINKS_THREADS), sizeof(float) * (SINKS_THREADS / GPU_WARP), g->fwd, g->delta,
               g->d_sinks, g->accumulate_d_sinks);
}

template <int D, int OTHERS> struct alignas(128) queries_tiles {
    uint16_t q[GRAD_ROWS * D], d_o[GRAD_ROWS * D]; // q: at the end, dq
    struct {
        uint16_t k[OTHERS * D], v[OTHERS * D];
    } stage[2];
};

// A lane's share of its warp's queries: of each part, rows lane/4 and lane/4 + 8.
template <int D, bool DROPS> struct queries_state {
    static constexpr int PARTS = grad_shape<D, DROPS>::PARTS;
    uint32_t q[D / 16][PARTS][4], d_o[D / 16][PARTS][4];
    float dq[PARTS][D / 8][4];
    float lse[PARTS][2], delta[PARTS][2]; // lse in units of log 2
    uint64_t draw[PARTS][2];              // index of the random word of key 0
};

// The queries' state before the first key; t0 is the warp's first query. Rows beyond the last query act
// as it does, and are not stored.
template <int D, bool DROPS>
static __device__ inline void
queries_start(queries_state<D, DROPS> *w, const kernel_attention_args &p, const float *delta,
              const attention_draw &d, attention_head a, int64_t t0, int lane)
{
    GPU_UNROLL
    for (int i = 0; i < 2 * grad_shape<D, DROPS>::PARTS; i++) {
        const int m = i / 2, half = i % 2;
        int64_t t = t0 + 16 * m + lane / 4 + 8 * half;
        if (t >= p.queries.seq) t = p.queries.seq - 1;
        w->lse[m][half] = p.lse[attention_stat(p, a) + t] * ATTENTION_LOG2E;
        w->delta[m][half] = delta[attention_stat(p, a) + t];
        if (DROPS) w->draw[m][half] = attention_draw_index(p, d, a, t);
    }
    grad_zero<grad_shape<D, DROPS>::PARTS * D / 2>(&w->dq[0][0][0]);
}

// Loads the fragments of the warp's rows of q and do.
template <int D, bool DROPS, int OTHERS>
static __device__ inline void
queries_load(queries_state<D, DROPS> *w, const queries_tiles<D, OTHERS> *tiles, int row0, int lane)
{
    GPU_UNROLL
    for (int k = 0; k < D / 16; k++) {
        GPU_UNROLL
        for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++) {
            tile_a<D>(w->q[k][m], tiles->q, row0 + 16 * m, k, lane);
            tile_a<D>(w->d_o[k][m], tiles->d_o, row0 + 16 * m, k, lane);
        }
    }
}

// From scores s and gradients ds of the probabilities, both of GRAD_STEP keys from k0 on: replaces ds by
// the gradients of the scores. With `masked`, some query does not see some key. t is the query of row 0
// of the lane.
template <int D, bool DROPS>
static __device__ inline void
queries_scores(const queries_state<D, DROPS> *w, grad_scores<D, DROPS> &s,
               grad_scores<D, DROPS> &ds, const kernel_attention_args &p, const attention_draw &d,
               int64_t t, int k0, bool masked, float keep_scale, int lane)
{
    constexpr int PARTS = grad_shape<D, DROPS>::PARTS;
    const float scale = p.scale * ATTENTION_LOG2E;
    GPU_UNROLL
    for (int i = 0; i < PARTS * GRAD_STEP / 2; i++) {
        const int m = i / (GRAD_STEP / 2), n = i / 4 % (GRAD_STEP / 8), e = i % 4;
        s[m][n][e] = gpu_exp2(s[m][n][e] * scale - w->lse[m][e / 2]);
    }
    if (masked) {
        GPU_UNROLL
        for (int i = 0; i < 2 * PARTS; i++) {
            const int64_t row = t + 16 * (i / 2) + 8 * (i % 2), last = p.queries.seq - 1;
            const int seen = attention_seen(p, row < last ? row : last) - k0 - 2 * (lane % 4);
            GPU_UNROLL
            for (int n = 0; n < GRAD_STEP / 4; n++)
                if (8 * (n / 2) + n % 2 >= seen) s[i / 2][n / 2][2 * (i % 2) + n % 2] = 0;
        }
    }
    GPU_UNROLL
    for (int i = 0; i < PARTS * GRAD_STEP / 8; i++) {
        const int m = i / (GRAD_STEP / 8), n = i % (GRAD_STEP / 8);
        const unsigned kept = DROPS ? attention_keeps_rows(d, w->draw[m], k0 + 8 * n, lane) : 15;
        GPU_UNROLL
        for (int e = 0; e < 4; e++) {
            const float dp = DROPS ? (kept >> e & 1 ? ds[m][n][e] * keep_scale : 0) : ds[m][n][e];
            ds[m][n][e] = s[m][n][e] * (dp - w->delta[m][e / 2]);
        }
    }
}

// As queries_scores, for a call with a window, a cap, sinks or documents.
template <int D>
static __device__ inline void
queries_scores_form(const queries_state<D, false> *w, grad_scores<D, false> &s,
                    grad_scores<D, false> &ds, const kernel_attention_args &p, int64_t b, int64_t t,
                    int k0, bool masked, int lane)
{
    constexpr int PARTS = grad_shape<D, false>::PARTS;
    const float scale = p.scale * ATTENTION_LOG2E;
    GPU_UNROLL
    for (int i = 0; i < 2 * PARTS; i++) {
        const int m = i / 2, half = i % 2;
        const int64_t row = t + 16 * m + 8 * half, last = p.queries.seq - 1;
        const int key0 = k0 + 2 * (lane % 4);
        const int seen = masked ? attention_seen(p, row < last ? row : last) - key0 : GRAD_STEP;
        const int hidden = masked ? attention_hidden(p, b, row < last ? row : last) - key0 : 0;
        GPU_UNROLL
        for (int n = 0; n < GRAD_STEP / 4; n++) {
            const int key = 8 * (n / 2) + n % 2, e = 2 * half + n % 2;
            float slope;
            const float score = attention_cap(p, s[m][n / 2][e] * scale, &slope);
            const float probability =
                key < hidden || key >= seen ? 0 : gpu_exp2(score - w->lse[m][half]);
            ds[m][n / 2][e] = probability * (ds[m][n / 2][e] - w->delta[m][half]) * slope;
        }
    }
}

// Writes dq of the warp's rows, row0 and the next in the block, whose query 0 is t0.
template <typename T, int D, bool DROPS, int OTHERS>
static __device__ inline void
queries_finish(const queries_state<D, DROPS> *w, const kernel_attention_args &p, void *dq,
               attention_head a, queries_tiles<D, OTHERS> *tiles, int t0, int row0, int lane)
{
    GPU_UNROLL
    for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++)
        tile_put<T, D>(tiles->q, row0 + 16 * m, w->dq[m], p.scale, p.scale, lane);
    __syncwarp();
    tile_store<grad_shape<D, DROPS>::WARP_ROWS, D>(
        static_cast<uint16_t *>(dq) + attention_row(p, a, t0, p.q_stride), p.q_stride, tiles->q,
        row0, min(GRAD_ROWS, (int)p.queries.seq - t0), (int)p.head_dim, lane);
}

// Grid: heads of all sequences, blocks of queries. The last queries, which see the most keys, go first.
template <typename T, int D, bool DROPS, bool FORM, int OTHERS>
static __global__ void __launch_bounds__(grad_shape<D, DROPS>::THREADS, D == 32 ? 2 : 0)
    attention_grad_queries_kernel(const kernel_attention_args p, const void *d_o,
                                  const float *delta, void *dq)
{
    typedef grad_shape<D, DROPS> shape;
    auto *tiles = gpu_shared<queries_tiles<D, OTHERS>>();
    const int lane = (int)threadIdx.x % GPU_WARP,
              row0 = (int)threadIdx.x / GPU_WARP * shape::WARP_ROWS;
    const attention_head a = attention_head_of(p, blockIdx.x);
    const int t0 = (int)(gridDim.y - 1 - blockIdx.y) * GRAD_ROWS;
    const int queries = (int)p.queries.seq, last = min(t0 + GRAD_ROWS, queries) - 1;
    const auto k = tile_from(p.k, attention_key(p, a, p.k_batch), p.k_stride, p.head_dim);
    const auto v = tile_from(p.v, attention_key(p, a, p.v_batch), p.v_stride, p.head_dim);
    const attention_draw draw = DROPS ? attention_draw_read(p) : attention_draw();
    const float keep_scale = DROPS ? 1 / (1 - p.dropout.p) : 1;
    queries_state<D, DROPS> w;
    tile_copy<GRAD_ROWS, D, shape::THREADS>(
        tiles->q, tile_from(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, p.head_dim), t0,
        queries, p.q);
    tile_copy<GRAD_ROWS, D, shape::THREADS>(
        tiles->d_o, tile_from(d_o, attention_row(p, a, 0, p.o_stride), p.o_stride, p.head_dim), t0,
        queries, d_o);
    // The keys that some query of the block, some query of the warp, and every query of the warp sees.
    const int keys = attention_seen(p, last);
    const int some =
        t0 + row0 > last ? 0 : attention_seen(p, min(t0 + row0 + shape::WARP_ROWS - 1, last));
    const int all = attention_seen(p, min(t0 + row0, last));
    const attention_limits hidden = attention_hidden_of<FORM, OTHERS>(
        p, a.b, t0, min(t0 + row0, last), min(t0 + row0 + shape::WARP_ROWS - 1, last));
    tile_copy<OTHERS, D, shape::THREADS>(tiles->stage[0].k, k, hidden.block, keys, p.k);
    tile_copy<OTHERS, D, shape::THREADS>(tiles->stage[0].v, v, hidden.block, keys, p.v);
    gpu_copy_commit();
    queries_start<D, DROPS>(&w, p, delta, draw, a, t0 + row0, lane);
    for (int k0 = hidden.block, turn = 0; k0 < keys; k0 += OTHERS, turn ^= 1) {
        gpu_copy_wait<0>();
        __syncthreads(); // this stage is there, and the other one has been used
        if (k0 == hidden.block) queries_load<D, DROPS>(&w, tiles, row0, lane);
        tile_copy<OTHERS, D, shape::THREADS>(tiles->stage[turn ^ 1].k, k, k0 + OTHERS, keys, p.k);
        tile_copy<OTHERS, D, shape::THREADS>(tiles->stage[turn ^ 1].v, v, k0 + OTHERS, keys, p.v);
        gpu_copy_commit();
        for (int step = 0; step < OTHERS && k0 + step < some; step += GRAD_STEP) {
            if (FORM && k0 + step + GRAD_STEP <= hidden.all) continue; // the warp sees none
            const int here = gpu_opaque(lane);
            grad_scores<D, DROPS> s, ds;
            grad_zero<sizeof s / sizeof(float)>(&s[0][0][0]);
            grad_zero<sizeof ds / sizeof(float)>(&ds[0][0][0]);
            GPU_UNROLL
            for (int i = 0; i < D / 16; i++) {
                grad_multiply_step<T, D, DROPS>(s, w.q[i], tiles->stage[turn].k, step, i, here);
                grad_multiply_step<T, D, DROPS>(ds, w.d_o[i], tiles->stage[turn].v, step, i, here);
            }
            const int64_t t = t0 + row0 + lane / 4;
            if constexpr (FORM)
                queries_scores_form<D>(&w, s, ds, p, a.b, t, k0 + step,
                                       k0 + step + GRAD_STEP > all || k0 + step < hidden.some,
                                       here);
            else
                queries_scores<D, DROPS>(&w, s, ds, p, draw, t, k0 + step,
                                         k0 + step + GRAD_STEP > all, keep_scale, here);
            grad_multiply_rows<T, D, DROPS>(w.dq, ds, tiles->stage[turn].k, step, here);
        }
    }
    gpu_copy_wait<0>();
    if (some > 0) queries_finish<T, D, DROPS>(&w, p, dq, a, tiles, t0, row0, lane);
}

template <typename T, int D, bool DROPS, bool FORM>
static void launch_queries(const cuda_context *x, const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    const int64_t blocks = (p->queries.seq + GRAD_ROWS - 1) / GRAD_ROWS;
    grad_with_others<queries_tiles, D>([=]<int OTHERS>() {
        gpu_launch(x, "attention_grad_queries",
                   attention_grad_queries_kernel<T, D, DROPS, FORM, OTHERS>,
                   dim3((unsigned)(p->batch * p->heads), (unsigned)blocks),
                   dim3(grad_shape<D, DROPS>::THREADS), sizeof(queries_tiles<D, OTHERS>), *p,
                   g->d_o, g->delta, g->dq);
    });
}

extern "C" void cuda_attention_grad(const cuda_context *x, const void *args)
{
    const kernel_attention_grad_args *g = static_cast<const kernel_attention_grad_args *>(args);
    if (g->fwd.batch <= 0 || g->fwd.heads <= 0) return;
    if (cuda_dnn_attention_grad(x, g)) return;
    launch_delta(x, g);
    if (g->d_sinks) launch_sinks(x, g);
    if (attention_grad_has_tiles(g)) {
        attention_with_tiles(&g->fwd, [=]<typename T, int D, bool DROPS, bool FORM>() {
            launch_queries<T, D, DROPS, FORM>(x, g);
        });
        attention_grad_keys(x, g);
    } else {
        attention_plain_grad(x, g);
    }
}

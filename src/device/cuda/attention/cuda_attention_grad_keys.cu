// cuda_attention_grad_keys.cu -- dk and dv of attention by tensor cores. A block does GRAD_ROWS keys of one
// head of keys. It goes through the query heads that share the keys, in order, and through the queries of
// each that see a key of the block. So each sum has one order.
//
// The scores are computed as keys times queries: the probabilities of a warp's keys then lie in its
// registers as the product with the output gradients needs them, and never go through shared memory. The
// queries of the next stage are copied while a stage is used.
#include "device/cuda/attention/cuda_attention_grad.h"

// Queries of one head.
template <int D, int OTHERS> struct keys_stage {
    uint16_t q[OTHERS * D], d_o[OTHERS * D];
    float lse[OTHERS]; // in units of log 2; infinite for a row beyond the last query
    float delta[OTHERS];
    int seen[OTHERS]; // the number of keys, from key 0 on, of which the query sees the last
    union {           // no kernel has both dropout and FORM
        uint64_t draw[OTHERS]; // index of the random word of key 0
        int hidden[OTHERS];    // FORM: the number of the first keys that are hidden from the query
    };
};

template <int D, int OTHERS> struct alignas(128) keys_tiles {
    uint16_t k[GRAD_ROWS * D], v[GRAD_ROWS * D]; // at the end, dk and dv
    keys_stage<D, OTHERS> stage[2];
};

// The stages of a block: `count` stages, of which each head has `stages`, from query t0 on.
struct keys_walk {
    int b, kv, t0, stages, count;
};

// The statistics of one query, on their way to a stage.
struct keys_stats {
    float lse, delta;
};

template <bool FORM, int OTHERS>
static __device__ inline keys_walk keys_walk_of(const kernel_attention_args &p)
{
    keys_walk w;
    const int64_t key0 = (int64_t)blockIdx.y * GRAD_ROWS, first = attention_first_query(p, key0);
    w.b = (int)(blockIdx.x / p.kv_heads);
    w.kv = (int)(blockIdx.x % p.kv_heads);
    const int end = FORM ? attention_end_query(p, w.b, key0 + GRAD_ROWS - 1) : (int)p.queries.seq;
    w.t0 = (int)(first < p.queries.seq ? first / OTHERS * OTHERS : p.queries.seq);
    w.stages = (FORM ? max(end - w.t0, 0) + OTHERS - 1 : end - w.t0 + OTHERS - 1) / OTHERS;
    w.count = w.stages * (int)(p.heads / p.kv_heads);
    return w;
}

static __device__ inline attention_head keys_head(const kernel_attention_args &p,
                                                  const keys_walk &w, int i)
{
    return {w.b, w.kv * (p.heads / p.kv_heads) + i / w.stages, w.kv};
}

template <int OTHERS> static __device__ inline int keys_query(const keys_walk &w, int i)
{
    return w.t0 + i % w.stages * OTHERS;
}

// Starts the copies of stage i, and reads the statistics of this thread's query.
template <int D, bool DROPS, int OTHERS>
static __device__ inline keys_stats keys_fetch(keys_stage<D, OTHERS> *stage,
                                               const kernel_attention_args &p, const void *d_o,
                                               const float *delta, const keys_walk &w, int i)
{
    constexpr int THREADS = grad_shape<D, DROPS>::THREADS;
    const attention_head a = keys_head(p, w, i);
    const int t0 = keys_query<OTHERS>(w, i), queries = (int)p.queries.seq,
              t = t0 + (int)threadIdx.x;
    tile_copy<OTHERS, D, THREADS>(
        stage->q, tile_from(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, p.head_dim), t0,
        queries, p.q);
    tile_copy<OTHERS, D, THREADS>(
        stage->d_o, tile_from(d_o, attention_row(p, a, 0, p.o_stride), p.o_stride, p.head_dim), t0,
        queries, d_o);
    if (threadIdx.x >= OTHERS || t >= queries) return {INFINITY, 0};
    const int64_t stat = attention_stat(p, a) + t;
    return {p.lse[stat] * ATTENTION_LOG2E, delta[stat]};
}

template <int D, bool DROPS, bool FORM, int OTHERS>
static __device__ inline void keys_put(keys_stage<D, OTHERS> *stage, const keys_stats &stats,
                                       const kernel_attention_args &p, const attention_draw &draw,
                                       const keys_walk &w, int i)
{
    if (threadIdx.x >= OTHERS) return;
    const int row = (int)threadIdx.x,
              t = min(keys_query<OTHERS>(w, i) + row, (int)p.queries.seq - 1);
    stage->lse[row] = stats.lse;
    stage->delta[row] = stats.delta;
    stage->seen[row] = attention_seen(p, t);
    if (FORM)
        stage->hidden[row] = attention_hidden(p, w.b, t);
    else if (DROPS)
        stage->draw[row] = attention_draw_index(p, draw, keys_head(p, w, i), t);
}

// For a fragment of sums whose rows are keys: bit 4 e is set if the probability of sum e is kept. key0 is
// the key of row 0, a multiple of 16, and index are those of the lane's two queries. A counter gives the
// words of four keys, which four lanes hold: each of the four draws those of one sum.
static __device__ inline unsigned keys_keeps(const attention_draw &d, const uint64_t *index,
                                             int key0, int lane)
{
    unsigned kept = 0;
    if (d.in_fours) {
        const int e = lane / 4 % 4, first = key0 + 8 * (e / 2) + lane / 16 * 4;
        kept = attention_keeps_four(d, (index[e % 2] + (uint64_t)first) / 4) << (4 * e);
        kept |= __shfl_xor_sync(GPU_ALL_LANES, kept, 4);
        kept |= __shfl_xor_sync(GPU_ALL_LANES, kept, 8);
        return kept >> e;
    }
    GPU_UNROLL
    for (int e = 0; e < 4; e++) {
        const int key = key0 + lane / 4 + 8 * (e / 2);
        kept |= (unsigned)attention_keeps(d, index[e % 2] + (uint64_t)key) << (4 * e);
    }
    return kept;
}

// From scores s and gradients ds of the probabilities, of the warp's keys from `key` on and the stage's
// queries from `step` on: replaces s by the probabilities after dropout, but for its factor, and ds by the
// gradients of the scores.
template <int D, bool DROPS, int OTHERS>
static __device__ inline void
keys_scores(grad_scores<D, DROPS> &s, grad_scores<D, DROPS> &ds, const keys_stage<D, OTHERS> *stage,
            const kernel_attention_args &p, const attention_draw &draw, int key, int step,
            bool masked, int lane)
{
    const float scale = p.scale * ATTENTION_LOG2E, keep_scale = DROPS ? 1 / (1 - p.dropout.p) : 1;
    GPU_UNROLL
    for (int n = 0; n < GRAD_STEP / 8; n++) {
        const int c = step + 8 * n + 2 * (lane % 4); // the first of the lane's two queries
        const float lse[2] = {stage->lse[c], stage->lse[c + 1]};
        const float delta[2] = {stage->delta[c], stage->delta[c + 1]};
        GPU_UNROLL
        for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++) {
            float probability[4];
            GPU_UNROLL
            for (int e = 0; e < 4; e++) probability[e] = gpu_exp2(s[m][n][e] * scale - lse[e % 2]);
            if (masked) {
                GPU_UNROLL
                for (int e = 0; e < 4; e++)
                    if (key + 16 * m + lane / 4 + 8 * (e / 2) >= stage->seen[c + e % 2])
                        probability[e] = 0;
            }
            const unsigned kept = DROPS ? keys_keeps(draw, stage->draw + c, key + 16 * m, lane) : 0;
            GPU_UNROLL
            for (int e = 0; e < 4; e++) {
                const bool keep = !DROPS || (kept >> 4 * e & 1);
                s[m][n][e] = keep ? probability[e] : 0;
                ds[m][n][e] =
                    probability[e] * ((keep ? ds[m][n][e] * keep_scale : 0) - delta[e % 2]);
            }
        }
    }
}

// As keys_scores, for a call with a window, a cap, sinks or documents.
template <int D, bool DROPS, int OTHERS>
static __device__ inline void keys_scores_form(grad_scores<D, DROPS> &s, grad_scores<D, DROPS> &ds,
                                               const keys_stage<D, OTHERS> *stage,
                                               const kernel_attention_args &p, int key, int step,
                                               int lane)
{
    const float scale = p.scale * ATTENTION_LOG2E;
    GPU_UNROLL
    for (int n = 0; n < GRAD_STEP / 8; n++) {
        GPU_UNROLL
        for (int e = 0; e < 4; e++) {
            const int c = step + 8 * n + 2 * (lane % 4) + e % 2, seen = stage->seen[c];
            const int hidden = stage->hidden[c];
            GPU_UNROLL
            for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++) {
                const int j = key + 16 * m + lane / 4 + 8 * (e / 2);
                float slope;
                const float score = attention_cap(p, s[m][n][e] * scale, &slope);
                s[m][n][e] = j < hidden || j >= seen ? 0 : gpu_exp2(score - stage->lse[c]);
                ds[m][n][e] = s[m][n][e] * (ds[m][n][e] - stage->delta[c]) * slope;
            }
        }
    }
}

// Adds the share of queries `step` … step+GRAD_STEP-1 of the stage to dk and dv of the warp's keys.
template <typename T, int D, bool DROPS, bool FORM, int OTHERS>
static __device__ inline void
keys_step(float (*dk)[D / 8][4], float (*dv)[D / 8][4], const keys_tiles<D, OTHERS> *tiles,
          const keys_stage<D, OTHERS> *stage, const kernel_attention_args &p,
          const attention_draw &draw, int row0, int step, bool masked, int lane)
{
    constexpr int PARTS = grad_shape<D, DROPS>::PARTS;
    const int here = gpu_opaque(lane);
    grad_scores<D, DROPS> s, ds;
    grad_zero<sizeof s / sizeof(float)>(&s[0][0][0]);
    grad_zero<sizeof ds / sizeof(float)>(&ds[0][0][0]);
    GPU_UNROLL
    for (int i = 0; i < D / 16; i++) {
        uint32_t a[PARTS][4];
        GPU_UNROLL
        for (int m = 0; m < PARTS; m++) tile_a<D>(a[m], tiles->k, row0 + 16 * m, i, here);
        grad_multiply_step<T, D, DROPS>(s, a, stage->q, step, i, here);
        GPU_UNROLL
        for (int m = 0; m < PARTS; m++) tile_a<D>(a[m], tiles->v, row0 + 16 * m, i, here);
        grad_multiply_step<T, D, DROPS>(ds, a, stage->d_o, step, i, here);
    }
    const int key = (int)blockIdx.y * GRAD_ROWS + row0;
    if constexpr (FORM)
        keys_scores_form<D, DROPS>(s, ds, stage, p, key, step, here);
    else
        keys_scores<D, DROPS>(s, ds, stage, p, draw, key, step, masked, here);
    grad_multiply_rows<T, D, DROPS>(dv, s, stage->d_o, step, gpu_opaque(lane));
    grad_multiply_rows<T, D, DROPS>(dk, ds, stage->q, step, gpu_opaque(lane));
}

// Writes dk and dv of the warp's keys.
template <typename T, int D, bool DROPS, int OTHERS>
static __device__ inline void keys_finish(const float (*dk)[D / 8][4], const float (*dv)[D / 8][4],
                                          keys_tiles<D, OTHERS> *tiles,
                                          const kernel_attention_args &p, const keys_walk &w,
                                          void *to_dk, void *to_dv, int row0, int lane)
{
    constexpr int WARP_ROWS = grad_shape<D, DROPS>::WARP_ROWS;
    const float keep_scale = p.dropout.p > 0 ? 1 / (1 - p.dropout.p) : 1;
    GPU_UNROLL
    for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++) {
        tile_put<T, D>(tiles->k, row0 + 16 * m, dk[m], p.scale, p.scale, lane);
        tile_put<T, D>(tiles->v, row0 + 16 * m, dv[m], keep_scale, keep_scale, lane);
    }
    __syncwarp();
    const int64_t key0 = (int64_t)blockIdx.y * GRAD_ROWS;
    const attention_head a = {w.b, 0, w.kv};
    const int rows = (int)(p.tk - key0 < GRAD_ROWS ? p.tk - key0 : GRAD_ROWS);
    tile_store<WARP_ROWS, D>(static_cast<uint16_t *>(to_dk) + attention_key(p, a, p.k_batch) +
                                 key0 * p.k_stride,
                             p.k_stride, tiles->k, row0, rows, (int)p.head_dim, lane);
    tile_store<WARP_ROWS, D>(static_cast<uint16_t *>(to_dv) + attention_key(p, a, p.v_batch) +
                                 key0 * p.v_stride,
                             p.v_stride, tiles->v, row0, rows, (int)p.head_dim, lane);
}

// Grid: heads of keys of all sequences, blocks of keys. The first keys, which the most queries see, go first.
template <typename T, int D, bool DROPS, bool FORM, int OTHERS>
static __global__ void __launch_bounds__(grad_shape<D, DROPS>::THREADS)
    attention_grad_keys_kernel(const kernel_attention_args p, const void *d_o, const float *delta,
                               void *to_dk, void *to_dv)
{
    typedef grad_shape<D, DROPS> shape;
    auto *tiles = gpu_shared<keys_tiles<D, OTHERS>>();
    const int lane = (int)threadIdx.x % GPU_WARP,
              row0 = (int)threadIdx.x / GPU_WARP * shape::WARP_ROWS;
    const int key0 = (int)blockIdx.y * GRAD_ROWS, queries = (int)p.queries.seq;
    const keys_walk w = keys_walk_of<FORM, OTHERS>(p);
    const attention_head a = {w.b, 0, w.kv};
    const attention_draw draw = DROPS ? attention_draw_read(p) : attention_draw();
    float dk[shape::PARTS][D / 8][4], dv[shape::PARTS][D / 8][4];
    grad_zero<sizeof dk / sizeof(float)>(&dk[0][0][0]);
    grad_zero<sizeof dv / sizeof(float)>(&dv[0][0][0]);
    tile_copy<GRAD_ROWS, D, shape::THREADS>(
        tiles->k, tile_from(p.k, attention_key(p, a, p.k_batch), p.k_stride, p.head_dim), key0,
        (int)p.tk, p.k);
    tile_copy<GRAD_ROWS, D, shape::THREADS>(
        tiles->v, tile_from(p.v, attention_key(p, a, p.v_batch), p.v_stride, p.head_dim), key0,
        (int)p.tk, p.v);
    if (w.count > 0) {
        const keys_stats stats = keys_fetch<D, DROPS>(&tiles->stage[0], p, d_o, delta, w, 0);
        keys_put<D, DROPS, FORM>(&tiles->stage[0], stats, p, draw, w, 0);
    }
    gpu_copy_commit();
    for (int i = 0; i < w.count; i++) {
        const keys_stage<D, OTHERS> *stage = &tiles->stage[i % 2];
        keys_stage<D, OTHERS> *other = &tiles->stage[(i + 1) % 2];
        keys_stats stats = {INFINITY, 0};
        gpu_copy_wait<0>();
        __syncthreads(); // this stage is there, and the other one has been used
        if (i + 1 < w.count) stats = keys_fetch<D, DROPS>(other, p, d_o, delta, w, i + 1);
        gpu_copy_commit();
        const int left = queries - keys_query<OTHERS>(w, i);
        for (int step = 0; step < OTHERS && step < left; step += GRAD_STEP) {
            if (stage->seen[min(step + GRAD_STEP, left) - 1] <= key0 + row0)
                continue; // none sees the warp's
            if (FORM && stage->hidden[step] >= key0 + row0 + shape::WARP_ROWS)
                continue; // their windows, or documents, begin after the warp's
            keys_step<T, D, DROPS, FORM>(dk, dv, tiles, stage, p, draw, row0, step,
                                         key0 + row0 + shape::WARP_ROWS > stage->seen[step], lane);
        }
        if (i + 1 < w.count) keys_put<D, DROPS, FORM>(other, stats, p, draw, w, i + 1);
    }
    gpu_copy_wait<0>();
    __syncthreads(); // the keys and values are there, if no stage was
    keys_finish<T, D, DROPS>(dk, dv, tiles, p, w, to_dk, to_dv, row0, lane);
}

template <typename T, int D, bool DROPS, bool FORM>
static void launch_keys(const cuda_context *x, const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    const int64_t blocks = (p->tk + GRAD_ROWS - 1) / GRAD_ROWS;
    grad_with_others<keys_tiles, D>([=]<int OTHERS>() {
        gpu_launch(x, "attention_grad_keys", attention_grad_keys_kernel<T, D, DROPS, FORM, OTHERS>,
                   dim3((unsigned)(p->batch * p->kv_heads), (unsigned)blocks),
                   dim3(grad_shape<D, DROPS>::THREADS), sizeof(keys_tiles<D, OTHERS>), *p, g->d_o,
                   g->delta, g->dk, g->dv);
    });
}

void attention_grad_keys(const cuda_context *x, const kernel_attention_grad_args *g)
{
    attention_with_tiles(&g->fwd, [=]<typename T, int D, bool DROPS, bool FORM>() {
        // The shape of dropout leaves the registers that two parts of this width lack.
        launch_keys<T, D, DROPS || (FORM && D == 64), FORM>(x, g);
    });
}

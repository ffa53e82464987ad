// cuda_attention.h -- shared by the attention kernels: which keys a query sees, where the vectors of a
// head lie, the cap of scores, sinks, and the random numbers of dropout. It knows no tile.
//
// FORM of a kernel says that the call may have a window, a cap, sinks or documents. Without it, the kernel has no code
// for them. A document hides earlier keys as a window does: the first key that a query sees never falls from query to
// query.
//
// The form depends on types, shapes and addresses only, and each query, or key, of each batch and
// head is computed as if it were alone. So a row's bits depend neither on the batch nor on how many heads
// a rank has.
#ifndef TRIREME_DEVICE_CUDA_CUDA_ATTENTION_H
#define TRIREME_DEVICE_CUDA_CUDA_ATTENTION_H

#include "device/cuda/gpu.h"

constexpr int ATTENTION_MAX_WIDTH = 128; // heads up to so wide go to tensor cores
constexpr float ATTENTION_LOG2E = 1.44269504088896340736f, ATTENTION_LN2 = 0.69314718055994530942f;

// Forms without tensor cores, for every type, width and alignment.
void attention_plain(const cuda_context *x, const kernel_attention_args *p);
void attention_plain_grad(const cuda_context *x, const kernel_attention_grad_args *g);
// A few queries of each sequence against many keys.
void attention_decode(const cuda_context *x, const kernel_attention_args *p);
// dk and dv by tensor cores, once delta is there.
void attention_grad_keys(const cuda_context *x, const kernel_attention_grad_args *g);

// Returns whether an array with these rows can be read 16 bytes at a time.
static inline bool attention_aligned(const void *p, int64_t stride, int64_t batch)
{
    return gpu_is_aligned16(p) && stride % 8 == 0 && batch % 8 == 0;
}

// Returns whether tensor cores can do it. Their tiles need 16-bit elements, and rows that are aligned to 16 bytes. No
// tile kernel has both dropout and FORM.
static inline bool attention_has_tiles(const kernel_attention_args *p)
{
    return p->type != F32 && p->head_dim % 8 == 0 && p->head_dim <= ATTENTION_MAX_WIDTH &&
           (p->dropout.p == 0 || kernel_attention_is_plain(p)) &&
           attention_aligned(p->q, p->q_stride, 0) && attention_aligned(p->o, p->o_stride, 0) &&
           attention_aligned(p->k, p->k_stride, p->k_batch) &&
           attention_aligned(p->v, p->v_stride, p->v_batch);
}

// As attention_has_tiles, for the gradients.
static inline bool attention_grad_has_tiles(const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    return attention_has_tiles(p) && gpu_is_aligned16(g->d_o) && gpu_is_aligned16(g->dq) &&
           gpu_is_aligned16(g->dk) && gpu_is_aligned16(g->dv);
}

// Calls f.template operator()<T, D, DROPS, FORM>() for the 16-bit type, the width of the tiles that hold head_dim, and
// what else the call has.
template <typename T, int D, typename F>
static void attention_with_form(const kernel_attention_args *p, F f)
{
    if (!kernel_attention_is_plain(p))
        f.template operator()<T, D, false, true>();
    else if (p->dropout.p > 0)
        f.template operator()<T, D, true, false>();
    else
        f.template operator()<T, D, false, false>();
}
template <typename T, typename F>
static void attention_with_width(const kernel_attention_args *p, F f)
{
    if (p->head_dim <= 32)
        attention_with_form<T, 32>(p, f);
    else if (p->head_dim <= 64)
        attention_with_form<T, 64>(p, f);
    else if (p->head_dim <= 96)
        attention_with_form<T, 96>(p, f);
    else
        attention_with_form<T, 128>(p, f);
}
template <typename F> static void attention_with_tiles(const kernel_attention_args *p, F f)
{
    if (p->type == BF16)
        attention_with_width<gpu_bf16>(p, f);
    else
        attention_with_width<gpu_f16>(p, f);
}

// One head of one sequence.
struct attention_head {
    int64_t b, h, kv;
};

// Head number i of B * H.
static __device__ inline attention_head attention_head_of(const kernel_attention_args &p, int64_t i)
{
    const int64_t h = i % p.heads;
    return {i / p.heads, h, h / (p.heads / p.kv_heads)};
}

// Offsets in elements: of the vectors of query t with a row stride, of the keys of the head, and of the
// statistics of query 0.
static __device__ inline int64_t attention_row(const kernel_attention_args &p, attention_head a,
                                               int64_t t, int64_t stride)
{
    return (a.b * p.queries.seq + t) * stride + a.h * p.head_dim;
}
static __device__ inline int64_t attention_key(const kernel_attention_args &p, attention_head a,
                                               int64_t batch)
{
    return a.b * batch + a.kv * p.head_dim;
}
static __device__ inline int64_t attention_stat(const kernel_attention_args &p, attention_head a)
{
    return (a.b * p.heads + a.h) * p.queries.seq;
}

// Reads N elements: one, or as many as 16 bytes hold, from an address that is aligned to 16 bytes.
template <typename T, int N> static __device__ inline void attention_read(float x[N], const T *from)
{
    if constexpr (N == 1) {
        x[0] = gpu_to_float(*from);
    } else {
        const gpu_pack<T, N> v = gpu_load_pack<T, N>(from);
        GPU_UNROLL
        for (int i = 0; i < N; i++) x[i] = gpu_to_float(v.v[i]);
    }
}

// The number of keys, from key 0 on, that query t sees. A later query sees at least as many.
static __device__ inline int attention_seen(const kernel_attention_args &p, int64_t t)
{
    if (!p.causal) return (int)p.tk;
    const int64_t seen = kernel_token_position(&p.queries, t) + 1;
    return (int)(seen < p.tk ? seen : p.tk);
}

// The number of keys, from key 0 on, that lie before the window or the document of query t of sequence b. No later query
// has fewer.
static __device__ inline int attention_hidden(const kernel_attention_args &p, int64_t b, int64_t t)
{
    if (!p.causal) return 0;
    if (p.queries.documents) return (int)kernel_attention_row_first_key(&p, b * p.queries.seq + t);
    return (int)kernel_attention_first_key(&p.form, kernel_token_position(&p.queries, t));
}

// The keys that lie before the windows and the documents: of all queries of a block, in whole tiles of TILE keys; of all
// queries of a warp; and of some query of the warp. The warp has queries from t to t_end, and the block from t0 on.
struct attention_limits {
    int block, all, some;
};

template <bool FORM, int TILE>
static __device__ inline attention_limits attention_hidden_of(const kernel_attention_args &p,
                                                              int64_t b, int t0, int t, int t_end)
{
    if (!FORM) return {0, 0, 0};
    return {attention_hidden(p, b, t0) / TILE * TILE, attention_hidden(p, b, t),
            attention_hidden(p, b, t_end)};
}

// The first query that key j does not come after; queries.seq or more if there is none.
static __device__ inline int64_t attention_first_query(const kernel_attention_args &p, int64_t j)
{
    const kernel_tokens &q = p.queries;
    if (!p.causal || j < q.start[0]) return 0;
    if (j < q.start[0] + q.chunk) return j - q.start[0];
    if (q.chunk == q.seq) return q.seq;
    return q.chunk + (j > q.start[1] ? j - q.start[1] : 0);
}

// The number of queries of sequence b, from query 0 on, whose documents do not begin after key j. The lanes of a warp call
// it together: each looks at the last query of a piece.
static __device__ inline int attention_end_document(const kernel_attention_args &p, int64_t b,
                                                    int64_t j)
{
    const int32_t *start = p.queries.documents + p.queries.first_row + b * p.queries.seq;
    const int lane = (int)threadIdx.x % GPU_WARP;
    int first = 0, count = (int)p.queries.seq; // the end is among first … first+count
    while (count > 0) {
        const int piece = (count + GPU_WARP - 1) / GPU_WARP, last = (lane + 1) * piece - 1;
        unsigned before = __ballot_sync(GPU_ALL_LANES, last < count && start[first + last] <= j),
                 pieces = 0;
        for (; before & 1; before >>= 1) pieces++;
        first += (int)pieces * piece;
        count = min(count - (int)pieces * piece, piece - 1);
    }
    return first;
}

// The number of queries of sequence b, from query 0 on, after which key j lies before every window and document. The lanes
// of a warp call it together.
static __device__ inline int attention_end_query(const kernel_attention_args &p, int64_t b,
                                                 int64_t j)
{
    int end = (int)p.queries.seq;
    if (!p.causal) return end;
    if (p.form.window > 0)
        end = (int)min(attention_first_query(p, j + p.form.window), (int64_t)end);
    if (p.queries.documents) end = min(end, attention_end_document(p, b, j));
    return end;
}

// A scaled score, in units of log 2, after the cap; *slope is that of the cap.
static __device__ inline float attention_cap(const kernel_attention_args &p, float score,
                                             float *slope)
{
    const float cap = p.form.softcap * ATTENTION_LOG2E;
    *slope = 1;
    if (cap <= 0) return score;
    const float ratio = tanhf(score / cap);
    *slope = 1 - ratio * ratio;
    return cap * ratio;
}

// The sink of head h, in units of log 2; -INFINITY where there is none.
static __device__ inline float attention_sink(const kernel_attention_args &p, int64_t h)
{
    if (!p.sinks) return -INFINITY;
    if (p.type == F32) return static_cast<const float *>(p.sinks)[h] * ATTENTION_LOG2E;
    if (p.type == BF16)
        return gpu_to_float(static_cast<const gpu_bf16 *>(p.sinks)[h]) * ATTENTION_LOG2E;
    return gpu_to_float(static_cast<const gpu_f16 *>(p.sinks)[h]) * ATTENTION_LOG2E;
}

// The random numbers of a call's dropout.
struct attention_draw {
    rng_key key;
    uint64_t row0;
    uint32_t limit; // a word is kept if its upper 24 bits are not below: rng_uniform(word) >= p
    bool in_fours;  // the words of a row begin with word 0 of a counter
};

static __device__ inline attention_draw attention_draw_read(const kernel_attention_args &p)
{
    const kernel_draw_key draw_key = kernel_draw_read(&p.dropout.draw);
    return {draw_key.key, draw_key.row0, (uint32_t)ceilf(p.dropout.p * 0x1p24f),
            p.dropout.stride % 4 == 0};
}

// The index of the random word of query t and key 0.
static __device__ inline uint64_t attention_draw_index(const kernel_attention_args &p,
                                                       const attention_draw &d, attention_head a,
                                                       int64_t t)
{
    const uint64_t heads = (uint64_t)(p.dropout.all_heads ? p.dropout.all_heads : p.heads);
    const uint64_t row =
        d.row0 + (uint64_t)(a.b * p.queries.full_seq + kernel_token_position(&p.queries, t));
    return (row * heads + (uint64_t)(p.dropout.head0 + a.h)) * p.dropout.stride;
}

// Returns whether the probability of the word with this index is kept.
static __device__ inline bool attention_keeps(const attention_draw &d, uint64_t index)
{
    return rng_word(d.key, index) >> 8 >= d.limit;
}

// Bit i is set if the probability of word 4 * counter + i is kept.
static __device__ inline unsigned attention_keeps_four(const attention_draw &d, uint64_t counter)
{
    uint32_t words[4];
    unsigned kept = 0;
    rng_philox(d.key, counter, words);
    GPU_UNROLL
    for (int i = 0; i < 4; i++) kept |= (unsigned)(words[i] >> 8 >= d.limit) << i;
    return kept;
}

// For a fragment of sums whose rows are queries: bit 2 half + e is set if the probability of row `half` and
// key key0 + 2 (lane % 4) + e is kept. index: of the random words of the lane's two rows and key 0. A counter
// gives the words of four keys, which two lanes hold: each of the two draws those of one row.
static __device__ inline unsigned attention_keeps_rows(const attention_draw &d,
                                                       const uint64_t index[2], int key0, int lane)
{
    const int t = lane % 4, odd = t & 1;
    unsigned kept = 0;
    if (d.in_fours) {
        unsigned four = attention_keeps_four(d, ((odd ? index[1] : index[0]) + (uint64_t)key0) / 4 +
                                                    (uint64_t)(t / 2))
                        << (4 * odd);
        four |= __shfl_xor_sync(GPU_ALL_LANES, four, 1);
        four >>= 2 * odd;
        return (four & 3) | (four >> 2 & 12);
    }
    GPU_UNROLL
    for (int i = 0; i < 4; i++)
        kept |= (unsigned)attention_keeps(d, index[i / 2] + (uint64_t)(key0 + 2 * t + i % 2)) << i;
    return kept;
}

#endif

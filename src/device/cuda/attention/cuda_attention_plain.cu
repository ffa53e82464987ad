// cuda_attention_plain.cu -- attention and its gradients without tensor cores: for F32 (true fp32), for heads
// wider than ATTENTION_MAX_WIDTH, for rows that are not aligned to 16 bytes, and for dropout with a window, a
// cap, sinks or documents. cuda_attention and cuda_attention_grad call it. It reads one element at a time.
//
// A block of 16 x 16 threads does PLAIN_ROWS rows of one head, and WIDTH columns of their results: blocks that
// do other columns compute the same scores again. Thread (x, y) has rows y, y+16, … and columns x, x+16, … of
// every product.
#include "device/cuda/attention/cuda_attention.h"

constexpr int PLAIN_SIDE = 16;
constexpr int PLAIN_THREADS = PLAIN_SIDE * PLAIN_SIDE;
constexpr int PLAIN_EACH = 4;                       // rows, and columns of scores, of a thread
constexpr int PLAIN_ROWS = PLAIN_SIDE * PLAIN_EACH; // rows and columns of a tile of scores
constexpr int PLAIN_DEPTH = 32; // columns of a head that a product takes at once

template <int WIDTH> struct plain_tiles {
    float a[PLAIN_ROWS][PLAIN_DEPTH + 1], b[PLAIN_ROWS][PLAIN_DEPTH + 1];
    float s[PLAIN_ROWS][PLAIN_ROWS + 1]; // one factor of a product with rows of `rows`
    float rows[PLAIN_ROWS][WIDTH + 1];
};

typedef float plain_scores[PLAIN_EACH][PLAIN_EACH];

// Rows of a matrix in device memory; rows from `count` on are zero.
template <typename T> struct plain_matrix {
    const T *from;
    int64_t stride;
    int count;
};

template <typename T>
static __device__ inline plain_matrix<T> plain_rows(const void *p, int64_t offset, int64_t stride,
                                                    int64_t row0, int64_t rows)
{
    return {static_cast<const T *>(p) + offset + row0 * stride, stride,
            (int)(rows - row0 < PLAIN_ROWS ? rows - row0 : PLAIN_ROWS)};
}

// Copies columns col0 … col0+COLS-1 of PLAIN_ROWS rows; those from `cols` on are zero.
template <int COLS, typename T>
static __device__ inline void plain_copy(float (*to)[COLS + 1], const plain_matrix<T> &m,
                                         int64_t col0, int64_t cols)
{
    for (int i = (int)threadIdx.x; i < PLAIN_ROWS * COLS; i += PLAIN_THREADS) {
        const int row = i / COLS, col = i % COLS;
        const bool valid = row < m.count && col0 + col < cols;
        to[row][col] = valid ? gpu_to_float(m.from[row * m.stride + col0 + col]) : 0;
    }
}

// s = a · b^T over `cols` columns.
template <typename T, int WIDTH>
static __device__ inline void plain_multiply(plain_scores &s, plain_tiles<WIDTH> *tiles,
                                             const plain_matrix<T> &a, const plain_matrix<T> &b,
                                             int64_t cols)
{
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH * PLAIN_EACH; i++) s[i / PLAIN_EACH][i % PLAIN_EACH] = 0;
    for (int64_t col0 = 0; col0 < cols; col0 += PLAIN_DEPTH) {
        __syncthreads();
        plain_copy<PLAIN_DEPTH>(tiles->a, a, col0, cols);
        plain_copy<PLAIN_DEPTH>(tiles->b, b, col0, cols);
        __syncthreads();
        for (int k = 0; k < PLAIN_DEPTH; k++) {
            float left[PLAIN_EACH], right[PLAIN_EACH];
            GPU_UNROLL
            for (int i = 0; i < PLAIN_EACH; i++) {
                left[i] = tiles->a[y + PLAIN_SIDE * i][k];
                right[i] = tiles->b[x + PLAIN_SIDE * i][k];
            }
            GPU_UNROLL
            for (int i = 0; i < PLAIN_EACH; i++) {
                GPU_UNROLL
                for (int j = 0; j < PLAIN_EACH; j++) s[i][j] += left[i] * right[j];
            }
        }
    }
}

// out += s · columns col0 … col0+WIDTH-1 of the rows of m.
template <typename T, int WIDTH>
static __device__ inline void
plain_add_product(float (*out)[WIDTH / PLAIN_SIDE], plain_tiles<WIDTH> *tiles,
                  const plain_scores &s, const plain_matrix<T> &m, int64_t col0, int64_t cols)
{
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    __syncthreads();
    plain_copy<WIDTH>(tiles->rows, m, col0, cols);
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH * PLAIN_EACH; i++)
        tiles->s[y + PLAIN_SIDE * (i / PLAIN_EACH)][x + PLAIN_SIDE * (i % PLAIN_EACH)] =
            s[i / PLAIN_EACH][i % PLAIN_EACH];
    __syncthreads();
    for (int k = 0; k < PLAIN_ROWS; k++) {
        float left[PLAIN_EACH];
        GPU_UNROLL
        for (int i = 0; i < PLAIN_EACH; i++) left[i] = tiles->s[y + PLAIN_SIDE * i][k];
        GPU_UNROLL
        for (int j = 0; j < WIDTH / PLAIN_SIDE; j++) {
            const float right = tiles->rows[k][x + PLAIN_SIDE * j];
            GPU_UNROLL
            for (int i = 0; i < PLAIN_EACH; i++) out[i][j] += left[i] * right;
        }
    }
}

// Writes out [.][.] times factor to rows row0 … of a matrix with `rows` rows, and to columns from col0 on.
template <typename T, int WIDTH>
static __device__ inline void
plain_store(void *to, int64_t offset, int64_t stride, int64_t row0, int64_t rows, int64_t col0,
            int64_t cols, const float (*out)[WIDTH / PLAIN_SIDE], const float factor[PLAIN_EACH])
{
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH; i++) {
        const int64_t row = row0 + y + PLAIN_SIDE * i;
        GPU_UNROLL
        for (int j = 0; j < WIDTH / PLAIN_SIDE; j++) {
            const int64_t col = col0 + x + PLAIN_SIDE * j;
            if (row < rows && col < cols)
                static_cast<T *>(to)[offset + row * stride + col] =
                    gpu_from_float<T>(out[i][j] * factor[i]);
        }
    }
}

// A query, whose number may be beyond the last one: then it sees no key.
struct plain_query {
    int hidden, seen; // it sees keys hidden … seen-1
    float lse, delta; // lse in units of log 2
    uint64_t draw;    // index of the random word of key 0
};

static __device__ inline plain_query plain_query_of(const kernel_attention_args &p,
                                                    const attention_draw &draw, attention_head a,
                                                    int64_t t, const float *delta)
{
    plain_query q = {0, 0, 0, 0, 0};
    if (t >= p.queries.seq) return q;
    q.hidden = attention_hidden(p, a.b, t);
    q.seen = attention_seen(p, t);
    if (p.dropout.p > 0) q.draw = attention_draw_index(p, draw, a, t);
    if (!delta) return q;
    q.lse = p.lse[attention_stat(p, a) + t] * ATTENTION_LOG2E;
    q.delta = delta[attention_stat(p, a) + t];
    return q;
}

static __device__ inline float plain_keep(const kernel_attention_args &p,
                                          const attention_draw &draw, const plain_query &q,
                                          int64_t key)
{
    if (p.dropout.p <= 0) return 1;
    return attention_keeps(draw, q.draw + (uint64_t)key) ? 1 / (1 - p.dropout.p) : 0;
}

static __device__ inline attention_draw plain_draw(const kernel_attention_args &p)
{
    return p.dropout.p > 0 ? attention_draw_read(p) : attention_draw();
}

// Over the 16 threads that share rows.
static __device__ inline float plain_row_max(float x)
{
    for (int lane = 1; lane < PLAIN_SIDE; lane *= 2)
        x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, lane));
    return x;
}
static __device__ inline float plain_row_sum(float x)
{
    for (int lane = 1; lane < PLAIN_SIDE; lane *= 2) x += __shfl_xor_sync(GPU_ALL_LANES, x, lane);
    return x;
}

// Replaces the scores of a row by probabilities with the row's new maximum `top`, and scales its outputs and
// its sum to it. k0 is the first key of the tile.
template <int N, bool FORM>
static __device__ inline void plain_softmax(const kernel_attention_args &p, float s[PLAIN_EACH],
                                            float *top, float *sum, float out[N],
                                            const plain_query &q, int k0)
{
    const int key = k0 + (int)threadIdx.x % PLAIN_SIDE;
    float most = *top, share = 0, slope;
    GPU_UNROLL
    for (int j = 0; j < PLAIN_EACH; j++) {
        s[j] *= p.scale * ATTENTION_LOG2E;
        if (FORM) s[j] = attention_cap(p, s[j], &slope);
        if (key + PLAIN_SIDE * j >= q.seen || (FORM && key + PLAIN_SIDE * j < q.hidden))
            s[j] = -INFINITY;
        most = fmaxf(most, s[j]);
    }
    most = plain_row_max(most);
    // A row beyond the last query, or one whose window or document is yet to begin.
    const float base = most == -INFINITY ? 0 : most;
    const float fade = gpu_exp2(*top - base);
    GPU_UNROLL
    for (int j = 0; j < PLAIN_EACH; j++) {
        s[j] = gpu_exp2(s[j] - base);
        share += s[j];
    }
    *sum = *sum * fade + plain_row_sum(share);
    *top = most;
    GPU_UNROLL
    for (int j = 0; j < N; j++) out[j] *= fade;
}

// Grid of the first two kernels: heads of all sequences, blocks of queries, blocks of columns.
template <typename T, int WIDTH, bool FORM>
static __global__ void __launch_bounds__(PLAIN_THREADS)
    attention_plain_kernel(const kernel_attention_args p)
{
    plain_tiles<WIDTH> *tiles = gpu_shared<plain_tiles<WIDTH>>();
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    const attention_head a = attention_head_of(p, blockIdx.x);
    const int64_t t0 = (int64_t)blockIdx.y * PLAIN_ROWS, col0 = (int64_t)blockIdx.z * WIDTH,
                  d = p.head_dim;
    const int64_t last = t0 + PLAIN_ROWS < p.queries.seq ? t0 + PLAIN_ROWS : p.queries.seq;
    const attention_draw draw = plain_draw(p);
    const auto q =
        plain_rows<T>(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, t0, p.queries.seq);
    plain_query query[PLAIN_EACH];
    float top[PLAIN_EACH], sum[PLAIN_EACH] = {}, out[PLAIN_EACH][WIDTH / PLAIN_SIDE] = {};
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH; i++) {
        query[i] = plain_query_of(p, draw, a, t0 + y + PLAIN_SIDE * i, nullptr);
        top[i] = FORM ? attention_sink(p, a.h) : -INFINITY;
        sum[i] = top[i] > -INFINITY ? 1 : 0;
    }
    const int keys = attention_seen(p, last - 1);
    for (int k0 = FORM ? attention_hidden(p, a.b, t0) / PLAIN_ROWS * PLAIN_ROWS : 0; k0 < keys;
         k0 += PLAIN_ROWS) {
        plain_scores s;
        plain_multiply<T, WIDTH>(
            s, tiles, q, plain_rows<T>(p.k, attention_key(p, a, p.k_batch), p.k_stride, k0, p.tk),
            d);
        GPU_UNROLL
        for (int i = 0; i < PLAIN_EACH; i++) {
            plain_softmax<WIDTH / PLAIN_SIDE, FORM>(p, s[i], &top[i], &sum[i], out[i], query[i],
                                                    k0);
            GPU_UNROLL
            for (int j = 0; j < PLAIN_EACH; j++)
                s[i][j] *= plain_keep(p, draw, query[i], k0 + x + PLAIN_SIDE * j);
        }
        plain_add_product<T, WIDTH>(
            out, tiles, s, plain_rows<T>(p.v, attention_key(p, a, p.v_batch), p.v_stride, k0, p.tk),
            col0, d);
    }
    float factor[PLAIN_EACH];
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH; i++) {
        const int64_t t = t0 + y + PLAIN_SIDE * i;
        factor[i] = 1 / sum[i];
        if (x == 0 && blockIdx.z == 0 && t < p.queries.seq)
            p.lse[attention_stat(p, a) + t] = (top[i] + log2f(sum[i])) * ATTENTION_LN2;
    }
    plain_store<T, WIDTH>(p.o, attention_row(p, a, 0, p.o_stride), p.o_stride, t0, p.queries.seq,
                          col0, d, out, factor);
}

// From the score of (q, key) and the gradient dp of the probability: the probability after dropout in *kept,
// and the gradient of the score.
template <bool FORM>
static __device__ inline float plain_score_grad(const kernel_attention_args &p,
                                                const attention_draw &draw, const plain_query &q,
                                                int64_t key, float s, float dp, float *kept)
{
    float slope = 1;
    *kept = 0;
    if (key >= q.seen || (FORM && key < q.hidden)) return 0;
    const float keep = plain_keep(p, draw, q, key);
    const float scaled = s * (p.scale * ATTENTION_LOG2E);
    const float probability = gpu_exp2((FORM ? attention_cap(p, scaled, &slope) : scaled) - q.lse);
    *kept = probability * keep;
    return FORM ? probability * (dp * keep - q.delta) * slope : probability * (dp * keep - q.delta);
}

template <typename T, int WIDTH, bool FORM>
static __global__ void __launch_bounds__(PLAIN_THREADS)
    attention_plain_queries_kernel(const kernel_attention_args p, const void *d_o,
                                   const float *delta, void *dq)
{
    plain_tiles<WIDTH> *tiles = gpu_shared<plain_tiles<WIDTH>>();
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    const attention_head a = attention_head_of(p, blockIdx.x);
    const int64_t t0 = (int64_t)blockIdx.y * PLAIN_ROWS, col0 = (int64_t)blockIdx.z * WIDTH,
                  d = p.head_dim;
    const int64_t last = t0 + PLAIN_ROWS < p.queries.seq ? t0 + PLAIN_ROWS : p.queries.seq;
    const attention_draw draw = plain_draw(p);
    const auto q =
        plain_rows<T>(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, t0, p.queries.seq);
    const auto g =
        plain_rows<T>(d_o, attention_row(p, a, 0, p.o_stride), p.o_stride, t0, p.queries.seq);
    plain_query query[PLAIN_EACH];
    float out[PLAIN_EACH][WIDTH / PLAIN_SIDE] = {}, kept;
    GPU_UNROLL
    for (int i = 0; i < PLAIN_EACH; i++)
        query[i] = plain_query_of(p, draw, a, t0 + y + PLAIN_SIDE * i, delta);
    const int keys = attention_seen(p, last - 1);
    for (int k0 = FORM ? attention_hidden(p, a.b, t0) / PLAIN_ROWS * PLAIN_ROWS : 0; k0 < keys;
         k0 += PLAIN_ROWS) {
        const auto k = plain_rows<T>(p.k, attention_key(p, a, p.k_batch), p.k_stride, k0, p.tk);
        const auto v = plain_rows<T>(p.v, attention_key(p, a, p.v_batch), p.v_stride, k0, p.tk);
        plain_scores s, ds;
        plain_multiply<T, WIDTH>(s, tiles, q, k, d);
        plain_multiply<T, WIDTH>(ds, tiles, g, v, d);
        GPU_UNROLL
        for (int i = 0; i < PLAIN_EACH; i++) GPU_UNROLL
        for (int j = 0; j < PLAIN_EACH; j++)
            ds[i][j] = plain_score_grad<FORM>(p, draw, query[i], k0 + x + PLAIN_SIDE * j, s[i][j],
                                              ds[i][j], &kept);
        plain_add_product<T, WIDTH>(out, tiles, ds, k, col0, d);
    }
    const float factor[PLAIN_EACH] = {p.scale, p.scale, p.scale, p.scale};
    plain_store<T, WIDTH>(dq, attention_row(p, a, 0, p.q_stride), p.q_stride, t0, p.queries.seq,
                          col0, d, out, factor);
}

// Grid: heads of keys of all sequences, blocks of keys, blocks of columns.
template <typename T, int WIDTH, bool FORM>
static __global__ void __launch_bounds__(PLAIN_THREADS)
    attention_plain_keys_kernel(const kernel_attention_args p, const void *d_o, const float *delta,
                                void *to_dk, void *to_dv)
{
    plain_tiles<WIDTH> *tiles = gpu_shared<plain_tiles<WIDTH>>();
    const int x = (int)threadIdx.x % PLAIN_SIDE, y = (int)threadIdx.x / PLAIN_SIDE;
    const int64_t group = p.heads / p.kv_heads, kv = blockIdx.x % p.kv_heads, d = p.head_dim;
    const int64_t key0 = (int64_t)blockIdx.y * PLAIN_ROWS, col0 = (int64_t)blockIdx.z * WIDTH;
    attention_head a = {blockIdx.x / p.kv_heads, kv * group, kv};
    const attention_draw draw = plain_draw(p);
    const auto k = plain_rows<T>(p.k, attention_key(p, a, p.k_batch), p.k_stride, key0, p.tk);
    const auto v = plain_rows<T>(p.v, attention_key(p, a, p.v_batch), p.v_stride, key0, p.tk);
    float dk[PLAIN_EACH][WIDTH / PLAIN_SIDE] = {}, dv[PLAIN_EACH][WIDTH / PLAIN_SIDE] = {};
    const int64_t end = FORM ? attention_end_query(p, a.b, key0 + PLAIN_ROWS - 1) : p.queries.seq;
    for (; a.h < (kv + 1) * group; a.h++) {
        int64_t t0 = attention_first_query(p, key0) / PLAIN_ROWS * PLAIN_ROWS;
        for (; t0 < end; t0 += PLAIN_ROWS) {
            const auto q = plain_rows<T>(p.q, attention_row(p, a, 0, p.q_stride), p.q_stride, t0,
                                         p.queries.seq);
            const auto g = plain_rows<T>(d_o, attention_row(p, a, 0, p.o_stride), p.o_stride, t0,
                                         p.queries.seq);
            plain_scores s, ds;
            plain_multiply<T, WIDTH>(s, tiles, k, q, d);
            plain_multiply<T, WIDTH>(ds, tiles, v, g, d);
            GPU_UNROLL
            for (int j = 0; j < PLAIN_EACH; j++) {
                const plain_query query =
                    plain_query_of(p, draw, a, t0 + x + PLAIN_SIDE * j, delta);
                GPU_UNROLL
                for (int i = 0; i < PLAIN_EACH; i++)
                    ds[i][j] = plain_score_grad<FORM>(p, draw, query, key0 + y + PLAIN_SIDE * i,
                                                      s[i][j], ds[i][j], &s[i][j]);
            }
            plain_add_product<T, WIDTH>(dv, tiles, s, g, col0, d);
            plain_add_product<T, WIDTH>(dk, tiles, ds, q, col0, d);
        }
    }
    const float of_dk[PLAIN_EACH] = {p.scale, p.scale, p.scale, p.scale},
                of_dv[PLAIN_EACH] = {1, 1, 1, 1};
    plain_store<T, WIDTH>(to_dk, attention_key(p, a, p.k_batch), p.k_stride, key0, p.tk, col0, d,
                          dk, of_dk);
    plain_store<T, WIDTH>(to_dv, attention_key(p, a, p.v_batch), p.v_stride, key0, p.tk, col0, d,
                          dv, of_dv);
}

// Calls f.template operator()<T, WIDTH, FORM>().
template <typename F> static void plain_with(const kernel_attention_args *p, F f)
{
    gpu_with_type(p->type, [=](auto zero) {
        typedef decltype(zero) T;
        const bool form = !kernel_attention_is_plain(p);
        if (p->head_dim <= 64)
            form ? f.template operator()<T, 64, true>() : f.template operator()<T, 64, false>();
        else
            form ? f.template operator()<T, 128, true>() : f.template operator()<T, 128, false>();
    });
}

static dim3 plain_grid(int64_t heads, int64_t rows, int64_t cols, int64_t width)
{
    return dim3((unsigned)heads, (unsigned)((rows + PLAIN_ROWS - 1) / PLAIN_ROWS),
                (unsigned)((cols + width - 1) / width));
}

void attention_plain(const cuda_context *x, const kernel_attention_args *p)
{
    plain_with(p, [=]<typename T, int WIDTH, bool FORM>() {
        gpu_launch(x, "attention_plain", attention_plain_kernel<T, WIDTH, FORM>,
                   plain_grid(p->batch * p->heads, p->queries.seq, p->head_dim, WIDTH),
                   dim3(PLAIN_THREADS), sizeof(plain_tiles<WIDTH>), *p);
    });
}

void attention_plain_grad(const cuda_context *x, const kernel_attention_grad_args *g)
{
    const kernel_attention_args *p = &g->fwd;
    plain_with(p, [=]<typename T, int WIDTH, bool FORM>() {
        gpu_launch(x, "attention_plain_queries", attention_plain_queries_kernel<T, WIDTH, FORM>,
                   plain_grid(p->batch * p->heads, p->queries.seq, p->head_dim, WIDTH),
                   dim3(PLAIN_THREADS), sizeof(plain_tiles<WIDTH>), *p, g->d_o, g->delta, g->dq);
        gpu_launch(x, "attention_plain_keys", attention_plain_keys_kernel<T, WIDTH, FORM>,
                   plain_grid(p->batch * p->kv_heads, p->tk, p->head_dim, WIDTH),
                   dim3(PLAIN_THREADS), sizeof(plain_tiles<WIDTH>), *p, g->d_o, g->delta, g->dk,
                   g->dv);
    });
}

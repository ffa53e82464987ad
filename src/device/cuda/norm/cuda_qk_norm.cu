// cuda_qk_norm.cu -- the norms of queries and keys of the cuda device, with their gradients. cuda_kernels.c
// calls the host sides.
//
// Some threads have a group of a row: 1 to 32 lanes of a warp, or a block where the group is wide. They read
// it once for its sum and again, from a cache, for what they write. The gradients of the gains come first, because
// dx may lie over dy: blocks sum the columns of some rows each, and a second kernel adds these sums in the
// order of the blocks. How rows are divided depends on the shape only. Layer norms have a kernel of their own.
#include "base/size.h"
#include "device/cuda/norm/gpu_norm.h"

constexpr int QK_THREADS = 256;                    // of a block whose groups have a warp at most
constexpr int QK_MOST_THREADS = 1024;              // of a group
constexpr int QK_GAIN_COLS = 8 * NORM_PACK;        // of a block there
constexpr int QK_GAIN_PARTS = QK_THREADS / 8;      // groups that a block adds side by side
constexpr int QK_SUM_COLS = 32, QK_SUM_PARTS = 32; // of a block that adds the blocks' sums

// A group of a row, or columns that are copied.
struct qk_span {
    int64_t first; // element of the arrays
    int cols;
    bool query, copied;
};

// Group `group` of row r. Groups after those of the norm hold the values.
static __device__ inline qk_span qk_span_of(const kernel_qk_norm_args &p, int64_t r, int64_t group)
{
    const int64_t row = r * (p.heads + 2 * p.kv_heads) * p.head_dim;
    if (p.full_width && group == 2)
        return {row + (p.heads + p.kv_heads) * p.head_dim, (int)(p.kv_heads * p.head_dim), false,
                true};
    return {row + kernel_qk_norm_first(&p, group), (int)kernel_qk_norm_cols(&p, group),
            kernel_qk_norm_is_query(&p, group), group >= kernel_qk_norm_groups(&p)};
}

// The sum over the threads of a group, on each of them. All threads of the block call it.
static __device__ inline float qk_sum(float v, int threads)
{
    const int lanes = threads < GPU_WARP ? threads : GPU_WARP;
    for (int offset = lanes / 2; offset > 0; offset /= 2)
        v = gpu_add(v, __shfl_xor_sync(GPU_ALL_LANES, v, offset));
    if (threads <= GPU_WARP) return v;
    float *shared = gpu_shared<float>();
    if (threadIdx.x % GPU_WARP == 0) shared[threadIdx.x / GPU_WARP] = v;
    __syncthreads();
    float sum = shared[0];
    for (int w = 1; w < threads / GPU_WARP; w++) sum = gpu_add(sum, shared[w]);
    __syncthreads();
    return sum;
}

template <typename T, bool ALIGNED>
static __device__ inline norm_pack<T> qk_load(const void *array, const qk_span &s, int c)
{
    return norm_load<ALIGNED>((const T *)array + s.first, c, s.cols);
}

template <typename T, bool ALIGNED>
static __device__ inline gpu_floats<NORM_PACK> qk_gain(const kernel_qk_norm_args &p,
                                                       const qk_span &s, int c)
{
    const T *gain = (const T *)(s.query ? p.q_gain : p.k_gain);
    return norm_gain<ALIGNED>(gain, p.unit_offset, c, s.cols);
}

// A thread's summand of the sum of a group.
template <typename T, bool ALIGNED>
static __device__ inline float qk_add(const kernel_qk_norm_args &p, const qk_span &s, int thread,
                                      int threads)
{
    float sum = 0;
    for (int c = thread * NORM_PACK; c < s.cols; c += threads * NORM_PACK) {
        const norm_pack<T> x = qk_load<T, ALIGNED>(p.x, s, c);
        if (!p.dy) {
            GPU_UNROLL
            for (int j = 0; j < NORM_PACK; j++)
                sum = fmaf(gpu_to_float(x.v[j]), gpu_to_float(x.v[j]), sum);
            continue;
        }
        const norm_pack<T> dy = qk_load<T, ALIGNED>(p.dy, s, c);
        const gpu_floats<NORM_PACK> gain = qk_gain<T, ALIGNED>(p, s, c);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++)
            sum = fmaf(gpu_mul(gpu_to_float(dy.v[j]), gain.v[j]), gpu_to_float(x.v[j]), sum);
    }
    return sum;
}

// y or dx of a thread's columns of a group. `factor` is rstd; `along` is mean(g * x_hat) of the gradient.
template <typename T, bool ALIGNED>
static __device__ inline void qk_write(const kernel_qk_norm_args &p, const qk_span &s, int thread,
                                       int threads, float factor, float along)
{
    for (int c = thread * NORM_PACK; c < s.cols; c += threads * NORM_PACK) {
        norm_pack<T> out = qk_load<T, ALIGNED>(p.dy ? p.dy : p.x, s, c);
        if (!s.copied) {
            const norm_pack<T> x = qk_load<T, ALIGNED>(p.x, s, c);
            const gpu_floats<NORM_PACK> gain = qk_gain<T, ALIGNED>(p, s, c);
            GPU_UNROLL
            for (int j = 0; j < NORM_PACK; j++) {
                const float hat = gpu_mul(gpu_to_float(x.v[j]), factor);
                const float g = gpu_mul(gpu_to_float(out.v[j]), gain.v[j]);
                out.v[j] = gpu_from_float<T>(p.dy ? gpu_mul(factor, fmaf(-hat, along, g))
                                                  : gpu_mul(hat, gain.v[j]));
            }
        }
        norm_store<ALIGNED>((T *)p.y + s.first, c, s.cols, out);
    }
}

// The gains of a head with its own, which begin at element `first`.
template <typename T, bool ALIGNED>
static __device__ inline gpu_floats<NORM_PACK> qk_own_gain(const kernel_qk_norm_args &p,
                                                           const qk_span &s, int64_t first, int c)
{
    const T *gain = (const T *)(s.query ? p.q_gain : p.k_gain);
    return norm_gain<ALIGNED>(gain ? gain + first : gain, p.unit_offset, c, s.cols);
}

// A thread's summand of the sum over a group of x, or of dy * gain in the gradient.
template <typename T, bool ALIGNED>
static __device__ inline float qk_add_plain(const kernel_qk_norm_args &p, const qk_span &s,
                                            int64_t gains, int thread, int threads)
{
    float sum = 0;
    for (int c = thread * NORM_PACK; c < s.cols; c += threads * NORM_PACK) {
        const norm_pack<T> x = qk_load<T, ALIGNED>(p.dy ? p.dy : p.x, s, c);
        gpu_floats<NORM_PACK> gain = {};
        if (p.dy) gain = qk_own_gain<T, ALIGNED>(p, s, gains, c);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++)
            sum = p.dy ? fmaf(gpu_to_float(x.v[j]), gain.v[j], sum)
                       : gpu_add(sum, gpu_to_float(x.v[j]));
    }
    return sum;
}

// A thread's summand of the sum over a group of (x - mean)^2, or of dy * gain * (x - mean).
template <typename T, bool ALIGNED>
static __device__ inline float qk_add_centered(const kernel_qk_norm_args &p, const qk_span &s,
                                               int64_t gains, int thread, int threads, float mean)
{
    float sum = 0;
    for (int c = thread * NORM_PACK; c < s.cols; c += threads * NORM_PACK) {
        const norm_pack<T> x = qk_load<T, ALIGNED>(p.x, s, c);
        norm_pack<T> dy = {};
        gpu_floats<NORM_PACK> gain = {};
        if (p.dy)
            dy = qk_load<T, ALIGNED>(p.dy, s, c), gain = qk_own_gain<T, ALIGNED>(p, s, gains, c);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float d = c + j < s.cols ? gpu_add(gpu_to_float(x.v[j]), -mean) : 0;
            sum = fmaf(p.dy ? gpu_mul(gpu_to_float(dy.v[j]), gain.v[j]) : d, d, sum);
        }
    }
    return sum;
}

// y or dx of a thread's columns of a group. `plain` and `along` are mean(g) and mean(g * x_hat) of the gradient.
template <typename T, bool ALIGNED>
static __device__ inline void qk_write_layer(const kernel_qk_norm_args &p, const qk_span &s,
                                             int64_t gains, int thread, int threads, float mean,
                                             float rstd, float plain, float along)
{
    for (int c = thread * NORM_PACK; c < s.cols; c += threads * NORM_PACK) {
        norm_pack<T> out = qk_load<T, ALIGNED>(p.dy ? p.dy : p.x, s, c);
        if (!s.copied) {
            const norm_pack<T> x = qk_load<T, ALIGNED>(p.x, s, c);
            const gpu_floats<NORM_PACK> gain = qk_own_gain<T, ALIGNED>(p, s, gains, c);
            GPU_UNROLL
            for (int j = 0; j < NORM_PACK; j++) {
                const float hat = gpu_mul(gpu_add(gpu_to_float(x.v[j]), -mean), rstd);
                const float g = fmaf(gpu_to_float(out.v[j]), gain.v[j], -plain);
                out.v[j] = gpu_from_float<T>(p.dy ? gpu_mul(rstd, fmaf(-hat, along, g))
                                                  : gpu_mul(hat, gain.v[j]));
            }
        }
        norm_store<ALIGNED>((T *)p.y + s.first, c, s.cols, out);
    }
}

// The same as qk_kernel for layer norms.
template <typename T, bool ALIGNED>
static __global__ void __launch_bounds__(QK_MOST_THREADS)
    qk_layer_kernel(kernel_qk_norm_args p, int threads, int groups)
{
    const int thread = (int)threadIdx.x % threads;
    const int64_t item =
        (int64_t)blockIdx.x * (blockDim.x / (unsigned)threads) + (int)threadIdx.x / threads;
    const int64_t r = item / groups, group = item - r * groups;
    const bool valid = r < p.rows;
    qk_span s = {0, 0, false, true};
    if (valid) s = qk_span_of(p, r, group);
    const int64_t stat = r * kernel_qk_norm_groups(&p) + group;
    const bool normed = valid && !s.copied;
    const float cols = (float)p.head_dim;
    const int64_t gains = kernel_qk_norm_gain(&p, group);
    float plain = normed ? qk_add_plain<T, ALIGNED>(p, s, gains, thread, threads) : 0;
    plain = qk_sum(plain, threads) / cols;
    float mean = plain, rstd = 1;
    if (normed && p.dy) mean = p.mean[stat], rstd = p.rstd[stat];
    float sum = normed ? qk_add_centered<T, ALIGNED>(p, s, gains, thread, threads, mean) : 0;
    sum = qk_sum(sum, threads) / cols;
    if (!p.dy) rstd = 1 / sqrtf(gpu_add(sum, p.eps));
    if (normed && !p.dy && thread == 0) p.mean[stat] = mean, p.rstd[stat] = rstd;
    if (valid)
        qk_write_layer<T, ALIGNED>(p, s, gains, thread, threads, mean, rstd, p.dy ? plain : 0,
                                   gpu_mul(sum, rstd));
}

// `threads` of each group, of which a row has `groups`, those that are copied included. SUMS: of K_QK_NORM_SUMS.
template <typename T, bool ALIGNED, bool SUMS>
static __global__ void __launch_bounds__(QK_MOST_THREADS)
    qk_kernel(kernel_qk_norm_args p, int threads, int groups)
{
    const int thread = (int)threadIdx.x % threads;
    const int64_t item =
        (int64_t)blockIdx.x * (blockDim.x / (unsigned)threads) + (int)threadIdx.x / threads;
    const int64_t r = item / groups, group = item - r * groups;
    const bool valid = r < p.rows; // the others help with the sums of their warp
    qk_span s = {0, 0, false, true};
    if (valid) s = qk_span_of(p, r, group);
    const int64_t stat = r * kernel_qk_norm_groups(&p) + group;
    const bool normed = valid && !s.copied;
    float sum = 0;
    if (normed && (SUMS || !p.sums)) sum = qk_add<T, ALIGNED>(p, s, thread, threads);
    sum = qk_sum(sum, threads);
    const float rstd = normed && p.dy ? p.rstd[stat] : 1;
    if (p.dy) sum = gpu_mul(sum, rstd);
    if (SUMS) {
        if (normed && thread == 0) p.sums[stat] = sum;
        return;
    }
    if (normed && p.sums) sum = p.sums[stat];
    const float mean = sum / (float)(s.cols * p.ranks);
    const float factor = p.dy ? rstd : 1 / sqrtf(gpu_add(mean, p.eps));
    if (normed && !p.dy && thread == 0) p.rstd[stat] = factor;
    if (valid) qk_write<T, ALIGNED>(p, s, thread, threads, factor, mean);
}

// ---- The gradients of the gains

// The part of a call that belongs to the gain of the queries, or of the keys: `groups` in a row, each of
// `cols` columns.
struct qk_part {
    int64_t groups, cols;
};

static __host__ __device__ inline qk_part qk_part_of(const kernel_qk_norm_args *p, bool query)
{
    const bool together = p->full_width || p->layer_norm;
    return {together ? 1 : query ? p->heads : p->kv_heads, kernel_qk_norm_gains(p, query)};
}

// Rows of a block.
static int64_t qk_block_rows(const kernel_qk_norm_args *p)
{
    return (p->rows + QK_MOST_BLOCKS - 1) / QK_MOST_BLOCKS;
}

// The numbers of row r that a column of the gain needs: the mean and rstd of its group.
struct qk_stats {
    float mean, rstd;
};

// Of column c of the queries or keys. LAYER: each head is a group.
template <bool LAYER>
static __device__ inline qk_stats qk_stats_of(const kernel_qk_norm_args &p, int64_t r,
                                              int64_t group, bool query, int c)
{
    const int64_t head = LAYER ? (query ? 0 : p.heads) + c / (int)p.head_dim : group,
                  stat = r * kernel_qk_norm_groups(&p) + head;
    return {LAYER ? p.mean[stat] : 0, p.rstd[stat]};
}

// The span of a group of row r; with LAYER, of all queries or all keys.
template <bool LAYER>
static __device__ inline qk_span qk_gain_span(const kernel_qk_norm_args &p, int64_t r,
                                              int64_t group, bool query)
{
    if (!LAYER) return qk_span_of(p, r, group);
    const int64_t row = r * (p.heads + 2 * p.kv_heads) * p.head_dim;
    return {row + (query ? 0 : p.heads) * p.head_dim, (int)kernel_qk_norm_gains(&p, query), query,
            false};
}

// blockIdx.x: rows; .y: columns; .z: 0 the queries, 1 the keys. Thread (part, lane) adds 8 columns of every
// QK_GAIN_PARTS-th group of the block's rows, and then the parts are added in order.
template <typename T, bool ALIGNED, bool LAYER>
static __global__ void __launch_bounds__(QK_THREADS)
    qk_gain_kernel(kernel_qk_norm_args p, int64_t block_rows, float *sums)
{
    const bool query = blockIdx.z == 0;
    const qk_part part = qk_part_of(&p, query), queries = qk_part_of(&p, true);
    const int64_t cols = part.cols, all = queries.cols + qk_part_of(&p, false).cols;
    const int lane = (int)threadIdx.x % 8, side = (int)threadIdx.x / 8;
    const int64_t tile = (int64_t)blockIdx.y * QK_GAIN_COLS;
    if (tile >= cols || !(query ? p.dq_gain : p.dk_gain)) return;
    const int c = (int)tile + lane * NORM_PACK;
    const int64_t first = (int64_t)blockIdx.x * block_rows,
                  rows = first + block_rows < p.rows ? block_rows : p.rows - first;
    float sum[NORM_PACK] = {};
    for (int64_t i = side; i < rows * part.groups; i += QK_GAIN_PARTS) {
        const int64_t r = first + i / part.groups,
                      group = i % part.groups + (query ? 0 : queries.groups);
        const qk_span s = qk_gain_span<LAYER>(p, r, group, query);
        const norm_pack<T> x = qk_load<T, ALIGNED>(p.x, s, c), dy = qk_load<T, ALIGNED>(p.dy, s, c);
        qk_stats of = {0, 0};
        if (!LAYER) of = qk_stats_of<LAYER>(p, r, group, query, c);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            if (LAYER && c + j < cols) of = qk_stats_of<LAYER>(p, r, group, query, c + j);
            const float v = gpu_to_float(x.v[j]), d = LAYER ? gpu_add(v, -of.mean) : v;
            sum[j] = fmaf(gpu_to_float(dy.v[j]), gpu_mul(d, of.rstd), sum[j]);
        }
    }
    float *shared = gpu_shared<float>();
    GPU_UNROLL
    for (int j = 0; j < NORM_PACK; j++) shared[side * QK_GAIN_COLS + lane * NORM_PACK + j] = sum[j];
    __syncthreads();
    const int at = (int)threadIdx.x;
    if (at >= QK_GAIN_COLS || tile + at >= cols) return;
    float total = shared[at];
    for (int k = 1; k < QK_GAIN_PARTS; k++) total = gpu_add(total, shared[k * QK_GAIN_COLS + at]);
    sums[blockIdx.x * all + (query ? 0 : queries.cols) + tile + at] = total;
}

// Adds the sums of `blocks` blocks to the gradients. Thread (part, lane) adds consecutive blocks for a column, and
// then the parts are added in order.
static __global__ void __launch_bounds__(QK_SUM_COLS *QK_SUM_PARTS)
    qk_gain_sum_kernel(kernel_qk_norm_args p, const float *sums, int blocks)
{
    float *shared = gpu_shared<float>();
    const int64_t queries = qk_part_of(&p, true).cols, all = queries + qk_part_of(&p, false).cols;
    const int lane = (int)threadIdx.x % QK_SUM_COLS, part = (int)threadIdx.x / QK_SUM_COLS;
    const int64_t c = (int64_t)blockIdx.x * QK_SUM_COLS + lane;
    const int each = (blocks + QK_SUM_PARTS - 1) / QK_SUM_PARTS, first = part * each;
    const int end = first + each < blocks ? first + each : blocks;
    const bool query = c < queries,
               accumulate = query ? p.accumulate_dq_gain : p.accumulate_dk_gain;
    float *to = query ? p.dq_gain : p.dk_gain, sum = 0;
    for (int b = first; to && c < all && b < end; b++) sum = gpu_add(sum, sums[b * all + c]);
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (part > 0 || c >= all || !to) return;
    for (int i = 1; i < QK_SUM_PARTS; i++) sum = gpu_add(sum, shared[i * QK_SUM_COLS + lane]);
    to += query ? c : c - queries;
    *to = accumulate ? gpu_add(*to, sum) : sum;
}

// ---- The host sides

static bool qk_is_aligned(const kernel_qk_norm_args *p)
{
    return p->head_dim % NORM_PACK == 0 && gpu_is_aligned16(p->x) && gpu_is_aligned16(p->dy) &&
           gpu_is_aligned16(p->y) && gpu_is_aligned16(p->q_gain) && gpu_is_aligned16(p->k_gain);
}

template <bool SUMS>
static void qk_launch(const cuda_context *x, const char *what, const kernel_qk_norm_args *p)
{
    const bool copies = !SUMS && p->y != (p->dy ? p->dy : p->x);
    const int64_t groups =
        kernel_qk_norm_groups(p) + (copies ? p->full_width ? 1 : p->kv_heads : 0);
    const int64_t widest = kernel_qk_norm_cols(p, 0);
    int threads = 1;
    while (threads < QK_MOST_THREADS && threads * NORM_PACK < widest) threads *= 2;
    const int block = threads < QK_THREADS ? QK_THREADS : threads;
    const int each = threads <= GPU_WARP ? block / threads : 1; // groups of a block
    const dim3 grid((unsigned)((p->rows * groups + each - 1) / each));
    gpu_with_type(p->type, [&](auto zero) {
        norm_with_flag(qk_is_aligned(p), [&](auto flag) {
            if (p->layer_norm)
                gpu_launch(x, what, qk_layer_kernel<decltype(zero), decltype(flag)::value>, grid,
                           dim3((unsigned)(each * threads)),
                           sizeof(float) * QK_MOST_THREADS / GPU_WARP, *p, threads, (int)groups);
            else
                gpu_launch(x, what, qk_kernel<decltype(zero), decltype(flag)::value, SUMS>, grid,
                           dim3((unsigned)(each * threads)),
                           sizeof(float) * QK_MOST_THREADS / GPU_WARP, *p, threads, (int)groups);
        });
    });
}

extern "C" void cuda_qk_norm(const cuda_context *x, const void *args)
{
    qk_launch<false>(x, "qk_norm", (const kernel_qk_norm_args *)args);
}

extern "C" void cuda_qk_norm_sums(const cuda_context *x, const void *args)
{
    qk_launch<true>(x, "qk_norm_sums", (const kernel_qk_norm_args *)args);
}

static void qk_launch_gains(const cuda_context *x, const kernel_qk_norm_args *p)
{
    const int64_t block_rows = qk_block_rows(p),
                  blocks = block_rows ? (p->rows + block_rows - 1) / block_rows : 0;
    const int64_t queries = qk_part_of(p, true).cols, keys = qk_part_of(p, false).cols,
                  most = queries > keys ? queries : keys;
    float *sums = (float *)x->workspace;
    gpu_with_type(p->type, [&](auto zero) {
        norm_with_flag(qk_is_aligned(p), [&](auto flag) {
            typedef decltype(zero) T;
            constexpr bool aligned = decltype(flag)::value;
            const dim3 grid((unsigned)blocks, (unsigned)((most + QK_GAIN_COLS - 1) / QK_GAIN_COLS),
                            2);
            const size_t shared = sizeof(float) * QK_GAIN_PARTS * QK_GAIN_COLS;
            if (p->layer_norm)
                gpu_launch(x, "qk_norm_grad", qk_gain_kernel<T, aligned, true>, grid,
                           dim3(QK_THREADS), shared, *p, block_rows, sums);
            else
                gpu_launch(x, "qk_norm_grad", qk_gain_kernel<T, aligned, false>, grid,
                           dim3(QK_THREADS), shared, *p, block_rows, sums);
        });
    });
    gpu_launch(x, "qk_norm_grad", qk_gain_sum_kernel,
               dim3((unsigned)((queries + keys + QK_SUM_COLS - 1) / QK_SUM_COLS)),
               dim3(QK_SUM_COLS * QK_SUM_PARTS), sizeof(float) * QK_SUM_COLS * QK_SUM_PARTS, *p,
               sums, (int)blocks);
}

extern "C" void cuda_qk_norm_grad(const cuda_context *x, const void *args)
{
    const kernel_qk_norm_args *p = (const kernel_qk_norm_args *)args;
    if (p->dq_gain || p->dk_gain) qk_launch_gains(x, p);
    if (p->y) qk_launch<false>(x, "qk_norm_grad", p);
}

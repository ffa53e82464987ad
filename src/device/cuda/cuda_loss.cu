// cuda_loss.cu -- cross-entropy with its gradient in place of the logits. A block has a row. While the row
// comes from device memory into shared memory, each thread sums the exponentials of its elements relative
// to a running maximum. The gradient reads the row from shared memory. Elements beyond what fits there are
// read a second time. The losses of the rows are added in a fixed order by a second launch. It does not
// divide by the number of valid tokens. The table cuda_kernels.c names the host sides; the squared error is
// in cuda_square_error.cu.
#include "device/cuda/gpu_math.h"
#include "device/cuda/gpu_pieces.h"

constexpr int LOSS_WARPS = 16;
constexpr int LOSS_THREADS = LOSS_WARPS * GPU_WARP;
constexpr int LOSS_STAGES = 4; // a row comes in as many groups of copies
constexpr int LOSS_AHEAD = 3;  // loads of a thread in flight where it reads device memory
constexpr int LOSS_ADDING_WARPS = 32;
// Of shared memory that a block may have on every GPU from sm_80 on. Two blocks fit on an sm_90.
constexpr int LOSS_SHARED_BYTES = 99 * 1024;

struct loss_shared {
    float reduce[2 * LOSS_WARPS];
    double lse, label;
    alignas(16) uint4 row[1]; // as many as the launch gives
};

// Packs of a row of `packs` packs that fit in shared memory.
static int64_t loss_kept(int64_t packs)
{
    const int64_t room = (LOSS_SHARED_BYTES - (int64_t)sizeof(loss_shared)) / 16;
    return packs < room ? packs : room / LOSS_THREADS * LOSS_THREADS;
}

// ---- Sums of a row

// With v = sign * x, where sign * |scale| is scale, or v = tanh(sign * x) with a softcap: the maximum of v, and the sum of exp(|scale| * (v -
// maximum)) without the label's term, which is kept apart: so a probability near 1 costs the loss and the
// label's gradient no accuracy.
struct loss_sums {
    float top, others;
};

// A row of logits. exp(|scale| * d) is 2^(slope * d). Columns are ids, which are 32-bit numbers. With a
// softcap, `sign` is scale / softcap, and the softcap stands for |scale|.
struct loss_row {
    int cols, label; // the label's column; -1: not in this row
    float sign, slope;
};

static __device__ inline loss_row loss_row_of(int64_t cols, int64_t label, float scale,
                                              float softcap)
{
    const bool here = label >= 0 && label < cols;
    if (softcap > 0)
        return {(int)cols, here ? (int)label : -1, scale / softcap,
                (float)(softcap * 1.4426950408889634)};
    return {(int)cols, here ? (int)label : -1, scale < 0 ? -1.0f : 1.0f,
            (float)(fabs((double)scale) * 1.4426950408889634)};
}

// v of a logit. `slope` gets dv/dx over `sign`.
template <bool CAPPED>
static __device__ inline float loss_value(const loss_row &r, float x, float *slope)
{
    *slope = 1;
    if (!CAPPED) return x * r.sign;
    const float t = gpu_tanh(gpu_mul(x, r.sign));
    *slope = fmaf(-t, t, 1.0f);
    return t;
}

// 2^(slope * d), for d <= 0; d may be -Inf where slope is 0.
static __device__ inline float loss_term(const loss_row &r, float d)
{
    return gpu_exp2(gpu_mul(r.slope, d));
}

// Adds the elements of columns c … c+N-1.
template <bool CAPPED, int N>
static __device__ inline void loss_add(loss_sums &s, const loss_row &r, int c, gpu_floats<N> x)
{
    float top = -INFINITY, sum = 0;
    for (int j = 0; j < N; j++) {
        float slope;
        x.v[j] = loss_value<CAPPED>(r, x.v[j], &slope);
        top = fmaxf(top, x.v[j]);
    }
    if (top > s.top) {
        s.others = s.top == -INFINITY ? 0 : s.others * loss_term(r, s.top - top);
        s.top = top;
    }
    const bool has_label = (unsigned)(r.label - c) < (unsigned)N;
    for (int j = 0; j < N; j++) {
        const float term = loss_term(r, x.v[j] - s.top);
        sum += has_label && c + j == r.label ? 0 : term;
    }
    s.others += sum;
}

// Adds the elements of packs first, first + LOSS_THREADS, … < last of a row in device memory.
template <bool CAPPED, typename T, int N>
static __device__ inline void loss_add_packs(loss_sums &s, const loss_row &r, const T *row,
                                             int first, int last)
{
    for (int i = first; i < last; i += LOSS_AHEAD * LOSS_THREADS) {
        gpu_raw<T, N> x[LOSS_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < LOSS_AHEAD; a++)
            if (i + a * LOSS_THREADS < last)
                x[a] = gpu_load_raw<N>(row + (i + a * LOSS_THREADS) * N);
        GPU_UNROLL
        for (int a = 0; a < LOSS_AHEAD; a++)
            if (i + a * LOSS_THREADS < last)
                loss_add<CAPPED>(s, r, (i + a * LOSS_THREADS) * N, gpu_raw_floats(x[a]));
    }
}

// Copies packs 0 … kept-1 to shared memory and adds them as they come. A thread reads what it copied
// itself, so no barrier is needed.
template <bool CAPPED, typename T, int N>
static __device__ inline void loss_keep_packs(loss_sums &s, const loss_row &r, const T *row,
                                              int kept)
{
    uint4 *shared = gpu_shared<loss_shared>()->row;
    const int rounds = (kept + LOSS_THREADS - 1) / LOSS_THREADS;
    const int stage = (rounds + LOSS_STAGES - 1) / LOSS_STAGES * LOSS_THREADS;
    const int thread = (int)threadIdx.x;
    for (int k = 0; k < LOSS_STAGES; k++) {
        const int last = (k + 1) * stage < kept ? (k + 1) * stage : kept;
        for (int i = k * stage + thread; i < last; i += LOSS_THREADS)
            gpu_copy16(shared + i, row + i * N, true);
        gpu_copy_commit();
    }
#pragma unroll 2
    for (int k = 0; k < LOSS_STAGES; k++) {
        const int last = (k + 1) * stage < kept ? (k + 1) * stage : kept;
        if (k == 0) gpu_copy_wait<3>();
        if (k == 1) gpu_copy_wait<2>();
        if (k == 2) gpu_copy_wait<1>();
        if (k == 3) gpu_copy_wait<0>();
#pragma unroll 2
        for (int i = k * stage + thread; i < last; i += LOSS_THREADS)
            loss_add<CAPPED>(s, r, i * N, gpu_load_floats<N>((const T *)(shared + i)));
    }
}

// The sums of all threads, on every thread.
static __device__ inline loss_sums loss_sum_threads(const loss_row &r, loss_sums s)
{
    loss_shared *shared = gpu_shared<loss_shared>();
    const int warp = (int)threadIdx.x / GPU_WARP;
    const float warp_top = gpu_warp_max(s.top);
    if (threadIdx.x % GPU_WARP == 0) shared->reduce[warp] = warp_top;
    __syncthreads();
    float top = shared->reduce[0];
    for (int w = 1; w < LOSS_WARPS; w++) top = fmaxf(top, shared->reduce[w]);
    // A thread without elements has no term. -Inf everywhere gives NaN, as in the specification.
    if (s.top < top) s.others = s.top == -INFINITY ? 0 : s.others * loss_term(r, s.top - top);
    return {top, gpu_block_sum<LOSS_WARPS>(s.others, shared->reduce + LOSS_WARPS)};
}

// The sums of a row, of which packs 0 … kept-1 lie in shared memory afterwards.
template <bool CAPPED, typename T, int N>
static __device__ inline loss_sums loss_sum_row(const loss_row &r, const T *row, int kept)
{
    loss_sums s = {-INFINITY, 0};
    const int packs = r.cols / N, tail = packs * N + (int)threadIdx.x;
    if (N > 1) loss_keep_packs<CAPPED, T, N>(s, r, row, kept);
    loss_add_packs<CAPPED, T, N>(s, r, row, kept + (int)threadIdx.x, packs);
    if (tail < r.cols) loss_add<CAPPED>(s, r, tail, gpu_load_floats<1>(row + tail));
    return loss_sum_threads(r, s);
}

// ---- Gradient

// The formula that turns a row into its gradient: factor * 2^(slope * (sign * x - top)), with a softcap times 1 - v^2,
// and `at_label` at the label.
struct loss_gradient {
    loss_row r;
    float top, factor, at_label;
};

template <bool CAPPED, int N>
static __device__ inline gpu_floats<N> loss_gradient_of(const loss_gradient &g, int c,
                                                        const gpu_floats<N> &x)
{
    gpu_floats<N> out;
    const bool has_label = (unsigned)(g.r.label - c) < (unsigned)N;
    for (int j = 0; j < N; j++) {
        float slope = 1;
        const float d = CAPPED ? gpu_add(loss_value<true>(g.r, x.v[j], &slope), -g.top)
                               : fmaf(x.v[j], g.r.sign, -g.top);
        const float p =
            CAPPED ? gpu_mul(g.factor, slope) * loss_term(g.r, d) : g.factor * loss_term(g.r, d);
        out.v[j] = has_label && c + j == g.r.label ? g.at_label : p;
    }
    return out;
}

// Packs 0 … kept-1 of the row are read from shared memory, the others from the row.
template <bool CAPPED, typename T, int N>
static __device__ inline void loss_write_gradient(const loss_gradient &g, T *row, int kept)
{
    const uint4 *shared = gpu_shared<loss_shared>()->row;
    const int packs = g.r.cols / N, tail = packs * N + (int)threadIdx.x;
    for (int i = (int)threadIdx.x; N > 1 && i < kept; i += LOSS_THREADS)
        gpu_store_floats(row + i * N, loss_gradient_of<CAPPED>(
                                          g, i * N, gpu_load_floats<N>((const T *)(shared + i))));
    for (int i = kept + (int)threadIdx.x; i < packs; i += LOSS_AHEAD * LOSS_THREADS) {
        gpu_raw<T, N> x[LOSS_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < LOSS_AHEAD; a++)
            if (i + a * LOSS_THREADS < packs)
                x[a] = gpu_load_raw<N>(row + (i + a * LOSS_THREADS) * N);
        GPU_UNROLL
        for (int a = 0; a < LOSS_AHEAD; a++) {
            const int c = (i + a * LOSS_THREADS) * N;
            if (i + a * LOSS_THREADS < packs)
                gpu_store_floats(row + c, loss_gradient_of<CAPPED>(g, c, gpu_raw_floats(x[a])));
        }
    }
    if (tail < g.r.cols)
        gpu_store_floats(row + tail,
                         loss_gradient_of<CAPPED>(g, tail, gpu_load_floats<1>(row + tail)));
}

template <typename T, int N> static __device__ inline void loss_write_zeros(T *row, int64_t cols)
{
    const int64_t whole = cols / N * N, tail = whole + threadIdx.x;
    for (int64_t c = (int64_t)threadIdx.x * N; c < whole; c += LOSS_THREADS * N)
        gpu_store_floats(row + c, gpu_zero_floats<N>());
    if (tail < cols) row[tail] = gpu_from_float<T>(0);
}

// ---- Rows

static __device__ inline double loss_factor(const kernel_cross_entropy_args &p, int64_t row)
{
    const float loss_scale = p.step ? (float)p.step->loss_scale : 1;
    const double unit = (double)p.scale * loss_scale;
    return p.weights ? unit * p.weights[row] : unit;
}

// A row of the full vocabulary. Returns its loss.
template <bool CAPPED, typename T, int N>
static __device__ inline double loss_of_row(const kernel_cross_entropy_args &p, int64_t row_number,
                                            T *row, int64_t label, int kept)
{
    const loss_row r = loss_row_of(p.cols, label, p.scale, CAPPED ? p.softcap : 0);
    const bool has_label = r.label >= 0;
    float slope = 1;
    const float x = has_label ? loss_value<CAPPED>(r, gpu_to_float(row[r.label]), &slope) : 0;
    const loss_sums s = loss_sum_row<CAPPED, T, N>(r, row, kept);
    const float term = has_label ? loss_term(r, x - s.top) : 0, all = s.others + term;
    if (p.gradient) {
        const double factor = loss_factor(p, row_number);
        const loss_gradient g = {r, s.top, (float)(factor / all),
                                 (float)(-factor * slope * (s.others / all))};
        loss_write_gradient<CAPPED, T, N>(g, row, kept);
    }
    if (threadIdx.x != 0) return 0;
    if (x == s.top) return log1p((double)s.others);
    return log((double)all) +
           (CAPPED ? (double)p.softcap : fabs((double)p.scale)) * ((double)s.top - x);
}

// A row of a vocabulary shard, given the sums of all shards. Returns its loss.
template <bool CAPPED, typename T, int N>
static __device__ inline double loss_of_shards(const kernel_cross_entropy_args &p,
                                               int64_t row_number, T *row, int64_t label)
{
    loss_shared *shared = gpu_shared<loss_shared>();
    if (threadIdx.x == 0) {
        double top = -INFINITY, sum = 0, label_logit = 0;
        for (int i = 0; i < p.shards; i++)
            top = fmax(top, (double)p.stats[(i * p.rows + row_number) * 3]);
        for (int i = 0; i < p.shards; i++) {
            const float *stats = p.stats + (i * p.rows + row_number) * 3;
            sum += stats[1] * exp(stats[0] - top);
            label_logit += stats[2];
        }
        shared->lse = top + log(sum), shared->label = label_logit;
    }
    __syncthreads();
    if (p.gradient) {
        // The part of the logarithm that float does not hold goes into the factor.
        const double factor = loss_factor(p, row_number), lse = shared->lse;
        loss_row r = loss_row_of(p.cols, label, p.scale, CAPPED ? p.softcap : 0);
        if (!CAPPED) r.sign = p.scale, r.slope = 1.44269504f;
        const double unit = CAPPED ? (double)p.softcap : 1; // of v
        const float high = (float)(lse / unit);
        loss_gradient g = {r, high, (float)(factor * exp(high * unit - lse)), 0};
        if (r.label >= 0) {
            float slope = 1;
            const float x = gpu_to_float(row[r.label]);
            const double z = CAPPED ? unit * loss_value<true>(r, x, &slope) : (double)p.scale * x;
            g.at_label = (float)(factor * slope * expm1(z - lse));
        }
        __syncthreads(); // every thread has read the label's logit
        loss_write_gradient<CAPPED, T, N>(g, row, 0);
    }
    return shared->lse - shared->label;
}

template <typename T, int N, bool SHARDS, bool CAPPED>
static __global__ __launch_bounds__(LOSS_THREADS, 2) void loss_kernel(kernel_cross_entropy_args p,
                                                                      double *losses, int kept)
{
    const int64_t number = blockIdx.x, label = (int64_t)p.labels[number] - p.first;
    T *row = (T *)p.logits + number * kernel_stride(p.stride, p.cols);
    double loss = 0;
    if (p.labels[number] == p.ignore) {
        if (p.gradient) loss_write_zeros<T, N>(row, p.cols);
    } else {
        loss = SHARDS ? loss_of_shards<CAPPED, T, N>(p, number, row, label)
                      : loss_of_row<CAPPED, T, N>(p, number, row, label, kept);
    }
    if (losses && threadIdx.x == 0) losses[number] = loss;
    if (p.losses && threadIdx.x == 0) p.losses[number] = loss;
}

// One block adds the losses and counts the rows.
struct loss_add_shared {
    double sum[LOSS_ADDING_WARPS], count[LOSS_ADDING_WARPS];
};

static __global__
__launch_bounds__(LOSS_ADDING_WARPS *GPU_WARP) void loss_add_kernel(kernel_cross_entropy_args p,
                                                                    const double *losses)
{
    loss_add_shared *shared = gpu_shared<loss_add_shared>();
    double sum = 0, count = 0;
#pragma unroll 4
    for (int64_t r = threadIdx.x; r < p.rows; r += LOSS_ADDING_WARPS * GPU_WARP) {
        const double weight = p.weights ? p.weights[r] : 1;
        sum += weight * losses[r];
        count += p.labels[r] != p.ignore ? weight : 0;
    }
    sum = gpu_block_sum<LOSS_ADDING_WARPS>(sum, shared->sum);
    count = gpu_block_sum<LOSS_ADDING_WARPS>(count, shared->count);
    if (threadIdx.x != 0) return;
    if (p.loss_sum) *p.loss_sum += sum;
    if (p.count) *p.count += count;
}

template <typename T, int N, bool CAPPED>
static void loss_launch(const cuda_context *x, const kernel_cross_entropy_args *p, double *losses)
{
    const dim3 grid((unsigned)p->rows), block(LOSS_THREADS);
    const int kept = N > 1 && !p->stats ? (int)loss_kept(p->cols / N) : 0;
    gpu_launch(x, "cross_entropy",
               p->stats ? loss_kernel<T, N, true, CAPPED> : loss_kernel<T, N, false, CAPPED>, grid,
               block, sizeof(loss_shared) + (size_t)kept * 16, *p, losses, kept);
}

extern "C" void cuda_cross_entropy(const cuda_context *x, const void *args)
{
    const kernel_cross_entropy_args *p = (const kernel_cross_entropy_args *)args;
    double *losses = loss_is_wanted(p) ? (double *)x->workspace : nullptr;
    if (p->rows <= 0) return;
    gpu_with_type(p->type, [&](auto zero) {
        typedef decltype(zero) T;
        constexpr int N = 16 / sizeof(T);
        const bool wide =
            gpu_is_aligned<N>((const T *)p->logits, kernel_stride(p->stride, p->cols));
        if (p->softcap > 0)
            wide ? loss_launch<T, N, true>(x, p, losses) : loss_launch<T, 1, true>(x, p, losses);
        else
            wide ? loss_launch<T, N, false>(x, p, losses) : loss_launch<T, 1, false>(x, p, losses);
    });
    if (losses)
        gpu_launch(x, "cross_entropy", loss_add_kernel, dim3(1), dim3(LOSS_ADDING_WARPS * GPU_WARP),
                   sizeof(loss_add_shared), *p, losses);
}

// ---- Statistics of a vocabulary shard

template <typename T, int N, bool CAPPED>
static __global__
__launch_bounds__(LOSS_THREADS) void loss_stats_kernel(kernel_cross_entropy_stats_args p)
{
    const int64_t number = blockIdx.x, label = (int64_t)p.labels[number] - p.first;
    const T *row = (const T *)p.logits + number * kernel_stride(p.stride, p.cols);
    float *out = p.stats + 3 * number;
    if (p.labels[number] == p.ignore) {
        if (threadIdx.x < 3) out[threadIdx.x] = 0;
        return;
    }
    // No label is kept apart: every term is in the sum.
    const loss_row r = loss_row_of(p.cols, -1, p.scale, CAPPED ? p.softcap : 0);
    const loss_sums s = loss_sum_row<CAPPED, T, N>(r, row, 0);
    if (threadIdx.x != 0) return;
    // The sum is relative to the maximum after its rounding to float.
    const double top = (CAPPED ? (double)p.softcap : fabs((double)p.scale)) * s.top;
    out[0] = (float)top;
    out[1] = p.cols > 0 ? (float)(s.others * exp(top - out[0])) : 0;
    out[2] = 0;
    if (label < 0 || label >= p.cols) return;
    float slope;
    const float x = gpu_to_float(row[label]);
    out[2] = CAPPED ? gpu_mul(p.softcap, loss_value<true>(r, x, &slope)) : p.scale * x;
}

extern "C" void cuda_cross_entropy_stats(const cuda_context *x, const void *args)
{
    const kernel_cross_entropy_stats_args *p = (const kernel_cross_entropy_stats_args *)args;
    gpu_with_type(p->type, [&](auto zero) {
        typedef decltype(zero) T;
        constexpr int N = 16 / sizeof(T);
        const bool wide =
            gpu_is_aligned<N>((const T *)p->logits, kernel_stride(p->stride, p->cols));
        auto *kernel = p->softcap > 0
                           ? wide ? loss_stats_kernel<T, N, true> : loss_stats_kernel<T, 1, true>
                       : wide ? loss_stats_kernel<T, N, false>
                              : loss_stats_kernel<T, 1, false>;
        gpu_launch(x, "cross_entropy_stats", kernel, dim3((unsigned)p->rows), dim3(LOSS_THREADS),
                   sizeof(loss_shared), *p);
    });
}

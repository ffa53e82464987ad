// cuda_norm.cu -- layer norm and RMS norm of the cuda device, also of a sum that the same launch computes.
// cuda_kernels.c calls the host side. 1 to 32 warps have a row, and keep it in registers between the
// sums over it. Rows that are wider are read once more for each sum.
#include "device/cuda/norm/gpu_norm.h"

constexpr int NORM_PACKS = 2;                                     // of a thread
constexpr int NORM_WARP_COLS = NORM_PACKS * NORM_PACK * GPU_WARP; // columns of a warp
constexpr int NORM_MOST_WARPS = 32;                               // of a row
constexpr int NORM_BLOCK = NORM_MOST_WARPS * GPU_WARP;            // threads of the largest block
constexpr int NORM_SMALL_ROWS = 4; // rows of a block where a row has one warp

// The sum over the threads of a row. A row of several warps has a block of its own.
static __device__ inline float norm_row_sum(float v, int warps, float *shared)
{
    v = gpu_warp_sum(v);
    if (warps == 1) return v;
    if (threadIdx.x % GPU_WARP == 0) shared[threadIdx.x / GPU_WARP] = v;
    __syncthreads();
    float sum = shared[0];
    for (int w = 1; w < warps; w++) sum = gpu_add(sum, shared[w]);
    __syncthreads();
    return sum;
}

// alpha * x + beta * addend in the residual's type, as K_ADD computes it.
template <typename T, typename R>
static __device__ inline R norm_add(const kernel_norm_args &p, R x, T addend)
{
    return gpu_from_float<R>(fmaf(p.alpha, gpu_to_float(x), gpu_mul(p.beta, gpu_to_float(addend))));
}

static __device__ inline float norm_rstd(const kernel_norm_args &p, float spread)
{
    return 1 / sqrtf(gpu_add(spread / (float)p.cols, p.eps));
}

static __device__ inline float norm_apply(float x, float mean, float rstd, float gain, float bias)
{
    return fmaf(gpu_mul(gpu_add(x, -mean), rstd), gain, bias);
}

// Columns c … c+7 of row r of y, from those of x.
template <typename T, typename R, bool ALIGNED>
static __device__ inline void norm_write(const kernel_norm_args &p, int64_t r, int c,
                                         const norm_pack<R> &x, float mean, float rstd)
{
    const int cols = (int)p.cols;
    const T *const gain = (const T *)p.gain, *const bias = (const T *)p.bias;
    const bool offset = p.unit_offset || !gain;
    if constexpr (ALIGNED) {
        const norm_pack<T> g = norm_load<true>(gain, c, gain ? cols : 0),
                           b = norm_load<true>(bias, c, bias ? cols : 0);
        norm_pack<T> out;
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++)
            out.v[j] = gpu_from_float<T>(norm_apply(gpu_to_float(x.v[j]), mean, rstd,
                                                    norm_factor(gpu_to_float(g.v[j]), offset),
                                                    gpu_to_float(b.v[j])));
        norm_store<true>((T *)p.y + r * p.cols, c, cols, out);
    } else {
        // Rows that are not aligned take more registers, so one column is finished before the next.
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            if (c + j >= cols) return;
            const float g = gain ? gpu_to_float(gain[c + j]) : 0,
                        b = bias ? gpu_to_float(bias[c + j]) : 0;
            ((T *)p.y)[r * p.cols + c + j] = gpu_from_float<T>(
                norm_apply(gpu_to_float(x.v[j]), mean, rstd, norm_factor(g, offset), b));
        }
    }
}

template <typename T, typename R, bool ALIGNED, bool ADDS>
static __global__ void __launch_bounds__(NORM_BLOCK) norm_kernel(kernel_norm_args p, int warps)
{
    const int threads = warps * GPU_WARP, thread = (int)threadIdx.x % threads;
    const int64_t r =
        (int64_t)blockIdx.x * (blockDim.x / (unsigned)threads) + (int)threadIdx.x / threads;
    if (r >= p.rows) return; // a row of one warp, so the whole warp leaves
    const int cols = (int)p.cols;
    float *shared = gpu_shared<float>();
    const R *x = (const R *)p.x + r * p.cols;
    const T *more = ADDS ? (const T *)p.addend + r * p.cols : nullptr;
    norm_pack<R> in[NORM_PACKS];
    norm_pack<T> addend[NORM_PACKS];
    GPU_UNROLL
    for (int k = 0; k < NORM_PACKS; k++) {
        const int c = (k * threads + thread) * NORM_PACK;
        in[k] = norm_load<ALIGNED>(x, c, cols);
        if (ADDS && ALIGNED) addend[k] = norm_load<ALIGNED>(more, c, cols);
    }
    float mean = 0, spread = 0;
    GPU_UNROLL
    for (int k = 0; k < NORM_PACKS; k++) {
        const int c = (k * threads + thread) * NORM_PACK;
        // Rows that are not aligned take more registers, so a pack is read where it is added.
        if (ADDS && !ALIGNED) addend[k] = norm_load<ALIGNED>(more, c, cols);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            if (ADDS) in[k].v[j] = norm_add(p, in[k].v[j], addend[k].v[j]);
            mean = gpu_add(mean, gpu_to_float(in[k].v[j]));
        }
        if (ADDS) norm_store<ALIGNED>((R *)p.sum + r * p.cols, c, cols, in[k]);
    }
    mean = p.is_rms ? 0 : norm_row_sum(mean, warps, shared) / (float)p.cols;
    GPU_UNROLL
    for (int k = 0; k < NORM_PACKS; k++) {
        const int c = (k * threads + thread) * NORM_PACK;
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float d = gpu_add(gpu_to_float(in[k].v[j]), -mean);
            if (c + (ALIGNED ? 0 : j) < cols) spread = fmaf(d, d, spread);
        }
    }
    const float rstd = norm_rstd(p, norm_row_sum(spread, warps, shared));
    if (thread == 0) {
        if (!p.is_rms) p.mean[r] = mean;
        p.rstd[r] = rstd;
    }
    GPU_UNROLL
    for (int k = 0; k < NORM_PACKS; k++)
        norm_write<T, R, ALIGNED>(p, r, (k * threads + thread) * NORM_PACK, in[k], mean, rstd);
}

// A row of any width. Each thread reads again only what it has written itself.
template <typename T, typename R, bool ALIGNED, bool ADDS>
static __global__ void __launch_bounds__(NORM_BLOCK, 1) norm_wide_kernel(kernel_norm_args p)
{
    constexpr int step = NORM_BLOCK * NORM_PACK;
    const int cols = (int)p.cols, first = (int)threadIdx.x * NORM_PACK;
    const int64_t r = blockIdx.x;
    float *shared = gpu_shared<float>();
    const R *x = (const R *)p.x + r * p.cols;
    float mean = 0, spread = 0;
    if (ADDS) {
        R *sum = (R *)p.sum + r * p.cols;
        for (int c = first; c < cols; c += step) {
            norm_pack<R> in = norm_load<ALIGNED>(x, c, cols);
            const norm_pack<T> addend =
                norm_load<ALIGNED>((const T *)p.addend + r * p.cols, c, cols);
            GPU_UNROLL
            for (int j = 0; j < NORM_PACK; j++) in.v[j] = norm_add(p, in.v[j], addend.v[j]);
            norm_store<ALIGNED>(sum, c, cols, in);
        }
        x = sum;
    }
    if (!p.is_rms) {
        for (int c = first; c < cols; c += step) {
            const norm_pack<R> in = norm_load<ALIGNED>(x, c, cols);
            GPU_UNROLL
            for (int j = 0; j < NORM_PACK; j++) mean = gpu_add(mean, gpu_to_float(in.v[j]));
        }
        mean = norm_row_sum(mean, NORM_MOST_WARPS, shared) / (float)p.cols;
    }
    for (int c = first; c < cols; c += step) {
        const norm_pack<R> in = norm_load<ALIGNED>(x, c, cols);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float d = gpu_add(gpu_to_float(in.v[j]), -mean);
            if (c + (ALIGNED ? 0 : j) < cols) spread = fmaf(d, d, spread);
        }
    }
    const float rstd = norm_rstd(p, norm_row_sum(spread, NORM_MOST_WARPS, shared));
    if (threadIdx.x == 0) {
        if (!p.is_rms) p.mean[r] = mean;
        p.rstd[r] = rstd;
    }
    for (int c = first; c < cols; c += step)
        norm_write<T, R, ALIGNED>(p, r, c, norm_load<ALIGNED>(x, c, cols), mean, rstd);
}

template <typename T, typename R, bool ADDS>
static void norm_launch(const cuda_context *x, const kernel_norm_args *p)
{
    const size_t shared = NORM_MOST_WARPS * sizeof(float);
    const bool wide = p->cols > NORM_MOST_WARPS * NORM_WARP_COLS;
    const int warps = norm_warps(p->cols, NORM_WARP_COLS, NORM_MOST_WARPS);
    const int rows = warps == 1 ? NORM_SMALL_ROWS : 1; // of a block
    const bool aligned = norm_is_aligned(p->x, p->cols) && norm_is_aligned(p->y, p->cols) &&
                         gpu_is_aligned16(p->gain) && gpu_is_aligned16(p->bias) &&
                         gpu_is_aligned16(p->addend) && gpu_is_aligned16(p->sum);
    norm_with_flag(aligned, [&](auto flag) {
        if (wide)
            gpu_launch(x, "norm", norm_wide_kernel<T, R, decltype(flag)::value, ADDS>,
                       dim3((unsigned)p->rows), dim3(NORM_BLOCK), shared, *p);
        else
            gpu_launch(x, "norm", norm_kernel<T, R, decltype(flag)::value, ADDS>,
                       dim3((unsigned)((p->rows + rows - 1) / rows)),
                       dim3((unsigned)(rows * warps * GPU_WARP)), shared, *p, warps);
    });
}

extern "C" void cuda_norm(const cuda_context *x, const void *args)
{
    const kernel_norm_args *p = (const kernel_norm_args *)args;
    gpu_with_residual(p->type, p->residual_fp32, [&](auto type, auto residual) {
        if (p->addend)
            norm_launch<decltype(type), decltype(residual), true>(x, p);
        else
            norm_launch<decltype(type), decltype(residual), false>(x, p);
    });
}

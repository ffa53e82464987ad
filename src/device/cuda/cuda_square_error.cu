// cuda_square_error.cu -- the mean squared error's sums, and its gradient. Sums run in F64, over pieces of
// elements that depend on the shape only; a second launch adds the pieces in their order. How many rows
// hold a sample is a number in device memory. The table cuda_kernels.c names the host side.
#include "device/cuda/gpu_pieces.h"

constexpr int ERROR_WARPS = 8;
constexpr int ERROR_WIDTH = 4; // elements that a thread accesses at once
constexpr int ERROR_AHEAD = 4; // such accesses to each array in flight

struct error_shared {
    double sum[ERROR_WARPS];
};

// The elements of the rows that hold a sample, which come first.
static __device__ inline int64_t error_filled(const kernel_square_error_args &p)
{
    const int64_t rows = p.filled ? *p.filled - p.first : p.rows;
    return (rows < 0 ? 0 : rows < p.rows ? rows : p.rows) * p.cols;
}

// The arrays of a piece, from its first element on, and how many of its elements hold a sample.
template <typename T> struct error_piece {
    const T *x;
    const float *target;
    T *dx;
    int filled;
    float factor;
};

// This thread's sum over elements first … last-1, N at once, where last - first is a multiple of N.
template <typename T, int N>
static __device__ inline double error_of_range(const error_piece<T> &p, int first, int last)
{
    constexpr int STRIDE = ERROR_WARPS * GPU_WARP * N;
    double sum[2] = {};
    for (int i = first + (int)threadIdx.x * N; i < last; i += ERROR_AHEAD * STRIDE) {
        gpu_floats<N> x[ERROR_AHEAD], target[ERROR_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < ERROR_AHEAD; a++) {
            const int e = i + a * STRIDE;
            x[a] = e < last ? gpu_load_floats<N>(p.x + e) : gpu_zero_floats<N>();
            target[a] = e < last ? gpu_load_floats<N>(p.target + e) : gpu_zero_floats<N>();
        }
        GPU_UNROLL
        for (int a = 0; a < ERROR_AHEAD; a++) {
            const int e = i + a * STRIDE;
            for (int j = 0; j < N; j++) {
                const float d = e + j < p.filled ? x[a].v[j] - target[a].v[j] : 0;
                sum[j % 2] = fma((double)d, (double)d, sum[j % 2]);
                x[a].v[j] = p.factor * d;
            }
            if (p.dx && e < last) gpu_store_floats(p.dx + e, x[a]);
        }
    }
    return sum[0] + sum[1];
}

template <typename T>
static __global__
__launch_bounds__(ERROR_WARPS *GPU_WARP) void error_kernel(kernel_square_error_args p, int shift,
                                                           double *pieces)
{
    const gpu_piece piece = gpu_piece_of(0, p.rows * p.cols, blockIdx.x, shift);
    const int64_t left = error_filled(p) - piece.first;
    const float loss_scale = p.step ? (float)p.step->loss_scale : 1;
    const error_piece<T> e = {(const T *)p.x + piece.first, p.target + piece.first,
                              p.dx ? (T *)p.dx + piece.first : nullptr,
                              (int)(left < 0             ? 0
                                    : left < piece.count ? left
                                                         : piece.count),
                              2 * loss_scale};
    const uintptr_t wide = (uintptr_t)e.x | (uintptr_t)e.dx;
    const bool aligned = wide % (ERROR_WIDTH * sizeof(T)) == 0 && (uintptr_t)e.target % 16 == 0;
    const int whole = aligned ? piece.count / ERROR_WIDTH * ERROR_WIDTH : 0;
    double sum =
        error_of_range<T, ERROR_WIDTH>(e, 0, whole) + error_of_range<T, 1>(e, whole, piece.count);
    sum = gpu_block_sum<ERROR_WARPS>(sum, gpu_shared<error_shared>()->sum);
    if (threadIdx.x == 0) pieces[blockIdx.x] = sum;
}

// One warp adds the pieces.
static __global__ void error_add_kernel(kernel_square_error_args p, const double *pieces, int count)
{
    const double sum = gpu_warp_sum_of(pieces, count);
    if (threadIdx.x != 0) return;
    if (p.loss_sum) *p.loss_sum += sum;
    if (p.total) *p.total += (double)error_filled(p);
}

// The pieces of a call.
static int64_t error_pieces(const kernel_square_error_args *p)
{
    const int64_t count = p->rows * p->cols;
    return count > 0 ? gpu_piece_count(count, gpu_sum_shift(count)) : 0;
}

extern "C" void cuda_square_error(const cuda_context *x, const void *args)
{
    const kernel_square_error_args *p = (const kernel_square_error_args *)args;
    const int64_t pieces = error_pieces(p);
    if (pieces == 0) return;
    gpu_with_type(p->type, [&](auto zero) {
        gpu_launch(x, "square_error", error_kernel<decltype(zero)>, dim3((unsigned)pieces),
                   dim3(ERROR_WARPS * GPU_WARP), sizeof(error_shared), *p,
                   gpu_sum_shift(p->rows * p->cols), (double *)x->workspace);
    });
    gpu_launch(x, "square_error", error_add_kernel, dim3(1), dim3(GPU_WARP), 0, *p,
               (const double *)x->workspace, (int)pieces);
}

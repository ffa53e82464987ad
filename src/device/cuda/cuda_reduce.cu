// cuda_reduce.cu -- sums over many elements: the gradient of a bias and the sum of squares, for the norm of
// the gradients. Each sum is divided into parts that depend on the shape only; a second launch adds the
// parts in their order. So two calls give the same bits on every GPU. The table cuda_kernels.c names the
// host sides; the digest is in cuda_elementwise.cu.
#include "device/cuda/gpu_pieces.h"

// ---- Gradient of a bias

constexpr int BIAS_WARPS = 8; // of a block; each adds every eighth row of the block's rows
constexpr int BIAS_AHEAD = 4; // rows whose loads are in flight

// Rows of a part.
static int64_t bias_part_rows(int64_t rows)
{
    return size_max(gpu_ceil_div(rows, BIAS_MOST_PARTS), BIAS_LEAST_ROWS);
}

// The sums of the warps of a block.
template <int N> struct bias_shared {
    float sum[BIAS_WARPS][GPU_WARP][N];
};

// Adds the sums of the block's warps, in their order. The sum is valid in warp 0.
template <int N> static __device__ inline gpu_floats<N> bias_sum_warps(const gpu_floats<N> &x)
{
    bias_shared<N> *shared = gpu_shared<bias_shared<N>>();
    const int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
    gpu_floats<N> out = x;
    for (int j = 0; j < N; j++) shared->sum[warp][lane][j] = x.v[j];
    __syncthreads();
    for (int w = 1; w < BIAS_WARPS && warp == 0; w++)
        for (int j = 0; j < N; j++) out.v[j] += shared->sum[w][lane][j];
    return out;
}

// parts [gridDim.y, cols] = sums of part_rows rows of dy each
template <typename T, int N>
static __global__
__launch_bounds__(BIAS_WARPS *GPU_WARP) void bias_parts_kernel(kernel_bias_grad_args p,
                                                               int64_t part_rows, float *parts)
{
    const int warp = (int)threadIdx.x / GPU_WARP;
    const int64_t c = ((int64_t)blockIdx.x * GPU_WARP + threadIdx.x % GPU_WARP) * N;
    const int64_t first = blockIdx.y * part_rows;
    const int64_t last = first + part_rows < p.rows ? first + part_rows : p.rows;
    const int64_t stride = kernel_stride(p.stride, p.cols);
    gpu_floats<N> sum = gpu_zero_floats<N>();
    for (int64_t r = first + warp; r < last && c < p.cols; r += BIAS_AHEAD * BIAS_WARPS) {
        gpu_floats<N> row[BIAS_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < BIAS_AHEAD; a++) {
            const int64_t here = r + a * BIAS_WARPS;
            row[a] = here < last ? gpu_load_floats<N>((const T *)p.dy + here * stride + c)
                                 : gpu_zero_floats<N>();
        }
        for (int a = 0; a < BIAS_AHEAD; a++)
            for (int j = 0; j < N; j++) sum.v[j] += row[a].v[j];
    }
    sum = bias_sum_warps(sum);
    if (warp != 0 || c >= p.cols) return;
    for (int j = 0; j < N; j++) parts[blockIdx.y * p.cols + c + j] = sum.v[j];
}

// db (+)= the sum of `count` parts. Each warp adds a run of them.
static __global__
__launch_bounds__(BIAS_WARPS *GPU_WARP) void bias_sum_kernel(kernel_bias_grad_args p,
                                                             const float *parts, int count)
{
    const int warp = (int)threadIdx.x / GPU_WARP;
    const int64_t c = (int64_t)blockIdx.x * GPU_WARP + threadIdx.x % GPU_WARP;
    const int each = (count + BIAS_WARPS - 1) / BIAS_WARPS, first = warp * each;
    const int last = first + each < count ? first + each : count;
    gpu_floats<1> sum = gpu_zero_floats<1>();
#pragma unroll 8
    for (int i = first; i < last && c < p.cols; i++) sum.v[0] += parts[i * p.cols + c];
    sum = bias_sum_warps(sum);
    if (warp == 0 && c < p.cols) p.db[c] = p.accumulate ? p.db[c] + sum.v[0] : sum.v[0];
}

template <typename T, int N>
static void bias_launch(const cuda_context *x, const kernel_bias_grad_args *p)
{
    const int64_t columns = gpu_ceil_div(p->cols, (int64_t)GPU_WARP * N),
                  count = bias_parts(p->rows);
    const dim3 block(BIAS_WARPS * GPU_WARP);
    gpu_launch(x, "bias_grad", bias_parts_kernel<T, N>, dim3((unsigned)columns, (unsigned)count),
               block, sizeof(bias_shared<N>), *p, bias_part_rows(p->rows), (float *)x->workspace);
    gpu_launch(x, "bias_grad", bias_sum_kernel, dim3((unsigned)gpu_ceil_div(p->cols, GPU_WARP)),
               block, sizeof(bias_shared<1>), *p, (const float *)x->workspace, (int)count);
}

extern "C" void cuda_bias_grad(const cuda_context *x, const void *args)
{
    const kernel_bias_grad_args *p = (const kernel_bias_grad_args *)args;
    const int64_t stride = kernel_stride(p->stride, p->cols);
    gpu_with_type(p->type, [&](auto zero) {
        typedef decltype(zero) T;
        constexpr int N = 16 / sizeof(T);
        if (gpu_is_aligned<N>((const T *)p->dy, stride) && p->cols % N == 0)
            bias_launch<T, N>(x, p);
        else
            bias_launch<T, 1>(x, p);
    });
}

// ---- Sum of squares

constexpr int SQUARES_WARPS = 8;
constexpr int SQUARES_AHEAD = 4;         // loads of a thread in flight
constexpr int SQUARES_ADDING_WARPS = 32; // of the block that adds the pieces

struct squares_shared {
    double sum[SQUARES_WARPS];
};

// The workspace: the sum of each piece, of each segment, and the number of each segment's first piece.
struct squares_memory {
    double *piece, *total;
    int64_t *first;
};

static squares_memory squares_divide(void *workspace, int64_t pieces, int64_t segments)
{
    double *piece = (double *)workspace;
    return {piece, piece + pieces, (int64_t *)(piece + pieces + segments)};
}

static __device__ inline int squares_segment_shift(int64_t count)
{
    return gpu_sum_shift(count);
}

// This thread's sum of squares of x[first] … x[last-1]. last - first is a multiple of N.
template <typename T, int N>
static __device__ inline double squares_of_range(const T *x, int first, int last)
{
    constexpr int STRIDE = SQUARES_WARPS * GPU_WARP * N;
    constexpr int LANES = N < 4 ? N : 4;
    double sum[LANES] = {};
    for (int i = first + (int)threadIdx.x * N; i < last; i += SQUARES_AHEAD * STRIDE) {
        gpu_floats<N> v[SQUARES_AHEAD];
        GPU_UNROLL
        for (int a = 0; a < SQUARES_AHEAD; a++)
            v[a] = i + a * STRIDE < last ? gpu_load_floats<N>(x + i + a * STRIDE)
                                         : gpu_zero_floats<N>();
        GPU_UNROLL
        for (int a = 0; a < SQUARES_AHEAD; a++)
            for (int j = 0; j < N; j++) {
                const double d = v[a].v[j];
                sum[j % LANES] = fma(d, d, sum[j % LANES]);
            }
    }
    double all = sum[0];
    for (int l = 1; l < LANES; l++) all += sum[l];
    return all;
}

template <typename T>
static __global__
__launch_bounds__(SQUARES_WARPS *GPU_WARP) void squares_kernel(kernel_sum_squares_args p,
                                                               squares_memory memory)
{
    constexpr int N = 16 / sizeof(T);
    const int64_t number = blockIdx.x;
    const gpu_piece piece =
        p.segment ? gpu_find_piece(p.segment, p.segments, number, squares_segment_shift)
                  : gpu_piece_of(0, p.count, number, gpu_sum_shift(p.count));
    if (piece.count == 0) return;
    const int64_t src = p.segment ? p.segment[piece.segment].src : 0;
    const T *x = (const T *)p.x + src + piece.first;
    const int whole = ((uintptr_t)x & 15) == 0 ? piece.count / N * N : 0;
    double sum =
        squares_of_range<T, N>(x, 0, whole) + squares_of_range<T, 1>(x, whole, piece.count);
    sum = gpu_block_sum<SQUARES_WARPS>(sum, gpu_shared<squares_shared>()->sum);
    if (threadIdx.x != 0) return;
    memory.piece[number] = sum;
    if (piece.number == 0) memory.first[piece.segment] = number;
}

// One block adds the pieces of each segment, and the segments to *sum.
static __global__
__launch_bounds__(SQUARES_ADDING_WARPS *GPU_WARP) void squares_add_kernel(kernel_sum_squares_args p,
                                                                          squares_memory memory)
{
    const int64_t segments = p.segment ? p.segments : 1;
    for (int64_t s = threadIdx.x / GPU_WARP; s < segments; s += SQUARES_ADDING_WARPS) {
        const int64_t count = p.segment ? p.segment[s].count : p.count;
        const int64_t pieces = gpu_piece_count(count, gpu_sum_shift(count));
        const double sum = pieces > 0 ? gpu_warp_sum_of(memory.piece + memory.first[s], pieces) : 0;
        if (threadIdx.x % GPU_WARP == 0) memory.total[s] = sum;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    double sum = *p.sum;
#pragma unroll 8
    for (int64_t s = 0; s < segments; s++) sum += memory.total[s];
    *p.sum = sum;
}

extern "C" void cuda_sum_squares(const cuda_context *x, const void *args)
{
    const kernel_sum_squares_args *p = (const kernel_sum_squares_args *)args;
    const int64_t segments = squares_segments(p);
    if (p->count <= 0) return;
    const int64_t pieces = p->segment ? gpu_most_pieces(p->count, segments, GPU_SUM_SHIFT)
                                      : gpu_piece_count(p->count, gpu_sum_shift(p->count));
    const squares_memory memory = squares_divide(x->workspace, pieces, segments);
    gpu_with_type(p->type, [&](auto zero) {
        gpu_launch(x, "sum_squares", squares_kernel<decltype(zero)>, dim3((unsigned)pieces),
                   dim3(SQUARES_WARPS * GPU_WARP), sizeof(squares_shared), *p, memory);
    });
    gpu_launch(x, "sum_squares", squares_add_kernel, dim3(1), dim3(SQUARES_ADDING_WARPS * GPU_WARP),
               0, *p, memory);
}

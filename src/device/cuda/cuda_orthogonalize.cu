// cuda_orthogonalize.cu -- Gram-Schmidt on the columns of a tall matrix, for the factors of PowerSGD's
// gradient compression. There are two launches for each column. The first subtracts the projection on the
// column before, and takes the square sum of the column. The second divides the column by its norm, and
// takes its dot products with the later columns. Sums run in F64, over blocks of rows that depend on the
// shape only, and each block adds the blocks' sums in their order. The table cuda_kernels.c names the host
// side.
#include "device/cuda/gpu_vector.h"

constexpr int ORTH_WARPS = 8;
constexpr int ORTH_THREADS = ORTH_WARPS * GPU_WARP;
constexpr int ORTH_COLUMNS = 32; // that lose their projections in one pass over the rows

// The workspace, and the rows of a block.
struct orth_call {
    float *x; // [rows, cols]
    int64_t rows, cols, block_rows;
    float eps;
    double *square; // [blocks]: square sums of the current column
    double *along;  // [blocks, cols]: its dot products with the later columns
};

struct orth_shared {
    double sum[ORTH_WARPS];
    double along[ORTH_COLUMNS];
};

// ORTH_COLUMNS columns from `first` on, after column i: each row loses its projection on column i, given the
// dot products of all blocks.
static __device__ inline void orth_subtract(const orth_call &p, int64_t i, int64_t first,
                                            int64_t row0, int64_t row1)
{
    orth_shared *shared = gpu_shared<orth_shared>();
    const int64_t last = first + ORTH_COLUMNS < p.cols ? first + ORTH_COLUMNS : p.cols;
    const int64_t j = first + threadIdx.x;
    __syncthreads();
    if (j < last) {
        double sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++) sum += p.along[b * p.cols + j];
        shared->along[threadIdx.x] = sum;
    }
    __syncthreads();
    for (int64_t r = row0 + threadIdx.x; r < row1; r += ORTH_THREADS) {
        float *row = p.x + r * p.cols;
        const double q = row[i];
        for (int64_t c = first; c < last; c++)
            row[c] = (float)fma(-shared->along[c - first], q, (double)row[c]);
    }
}

// Subtracts the projections on column i-1, and takes the square sum of column i.
static __global__ __launch_bounds__(ORTH_THREADS) void orth_subtract_kernel(orth_call p, int64_t i)
{
    const int64_t row0 = blockIdx.x * p.block_rows;
    const int64_t row1 = row0 + p.block_rows < p.rows ? row0 + p.block_rows : p.rows;
    for (int64_t first = i; i > 0 && first < p.cols; first += ORTH_COLUMNS)
        orth_subtract(p, i - 1, first, row0, row1);
    double sum = 0;
    for (int64_t r = row0 + threadIdx.x; r < row1; r += ORTH_THREADS) {
        const double v = p.x[r * p.cols + i];
        sum = fma(v, v, sum);
    }
    sum = gpu_block_sum<ORTH_WARPS>(sum, gpu_shared<orth_shared>()->sum);
    if (threadIdx.x == 0) p.square[blockIdx.x] = sum;
}

// Divides column i by its norm, and takes its dot products with the later columns.
static __global__ __launch_bounds__(ORTH_THREADS) void orth_multiply_kernel(orth_call p, int64_t i)
{
    const int64_t row0 = blockIdx.x * p.block_rows;
    const int64_t row1 = row0 + p.block_rows < p.rows ? row0 + p.block_rows : p.rows;
    double square = 0;
    for (unsigned b = 0; b < gridDim.x; b++) square += p.square[b];
    const double inverse = 1 / (sqrt(square) + p.eps);
    for (int64_t r = row0 + threadIdx.x; r < row1; r += ORTH_THREADS) {
        float *x = p.x + r * p.cols + i;
        *x = (float)(*x * inverse);
    }
    // Each thread reads the rows that it has written.
    for (int64_t j = i + 1; j < p.cols; j++) {
        double sum = 0;
        for (int64_t r = row0 + threadIdx.x; r < row1; r += ORTH_THREADS)
            sum = fma((double)p.x[r * p.cols + i], (double)p.x[r * p.cols + j], sum);
        sum = gpu_block_sum<ORTH_WARPS>(sum, gpu_shared<orth_shared>()->sum);
        if (threadIdx.x == 0) p.along[blockIdx.x * p.cols + j] = sum;
    }
}

extern "C" void cuda_orthogonalize(const cuda_context *x, const void *args)
{
    const kernel_orthogonalize_args *a = (const kernel_orthogonalize_args *)args;
    if (a->rows <= 0 || a->cols <= 0) return;
    const int64_t blocks = orth_blocks(a->rows);
    double *memory = (double *)x->workspace;
    const orth_call p = {a->x,   a->rows, a->cols,        gpu_ceil_div(a->rows, blocks),
                         a->eps, memory,  memory + blocks};
    const dim3 grid((unsigned)blocks), block(ORTH_THREADS);
    for (int64_t i = 0; i < p.cols; i++) {
        gpu_launch(x, "orthogonalize", orth_subtract_kernel, grid, block, sizeof(orth_shared), p,
                   i);
        gpu_launch(x, "orthogonalize", orth_multiply_kernel, grid, block, sizeof(orth_shared), p,
                   i);
    }
}

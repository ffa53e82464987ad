// cuda_matmul_bias.cu -- what a matrix product needs beside cuBLASLt: a bias that the library does not take,
// and products over no elements. Called by cuda_matmul.c.
#include "device/cuda/gpu.h"

#include "device/cuda/cuda_blas.h"

enum { THREADS = 256, ROWS = 8 }; // rows of c that a block writes

// A thread has one column, and ROWS rows of it.
template <typename T, typename C>
static __global__ void __launch_bounds__(THREADS)
    matmul_bias_kernel(C *c, const T *bias, int64_t m, int64_t n, int64_t ldc, bool accumulate)
{
    const int64_t j = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (j >= n) return;
    const float b = bias ? gpu_to_float(bias[j]) : 0.0f;
    for (int64_t i0 = (int64_t)blockIdx.y * ROWS; i0 < m; i0 += (int64_t)gridDim.y * ROWS)
        for (int64_t i = i0; i < m && i < i0 + ROWS; i++) {
            C *to = c + i * ldc + j;
            *to = gpu_from_float<C>(accumulate ? gpu_to_float(*to) + b : b);
        }
}

template <typename T, typename C>
static void launch(const cuda_context *x, const kernel_matmul_args *p)
{
    const int64_t down = (p->m + ROWS - 1) / ROWS;
    const dim3 grid((unsigned)((p->n + THREADS - 1) / THREADS),
                    (unsigned)(down < 65535 ? down : 65535));
    gpu_launch(x, "matmul_bias", matmul_bias_kernel<T, C>, grid, dim3(THREADS), 0,
               static_cast<C *>(p->c), static_cast<const T *>(p->bias), p->m, p->n, p->ldc,
               p->accumulate);
}

extern "C" void cuda_matmul_bias(const cuda_context *x, const kernel_matmul_args *p)
{
    gpu_with_type(p->type, [&](auto t) {
        using T = decltype(t);
        if (p->c_type == F32)
            launch<T, float>(x, p);
        else
            launch<T, T>(x, p);
    });
}

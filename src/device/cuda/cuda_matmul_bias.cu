// cuda_matmul_bias.cu -- what a matrix product needs beside cuBLASLt: a bias that the library does not take,
// and products over no elements. Called by cuda_matmul.c.
#include "device/cuda/gpu_each.h"
#include "device/cuda/gpu_vector.h"

#include "device/cuda/libraries/cuda_blas.h"

enum { THREADS = 256, ROWS = 8 }; // rows of c that a block writes

// A thread has N consecutive columns, and ROWS rows of them.
template <typename T, typename C, int N>
static __global__ void __launch_bounds__(THREADS)
    matmul_bias_kernel(C *c, const T *bias, int64_t m, int64_t n, int64_t ldc, bool accumulate)
{
    const int64_t j = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * N;
    if (j >= n) return;
    const gpu_floats<N> b = bias ? gpu_load_floats<N>(bias + j) : gpu_zero_floats<N>();
    for (int64_t i0 = (int64_t)blockIdx.y * ROWS; i0 < m; i0 += (int64_t)gridDim.y * ROWS)
        for (int64_t i = i0; i < m && i < i0 + ROWS; i++) {
            C *to = c + i * ldc + j;
            gpu_floats<N> v = b;
            if (accumulate) {
                const gpu_floats<N> old = gpu_load_floats<N>(to);
                for (int k = 0; k < N; k++) v.v[k] += old.v[k];
            }
            gpu_store_floats(to, v);
        }
}

template <typename T, typename C, int N>
static void launch(const cuda_context *x, const kernel_matmul_args *p)
{
    const int64_t down = (p->m + ROWS - 1) / ROWS;
    const dim3 grid((unsigned)gpu_ceil_div(p->n, THREADS * N),
                    (unsigned)(down < 65535 ? down : 65535));
    gpu_launch(x, "matmul_bias", matmul_bias_kernel<T, C, N>, grid, dim3(THREADS), 0,
               static_cast<C *>(p->c), static_cast<const T *>(p->bias), p->m, p->n, p->ldc,
               p->accumulate);
}

template <typename T, typename C>
static void launch_any(const cuda_context *x, const kernel_matmul_args *p)
{
    constexpr int pack = each_pack<T, C>;
    if (p->n % pack == 0 && gpu_is_aligned<pack>((const T *)p->bias, pack) &&
        gpu_is_aligned<pack>((const C *)p->c, p->ldc))
        launch<T, C, pack>(x, p);
    else
        launch<T, C, 1>(x, p);
}

extern "C" void cuda_matmul_bias(const cuda_context *x, const kernel_matmul_args *p)
{
    gpu_with_type(p->type, [&](auto t) {
        using T = decltype(t);
        if (p->c_type == F32)
            launch_any<T, float>(x, p);
        else
            launch_any<T, T>(x, p);
    });
}

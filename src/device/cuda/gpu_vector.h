// gpu_vector.h -- elements of any type, read and written as floats, several at a time. N elements are one
// access of 8 or 16 bytes, or two of 16, for which the address is aligned to the access; N = 1 is the path
// for every other address. So a kernel with a parameter N is written once for both. Kernels that stream
// arrays include it after gpu.h.
#ifndef TRIREME_DEVICE_CUDA_GPU_VECTOR_H
#define TRIREME_DEVICE_CUDA_GPU_VECTOR_H

#include "device/cuda/gpu.h"

template <int N> struct gpu_floats {
    float v[N];
};

// N elements as they lie in memory: what loads in flight keep in registers.
template <typename T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) gpu_raw {
    T v[N];
};

template <int N, typename T> static __device__ inline gpu_raw<T, N> gpu_load_raw(const T *p)
{
    gpu_raw<T, N> out;
    if constexpr (N == 1)
        out.v[0] = *p;
    else if constexpr (N * sizeof(T) == 8)
        *reinterpret_cast<uint64_t *>(&out) = *reinterpret_cast<const uint64_t *>(p);
    else
        for (int i = 0; i < (int)(N * sizeof(T) / 16); i++)
            reinterpret_cast<uint4 *>(&out)[i] = reinterpret_cast<const uint4 *>(p)[i];
    return out;
}

template <typename T, int N>
static __device__ inline gpu_floats<N> gpu_raw_floats(const gpu_raw<T, N> &x)
{
    gpu_floats<N> out;
    for (int i = 0; i < N; i++) out.v[i] = gpu_to_float(x.v[i]);
    return out;
}

template <int N, typename T> static __device__ inline gpu_floats<N> gpu_load_floats(const T *p)
{
    return gpu_raw_floats(gpu_load_raw<N>(p));
}

template <int N, typename T>
static __device__ inline void gpu_store_floats(T *p, const gpu_floats<N> &x)
{
    gpu_raw<T, N> out;
    for (int i = 0; i < N; i++) out.v[i] = gpu_from_float<T>(x.v[i]);
    if constexpr (N == 1)
        *p = out.v[0];
    else if constexpr (N * sizeof(T) == 8)
        *reinterpret_cast<uint64_t *>(p) = *reinterpret_cast<const uint64_t *>(&out);
    else
        for (int i = 0; i < (int)(N * sizeof(T) / 16); i++)
            reinterpret_cast<uint4 *>(p)[i] = reinterpret_cast<const uint4 *>(&out)[i];
}

template <int N> static __device__ inline gpu_floats<N> gpu_zero_floats()
{
    gpu_floats<N> out;
    for (int i = 0; i < N; i++) out.v[i] = 0;
    return out;
}

// May N elements of T be accessed at once from `p` on, and from every row that starts `stride` elements
// after another? An array that is NULL asks for nothing.
template <int N, typename T> static inline bool gpu_is_aligned(const T *p, int64_t stride)
{
    const uintptr_t bytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
    return (uintptr_t)p % bytes == 0 && stride % N == 0;
}

static inline int64_t gpu_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

#endif

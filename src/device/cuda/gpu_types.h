// gpu_types.h -- element types, 16-byte accesses and reductions for kernels, in the words of gpu.h, which
// includes it. The order of every reduction is fixed, so two launches give the same bits.
#ifndef TRIREME_DEVICE_CUDA_GPU_TYPES_H
#define TRIREME_DEVICE_CUDA_GPU_TYPES_H

// Elements of BF16 and F16 arrays. F32 arrays are of float.
struct gpu_bf16 {
    uint16_t bits;
};
struct gpu_f16 {
    uint16_t bits;
};

static __device__ inline float gpu_to_float(float x)
{
    return x;
}
static __device__ inline float gpu_to_float(gpu_bf16 x)
{
    return gpu_bf16_to_float(x.bits);
}
static __device__ inline float gpu_to_float(gpu_f16 x)
{
    return gpu_f16_to_float(x.bits);
}

// x rounded to T: gpu_from_float<gpu_bf16>(x).
template <typename T> static __device__ inline T gpu_from_float(float x);
template <> __device__ inline float gpu_from_float<float>(float x)
{
    return x;
}
template <> __device__ inline gpu_bf16 gpu_from_float<gpu_bf16>(float x)
{
    gpu_bf16 y;
    y.bits = gpu_float_to_bf16(x);
    return y;
}
template <> __device__ inline gpu_f16 gpu_from_float<gpu_f16>(float x)
{
    gpu_f16 y;
    y.bits = gpu_float_to_f16(x);
    return y;
}

// Calls f(T()) with the C++ type T of elements of type t: one place that goes from dtype to template.
template <typename F> static void gpu_with_type(dtype t, F f)
{
    if (t == F32)
        f(float());
    else if (t == BF16)
        f(gpu_bf16());
    else
        f(gpu_f16());
}

// Calls f(T(), R()), where R is the type of the residual.
template <typename F> static void gpu_with_residual(dtype t, bool residual_fp32, F f)
{
    gpu_with_type(t, [&](auto zero) {
        if (residual_fp32)
            f(zero, float());
        else
            f(zero, zero);
    });
}

// As many elements of T as 16 bytes hold, and more where N says so.
template <typename T, int N = 16 / (int)sizeof(T)> struct alignas(16) gpu_pack {
    T v[N];
};

template <typename T, int N = 16 / (int)sizeof(T)>
static __device__ inline gpu_pack<T, N> gpu_load_pack(const T *p)
{
    static_assert(N * sizeof(T) % 16 == 0, "packs are read 16 bytes at a time");
    gpu_pack<T, N> out;
    for (int i = 0; i < (int)(N * sizeof(T) / 16); i++)
        reinterpret_cast<uint4 *>(&out)[i] = reinterpret_cast<const uint4 *>(p)[i];
    return out;
}
template <typename T, int N>
static __device__ inline void gpu_store_pack(T *p, const gpu_pack<T, N> &v)
{
    for (int i = 0; i < (int)(N * sizeof(T) / 16); i++)
        reinterpret_cast<uint4 *>(p)[i] = reinterpret_cast<const uint4 *>(&v)[i];
}

static inline bool gpu_is_aligned16(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

// The sum, or the maximum, over the lanes of a warp, on every lane. Every lane calls it.
template <typename T> static __device__ inline T gpu_warp_sum(T x)
{
    for (int offset = GPU_WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(GPU_ALL_LANES, x, offset);
    return x;
}
static __device__ inline float gpu_warp_max(float x)
{
    for (int offset = GPU_WARP / 2; offset > 0; offset /= 2)
        x = fmaxf(x, __shfl_xor_sync(GPU_ALL_LANES, x, offset));
    return x;
}

// The sum over the threads of a one-dimensional block of WARPS warps, on every thread. `shared` has room
// for WARPS numbers, and is free again after the return. Every thread calls it.
template <int WARPS, typename T> static __device__ inline T gpu_block_sum(T x, T *shared)
{
    x = gpu_warp_sum(x);
    if (WARPS == 1) return x;
    if (threadIdx.x % GPU_WARP == 0) shared[threadIdx.x / GPU_WARP] = x;
    __syncthreads();
    T sum = shared[0];
    for (int i = 1; i < WARPS; i++) sum += shared[i];
    __syncthreads();
    return sum;
}

#endif

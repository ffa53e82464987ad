// gpu_norm.h -- how the norm kernels of the cuda device read and write rows. A thread has packs of 8
// consecutive columns. Which columns it has does not depend on addresses, so rows at odd addresses give the
// bits of aligned ones. All files of this folder include it.
#ifndef TRIREME_DEVICE_CUDA_GPU_NORM_H
#define TRIREME_DEVICE_CUDA_GPU_NORM_H

#include "device/cuda/gpu_vector.h"

template <typename T> using norm_pack = gpu_pack<T, NORM_PACK>;

// Columns c … c+7 of a row, with zeros beyond the last. ALIGNED: the row is aligned to 16 bytes, and cols
// is a multiple of 8.
template <bool ALIGNED, typename T>
static __device__ inline norm_pack<T> norm_load(const T *row, int c, int cols)
{
    norm_pack<T> out;
    if (ALIGNED && c < cols) return gpu_load_pack<T, NORM_PACK>(row + c);
    GPU_UNROLL
    for (int j = 0; j < NORM_PACK; j++)
        out.v[j] = !ALIGNED && c + j < cols ? row[c + j] : gpu_from_float<T>(0);
    return out;
}

template <bool ALIGNED, typename T>
static __device__ inline void norm_store(T *row, int c, int cols, const norm_pack<T> &v)
{
    if constexpr (ALIGNED) {
        if (c < cols) gpu_store_pack(row + c, v);
    } else {
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++)
            if (c + j < cols) row[c + j] = v.v[j];
    }
}

// The factor of a column with this gain. `offset`: it is 1 + gain.
static __device__ inline float norm_factor(float gain, bool offset)
{
    return offset ? gpu_add(1.0f, gain) : gain;
}

// The factors of columns c … c+7, for a gain that may be missing.
template <bool ALIGNED, typename T>
static __device__ inline gpu_floats<NORM_PACK> norm_gain(const T *gain, bool unit_offset, int c,
                                                         int cols)
{
    const norm_pack<T> in = norm_load<ALIGNED>(gain, c, gain ? cols : 0);
    gpu_floats<NORM_PACK> out;
    GPU_UNROLL
    for (int j = 0; j < NORM_PACK; j++)
        out.v[j] = norm_factor(gpu_to_float(in.v[j]), unit_offset || !gain);
    return out;
}

// Returns whether rows of `cols` columns start at multiples of 16 bytes in this array.
static inline bool norm_is_aligned(const void *array, int64_t cols)
{
    return cols % NORM_PACK == 0 && gpu_is_aligned16(array);
}

// Calls f with a norm_flag of the value, so that a branch becomes a template argument.
template <bool VALUE> struct norm_flag {
    static constexpr bool value = VALUE;
};
template <typename F> static void norm_with_flag(bool flag, F f)
{
    if (flag)
        f(norm_flag<true>());
    else
        f(norm_flag<false>());
}

#endif

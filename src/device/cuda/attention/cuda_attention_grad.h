// cuda_attention_grad.h -- shared by the two kernels that compute the gradients of attention with tensor
// cores: the sizes of their tiles and the copies of them.
//
// One kernel computes dk and dv, a block of keys at a time, and one computes dq, a block of queries at a
// time. Both compute the scores again. So every sum is over rows that one block goes through in order, and
// no sum needs memory beyond registers. The alternative, one kernel that adds to dq in memory, would have
// five products instead of seven, but its blocks would have to add in a fixed order.
#ifndef TRIREME_DEVICE_CUDA_CUDA_ATTENTION_GRAD_H
#define TRIREME_DEVICE_CUDA_CUDA_ATTENTION_GRAD_H

#include "device/cuda/attention/cuda_attention.h"
#include "device/cuda/gpu_tile.h"

constexpr int GRAD_ROWS = 128; // of a block: the rows whose gradients it computes
// Rows of the other side that are copied at once, also where a GPU has too little shared memory for so many. The bits are
// the same.
constexpr int GRAD_OTHERS = 64, GRAD_FEWER_OTHERS = 32;
constexpr int GRAD_STEP = 32; // and of those, how many are done at once

// A warp has PARTS groups of 16 rows. Wide heads, and dropout, need the registers for one.
template <int D, bool DROPS> struct grad_shape {
    static constexpr int PARTS = D <= (DROPS ? 32 : 64) ? 2 : 1, WARP_ROWS = 16 * PARTS;
    static constexpr int THREADS = GRAD_ROWS / WARP_ROWS * (int)GPU_WARP;
};

// Products of the warp's rows with GRAD_STEP rows of the other side.
template <int D, bool DROPS>
using grad_scores = float[grad_shape<D, DROPS>::PARTS][GRAD_STEP / 8][4];

// Calls f.template operator()<OTHERS>() for as many rows as the shared memory of this GPU has room for; TILES<D, OTHERS> is
// what a block has there.
template <template <int, int> class TILES, int D, typename F> static void grad_with_others(F f)
{
    if constexpr (sizeof(TILES<D, GRAD_OTHERS>) > CUDA_SHARED_EVERYWHERE) {
        static_assert(sizeof(TILES<D, GRAD_FEWER_OTHERS>) <= CUDA_SHARED_EVERYWHERE);
        if (sizeof(TILES<D, GRAD_OTHERS>) > cuda_most_shared()) {
            f.template operator()<GRAD_FEWER_OTHERS>();
            return;
        }
    }
    f.template operator()<GRAD_OTHERS>();
}

template <int N> static __device__ inline void grad_zero(float *x)
{
    GPU_UNROLL
    for (int i = 0; i < N; i++) x[i] = 0;
}

// out += s, rounded, times rows row0 … row0+GRAD_STEP-1 of the tile.
template <typename T, int D, bool DROPS>
static __device__ inline void grad_multiply_rows(float (*out)[D / 8][4],
                                                 const grad_scores<D, DROPS> &s,
                                                 const uint16_t *tile, int row0, int lane)
{
    constexpr int PARTS = grad_shape<D, DROPS>::PARTS;
    GPU_UNROLL
    for (int k = 0; k < GRAD_STEP / 16; k++) {
        uint32_t a[PARTS][4], b[4];
        GPU_UNROLL
        for (int m = 0; m < PARTS; m++) tile_round<T>(a[m], s[m][2 * k], s[m][2 * k + 1]);
        GPU_UNROLL
        for (int n = 0; n < D / 16; n++) {
            tile_b_rows<D>(b, tile, row0 + 16 * k, n, lane);
            GPU_UNROLL
            for (int m = 0; m < PARTS; m++) {
                tile_mma(T(), out[m][2 * n], a[m], b);
                tile_mma(T(), out[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

// s += fragments a, step k of the head's width, times rows row0 … row0+GRAD_STEP-1 of the tile.
template <typename T, int D, bool DROPS>
static __device__ inline void grad_multiply_step(grad_scores<D, DROPS> &s, const uint32_t (*a)[4],
                                                 const uint16_t *tile, int row0, int k, int lane)
{
    GPU_UNROLL
    for (int n = 0; n < GRAD_STEP / 16; n++) {
        uint32_t b[4];
        tile_b<D>(b, tile, row0 + 16 * n, k, lane);
        GPU_UNROLL
        for (int m = 0; m < grad_shape<D, DROPS>::PARTS; m++) {
            tile_mma(T(), s[m][2 * n], a[m], b);
            tile_mma(T(), s[m][2 * n + 1], a[m], b + 2);
        }
    }
}

#endif

// gpu_each.h -- what the elementwise kernels of the cuda device share: one kernel that applies an op to
// every element of flat arrays, and index arithmetic. cuda_elementwise.cu, cuda_activation.cu and
// cuda_init.cu include it. The grid follows from the number of elements only.
//
// An op is a struct of typed pointers and numbers. It is copied into the launch.
//   enum { PACK }          elements that a thread takes at once
//   loaded                 what load returns
//   loaded load(i)         reads elements i … i+PACK-1, 16 bytes at a time
//   void store(i, loaded)  computes these elements and writes them, 16 bytes at a time
//   void one(i)            reads, computes and writes element i
//   enum { PACKS }         optional: in place of EACH_PACKS, where so many take too many registers
//   void begin()           optional: each thread calls it once, on its own copy of the op
// load and store are called for aligned arrays and for i a multiple of PACK. An output may be an input: a
// thread reads all its elements before it writes any.
#ifndef TRIREME_DEVICE_CUDA_GPU_EACH_H
#define TRIREME_DEVICE_CUDA_GPU_EACH_H

#include "device/cuda/gpu.h"

enum {
    EACH_THREADS = 256, // of a block
    EACH_PACKS = 4, // that a thread of a large launch has in flight, unless the op says otherwise
    EACH_LARGE = 1 << 19, // packs of a launch that is large
};

// The elements of A and B that a thread takes at once: 16 bytes of the smaller type.
template <typename A, typename B>
constexpr int each_pack = 16 / (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B));

// a / b for a >= 0, b > 0. A division of 32 bits is several times faster than one of 64.
static __device__ inline int64_t gpu_quotient(int64_t a, int64_t b)
{
    if (((a | b) >> 32) == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
    return a / b;
}

// kernel_logical_row, without divisions where the rows are consecutive.
static __device__ inline int64_t gpu_logical_row(const kernel_tokens &t, int64_t r)
{
    if (t.chunk == t.full_seq) return t.first_row + t.start[0] + r;
    return kernel_logical_row(&t, r);
}

template <typename OP> constexpr int each_packs = EACH_PACKS;
template <typename OP>
requires requires
{
    OP::PACKS;
}
constexpr int each_packs<OP> = OP::PACKS;

// Elements from `first` to before `end`, by a block. A full tile has each_packs packs of each thread.
template <typename OP>
static __device__ inline void each_tile(const OP &op, int64_t first, int64_t end, bool aligned)
{
    constexpr int step = (int)EACH_THREADS * (int)OP::PACK, packs = each_packs<OP>;
    int64_t i = first + threadIdx.x * (unsigned)OP::PACK;
    if (aligned && end - first == packs * step) {
        typename OP::loaded in[packs];
        GPU_UNROLL
        for (int k = 0; k < packs; k++) in[k] = op.load(i + k * step);
        GPU_UNROLL
        for (int k = 0; k < packs; k++) op.store(i + k * step, in[k]);
        return;
    }
    int64_t done = first;
    if (aligned) {
        for (; i + OP::PACK <= end; i += step) op.store(i, op.load(i));
        done = end - (end - first) % OP::PACK;
    }
    for (i = done + threadIdx.x; i < end; i += EACH_THREADS) op.one(i);
}

// A block takes `packs` packs of each thread, 1 or each_packs.
template <typename OP>
__global__ void __launch_bounds__(EACH_THREADS)
    each_kernel(OP op, int64_t count, int packs, bool aligned)
{
    if constexpr (requires { op.begin(); }) op.begin();
    const int64_t tile = (int64_t)packs * EACH_THREADS * OP::PACK, first = blockIdx.x * tile;
    each_tile(op, first, first + tile < count ? first + tile : count, aligned);
}

// Applies op to elements 0 … count-1. `aligned`: every array of op is aligned to 16 bytes.
template <typename OP>
static void each_launch(const cuda_context *x, const char *what, const OP &op, int64_t count,
                        bool aligned)
{
    const int packs = count / OP::PACK >= EACH_LARGE ? each_packs<OP> : 1;
    const int64_t tile = (int64_t)packs * EACH_THREADS * OP::PACK;
    if (count <= 0) return;
    gpu_launch(x, what, each_kernel<OP>, dim3((unsigned)((count + tile - 1) / tile)),
               dim3(EACH_THREADS), 0, op, count, packs, aligned);
}

#endif

// gpu.h -- the words in which kernels are written. A .cu file includes this header and no header of
// CUDA's. Under nvcc the words are CUDA's own or a few lines of PTX. Without nvcc they come from
// gpu_stand_in.h of the tests, which runs the same source on the CPU, one fiber a thread, and checks
// what a GPU leaves unchecked. So a kernel uses only the words of this file:
//
//   __global__ __device__ __launch_bounds__, threadIdx blockIdx blockDim gridDim (dim3), uint4, float2,
//   float4, __syncthreads, __syncwarp, __shfl_sync, __shfl_xor_sync, __shfl_down_sync, __ballot_sync,
//   atomicAdd on integers (sums of floats by atomics would depend on the order), __threadfence,
//   min and max of two numbers of one type, the functions of math.h in float and double, and what stands
//   below.
//
// Shared memory is always asked for at the launch: a kernel has one struct or array in it (gpu_shared).
// A warp has GPU_WARP threads; every kernel is launched with a multiple of that in x. Pointers that are
// read or written 16 bytes at a time must be aligned so (gpu_is_aligned16): kernels.h promises no more
// than the alignment of an element, so each kernel has a path for that.
#ifndef TRIREME_DEVICE_CUDA_GPU_H
#define TRIREME_DEVICE_CUDA_GPU_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda.h"
#include "device/cuda/needs/cuda_shapes.h"

constexpr unsigned GPU_ALL_LANES = 0xffffffffu;

#ifdef __CUDACC__
#include "device/cuda/gpu_cuda.h"
#else
#include "gpu_stand_in.h"
#endif

// Stands before a loop of a constant count whose arrays must lie in registers.
#ifdef __CUDACC__
#define GPU_UNROLL _Pragma("unroll")
#else
#define GPU_UNROLL
#endif

#include "device/cuda/gpu_types.h"

#endif

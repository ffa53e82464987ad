// gpu_math.h -- functions that several kernels of the cuda device compute with a few units in the last place of error.
// cuda_activation.cu and cuda_loss.cu include it after gpu.h.
#ifndef TRIREME_DEVICE_CUDA_GPU_MATH_H
#define TRIREME_DEVICE_CUDA_GPU_MATH_H

#include "device/cuda/gpu.h"

// tanh. Near zero it is a polynomial, that of vec_math.h.
static __device__ inline float gpu_tanh(float x)
{
    const float size = fabsf(x), square = gpu_mul(x, x);
    float p = -0.00589515754f;
    p = fmaf(p, square, 0.0207959713f);
    p = fmaf(p, square, -0.0537838302f);
    p = fmaf(p, square, 0.133319241f);
    p = fmaf(p, square, -0.33333298f);
    const float e = gpu_exp2(gpu_mul(size, 2 * 1.44269504089f));
    const float large = fmaf(-2.0f, gpu_reciprocal(gpu_add(e, 1.0f)), 1.0f);
    return size < 0.6f ? fmaf(gpu_mul(x, square), p, x) : copysignf(large, x);
}

#endif

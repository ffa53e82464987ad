// cuda_gate.cu -- the gate of a value of the cuda device, with or without a norm, and its gradients. cuda_kernels.c calls
// the host sides. A warp has a group of columns; without a norm, a run of them. For the gradient of the gain a block has
// GATE_COLS columns and takes the groups in GATE_PARTS parts, before dx is written over dy.
#include "base/size.h"
#include "device/cuda/gpu.h"

constexpr int GATE_THREADS = 256, GATE_WARPS = GATE_THREADS / GPU_WARP;
constexpr int GATE_RUN = 256; // columns that a warp takes where there is no norm
constexpr int GATE_COLS = 32, GATE_PARTS = 8;

struct gate_value {
    float f, slope;
};

static __device__ inline gate_value gate_of(const kernel_gate_args &p, float g)
{
    const float s = 1.0f / gpu_add(1.0f, expf(-g)), slope = gpu_mul(s, gpu_add(1.0f, -s));
    if (!p.silu) return {s, slope};
    return {gpu_mul(g, s), fmaf(g, slope, s)};
}

template <typename T> static __device__ inline float gate_load(const void *array, int64_t i)
{
    return gpu_to_float(((const T *)array)[i]);
}

template <typename T> static __device__ inline float gate_gain(const kernel_gate_args &p, int64_t c)
{
    return p.gain ? gate_load<T>(p.gain, c) : 1;
}

// The groups of a launch: those of the norm, or runs of all elements.
static __device__ inline int64_t gate_first(const kernel_gate_args &p, int64_t group)
{
    return group * (p.gain ? p.head_dim : GATE_RUN);
}

template <typename T>
static __global__ void __launch_bounds__(GATE_THREADS)
    gate_kernel(kernel_gate_args p, int64_t groups)
{
    const int64_t group = (int64_t)blockIdx.x * GATE_WARPS + threadIdx.x / GPU_WARP;
    const int lane = (int)threadIdx.x % GPU_WARP;
    if (group >= groups) return;
    const int64_t first = gate_first(p, group), next = gate_first(p, group + 1),
                  all = p.rows * p.cols, last = next < all ? next : all;
    float square = 0, rstd = 1;
    for (int64_t i = first + lane; i < last && p.gain; i += GPU_WARP) {
        const float x = gate_load<T>(p.x, i);
        square = fmaf(x, x, square);
    }
    if (p.gain) {
        rstd = 1.0f / sqrtf(gpu_add(gpu_warp_sum(square) / (float)p.head_dim, p.eps));
        if (lane == 0) p.rstd[group] = rstd;
    }
    for (int64_t i = first + lane; i < last; i += GPU_WARP) {
        const float f = gate_of(p, gate_load<T>(p.gate, i)).f;
        ((T *)p.y)[i] = gpu_from_float<T>(
            gpu_mul(gpu_mul(gpu_mul(gate_load<T>(p.x, i), rstd), gate_gain<T>(p, i - first)), f));
    }
}

template <typename T>
static __global__ void __launch_bounds__(GATE_THREADS)
    gate_grad_kernel(kernel_gate_args p, int64_t groups)
{
    const int64_t group = (int64_t)blockIdx.x * GATE_WARPS + threadIdx.x / GPU_WARP;
    const int lane = (int)threadIdx.x % GPU_WARP;
    if (group >= groups) return;
    const int64_t first = gate_first(p, group), next = gate_first(p, group + 1),
                  all = p.rows * p.cols, last = next < all ? next : all;
    const float rstd = p.gain ? p.rstd[group] : 1;
    float mean = 0;
    for (int64_t i = first + lane; i < last && p.gain; i += GPU_WARP) {
        const float f = gate_of(p, gate_load<T>(p.gate, i)).f,
                    d = gpu_mul(gpu_mul(gate_load<T>(p.dy, i), f), gate_gain<T>(p, i - first));
        mean = fmaf(d, gpu_mul(gate_load<T>(p.x, i), rstd), mean);
    }
    if (p.gain) mean = gpu_warp_sum(mean) / (float)p.head_dim;
    for (int64_t i = first + lane; i < last; i += GPU_WARP) {
        const gate_value g = gate_of(p, gate_load<T>(p.gate, i));
        const float d = gpu_mul(gate_load<T>(p.dy, i), gate_gain<T>(p, i - first)),
                    hat = gpu_mul(gate_load<T>(p.x, i), rstd);
        ((T *)p.d_gate)[i] = gpu_from_float<T>(gpu_mul(gpu_mul(d, hat), g.slope));
        ((T *)p.y)[i] = gpu_from_float<T>(gpu_mul(rstd, fmaf(d, g.f, -gpu_mul(hat, mean))));
    }
}

template <typename T>
static __global__ void __launch_bounds__(GATE_COLS *GATE_PARTS)
    gate_gain_kernel(kernel_gate_args p, int64_t groups)
{
    float *shared = gpu_shared<float>();
    const int lane = (int)threadIdx.x % GATE_COLS, part = (int)threadIdx.x / GATE_COLS;
    const int64_t c = (int64_t)blockIdx.x * GATE_COLS + lane;
    float sum = 0;
    for (int64_t group = part; group < groups && c < p.head_dim; group += GATE_PARTS) {
        const int64_t i = group * p.head_dim + c;
        const float f = gate_of(p, gate_load<T>(p.gate, i)).f;
        sum = fmaf(gpu_mul(gate_load<T>(p.dy, i), f), gpu_mul(gate_load<T>(p.x, i), p.rstd[group]),
                   sum);
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (part != 0 || c >= p.head_dim) return;
    sum = p.accumulate_d_gain ? p.d_gain[c] : 0;
    for (int k = 0; k < GATE_PARTS; k++) sum = gpu_add(sum, shared[k * GATE_COLS + lane]);
    p.d_gain[c] = sum;
}

// The warps of a launch.
static int64_t gate_groups(const kernel_gate_args *p)
{
    return size_ceil_div(p->rows * p->cols, p->gain ? p->head_dim : GATE_RUN);
}

extern "C" void cuda_gate(const cuda_context *x, const void *args)
{
    const kernel_gate_args *p = (const kernel_gate_args *)args;
    const int64_t groups = gate_groups(p);
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        gpu_launch(x, "gate", gate_kernel<T>, dim3((unsigned)size_ceil_div(groups, GATE_WARPS)),
                   dim3(GATE_THREADS), 0, *p, groups);
    });
}

extern "C" void cuda_gate_grad(const cuda_context *x, const void *args)
{
    const kernel_gate_args *p = (const kernel_gate_args *)args;
    const int64_t groups = gate_groups(p);
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        if (p->d_gain)
            gpu_launch(x, "gate_grad", gate_gain_kernel<T>,
                       dim3((unsigned)size_ceil_div(p->head_dim, GATE_COLS)),
                       dim3(GATE_COLS * GATE_PARTS), sizeof(float) * GATE_COLS * GATE_PARTS, *p,
                       groups);
        gpu_launch(x, "gate_grad", gate_grad_kernel<T>,
                   dim3((unsigned)size_ceil_div(groups, GATE_WARPS)), dim3(GATE_THREADS), 0, *p,
                   groups);
    });
}

// cuda_xielu.cu -- xIELU of the cuda device, with its gradients. cuda_kernels.c calls the host sides. The sums of the two
// numbers' gradients run over pieces of elements that depend on the count only; a second launch adds the pieces in
// their order.
#include "device/cuda/gpu_each.h"
#include "device/cuda/gpu_pieces.h"

constexpr float XIELU_LOG2_E = 1.44269504089f;
constexpr int XIELU_WARPS = 8; // of a block that takes a piece

// The numbers of a call, as the specification names them.
struct xielu_numbers {
    float a, b, beta, eps;
};

static __device__ inline float xielu_softplus(float x)
{
    return x > 30 ? x : log1pf(expf(x));
}

template <typename T>
static __device__ inline xielu_numbers xielu_numbers_of(const kernel_xielu_args &p)
{
    const float beta = gpu_to_float(*(const T *)p.beta);
    return {xielu_softplus(gpu_to_float(*(const T *)p.alpha_p)),
            gpu_add(beta, xielu_softplus(gpu_to_float(*(const T *)p.alpha_n))), beta,
            gpu_to_float(*(const T *)p.eps)};
}

// n(x) of the specification, for x <= 0, without a difference of nearly equal numbers.
static __device__ inline float xielu_bend(const xielu_numbers &n, float x)
{
    const float low = x < n.eps ? x : n.eps < 0 ? n.eps : 0;
    float p = 1 / 40320.0f;
    p = fmaf(p, low, 1 / 5040.0f);
    p = fmaf(p, low, 1 / 720.0f);
    p = fmaf(p, low, 1 / 120.0f);
    p = fmaf(p, low, 1 / 24.0f);
    p = fmaf(p, low, 1 / 6.0f);
    p = fmaf(p, low, 0.5f);
    const float large = gpu_add(gpu_add(gpu_exp2(gpu_mul(low, XIELU_LOG2_E)), -1.0f), -low);
    return gpu_add(low < -0.5f ? large : gpu_mul(gpu_mul(low, low), p), gpu_add(low, -x));
}

static __device__ inline float xielu_of(const xielu_numbers &n, float x)
{
    return fmaf(n.beta, x, x > 0 ? gpu_mul(n.a, gpu_mul(x, x)) : gpu_mul(n.b, xielu_bend(n, x)));
}

template <typename T> struct xielu_op {
    enum { PACK = 16 / (int)sizeof(T) };
    struct loaded {
        gpu_pack<T> x;
    };
    kernel_xielu_args p;
    xielu_numbers n;

    __device__ void begin()
    {
        n = xielu_numbers_of<T>(p);
    }
    __device__ loaded load(int64_t i) const
    {
        return {gpu_load_pack((const T *)p.x + i)};
    }
    __device__ void store(int64_t i, const loaded &l) const
    {
        gpu_pack<T> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++)
            out.v[k] = gpu_from_float<T>(xielu_of(n, gpu_to_float(l.x.v[k])));
        gpu_store_pack((T *)p.y + i, out);
    }
    __device__ void one(int64_t i) const
    {
        ((T *)p.y)[i] = gpu_from_float<T>(xielu_of(n, gpu_to_float(((const T *)p.x)[i])));
    }
};

extern "C" void cuda_xielu(const cuda_context *x, const void *args)
{
    const kernel_xielu_args *p = (const kernel_xielu_args *)args;
    gpu_with_type(p->type, [&](auto zero) {
        const xielu_op<decltype(zero)> op = {*p, {}};
        each_launch(x, "xielu", op, p->count, gpu_is_aligned16(p->x) && gpu_is_aligned16(p->y));
    });
}

// ---- The gradients

// The sums of dy x^2 over positive x and of dy n(x) over the others.
struct xielu_sums {
    double above, below;
};
static_assert(sizeof(xielu_sums) == 2 * sizeof(double), "cuda_needs.c counts two numbers");

struct xielu_shared {
    double sum[XIELU_WARPS];
};

// dx of elements first … last-1 of the arrays, N at once, where last - first is a multiple of N; and their sums.
template <typename T, int N>
static __device__ inline xielu_sums
xielu_grad_range(const kernel_xielu_args &p, const xielu_numbers &n, int64_t first, int64_t last)
{
    xielu_sums sums = {0, 0};
    for (int64_t i = first + threadIdx.x * (unsigned)N; i < last; i += XIELU_WARPS * GPU_WARP * N) {
        const gpu_floats<N> x = gpu_load_floats<N>((const T *)p.x + i);
        gpu_floats<N> dy = gpu_load_floats<N>((const T *)p.dy + i);
        float above = 0, below = 0;
        GPU_UNROLL
        for (int j = 0; j < N; j++) {
            const float v = x.v[j], bent = xielu_bend(n, v);
            const float curved = v < n.eps ? gpu_add(bent, v) : -1.0f;
            const float slope = v > 0 ? gpu_mul(2.0f, gpu_mul(n.a, v)) : gpu_mul(n.b, curved);
            above = fmaf(dy.v[j], v > 0 ? gpu_mul(v, v) : 0.0f, above);
            below = fmaf(dy.v[j], v > 0 ? 0.0f : bent, below);
            dy.v[j] = gpu_mul(gpu_add(n.beta, slope), dy.v[j]);
        }
        sums.above += above, sums.below += below;
        if (p.y) gpu_store_floats((T *)p.y + i, dy);
    }
    return sums;
}

// A block takes a piece.
template <typename T>
static __global__ void __launch_bounds__(XIELU_WARPS *GPU_WARP)
    xielu_grad_kernel(kernel_xielu_args p, int shift, xielu_sums *pieces)
{
    constexpr int N = 4;
    const gpu_piece piece = gpu_piece_of(0, p.count, blockIdx.x, shift);
    const int64_t first = piece.first, end = first + piece.count;
    const uintptr_t wide = (uintptr_t)p.x | (uintptr_t)p.dy | (uintptr_t)p.y;
    const int64_t whole = wide % (N * sizeof(T)) == 0 ? first + piece.count / N * N : first;
    const xielu_numbers n = xielu_numbers_of<T>(p);
    const xielu_sums some = xielu_grad_range<T, N>(p, n, first, whole),
                     rest = xielu_grad_range<T, 1>(p, n, whole, end);
    double *shared = gpu_shared<xielu_shared>()->sum;
    const double above = gpu_block_sum<XIELU_WARPS>(some.above + rest.above, shared);
    __syncthreads();
    const double below = gpu_block_sum<XIELU_WARPS>(some.below + rest.below, shared);
    if (threadIdx.x == 0) pieces[blockIdx.x] = {above, below};
}

static __device__ inline void xielu_add(float *to, float alpha, double sum, bool accumulate)
{
    if (to) *to = (float)((accumulate ? (double)*to : 0) + sum / (1 + exp(-(double)alpha)));
}

// One warp adds the pieces.
template <typename T>
static __global__ void xielu_add_kernel(kernel_xielu_args p, const xielu_sums *pieces, int count)
{
    double above = 0, below = 0;
    for (int i = (int)threadIdx.x; i < count; i += GPU_WARP)
        above += pieces[i].above, below += pieces[i].below;
    above = gpu_warp_sum(above), below = gpu_warp_sum(below);
    if (threadIdx.x != 0) return;
    xielu_add(p.d_alpha_p, gpu_to_float(*(const T *)p.alpha_p), above, p.accumulate_d_alpha_p);
    xielu_add(p.d_alpha_n, gpu_to_float(*(const T *)p.alpha_n), below, p.accumulate_d_alpha_n);
}

// A call without elements has one piece.
extern "C" void cuda_xielu_grad(const cuda_context *x, const void *args)
{
    const kernel_xielu_args *p = (const kernel_xielu_args *)args;
    const int shift = p->count > 0 ? gpu_sum_shift(p->count) : GPU_SUM_SHIFT;
    const int64_t pieces = xielu_pieces(p->count, shift);
    xielu_sums *sums = (xielu_sums *)x->workspace;
    gpu_with_type(p->type, [&](auto zero) {
        typedef decltype(zero) T;
        gpu_launch(x, "xielu_grad", xielu_grad_kernel<T>, dim3((unsigned)pieces),
                   dim3(XIELU_WARPS * GPU_WARP), sizeof(xielu_shared), *p, shift, sums);
        gpu_launch(x, "xielu_grad", xielu_add_kernel<T>, dim3(1), dim3(GPU_WARP), 0, *p,
                   (const xielu_sums *)sums, (int)pieces);
    });
}

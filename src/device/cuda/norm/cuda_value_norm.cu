// cuda_value_norm.cu -- the norms of values of the cuda device, with their gradient. cuda_kernels.c calls the host sides.
// Some lanes of a warp have a head of a row: one of values, or one of queries or keys, which they copy. With values of
// keys, the lanes of a head of keys write both.
#include "device/cuda/norm/gpu_norm.h"

constexpr int VALUE_THREADS = 256; // of a block

// The sum over `lanes` lanes of a warp, on each of them.
static __device__ inline float value_sum(float v, int lanes)
{
    for (int offset = lanes / 2; offset > 0; offset /= 2)
        v = gpu_add(v, __shfl_xor_sync(GPU_ALL_LANES, v, offset));
    return v;
}

template <typename T, bool ALIGNED, bool GRAD>
static __global__ void __launch_bounds__(VALUE_THREADS)
    value_kernel(kernel_value_norm_args p, int lanes, int heads)
{
    const int lane = (int)threadIdx.x % lanes, d = (int)p.head_dim;
    const int64_t item = ((int64_t)blockIdx.x * VALUE_THREADS + threadIdx.x) / lanes;
    const int64_t r = item / heads, head = item - r * heads;
    const int64_t in = kernel_value_norm_cols(&p), out = kernel_value_norm_full_cols(&p);
    const int64_t first =
        p.of_keys ? p.heads : p.heads + p.kv_heads; // head whose numbers are normed
    const bool valid = r < p.rows, normed = valid && head >= first;
    const T *const x = (const T *)p.x + r * in + head * d;
    // The gradients of the head, and of the values that are its norm.
    const T *const dy = GRAD ? (const T *)p.dy + r * out + head * d : x;
    const T *const dv = GRAD && p.of_keys ? dy + p.kv_heads * d : dy;
    float sum = 0;
    for (int c = lane * NORM_PACK; normed && c < d; c += lanes * NORM_PACK) {
        const norm_pack<T> a = norm_load<ALIGNED>(x, c, d),
                           b = norm_load<ALIGNED>(GRAD ? dv : x, c, d);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++)
            sum = fmaf(gpu_to_float(a.v[j]), gpu_to_float(b.v[j]), sum);
    }
    sum = value_sum(sum, lanes);
    const int64_t stat = r * p.kv_heads + head - first;
    const float rstd = !normed ? 1
                       : GRAD  ? p.rstd[stat]
                               : 1 / sqrtf(gpu_add(sum / (float)d, p.eps));
    const float mean = gpu_mul(sum, rstd) / (float)d;
    if (normed && !GRAD && lane == 0) p.rstd[stat] = rstd;
    T *const y = (T *)p.y + r * (GRAD ? in : out) + head * d;
    const bool copies = !normed || p.of_keys;
    for (int c = lane * NORM_PACK; valid && c < d; c += lanes * NORM_PACK) {
        const norm_pack<T> plain =
            copies ? norm_load<ALIGNED>(GRAD ? dy : x, c, d) : norm_pack<T>{};
        if (!normed || (!GRAD && p.of_keys)) norm_store<ALIGNED>(y, c, d, plain);
        if (!normed) continue;
        const norm_pack<T> a = norm_load<ALIGNED>(x, c, d);
        norm_pack<T> b = a;
        if (GRAD) b = norm_load<ALIGNED>(dv, c, d);
        GPU_UNROLL
        for (int j = 0; j < NORM_PACK; j++) {
            const float hat = gpu_mul(gpu_to_float(a.v[j]), rstd);
            float v = GRAD ? gpu_mul(rstd, fmaf(-hat, mean, gpu_to_float(b.v[j]))) : hat;
            if (GRAD && p.of_keys) v = gpu_add(v, gpu_to_float(plain.v[j]));
            b.v[j] = gpu_from_float<T>(v);
        }
        norm_store<ALIGNED>(!GRAD && p.of_keys ? y + p.kv_heads * d : y, c, d, b);
    }
}

template <bool GRAD> static void value_launch(const cuda_context *x, const void *args)
{
    const kernel_value_norm_args *p = (const kernel_value_norm_args *)args;
    const int64_t heads = p->heads + (p->of_keys ? 1 : 2) * p->kv_heads;
    const bool aligned = p->head_dim % NORM_PACK == 0 && gpu_is_aligned16(p->x) &&
                         gpu_is_aligned16(p->dy) && gpu_is_aligned16(p->y);
    int lanes = 1;
    while (lanes < GPU_WARP && lanes * NORM_PACK < p->head_dim) lanes *= 2;
    const int64_t each = VALUE_THREADS / lanes;
    if (p->rows == 0) return;
    gpu_with_type(p->type, [&](auto zero) {
        norm_with_flag(aligned, [&](auto flag) {
            gpu_launch(x, GRAD ? "value_norm_grad" : "value_norm",
                       value_kernel<decltype(zero), decltype(flag)::value, GRAD>,
                       dim3((unsigned)gpu_ceil_div(p->rows * heads, each)), dim3(VALUE_THREADS), 0,
                       *p, lanes, (int)heads);
        });
    });
}

extern "C" void cuda_value_norm(const cuda_context *x, const void *args)
{
    value_launch<false>(x, args);
}

extern "C" void cuda_value_norm_grad(const cuda_context *x, const void *args)
{
    value_launch<true>(x, args);
}

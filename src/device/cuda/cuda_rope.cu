// cuda_rope.cu -- the rotary position embedding of the cuda device, in place. cuda_kernels.c calls the host
// side. A thread has some pairs of columns of a row, and rotates them in several heads by the same angles.
#include "device/cuda/gpu_each.h"

constexpr int ROPE_THREADS = 256; // of a block
constexpr int ROPE_HEADS = 4;     // of a thread

// The pairs i … i+PACK-1 of a head.
template <typename T, int PACK> struct rope_pairs {
    gpu_pack<T, PACK> low, high;
};

template <typename T, int PACK> static __device__ inline gpu_pack<T, PACK> rope_load(const T *p)
{
    if constexpr (PACK > 1) return gpu_load_pack<T, PACK>(p);
    gpu_pack<T, PACK> out;
    out.v[0] = *p;
    return out;
}

template <typename T, int PACK>
static __device__ inline void rope_store(T *p, const gpu_pack<T, PACK> &v)
{
    if constexpr (PACK > 1)
        gpu_store_pack(p, v);
    else
        *p = v.v[0];
}

// PACK columns of a head: 16 bytes, or one pair.
template <typename T, int PACK>
static __device__ inline gpu_pack<T, PACK> rope_load_columns(const T *p)
{
    if constexpr (PACK > 2) return gpu_load_pack<T, PACK>(p);
    gpu_pack<T, PACK> out;
    out.v[0] = p[0], out.v[1] = p[1];
    return out;
}

template <typename T, int PACK>
static __device__ inline void rope_store_columns(T *p, const gpu_pack<T, PACK> &v)
{
    if constexpr (PACK > 2)
        gpu_store_pack(p, v);
    else
        p[0] = v.v[0], p[1] = v.v[1];
}

// PACK pairs at a time: 16 bytes of x, or one pair where the addresses are odd.
template <typename T, int PACK>
static __global__ void __launch_bounds__(ROPE_THREADS)
    rope_kernel(kernel_rope_args p, int64_t items)
{
    const int64_t item = (int64_t)blockIdx.x * ROPE_THREADS + threadIdx.x;
    if (item >= items) return;
    const int64_t half = p.rot / 2, packs = half / PACK,
                  shares = (p.heads + ROPE_HEADS - 1) / ROPE_HEADS;
    const int64_t of_heads = gpu_quotient(item, packs), i = (item - of_heads * packs) * PACK;
    const int64_t r = gpu_quotient(of_heads, shares), head = of_heads - r * shares;
    const float *angles = p.table + (kernel_document_position(&p.row_tokens, r) * half + i) * 2;
    // The heads of a thread lie `shares` apart, so that threads side by side have heads side by side.
    T *const x = (T *)p.x + r * p.stride + head * p.head_dim + i;
    const int64_t next = shares * p.head_dim;
    rope_pairs<T, PACK> in[ROPE_HEADS];
    GPU_UNROLL
    for (int h = 0; h < ROPE_HEADS; h++) {
        if (head + h * shares >= p.heads) continue;
        in[h].low = rope_load<T, PACK>(x + h * next);
        in[h].high = rope_load<T, PACK>(x + h * next + half);
    }
    gpu_pack<float, PACK == 1 ? 4 : 2 * PACK> angle;
    if constexpr (PACK == 1)
        angle.v[0] = angles[0], angle.v[1] = angles[1];
    else
        angle = gpu_load_pack<float, 2 * PACK>(angles);
    GPU_UNROLL
    for (int h = 0; h < ROPE_HEADS; h++) {
        if (head + h * shares >= p.heads) continue;
        rope_pairs<T, PACK> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++) {
            const float c = angle.v[2 * k],
                        s = p.inverse ? -angle.v[2 * k + 1] : angle.v[2 * k + 1];
            const float low = gpu_to_float(in[h].low.v[k]), high = gpu_to_float(in[h].high.v[k]);
            out.low.v[k] = gpu_from_float<T>(fmaf(low, c, -gpu_mul(high, s)));
            out.high.v[k] = gpu_from_float<T>(fmaf(high, c, gpu_mul(low, s)));
        }
        rope_store(x + h * next, out.low);
        rope_store(x + h * next + half, out.high);
    }
}

// The same where pairs are neighbours. PACK columns at a time, which are PACK / 2 pairs.
template <typename T, int PACK>
static __global__ void __launch_bounds__(ROPE_THREADS)
    rope_neighbours_kernel(kernel_rope_args p, int64_t items)
{
    const int64_t item = (int64_t)blockIdx.x * ROPE_THREADS + threadIdx.x;
    if (item >= items) return;
    const int64_t packs = p.rot / PACK, shares = (p.heads + ROPE_HEADS - 1) / ROPE_HEADS;
    const int64_t of_heads = gpu_quotient(item, packs), i = (item - of_heads * packs) * PACK;
    const int64_t r = gpu_quotient(of_heads, shares), head = of_heads - r * shares;
    const float *angles = p.table + kernel_document_position(&p.row_tokens, r) * p.rot + i;
    T *const x = (T *)p.x + r * p.stride + head * p.head_dim + i;
    const int64_t next = shares * p.head_dim;
    for (int h = 0; h < ROPE_HEADS && head + h * shares < p.heads; h++) {
        gpu_pack<T, PACK> v = rope_load_columns<T, PACK>(x + h * next);
        GPU_UNROLL
        for (int k = 0; k < PACK; k += 2) {
            const float c = angles[k], s = p.inverse ? -angles[k + 1] : angles[k + 1];
            const float low = gpu_to_float(v.v[k]), high = gpu_to_float(v.v[k + 1]);
            v.v[k] = gpu_from_float<T>(fmaf(low, c, -gpu_mul(high, s)));
            v.v[k + 1] = gpu_from_float<T>(fmaf(high, c, gpu_mul(low, s)));
        }
        rope_store_columns(x + h * next, v);
    }
}

template <typename T, int PACK>
static void rope_launch_neighbours(const cuda_context *x, const kernel_rope_args *p)
{
    const int64_t shares = (p->heads + ROPE_HEADS - 1) / ROPE_HEADS,
                  items = p->rows * shares * (p->rot / PACK);
    gpu_launch(x, "rope", rope_neighbours_kernel<T, PACK>,
               dim3((unsigned)((items + ROPE_THREADS - 1) / ROPE_THREADS)), dim3(ROPE_THREADS), 0,
               *p, items);
}

template <typename T, int PACK>
static void rope_launch(const cuda_context *x, const kernel_rope_args *p)
{
    const int64_t shares = (p->heads + ROPE_HEADS - 1) / ROPE_HEADS,
                  items = p->rows * shares * (p->rot / 2 / PACK);
    gpu_launch(x, "rope", rope_kernel<T, PACK>,
               dim3((unsigned)((items + ROPE_THREADS - 1) / ROPE_THREADS)), dim3(ROPE_THREADS), 0,
               *p, items);
}

extern "C" void cuda_rope(const cuda_context *x, const void *args)
{
    const kernel_rope_args *p = (const kernel_rope_args *)args;
    gpu_with_type(p->type, [&](auto zero) {
        using T = decltype(zero);
        constexpr int pack = 16 / (int)sizeof(T);
        const bool aligned = p->stride % pack == 0 && p->head_dim % pack == 0 &&
                             gpu_is_aligned16(p->x) && gpu_is_aligned16(p->table);
        if (p->interleaved && p->rot % pack == 0 && aligned)
            rope_launch_neighbours<T, pack>(x, p);
        else if (p->interleaved)
            rope_launch_neighbours<T, 2>(x, p);
        else if (p->rot / 2 % pack == 0 && aligned)
            rope_launch<T, pack>(x, p);
        else
            rope_launch<T, 1>(x, p);
    });
}

// cuda_peers.cu -- K_REDUCE: the arrays of several ranks, which may lie on other GPUs, become one. Each
// thread reads one pack of 16 bytes of every rank before it combines any, so that the links are busy.
// The tree is that of base/reduce.h: sources are combined in pairs, then pairs of pairs, and a source
// without a partner moves up. The host side chooses the grid by the shape alone.
#include "device/cuda/gpu.h"

namespace
{

enum { THREADS = 256 };

// The type in which elements are combined: F32 for floats of up to 32 bits.
template <typename T> struct combined {
    typedef float type;
};
template <> struct combined<double> {
    typedef double type;
};
template <> struct combined<long long> {
    typedef long long type;
};

template <typename T> __device__ inline float widen(T x)
{
    return gpu_to_float(x);
}
__device__ inline double widen(double x)
{
    return x;
}
__device__ inline long long widen(long long x)
{
    return x;
}

template <typename T> __device__ inline T narrow(typename combined<T>::type x)
{
    return gpu_from_float<T>(x);
}
template <> __device__ inline double narrow<double>(double x)
{
    return x;
}
template <> __device__ inline long long narrow<long long>(long long x)
{
    return x;
}

__device__ inline float sum_of(float x, float y)
{
    return gpu_add(x, y);
}
__device__ inline double sum_of(double x, double y)
{
    return x + y;
}
__device__ inline long long sum_of(long long x, long long y)
{
    return (long long)((unsigned long long)x + (unsigned long long)y); // it may wrap around
}

// NaN wins, as on the CPU: y where it is NaN, and x stays where it is one.
template <typename A> __device__ inline A combine(A x, A y, reduce_op op)
{
    if (op == REDUCE_SUM) return sum_of(x, y);
    const bool wins = op == REDUCE_MAX ? y > x : y < x;
    return wins || y != y ? y : x;
}

// Combines v[0 … ranks-1] to v[0].
template <int MOST, typename A>
__device__ inline void combine_ranks(A (&v)[MOST], int ranks, reduce_op op)
{
#pragma unroll
    for (int step = 1; step < MOST; step *= 2)
#pragma unroll
        for (int i = 0; i + step < MOST; i += 2 * step)
            if (i + step < ranks) v[i] = combine(v[i], v[i + step], op);
}

// Thread t computes packs first + t, first + t + THREADS, … of a block of PACKS * THREADS packs.
template <typename T, int MOST, int PACKS>
__global__ void __launch_bounds__(THREADS) reduce_packs(kernel_reduce_args p, int64_t packs)
{
    typedef typename combined<T>::type A;
    constexpr int N = 16 / (int)sizeof(T);
    const int64_t first = (int64_t)blockIdx.x * (PACKS * THREADS) + threadIdx.x;
    gpu_pack<T> in[PACKS][MOST];
#pragma unroll
    for (int k = 0; k < PACKS; k++)
#pragma unroll
        for (int r = 0; r < MOST; r++)
            if (r < p.ranks && first + k * THREADS < packs)
                in[k][r] =
                    gpu_load_pack(static_cast<const T *>(p.in[r]) + (first + k * THREADS) * N);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int64_t pack = first + k * THREADS;
        if (pack >= packs) break;
        gpu_pack<T> out;
#pragma unroll
        for (int i = 0; i < N; i++) {
            A v[MOST] = {};
#pragma unroll
            for (int r = 0; r < MOST; r++)
                if (r < p.ranks) v[r] = widen(in[k][r].v[i]);
            combine_ranks<MOST>(v, p.ranks, p.op);
            out.v[i] = narrow<T>(v[0]);
        }
        for (int o = 0; o < p.outs; o++) gpu_store_pack(static_cast<T *>(p.out[o]) + pack * N, out);
    }
}

// Element by element: what is not aligned, and the last elements.
template <typename T, int MOST>
__global__ void __launch_bounds__(THREADS) reduce_elements(kernel_reduce_args p, int64_t from)
{
    typedef typename combined<T>::type A;
    const int64_t i = from + (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= p.count) return;
    A v[MOST] = {};
#pragma unroll
    for (int r = 0; r < MOST; r++)
        if (r < p.ranks) v[r] = widen(static_cast<const T *>(p.in[r])[i]);
    combine_ranks<MOST>(v, p.ranks, p.op);
    for (int o = 0; o < p.outs; o++) static_cast<T *>(p.out[o])[i] = narrow<T>(v[0]);
}

dim3 grid_of(int64_t items, int64_t of_block)
{
    return dim3((unsigned)((items + of_block - 1) / of_block));
}

bool is_aligned(const kernel_reduce_args *p)
{
    bool all = true;
    for (int r = 0; r < p->ranks; r++) all = all && gpu_is_aligned16(p->in[r]);
    for (int o = 0; o < p->outs; o++) all = all && gpu_is_aligned16(p->out[o]);
    return all;
}

// PACKS packs of each rank are on their way at once.
template <typename T, int MOST, int PACKS>
void launch_reduce(const cuda_context *x, const kernel_reduce_args *p)
{
    constexpr int64_t N = 16 / (int64_t)sizeof(T);
    const int64_t packs = is_aligned(p) ? p->count / N : 0;
    gpu_launch(x, "reduce", reduce_packs<T, MOST, PACKS>, grid_of(packs, PACKS * THREADS),
               dim3(THREADS), 0, *p, packs);
    gpu_launch(x, "reduce", reduce_elements<T, MOST>, grid_of(p->count - packs * N, THREADS),
               dim3(THREADS), 0, *p, packs * N);
}

template <typename T> void launch_type(const cuda_context *x, const kernel_reduce_args *p)
{
    if (p->ranks <= 2)
        launch_reduce<T, 2, 4>(x, p);
    else if (p->ranks <= 4)
        launch_reduce<T, 4, 2>(x, p);
    else if (p->ranks <= 8)
        launch_reduce<T, 8, 1>(x, p);
    else
        launch_reduce<T, 16, 1>(x, p);
}

} // namespace

extern "C" void cuda_reduce(const cuda_context *x, const void *args)
{
    const kernel_reduce_args *p = static_cast<const kernel_reduce_args *>(args);
    if (p->type == F64)
        launch_type<double>(x, p);
    else if (p->type == I64)
        launch_type<long long>(x, p);
    else
        gpu_with_type(p->type, [&](auto t) { launch_type<decltype(t)>(x, p); });
}

// gpu_stand_in.h -- the words of gpu.h for a CPU, so that kernels run without a GPU. gpu.h includes it where
// the compiler is not nvcc. The threads of a block are fibers (stand_in_block.h); a word that needs other
// threads waits there. Every word checks what a GPU leaves unchecked, and ends the process where a rule is
// broken. The numbers are exact where a GPU approximates.
#ifndef TRIREME_TESTS_STAND_IN_GPU_STAND_IN_H
#define TRIREME_TESTS_STAND_IN_GPU_STAND_IN_H

#include "stand_in_block.h"

#include <string.h>
#include <time.h>

#include <cmath>
#include <tuple>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

#define threadIdx (stand_in_now.thread)
#define blockIdx  (stand_in_now.block)
#define blockDim  (stand_in_now.block_dim)
#define gridDim   (stand_in_now.grid_dim)

template <typename T> static inline T *gpu_shared()
{
    static_assert(alignof(T) <= 128, "shared memory is aligned to 128 bytes");
    return static_cast<T *>(stand_in_shared(sizeof(T)));
}

// ---- Launches

// A kernel with its arguments.
template <typename... P> struct stand_in_call {
    stand_in_grid grid;
    void (*kernel)(P...);
    std::tuple<std::remove_cv_t<P>...> args;

    static void thread(const void *call)
    {
        const auto *c = static_cast<const stand_in_call *>(call);
        std::apply(c->kernel, c->args);
    }
    static void run(void *call)
    {
        stand_in_run_grid(&static_cast<const stand_in_call *>(call)->grid, thread, call);
    }
    static void release(void *call)
    {
        delete static_cast<stand_in_call *>(call);
    }
};

template <typename... P, typename... A>
static void gpu_launch(const cuda_context *x, const char *what, void (*kernel)(P...), dim3 grid,
                       dim3 block, size_t shared_bytes, A... args)
{
    using call = stand_in_call<P...>;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    if (block.x % GPU_WARP != 0)
        stand_in_die("kernel %s is launched with %u threads in x, which is no multiple of %d", what,
                     block.x, (int)GPU_WARP);
    const void *address = reinterpret_cast<const void *>(kernel);
    cuda_allow_shared(address, shared_bytes);
    call *c = new call{{what, grid, block, shared_bytes}, kernel, {static_cast<P>(args)...}};
    stand_in_launch(address, grid, block, shared_bytes, x->stream,
                    {what, call::run, call::release, c});
    cuda_check_launch(x, what);
}

// ---- Numbers

static inline float stand_in_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint32_t stand_in_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline float gpu_bf16_to_float(uint16_t bits)
{
    return stand_in_float((uint32_t)bits << 16);
}
static inline uint16_t gpu_float_to_bf16(float x)
{
    const uint32_t u = stand_in_bits(x);
    if (x != x) return 0x7fff;
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
static inline float gpu_f16_to_float(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, body = bits & 0x7fffu;
    float magnitude =
        body < 0x400 ? (float)body * 0x1p-24f : stand_in_float((body << 13) + (112u << 23));
    if (body >= 0x7c00) magnitude = stand_in_float((body << 13) + (224u << 23));
    return stand_in_float(stand_in_bits(magnitude) | sign);
}
static inline uint16_t gpu_float_to_f16(float x)
{
    const uint32_t u = stand_in_bits(x), sign = (u >> 16) & 0x8000u, body = u & 0x7fffffffu;
    if (x != x) return 0x7fff;
    if (body >= 0x47800000u) return (uint16_t)(sign | 0x7c00u);
    // The addition of 0.5 shifts a subnormal number into the low bits and rounds it.
    if (body < 0x38800000u)
        return (uint16_t)(sign | (stand_in_bits(stand_in_float(body) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | ((body - (112u << 23) + 0xfffu + ((body >> 13) & 1u)) >> 13));
}
static inline uint32_t gpu_pair_bf16(float low, float high)
{
    return (uint32_t)gpu_float_to_bf16(low) | (uint32_t)gpu_float_to_bf16(high) << 16;
}
static inline uint32_t gpu_pair_f16(float low, float high)
{
    return (uint32_t)gpu_float_to_f16(low) | (uint32_t)gpu_float_to_f16(high) << 16;
}

static inline float gpu_exp2(float x)
{
    return exp2f(x);
}
static inline float gpu_exp(float x)
{
    return expf(x);
}
static inline float gpu_reciprocal(float x)
{
    const float y = 1 / x;
    return std::isnormal(y) || !std::isfinite(y) ? y : copysignf(0, y);
}
template <typename T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <typename T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}
// Sources of kernels are compiled with -ffp-contract=off.
static inline float gpu_mul(float a, float b)
{
    return a * b;
}
static inline float gpu_add(float a, float b)
{
    return a + b;
}

static inline int gpu_opaque(int x)
{
    return x;
}

// It begins at another time than the host's.
static inline unsigned long long gpu_clock()
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec +
           777000000000000u;
}

static inline uint4 gpu_load_once(const uint4 *p)
{
    return *p;
}
static inline void gpu_store_once(uint4 *p, uint4 v)
{
    *p = v;
}

// ---- Words for which the threads of a block, or of a warp, meet. `site` is the place of the call.

#define STAND_IN_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(STAND_IN_SITE)
{
    stand_in_barrier({"__syncthreads", file, line});
}
static inline void __syncwarp(unsigned mask = GPU_ALL_LANES, STAND_IN_SITE)
{
    stand_in_shuffle(STAND_IN_SYNC, mask, 0, 0, GPU_WARP, {"__syncwarp", file, line});
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, STAND_IN_SITE)
{
    return (unsigned)stand_in_shuffle(STAND_IN_BALLOT, mask, predicate != 0, 0, GPU_WARP,
                                      {"__ballot_sync", file, line});
}

template <typename T>
static inline T stand_in_exchange(stand_in_kind kind, unsigned mask, T value, int lane, int width,
                                  stand_in_site site)
{
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    bits = stand_in_shuffle(kind, mask, bits, lane, width, site);
    memcpy(&value, &bits, sizeof value);
    return value;
}
template <typename T>
static inline T __shfl_sync(unsigned mask, T value, int lane, int width = GPU_WARP, STAND_IN_SITE)
{
    return stand_in_exchange(STAND_IN_LANE, mask, value, lane, width, {"__shfl_sync", file, line});
}
template <typename T>
static inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = GPU_WARP,
                                STAND_IN_SITE)
{
    return stand_in_exchange(STAND_IN_XOR, mask, value, lanes, width,
                             {"__shfl_xor_sync", file, line});
}
template <typename T>
static inline T __shfl_down_sync(unsigned mask, T value, int lanes, int width = GPU_WARP,
                                 STAND_IN_SITE)
{
    return stand_in_exchange(STAND_IN_DOWN, mask, value, lanes, width,
                             {"__shfl_down_sync", file, line});
}

static inline void gpu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2], STAND_IN_SITE)
{
    stand_in_mma(d, a, b, gpu_bf16_to_float, {"gpu_mma_bf16", file, line});
}
static inline void gpu_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2], STAND_IN_SITE)
{
    stand_in_mma(d, a, b, gpu_f16_to_float, {"gpu_mma_f16", file, line});
}
static inline void gpu_ldmatrix(uint32_t out[4], const void *row, STAND_IN_SITE)
{
    stand_in_ldmatrix(out, row, false, {"gpu_ldmatrix", file, line});
}
static inline void gpu_ldmatrix_transposed(uint32_t out[4], const void *row, STAND_IN_SITE)
{
    stand_in_ldmatrix(out, row, true, {"gpu_ldmatrix_transposed", file, line});
}

// ---- Copies to shared memory

static inline void gpu_copy16(void *to, const void *from, bool valid)
{
    stand_in_copy16(to, from, valid);
}
static inline void gpu_copy_commit()
{
    stand_in_copy_commit();
}
template <int N> static inline void gpu_copy_wait()
{
    stand_in_copy_wait(N);
}

// ---- Memory that several threads, devices or processes write

template <typename T> static inline T atomicAdd(T *p, T x)
{
    static_assert(std::is_integral_v<T> && sizeof(T) >= 4,
                  "sums of floats would depend on the order");
    return __atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}
static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
static inline void gpu_store_release(uint32_t *flag, uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}
static inline uint32_t gpu_load_acquire(const uint32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}
static inline void gpu_pause()
{
    stand_in_yield();
}

#endif

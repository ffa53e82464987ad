// gpu_cuda.h -- the words of gpu.h under nvcc, for sm_80 and later. gpu.h includes it and says what the
// words are for; tests/gpu/stand_in/gpu_stand_in.h has the same words for a CPU. The numbers of the
// fragments are those of the PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions".
#ifndef TRIREME_DEVICE_CUDA_GPU_CUDA_H
#define TRIREME_DEVICE_CUDA_GPU_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The block's shared memory as a T. Every call in a kernel gives the same address, aligned to 128 bytes.
template <typename T> static __device__ inline T *gpu_shared()
{
    extern __shared__ __align__(128) unsigned char gpu_shared_bytes[];
    return reinterpret_cast<T *>(gpu_shared_bytes);
}

// Launches `kernel` on the context's stream: gpu_launch(x, "norm", kernel, grid, block, bytes, args …).
// Nothing is launched for a grid with an empty dimension. A failure is noted in the context under `what`.
// CUDA loads the code of a kernel when it is first launched. A thread that records may do that only in the
// relaxed mode.
template <typename... P, typename... A>
static void gpu_launch(const cuda_context *x, const char *what, void (*kernel)(P...), dim3 grid,
                       dim3 block, size_t shared_bytes, A... args)
{
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    cuda_allow_shared(reinterpret_cast<const void *>(kernel), shared_bytes);
    kernel<<<grid, block, shared_bytes, x->stream>>>(static_cast<P>(args)...);
    cuda_check_launch(x, what);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

// 16-bit numbers as bits; gpu_types.h has their types.
static __device__ inline float gpu_bf16_to_float(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}
static __device__ inline uint16_t gpu_float_to_bf16(float x)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
static __device__ inline float gpu_f16_to_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}
static __device__ inline uint16_t gpu_float_to_f16(float x)
{
    return __half_as_ushort(__float2half_rn(x));
}

// Two floats rounded to a pair, `low` in the low half: a register of a fragment.
static __device__ inline uint32_t gpu_pair_bf16(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
static __device__ inline uint32_t gpu_pair_f16(float low, float high)
{
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// Approximations of a few units in the last place. exp2 and exp for softmax, where x <= 0.
static __device__ inline float gpu_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ inline float gpu_exp(float x)
{
    return __expf(x);
}

// 1 / x with an error of 1 unit in the last place; 0 where the result is not normal.
static __device__ inline float gpu_reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Single roundings that the compiler does not contract into a multiply-add.
static __device__ inline float gpu_mul(float a, float b)
{
    return __fmul_rn(a, b);
}
static __device__ inline float gpu_add(float a, float b)
{
    return __fadd_rn(a, b);
}

// x, of which the compiler knows nothing. What a loop computes from it is computed in the loop, and does not
// wait before it in registers.
static __device__ inline int gpu_opaque(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

// Nanoseconds of the GPU's clock, which is one for all of its kernels.
static __device__ inline unsigned long long gpu_clock()
{
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// Reads that bypass the first cache, for data that a kernel reads once.
static __device__ inline uint4 gpu_load_once(const uint4 *p)
{
    return __ldcs(p);
}
static __device__ inline void gpu_store_once(uint4 *p, uint4 v)
{
    __stcs(p, v);
}

// d [16, 8] += a [16, 16] · b [16, 8], F32 sums. Fragments of a warp, as mma.m16n8k16: with g = lane / 4
// and t = lane % 4, a holds pairs at rows g, g+8 (a0, a1), columns 2t and 2t+8 (a2, a3); b holds pairs of
// rows 2t, 2t+8 in column g; d holds rows g (d0, d1) and g+8 (d2, d3), columns 2t, 2t+1.
static __device__ inline void gpu_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static __device__ inline void gpu_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four 8x8 matrices of 16-bit elements from shared memory. Lane 8i+j passes the address of row j of matrix
// i, aligned to 16 bytes. out[i] holds the pair (row lane/4, columns 2*(lane%4) and +1) of matrix i; with
// _transposed, of its transpose.
static __device__ inline void gpu_ldmatrix(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}
static __device__ inline void gpu_ldmatrix_transposed(uint32_t out[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

// Starts a copy of 16 bytes from device memory to shared memory, or of 16 zeros where `valid` is false.
// Both addresses are aligned to 16 bytes; `from` must be readable also then. gpu_copy_commit closes a
// group of the thread's copies. gpu_copy_wait<N> waits until at most N groups of this thread are pending;
// a barrier then shows the bytes to other threads.
static __device__ inline void gpu_copy16(void *to, const void *from, bool valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
}
static __device__ inline void gpu_copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int N> static __device__ inline void gpu_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Flags in memory that several devices, or the host, read and write (communicators). A store with release
// shows what the thread wrote before it; a load with acquire sees what was written before the store.
static __device__ inline void gpu_store_release(uint32_t *flag, uint32_t value)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)),
                 "r"(value)
                 : "memory");
}
static __device__ inline uint32_t gpu_load_acquire(const uint32_t *flag)
{
    uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(flag))
                 : "memory");
    return value;
}
// Called in a loop that waits for a flag.
static __device__ inline void gpu_pause()
{
    __nanosleep(100);
}

#endif

// cuda_digest.cu -- the digest of a tensor on the cuda device. cuda_kernels.c calls the host side. The sum
// is one of integers, so blocks add to it in any order.
#include "device/cuda/gpu.h"

enum { DIGEST_WARPS = 8, DIGEST_THREADS = 256, DIGEST_WORDS = 1 << 13 }; // of a block

// Word i of x, whose bytes beyond the last are zeros. x is aligned to 2 bytes.
static __device__ inline uint32_t digest_word(const uint16_t *x, int64_t halves, int64_t i)
{
    const uint32_t high = 2 * i + 1 < halves ? x[2 * i + 1] : 0;
    return x[2 * i] | high << 16;
}

static __device__ inline uint64_t digest_mix(uint32_t word, uint64_t index)
{
    return rng_mix(word | index << 32);
}

static __global__ void __launch_bounds__(DIGEST_THREADS)
    digest_kernel(const uint16_t *x, int64_t halves, uint64_t index0, uint64_t *digest,
                  bool aligned)
{
    const int64_t words = (halves + 1) / 2, first = (int64_t)blockIdx.x * DIGEST_WORDS;
    uint64_t sum = 0;
    if (aligned && first + DIGEST_WORDS <= halves / 2) {
        constexpr int packs = DIGEST_WORDS / 4 / DIGEST_THREADS;
        const uint4 *from = reinterpret_cast<const uint4 *>(x) + first / 4 + threadIdx.x;
        uint4 in[packs];
        GPU_UNROLL
        for (int k = 0; k < packs; k++) in[k] = gpu_load_once(from + k * DIGEST_THREADS);
        GPU_UNROLL
        for (int k = 0; k < packs; k++) {
            const uint64_t index =
                index0 + (uint64_t)(first + 4 * (k * DIGEST_THREADS + (int)threadIdx.x));
            sum += digest_mix(in[k].x, index) + digest_mix(in[k].y, index + 1);
            sum += digest_mix(in[k].z, index + 2) + digest_mix(in[k].w, index + 3);
        }
    } else {
        const int64_t end = first + DIGEST_WORDS < words ? first + DIGEST_WORDS : words;
        for (int64_t i = first + threadIdx.x; i < end; i += DIGEST_THREADS)
            sum += digest_mix(digest_word(x, halves, i), index0 + (uint64_t)i);
    }
    sum = gpu_block_sum<DIGEST_WARPS>(sum, gpu_shared<uint64_t>());
    if (threadIdx.x == 0)
        atomicAdd(reinterpret_cast<unsigned long long *>(digest), (unsigned long long)sum);
}

extern "C" void cuda_digest(const cuda_context *x, const void *args)
{
    const kernel_digest_args *p = (const kernel_digest_args *)args;
    const int64_t halves = p->bytes / 2, words = (halves + 1) / 2;
    gpu_launch(x, "digest", digest_kernel,
               dim3((unsigned)((words + DIGEST_WORDS - 1) / DIGEST_WORDS)), dim3(DIGEST_THREADS),
               DIGEST_WARPS * sizeof(uint64_t), (const uint16_t *)p->x, halves, p->index0,
               p->digest, gpu_is_aligned16(p->x));
}

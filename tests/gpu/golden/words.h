// words.h -- a kernel that calls the words of gpu.h whose results are registers of a warp, and writes what
// every lane got. record_words.cu runs it on a GPU and writes golden/words.txt; test_words.cpp runs it on
// the stand-in and compares. Inputs are whole numbers whose products and sums are exact.
#ifndef TRIREME_TESTS_GOLDEN_WORDS_H
#define TRIREME_TESTS_GOLDEN_WORDS_H

#include "device/cuda/gpu.h"

// What one lane got, as bits.
struct words_of_lane {
    uint32_t bf16[4], f16[4];          // of the matrix product
    uint32_t loaded[4], transposed[4]; // by gpu_ldmatrix
    uint32_t shuffled[5];              // __shfl_sync, xor, down, and two with groups of 8 lanes
    uint32_t ballot;
    uint32_t rounded[4]; // to BF16 and F16, and pairs
    uint32_t copied[4];  // by gpu_copy16, for an odd lane without a source
};
enum { WORDS = (int)(sizeof(words_of_lane) / 4) };

// a [16, 16] and b [16, 8] of the product, and the numbers that are rounded.
static __host__ __device__ inline float words_a(int row, int k)
{
    return (float)((row * 7 + k * 3) % 11 - 5);
}
static __host__ __device__ inline float words_b(int k, int column)
{
    return (float)((k * 5 + column * 3) % 13 - 6);
}
static __host__ __device__ inline float words_number(int lane)
{
    const float numbers[] = {1.00390625f, 1.01171875f, 65519.f, 65520.f, 1e-7f, 6e-8f, 3e-8f, -0.f};
    return numbers[lane % 8] * (lane < 16 ? 1.f : -1.f / 3.f);
}

struct words_shared {
    uint16_t rows[32][8]; // four matrices of 8x8
    uint32_t copies[32][4];
};

template <typename T> static __device__ void words_fragments(uint32_t a[4], uint32_t b[2], T pair)
{
    const int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
        a[i] = pair(words_a(row, k), words_a(row, k + 1));
    }
    for (int i = 0; i < 2; i++)
        b[i] = pair(words_b(2 * t + i * 8, g), words_b(2 * t + i * 8 + 1, g));
}

static __device__ inline uint32_t words_bits(float x)
{
    union {
        float f;
        uint32_t u;
    } bits;
    bits.f = x;
    return bits.u;
}

static __device__ void words_products(words_of_lane *out)
{
    uint32_t a[4], b[2];
    float d[4] = {1, 2, 3, 4}, e[4] = {4, 3, 2, 1};
    words_fragments(a, b, [](float x, float y) { return gpu_pair_bf16(x, y); });
    gpu_mma_bf16(d, a, b);
    words_fragments(a, b, [](float x, float y) { return gpu_pair_f16(x, y); });
    gpu_mma_f16(e, a, b);
    for (int i = 0; i < 4; i++) {
        out->bf16[i] = words_bits(d[i]);
        out->f16[i] = words_bits(e[i]);
    }
}

static __device__ void words_exchanges(words_of_lane *out)
{
    const int lane = (int)threadIdx.x;
    const uint32_t value = 100u + (uint32_t)lane;
    out->shuffled[0] = __shfl_sync(GPU_ALL_LANES, value, (lane * 5 + 3) % 32);
    out->shuffled[1] = __shfl_xor_sync(GPU_ALL_LANES, value, 13);
    out->shuffled[2] = __shfl_down_sync(GPU_ALL_LANES, value, 7);
    out->shuffled[3] = __shfl_xor_sync(GPU_ALL_LANES, value, 3, 8);
    out->shuffled[4] = __shfl_down_sync(GPU_ALL_LANES, value, 3, 8);
    out->ballot = __ballot_sync(GPU_ALL_LANES, lane % 3 == 1);
    const float x = words_number(lane);
    out->rounded[0] = gpu_float_to_bf16(x);
    out->rounded[1] = gpu_float_to_f16(x);
    out->rounded[2] = gpu_pair_bf16(x, -x);
    out->rounded[3] = gpu_pair_f16(x, -x);
}

static __device__ void words_memory(words_of_lane *out, const uint32_t *source)
{
    words_shared *s = gpu_shared<words_shared>();
    const int lane = (int)threadIdx.x;
    for (int i = 0; i < 8; i++) s->rows[lane][i] = (uint16_t)(lane * 8 + i);
    gpu_copy16(s->copies[lane], source + 4 * lane, lane % 2 == 0);
    gpu_copy_commit();
    gpu_copy_wait<0>();
    __syncwarp();
    gpu_ldmatrix(out->loaded, s->rows[lane]);
    gpu_ldmatrix_transposed(out->transposed, s->rows[lane]);
    for (int i = 0; i < 4; i++) out->copied[i] = s->copies[31 - lane][i];
}

// out [32], source [32 * 4], of one warp.
static __global__ void words_kernel(words_of_lane *out, const uint32_t *source)
{
    words_of_lane mine;
    words_products(&mine);
    words_exchanges(&mine);
    words_memory(&mine, source);
    out[threadIdx.x] = mine;
}

// The source of the copies.
static inline uint32_t words_source(int i)
{
    return 0x01010101u * (uint32_t)i;
}

#endif

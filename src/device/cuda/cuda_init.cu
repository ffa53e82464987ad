// cuda_init.cu -- initial values of parameters on the cuda device. cuda_kernels.c calls the host side. The
// normal numbers are computed as base/normal.h says, so they have the bits of rng_normal.
#include "base/normal.h"
#include "device/cuda/gpu_each.h"

// Element i is counter `first` + i of the generator, which has four numbers of y, or fewer at the ends.
struct init_normal_op {
    enum { PACK = 1 };
    struct loaded {
    };
    float *y;
    rng_key key;
    uint64_t index0;
    int64_t count; // of y
    float std;
    bool aligned; // the four numbers of a counter lie at a multiple of 16 bytes

    __device__ loaded load(int64_t) const
    {
        return {};
    }
    __device__ void store(int64_t i, const loaded &) const
    {
        one(i);
    }
    __device__ void one(int64_t i) const
    {
        const uint64_t counter = index0 / 4 + (uint64_t)i;
        // The element of word 0, which may lie before y.
        const int64_t first = i * 4 - (int64_t)(index0 % 4);
        uint32_t words[4];
        float four[4];
        rng_philox(key, counter, words);
        normal_pair(words[0], words[1], four);
        normal_pair(words[2], words[3], four + 2);
        gpu_pack<float> out;
        GPU_UNROLL
        for (int k = 0; k < 4; k++) out.v[k] = gpu_mul(std, four[k]);
        if (aligned && first >= 0 && first + 4 <= count) {
            gpu_store_pack(y + first, out);
            return;
        }
        GPU_UNROLL
        for (int k = 0; k < 4; k++)
            if (first + k >= 0 && first + k < count) y[first + k] = out.v[k];
    }
};

struct init_range_op {
    enum { PACK = 1 };
    struct loaded {
    };
    float *y;
    rng_key key;
    uint64_t index0;
    float std;

    __device__ loaded load(int64_t) const
    {
        return {};
    }
    __device__ void store(int64_t i, const loaded &) const
    {
        one(i);
    }
    __device__ void one(int64_t i) const
    {
        y[i] = gpu_mul(std, 2 * rng_uniform(rng_word(key, index0 + (uint64_t)i)) - 1);
    }
};

struct init_constant_op {
    enum { PACK = 4 };
    struct loaded {
    };
    float *y;
    float constant;

    __device__ loaded load(int64_t) const
    {
        return {};
    }
    __device__ void store(int64_t i, const loaded &) const
    {
        gpu_pack<float> out;
        GPU_UNROLL
        for (int k = 0; k < PACK; k++) out.v[k] = constant;
        gpu_store_pack(y + i, out);
    }
    __device__ void one(int64_t i) const
    {
        y[i] = constant;
    }
};

extern "C" void cuda_init(const cuda_context *x, const void *args)
{
    const kernel_init_args *p = (const kernel_init_args *)args;
    if (p->count <= 0) return;
    if (p->uniform) {
        each_launch(x, "init", init_range_op{p->y, p->key, p->index0, p->std}, p->count, true);
        return;
    }
    if (!p->normal) {
        each_launch(x, "init", init_constant_op{p->y, p->constant}, p->count,
                    gpu_is_aligned16(p->y));
        return;
    }
    const int64_t skip = (int64_t)(p->index0 % 4), counters = (skip + p->count + 3) / 4;
    const bool aligned = ((uintptr_t)p->y - (uintptr_t)skip * sizeof(float)) % 16 == 0;
    each_launch(x, "init", init_normal_op{p->y, p->key, p->index0, p->count, p->std, aligned},
                counters, true);
}

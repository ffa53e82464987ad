// cuda_unpack.cu -- unpacks NF4 rows on the cuda device. cuda_kernels.c calls the host side. A thread takes the 8 codes of one
// word, so 8 threads read the scale of one block.
#include "base/nf4.h"
#include "device/cuda/gpu.h"

enum { NF4_THREADS = 256, NF4_WORD = 8 }; // of a block of threads; codes in a word

static __device__ const float NF4_CODE_VALUES[] = {NF4_VALUES};
static __device__ const float NF4_SCALE_TABLE[] = {NF4_SCALE_VALUES};

// nf4_absmax with the words of a GPU, which round the product and the sum by themselves.
static __device__ inline float nf4_absmax_of(const nf4_row &r, int64_t b)
{
    const float maximum = nf4_number(r.maxima, (r.first + b) / NF4_GROUP);
    return gpu_add(gpu_mul(nf4_scale_value(NF4_SCALE_TABLE, r.scales[b]), maximum),
                   nf4_number(r.mean, 0));
}

template <typename T>
static __global__ void __launch_bounds__(NF4_THREADS)
    unpack_nf4_kernel(kernel_unpack_nf4_args p, int64_t words, bool aligned)
{
    float *const value = gpu_shared<float>();
    if (threadIdx.x < NF4_CODES) value[threadIdx.x] = NF4_CODE_VALUES[threadIdx.x];
    __syncthreads();
    const int64_t i = (int64_t)blockIdx.x * NF4_THREADS + threadIdx.x,
                  row_words = p.cols / NF4_WORD, row = i / row_words, word = i - row * row_words;
    if (i >= words) return;
    const uint32_t *packed = (const uint32_t *)p.packed + row * nf4_row_words(p.cols);
    const nf4_row r = nf4_row_of(packed, p.cols / NF4_BLOCK);
    const float absmax = nf4_absmax_of(r, word * NF4_WORD / NF4_BLOCK);
    gpu_pack<T, NF4_WORD> out;
    GPU_UNROLL
    for (int k = 0; k < NF4_WORD; k++) {
        const uint32_t code = packed[word] >> (8 * (k / 2) + (k % 2 ? 0 : 4)) & 15;
        out.v[k] = gpu_from_float<T>(gpu_mul(value[code], absmax));
    }
    T *to = (T *)p.y + i * NF4_WORD;
    if (aligned) gpu_store_pack(to, out);
    for (int k = 0; k < NF4_WORD && !aligned; k++) to[k] = out.v[k];
}

extern "C" void cuda_unpack_nf4(const cuda_context *x, const void *args)
{
    const kernel_unpack_nf4_args *p = (const kernel_unpack_nf4_args *)args;
    const int64_t words = p->rows * p->cols / NF4_WORD;
    if (words <= 0) return;
    gpu_with_type(p->type, [&](auto zero) {
        gpu_launch(x, "unpack_nf4", unpack_nf4_kernel<decltype(zero)>,
                   dim3((unsigned)((words + NF4_THREADS - 1) / NF4_THREADS)), dim3(NF4_THREADS),
                   NF4_CODES * sizeof(float), *p, words, gpu_is_aligned16(p->y));
    });
}

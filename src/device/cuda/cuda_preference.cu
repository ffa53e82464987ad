// cuda_preference.cu -- the kernels of preference losses. A warp has a document, or a pair. A second launch adds the
// losses of the pairs in a fixed order. The table cuda_kernels.c names the host sides. It does not know how ranks share a
// document.
#include "device/cuda/gpu_pieces.h"

constexpr int PREFERENCE_TERMS = PREFERENCE_SUMS + 2; // and the loss, and what it counts

static __global__ __launch_bounds__(GPU_WARP) void document_sums_kernel(kernel_document_sums_args p)
{
    const int64_t d = blockIdx.x;
    const int first = p.first[d], rows = p.first[d + 1] - first;
    const double sum = gpu_warp_sum_of(p.losses + first, rows);
    if (threadIdx.x != 0) return;
    p.sums[2 * d] = -sum;
    p.sums[2 * d + 1] = rows;
}

extern "C" void cuda_document_sums(const cuda_context *x, const void *args)
{
    const kernel_document_sums_args *p = (const kernel_document_sums_args *)args;
    if (p->documents <= 0) return;
    gpu_launch(x, "document_sums", document_sums_kernel, dim3((unsigned)p->documents),
               dim3(GPU_WARP), 0, *p);
}

// terms [PREFERENCE_TERMS, pairs]
static __global__ __launch_bounds__(GPU_WARP) void preference_kernel(kernel_preference_args p,
                                                                     double *terms)
{
    const int parts = 2 * kernel_preference_parts(&p.form);
    const int64_t i = blockIdx.x, pairs = p.documents / parts;
    bool both;
    const kernel_pair_loss l = kernel_pair_of(&p, i, &both);
    for (int k = 0; k < parts && p.weights; k++)
        for (int r = p.first[parts * i + k] + (int)threadIdx.x; r < p.first[parts * i + k + 1];
             r += GPU_WARP)
            p.weights[r] = (float)-kernel_pair_slope(&p.form, &l, k);
    if (threadIdx.x != 0) return;
    const double whole = both ? 1 : 0;
    terms[PREFERENCE_CHOSEN * pairs + i] = whole * l.reward[0];
    terms[PREFERENCE_REJECTED * pairs + i] = whole * l.reward[1];
    terms[PREFERENCE_ACCURATE * pairs + i] = l.reward[0] > l.reward[1] ? whole : 0;
    terms[PREFERENCE_PAIRS * pairs + i] = whole;
    terms[PREFERENCE_SUMS * pairs + i] = l.loss;
    terms[(PREFERENCE_SUMS + 1) * pairs + i] = l.count;
}

// One warp adds the terms.
static __global__ void preference_add_kernel(kernel_preference_args p, const double *terms)
{
    const int pairs = (int)(p.documents / (2 * kernel_preference_parts(&p.form)));
    for (int k = 0; k < PREFERENCE_TERMS; k++) {
        const double sum = gpu_warp_sum_of(terms + (int64_t)k * pairs, pairs);
        if (threadIdx.x != 0) continue;
        if (k < PREFERENCE_SUMS && p.metrics) p.metrics[k] += sum;
        if (k == PREFERENCE_SUMS && p.loss_sum) *p.loss_sum += sum;
        if (k == PREFERENCE_SUMS + 1 && p.count) *p.count += sum;
    }
}

extern "C" void cuda_preference(const cuda_context *x, const void *args)
{
    const kernel_preference_args *p = (const kernel_preference_args *)args;
    double *terms = (double *)x->workspace;
    const int64_t pairs = p->documents / (2 * kernel_preference_parts(&p->form));
    if (pairs < 1) return;
    gpu_launch(x, "preference", preference_kernel, dim3((unsigned)pairs), dim3(GPU_WARP), 0, *p,
               terms);
    gpu_launch(x, "preference", preference_add_kernel, dim3(1), dim3(GPU_WARP), 0, *p,
               (const double *)terms);
}

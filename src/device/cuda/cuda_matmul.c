// cuda_matmul.c -- K_MATMUL of the cuda device: which part cuBLASLt computes, and which part the kernel of
// cuda_matmul_bias.cu. Called through the kernel table. cuda_blas.c has the algorithms.
#include "base/size.h"
#include "device/cuda/cuda_blas.h"

// A product whose sums are split over k keeps at most so many partial results, each of so many rows of k
// at least. The library may use less.
enum { SPLITS_MOST = 16, SPLIT_ROWS = 128 };
static const uint64_t WORKSPACE_MOST = UINT64_C(32) << 20; // what NVIDIA recommends for Hopper

// The space for partial results in F32. It grows with m, n and k, and knows no addresses.
size_t cuda_matmul_workspace(const void *args)
{
    const kernel_matmul_args *p = args;
    if (p->m <= 0 || p->n <= 0 || p->k <= 0) return 0;
    const uint64_t splits = (uint64_t)size_min(SPLITS_MOST, p->k / SPLIT_ROWS);
    const uint64_t bytes =
        size_mul(splits * sizeof(float), size_mul((uint64_t)p->m, (uint64_t)p->n));
    return bytes < WORKSPACE_MOST ? (size_t)bytes : (size_t)WORKSPACE_MOST;
}

// cuBLASLt adds a bias whose elements have the type of c, and reads it 16 bytes at a time.
static bool bias_fits_epilogue(const kernel_matmul_args *p)
{
    return p->c_type == p->type && (uintptr_t)p->bias % 16 == 0;
}

bool cuda_matmul_split(const kernel_matmul_args *p, kernel_matmul_args *product)
{
    *product = *p;
    if (p->k > 0 && (!p->bias || bias_fits_epilogue(p))) return false;
    product->bias = NULL;
    product->accumulate = true;
    return p->bias || !p->accumulate;
}

void cuda_matmul(const cuda_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    kernel_matmul_args product;
    if (p->m <= 0 || p->n <= 0) return;
    if (cuda_matmul_split(p, &product)) cuda_matmul_bias(x, p);
    if (product.k <= 0) return;
    err e = {0};
    if (cuda_blas_multiply(x, &product, &e) != OK) cuda_failed(x, "matmul", e.text);
}

// cuda_blas.h -- matrix products by cuBLASLt, beneath K_MATMUL (cuda_matmul.c). A cuda_blas holds a handle,
// and the algorithm of each shape. The device opens one.
//
// An algorithm is the library's first proposal for the shape, the types and the alignment, that fits in the
// workspace and adds in a fixed order. It is never a timing. So two runs, and two ranks, choose the same.
#ifndef TRIREME_DEVICE_CUDA_CUDA_BLAS_H
#define TRIREME_DEVICE_CUDA_CUDA_BLAS_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

// For the current device. E_USAGE where cuBLASLt is missing; the line says where it was searched.
status cuda_blas_open(struct cuda_blas **out, err *e);
void cuda_blas_close(struct cuda_blas *b); // may be NULL

// Chooses the algorithm of a K_MATMUL; other calls are ignored. The addresses of the call are not real:
// an address counts as its alignment, and one that is NULL as aligned.
status cuda_blas_prepare(struct cuda_blas *b, const kernel_call *c, err *e);

// Returns whether the library computes the product together with its activation: where cuda_matmul_may_join and
// has an algorithm for it; which shapes those are depends on its version and on the GPU.
status cuda_blas_joins(struct cuda_blas *b, const kernel_matmul_args *p, bool *joins, err *e);

// Issues a product with m, n, k >= 1, with an activation only where cuda_blas_joins. A bias must be of c_type
// and aligned to 16 bytes. A shape that was
// not prepared is prepared. E_INTERNAL where cuBLASLt has no algorithm for it.
status cuda_blas_multiply(const cuda_context *x, const kernel_matmul_args *p, err *e);

// cuda_matmul_bias.cu: c [m, n] = bias (+ c). With neither it writes zeros.
void cuda_matmul_bias(const cuda_context *x, const kernel_matmul_args *p);

// Splits a call into what cuda_matmul_bias and what cuBLASLt computes. Returns whether the first has
// something to do; *product then adds to c, and its k may be 0.
bool cuda_matmul_split(const kernel_matmul_args *p, kernel_matmul_args *product);
// Divides a product with m, n, k >= 1 into those that the library computes one after the other, and returns how many they
// are. Each needs at most the workspace of the whole.
enum { CUDA_MATMUL_PIECES = 8 };
int cuda_matmul_pieces(const kernel_matmul_args *p, kernel_matmul_args out[CUDA_MATMUL_PIECES]);
// Returns whether the library may compute the product together with its activation. A rule of the shape.
bool cuda_matmul_may_join(const kernel_matmul_args *p);
// The product that leaves its sums as they are.
kernel_matmul_args cuda_matmul_without_epilogue(const kernel_matmul_args *p);

#ifdef __cplusplus
}
#endif

#endif

// kernel_matmul.h -- the specification of K_MATMUL, the product of two matrices, and of what a product does
// with its sums before it writes them. A part of device/kernels.h, which has the conventions.
#ifndef TRIREME_DEVICE_KERNEL_MATMUL_H
#define TRIREME_DEVICE_KERNEL_MATMUL_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum kernel_activation {
    ACT_GELU,
    ACT_GELU_TANH,
    ACT_RELU,
    ACT_RELU2, // the square of ReLU
    ACT_SILU,
    ACT_TANH,
    ACTIVATIONS
} kernel_activation;

// The epilogue of a product: what it does with the sums s [m, n]. f is the activation `act`.
//   EPILOGUE_NONE              c = s
//   EPILOGUE_ACTIVATION        c = f(s); aux = s, unless aux is NULL
//   EPILOGUE_ACTIVATION_GRAD   c = f'(aux) * s
// With an activation, c and aux are dense and `accumulate` is false. The result is that of K_MATMUL, which
// rounds s to c_type, and of K_ACTIVATION or K_ACTIVATION_GRAD. The cpu device gives their bits. Other
// devices may take f of the sum that is not rounded yet, unless the call asks for act_of_aux.
typedef enum kernel_epilogue {
    EPILOGUE_NONE,
    EPILOGUE_ACTIVATION,
    EPILOGUE_ACTIVATION_GRAD
} kernel_epilogue;

// c [m, n] = op(a) [m, k] · op(b) [k, n] (+ bias [n]) (+ c)
// A linear layer is y [rows, out] = x [rows, in] · w [out, in]^T + bias [out], with trans_b.
// a is stored as [m, k], or as [k, m] with trans_a; b as [k, n], or as [n, k] with trans_b.
typedef struct kernel_matmul_args {
    int64_t m, n, k;
    const void *a, *b;     // of `type`
    void *c;               // [m, n] of `c_type`
    const void *bias;      // [n] of `type`; NULL: no bias
    void *aux;             // [m, n] of `c_type`, for an activation
    int64_t lda, ldb, ldc; // elements from one stored row of a, b and c to the next
    dtype type, c_type;    // c_type is F32 or `type`
    kernel_epilogue epilogue;
    kernel_activation act;
    bool trans_a, trans_b;
    bool accumulate; // add to c
    bool tf32;       // the device may round F32 elements of a and b to TF32 (10 bits of mantissa)
    // EPILOGUE_ACTIVATION with aux: c has the bits of K_ACTIVATION of aux. aux has the same bits with it
    // and without it.
    bool act_of_aux;
} kernel_matmul_args;

// The array that gets the sums of a product, before the activation.
static inline void *kernel_matmul_sums(const kernel_matmul_args *p)
{
    return p->epilogue == EPILOGUE_ACTIVATION && p->aux ? p->aux : p->c;
}

#endif

// lib_product.h -- a matrix product on the host, as the stand-in of cuBLASLt and the check of the call tape
// compute it: sums in F32, in the order of k. Matrices are column-major, as the library's are.
#ifndef TRIREME_STAND_IN_LIB_PRODUCT_H
#define TRIREME_STAND_IN_LIB_PRODUCT_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lib_epilogue {
    LIB_PLAIN,
    LIB_GELU,      // aux = the sum, unless it is NULL; d = gelu(sum), the tanh form
    LIB_GELU_GRAD, // d = the sum * gelu'(aux)
} lib_epilogue;

// d [m, n] = epilogue(alpha * op(a) [m, k] · op(b) [k, n] + beta * d + bias [m])
typedef struct lib_product {
    int64_t m, n, k, lda, ldb, ldd;
    const void *a, *b; // of `type`
    void *d;           // of d_type
    const void *bias;  // [m] of d_type; NULL: none
    void *aux;         // [m, n] of d_type; its leading dimension is ld_aux
    int64_t ld_aux;
    float alpha, beta;
    dtype type, d_type;
    bool trans_a, trans_b;
    bool tf32; // a and b, which are F32, are rounded to TF32
    lib_epilogue epilogue;
    bool in_halves; // the halves of the sums over k are added at the end
    int splits;     // of k; their sums lie in `partial` and are added in order
    float *partial; // [splits, n, m]; NULL if splits is 1
} lib_product;

void lib_product_run(const lib_product *p);

#endif

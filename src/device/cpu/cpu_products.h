// cpu_products.h -- shared by the files of the matrix products. cpu_matmul.c chooses among them:
//   vec_few.c       a few rows, from AVX2 up
//   cpu_bf16.c      bf16, by the CPU's bf16 instructions
//   vec_product.c   all other products from AVX2 up
//   cpu_product.c   all products below AVX2
// All run on the context's team, and no result depends on the number of threads.
#ifndef TRIREME_DEVICE_CPU_CPU_PRODUCTS_H
#define TRIREME_DEVICE_CPU_CPU_PRODUCTS_H

#include "device/cpu/cpu.h"

enum {
    VEC_FEW_ROWS = 8, // up to so many rows of A it does not pay to pack B
};

// The last step of a product with an epilogue, of rows row … row+rows-1 and columns col … col+cols-1, whose
// sums lie in kernel_matmul_sums(p): activates them by the kernel of this CPU's level, so that the bits are
// its. Nothing to do without an activation. The products call it for parts that are still in the cache.
void cpu_epilogue(const cpu_context *x, const kernel_matmul_args *p, int64_t row, int64_t rows,
                  int64_t col, int64_t cols);

// The inside of K_ACTIVATION and K_ACTIVATION_GRAD (vec_activation.c): elements first … last-1.
void vec_activation_part_avx2(const cpu_context *x, const void *args, int64_t first, int64_t last,
                              int thread);
void vec_activation_part_avx512(const cpu_context *x, const void *args, int64_t first, int64_t last,
                                int thread);
void vec_activation_grad_part_avx2(const cpu_context *x, const void *args, int64_t first,
                                   int64_t last, int thread);
void vec_activation_grad_part_avx512(const cpu_context *x, const void *args, int64_t first,
                                     int64_t last, int thread);

// c = epilogue of op(a) · op(b) (+ bias) (+ c), any types; m, n > 0. The others also ask for k > 0.
void cpu_product(const cpu_context *x, const kernel_matmul_args *args);
void vec_product_avx2(const cpu_context *x, const kernel_matmul_args *args);
void vec_product_avx512(const cpu_context *x, const kernel_matmul_args *args);
// The same for a few rows. They return false, and do nothing, for more rows than VEC_FEW_ROWS or a
// k that is too large.
bool vec_product_few_avx2(const cpu_context *x, const kernel_matmul_args *args);
bool vec_product_few_avx512(const cpu_context *x, const kernel_matmul_args *args);
// The same; a and b are BF16.
void cpu_product_bf16(const cpu_context *x, const kernel_matmul_args *args);
#endif

// cpu_products.h -- what the files of the matrix products share: cpu_matmul.c chooses among
// vec_few.c (a few rows), cpu_bf16.c (bf16 instructions), vec_product.c (AVX2 and above), and
// oneDNN's fp32 products below AVX2, to which cpu_widen.c widens 16 bits. All work on the context's
// team, and no result depends on the number of threads.
#ifndef TRIREME_DEVICE_CPU_CPU_PRODUCTS_H
#define TRIREME_DEVICE_CPU_CPU_PRODUCTS_H

#include "device/cpu/cpu.h"

enum {
    // Sides of the fp32 panels of a widened product: large enough for oneDNN to block them well.
    WIDEN_ROWS = 768,
    WIDEN_COLS = 768,
    WIDEN_DEPTH = 1024,
    VEC_FEW_ROWS = 8, // rows for which B is not worth packing
};

typedef struct cpu_products {
    bool bf16_instructions; // use them for bf16 products
    float *a, *b, *c;       // panels of a widened product
    err failure;            // the first since it was last asked for; code OK when none
} cpu_products;

status cpu_products_open(cpu_level level, cpu_products **out, err *e);
void cpu_products_close(cpu_products *p); // NULL allowed

// C = op(A) op(B) (+ C) in fp32, by oneDNN. No bias; type and c_type are not looked at. A product
// that oneDNN refuses is kept for cpu_context_failure.
void cpu_product_f32(const cpu_context *x, const kernel_matmul_args *args);
// C = op(A) op(B) (+ bias) (+ C), any types; m, n, k > 0.
void vec_product_avx2(const cpu_context *x, const kernel_matmul_args *args);
void vec_product_avx512(const cpu_context *x, const kernel_matmul_args *args);
// The same; false, and nothing done, for more rows than VEC_FEW_ROWS or a k that is too long.
bool vec_product_few_avx2(const cpu_context *x, const kernel_matmul_args *args);
bool vec_product_few_avx512(const cpu_context *x, const kernel_matmul_args *args);
void cpu_product_bf16(const cpu_context *x, const kernel_matmul_args *args); // A and B are BF16
void cpu_product_widen(const cpu_context *x, const kernel_matmul_args *args);

// Zeroed pages, which cost memory once they are grad_written. NULL when there are none.
void *cpu_pages_map(size_t bytes);
void cpu_pages_unmap(void *at, size_t bytes);

#endif

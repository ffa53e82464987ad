// cpu_products.h -- shared by the files of the matrix products. cpu_matmul.c chooses among them:
//   vec_few.c       a few rows, from AVX2 up
//   cpu_bf16.c      bf16, by the CPU's bf16 instructions
//   vec_product.c   all other products from AVX2 up
//   cpu_widen.c     16-bit types below AVX2; it converts them to fp32 for oneDNN
//   oneDNN          fp32 below AVX2
// All run on the context's team, and no result depends on the number of threads.
#ifndef TRIREME_DEVICE_CPU_CPU_PRODUCTS_H
#define TRIREME_DEVICE_CPU_CPU_PRODUCTS_H

#include "device/cpu/cpu.h"

enum {
    // Sides of the fp32 panels of cpu_widen.c, large enough for oneDNN to be fast.
    WIDEN_ROWS = 768,
    WIDEN_COLS = 768,
    WIDEN_DEPTH = 1024,
    VEC_FEW_ROWS = 8, // up to so many rows of A it does not pay to pack B
};

typedef struct cpu_products {
    bool bf16_instructions; // use them for bf16 products
    float *a, *b, *c;       // panels of cpu_widen.c
    err failure;            // the first since cpu_context_failure; code OK when none
} cpu_products;

status cpu_products_open(cpu_level level, cpu_products **out, err *e);
void cpu_products_close(cpu_products *p); // NULL allowed

// c = op(a) · op(b) (+ c) in fp32, by oneDNN. It ignores bias, type and c_type. A refusal by oneDNN
// is kept for cpu_context_failure.
void cpu_product_f32(const cpu_context *x, const kernel_matmul_args *args);
// c = op(a) · op(b) (+ bias) (+ c), any types; m, n, k > 0.
void vec_product_avx2(const cpu_context *x, const kernel_matmul_args *args);
void vec_product_avx512(const cpu_context *x, const kernel_matmul_args *args);
// The same for a few rows. They return false, and do nothing, for more rows than VEC_FEW_ROWS or a
// k that is too large.
bool vec_product_few_avx2(const cpu_context *x, const kernel_matmul_args *args);
bool vec_product_few_avx512(const cpu_context *x, const kernel_matmul_args *args);
// The same; a and b are BF16.
void cpu_product_bf16(const cpu_context *x, const kernel_matmul_args *args);
// The same; a and b are BF16 or F16.
void cpu_product_widen(const cpu_context *x, const kernel_matmul_args *args);

// Maps zeroed pages, which cost memory only when they are written. NULL when there are none.
void *cpu_pages_map(size_t bytes);
void cpu_pages_unmap(void *pages, size_t bytes);

#endif

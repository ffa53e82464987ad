// cpu_products.h -- what the files of the matrix products share: cpu_matmul.c (the kernel, and
// fp32) and the two ways of a 16-bit product, cpu_bf16.c (by bf16 instructions) and cpu_widen.c
// (in fp32).
#ifndef TRIREME_DEVICE_CPU_CPU_PRODUCTS_H
#define TRIREME_DEVICE_CPU_CPU_PRODUCTS_H

#include "device/cpu/cpu.h"

#include <dnnl.h>

// Sides of the fp32 panels of a widened product: large enough for oneDNN to block them well.
enum { WIDEN_ROWS = 768, WIDEN_COLS = 768, WIDEN_DEPTH = 1024 };

struct bf16_product;

typedef struct cpu_products {
    bool bf16_instructions; // use them for bf16 products
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct bf16_product **cache; // of `slots` (a power of two) entries, by hash of the shape
    size_t slots, used;
    void *scratch; // for oneDNN, as large as the largest product so far asked for
    size_t scratch_bytes;
    float *a, *b, *c; // panels of a widened product
    err failure;      // the first since it was last asked for; code OK when none
} cpu_products;

status cpu_products_open(cpu_level level, cpu_products **out, err *e);
void cpu_products_close(cpu_products *p); // NULL allowed

// Keeps the first failure for cpu_context_failure.
void cpu_products_fail(cpu_products *p, dnnl_status_t code, const matmul_args *args);

// C = op(A) op(B) (+ C) in fp32 on the team, by oneDNN. No bias; type and c_type are not looked at.
void cpu_product_f32(const cpu_context *x, const matmul_args *args);
// C = op(A) op(B) (+ bias) (+ C), any types; k > 0. Same results with any number of threads.
void vec_product_avx2(const cpu_context *x, const matmul_args *args);
void vec_product_avx512(const cpu_context *x, const matmul_args *args);
void cpu_product_bf16(const cpu_context *x, const matmul_args *args);
void cpu_product_widen(const cpu_context *x, const matmul_args *args);
void cpu_bf16_cache_free(cpu_products *p);

// Zeroed pages, which cost memory once they are touched. NULL when there are none.
void *cpu_pages_map(size_t bytes);
void cpu_pages_unmap(void *at, size_t bytes);

#endif

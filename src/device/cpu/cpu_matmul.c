// cpu_matmul.c -- the K_MATMUL of the cpu device: which way a product takes. Called through the
// kernel table. The choice is a fixed rule of the CPU level and the shape, never a timing.
//
//   bf16 instructions that beat fp32 (cpu_features.c)  oneDNN's bf16 products
//   AVX2 and above                                     vec_product.c: within 2 % of oneDNN's
//                                                      sgemm, whose bits depend on the number of
//                                                      threads, and which allocates in every call
//   a few rows of fp32 (a token's step); below AVX2    oneDNN's sgemm; 16 bits widened before
#include "device/cpu/cpu_products.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

void cpu_products_fail(cpu_products *p, dnnl_status_t code, const matmul_args *args)
{
    if (p->failure.code != OK) return;
    err_set(&p->failure, code == dnnl_out_of_memory ? E_FIT : E_INTERNAL,
            "oneDNN refused the product m=%ld n=%ld k=%ld of %s (status %d)", (long)args->m,
            (long)args->n, (long)args->k, dtype_name(args->type), (int)code);
}

void cpu_product_f32(const cpu_context *x, const matmul_args *p)
{
    omp_set_num_threads(x->threads); // oneDNN takes the calling thread's team
    dnnl_status_t code =
        dnnl_sgemm(p->trans_a ? 'T' : 'N', p->trans_b ? 'T' : 'N', p->m, p->n, p->k, 1, p->a,
                   p->lda, p->b, p->ldb, p->accumulate ? 1 : 0, p->c, p->ldc);
    if (code != dnnl_success) cpu_products_fail(x->products, code, p);
}

// C = bias (+ C), or zero: what the product is then added to. sgemm knows no bias, and a pass
// before it is cheaper than one after it, whose lines would have left the cache.
static void begin_rows(const cpu_context *x, const matmul_args *p)
{
    bool small = p->m * p->n < 1 << 15;
#pragma omp parallel for num_threads(small ? 1 : x->threads)
    for (int64_t i = 0; i < p->m; i++) {
        float *row = (float *)p->c + i * p->ldc;
        const float *bias = p->bias;
        if (!p->accumulate) {
            if (bias) memcpy(row, bias, sizeof(float) * (size_t)p->n);
            if (!bias) memset(row, 0, sizeof(float) * (size_t)p->n);
        } else if (bias) {
            for (int64_t j = 0; j < p->n; j++) row[j] += bias[j];
        }
    }
}

// Fewer rows than this are not worth packing B for.
enum { FEW_ROWS = 6 };

void cpu_matmul(const cpu_context *x, const void *args)
{
    matmul_args p = *(const matmul_args *)args;
    if (p.m <= 0 || p.n <= 0) return;
    bool packed = x->level >= CPU_AVX2 && p.k > 0 && (p.m >= FEW_ROWS || p.type != F32);
    if (p.type == BF16 && x->products->bf16_instructions && p.k > 0) {
        cpu_product_bf16(x, &p);
    } else if (packed) {
        (x->level >= CPU_AVX512 ? vec_product_avx512 : vec_product_avx2)(x, &p);
    } else if (p.type != F32) {
        cpu_product_widen(x, &p);
    } else {
        if (p.bias || p.k <= 0) {
            begin_rows(x, &p);
            p.accumulate = true;
        }
        if (p.k > 0) cpu_product_f32(x, &p);
    }
}

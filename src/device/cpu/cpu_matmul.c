// cpu_matmul.c -- K_MATMUL of the cpu device: it chooses how a product is computed. Called through
// the kernel table. The choice is a fixed rule of the CPU level and the shape. It is never a
// timing, and it does not depend on the number of threads.
//
//   AVX2 and above   a few rows (decoding)                      vec_few.c
//                    bf16 where its instructions beat fp32's    cpu_bf16.c (see cpu_features.c)
//                    all others                                 vec_product.c
//   below AVX2       all                                        cpu_product.c
#include "device/cpu/cpu_products.h"
#include "device/cpu/ref/ref.h"

// Activates `count` elements from `at` on.
static void activate(const cpu_context *x, const kernel_matmul_args *p, int64_t at, int64_t count)
{
    const bool grad = p->epilogue == EPILOGUE_ACTIVATION_GRAD;
    const void *sums = ref_at(kernel_matmul_sums(p), at, p->c_type);
    const kernel_activation_args a = {.count = count,
                                      .x = grad ? ref_at(p->aux, at, p->c_type) : sums,
                                      .dy = sums,
                                      .y = kernel_element(p->c, at, p->c_type),
                                      .act = p->act,
                                      .type = p->c_type};
    if (x->level >= CPU_AVX512)
        (grad ? vec_activation_grad_part_avx512 : vec_activation_part_avx512)(x, &a, 0, count, 0);
    else if (x->level >= CPU_AVX2)
        (grad ? vec_activation_grad_part_avx2 : vec_activation_part_avx2)(x, &a, 0, count, 0);
    else
        (grad ? ref_activation_grad : ref_activation)(x, &a);
}

void cpu_epilogue(const cpu_context *x, const kernel_matmul_args *p, int64_t row, int64_t rows,
                  int64_t col, int64_t cols)
{
    if (p->epilogue == EPILOGUE_NONE) return;
    for (int64_t r = row; r < row + rows; r++) activate(x, p, r * p->ldc + col, cols);
}

// The vec_product_few functions return false when `a` has more than a few rows.
void cpu_matmul(const cpu_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    const bool avx512 = x->level >= CPU_AVX512, vectors = x->level >= CPU_AVX2 && p->k > 0;
    if (p->m <= 0 || p->n <= 0) return;
    if (vectors && (avx512 ? vec_product_few_avx512 : vec_product_few_avx2)(x, p)) return;
    if (vectors && p->type == BF16 && x->bf16_instructions)
        cpu_product_bf16(x, p);
    else if (vectors)
        (avx512 ? vec_product_avx512 : vec_product_avx2)(x, p);
    else
        cpu_product(x, p);
}

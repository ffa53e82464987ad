// test_numerics.c -- what a job lets kernels do for speed: TF32 is used where a call allows it and nowhere else,
// and cuDNN computes the gradient of attention only where sums may be added in any order.
#include "device/cuda/libraries/cuda_blas.h"
#include "device/cuda/libraries/cuda_dnn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// x * 1 for x = 1 + 2^-12, which TF32 rounds to 1, and 1 + 2^-11, which it rounds away from zero.
static void check_products(const struct cuda_blas *b, bool tf32, dtype type, float first,
                           float second)
{
    enum { ROWS = 2 };
    const float x[ROWS] = {1 + 0x1p-12f, 1 + 0x1p-11f}, one = 1;
    unsigned char from[sizeof x], factor[sizeof one];
    float y[ROWS];
    err failure = {0};
    char *there = NULL;
    assert_int_equal(cudaMalloc((void **)&there, 768), cudaSuccess);
    dtype_convert(from, type, x, F32, ROWS);
    dtype_convert(factor, type, &one, F32, 1);
    assert_int_equal(cudaMemcpy(there, from, sizeof from, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(cudaMemcpy(there + 256, factor, sizeof factor, cudaMemcpyHostToDevice),
                     cudaSuccess);
    const kernel_matmul_args p = {.m = ROWS,
                                  .n = 1,
                                  .k = 1,
                                  .a = there,
                                  .b = there + 256,
                                  .c = there + 512,
                                  .lda = 1,
                                  .ldb = 1,
                                  .ldc = 1,
                                  .type = type,
                                  .c_type = F32,
                                  .tf32 = tf32};
    const cuda_context c = {.blas = (struct cuda_blas *)b, .failure = &failure};
    cuda_matmul(&c, &p);
    assert_string_equal(failure.text, "");
    assert_int_equal(cudaMemcpy(y, there + 512, sizeof y, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_true(y[0] == first && y[1] == second);
    assert_int_equal(cudaFree(there), cudaSuccess);
}

static void tf32_rounds_factors_where_it_is_allowed(void **state)
{
    (void)state;
    struct cuda_blas *b = NULL;
    err e = {0};
    assert_int_equal(cuda_blas_open(&b, &e), OK);
    check_products(b, false, F32, 1 + 0x1p-12f, 1 + 0x1p-11f);
    check_products(b, true, F32, 1, 1 + 0x1p-10f);
    check_products(b, false, F32, 1 + 0x1p-12f,
                   1 + 0x1p-11f);        // the shape's other algorithm is kept
    check_products(b, true, BF16, 1, 1); // has no effect on other types
    cuda_blas_close(b);
}

static void the_gradient_needs_leave(void **state)
{
    (void)state;
    kernel_attention_grad_args g = {.fwd = {.batch = 1,
                                            .tk = 64,
                                            .heads = 2,
                                            .kv_heads = 2,
                                            .head_dim = 64,
                                            .queries = kernel_tokens_from(64, 0),
                                            .q_stride = 384,
                                            .k_stride = 384,
                                            .v_stride = 384,
                                            .o_stride = 128,
                                            .k_batch = 64 * 384,
                                            .v_batch = 64 * 384,
                                            .causal = true,
                                            .type = BF16}};
    assert_int_equal(cuda_attention_grad_workspace(&g), 0);
    g.any_order = true;
    const size_t sums = sizeof(float) * 2 * 64 * 64; // of dq
    assert_true(cuda_attention_grad_workspace(&g) >= sums);
    g.fwd.dropout.p = 0.1f; // our own kernel does it
    assert_int_equal(cuda_attention_grad_workspace(&g), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tf32_rounds_factors_where_it_is_allowed),
        cmocka_unit_test(the_gradient_needs_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_kernel_cost.c -- FLOPs, bytes and sizes of kernel calls, against numbers that were computed by hand.
#include "device/kernel_cost.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// A cost reads only whether there is an array.
static float there[2];

static void expect(const kernel_call *c, double flops, double bytes)
{
    const kernel_cost k = kernel_cost_of(c);
    if (k.kind != c->kind || k.flops != flops || k.bytes != bytes)
        fail_msg("kind %d: %.17g flops and %.17g bytes, expected %.17g and %.17g", c->kind, k.flops,
                 k.bytes, flops, bytes);
}

static void expect_sizes(const kernel_call *c, double a, double b, double d)
{
    const kernel_cost k = kernel_cost_of(c);
    if (k.size[0] != a || k.size[1] != b || k.size[2] != d)
        fail_msg("kind %d: sizes %g %g %g, expected %g %g %g", c->kind, k.size[0], k.size[1],
                 k.size[2], a, b, d);
}

static void test_product(void **state)
{
    (void)state;
    kernel_call c = {.kind = K_MATMUL};
    c.u.matmul = (kernel_matmul_args){
        .m = 8, .n = 16, .k = 4, .type = BF16, .c_type = BF16, .trans_b = true};
    expect(&c, 2 * 8 * 16 * 4, 2 * (8 * 4 + 4 * 16 + 8 * 16));
    expect_sizes(&c, 8, 16, 4);
    assert_int_equal(kernel_cost_of(&c).form, kernel_cost_matmul_form(false, true, EPILOGUE_NONE));
    c.u.matmul.aux = there;
    c.u.matmul.epilogue = EPILOGUE_ACTIVATION;
    expect(&c, 2 * 8 * 16 * 4, 2 * (8 * 4 + 4 * 16 + 2 * 8 * 16));
    assert_int_not_equal(kernel_cost_of(&c).form,
                         kernel_cost_matmul_form(false, true, EPILOGUE_NONE));
    // wgrad, which adds to gradients in F32
    c.u.matmul = (kernel_matmul_args){
        .m = 8, .n = 16, .k = 4, .type = BF16, .c_type = F32, .trans_a = true, .accumulate = true};
    expect(&c, 2 * 8 * 16 * 4, 2 * (8 * 4 + 4 * 16) + 2 * 4 * 8 * 16);
}

static kernel_attention_args attention_of(int64_t tokens)
{
    return (kernel_attention_args){.batch = 2,
                                   .tk = tokens,
                                   .heads = 4,
                                   .kv_heads = 2,
                                   .head_dim = 8,
                                   .queries = kernel_tokens_from(tokens, 0),
                                   .causal = true,
                                   .type = F32};
}

static void test_attention(void **state)
{
    (void)state;
    kernel_call c = {.kind = K_ATTENTION};
    kernel_attention_args *a = &c.u.attention;
    *a = attention_of(16);
    // Queries see 1 … 16 keys: 136 of 256.
    const double pairs = 2 * 4 * 136, bytes = 4 * (2 * 2 * 16 * 4 * 8 + 2 * 2 * 16 * 2 * 8);
    expect(&c, 2 * 2 * pairs * 8, bytes);
    expect_sizes(&c, 2 * 4, 16, 8);
    kernel_call grad = {.kind = K_ATTENTION_GRAD};
    grad.u.attention_grad.fwd = *a;
    expect(&grad, 2 * 5 * pairs * 8, 2 * bytes);
    a->causal = false;
    expect(&c, 2 * 2 * 2 * 4 * 256 * 8, bytes);
}

// Sums over the queries one by one are those of the closed form.
static void test_seen_keys(void **state)
{
    (void)state;
    kernel_call c = {.kind = K_ATTENTION};
    kernel_attention_args *a = &c.u.attention;
    for (int64_t window = 0; window <= 33; window++)
        for (int parts = 1; parts <= 2; parts++) {
            *a = attention_of(32);
            a->form.window = window;
            // Two context-parallel ranks: the first and the last quarter of the tokens.
            if (parts == 2)
                a->queries = (kernel_tokens){
                    .seq = 16, .full_seq = 32, .chunk = 8, .start = {0, 24}, .first_row = 0};
            double seen = 0;
            for (int64_t i = 0; i < a->queries.seq; i++) {
                const int64_t p = kernel_token_position(&a->queries, i);
                seen += (double)(p + 1 - kernel_attention_first_key(&a->form, p));
            }
            const double found = kernel_cost_of(&c).flops / (2 * 2 * 2 * 4 * 8);
            if (found != seen)
                fail_msg("window %d, %d parts: %g keys, expected %g", (int)window, parts, found,
                         seen);
        }
    // One new token of a sequence that is decoded.
    *a = attention_of(32);
    a->queries = kernel_tokens_from(1, 31);
    assert_true(kernel_cost_of(&c).flops == 2 * 2 * 2 * 4 * 32 * 8);
}

static void test_rows(void **state)
{
    (void)state;
    kernel_call c = {.kind = K_NORM};
    c.u.norm = (kernel_norm_args){.rows = 4, .cols = 8, .type = BF16, .residual_fp32 = true};
    expect(&c, 0, 32 * (4 + 2));
    expect_sizes(&c, 4, 8, 1);
    c.u.norm.addend = there;
    expect(&c, 0, 32 * (2 * 4 + 2 * 2));
    c = (kernel_call){.kind = K_NORM_GRAD};
    c.u.norm_grad = (kernel_norm_grad_args){.rows = 4,
                                            .cols = 8,
                                            .dx = there,
                                            .dgain = there,
                                            .accumulate_dx = true,
                                            .type = BF16,
                                            .residual_fp32 = true};
    expect(&c, 0, 32 * (2 + 3 * 4));
    c.u.norm_grad.dx = NULL;
    expect(&c, 0, 32 * (2 + 4));
    c = (kernel_call){.kind = K_EMBEDDING_GRAD};
    c.u.embedding_grad = (kernel_embedding_grad_args){.rows = 4,
                                                      .cols = 8,
                                                      .vocab = 100,
                                                      .max_seq = 2,
                                                      .d_tokens = there,
                                                      .type = F32,
                                                      .accumulate_tokens = true};
    expect(&c, 0, 4 * (4 * 8 + 4 * 8));
    c.u.embedding_grad.accumulate_tokens = false;
    c.u.embedding_grad.d_positions = there;
    c.u.embedding_grad.accumulate_positions = true;
    expect(&c, 0, 4 * (4 * 8 + 4 * 8 + 100 * 8 + 4 * 8 + 2 * 2 * 8));
    c = (kernel_call){.kind = K_CROSS_ENTROPY};
    c.u.cross_entropy =
        (kernel_cross_entropy_args){.rows = 4, .cols = 8, .gradient = true, .type = BF16};
    expect(&c, 0, 2 * 2 * 32);
}

static void test_elements(void **state)
{
    (void)state;
    kernel_call c = {.kind = K_UPDATE};
    c.u.update = (kernel_update_args){
        .count = 1000, .segments = 7, .m = there, .v = there, .low = there, .low_type = BF16};
    expect(&c, 0, 1000 * (7 * 4 + 2));
    expect_sizes(&c, 1000, 1, 1);
    c.u.update = (kernel_update_args){.count = 1000, .rule = UPDATE_SGD};
    expect(&c, 0, 1000 * 3 * 4);
    c = (kernel_call){.kind = K_SUM_SQUARES};
    c.u.sum_squares = (kernel_sum_squares_args){.count = 1000, .type = BF16, .segments = 7};
    expect(&c, 0, 2000);
    c = (kernel_call){.kind = K_DOCUMENT_SUMS};
    c.u.document_sums.documents = 10;
    expect(&c, 0, 10 * (4 + 3 * 8));
    c = (kernel_call){.kind = K_PREFERENCE};
    c.u.preference.documents = 10;
    expect(&c, 0, 10 * (4 + 2 * 8));
    c.u.preference.reference = there, c.u.preference.weights = there;
    expect(&c, 0, 10 * (4 + 2 * 8 + 2 * 4 + 4));
    c = (kernel_call){.kind = K_CONVERT};
    c.u.convert = (kernel_convert_args){.count = 10, .src_type = F32, .dst_type = BF16};
    expect(&c, 0, 60);
    c.u.convert =
        (kernel_convert_args){.count = 10, .src_type = F32, .dst_type = F32, .accumulate = true};
    expect(&c, 0, 120);
    c = (kernel_call){.kind = K_UNPACK_NF4}; // a packed row of 576 columns has 78 words
    c.u.unpack_nf4 = (kernel_unpack_nf4_args){.rows = 10, .cols = 576, .type = BF16};
    expect(&c, 0, 10 * (4 * 78 + 2 * 576));
    c = (kernel_call){.kind = K_REDUCE};
    c.u.reduce = (kernel_reduce_args){.count = 10, .ranks = 4, .outs = 1, .type = F32};
    expect(&c, 0, 200);
}

// Every kernel has a row: it has a kind and sizes, also where its call is empty.
static void test_every_kernel(void **state)
{
    (void)state;
    for (int kind = 0; kind < KERNELS; kind++) {
        kernel_call c = {.kind = (kernel_kind)kind};
        if (kind == K_ATTENTION || kind == K_ATTENTION_GRAD) c.u.attention = attention_of(16);
        const kernel_cost k = kernel_cost_of(&c);
        assert_int_equal(k.kind, kind);
        assert_true(isfinite(k.flops) && isfinite(k.bytes) && k.flops >= 0 && k.bytes >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),   cmocka_unit_test(test_attention),
        cmocka_unit_test(test_seen_keys), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_elements),  cmocka_unit_test(test_every_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

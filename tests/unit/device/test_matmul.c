// test_matmul.c -- compares the products of the cpu device with the reference: every storage order,
// strides, bias, accumulation, tiny and empty sizes, fp32, both forms of bf16, and fp16.
#include "device/cpu/cpu_products.h"
#include "device/cpu/ref/ref.h"
#include "unit/device/harness.h"

typedef struct sizes {
    int64_t m, n, k;
} sizes;

static const sizes shapes[] = {{1, 1, 1},    {3, 5, 7},      {1, 96, 64},   {64, 1, 40},
                               {17, 33, 65}, {16, 16, 0},    {0, 4, 4},     {4, 0, 4},
                               {40, 48, 33}, {2, 780, 1030}, {780, 2, 1030}};

// The operands of one product in fp32 and in its 16-bit type (bf16 for an fp32 product), with space
// for a stride longer than a row.
typedef struct operands {
    float *a, *b, *c, *bias;
    uint16_t *a16, *b16, *c16, *bias16;
    int64_t count_a, count_b, count_c;
} operands;

enum { PAD = 3 };

static operands operands_make(const kernel_matmul_args *p)
{
    operands o = {.count_a = (p->trans_a ? p->k : p->m) * p->lda,
                  .count_b = (p->trans_b ? p->n : p->k) * p->ldb,
                  .count_c = p->m * p->ldc};
    o.a = harness_random(o.count_a, 1), o.b = harness_random(o.count_b, 2);
    o.c = harness_random(o.count_c, 3), o.bias = harness_random(p->n, 4);
    dtype low = p->type == F32 ? BF16 : p->type;
    o.a16 = harness_low(o.a, o.count_a, low), o.b16 = harness_low(o.b, o.count_b, low);
    o.c16 = harness_low(o.c, o.count_c, low), o.bias16 = harness_low(o.bias, p->n, low);
    return o;
}

static void operands_free(operands *o)
{
    free(o->a), free(o->b), free(o->c), free(o->bias);
    free(o->a16), free(o->b16), free(o->c16), free(o->bias16);
}

// Runs `fast` and the reference on equal inputs. Every element of c, including those between the
// rows, must agree within rounding.
static void assert_product(const cpu_context *x, cpu_kernel fast, kernel_matmul_args p, bool bias)
{
    operands o = operands_make(&p), r = operands_make(&p);
    bool fp32 = p.type == F32;
    p.a = fp32 ? (void *)o.a : o.a16, p.b = fp32 ? (void *)o.b : o.b16;
    if (bias) p.bias = fp32 ? (void *)o.bias : o.bias16;
    kernel_matmul_args reference = p;
    p.c = p.c_type == F32 ? (void *)o.c : o.c16;
    reference.c = p.c_type == F32 ? (void *)r.c : r.c16;
    cpu_kernels kernels;
    ref_kernels_fill(&kernels);
    fast(x, &p);
    kernels.run[K_MATMUL](x, &reference);
    double part = p.c_type == F32    ? 4e-6
                  : p.c_type == BF16 ? 1e-2
                                     : 1.2e-3,
           size = 1 + sqrt((double)p.k);
    for (int64_t i = 0; i < o.count_c; i++) {
        double got = ref_load(p.c, i, p.c_type), want = ref_load(reference.c, i, p.c_type);
        if (!(fabs(got - want) <= part * (size + fabs(want))))
            fail_msg("%ldx%ldx%ld %s%s element %ld is %.8g, not %.8g", (long)p.m, (long)p.n,
                     (long)p.k, p.trans_a ? "T" : "N", p.trans_b ? "T" : "N", (long)i, got, want);
    }
    operands_free(&o);
    operands_free(&r);
}

// All storage orders of all shapes, with and without bias and accumulation, dense and strided.
static void check_all(cpu_kernel fast, dtype type, dtype c_type, int threads)
{
    cpu_context x = harness_open(threads);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bool large = shapes[i].m * shapes[i].n * shapes[i].k > 1000000; // the reference is slow
        for (int flags = large ? 28 : 0; flags < 32; flags++) {
            kernel_matmul_args p = {.m = shapes[i].m,
                                    .n = shapes[i].n,
                                    .k = shapes[i].k,
                                    .type = type,
                                    .c_type = c_type,
                                    .trans_a = flags & 1,
                                    .trans_b = flags & 2,
                                    .accumulate = flags & 4};
            int64_t pad = flags & 16 ? PAD : 0;
            p.lda = (p.trans_a ? p.m : p.k) + pad;
            p.ldb = (p.trans_b ? p.k : p.n) + pad;
            p.ldc = p.n + pad;
            assert_product(&x, fast, p, flags & 8);
        }
    }
    cpu_context_close(&x);
}

static void fp32_products_equal_the_reference(void **state)
{
    (void)state;
    check_all(cpu_matmul, F32, F32, 1);
    check_all(cpu_matmul, F32, F32, 3);
}

static void bf16_products_equal_the_reference(void **state)
{
    (void)state;
    check_all(cpu_matmul, BF16, BF16, 1);
    check_all(cpu_matmul, BF16, F32, 2);
}

static void fp16_products_equal_the_reference(void **state)
{
    (void)state;
    check_all(cpu_matmul, F16, F16, 1);
    check_all(cpu_matmul, F16, F32, 2);
}

static void portable(const cpu_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    if (p->m > 0 && p->n > 0) cpu_product(x, p);
}

static void portable_products_of_all_types_equal_the_reference(void **state)
{
    (void)state;
    check_all(portable, F32, F32, 1);
    check_all(portable, BF16, BF16, 2);
    check_all(portable, BF16, F32, 1);
    check_all(portable, F16, F16, 2);
    check_all(portable, F16, F32, 1);
}

static void packed(const cpu_context *x, const void *args)
{
    const kernel_matmul_args *p = args;
    if (p->m <= 0 || p->n <= 0) return;
    if (p->k <= 0 || x->level < CPU_AVX2) {
        cpu_matmul(x, args);
    } else {
        (x->level >= CPU_AVX512 ? vec_product_avx512 : vec_product_avx2)(x, p);
    }
}

static void packed_products_of_all_types_equal_the_reference(void **state)
{
    (void)state;
    check_all(packed, F32, F32, 2);
    check_all(packed, BF16, BF16, 3);
    check_all(packed, BF16, F32, 1);
    check_all(packed, F16, F16, 2);
}

static void a_product_repeats_bit_for_bit(void **state)
{
    (void)state;
    cpu_context x = harness_open(2);
    for (dtype type = F32; type <= F16; type++) {
        kernel_matmul_args p = {.m = 130,
                                .n = 257,
                                .k = 300,
                                .lda = 130,
                                .ldb = 300,
                                .ldc = 257,
                                .type = type,
                                .c_type = F32,
                                .trans_a = true,
                                .trans_b = true};
        operands o = operands_make(&p);
        float *again = harness_zeros(o.count_c);
        p.a = type == F32 ? (void *)o.a : o.a16, p.b = type == F32 ? (void *)o.b : o.b16;
        p.c = o.c;
        cpu_matmul(&x, &p);
        p.c = again;
        cpu_matmul(&x, &p);
        assert_memory_equal(o.c, again, sizeof(float) * (size_t)o.count_c);
        free(again);
        operands_free(&o);
    }
    cpu_context_close(&x);
}

// The result does not depend on the team, neither by a division of k nor by other blocks.
static void products_do_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    static const sizes cut[] = {{64, 64, 900}, {7, 1030, 50}, {800, 20, 390}, {130, 257, 300}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        for (int flags = 0; flags < 8; flags++) {
            kernel_matmul_args p = {.m = cut[i].m,
                                    .n = cut[i].n,
                                    .k = cut[i].k,
                                    .type = F32,
                                    .c_type = F32,
                                    .trans_a = flags & 1,
                                    .trans_b = flags & 2,
                                    .accumulate = flags & 4};
            p.lda = p.trans_a ? p.m : p.k, p.ldb = p.trans_b ? p.k : p.n, p.ldc = p.n;
            operands o = operands_make(&p);
            p.a = o.a, p.b = o.b, p.bias = o.bias;
            float *first = NULL;
            for (int threads = 1; threads <= 3; threads++) {
                cpu_context x = harness_open(threads);
                float *c = harness_random(o.count_c, 3);
                p.c = c;
                if (x.level >= CPU_AVX2) cpu_matmul(&x, &p);
                if (first) assert_memory_equal(first, c, sizeof(float) * (size_t)o.count_c);
                if (first) free(c);
                if (!first) first = c;
                cpu_context_close(&x);
            }
            free(first);
            operands_free(&o);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fp32_products_equal_the_reference),
        cmocka_unit_test(bf16_products_equal_the_reference),
        cmocka_unit_test(fp16_products_equal_the_reference),
        cmocka_unit_test(portable_products_of_all_types_equal_the_reference),
        cmocka_unit_test(packed_products_of_all_types_equal_the_reference),
        cmocka_unit_test(a_product_repeats_bit_for_bit),
        cmocka_unit_test(products_do_not_depend_on_the_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

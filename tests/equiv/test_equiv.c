// test_equiv.c -- every way of training computes the same: compares points of the matrix that cover
// every pair of values with their references. `./test --nightly` runs the full matrix.
#include "equiv/matrix_cover.h"
#include "equiv/matrix_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { LIMIT_S = 900, SAMPLE = 24, COVER = false };
#else
enum { LIMIT_S = 600, SAMPLE = 40, COVER = true };
#endif

// Points that once failed. Each failed for a different reason.
static const char *const ONCE_WRONG[] = {
    "file=g", // the norm included another bucket's gradients
    "model=llama,shard=2,inner=zero3,file=ogw",
    "replicate=3,outer=zero1,pp=2,schedule=zb",                  // the loss was summed by stage
    "replicate=2,shard=2,outer=ddp,inner=zero3,micros=1,file=g", // dp_replicate was not summed
    "replicate=2,shard=2,outer=zero3,inner=ddp,micros=1",        // dp_replicate was summed first
    "pp=4,file=o,groups=frozen", // the frozen stage did not come to a barrier
};

// Parameter groups together with several other ways of training.
static const char *const COMBINED[] = {
    "cp=2,tp=2sp,pp=2,groups=frozen",
    "cp=2,pp=2,shard=2,inner=zero3,schedule=zb,groups=frozen,file=o",
    "model=llama,cp=2,shard=2,tp=2,inner=zero2,groups=settings,file=og,recompute=full",
    "model=llama_tied,cp=4,pp=2,inner=zero1,schedule=interleaved,groups=settings",
    "cp=2,replicate=2,tp=2sp,inner=zero3,groups=mlp_ddp,recompute=selective,precision=bf16",
    "model=llama,cp=2,pp=2,tp=2,inner=zero1,groups=mlp_zero3,schedule=gpipe,file=og",
    "model=llama_tied,cp=2,replicate=2,shard=2,outer=zero1,inner=zero3,groups=frozen,file=g",
    "tp=2sp,shard=2,pp=2,inner=zero3,groups=frozen,file=ogw,precision=fp16",
};

// Ranks with micro-batches of unequal size, under every policy and together with other ways of training.
static const char *const SPLIT[] = {
    "split=3_1,replicate=2,outer=zero1",
    "split=3_1,shard=2,inner=zero2",
    "split=3_1,shard=2,inner=zero3",
    "split=3_1,shard=2,inner=zero2,no_sync=false",
    "split=3_1,shard=2,inner=zero3,no_sync=false,reshard=0",
    "split=3_1,shard=2,inner=zero3,file=ogw,recompute=full",
    "split=3_1,shard=2,pp=2,inner=zero1,schedule=interleaved",
    "split=3_1,shard=2,cp=2,tp=2,inner=zero3",
    "split=3_1,shard=2,inner=zero3,precision=fp16,groups=settings",
    "split=1_2_1,replicate=3,micros=3",
    "split=1_2_1,shard=3,inner=zero3,no_sync=false,model=llama_tied",
    "split=1_2_1,shard=3,pp=2,inner=zero2,schedule=zb,precision=bf16,micros=8",
};

static void add_named(points *l, const char *const *name, size_t count)
{
    point p;
    for (size_t i = 0; i < count; i++) {
        if (!matrix_parse(name[i], &p) || !matrix_legal(&p)) fail_msg("%s is no point", name[i]);
        points_add(l, &p);
    }
}

static points chosen(void)
{
    points l = {NULL, 0, 0};
    add_named(&l, ONCE_WRONG, sizeof ONCE_WRONG / sizeof *ONCE_WRONG);
    add_named(&l, COMBINED, sizeof COMBINED / sizeof *COMBINED);
    add_named(&l, SPLIT, sizeof SPLIT / sizeof *SPLIT);
    if (COVER) matrix_cover(&l);
    matrix_sample(&l, SAMPLE, 1);
    return l;
}

// Runs the points, prints each failed one, and returns their number.
static int count_failed(const points *l)
{
    char name[MATRIX_NAME];
    trial *t = calloc((size_t)l->count, sizeof *t);
    const pool_options o = {.jobs = 2, .limit_s = LIMIT_S, .folder = pool_folder()};
    assert_non_null(t);
    for (int i = 0; i < l->count; i++) t[i] = (trial){.point = l->items[i]};
    const int failed = pool_run(&o, t, l->count);
    double seconds = 0;
    for (int i = 0; i < l->count; i++) {
        seconds += t[i].seconds;
        matrix_print(&t[i].point, name);
        if (!t[i].passed) print_error("%s: %s\n", name, t[i].why);
    }
    print_message("%d points, %d failed, %.3f s each\n", l->count, failed, seconds / l->count);
    free(t);
    return failed;
}

static void test_every_way_of_training_computes_the_same(void **state)
{
    (void)state;
    points l = chosen();
    const int failed = count_failed(&l);
    points_clear(&l);
    assert_int_equal(failed, 0);
}

// The covering points have every pair of values that many more random points have.
static void test_every_legal_pair_of_values_is_covered(void **state)
{
    (void)state;
    points cover = {NULL, 0, 0}, many = {NULL, 0, 0};
    int missing;
    matrix_cover(&cover);
    matrix_sample(&many, 2000, 9);
    matrix_core(&many);
    const int pairs = matrix_pairs(&many, &cover, &missing);
    print_message("%d points cover %d pairs of values\n", cover.count, pairs);
    assert_true(pairs > 1000);
    assert_int_equal(missing, 0);
    points_clear(&cover);
    points_clear(&many);
}

static void test_a_point_has_a_name(void **state)
{
    (void)state;
    points l = {NULL, 0, 0};
    char name[MATRIX_NAME];
    point p;
    matrix_sample(&l, 100, 3);
    for (int i = 0; i < l.count; i++) {
        matrix_print(&l.items[i], name);
        assert_true(matrix_parse(name, &p));
        assert_memory_equal(&p, &l.items[i], sizeof p);
    }
    assert_false(matrix_parse("tp=3", &p));
    assert_true(matrix_parse("replicate=2,shard=2,outer=zero1,inner=ddp", &p));
    assert_true(matrix_legal(&p));
    assert_true(matrix_parse("replicate=2,shard=2,outer=zero3,inner=zero1", &p));
    assert_false(matrix_legal(&p));
    points_clear(&l);
}

// 7 of 25 pairs of policies are illegal: the inner policy shards some state, but not a state that the
// outer policy shards.
static void test_eighteen_policy_pairs_are_legal(void **state)
{
    (void)state;
    int legal = 0;
    for (int outer = 0; outer < 5; outer++)
        for (int inner = 0; inner < 5; inner++) {
            const point p = {
                {[DIM_REPLICATE] = 1, [DIM_SHARD] = 1, [DIM_OUTER] = outer, [DIM_INNER] = inner}};
            legal += matrix_legal(&p);
        }
    assert_int_equal(legal, 18);
}

// A point that exceeds its time limit fails and is named. The other points still run.
static void test_a_hanging_run_is_named(void **state)
{
    (void)state;
    trial t[2] = {{.point = {{0}}}, {.point = {{[DIM_SHARD] = 1, [DIM_INNER] = 3}}}};
    const pool_options o = {.jobs = 1, .limit_s = 1e-9, .folder = pool_folder()};
    assert_int_equal(pool_run(&o, t, 2), 2);
    assert_non_null(strstr(t[1].why, "still running"));
}

static void test_a_difference_is_detected(void **state)
{
    (void)state;
    static outcome a, b;
    const matrix_run how = {.folder = pool_folder()};
    const point p = {{[DIM_SHARD] = 1, [DIM_INNER] = 3}};
    matrix_execute(&p, &how, &a);
    assert_int_equal(a.result, OK);
    b = a;
    assert_true(matrix_compare(&b, &a).same);
    b.weight[b.weights - 1] *= 1.0001f;
    assert_false(matrix_compare(&b, &a).same);
    assert_true(matrix_compare(&b, &a).weights > 0);
    b = a;
    b.loss[MATRIX_STEPS - 1] += 1e-4;
    assert_true(matrix_compare(&b, &a).loss > 1e-5);
    assert_true(a.loss[MATRIX_STEPS - 1] != a.loss[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_point_has_a_name),
        cmocka_unit_test(test_eighteen_policy_pairs_are_legal),
        cmocka_unit_test(test_every_legal_pair_of_values_is_covered),
        cmocka_unit_test(test_a_difference_is_detected),
        cmocka_unit_test(test_a_hanging_run_is_named),
        cmocka_unit_test(test_every_way_of_training_computes_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

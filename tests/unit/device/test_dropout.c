// test_dropout.c -- a dropout that adds its result to the residual, and one that reads the gradient of
// an fp32 residual, have the bits of the launches that they stand for, at every level of this machine.
#include "unit/device/harness.h"

enum { ROWS = 7, COLS = 93, COUNT = ROWS * COLS };

static cpu_context context;
static cpu_kernels kernels;

static int open_context(void **state)
{
    (void)state;
    context = harness_open(2);
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    cpu_context_close(&context);
    return 0;
}

// Random numbers of `type`. The caller frees them.
static void *numbers(dtype type, uint64_t seed)
{
    float *x = harness_random(COUNT, seed);
    void *y = calloc(COUNT, sizeof(float));
    assert_non_null(y);
    dtype_convert(y, type, x, F32, COUNT);
    free(x);
    return y;
}

static kernel_dropout_args masked(const void *x, void *y, dtype type)
{
    return (kernel_dropout_args){.rows = ROWS,
                                 .cols = COLS,
                                 .row_tokens = kernel_tokens_from(ROWS, 0),
                                 .x = x,
                                 .y = y,
                                 .p = 0.3f,
                                 .draw = {.seed = 3, .node = 1, .row0 = 11},
                                 .type = type};
}

// y = a + dropout(x): one launch, and a dropout and a sum. y overwrites the residual where in_place.
static void check_sum(dtype type, bool residual_fp32, bool in_place)
{
    const dtype residual = kernel_residual_type(type, residual_fp32);
    void *x = numbers(type, 1), *a = numbers(residual, 2), *want = numbers(residual, 3),
         *have = numbers(residual, 4), *dropped = numbers(type, 5);
    const kernel_dropout_args first = masked(x, dropped, type);
    kernels.run[K_DROPOUT](&context, &first);
    kernels.run[K_ADD](&context, &(kernel_add_args){.count = COUNT,
                                                    .a = a,
                                                    .b = dropped,
                                                    .y = want,
                                                    .alpha = 1,
                                                    .beta = 1,
                                                    .type = type,
                                                    .residual_fp32 = residual_fp32});
    kernel_dropout_args both = masked(x, in_place ? a : have, type);
    both.residual = a, both.residual_fp32 = residual_fp32;
    kernels.run[K_DROPOUT](&context, &both);
    assert_memory_equal(want, both.y, COUNT * dtype_bytes(residual));
    free(x), free(a), free(want), free(have), free(dropped);
}

// dx = dropout(dy rounded to type), where dy is F32: one launch, and a conversion and a dropout.
static void check_gradient(dtype type)
{
    void *dy = numbers(F32, 1), *low = numbers(type, 2), *want = numbers(type, 3),
         *have = numbers(type, 4);
    kernels.run[K_CONVERT](
        &context, &(kernel_convert_args){
                      .count = COUNT, .src = dy, .dst = low, .src_type = F32, .dst_type = type});
    const kernel_dropout_args second = masked(low, want, type);
    kernels.run[K_DROPOUT](&context, &second);
    kernel_dropout_args both = masked(dy, have, type);
    both.residual_fp32 = true;
    kernels.run[K_DROPOUT](&context, &both);
    assert_memory_equal(want, have, COUNT * dtype_bytes(type));
    free(dy), free(low), free(want), free(have);
}

static void check_all(void)
{
    const dtype types[] = {F32, BF16, F16};
    for (int i = 0; i < 3; i++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            check_sum(types[i], false, in_place);
            check_sum(types[i], true, in_place);
        }
        check_gradient(types[i]);
    }
}

static void one_launch_has_the_bits_of_two(void **state)
{
    (void)state;
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best; level++) {
        cpu_kernels_fill(&kernels, level);
        check_all();
    }
}

// Launches for the left and the right columns of x give what one launch gives for all.
static void columns_have_the_words_of_the_full_rows(void **state)
{
    (void)state;
    enum { LEFT = 24, RIGHT = COLS - LEFT };
    float *x = numbers(F32, 1), *want = numbers(F32, 2), part[ROWS * COLS], have[ROWS * COLS];
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best; level++) {
        cpu_kernels_fill(&kernels, level);
        const kernel_dropout_args all = masked(x, want, F32);
        kernels.run[K_DROPOUT](&context, &all);
        for (int side = 0; side < 2; side++) {
            const int first = side ? LEFT : 0, cols = side ? RIGHT : LEFT;
            for (int r = 0; r < ROWS; r++)
                memcpy(part + r * cols, x + r * COLS + first, (size_t)cols * sizeof *part);
            kernel_dropout_args a = masked(part, have, F32);
            a.cols = cols, a.first_col = first, a.full_cols = COLS;
            kernels.run[K_DROPOUT](&context, &a);
            for (int r = 0; r < ROWS; r++)
                assert_memory_equal(have + r * cols, want + r * COLS + first,
                                    (size_t)cols * sizeof *have);
        }
    }
    free(x), free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_launch_has_the_bits_of_two),
        cmocka_unit_test(columns_have_the_words_of_the_full_rows),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}

// test_norm_grad.c -- a norm's gradient kernel computes the arrays that are wanted. An array that is
// left out changes no bit of the others, in no form of the kernel, and what only it needs is not read.
#include "vec_check.h"

enum { WANTS_DX = 1, WANTS_DGAIN = 2, WANTS_DBIAS = 4, WANTS_ALL = 7, OUTPUTS = 3 };

typedef struct norm_shape {
    int64_t rows, cols;
    dtype type;
    bool residual_fp32, is_rms, accumulate;
} norm_shape;

// Arrays 0 … 2 of the space are dx, dgain and dbias, whether they are wanted or not.
static kernel_call describe(space *s, const norm_shape *h, int wants)
{
    const int64_t count = h->rows * h->cols;
    const dtype residual = kernel_residual_type(h->type, h->residual_fp32);
    void *dx = space_random(s, count, residual, 1, "dx");
    float *dgain = space_random(s, h->cols, F32, 1, "dgain");
    float *dbias = space_random(s, h->cols, F32, 1, "dbias");
    const void *dy = space_random(s, count, h->type, 1, NULL);
    const void *x = space_random(s, count, residual, 1, NULL);
    const void *gain = space_random(s, h->cols, h->type, 1, NULL);
    const float *mean = space_random(s, h->rows, F32, 0.1f, NULL);
    const float *rstd = space_random(s, h->rows, F32, 1, NULL);
    const bool reads_x = wants & (WANTS_DX | WANTS_DGAIN);
    return (kernel_call){.kind = K_NORM_GRAD,
                         .u.norm_grad = {.rows = h->rows,
                                         .cols = h->cols,
                                         .dy = dy,
                                         .x = reads_x ? x : NULL,
                                         .gain = wants & WANTS_DX ? gain : NULL,
                                         .mean = reads_x && !h->is_rms ? mean : NULL,
                                         .rstd = reads_x ? rstd : NULL,
                                         .dx = wants & WANTS_DX ? dx : NULL,
                                         .dgain = wants & WANTS_DGAIN ? dgain : NULL,
                                         .dbias = wants & WANTS_DBIAS ? dbias : NULL,
                                         .is_rms = h->is_rms,
                                         .accumulate_dx = h->accumulate,
                                         .accumulate_dgain = h->accumulate,
                                         .accumulate_dbias = h->accumulate,
                                         .type = h->type,
                                         .residual_fp32 = h->residual_fp32}};
}

static void check_level(const norm_shape *h, cpu_level level)
{
    space all = {.used = 0}, before = {.used = 0};
    describe(&before, h, WANTS_ALL);
    kernel_call call = describe(&all, h, WANTS_ALL);
    run_on(&vec_two, &call, level);
    for (int wants = 0; wants <= WANTS_ALL; wants++) {
        space some = {.used = 0};
        call = describe(&some, h, wants);
        run_on(&vec_one, &call, level);
        for (int i = 0; i < OUTPUTS; i++) {
            const space_array *want = wants >> i & 1 ? &all.array[i] : &before.array[i];
            if (memcmp(some.array[i].data, want->data,
                       dtype_bytes(want->type) * (size_t)want->count) != 0)
                fail_msg("[%ld, %ld] %s, level %d, wanted %d: %s differs", (long)h->rows,
                         (long)h->cols, dtype_name(h->type), level, wants, want->name);
        }
        space_free(&some);
    }
    space_free(&all);
    space_free(&before);
}

static void arrays_that_are_left_out_change_no_bit_of_the_others(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {17, 33}, {130, 64}, {70, 257}, {2, 20000}};
    static const dtype types[] = {F32, BF16, F16};
    cpu_features features;
    cpu_features_read(&features);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int v = 0; v < 3 * 8; v++) {
            const norm_shape h = {sizes[i][0], sizes[i][1], types[v / 8], v & 1, v & 2, v & 4};
            for (cpu_level l = CPU_GENERIC; l <= features.best && l <= CPU_AVX512; l++)
                check_level(&h, l);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_that_are_left_out_change_no_bit_of_the_others),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}

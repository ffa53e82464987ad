// test_add_norm.c -- the norm of a sum is one call with the bits of K_ADD and K_NORM, at every level of
// instructions, with any number of threads, and where the results take the place of the operands.
#include "vec_check.h"

// Calls of the same numbers: in one call, in one call in place, and in two.
typedef enum form { ONE, IN_PLACE, TWO, FORMS } form;

typedef struct shape {
    int64_t rows, cols;
    dtype type;
    bool fp32, is_rms;
} shape;

// The arrays of a form. The sum is array 0, and y array 1.
static kernel_call describe(space *s, const shape *h, form how)
{
    const dtype residual = kernel_residual_type(h->type, h->fp32);
    const int64_t count = h->rows * h->cols;
    void *x = space_random(s, count, residual, 1, "sum"),
         *b = space_random(s, count, h->type, 1, "y");
    kernel_norm_args a = {.rows = h->rows,
                          .cols = h->cols,
                          .x = x,
                          .sum = x,
                          .addend = b,
                          .y = b,
                          .alpha = 0.8f,
                          .beta = 1.7f,
                          .gain = space_random(s, h->cols, h->type, 1, NULL),
                          .bias = space_random(s, h->cols, h->type, 1, NULL),
                          .rstd = space_random(s, h->rows, F32, 1, "rstd"),
                          .mean = h->is_rms ? NULL : space_random(s, h->rows, F32, 1, "mean"),
                          .eps = 1e-5f,
                          .is_rms = h->is_rms,
                          .type = h->type,
                          .residual_fp32 = h->fp32};
    if (how != IN_PLACE) a.sum = space_random(s, count, residual, 1, NULL);
    if (how != IN_PLACE) a.y = space_random(s, count, h->type, 1, NULL);
    return (kernel_call){.kind = K_NORM, .u.norm = a};
}

// Runs the call in its form and leaves the results in arrays 0 and 1.
static void run(cpu_context *x, cpu_level level, kernel_call c, form how, const space *s)
{
    const kernel_norm_args a = c.u.norm;
    const int64_t count = a.rows * a.cols;
    if (how == TWO) {
        kernel_call sum = {.kind = K_ADD,
                           .u.add = {.count = count,
                                     .a = a.x,
                                     .b = a.addend,
                                     .y = a.sum,
                                     .alpha = a.alpha,
                                     .beta = a.beta,
                                     .type = a.type,
                                     .residual_fp32 = a.residual_fp32}};
        run_on(x, &sum, level);
        c.u.norm.x = a.sum, c.u.norm.addend = NULL, c.u.norm.sum = NULL;
    }
    run_on(x, &c, level);
    if (how == IN_PLACE) return;
    memcpy(s->array[0].data, a.sum, dtype_bytes(s->array[0].type) * (size_t)count);
    memcpy(s->array[1].data, a.y, dtype_bytes(s->array[1].type) * (size_t)count);
}

static void check(const shape *h, cpu_level level)
{
    space want = {.used = 0};
    run(&vec_one, level, describe(&want, h, TWO), TWO, &want);
    for (int i = 0; i < 2 * TWO; i++) {
        space have = {.used = 0};
        const form how = (form)(i % TWO);
        run(i < TWO ? &vec_one : &vec_two, level, describe(&have, h, how), how, &have);
        for (int k = 0; k < want.used; k++) {
            const space_array *a = &want.array[k], *b = &have.array[k];
            if (a->output && memcmp(a->data, b->data, dtype_bytes(a->type) * (size_t)a->count) != 0)
                fail_msg("%s of [%ld, %ld] %s differs, level %d, form %d", a->name, (long)h->rows,
                         (long)h->cols, dtype_name(h->type), level, how);
        }
        space_free(&have);
    }
    space_free(&want);
}

static void one_call_has_the_bits_of_two(void **state)
{
    (void)state;
    static const int64_t cols[] = {1, 7, 16, 33, 768, 1001};
    cpu_features features;
    cpu_features_read(&features);
    for (cpu_level level = CPU_GENERIC; level <= features.best && level <= CPU_AVX512; level++)
        for (int i = 0; i < 6 * 12; i++) {
            const shape h = {i % 5 * 9, cols[i / 12], (dtype)(F32 + i % 3), i / 3 % 2, i / 6 % 2};
            check(&h, level);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_call_has_the_bits_of_two)};
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}

// test_unpack.c -- the kernel that unpacks NF4 rows: the reference gives the values of base/nf4.h, and the vector forms have
// the bits of the reference.
#include "vec_check.h"

#include "base/nf4.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
} shape;

// Whatever the bytes of a row are, they are codes.
static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_UNPACK_NF4};
    c.u.unpack_nf4 = (kernel_unpack_nf4_args){
        .rows = h->rows,
        .cols = h->cols,
        .packed = space_random(s, h->rows * nf4_row_words(h->cols), F32, 1, NULL),
        .y = space_random(s, h->rows * h->cols, h->type, 1, "y"),
        .type = h->type};
    return c;
}

static const shape SHAPES[] = {
    {0, 64, F32},    {1, 64, F32},   {3, 64, BF16},   {2, 128, F16},
    {5, 576, BF16},  {70, 896, F32}, {2, 16448, F32}, // more maxima than one
    {300, 192, BF16}};

static void vector_forms_equal_the_reference(void **state)
{
    (void)state;
    char text[64];
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        snprintf(text, sizeof text, "%ld x %ld %s", (long)SHAPES[i].rows, (long)SHAPES[i].cols,
                 dtype_name(SHAPES[i].type));
        check_kernel(describe, &SHAPES[i], text);
    }
}

// 16-bit results are compared with a tolerance above: here all bits count.
static void values_are_those_of_unpacked_rows(void **state)
{
    (void)state;
    static const cpu_level levels[] = {CPU_GENERIC, CPU_AVX2, CPU_AVX512};
    cpu_features features;
    cpu_features_read(&features);
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (int l = 0; l < 3 && levels[l] <= features.best; l++) {
            space s = {.used = 0};
            const shape *h = &SHAPES[i];
            kernel_call c = describe(&s, h);
            const kernel_unpack_nf4_args *p = &c.u.unpack_nf4;
            float *row = malloc((size_t)h->cols * sizeof *row);
            run_on(&vec_two, &c, levels[l]);
            for (int64_t r = 0; r < h->rows; r++) {
                uint16_t low[16448];
                nf4_unpack_row((const uint32_t *)p->packed + r * nf4_row_words(h->cols), h->cols,
                               row);
                const size_t each = dtype_bytes(h->type);
                const char *y = (const char *)p->y + (size_t)(r * h->cols) * each;
                dtype_convert(h->type == F32 ? (void *)row : low, h->type, row, F32,
                              (size_t)h->cols);
                assert_memory_equal(y, h->type == F32 ? (void *)row : low, (size_t)h->cols * each);
            }
            free(row);
            space_free(&s);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_forms_equal_the_reference),
        cmocka_unit_test(values_are_those_of_unpacked_rows),
    };
    return cmocka_run_group_tests(tests, vec_open, vec_close);
}

// Elements of every kind that GGUF files may hold, compared bit for bit with gguf's Python package
// (tests/golden/make_gguf.py).
#include "store/gguf.h"
#include "store/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN TESTS_DIR "/golden/gguf/"

static void blocks_have_the_bits_of_the_python_package(void **state)
{
    (void)state;
    err e = {.code = OK};
    gguf *g = NULL;
    safetensors *golden = NULL;
    assert_int_equal(gguf_open(GOLDEN "blocks.gguf", &g, &e), OK);
    assert_int_equal(safetensors_open(GOLDEN "blocks.safetensors", &golden, &e), OK);
    assert_int_equal(gguf_tensor_count(g), 16);
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        const gguf_tensor *t = gguf_tensor_get(g, i);
        const safetensors_tensor *want = safetensors_find(golden, t->name);
        const int64_t n = t->dim[0] * t->dim[1];
        float *out = malloc((size_t)n * sizeof *out);
        assert_non_null(want);
        assert_int_equal(want->bytes, (uint64_t)n * sizeof *out);
        gguf_dequantize(t->kind, t->data, 0, n, out);
        if (memcmp(out, want->data, want->bytes) != 0) fail_msg("%s differs", t->name);
        // A run that begins and ends within blocks.
        const int64_t first = t->kind->elements / 3, count = n - 2 * first - 1;
        gguf_dequantize(t->kind, t->data, first, count, out);
        if (memcmp(out, (const float *)want->data + first, (size_t)count * sizeof *out) != 0)
            fail_msg("a part of %s differs", t->name);
        free(out);
    }
    safetensors_close(golden);
    gguf_close(g);
}

static void check_quantized(const safetensors *golden, uint32_t number, const char *name)
{
    const safetensors_tensor *in = safetensors_find(golden, "quantize.in"),
                             *want = safetensors_find(golden, name);
    const gguf_kind *kind = gguf_kind_find(number);
    uint8_t *out = malloc(want->bytes);
    float *x = malloc(in->bytes);
    memcpy(x, in->data, in->bytes);
    gguf_quantize(kind, x, (int64_t)(in->bytes / sizeof *x), out);
    if (memcmp(out, want->data, want->bytes) != 0) fail_msg("%s differs", name);
    free(x);
    free(out);
}

static void numbers_are_rounded_as_the_python_package_rounds_them(void **state)
{
    (void)state;
    err e = {.code = OK};
    safetensors *golden = NULL;
    assert_int_equal(safetensors_open(GOLDEN "blocks.safetensors", &golden, &e), OK);
    check_quantized(golden, GGUF_Q8_0, "quantize.Q8_0");
    check_quantized(golden, GGUF_BF16, "quantize.BF16");
    check_quantized(golden, GGUF_F16, "quantize.F16");
    safetensors_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_the_bits_of_the_python_package),
        cmocka_unit_test(numbers_are_rounded_as_the_python_package_rounds_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

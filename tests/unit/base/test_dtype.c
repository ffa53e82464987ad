// Tests the conversions of element types against exact arithmetic in double.
#include "base/dtype.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// Returns the value of a 16-bit pattern by the definition of the format.
static double half_meaning(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31) v = fraction ? NAN : INFINITY;
    return h & 0x8000 ? -v : v;
}

static void every_16_bit_number_converts_to_float_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        double meaning = half_meaning((uint16_t)h);
        float f = fp16_to_float((uint16_t)h);
        if (isnan(meaning)) {
            assert_true(isnan(f));
            assert_true(isnan(fp16_to_float(float_to_fp16(f))));
        } else {
            assert_true((double)f == meaning && !signbit(f) == !signbit(meaning));
            assert_int_equal(float_to_fp16(f), h);
        }
    }
}

static void narrowing_rounds_to_nearest_even_at_every_boundary(void **state)
{
    (void)state;
    // Rounds numbers just below, at and just above the middle of two adjacent fp16 numbers.
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float a = fp16_to_float((uint16_t)h), b = fp16_to_float((uint16_t)(h + 1));
        float middle = a + (b - a) / 2;
        assert_int_equal(float_to_fp16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(float_to_fp16(nextafterf(middle, 0)), h);
        assert_int_equal(float_to_fp16(nextafterf(middle, b)), h + 1);
    }
    assert_int_equal(float_to_fp16(65519.99f), 0x7bff);
    assert_int_equal(float_to_fp16(65520.0f), 0x7c00);
    assert_int_equal(float_to_fp16(-1e30f), 0xfc00);
    for (uint32_t h = 0; h < 0x7f7f; h++) {
        uint32_t middle = h << 16 | 0x8000;
        float f;
        memcpy(&f, &middle, 4);
        assert_int_equal(float_to_bf16(f), h & 1 ? h + 1 : h);
        assert_int_equal(float_to_bf16(nextafterf(f, INFINITY)), h + 1);
    }
    assert_int_equal(float_to_bf16(INFINITY), 0x7f80);
    assert_true(isnan(bf16_to_float(float_to_bf16(NAN))));
}

static void arrays_convert_like_their_elements(void **state)
{
    (void)state;
    enum { N = 1003 };
    static float f[N], back[N];
    static double d[N];
    static uint16_t b[N], h[N], other[N];
    for (int i = 0; i < N; i++) f[i] = ldexpf((float)(i * 7919 % 2003 - 1001) / 37, i % 40 - 30);
    f[5] = INFINITY, f[6] = -INFINITY, f[7] = 1e-30f, f[8] = 3e38f;
    dtype_convert(b, BF16, f, F32, N);
    dtype_convert(h, F16, f, F32, N);
    dtype_convert(d, F64, f, F32, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(b[i], float_to_bf16(f[i]));
        assert_int_equal(h[i], float_to_fp16(f[i]));
        assert_true(d[i] == (double)f[i]);
    }
    dtype_convert(back, F32, h, F16, N);
    for (int i = 0; i < N; i++) assert_true(back[i] == fp16_to_float(h[i]));
    dtype_convert(back, F32, b, BF16, N);
    for (int i = 0; i < N; i++) assert_true(back[i] == bf16_to_float(b[i]));
    dtype_convert(back, F32, d, F64, N);
    assert_memory_equal(back, f, sizeof f);
    dtype_convert(other, BF16, d, F64, N);
    assert_memory_equal(other, b, sizeof b);
    dtype_convert(other, F16, d, F64, N);
    assert_memory_equal(other, h, sizeof h);
    dtype_convert(other, BF16, h, F16, N);
    for (int i = 0; i < N; i++) assert_int_equal(other[i], float_to_bf16(fp16_to_float(h[i])));
    dtype_convert(other, F16, b, BF16, N);
    for (int i = 0; i < N; i++) assert_int_equal(other[i], float_to_fp16(bf16_to_float(b[i])));
    dtype_convert(d, F64, h, F16, N);
    for (int i = 0; i < N; i++) assert_true(d[i] == (double)fp16_to_float(h[i]));
    dtype_convert(d, F64, b, BF16, N);
    for (int i = 0; i < N; i++) assert_true(d[i] == (double)bf16_to_float(b[i]));
    dtype_convert(back, F32, f, F32, N);
    assert_memory_equal(back, f, sizeof f);
    dtype_convert(back, F32, f, F32, 0);
}

static void double_to_16_bits_rounds_once(void **state)
{
    (void)state;
    // d is just above the middle of two adjacent numbers. A rounding to float would give the middle.
    double d = 1 + ldexp(1, -11) + ldexp(1, -40);
    uint16_t h;
    dtype_convert(&h, F16, &d, F64, 1);
    assert_int_equal(h, 0x3c01);
    d = 1 + ldexp(1, -8) + ldexp(1, -40);
    dtype_convert(&h, BF16, &d, F64, 1);
    assert_int_equal(h, 0x3f81);
    d = -(1 + ldexp(3, -8) - ldexp(1, -40));
    dtype_convert(&h, BF16, &d, F64, 1);
    assert_int_equal(h, 0xbf81);
    d = 1e300;
    dtype_convert(&h, BF16, &d, F64, 1);
    assert_int_equal(h, 0x7f80);
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(dtype_name(BF16), "bf16");
    assert_string_equal(dtype_name(I32), "int32");
    assert_int_equal(dtype_bytes(F64), 8);
    assert_int_equal(dtype_bytes(U16), 2);
    assert_int_equal(dtype_bytes(U8), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_16_bit_number_converts_to_float_and_back),
        cmocka_unit_test(narrowing_rounds_to_nearest_even_at_every_boundary),
        cmocka_unit_test(arrays_convert_like_their_elements),
        cmocka_unit_test(double_to_16_bits_rounds_once),
        cmocka_unit_test(types_have_names_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// test_nf4.c -- NF4 with double quantisation has the bytes of bitsandbytes, and packed rows unpack to its values wherever a
// matrix is sharded. tests/golden/make_nf4.py writes what bitsandbytes gives.
#include "base/dtype.h"
#include "base/nf4.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The formulas of make_nf4.py.
static float *numbers_of(int64_t count, dtype type)
{
    float *out = malloc((size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t word = ((uint64_t)i * 0x9E3779B97F4A7C15u) >> 16;
        const float x = (float)(word * 0xBF58476D1CE4E5B9u >> 40) * 0x1p-24f - 0.5f;
        out[i] = x * x * x;
        if (type == BF16) out[i] = bf16_to_float(float_to_bf16(out[i]));
    }
    return out;
}

static uint64_t digest_of(const void *data, size_t bytes)
{
    const unsigned char *x = data;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i += 2) {
        const uint64_t word = x[i] | (i + 1 < bytes ? (uint64_t)x[i + 1] << 8 : 0);
        sum += (word + 1) * (i / 2 * 0x9E3779B97F4A7C16u + 1);
    }
    return sum;
}

// A quantised matrix.
typedef struct matrix {
    int64_t rows, cols, blocks;
    float *x, *absmax;
    nf4_scales s;
} matrix;

static matrix matrix_open(int64_t rows, int64_t cols, dtype type)
{
    matrix m = {.rows = rows, .cols = cols, .blocks = rows * cols / NF4_BLOCK};
    m.x = numbers_of(rows * cols, type);
    m.absmax = malloc((size_t)m.blocks * sizeof(float));
    for (int64_t b = 0; b < m.blocks; b++) m.absmax[b] = nf4_block_absmax(m.x + b * NF4_BLOCK);
    m.s = (nf4_scales){.mean = nf4_mean(m.absmax, m.blocks),
                       .absmax = m.absmax,
                       .maxima = calloc((size_t)(m.blocks / NF4_GROUP + 1), sizeof(float)),
                       .code = calloc((size_t)m.blocks, 1)};
    return m;
}

static void matrix_close(matrix *m)
{
    free(m->x);
    free(m->absmax);
    free(m->s.maxima);
    free(m->s.code);
}

// Unpacks columns from `first` on, `cols` of each row, which are packed by themselves, into `out` [rows, cols of m]. Writes
// the codes to `codes`, as they lie in the full matrix.
static void pack_columns(const matrix *m, int64_t first, int64_t cols, float *out,
                         unsigned char *codes)
{
    uint32_t *packed = malloc((size_t)nf4_row_words(cols) * 4);
    for (int64_t r = 0; r < m->rows; r++) {
        const int64_t from = r * m->cols + first;
        nf4_pack_row(m->x + from, cols, &m->s, from / NF4_BLOCK, packed);
        nf4_unpack_row(packed, cols, out + from);
        memcpy(codes + from / 2, nf4_row_of(packed, cols / NF4_BLOCK).codes, (size_t)cols / 2);
    }
    free(packed);
}

static uint32_t bits_of(float x)
{
    uint32_t out;
    memcpy(&out, &x, sizeof out);
    return out;
}

static void check_values(const matrix *m, int64_t cols, const uint64_t want[5])
{
    const int64_t count = m->rows * m->cols;
    float *out = malloc((size_t)count * sizeof *out);
    unsigned char *codes = malloc((size_t)count / 2);
    for (int64_t c = 0; c < m->cols; c += cols) pack_columns(m, c, cols, out, codes);
    assert_true(digest_of(codes, (size_t)count / 2) == want[0]);
    assert_true(digest_of(out, (size_t)count * sizeof *out) == want[3]);
    uint16_t *low = malloc((size_t)count * sizeof *low);
    dtype_convert(low, BF16, out, F32, (size_t)count);
    assert_true(digest_of(low, (size_t)count * sizeof *low) == want[4]);
    free(out), free(codes), free(low);
}

static void test_bytes_are_those_of_bitsandbytes(void **state)
{
    (void)state;
    FILE *f = fopen(TESTS_DIR "/golden/nf4.txt", "r");
    long long rows, cols;
    unsigned long long n[5];
    unsigned mean;
    char type[8];
    int lines = 0;
    assert_non_null(f);
    while (fscanf(f, "%lld %lld %7s %u %llu %llu %llu %llu %llu", &rows, &cols, type, &mean, &n[0],
                  &n[1], &n[2], &n[3], &n[4]) == 9) {
        matrix m = matrix_open(rows, cols, strcmp(type, "bf16") == 0 ? BF16 : F32);
        const uint64_t want[5] = {n[0], n[1], n[2], n[3], n[4]};
        // torch sums in fp32.
        assert_true(llabs((long long)bits_of(m.s.mean) - (long long)mean) <= 1);
        memcpy(&m.s.mean, &mean, sizeof mean);
        nf4_quantize_scales(&m.s, m.blocks);
        assert_true(digest_of(m.s.code, (size_t)m.blocks) == want[1]);
        assert_true(digest_of(m.s.maxima, (size_t)((m.blocks + NF4_GROUP - 1) / NF4_GROUP) *
                                              sizeof(float)) == want[2]);
        check_values(&m, m.cols, want);
        for (int64_t parts = 2; parts <= 4; parts++)
            if (m.cols % (parts * NF4_BLOCK) == 0) check_values(&m, m.cols / parts, want);
        matrix_close(&m);
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, 20);
}

static void test_zeros_and_equal_numbers(void **state)
{
    (void)state;
    float x[4 * NF4_BLOCK] = {0}, out[4 * NF4_BLOCK];
    for (int i = NF4_BLOCK; i < 4 * NF4_BLOCK; i++) x[i] = i % 2 ? -0.5f : 0.5f;
    float absmax[4], maxima[1];
    unsigned char code[4];
    uint32_t packed[64];
    for (int first = 0; first < 2; first++) { // with the block of zeros, and without it
        nf4_scales s = {.absmax = absmax, .maxima = maxima, .code = code};
        for (int b = first; b < 4; b++) absmax[b - first] = nf4_block_absmax(x + b * NF4_BLOCK);
        s.mean = nf4_mean(absmax, 4 - first);
        nf4_quantize_scales(&s, 4 - first);
        assert_true(nf4_row_words((4 - first) * NF4_BLOCK) <= 64);
        nf4_pack_row(x + first * NF4_BLOCK, (4 - first) * NF4_BLOCK, &s, 0, packed);
        nf4_unpack_row(packed, (4 - first) * NF4_BLOCK, out);
        for (int i = 0; first == 0 && i < NF4_BLOCK; i++) assert_true(out[i] == 0);
        for (int i = 0; first == 1 && i < 3 * NF4_BLOCK; i++)
            assert_true(out[i] == x[i + NF4_BLOCK]);
    }
}

static void test_a_row_takes_about_half_a_byte_an_element(void **state)
{
    (void)state;
    static const int64_t cols[] = {576, 896, 1536, 2048, 4096, 8192, 28672};
    for (int i = 0; i < 7; i++)
        assert_true((double)nf4_row_words(cols[i]) * 4 / (double)cols[i] < 0.545);
    for (int64_t blocks = 1; blocks < 2000;
         blocks++) // the last block of the row that begins last in its group
        assert_true((NF4_GROUP - 1 + blocks - 1) / NF4_GROUP < nf4_row_maxima(blocks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_those_of_bitsandbytes),
        cmocka_unit_test(test_zeros_and_equal_numbers),
        cmocka_unit_test(test_a_row_takes_about_half_a_byte_an_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// lib_product.c -- the matrix product of lib_product.h: op(a) and op(b) are widened to F32 once, and a
// column of d is the sum of columns of op(a), so that the compiler uses vector instructions along m.
#include "lib_product.h"

#include "base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 512 }; // rows of d whose sums are kept at once

static float load(const void *p, dtype t, int64_t i)
{
    if (t == F32) return ((const float *)p)[i];
    const uint16_t bits = ((const uint16_t *)p)[i];
    return t == BF16 ? bf16_to_float(bits) : fp16_to_float(bits);
}

// Rounds to TF32, which has 10 bits of mantissa: to nearest, ties away from zero, as cvt.rna does.
static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void store(void *p, dtype t, int64_t i, float x)
{
    if (t == F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = t == BF16 ? float_to_bf16(x) : float_to_fp16(x);
}

// Widens columns of op(x) [rows, cols] into `out`, column by column.
static void widen(float *out, const void *x, dtype t, int64_t rows, int64_t cols, int64_t ld,
                  bool transposed)
{
    for (int64_t j = 0; j < cols; j++) {
        float *to = out + j * rows;
        if (!transposed && t == F32)
            memcpy(to, (const float *)x + j * ld, sizeof *to * (size_t)rows);
        else
            for (int64_t i = 0; i < rows; i++)
                to[i] = load(x, t, transposed ? i * ld + j : j * ld + i);
    }
}

// sum [rows] += a [m, k0 … k1) · b [k], for `rows` rows of a from its first.
static void add_columns(float *restrict sum, const float *restrict a, const float *restrict b,
                        int64_t rows, int64_t m, int64_t k0, int64_t k1)
{
    for (int64_t l = k0; l < k1; l++) {
        const float *restrict column = a + l * m;
        const float x = b[l];
        for (int64_t i = 0; i < rows; i++) sum[i] += column[i] * x;
    }
}

// The same in the order of the product.
static void add_part(float *sum, const float *a, const float *b, int64_t rows, const lib_product *p,
                     int64_t k0, int64_t k1)
{
    float half[TILE] = {0};
    const int64_t middle = p->in_halves ? k0 + (k1 - k0) / 2 : k1;
    add_columns(sum, a, b, rows, p->m, k0, middle);
    add_columns(half, a, b, rows, p->m, middle, k1);
    for (int64_t i = 0; middle < k1 && i < rows; i++) sum[i] += half[i];
}

static float gelu(float x)
{
    return 0.5f * x * (1 + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    const float c = 0.7978845608028654f, t = tanhf(c * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * c * (1 + 3 * 0.044715f * x * x);
}

// Writes rows i0 … i0+rows-1 of column j of d.
static void finish(const lib_product *p, const float *sum, int64_t i0, int64_t rows, int64_t j)
{
    for (int64_t i = i0; i < i0 + rows; i++) {
        float x = p->alpha * sum[i - i0];
        if (p->beta != 0) x += p->beta * load(p->d, p->d_type, j * p->ldd + i);
        if (p->bias) x += load(p->bias, p->d_type, i);
        if (p->epilogue == LIB_GELU) {
            if (p->aux) store(p->aux, p->d_type, j * p->ld_aux + i, x);
            x = gelu(x);
        } else if (p->epilogue == LIB_GELU_GRAD) {
            x *= gelu_slope(load(p->aux, p->d_type, j * p->ld_aux + i));
        }
        store(p->d, p->d_type, j * p->ldd + i, x);
    }
}

static void run_tile(const lib_product *p, const float *a, const float *b, int64_t i0, int64_t rows)
{
    float sum[TILE];
    for (int64_t j = 0; j < p->n; j++) {
        memset(sum, 0, sizeof *sum * (size_t)rows);
        if (p->splits <= 1) {
            add_part(sum, a + i0, b + j * p->k, rows, p, 0, p->k);
        } else {
            const int64_t part = size_ceil_div(p->k, p->splits);
            for (int s = 0; s < p->splits; s++) {
                float *partial = p->partial + (s * p->n + j) * p->m + i0;
                memset(partial, 0, sizeof *partial * (size_t)rows);
                add_part(partial, a + i0, b + j * p->k, rows, p, s * part,
                         size_min((s + 1) * part, p->k));
            }
            for (int s = 0; s < p->splits; s++)
                for (int64_t i = 0; i < rows; i++)
                    sum[i] += p->partial[(s * p->n + j) * p->m + i0 + i];
        }
        finish(p, sum, i0, rows, j);
    }
}

void lib_product_run(const lib_product *p)
{
    float *a = malloc(sizeof *a * (size_t)(p->m * p->k)),
          *b = malloc(sizeof *b * (size_t)(p->k * p->n));
    if (!a || !b) abort();
    widen(a, p->a, p->type, p->m, p->k, p->lda, p->trans_a);
    widen(b, p->b, p->type, p->k, p->n, p->ldb, p->trans_b);
    for (int64_t i = 0; p->tf32 && i < p->m * p->k; i++) a[i] = to_tf32(a[i]);
    for (int64_t i = 0; p->tf32 && i < p->k * p->n; i++) b[i] = to_tf32(b[i]);
    for (int64_t i = 0; i < p->m; i += TILE) run_tile(p, a, b, i, size_min(TILE, p->m - i));
    free(a);
    free(b);
}

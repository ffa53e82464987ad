// cpu_widen.c -- products of BF16 or F16 where the CPU has no faster instructions than fp32's:
// each panel of A and B is widened to fp32 in scratch memory just before it is multiplied, and C is
// rounded once at the end. The panels are fixed, so results do not depend on the CPU's caches.
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/ref.h"

#include <string.h>

typedef struct panel {
    int64_t row, rows, col, cols; // of C
} panel;

static int64_t at_most(int64_t limit, int64_t left)
{
    return left < limit ? left : limit;
}

// dst [rows, cols] dense <- src with a row stride.
typedef struct widening {
    float *dst;
    const uint16_t *src;
    dtype type;
    int64_t rows, cols, stride;
} widening;

enum { ROWS_AT_ONCE = 64 };

static void widen_rows(const void *arg, int64_t item, int thread)
{
    (void)thread;
    const widening *w = arg;
    int64_t first = item * ROWS_AT_ONCE, last = first + at_most(ROWS_AT_ONCE, w->rows - first);
    for (int64_t i = first; i < last; i++)
        dtype_convert(w->dst + i * w->cols, F32, w->src + i * w->stride, w->type, (size_t)w->cols);
}

static void widen(const cpu_context *x, float *dst, const uint16_t *src, dtype type, int64_t rows,
                  int64_t cols, int64_t stride)
{
    widening w = {dst, src, type, rows, cols, stride};
    cpu_team_run(x->team, (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE, widen_rows, &w);
}

// The fp32 home of the panel of C, holding bias (+ C), or nothing yet (returns false).
static bool begin_panel(const kernel_matmul_args *p, const panel *at, float *c, int64_t ldc)
{
    if (!p->bias && !p->accumulate) return false;
    for (int64_t i = 0; i < at->rows; i++) {
        float *row = c + i * ldc;
        if (!p->accumulate) {
            memset(row, 0, sizeof(float) * (size_t)at->cols);
        } else if (p->c_type != F32) {
            const uint16_t *old = (const uint16_t *)p->c + (at->row + i) * p->ldc + at->col;
            dtype_convert(row, F32, old, p->c_type, (size_t)at->cols);
        }
        for (int64_t j = 0; p->bias && j < at->cols; j++)
            row[j] += ref_load(p->bias, at->col + j, p->type);
    }
    return true;
}

// Adds the products of depth l … l+depth-1 to the panel.
static void add_depth(const cpu_context *x, const kernel_matmul_args *p, const panel *at, int64_t l,
                      int64_t depth, kernel_matmul_args *f32)
{
    cpu_products *s = x->products;
    const uint16_t *a = p->a, *b = p->b;
    f32->lda = p->trans_a ? at->rows : depth;
    f32->ldb = p->trans_b ? depth : at->cols;
    if (p->trans_a) {
        widen(x, s->a, a + l * p->lda + at->row, p->type, depth, at->rows, p->lda);
    } else {
        widen(x, s->a, a + at->row * p->lda + l, p->type, at->rows, depth, p->lda);
    }
    if (p->trans_b) {
        widen(x, s->b, b + at->col * p->ldb + l, p->type, at->cols, depth, p->ldb);
    } else {
        widen(x, s->b, b + l * p->ldb + at->col, p->type, depth, at->cols, p->ldb);
    }
    f32->k = depth;
    cpu_product_f32(x, f32);
}

static void multiply_panel(const cpu_context *x, const kernel_matmul_args *p, const panel *at)
{
    cpu_products *s = x->products;
    bool narrow = p->c_type != F32;
    kernel_matmul_args f32 = *p;
    f32.m = at->rows, f32.n = at->cols, f32.a = s->a, f32.b = s->b;
    f32.c = narrow ? s->c : (float *)p->c + at->row * p->ldc + at->col;
    f32.ldc = narrow ? at->cols : p->ldc;
    f32.accumulate = begin_panel(p, at, f32.c, f32.ldc);
    if (p->k <= 0 && !f32.accumulate) {
        for (int64_t i = 0; i < at->rows; i++)
            memset((float *)f32.c + i * f32.ldc, 0, sizeof(float) * (size_t)at->cols);
    }
    for (int64_t l = 0; l < p->k; l += WIDEN_DEPTH) {
        add_depth(x, p, at, l, at_most(WIDEN_DEPTH, p->k - l), &f32);
        f32.accumulate = true;
    }
    for (int64_t i = 0; narrow && i < at->rows; i++) {
        uint16_t *row = (uint16_t *)p->c + (at->row + i) * p->ldc + at->col;
        dtype_convert(row, p->c_type, s->c + i * at->cols, F32, (size_t)at->cols);
    }
}

void cpu_product_widen(const cpu_context *x, const kernel_matmul_args *p)
{
    for (int64_t col = 0; col < p->n; col += WIDEN_COLS) {
        for (int64_t row = 0; row < p->m; row += WIDEN_ROWS) {
            panel at = {row, at_most(WIDEN_ROWS, p->m - row), col, at_most(WIDEN_COLS, p->n - col)};
            multiply_panel(x, p, &at);
        }
    }
}

// cpu_widen.c -- products of BF16 or F16 on a CPU below AVX2. Called by cpu_matmul. Each panel of a
// and b is converted to fp32 in scratch memory just before it is multiplied, and c is rounded once
// at the end. The sizes of the panels are fixed, so results do not depend on the CPU's caches.
#include "base/size.h"
#include "device/cpu/cpu_products.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/ref.h"

#include <string.h>

typedef struct cpu_widen_panel {
    int64_t row, rows, col, cols; // of c
} cpu_widen_panel;

// dst [rows, cols] = src [rows, cols], which has `stride` elements from row to row.
typedef struct cpu_widen_work {
    float *dst;
    const uint16_t *src;
    dtype type;
    int64_t rows, cols, stride;
} cpu_widen_work;

enum { ROWS_AT_ONCE = 64 };

static void widen_rows(const void *arg, int64_t item, int thread)
{
    (void)thread;
    const cpu_widen_work *w = arg;
    int64_t first = item * ROWS_AT_ONCE, last = first + size_min(ROWS_AT_ONCE, w->rows - first);
    for (int64_t i = first; i < last; i++)
        dtype_convert(w->dst + i * w->cols, F32, w->src + i * w->stride, w->type, (size_t)w->cols);
}

static void widen(const cpu_context *x, float *dst, const uint16_t *src, dtype type, int64_t rows,
                  int64_t cols, int64_t stride)
{
    cpu_widen_work w = {dst, src, type, rows, cols, stride};
    cpu_team_run(x->team, size_ceil_div(rows, ROWS_AT_ONCE), widen_rows, &w);
}

// Sets the fp32 sums of the panel to bias (+ c). Returns false, and writes nothing, when there is
// neither bias nor c to add.
static bool begin_panel(const kernel_matmul_args *p, const cpu_widen_panel *panel, float *c,
                        int64_t ldc)
{
    if (!p->bias && !p->accumulate) return false;
    for (int64_t i = 0; i < panel->rows; i++) {
        float *row = c + i * ldc;
        if (!p->accumulate) {
            memset(row, 0, sizeof(float) * (size_t)panel->cols);
        } else if (p->c_type != F32) {
            const uint16_t *old = (const uint16_t *)p->c + (panel->row + i) * p->ldc + panel->col;
            dtype_convert(row, F32, old, p->c_type, (size_t)panel->cols);
        }
        for (int64_t j = 0; p->bias && j < panel->cols; j++)
            row[j] += ref_load(p->bias, panel->col + j, p->type);
    }
    return true;
}

// Adds the products for k from l to l+depth-1 to the panel.
static void add_depth(const cpu_context *x, const kernel_matmul_args *p,
                      const cpu_widen_panel *panel, int64_t l, int64_t depth,
                      kernel_matmul_args *f32)
{
    cpu_products *s = x->products;
    const uint16_t *a = p->a, *b = p->b;
    f32->lda = p->trans_a ? panel->rows : depth;
    f32->ldb = p->trans_b ? depth : panel->cols;
    if (p->trans_a) {
        widen(x, s->a, a + l * p->lda + panel->row, p->type, depth, panel->rows, p->lda);
    } else {
        widen(x, s->a, a + panel->row * p->lda + l, p->type, panel->rows, depth, p->lda);
    }
    if (p->trans_b) {
        widen(x, s->b, b + panel->col * p->ldb + l, p->type, panel->cols, depth, p->ldb);
    } else {
        widen(x, s->b, b + l * p->ldb + panel->col, p->type, depth, panel->cols, p->ldb);
    }
    f32->k = depth;
    cpu_product_f32(x, f32);
}

static void multiply_panel(const cpu_context *x, const kernel_matmul_args *p,
                           const cpu_widen_panel *panel)
{
    cpu_products *s = x->products;
    bool narrow = p->c_type != F32;
    kernel_matmul_args f32 = *p;
    f32.m = panel->rows, f32.n = panel->cols, f32.a = s->a, f32.b = s->b;
    f32.c = narrow ? s->c : (float *)p->c + panel->row * p->ldc + panel->col;
    f32.ldc = narrow ? panel->cols : p->ldc;
    f32.accumulate = begin_panel(p, panel, f32.c, f32.ldc);
    if (p->k <= 0 && !f32.accumulate) {
        for (int64_t i = 0; i < panel->rows; i++)
            memset((float *)f32.c + i * f32.ldc, 0, sizeof(float) * (size_t)panel->cols);
    }
    for (int64_t l = 0; l < p->k; l += WIDEN_DEPTH) {
        add_depth(x, p, panel, l, size_min(WIDEN_DEPTH, p->k - l), &f32);
        f32.accumulate = true;
    }
    for (int64_t i = 0; narrow && i < panel->rows; i++) {
        uint16_t *row = (uint16_t *)p->c + (panel->row + i) * p->ldc + panel->col;
        dtype_convert(row, p->c_type, s->c + i * panel->cols, F32, (size_t)panel->cols);
    }
}

void cpu_product_widen(const cpu_context *x, const kernel_matmul_args *p)
{
    for (int64_t col = 0; col < p->n; col += WIDEN_COLS) {
        for (int64_t row = 0; row < p->m; row += WIDEN_ROWS) {
            cpu_widen_panel panel = {row, size_min(WIDEN_ROWS, p->m - row), col,
                                     size_min(WIDEN_COLS, p->n - col)};
            multiply_panel(x, p, &panel);
        }
    }
}

// vec_orthogonalize.c -- parallel form of Gram-Schmidt on the columns of a tall matrix. The team
// shares blocks of rows that depend on the shape only. Sums over a block are added in the order of
// blocks, so the bits do not depend on the number of threads. There are two passes for each column.
// The first divides it by its norm and takes its dot products with the later columns. The second
// subtracts its projection from those, and takes the square sum of the next column.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec.h"

#include <math.h>

enum {
    SUMS = CPU_SHARED_BYTES / sizeof(double),
    ELEMENTS = 1 << 16, // of a block; for fewer it does not pay to wake a thread
};

// One pass over all blocks, for column i of p.
typedef struct vec_pass {
    const kernel_orthogonalize_args *p;
    int64_t i, block; // rows of a block
    double inverse;   // 1 / norm of column i
    double *along;    // [cols]: dot products of column i with the later columns
} vec_pass;

static int64_t block_count(const vec_pass *w)
{
    return (w->p->rows + w->block - 1) / w->block;
}

// The sums of block b, [cols].
static double *sums_of(const cpu_context *x, const vec_pass *w, int64_t b)
{
    return (double *)x->shared + b * w->p->cols;
}

static void multiply_blocks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                            int thread)
{
    (void)thread;
    const vec_pass *w = args;
    int64_t n = w->p->cols, i = w->i;
    for (int64_t b = first; b < last; b++) {
        double *restrict sum = sums_of(x, w, b);
        int64_t to = size_min((b + 1) * w->block, w->p->rows);
        memset(sum, 0, sizeof(double) * (size_t)n);
        for (int64_t r = b * w->block; r < to; r++) {
            float *restrict row = w->p->x + r * n;
            row[i] = (float)(row[i] * w->inverse);
            double q = row[i];
            for (int64_t j = i + 1; j < n; j++) sum[j] += q * row[j];
        }
    }
}

// The second pass. It leaves the square sum of column i+1 in the first sum of each block. i is -1
// before the first column, and then nothing is subtracted.
static void subtract_blocks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                            int thread)
{
    (void)thread;
    const vec_pass *w = args;
    int64_t n = w->p->cols, i = w->i;
    const double *restrict along = w->along;
    for (int64_t b = first; b < last; b++) {
        int64_t to = size_min((b + 1) * w->block, w->p->rows);
        double square = 0;
        for (int64_t r = b * w->block; r < to; r++) {
            float *restrict row = w->p->x + r * n;
            double q = i >= 0 ? row[i] : 0;
            for (int64_t j = i + 1; j < n && i >= 0; j++) row[j] = (float)(row[j] - along[j] * q);
            square += (double)row[i + 1] * row[i + 1];
        }
        *sums_of(x, w, b) = square;
    }
}

static double sum_at(const cpu_context *x, const vec_pass *w, int64_t j)
{
    double sum = 0;
    for (int64_t b = 0; b < block_count(w); b++) sum += sums_of(x, w, b)[j];
    return sum;
}

void VEC(orthogonalize)(const cpu_context *x, const void *args)
{
    const kernel_orthogonalize_args *p = args;
    if (p->rows <= 0 || p->cols <= 0) return;
    if (p->cols > SUMS) {
        ref_orthogonalize(x, p); // more than half a million columns have no parallel form
        return;
    }
    int64_t blocks = SUMS / p->cols;
    int64_t block = size_max(1 + ELEMENTS / p->cols, size_ceil_div(p->rows, blocks));
    vec_pass w = {.p = p, .i = -1, .block = block, .along = cpu_scratch(x, 0)};
    VEC(share)(x, &w, block_count(&w), 1, subtract_blocks);
    for (w.i = 0; w.i < p->cols; w.i++) {
        w.inverse = 1 / (sqrt(sum_at(x, &w, 0)) + p->eps);
        VEC(share)(x, &w, block_count(&w), 1, multiply_blocks);
        if (w.i + 1 == p->cols) break;
        for (int64_t j = w.i + 1; j < p->cols; j++) w.along[j] = sum_at(x, &w, j);
        VEC(share)(x, &w, block_count(&w), 1, subtract_blocks);
    }
}

// ref_orthogonalize.c -- reference of Gram-Schmidt on the columns of a tall matrix. PowerSGD's
// gradient compression uses it for its factors.
#include "device/cpu/ref/ref.h"

#include <math.h>

static double dot(const float *a, const float *b, int64_t rows, int64_t stride)
{
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += (double)a[r * stride] * b[r * stride];
    return sum;
}

void ref_orthogonalize(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_orthogonalize_args *p = args;
    int64_t n = p->cols;
    for (int64_t i = 0; i < n; i++) {
        float *column = p->x + i;
        double size = sqrt(dot(column, column, p->rows, n)) + p->eps;
        for (int64_t r = 0; r < p->rows; r++) column[r * n] = (float)(column[r * n] / size);
        for (int64_t j = i + 1; j < n; j++) {
            double along = dot(column, p->x + j, p->rows, n);
            for (int64_t r = 0; r < p->rows; r++)
                p->x[r * n + j] = (float)(p->x[r * n + j] - along * column[r * n]);
        }
    }
}

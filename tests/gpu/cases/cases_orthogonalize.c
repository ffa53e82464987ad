// cases_orthogonalize.c -- cases of K_ORTHOGONALIZE: tall matrices of one and of several blocks of rows,
// more columns than lose their projections at once, and a column of zeros.
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    bool zero_column;
} shape;

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    float *x = space_random(s, h->rows * h->cols, F32, 1, "x");
    for (int64_t r = 0; r < h->rows && h->zero_column; r++) x[r * h->cols + h->cols / 2] = 0;
    return (kernel_call){
        .kind = K_ORTHOGONALIZE,
        .u.orthogonalize = {.rows = h->rows, .cols = h->cols, .x = x, .eps = 1e-8f}};
}

static void check(case_run *r, int64_t rows, int64_t cols, bool zero_column)
{
    const shape h = {rows, cols, zero_column};
    case_check(r, describe, &h, "orthogonalize [%lld, %lld]%s", (long long)rows, (long long)cols,
               zero_column ? " with a column of zeros" : "");
}

void cases_run(case_run *r)
{
    check(r, 0, 3, false);
    check(r, 5, 0, false);
    check(r, 1, 1, false);
    check(r, 40, 4, false);
    check(r, 301, 7, false);
    check(r, 1500, 3, true);
    check(r, 60, 37, false);
    check(r, 260, 140, false); // hundreds of both, in more than one block
    for (int i = 0; i < 3; i++) check(r, case_pick(r, 20, 900), case_pick(r, 1, 12), false);
}

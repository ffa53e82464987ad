// cases_unpack.c -- cases of K_UNPACK_NF4: one row and many, rows of one block and of more than a group of blocks. Whatever
// the bytes of a row are, they are codes.
#include "base/nf4.h"
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
} shape;

static kernel_call describe(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_UNPACK_NF4};
    c.u.unpack_nf4 = (kernel_unpack_nf4_args){
        .rows = h->rows,
        .cols = h->cols,
        .packed = space_random(s, h->rows * nf4_row_words(h->cols), F32, 1, NULL),
        .y = space_array_of(s, h->rows * h->cols, h->type, "y"),
        .type = h->type};
    return c;
}

static void check(case_run *r, int64_t rows, int64_t cols)
{
    for (dtype type = F32; type <= F16; type++) {
        const shape h = {rows, cols, type};
        case_check(r, describe, &h, "unpack_nf4 [%lld, %lld] %s", (long long)rows, (long long)cols,
                   dtype_name(type));
    }
}

void cases_run(case_run *r)
{
    check(r, 0, 64);
    check(r, 1, 64);
    check(r, 3, 192);
    check(r, 70, 576);
    check(r, 2, 16448);
    check(r, case_pick(r, 2, 90), 64 * case_pick(r, 1, 20));
}

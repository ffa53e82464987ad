// cases_norm.c -- cases of K_NORM, also of a sum that it computes, and of K_NORM_GRAD: rows of one warp, of
// many, and of more columns than lie in registers.
#include "case.h"

typedef struct shape {
    int64_t rows, cols;
    dtype type;
    bool fp32, is_rms, bias;
    int variant;
    bool unit_offset, no_gain;
} shape;

// The variants of K_NORM: without an addend; with one; the sum over x, and y over the addend.
enum { PLAIN, ADDED, IN_PLACE, NORMS };

static kernel_call describe_norm(space *s, const void *args)
{
    const shape *h = args;
    const dtype residual = kernel_residual_type(h->type, h->fp32);
    const int64_t count = h->rows * h->cols;
    const bool in_place = h->variant == IN_PLACE;
    kernel_norm_args a = {.rows = h->rows,
                          .cols = h->cols,
                          .x = space_random(s, count, residual, 2, in_place ? "sum" : NULL),
                          .gain = h->no_gain ? NULL : space_random(s, h->cols, h->type, 1, NULL),
                          .bias = h->bias ? space_random(s, h->cols, h->type, 1, NULL) : NULL,
                          .mean = h->is_rms ? NULL : space_array_of(s, h->rows, F32, "mean"),
                          .rstd = space_array_of(s, h->rows, F32, "rstd"),
                          .eps = 1e-5f,
                          .is_rms = h->is_rms,
                          .unit_offset = h->unit_offset,
                          .type = h->type,
                          .residual_fp32 = h->fp32};
    if (h->variant != PLAIN) {
        void *addend = space_random(s, count, h->type, 1, in_place ? "y" : NULL);
        a.addend = addend, a.alpha = 0.75f, a.beta = -1.25f;
        a.sum = in_place ? (void *)(uintptr_t)a.x : space_array_of(s, count, residual, "sum");
        if (in_place) a.y = addend;
    }
    if (!in_place) a.y = space_array_of(s, count, h->type, "y");
    return (kernel_call){.kind = K_NORM, .u.norm = a};
}

// Bits of `variant` of K_NORM_GRAD: what is wanted, and whether it is added to.
enum { WANT_DX = 1, WANT_GAIN = 2, WANT_BIAS = 4, WANTS = 8, ADD = 8, GRADS = 16 };

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    const dtype residual = kernel_residual_type(h->type, h->fp32);
    const int64_t count = h->rows * h->cols;
    const bool add = h->variant & ADD;
    kernel_norm_grad_args a = {.rows = h->rows,
                               .cols = h->cols,
                               .dy = space_random(s, count, h->type, 1, NULL),
                               .accumulate_dx = add && (h->variant & WANT_DX),
                               .accumulate_dgain = add,
                               .accumulate_dbias = add,
                               .is_rms = h->is_rms,
                               .unit_offset = h->unit_offset,
                               .type = h->type,
                               .residual_fp32 = h->fp32};
    if (h->variant & WANT_DX) {
        if (!h->no_gain) a.gain = space_random(s, h->cols, h->type, 1, NULL);
        a.dx = space_random(s, count, residual, 1, "dx");
    }
    if (h->variant & (WANT_DX | WANT_GAIN)) {
        a.x = space_random(s, count, residual, 1, NULL);
        a.rstd = space_random(s, h->rows, F32, 0.5f, NULL);
        if (!h->is_rms) a.mean = space_random(s, h->rows, F32, 0.3f, NULL);
    }
    if (h->variant & WANT_GAIN) a.dgain = space_random(s, h->cols, F32, 1, "dgain");
    if (h->variant & WANT_BIAS) a.dbias = space_random(s, h->cols, F32, 1, "dbias");
    return (kernel_call){.kind = K_NORM_GRAD, .u.norm_grad = a};
}

// dx in the place of dy.
static kernel_call describe_grad_in_place(space *s, const void *args)
{
    kernel_call c = describe_grad(s, args);
    for (int i = 0; i < s->used; i++)
        if (s->array[i].data == c.u.norm_grad.dy) s->array[i].name = "dx";
    c.u.norm_grad.dx = (void *)(uintptr_t)c.u.norm_grad.dy;
    return c;
}

static void check_shape(case_run *r, shape h)
{
    const char *type = dtype_name(h.type), *stream = h.fp32 ? ", F32 residual" : "";
    const long long rows = h.rows, cols = h.cols;
    for (h.variant = PLAIN; h.variant < NORMS; h.variant++)
        for (int i = 0; i < 4; i++) {
            h.is_rms = i & 1, h.bias = i & 2;
            case_check(r, describe_norm, &h, "norm [%lld, %lld] %s%s variant %d.%d", rows, cols,
                       type, stream, h.variant, i);
        }
    for (h.variant = 1; h.variant < GRADS; h.variant++) {
        h.is_rms = h.variant % 3 == 0;
        if (h.variant % WANTS == 0) continue;
        case_check(r, describe_grad, &h, "norm_grad [%lld, %lld] %s%s variant %d", rows, cols, type,
                   stream, h.variant);
    }
    h.variant = WANT_DX | WANT_GAIN | WANT_BIAS, h.is_rms = false;
    if (!h.fp32)
        case_check(r, describe_grad_in_place, &h, "norm_grad [%lld, %lld] %s, dx is dy", rows, cols,
                   type);
}

// Two norms and two gradients of a shape: the other variants of its code are those of another shape.
static void check_some(case_run *r, shape h)
{
    const char *type = dtype_name(h.type);
    const long long rows = h.rows, cols = h.cols;
    for (int i = 0; i < 2; i++) {
        h.is_rms = h.bias = i == 0;
        h.variant = i == 0 ? PLAIN : IN_PLACE;
        case_check(r, describe_norm, &h, "norm [%lld, %lld] %s variant %d", rows, cols, type,
                   h.variant);
        h.variant = i == 0 ? WANTS - 1 : GRADS - 1;
        case_check(r, describe_grad, &h, "norm_grad [%lld, %lld] %s variant %d", rows, cols, type,
                   h.variant);
    }
}

static void check(case_run *r, int64_t rows, int64_t cols)
{
    for (dtype type = F32; type <= F16; type++)
        for (int fp32 = 0; fp32 < (type == F32 ? 1 : 2); fp32++)
            check_shape(r, (shape){.rows = rows, .cols = cols, .type = type, .fp32 = fp32});
}

// Rows of two warps, of which a block of K_NORM_GRAD has three and more, one after another: it comes to the places in shared
// memory for the second time. With the residual in fp32 and dx added to, it copies one row ahead, else two.
static void check_many_rows(case_run *r)
{
    const shape two_ahead = {.rows = 4225, .cols = 520, .type = BF16, .variant = WANTS - 1};
    const shape one_ahead = {
        .rows = 4225, .cols = 520, .type = F32, .is_rms = true, .variant = GRADS - 1};
    case_check(r, describe_grad, &two_ahead, "norm_grad, three rows a warp, two copied ahead");
    case_check(r, describe_grad, &one_ahead, "norm_grad, three rows a warp, one copied ahead");
}

void cases_run(case_run *r)
{
    check_shape(r, (shape){.rows = 0, .cols = 16, .type = BF16});
    check_shape(r, (shape){.rows = 1, .cols = 1, .type = F32});
    check(r, 9, 40);
    check_shape(r, (shape){.rows = 17, .cols = 768, .type = BF16});
    check_shape(r, (shape){.rows = 18, .cols = 101, .type = F16, .fp32 = true});
    for (int i = 0; i < 2; i++)
        check_shape(
            r, (shape){.rows = case_pick(r, 1, 40), .cols = case_pick(r, 1, 1300), .type = BF16});
    check_shape(r, (shape){.rows = 600, .cols = 8, .type = F32});
    check_many_rows(r);
    check_some(r, (shape){.rows = 9, .cols = 136, .type = BF16, .fp32 = true, .unit_offset = true});
    check_some(r, (shape){.rows = 5, .cols = 77, .type = F16, .no_gain = true});
    check_some(r, (shape){.rows = 2, .cols = 16400, .type = F32, .unit_offset = true});
    check_some(r, (shape){.rows = 2, .cols = 16400, .type = BF16, .no_gain = true});
    check_some(r, (shape){.rows = 3, .cols = 4096, .type = BF16, .fp32 = true});
    check_some(r, (shape){.rows = 2, .cols = 8193, .type = BF16});
    check_shape(r, (shape){.rows = 1, .cols = 16400, .type = BF16, .fp32 = true});
}

// cases_value_norm.c -- cases of K_VALUE_NORM and K_VALUE_NORM_GRAD: heads of a few lanes and of a warp, with values of the
// layer and with those of its keys, and in place.
#include "case.h"

typedef struct shape {
    int64_t rows, heads, kv_heads, head_dim;
    dtype type;
    bool of_keys, in_place;
} shape;

static kernel_value_norm_args fill(space *s, const shape *h, bool gradient)
{
    kernel_value_norm_args p = {.rows = h->rows,
                                .heads = h->heads,
                                .kv_heads = h->kv_heads,
                                .head_dim = h->head_dim,
                                .eps = 1e-5f,
                                .of_keys = h->of_keys,
                                .type = h->type};
    const int64_t in = h->rows * kernel_value_norm_cols(&p),
                  out = h->rows * kernel_value_norm_full_cols(&p), stats = h->rows * h->kv_heads;
    const char *name = gradient ? "dx" : "y";
    p.x = space_random(s, in, h->type, 2, h->in_place && !gradient ? name : NULL);
    if (gradient) p.dy = space_random(s, out, h->type, 1, h->in_place ? name : NULL);
    p.y = h->in_place ? (void *)(uintptr_t)(gradient ? p.dy : p.x)
                      : space_array_of(s, gradient ? in : out, h->type, name);
    p.rstd =
        gradient ? space_random(s, stats, F32, 0.5f, NULL) : space_array_of(s, stats, F32, "rstd");
    return p;
}

static kernel_call describe_norm(space *s, const void *args)
{
    return (kernel_call){.kind = K_VALUE_NORM, .u.value_norm = fill(s, args, false)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    return (kernel_call){.kind = K_VALUE_NORM_GRAD, .u.value_norm = fill(s, args, true)};
}

static void check(case_run *r, int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim,
                  dtype type)
{
    for (int i = 0; i < 3; i++) {
        const shape h = {rows, heads, kv_heads, head_dim, type, i == 0, i == 1};
        char text[96];
        snprintf(text, sizeof text, "[%lld, %lld + 2 x %lld, %lld] %s variant %d", (long long)rows,
                 (long long)heads, (long long)kv_heads, (long long)head_dim, dtype_name(type), i);
        case_check(r, describe_norm, &h, "value_norm %s", text);
        case_check(r, describe_grad, &h, "value_norm_grad %s", text);
    }
}

void cases_run(case_run *r)
{
    check(r, 0, 2, 1, 8, BF16);
    check(r, 1, 1, 1, 1, F32);
    check(r, 5, 4, 2, 64, BF16);
    check(r, 3, 2, 1, 128, F32);
    check(r, 7, 3, 1, 10, F16);
    check(r, 2, 9, 3, 512, BF16);
    check(r, 300, 2, 2, 16, F32);
    for (int i = 0; i < 3; i++)
        check(r, case_pick(r, 1, 30), case_pick(r, 1, 9), case_pick(r, 1, 4), case_pick(r, 1, 90),
              (dtype)case_pick(r, F32, F16));
}

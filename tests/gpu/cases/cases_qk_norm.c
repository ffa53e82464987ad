// cases_qk_norm.c -- cases of K_QK_NORM, K_QK_NORM_SUMS and K_QK_NORM_GRAD: groups of a few lanes, of a warp and of a
// block, per head and at full width, with and without gains, in place, and with sums that ranks have added.
#include "case.h"

typedef struct shape {
    int64_t rows, heads, kv_heads, head_dim;
    dtype type;
    bool full_width, unit_offset, gains, shares, in_place, layer_norm;
} shape;

static kernel_qk_norm_args fill(space *s, const shape *h, kernel_kind kind, bool gradient)
{
    const int64_t cols = (h->heads + 2 * h->kv_heads) * h->head_dim, count = h->rows * cols;
    const bool sums = kind == K_QK_NORM_SUMS, in_place = h->in_place && !sums;
    const char *name = gradient ? "dx" : "y";
    kernel_qk_norm_args p = {.rows = h->rows,
                             .heads = h->heads,
                             .kv_heads = h->kv_heads,
                             .head_dim = h->head_dim,
                             .ranks = h->shares ? 3 : 1,
                             .eps = 1e-5f,
                             .full_width = h->full_width,
                             .layer_norm = h->layer_norm,
                             .unit_offset = h->unit_offset,
                             .type = h->type};
    const int64_t q = kernel_qk_norm_gains(&p, true), k = kernel_qk_norm_gains(&p, false);
    const int64_t stats = h->rows * kernel_qk_norm_groups(&p);
    p.x = space_random(s, count, h->type, 2, in_place && !gradient ? name : NULL);
    if (gradient) p.dy = space_random(s, count, h->type, 1, in_place ? name : NULL);
    if (h->gains) p.q_gain = space_random(s, q, h->type, 1, NULL);
    if (h->gains) p.k_gain = space_random(s, k, h->type, 1, NULL);
    p.rstd = gradient ? space_random(s, stats, F32, 0.5f, NULL)
                      : space_array_of(s, stats, F32, sums ? SPACE_SCRATCH : "rstd");
    if (h->layer_norm)
        p.mean = gradient ? space_random(s, stats, F32, 0.5f, NULL)
                          : space_array_of(s, stats, F32, "mean");
    if (sums) p.sums = space_array_of(s, stats, F32, "sums");
    if (sums) return p;
    if (in_place)
        p.y = (void *)(uintptr_t)(gradient ? p.dy : p.x);
    else
        p.y = space_array_of(s, count, h->type, name);
    if (h->shares) {
        p.sums = space_random(s, stats, F32, 1, SPACE_SCRATCH);
        for (int64_t i = 0; i < stats; i++) p.sums[i] = fabsf(p.sums[i]) + 9;
    }
    return p;
}

static kernel_call describe_norm(space *s, const void *args)
{
    return (kernel_call){.kind = K_QK_NORM, .u.qk_norm = fill(s, args, K_QK_NORM, false)};
}

static kernel_call describe_sums(space *s, const void *args)
{
    return (kernel_call){.kind = K_QK_NORM_SUMS, .u.qk_norm = fill(s, args, K_QK_NORM_SUMS, false)};
}

static kernel_call describe_sums_along(space *s, const void *args)
{
    return (kernel_call){.kind = K_QK_NORM_SUMS, .u.qk_norm = fill(s, args, K_QK_NORM_SUMS, true)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_QK_NORM_GRAD, .u.qk_norm = fill(s, h, K_QK_NORM_GRAD, true)};
    kernel_qk_norm_args *p = &c.u.qk_norm;
    const int64_t q = kernel_qk_norm_gains(p, true), k = kernel_qk_norm_gains(p, false);
    if (h->gains) p->dq_gain = space_random(s, q, F32, 1, "dq_gain");
    if (h->gains && !h->shares) p->dk_gain = space_random(s, k, F32, 1, "dk_gain");
    p->accumulate_dq_gain = h->in_place, p->accumulate_dk_gain = !h->in_place;
    return c;
}

static void check(case_run *r, int64_t rows, int64_t heads, int64_t kv_heads, int64_t head_dim,
                  dtype type)
{
    for (int i = 0; i < 8; i++) {
        const shape h = {rows,  heads, kv_heads, head_dim, type,
                         i & 1, i & 2, i & 4,    i == 5,   i == 3 || i == 4 || i == 7,
                         false};
        char text[96];
        snprintf(text, sizeof text, "[%lld, %lld + 2 x %lld, %lld] %s variant %d", (long long)rows,
                 (long long)heads, (long long)kv_heads, (long long)head_dim, dtype_name(type), i);
        case_check(r, describe_norm, &h, "qk_norm %s", text);
        case_check(r, describe_sums, &h, "qk_norm_sums %s", text);
        case_check(r, describe_sums_along, &h, "qk_norm_sums of the gradient %s", text);
        case_check(r, describe_grad, &h, "qk_norm_grad %s", text);
    }
    for (int i = 0; i < 4; i++) {
        const shape h = {rows,  heads, kv_heads, head_dim, type, false,
                         i & 1, i & 2, false,    i == 1,   true};
        char text[96];
        snprintf(text, sizeof text, "[%lld, %lld + 2 x %lld, %lld] %s layer norm, variant %d",
                 (long long)rows, (long long)heads, (long long)kv_heads, (long long)head_dim,
                 dtype_name(type), i);
        case_check(r, describe_norm, &h, "qk_norm %s", text);
        case_check(r, describe_grad, &h, "qk_norm_grad %s", text);
    }
}

void cases_run(case_run *r)
{
    check(r, 0, 2, 1, 8, BF16);
    check(r, 1, 1, 1, 1, F32);
    check(r, 5, 4, 2, 64, BF16);
    check(r, 3, 2, 1, 128, F32);
    check(r, 7, 3, 1, 10, F16);
    check(r, 2, 9, 3, 256, BF16);
    check(r, 300, 2, 2, 16, F32);
    check(r, 2, 70, 2, 128, BF16);
    for (int i = 0; i < 3; i++)
        check(r, case_pick(r, 1, 30), case_pick(r, 1, 9), case_pick(r, 1, 4), case_pick(r, 1, 90),
              (dtype)case_pick(r, F32, F16));
}

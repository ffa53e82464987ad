// cases_gate.c -- cases of K_GATE and K_GATE_GRAD: with and without a norm and silu, and dx over dy.
#include "case.h"

typedef struct shape {
    int64_t rows, heads, head_dim;
    dtype type;
    bool silu, norms, in_place;
} shape;

static kernel_gate_args fill(space *s, const shape *h, bool gradient)
{
    const int64_t count = h->rows * h->heads * h->head_dim;
    kernel_gate_args p = {.rows = h->rows,
                          .cols = h->heads * h->head_dim,
                          .head_dim = h->head_dim,
                          .eps = 1e-5f,
                          .silu = h->silu,
                          .type = h->type};
    p.x = space_random(s, count, h->type, 1, NULL);
    p.gate = space_random(s, count, h->type, 2, NULL);
    if (h->norms) p.gain = space_random(s, h->head_dim, h->type, 1, NULL);
    if (h->norms && !gradient) p.rstd = space_array_of(s, h->rows * h->heads, F32, "rstd");
    if (h->norms && gradient) p.rstd = space_random(s, h->rows * h->heads, F32, 1, NULL);
    if (!gradient) {
        p.y = space_array_of(s, count, h->type, "y");
        return p;
    }
    p.dy = space_random(s, count, h->type, 1, h->in_place ? "dx" : NULL);
    p.y = h->in_place ? (void *)(uintptr_t)p.dy : space_array_of(s, count, h->type, "dx");
    p.d_gate = space_array_of(s, count, h->type, "d_gate");
    if (h->norms) p.d_gain = space_random(s, h->head_dim, F32, 1, "d_gain");
    p.accumulate_d_gain = h->in_place;
    return p;
}

static kernel_call describe_gate(space *s, const void *args)
{
    return (kernel_call){.kind = K_GATE, .u.gate = fill(s, args, false)};
}

static kernel_call describe_grad(space *s, const void *args)
{
    return (kernel_call){.kind = K_GATE_GRAD, .u.gate = fill(s, args, true)};
}

static void check(case_run *r, int64_t rows, int64_t heads, int64_t head_dim, dtype type)
{
    for (int i = 0; i < 8; i++) {
        const shape h = {rows, heads, head_dim, type, i & 1, i & 2, i & 4};
        char text[96];
        snprintf(text, sizeof text, "[%lld, %lld x %lld] %s variant %d", (long long)rows,
                 (long long)heads, (long long)head_dim, dtype_name(type), i);
        case_check(r, describe_gate, &h, "gate %s", text);
        case_check(r, describe_grad, &h, "gate_grad %s", text);
    }
}

void cases_run(case_run *r)
{
    check(r, 0, 2, 8, BF16);
    check(r, 1, 1, 1, F32);
    check(r, 5, 4, 64, BF16);
    check(r, 3, 2, 128, F32);
    check(r, 70, 3, 10, F16);
    for (int i = 0; i < 2; i++)
        check(r, case_pick(r, 1, 30), case_pick(r, 1, 9), case_pick(r, 1, 90),
              (dtype)case_pick(r, F32, F16));
}

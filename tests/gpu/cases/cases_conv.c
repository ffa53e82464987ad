// cases_conv.c -- cases of K_CAUSAL_CONV and K_CAUSAL_CONV_GRAD: with and without gates, silu, bias and documents, of full
// sequences and of a rank's part of them.
#include "case.h"

typedef struct shape {
    int64_t batch, full_seq, cols, width;
    dtype type;
    bool gated, silu, bias, ranks, documents;
} shape;

static kernel_causal_conv_args fill(space *s, const shape *h, const char *y)
{
    const int64_t part = h->full_seq / 4;
    kernel_tokens rows = kernel_tokens_from(h->full_seq, 0);
    if (h->ranks)
        rows = (kernel_tokens){
            .seq = 2 * part, .full_seq = h->full_seq, .chunk = part, .start = {part, 2 * part}};
    kernel_causal_conv_args p = {.batch = h->batch,
                                 .cols = h->cols,
                                 .width = h->width,
                                 .rows = rows,
                                 .x_stride = (h->gated ? 3 : 1) * h->cols,
                                 .gated = h->gated,
                                 .silu = h->silu,
                                 .type = h->type};
    p.x_batch = p.x_stride * h->full_seq;
    p.x = space_random(s, h->batch * p.x_batch, h->type, 1, NULL);
    p.w = space_random(s, h->cols * h->width, h->type, 1, NULL);
    if (h->bias) p.bias = space_random(s, h->cols, h->type, 1, NULL);
    if (h->documents) {
        int32_t *start = space_ids(s, h->batch * rows.seq, 5);
        for (int64_t r = 0; r < h->batch * rows.seq; r++) {
            const int32_t position = (int32_t)kernel_row_position(&rows, r);
            start[r] = start[r] < position ? position - start[r] : 0;
        }
        p.rows.documents = start;
    }
    if (y) p.y = space_array_of(s, h->batch * rows.seq * h->cols, h->type, y);
    return p;
}

static kernel_call describe_conv(space *s, const void *args)
{
    return (kernel_call){.kind = K_CAUSAL_CONV, .u.causal_conv = fill(s, args, "y")};
}

static kernel_call describe_grad(space *s, const void *args)
{
    const shape *h = args;
    kernel_call c = {.kind = K_CAUSAL_CONV_GRAD};
    kernel_causal_conv_grad_args *p = &c.u.causal_conv_grad;
    p->fwd = fill(s, h, NULL);
    p->dy = space_random(s, h->batch * p->fwd.rows.seq * h->cols, h->type, 1, NULL);
    p->dx = space_array_of(s, h->batch * p->fwd.x_batch, h->type, "dx");
    p->dw = space_random(s, h->cols * h->width, F32, 1, "dw");
    if (h->bias) p->dbias = space_random(s, h->cols, F32, 1, "dbias");
    p->accumulate_dw = h->gated, p->accumulate_dbias = !h->gated;
    return c;
}

static void check(case_run *r, int64_t batch, int64_t full_seq, int64_t cols, int64_t width,
                  dtype type)
{
    for (int i = 0; i < 12; i++) {
        const shape h = {batch,      full_seq, cols,
                         width,      type,     i & 1,
                         i % 4 == 2, i & 4,    i >= 8 && full_seq >= 4,
                         i % 3 == 1};
        char text[96];
        snprintf(text, sizeof text, "[%lld x %lld, %lld] %lld taps %s variant %d", (long long)batch,
                 (long long)full_seq, (long long)cols, (long long)width, dtype_name(type), i);
        case_check(r, describe_conv, &h, "causal_conv %s", text);
        case_check(r, describe_grad, &h, "causal_conv_grad %s", text);
    }
}

void cases_run(case_run *r)
{
    check(r, 0, 4, 3, 2, F32);
    check(r, 1, 1, 1, 2, BF16);
    check(r, 2, 12, 40, 4, F32);
    check(r, 1, 65, 33, 8, F16);
    check(r, 3, 40, 7, 3, BF16);
    for (int i = 0; i < 2; i++)
        check(r, case_pick(r, 1, 3), case_pick(r, 1, 30), case_pick(r, 1, 90), case_pick(r, 2, 8),
              (dtype)case_pick(r, F32, F16));
}

// ref_conv.c -- reference of the causal convolution and its gradients. Sums are taken in double. It computes u again
// wherever it needs it.
#include "device/cpu/ref/ref.h"

// Element c of part `part` of the token at a position of sequence b: before, after and x where gated, else x.
static double x_of(const kernel_causal_conv_args *p, int64_t b, int64_t position, int part,
                   int64_t c)
{
    return ref_load(p->x, b * p->x_batch + position * p->x_stride + part * p->cols + c, p->type);
}

static double z_of(const kernel_causal_conv_args *p, int64_t b, int64_t position, int64_t c)
{
    if (!p->gated) return x_of(p, b, position, 0, c);
    return x_of(p, b, position, 0, c) * x_of(p, b, position, 2, c);
}

// The sum of row r, which is token `t` of sequence b.
static double u_of(const kernel_causal_conv_args *p, int64_t b, int64_t t, int64_t c)
{
    const int64_t position = kernel_token_position(&p->rows, t);
    double u = p->bias ? ref_load(p->bias, c, p->type) : 0;
    for (int64_t i = kernel_conv_first_tap(p, b * p->rows.seq + t, position); i < p->width; i++)
        u += ref_load(p->w, c * p->width + i, p->type) *
             z_of(p, b, position - (p->width - 1) + i, c);
    return u;
}

void ref_causal_conv(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_causal_conv_args *p = args;
    for (int64_t r = 0; r < p->batch * p->rows.seq; r++)
        for (int64_t c = 0; c < p->cols; c++) {
            const int64_t b = r / p->rows.seq, t = r % p->rows.seq;
            double y = u_of(p, b, t, c);
            if (p->silu) y = ref_activate(ACT_SILU, y);
            if (p->gated) y *= x_of(p, b, kernel_token_position(&p->rows, t), 1, c);
            ref_store(p->y, r * p->cols + c, p->type, (ref_real)y);
        }
}

// The gradient of the sum u of token t of sequence b.
static double du_of(const kernel_causal_conv_grad_args *p, int64_t b, int64_t t, int64_t c)
{
    const kernel_causal_conv_args *f = &p->fwd;
    const double dy = ref_load(p->dy, (b * f->rows.seq + t) * f->cols + c, f->type);
    if (f->gated) return dy * x_of(f, b, kernel_token_position(&f->rows, t), 1, c);
    return f->silu ? dy * ref_activate_slope(ACT_SILU, u_of(f, b, t, c)) : dy;
}

// The gradient of z at a position: of each later row whose window and document hold it.
static double dz_of(const kernel_causal_conv_grad_args *p, int64_t b, int64_t position, int64_t c)
{
    const kernel_causal_conv_args *f = &p->fwd;
    double dz = 0;
    for (int64_t i = 0; i < f->width; i++) {
        const int64_t later = position + f->width - 1 - i, t = kernel_token_at(&f->rows, later);
        if (t < 0 || i < kernel_conv_first_tap(f, b * f->rows.seq + t, later)) continue;
        dz += ref_load(f->w, c * f->width + i, f->type) * du_of(p, b, t, c);
    }
    return dz;
}

static void grad_x(const kernel_causal_conv_grad_args *p, int64_t b, int64_t position, int64_t c)
{
    const kernel_causal_conv_args *f = &p->fwd;
    const int64_t to = b * f->x_batch + position * f->x_stride + c,
                  t = kernel_token_at(&f->rows, position);
    const double dz = dz_of(p, b, position, c);
    if (!f->gated) {
        ref_store(p->dx, to, f->type, (ref_real)dz);
        return;
    }
    const double dy = t < 0 ? 0 : ref_load(p->dy, (b * f->rows.seq + t) * f->cols + c, f->type);
    ref_store(p->dx, to, f->type, (ref_real)(dz * x_of(f, b, position, 2, c)));
    ref_store(p->dx, to + f->cols, f->type, (ref_real)(t < 0 ? 0 : dy * u_of(f, b, t, c)));
    ref_store(p->dx, to + 2 * f->cols, f->type, (ref_real)(dz * x_of(f, b, position, 0, c)));
}

// The gradient of tap i of column c; i = width: of the bias.
static double tap_sum(const kernel_causal_conv_grad_args *p, int64_t c, int64_t i)
{
    const kernel_causal_conv_args *f = &p->fwd;
    double sum = 0;
    for (int64_t r = 0; r < f->batch * f->rows.seq; r++) {
        const int64_t b = r / f->rows.seq, t = r % f->rows.seq,
                      position = kernel_token_position(&f->rows, t);
        if (i < kernel_conv_first_tap(f, r, position)) continue;
        sum +=
            du_of(p, b, t, c) * (i == f->width ? 1 : z_of(f, b, position - (f->width - 1) + i, c));
    }
    return sum;
}

void ref_causal_conv_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_causal_conv_grad_args *p = args;
    const kernel_causal_conv_args *f = &p->fwd;
    for (int64_t c = 0; c < f->cols; c++) {
        for (int64_t i = 0; i < f->width && p->dw; i++) {
            float *to = p->dw + c * f->width + i;
            *to = (float)(tap_sum(p, c, i) + (p->accumulate_dw ? *to : 0));
        }
        if (p->dbias)
            p->dbias[c] =
                (float)(tap_sum(p, c, f->width) + (p->accumulate_dbias ? p->dbias[c] : 0));
        for (int64_t i = 0; i < f->batch * f->rows.full_seq && p->dx; i++)
            grad_x(p, i / f->rows.full_seq, i % f->rows.full_seq, c);
    }
}

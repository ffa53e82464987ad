// ref_delta.c -- reference of the gated delta rule and of its gates: the recurrence, token by token, in double. The
// gradient goes back through the tokens. It keeps as many states as scratch memory holds, and computes the others
// again from the first token on.
#include "device/cpu/ref/ref.h"

#include <string.h>

void ref_delta_gates(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_delta_gates_args *p = args;
    for (int64_t i = 0; i < p->rows * p->heads; i++) {
        const int64_t h = i % p->heads, at = i / p->heads * 2 * p->heads + h;
        const double b = ref_load(p->x, at, p->type),
                     a = (double)ref_load(p->x, at + p->heads, p->type) +
                         (double)ref_load(p->a_bias, h, p->type);
        const double softplus = a > 0 ? a + log1p(exp(-a)) : log1p(exp(a));
        p->gates[at] = (float)(1 / (1 + exp(-b)));
        p->gates[at + p->heads] =
            (float)(-exp((double)ref_load(p->log_decay, h, p->type)) * softplus);
    }
}

void ref_delta_gates_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_delta_gates_args *p = args;
    for (int64_t h = 0; h < p->heads; h++) {
        const double rate = exp((double)ref_load(p->log_decay, h, p->type));
        double log_sum = 0, bias_sum = 0;
        for (int64_t r = 0; r < p->rows; r++) {
            const int64_t at = r * 2 * p->heads + h;
            const double b = ref_load(p->x, at, p->type),
                         a = (double)ref_load(p->x, at + p->heads, p->type) +
                             (double)ref_load(p->a_bias, h, p->type),
                         beta = 1 / (1 + exp(-b)), dg = p->d_gates[at + p->heads],
                         da = -rate * dg / (1 + exp(-a)),
                         softplus = a > 0 ? a + log1p(exp(-a)) : log1p(exp(a));
            log_sum -= dg * rate * softplus, bias_sum += da;
            if (!p->dx) continue;
            ref_store(p->dx, at, p->type, (ref_real)(p->d_gates[at] * beta * (1 - beta)));
            ref_store(p->dx, at + p->heads, p->type, (ref_real)da);
        }
        if (p->d_log_decay)
            p->d_log_decay[h] =
                (float)(log_sum + (p->accumulate_d_log_decay ? p->d_log_decay[h] : 0));
        if (p->d_a_bias)
            p->d_a_bias[h] = (float)(bias_sum + (p->accumulate_d_a_bias ? p->d_a_bias[h] : 0));
    }
}

// Token t of head h of sequence b.
typedef struct ref_token {
    int64_t b, h, t;
    double q[KERNEL_DELTA_DIM], k[KERNEL_DELTA_DIM],
        v[KERNEL_DELTA_DIM];                   // normalised, and q scaled
    double q_factor, k_factor;                 // q and k of x times these are those above
    double beta, g, written[KERNEL_DELTA_DIM]; // beta (v - S^T k)
    bool begins;                               // a document
} ref_token;

static double load_unit(const kernel_delta_rule_args *p, int64_t first, double scale, double *to)
{
    double square = 0;
    for (int64_t i = 0; i < p->key_dim; i++) {
        to[i] = ref_load(p->x, first + i, p->type);
        square += to[i] * to[i];
    }
    const double factor = scale / (p->normalize ? sqrt(square + p->eps) : 1);
    for (int64_t i = 0; i < p->key_dim; i++) to[i] *= factor;
    return factor;
}

static void load_token(const kernel_delta_rule_args *p, ref_token *o, int64_t b, int64_t h,
                       int64_t t)
{
    const int64_t row = b * p->rows.full_seq + t, x = row * kernel_delta_cols(p);
    o->b = b, o->h = h, o->t = t;
    o->q_factor = load_unit(p, x + kernel_delta_q(p, h), p->scale, o->q);
    o->k_factor = load_unit(p, x + kernel_delta_k(p, h), 1, o->k);
    for (int64_t j = 0; j < p->value_dim; j++)
        o->v[j] = ref_load(p->x, x + kernel_delta_v(p, h) + j, p->type);
    o->beta = p->gates[row * 2 * p->heads + h];
    o->g = p->gates[row * 2 * p->heads + p->heads + h];
    o->begins = p->rows.documents && kernel_delta_document(p, b, t) == t;
}

// The state s [Dk, Dv] after the token, from that before it.
static void advance(const kernel_delta_rule_args *p, ref_token *o, double *s)
{
    const int64_t dv = p->value_dim, count = p->key_dim * dv;
    const double keep = o->begins ? 0 : exp(o->g);
    for (int64_t i = 0; i < count; i++) s[i] *= keep;
    for (int64_t j = 0; j < dv; j++) {
        double read = 0;
        for (int64_t i = 0; i < p->key_dim; i++) read += s[i * dv + j] * o->k[i];
        o->written[j] = o->beta * (o->v[j] - read);
    }
    for (int64_t i = 0; i < count; i++) s[i] += o->k[i / dv] * o->written[i % dv];
}

void ref_delta_rule(const cpu_context *x, const void *args)
{
    const kernel_delta_rule_args *p = args;
    const int64_t dv = p->value_dim, count = p->key_dim * dv;
    double *s = cpu_scratch(x, 0);
    ref_token o;
    for (int64_t i = 0; i < p->batch * p->heads; i++) {
        float *state = p->state ? p->state + i * count : NULL;
        for (int64_t c = 0; c < count; c++) s[c] = state ? state[c] : 0;
        for (int64_t t = 0; t < p->rows.full_seq; t++) {
            load_token(p, &o, i / p->heads, i % p->heads, t);
            advance(p, &o, s);
            const int64_t row = kernel_delta_row(p, o.b, t);
            for (int64_t j = 0; j < dv && row >= 0; j++) {
                double sum = 0;
                for (int64_t c = 0; c < p->key_dim; c++) sum += s[c * dv + j] * o.q[c];
                ref_store(p->o, (row * p->heads + o.h) * dv + j, p->type, (ref_real)sum);
            }
        }
        for (int64_t c = 0; c < count && state; c++) state[c] = (float)s[c];
    }
}

// The gradients of one token.
typedef struct ref_token_grad {
    double q[KERNEL_DELTA_DIM], k[KERNEL_DELTA_DIM], v[KERNEL_DELTA_DIM], beta, g;
} ref_token_grad;

// Goes back through the token. `before` is the state before it; d [Dk, Dv] is the gradient of the state after it, and
// becomes that of the state before.
static void go_back(const kernel_delta_rule_grad_args *p, ref_token *o, const double *before,
                    double *after, double *d, ref_token_grad *out)
{
    const kernel_delta_rule_args *f = &p->fwd;
    const int64_t dv = f->value_dim, count = f->key_dim * dv, row = kernel_delta_row(f, o->b, o->t);
    const double keep = o->begins ? 0 : exp(o->g);
    memset(out, 0, sizeof *out);
    memcpy(after, before, sizeof *after * (size_t)count);
    advance(f, o, after);
    for (int64_t i = 0; i < count && row >= 0; i++) {
        const double d_o = ref_load(p->d_o, (row * f->heads + o->h) * dv + i % dv, f->type);
        out->q[i / dv] += after[i] * d_o;
        d[i] += o->q[i / dv] * d_o;
    }
    for (int64_t j = 0; j < dv; j++) {
        double d_written = 0, read = 0;
        for (int64_t i = 0; i < f->key_dim; i++) {
            d_written += d[i * dv + j] * o->k[i];
            out->k[i] += d[i * dv + j] * o->written[j];
            read += keep * before[i * dv + j] * o->k[i];
        }
        out->v[j] = o->beta * d_written;
        out->beta += (o->v[j] - read) * d_written;
        for (int64_t i = 0; i < f->key_dim; i++) {
            const double decayed = keep * before[i * dv + j];
            out->k[i] -= decayed * out->v[j];
            d[i * dv + j] -= o->k[i] * out->v[j];
            out->g += d[i * dv + j] * decayed;
            d[i * dv + j] *= keep;
        }
    }
}

// dx of a q or k from the gradient of what stands for it; the first head of a group overwrites.
static void add_unit(const kernel_delta_rule_grad_args *p, int64_t first, const double *unit,
                     double factor, double scale, const double *d, bool adds)
{
    const kernel_delta_rule_args *f = &p->fwd;
    double along = 0;
    for (int64_t i = 0; i < f->key_dim && f->normalize; i++) along += unit[i] * d[i];
    for (int64_t i = 0; i < f->key_dim; i++) {
        const double dx = factor * (d[i] - unit[i] * along / (scale * scale));
        const double before = adds ? ref_load(p->dx, first + i, f->type) : 0;
        ref_store(p->dx, first + i, f->type, (ref_real)(before + dx));
    }
}

static void store_grads(const kernel_delta_rule_grad_args *p, const ref_token *o,
                        const ref_token_grad *d)
{
    const kernel_delta_rule_args *f = &p->fwd;
    const int64_t row = o->b * f->rows.full_seq + o->t, x = row * kernel_delta_cols(f);
    const bool adds = o->h % (f->heads / f->key_heads) != 0;
    add_unit(p, x + kernel_delta_q(f, o->h), o->q, o->q_factor, f->scale, d->q, adds);
    add_unit(p, x + kernel_delta_k(f, o->h), o->k, o->k_factor, 1, d->k, adds);
    for (int64_t j = 0; j < f->value_dim; j++)
        ref_store(p->dx, x + kernel_delta_v(f, o->h) + j, f->type, (ref_real)d->v[j]);
    p->d_gates[row * 2 * f->heads + o->h] = (float)d->beta;
    p->d_gates[row * 2 * f->heads + f->heads + o->h] = (float)d->g;
}

// The states before tokens first … last of a head go to `states`, one after the other.
static void compute_states(const kernel_delta_rule_args *p, int64_t b, int64_t h, int64_t first,
                           int64_t last, double *states)
{
    const size_t count = (size_t)(p->key_dim * p->value_dim);
    ref_token o;
    memset(states, 0, sizeof *states * count);
    for (int64_t t = 0; t < last; t++) {
        if (t >= first) {
            memcpy(states + count, states, sizeof *states * count);
            states += count;
        }
        load_token(p, &o, b, h, t);
        advance(p, &o, states);
    }
}

void ref_delta_rule_grad(const cpu_context *x, const void *args)
{
    const kernel_delta_rule_grad_args *p = args;
    const kernel_delta_rule_args *f = &p->fwd;
    const int64_t count = f->key_dim * f->value_dim,
                  room =
                      (int64_t)(CPU_SCRATCH_BYTES / sizeof(double)) / (count > 0 ? count : 1) - 2;
    double *d = cpu_scratch(x, 0), *after = d + count, *states = after + count;
    ref_token o;
    ref_token_grad grad;
    for (int64_t i = 0; i < f->batch * f->heads; i++) {
        const int64_t b = i / f->heads, h = i % f->heads;
        memset(d, 0, sizeof *d * (size_t)count);
        for (int64_t end = f->rows.full_seq; end > 0;) {
            const int64_t first = end > room ? end - room : 0;
            compute_states(f, b, h, first, end - 1, states);
            for (; end > first; end--) {
                load_token(f, &o, b, h, end - 1);
                go_back(p, &o, states + (end - 1 - first) * count, after, d, &grad);
                store_grads(p, &o, &grad);
            }
        }
    }
}

// ref_attention.c -- reference of softmax attention and its gradient. The scores of a query are
// computed twice, once for the maximum and once for the sums, so nothing of size T x T is stored.
// Sums run in double, in order of the keys.
#include "device/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

// One query of one head: the offsets of its vectors in elements, and the keys that it sees.
typedef struct ref_query {
    int64_t q, o, stat;  // stat: index in lse and delta
    int64_t k, v;        // of key 0; key j is j strides later
    int64_t first, keys; // keys first … keys-1
    double sink;         // of its head; -INFINITY: none
    rng_key key;         // of dropout
    uint64_t drop;       // index of the random word of key 0
} ref_query;

static ref_query query_at(const kernel_attention_args *p, const kernel_draw_key *d, int64_t b,
                          int64_t h, int64_t t)
{
    int64_t row = b * p->queries.seq + t, kv = h / (p->heads / p->kv_heads);
    int64_t position = kernel_token_position(&p->queries, t);
    uint64_t heads = (uint64_t)(p->dropout.all_heads ? p->dropout.all_heads : p->heads);
    return (ref_query){
        .q = row * p->q_stride + h * p->head_dim,
        .o = row * p->o_stride + h * p->head_dim,
        .stat = (b * p->heads + h) * p->queries.seq + t,
        .k = b * p->k_batch + kv * p->head_dim,
        .v = b * p->v_batch + kv * p->head_dim,
        .first = p->causal ? kernel_attention_row_first_key(p, row) : 0,
        .keys = p->causal ? position + 1 : p->tk,
        .sink = p->sinks ? ref_load(p->sinks, h, p->type) : -INFINITY,
        .key = d->key,
        .drop = ((d->row0 + (uint64_t)kernel_logical_row(&p->queries, row)) * heads +
                 (uint64_t)(p->dropout.head0 + h)) *
                p->dropout.stride,
    };
}

static double dot(const void *a, int64_t a0, const void *b, int64_t b0, int64_t n, dtype type)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)ref_load(a, a0 + i, type) * ref_load(b, b0 + i, type);
    return sum;
}

static double score(const kernel_attention_args *p, const ref_query *query, int64_t j)
{
    const double s =
        p->scale * dot(p->q, query->q, p->k, query->k + j * p->k_stride, p->head_dim, p->type);
    const double cap = p->form.softcap;
    return cap > 0 ? cap * tanh(s / cap) : s;
}

// The slope of the cap at the score that it gave.
static double cap_slope(const kernel_attention_args *p, double score)
{
    const double ratio = p->form.softcap > 0 ? score / p->form.softcap : 0;
    return 1 - ratio * ratio;
}

// The factor by which dropout multiplies the probability of key j: 0 or 1/(1-p).
static double keep_factor(const kernel_attention_args *p, const ref_query *query, int64_t j)
{
    if (p->dropout.p <= 0) return 1;
    float u = rng_uniform(rng_word(query->key, query->drop + (uint64_t)j));
    return u >= p->dropout.p ? 1 / (1 - (double)p->dropout.p) : 0;
}

static void attend(const kernel_attention_args *p, const ref_query *query, double *sums)
{
    double top = query->sink;
    for (int64_t j = query->first; j < query->keys; j++) top = fmax(top, score(p, query, j));
    double total = exp(query->sink - top);
    memset(sums, 0, sizeof(double) * (size_t)p->head_dim);
    for (int64_t j = query->first; j < query->keys; j++) {
        double e = exp(score(p, query, j) - top), weight = e * keep_factor(p, query, j);
        total += e;
        for (int64_t i = 0; i < p->head_dim; i++)
            sums[i] += weight * ref_load(p->v, query->v + j * p->v_stride + i, p->type);
    }
    p->lse[query->stat] = (float)(top + log(total));
    for (int64_t i = 0; i < p->head_dim; i++)
        ref_store(p->o, query->o + i, p->type, (float)(sums[i] / total));
}

void ref_attention(const cpu_context *x, const void *args)
{
    const kernel_attention_args *p = args;
    const kernel_draw_key draw_key = kernel_draw_read(&p->dropout.draw);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t t = 0; t < p->queries.seq; t++) {
                ref_query query = query_at(p, &draw_key, b, h, t);
                attend(p, &query, cpu_scratch(x, 0));
            }
        }
    }
}

// The gradient of one scaled score: p * (dp - delta), times the slope of the cap. p is the probability
// without dropout, and dp is the gradient of the probability.
static double score_grad(const kernel_attention_grad_args *g, const ref_query *query, int64_t j)
{
    const kernel_attention_args *p = &g->fwd;
    double capped = score(p, query, j), probability = exp(capped - p->lse[query->stat]);
    double dp = dot(g->d_o, query->o, p->v, query->v + j * p->v_stride, p->head_dim, p->type) *
                keep_factor(p, query, j);
    return probability * (dp - g->delta[query->stat]) * cap_slope(p, capped);
}

static void grad_query(const kernel_attention_grad_args *g, const ref_query *query, double *sums)
{
    const kernel_attention_args *p = &g->fwd;
    memset(sums, 0, sizeof(double) * (size_t)p->head_dim);
    for (int64_t j = query->first; j < query->keys; j++) {
        double ds = p->scale * score_grad(g, query, j);
        for (int64_t i = 0; i < p->head_dim; i++)
            sums[i] += ds * ref_load(p->k, query->k + j * p->k_stride + i, p->type);
    }
    for (int64_t i = 0; i < p->head_dim; i++)
        ref_store(g->dq, query->q + i, p->type, (float)sums[i]);
}

// dk and dv of key j: sums over the query heads that share it, and for each over its queries.
static void grad_key(const kernel_attention_grad_args *g, const kernel_draw_key *d, int64_t b,
                     int64_t kv, int64_t j, double *dk)
{
    const kernel_attention_args *p = &g->fwd;
    int64_t group = p->heads / p->kv_heads;
    double *dv = dk + p->head_dim;
    memset(dk, 0, 2 * sizeof(double) * (size_t)p->head_dim);
    for (int64_t h = kv * group; h < (kv + 1) * group; h++) {
        for (int64_t t = 0; t < p->queries.seq; t++) {
            ref_query query = query_at(p, d, b, h, t);
            if (j < query.first || j >= query.keys) continue;
            double ds = p->scale * score_grad(g, &query, j);
            double weight =
                exp(score(p, &query, j) - p->lse[query.stat]) * keep_factor(p, &query, j);
            for (int64_t i = 0; i < p->head_dim; i++) {
                dk[i] += ds * ref_load(p->q, query.q + i, p->type);
                dv[i] += weight * ref_load(g->d_o, query.o + i, p->type);
            }
        }
    }
    ref_query query = query_at(p, d, b, kv * group, 0);
    for (int64_t i = 0; i < p->head_dim; i++) {
        ref_store(g->dk, query.k + j * p->k_stride + i, p->type, (float)dk[i]);
        ref_store(g->dv, query.v + j * p->v_stride + i, p->type, (float)dv[i]);
    }
}

static void grad_sink(const kernel_attention_grad_args *g, const kernel_draw_key *d, int64_t h)
{
    const kernel_attention_args *p = &g->fwd;
    double sum = 0;
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t t = 0; t < p->queries.seq; t++) {
            ref_query query = query_at(p, d, b, h, t);
            sum -= exp(query.sink - p->lse[query.stat]) * g->delta[query.stat];
        }
    }
    g->d_sinks[h] = (float)(g->accumulate_d_sinks ? g->d_sinks[h] + sum : sum);
}

void ref_attention_grad(const cpu_context *x, const void *args)
{
    const kernel_attention_grad_args *g = args;
    const kernel_attention_args *p = &g->fwd;
    const kernel_draw_key draw_key = kernel_draw_read(&p->dropout.draw);
    double *sums = cpu_scratch(x, 0);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t h = 0; h < p->heads; h++) {
            for (int64_t t = 0; t < p->queries.seq; t++) {
                ref_query query = query_at(p, &draw_key, b, h, t);
                g->delta[query.stat] =
                    (float)dot(g->d_o, query.o, p->o, query.o, p->head_dim, p->type);
                grad_query(g, &query, sums);
            }
        }
        for (int64_t kv = 0; kv < p->kv_heads; kv++)
            for (int64_t j = 0; j < p->tk; j++) grad_key(g, &draw_key, b, kv, j, sums);
    }
    for (int64_t h = 0; h < p->heads && g->d_sinks; h++) grad_sink(g, &draw_key, h);
}

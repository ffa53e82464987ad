// ref_attention.c -- reference of softmax attention and its gradient. The scores of a query are
// computed twice, once for the maximum and once for the sums, so nothing of size T x T is stored.
// Sums run in double, in order of the keys.
#include "device/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

// One query of one head: the offsets of its vectors in elements, and the number of keys that it
// sees.
typedef struct ref_query {
    int64_t q, o, stat; // stat: index in lse and delta
    int64_t k, v;       // of key 0; key j is j strides later
    int64_t keys;
    rng_key key;   // of dropout
    uint64_t drop; // index of the random word of key 0
} ref_query;

static ref_query query_at(const kernel_attention_args *p, const kernel_draw_key *d, int64_t b,
                          int64_t h, int64_t t)
{
    int64_t row = b * p->queries.seq + t, kv = h / (p->heads / p->kv_heads);
    uint64_t heads = (uint64_t)(p->dropout.all_heads ? p->dropout.all_heads : p->heads);
    return (ref_query){
        .q = row * p->q_stride + h * p->head_dim,
        .o = row * p->o_stride + h * p->head_dim,
        .stat = (b * p->heads + h) * p->queries.seq + t,
        .k = b * p->k_batch + kv * p->head_dim,
        .v = b * p->v_batch + kv * p->head_dim,
        .keys = p->causal ? kernel_token_position(&p->queries, t) + 1 : p->tk,
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
    return p->scale * dot(p->q, query->q, p->k, query->k + j * p->k_stride, p->head_dim, p->type);
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
    double top = -INFINITY, total = 0;
    for (int64_t j = 0; j < query->keys; j++) top = fmax(top, score(p, query, j));
    memset(sums, 0, sizeof(double) * (size_t)p->head_dim);
    for (int64_t j = 0; j < query->keys; j++) {
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

// The gradient of one score before the scale: p * (dp - delta). p is the probability without
// dropout, and dp is the gradient of the probability.
static double score_grad(const kernel_attention_grad_args *g, const ref_query *query, int64_t j)
{
    const kernel_attention_args *p = &g->fwd;
    double probability = exp(score(p, query, j) - p->lse[query->stat]);
    double dp = dot(g->d_o, query->o, p->v, query->v + j * p->v_stride, p->head_dim, p->type) *
                keep_factor(p, query, j);
    return probability * (dp - g->delta[query->stat]);
}

static void grad_query(const kernel_attention_grad_args *g, const ref_query *query, double *sums)
{
    const kernel_attention_args *p = &g->fwd;
    memset(sums, 0, sizeof(double) * (size_t)p->head_dim);
    for (int64_t j = 0; j < query->keys; j++) {
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
            if (j >= query.keys) continue;
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
}

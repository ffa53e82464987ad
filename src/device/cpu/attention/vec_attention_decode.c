// vec_attention_decode.c -- vector form of attention for one or a few queries, as in decoding. Its
// time is that of reading keys and values once, so it takes dot products of them in place, without
// packing. Called by VEC(attention). One thread does one head of keys, with all query heads that
// read it.
#include "device/cpu/attention/vec_attention.h"
#include "device/cpu/ref/ref.h"

enum { DECODE_KEYS = 256 }; // keys that are done at a time

// The state of all queries that read one head of keys.
typedef struct vec_decode {
    const kernel_attention_args *p;
    kernel_draw_key draw_key; // of dropout
    int64_t b, kv, width;
    float *q;    // [queries, width], scaled
    float *o;    // [queries, width], not yet divided by the sums
    float *s;    // [DECODE_KEYS], scores, then probabilities
    double *sum; // [queries], sums of exp(score - top)
    float *top;  // [queries], maximum of the scores so far
} vec_decode;

VEC_INLINE float dot(const float *a, const void *b, int64_t n, dtype type)
{
    vf sum = v_zero();
#define DOT(c, lanes) sum += v_load(a, c, F32) * v_load_n(b, c, lanes, type)
    V_EACH(c, 0, n, DOT);
#undef DOT
    return v_sum(sum);
}

// o [n] += weight [keys] · v [keys, n], whose rows are `stride` elements apart.
VEC_INLINE void add_weighted(float *o, const float *weight, const void *v, int64_t stride,
                             int64_t keys, int64_t n, dtype type)
{
    int64_t c = 0;
    for (; c + 4 * VL <= n; c += 4 * VL) {
        vf sum[4];
        for (int i = 0; i < 4; i++) sum[i] = v_load(o, c + i * VL, F32);
        for (int64_t j = 0; j < keys; j++)
            for (int i = 0; i < 4; i++)
                sum[i] += v_set(weight[j]) * v_load(v, j * stride + c + i * VL, type);
        for (int i = 0; i < 4; i++) v_store(o, c + i * VL, F32, sum[i]);
    }
    for (; c < n; c += VL) {
        vf sum = v_load(o, c, F32);
        for (int64_t j = 0; j < keys; j++)
            sum += v_set(weight[j]) * v_load_n(v, j * stride + c, size_min(n - c, VL), type);
        v_store(o, c, F32, sum);
    }
}

// Replaces the scores in d->s [keys] by exp(score - maximum), with the new maximum of query i.
static void softmax_scores(vec_decode *d, int64_t i, int64_t keys)
{
    vf tops = v_set(d->top[i]);
    for (int64_t j = 0; j < keys; j += VL)
        tops = v_max(tops, v_pick(v_first_lanes(keys - j), v_load(d->s, j, F32), tops));
    float top = v_top(tops);
    float fade = v_exp_negative(v_set(d->top[i] - top))[0];
    if (d->top[i] > -INFINITY && fade != 1) {
        d->sum[i] *= fade;
        for (int64_t c = 0; c < d->width; c++) d->o[i * d->width + c] *= fade;
    }
    d->top[i] = top;
    vf sum = v_zero();
    for (int64_t j = 0; j < keys; j += VL) {
        vf e = v_keep(v_first_lanes(keys - j), v_exp_negative(v_load(d->s, j, F32) - v_set(top)));
        sum += e;
        v_store(d->s, j, F32, e);
    }
    d->sum[i] += v_sum(sum);
}

static void drop_scores(const vec_decode *d, int64_t h, int64_t t, int64_t k0, int64_t keys)
{
    for (int64_t j = 0; j < keys; j += TILE_KEYS) {
        float keep[TILE_KEYS];
        dropout_row(d->p, &d->draw_key, d->b, h, t, k0 + j, TILE_KEYS, keep);
        for (int64_t c = 0; c < TILE_KEYS; c += VL)
            v_store(d->s, j + c, F32, v_load(d->s, j + c, F32) * v_load(keep, c, F32));
    }
}

// Query t of head h, whose state has index i, against keys k0 … k0+keys-1.
VEC_INLINE void decode_keys(vec_decode *d, int64_t i, int64_t h, int64_t t, int64_t k0,
                            int64_t keys, dtype type)
{
    const kernel_attention_args *p = d->p;
    const void *k = vec_at(p->k, d->b * p->k_batch + d->kv * p->head_dim + k0 * p->k_stride, type);
    const void *v = vec_at(p->v, d->b * p->v_batch + d->kv * p->head_dim + k0 * p->v_stride, type);
    for (int64_t j = 0; j < keys; j++)
        d->s[j] = dot(d->q + i * d->width, vec_at(k, j * p->k_stride, type), p->head_dim, type);
    if (p->form.softcap > 0)
        cap_scores(d->s, NULL, 1, size_ceil_div(keys, VL) * VL, p->form.softcap);
    softmax_scores(d, i, keys);
    if (p->dropout.p > 0) drop_scores(d, h, t, k0, keys);
    add_weighted(d->o + i * d->width, d->s, v, p->v_stride, keys, p->head_dim, type);
}

static void decode_layout(vec_decode *d, float *memory)
{
    const kernel_attention_args *p = d->p;
    int64_t queries = p->heads / p->kv_heads * p->queries.seq;
    d->width = size_ceil_div(p->head_dim, VL) * VL;
    d->sum = (double *)memory;
    d->q = memory + 2 * (size_ceil_div(queries, VL) * VL);
    d->o = d->q + queries * d->width;
    d->s = d->o + queries * d->width;
    d->top = d->s + DECODE_KEYS;
}

static size_t decode_bytes(const kernel_attention_args *p)
{
    int64_t queries = p->heads / p->kv_heads * p->queries.seq;
    int64_t floats =
        2 * queries * (size_ceil_div(p->head_dim, VL) * VL) + DECODE_KEYS + 4 * queries + 4 * VL;
    return sizeof(float) * (size_t)floats;
}

// The first key that query t of the current sequence sees.
static int64_t first_key(const vec_decode *d, int64_t t)
{
    return d->p->causal ? kernel_attention_row_first_key(d->p, d->b * d->p->queries.seq + t) : 0;
}

// Packs the queries of one head of keys and resets their state.
static void decode_start(vec_decode *d)
{
    const kernel_attention_args *p = d->p;
    int64_t group = p->heads / p->kv_heads;
    for (int64_t i = 0; i < group * p->queries.seq; i++) {
        int64_t h = d->kv * group + i / p->queries.seq,
                row = d->b * p->queries.seq + i % p->queries.seq;
        const void *q = vec_at(p->q, row * p->q_stride + h * p->head_dim, p->type);
        VEC(tile_pack)(d->q + i * d->width, d->width, q, 0, 1, p->head_dim, p->scale, p->type);
        memset(d->o + i * d->width, 0, sizeof(float) * (size_t)d->width);
        d->top[i] = p->sinks ? ref_load(p->sinks, h, p->type) : -INFINITY;
        d->sum[i] = d->top[i] > -INFINITY; // the sink alone, or nothing
    }
}

static void decode_finish(const vec_decode *d)
{
    const kernel_attention_args *p = d->p;
    int64_t group = p->heads / p->kv_heads;
    for (int64_t i = 0; i < group * p->queries.seq; i++) {
        int64_t h = d->kv * group + i / p->queries.seq, t = i % p->queries.seq;
        void *o =
            vec_at(p->o, (d->b * p->queries.seq + t) * p->o_stride + h * p->head_dim, p->type);
        p->lse[(d->b * p->heads + h) * p->queries.seq + t] = (float)(d->top[i] + log(d->sum[i]));
        VEC(tile_unpack)
        (o, 0, d->o + i * d->width, d->width, 1, p->head_dim, (float)(1 / d->sum[i]), p->type);
    }
}

static void decode_heads(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    const kernel_attention_args *p = args;
    int64_t group = p->heads / p->kv_heads;
    vec_decode d = {.p = p, .draw_key = kernel_draw_read(&p->dropout.draw)};
    decode_layout(&d, cpu_scratch(x, thread));
    for (int64_t task = first; task < last; task++) {
        d.b = task / p->kv_heads;
        d.kv = task % p->kv_heads;
        decode_start(&d);
        for (int64_t k0 = first_key(&d, 0); k0 < p->tk; k0 += DECODE_KEYS) {
            for (int64_t i = 0; i < group * p->queries.seq; i++) {
                int64_t h = d.kv * group + i / p->queries.seq, t = i % p->queries.seq;
                int64_t seen = keys_seen_in(p, t, k0, size_min(DECODE_KEYS, p->tk - k0));
                int64_t hidden = first_key(&d, t) - k0;
                hidden = hidden < 0 ? 0 : size_min(hidden, seen);
                if (seen == hidden) continue;
#define CALL(type) decode_keys(&d, i, h, t, k0 + hidden, seen - hidden, type)
                V_BY_TYPE(p->type, CALL);
#undef CALL
            }
        }
        decode_finish(&d);
    }
}

void VEC(attention_decode)(const cpu_context *x, const void *args)
{
    const kernel_attention_args *p = args;
    if (decode_bytes(p) > CPU_SCRATCH_BYTES) {
        ref_attention(x, p); // thousands of query heads on one head of keys: no fast form
    } else {
        VEC(share)(x, p, p->batch * p->kv_heads, vec_grain(p->tk * p->head_dim / 2), decode_heads);
    }
}

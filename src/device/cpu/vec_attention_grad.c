// vec_attention_grad.c -- fused attention, backward: probabilities are computed again tile by tile
// from the saved log-sum-exp. A tile of keys stays, the queries that see it go by; dk and dv of the
// tile are sums over them, dq adds up over the tiles. One thread does one head of keys and values
// with all the query heads that share it, in order, so sums have one order.
#include "device/cpu/ref.h"
#include "device/cpu/vec_attention.h"
#include "device/cpu/vec_math.h"

// One head of keys, the tile of keys in hand, and the tile of queries that goes by.
typedef struct backward {
    const kernel_attention_grad_args *g;
    const kernel_attention_args *p;
    int64_t b, kv, h;           // h: the query head that goes by
    int64_t width;              // of rows: head_dim rounded up to VL
    float *k_turned, *v_turned; // [D, TILE_KEYS]
    float *k;                   // [TILE_KEYS, width], times scale
    float *dk, *dv;             // [TILE_KEYS, width]
    float *q, *d_o;             // [TILE_QUERIES, width], q times scale
    float *s, *ds;              // [TILE_QUERIES, TILE_KEYS] probabilities and score gradients
    float *dq;                  // [TILE_QUERIES, width], or all of the sums of dq
} backward;

// What a sweep over tiles is for: all gradients at once where the sums of dq fit, else two sweeps.
typedef enum sweep { SWEEP_ALL, SWEEP_KEYS, SWEEP_QUERIES } sweep;

// Where the sums of dq of a tile of queries are kept, and whether there are some yet.
typedef struct query_sums {
    float *at;
    int64_t stride;
    bool add;
} query_sums;

static int64_t backward_floats(int64_t width)
{
    return 8 * TILE_KEYS * width + 2 * TILE_QUERIES * TILE_KEYS;
}

static void backward_layout(backward *w, float *at)
{
    w->width = round_up(w->p->head_dim, VL);
    float **tiles[] = {&w->k_turned, &w->v_turned, &w->k, &w->dk, &w->dv, &w->q, &w->d_o};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++, at += TILE_KEYS * w->width)
        *tiles[i] = at;
    w->s = at;
    w->ds = w->s + TILE_QUERIES * TILE_KEYS;
    w->dq = w->ds + TILE_QUERIES * TILE_KEYS;
}

// The first vector of query row t (key row j) of the head in hand, in elements.
static int64_t query_at(const backward *w, int64_t t, int64_t stride)
{
    return (w->b * w->p->tq + t) * stride + w->h * w->p->head_dim;
}

static int64_t key_at(const backward *w, int64_t j, int64_t stride, int64_t batch)
{
    return w->b * batch + j * stride + w->kv * w->p->head_dim;
}

static int64_t stat_at(const backward *w, int64_t t)
{
    return (w->b * w->p->heads + w->h) * w->p->tq + t;
}

VEC_INLINE void sum_delta(const backward *w, dtype type)
{
    const kernel_attention_args *p = w->p;
    for (int64_t t = 0; t < p->tq; t++) {
        int64_t at = query_at(w, t, p->o_stride);
        vf sum = v_zero();
#define DELTA(c, n) sum += v_load_n(p->o, at + c, n, type) * v_load_n(w->g->d_o, at + c, n, type)
        V_EACH(c, 0, p->head_dim, DELTA);
#undef DELTA
        w->g->delta[stat_at(w, t)] = v_sum(sum);
    }
}

// Row r of the tile (query t), of whose keys it sees `seen`: scores in s to probabilities, their
// gradients in ds to score gradients (before the scale).
VEC_INLINE void grad_row(const backward *w, int64_t r, int64_t t, int64_t k0, int64_t seen,
                         bool dropout)
{
    float *s = w->s + r * TILE_KEYS, *ds = w->ds + r * TILE_KEYS, keep[TILE_KEYS];
    vf lse = v_set(w->p->lse[stat_at(w, t)]), delta = v_set(w->g->delta[stat_at(w, t)]);
    if (dropout) dropout_row(w->p, w->b, w->h, t, k0, TILE_KEYS, keep);
    for (int64_t c = 0; c < TILE_KEYS; c += VL) {
        vf p = v_exp_negative(v_load(s, c, F32) - lse), dp = v_load(ds, c, F32), kept = p;
        if (dropout) {
            kept = p * v_load(keep, c, F32);
            dp = dp * v_load(keep, c, F32);
        }
        vf grad = p * (dp - delta);
        if (seen < TILE_KEYS) {
            kept = v_keep(v_first_lanes(seen - c), kept);
            grad = v_keep(v_first_lanes(seen - c), grad);
        }
        v_store(s, c, F32, kept);
        v_store(ds, c, F32, grad);
    }
}

static void grad_rows(const backward *w, int64_t row, int64_t rows, int64_t t0, int64_t k0,
                      int64_t keys)
{
    for (int64_t r = row; r < row + rows; r++) {
        int64_t seen = keys_seen_in(w->p, t0 + r, k0, keys);
        if (w->p->dropout > 0) {
            grad_row(w, r, t0 + r, k0, seen, true);
        } else if (seen < TILE_KEYS) {
            grad_row(w, r, t0 + r, k0, seen, false);
        } else {
            grad_row(w, r, t0 + r, k0, TILE_KEYS, false);
        }
    }
}

// dk and dv of keys j … j+keys-1 of the tile from rows `row` … rows-1.
static void add_key_grads(const backward *w, int64_t j, int64_t keys, int64_t row, int64_t rows)
{
    tile_product product = {.m = keys,
                            .n = w->width,
                            .k = rows - row,
                            .a = w->s + row * TILE_KEYS + j,
                            .lda = TILE_KEYS,
                            .b = w->d_o + row * w->width,
                            .ldb = w->width,
                            .c = w->dv + j * w->width,
                            .ldc = w->width,
                            .order = TILE_BY_COLUMN,
                            .add = true};
    VEC(tile_multiply)(&product);
    product.a = w->ds + row * TILE_KEYS + j;
    product.b = w->q + row * w->width;
    product.c = w->dk + j * w->width;
    VEC(tile_multiply)(&product);
}

// One piece of rows: probabilities, score gradients, and dq.
static void grad_strip(const backward *w, int64_t row, int64_t rows, int64_t t0, int64_t k0,
                       int64_t seen, sweep what, query_sums dq)
{
    tile_product product = {.m = rows,
                            .n = round_up(seen, VL),
                            .k = w->p->head_dim,
                            .a = w->q + row * w->width,
                            .lda = w->width,
                            .b = w->k_turned,
                            .ldb = TILE_KEYS,
                            .c = w->s + row * TILE_KEYS,
                            .ldc = TILE_KEYS};
    VEC(tile_multiply)(&product);
    product.a = w->d_o + row * w->width;
    product.b = w->v_turned;
    product.c = w->ds + row * TILE_KEYS;
    VEC(tile_multiply)(&product);
    grad_rows(w, row, rows, t0, k0, seen);
    if (what == SWEEP_KEYS) return;
    VEC(tile_multiply)
    (&(tile_product){.m = rows,
                     .n = w->width,
                     .k = seen,
                     .a = w->ds + row * TILE_KEYS,
                     .lda = TILE_KEYS,
                     .b = w->k,
                     .ldb = w->width,
                     .c = dq.at + row * dq.stride,
                     .ldc = dq.stride,
                     .add = dq.add});
}

// Queries t0 … against keys k0 …. Where the causal mask cuts through, in pieces of rows, then in
// pieces of keys, each with the part that it sees.
static void grad_tile(const backward *w, int64_t t0, int64_t rows, int64_t k0, int64_t keys,
                      sweep what, query_sums dq)
{
    const kernel_attention_args *p = w->p;
    int64_t last = keys_seen_in(p, t0 + rows - 1, k0, keys);
    bool cut = keys_seen_in(p, t0, k0, keys) < last;
    int64_t step = cut ? TILE_STRIP : TILE_QUERIES;
    for (int64_t r = 0; r < rows; r += step) {
        int64_t piece = min64(step, rows - r);
        int64_t seen = keys_seen_in(p, t0 + r + piece - 1, k0, keys);
        if (seen > 0) grad_strip(w, r, piece, t0, k0, seen, what, dq);
    }
    if (what == SWEEP_QUERIES) return;
    for (int64_t j = 0; j < last; j += step) {
        int64_t row = cut ? k0 + j + p->tq - p->tk - t0 : 0; // the first to see key j
        add_key_grads(w, j, min64(step, last - j), row > 0 ? row : 0, rows);
    }
}

static void pack_keys(const backward *w, int64_t k0, int64_t keys)
{
    const kernel_attention_args *p = w->p;
    const void *k = vec_at(p->k, key_at(w, k0, p->k_stride, p->k_batch), p->type);
    const void *v = vec_at(p->v, key_at(w, k0, p->v_stride, p->v_batch), p->type);
    VEC(tile_pack_turned)(w->k_turned, TILE_KEYS, k, p->k_stride, keys, p->head_dim, p->type);
    VEC(tile_pack_turned)(w->v_turned, TILE_KEYS, v, p->v_stride, keys, p->head_dim, p->type);
    VEC(tile_pack)(w->k, w->width, k, p->k_stride, keys, p->head_dim, p->scale, p->type);
}

static void pack_queries(const backward *w, int64_t t0, int64_t rows)
{
    const kernel_attention_args *p = w->p;
    const void *q = vec_at(p->q, query_at(w, t0, p->q_stride), p->type);
    const void *d_o = vec_at(w->g->d_o, query_at(w, t0, p->o_stride), p->type);
    VEC(tile_pack)(w->q, w->width, q, p->q_stride, rows, p->head_dim, p->scale, p->type);
    VEC(tile_pack)(w->d_o, w->width, d_o, p->o_stride, rows, p->head_dim, 1, p->type);
}

static void unpack_queries(const backward *w, int64_t t, int64_t rows, const float *dq)
{
    const kernel_attention_args *p = w->p;
    void *to = vec_at(w->g->dq, query_at(w, t, p->q_stride), p->type);
    VEC(tile_unpack)(to, p->q_stride, dq, w->width, rows, p->head_dim, 1, p->type);
}

static void unpack_keys(const backward *w, int64_t k0, int64_t keys)
{
    const kernel_attention_args *p = w->p;
    void *dk = vec_at(w->g->dk, key_at(w, k0, p->k_stride, p->k_batch), p->type);
    void *dv = vec_at(w->g->dv, key_at(w, k0, p->v_stride, p->v_batch), p->type);
    VEC(tile_unpack)(dk, p->k_stride, w->dk, w->width, keys, p->head_dim, 1, p->type);
    VEC(tile_unpack)(dv, p->v_stride, w->dv, w->width, keys, p->head_dim, 1, p->type);
}

// dq itself can hold its sums when it is fp32 and needs no padding.
static bool sums_in_place(const backward *w)
{
    return w->p->type == F32 && w->width == w->p->head_dim;
}

static query_sums sums_of(const backward *w, int64_t t0, bool add)
{
    const kernel_attention_args *p = w->p;
    if (sums_in_place(w))
        return (query_sums){(float *)w->g->dq + query_at(w, t0, p->q_stride), p->q_stride, add};
    int64_t group = p->heads / p->kv_heads;
    return (query_sums){w->dq + ((w->h - w->kv * group) * p->tq + t0) * w->width, w->width, add};
}

// All tiles of keys, each against the queries of every head that shares it.
static void sweep_keys(backward *w, sweep what)
{
    const kernel_attention_args *p = w->p;
    int64_t group = p->heads / p->kv_heads;
    for (int64_t k0 = 0; k0 < p->tk; k0 += TILE_KEYS) {
        int64_t keys = min64(TILE_KEYS, p->tk - k0), blind = p->causal ? k0 + p->tq - p->tk : 0;
        pack_keys(w, k0, keys);
        memset(w->dk, 0, sizeof(float) * (size_t)(keys * w->width));
        memset(w->dv, 0, sizeof(float) * (size_t)(keys * w->width));
        for (w->h = w->kv * group; w->h < (w->kv + 1) * group; w->h++) {
            int64_t t0 = blind > 0 ? blind / TILE_QUERIES * TILE_QUERIES : 0;
            for (; t0 < p->tq; t0 += TILE_QUERIES) {
                int64_t rows = min64(TILE_QUERIES, p->tq - t0);
                pack_queries(w, t0, rows);
                grad_tile(w, t0, rows, k0, keys, what, sums_of(w, t0, k0 > 0));
            }
        }
        unpack_keys(w, k0, keys);
    }
}

// dq alone, a tile of queries after the other: the sums need one tile of memory.
static void sweep_queries(backward *w)
{
    const kernel_attention_args *p = w->p;
    for (int64_t t0 = 0; t0 < p->tq; t0 += TILE_QUERIES) {
        int64_t rows = min64(TILE_QUERIES, p->tq - t0);
        int64_t seen = min64(keys_seen(p, t0 + rows - 1), p->tk);
        pack_queries(w, t0, rows);
        for (int64_t k0 = 0; k0 < seen; k0 += TILE_KEYS) {
            int64_t keys = min64(TILE_KEYS, p->tk - k0);
            pack_keys(w, k0, keys);
            grad_tile(w, t0, rows, k0, keys, SWEEP_QUERIES, (query_sums){w->dq, w->width, k0 > 0});
        }
        unpack_queries(w, t0, rows, w->dq);
    }
}

static void backward_heads(const cpu_context *x, const void *args, int64_t first, int64_t last,
                           int thread)
{
    const kernel_attention_grad_args *g = args;
    const kernel_attention_args *p = &g->fwd;
    int64_t group = p->heads / p->kv_heads;
    backward w = {.g = g, .p = p};
    backward_layout(&w, cpu_scratch(x, thread));
    int64_t fixed = backward_floats(w.width) - TILE_QUERIES * w.width;
    int64_t room = (int64_t)(CPU_SCRATCH_BYTES / sizeof(float)) - fixed;
    bool one_sweep = sums_in_place(&w) || group * p->tq * w.width <= room;
    for (int64_t i = first; i < last; i++) {
        w.b = i / p->kv_heads;
        w.kv = i % p->kv_heads;
        for (w.h = w.kv * group; w.h < (w.kv + 1) * group; w.h++) {
#define CALL(type) sum_delta(&w, type)
            V_BY_TYPE(p->type, CALL);
#undef CALL
            if (!one_sweep) sweep_queries(&w);
        }
        sweep_keys(&w, one_sweep ? SWEEP_ALL : SWEEP_KEYS);
        if (!one_sweep || sums_in_place(&w)) continue;
        for (w.h = w.kv * group; w.h < (w.kv + 1) * group; w.h++)
            unpack_queries(&w, 0, p->tq, sums_of(&w, 0, false).at);
    }
}

void VEC(attention_grad)(const cpu_context *x, const void *args)
{
    const kernel_attention_grad_args *g = args;
    const kernel_attention_args *p = &g->fwd;
    if (sizeof(float) * (size_t)backward_floats(round_up(p->head_dim, VL)) > CPU_SCRATCH_BYTES) {
        ref_attention_grad(x, g); // heads wider than about 2000: no fast form
    } else {
        int64_t grain = vec_grain(p->tq * p->tk * p->head_dim / 16);
        VEC(share)(x, g, p->batch * p->kv_heads, grain, backward_heads);
    }
}

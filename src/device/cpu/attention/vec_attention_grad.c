// vec_attention_grad.c -- vector form of the gradient of attention, fused. It computes the
// probabilities again, tile by tile, from the saved log-sum-exp. For each tile of keys it goes
// through the queries of its document that see it: dk and dv of the tile are sums over those queries, and
// dq is a sum over the tiles. One thread does one head of keys and values with all query heads that share
// it, in order, so every sum has one order.
#include "device/cpu/attention/vec_attention.h"
#include "device/cpu/ref/ref.h"

// One head of keys, its current tile of keys, and the current tile of queries.
typedef struct vec_backward {
    const kernel_attention_grad_args *g;
    const kernel_attention_args *p;
    kernel_draw_key draw_key; // of dropout
    int64_t b, kv, h;         // h: the current query head
    int64_t width;            // D rounded up to VL
    float *k_t, *v_t;         // [D, TILE_KEYS], transposed
    float *k;                 // [TILE_KEYS, width], times scale
    float *dk, *dv;           // [TILE_KEYS, width]
    float *q, *d_o;           // [TILE_QUERIES, width], q times scale
    float *s, *ds;            // [TILE_QUERIES, TILE_KEYS], probabilities and gradients of scores
    float *slope;             // [TILE_QUERIES, TILE_KEYS], of the cap; NULL: there is none
    float *dq;                // [TILE_QUERIES, width], or [group * Tq, width] when all sums fit
} vec_backward;

// The gradients that a sweep over tiles computes: all of them where the sums of dq fit in scratch
// memory, else dq in one sweep, and dk and dv in another.
typedef enum vec_sweep { SWEEP_ALL, SWEEP_KEYS, SWEEP_QUERIES } vec_sweep;

// The sums of dq of a tile of queries, and whether to add to them or to overwrite them.
typedef struct vec_query_sums {
    float *sums;
    int64_t stride;
    bool add;
} vec_query_sums;

static int64_t backward_floats(const kernel_attention_args *p)
{
    const int64_t width = size_ceil_div(p->head_dim, VL) * VL, scores = p->form.softcap > 0 ? 3 : 2;
    return 8 * TILE_KEYS * width + scores * TILE_QUERIES * TILE_KEYS;
}

static void backward_layout(vec_backward *w, float *memory)
{
    w->width = size_ceil_div(w->p->head_dim, VL) * VL;
    float **tiles[] = {&w->k_t, &w->v_t, &w->k, &w->dk, &w->dv, &w->q, &w->d_o};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++, memory += TILE_KEYS * w->width)
        *tiles[i] = memory;
    w->s = memory;
    w->ds = w->s + TILE_QUERIES * TILE_KEYS;
    w->dq = w->ds + TILE_QUERIES * TILE_KEYS;
    if (w->p->form.softcap == 0) return;
    w->slope = w->dq;
    w->dq = w->slope + TILE_QUERIES * TILE_KEYS;
}

// Offsets in elements of query t, of key j, and of the statistics of query t, for the current head.
static int64_t query_offset(const vec_backward *w, int64_t t, int64_t stride)
{
    return (w->b * w->p->queries.seq + t) * stride + w->h * w->p->head_dim;
}

static int64_t key_offset(const vec_backward *w, int64_t j, int64_t stride, int64_t batch)
{
    return w->b * batch + j * stride + w->kv * w->p->head_dim;
}

static int64_t stat_offset(const vec_backward *w, int64_t t)
{
    return (w->b * w->p->heads + w->h) * w->p->queries.seq + t;
}

VEC_INLINE void sum_delta(const vec_backward *w, dtype type)
{
    const kernel_attention_args *p = w->p;
    for (int64_t t = 0; t < p->queries.seq; t++) {
        int64_t o = query_offset(w, t, p->o_stride);
        vf sum = v_zero();
#define DELTA(c, n) sum += v_load_n(p->o, o + c, n, type) * v_load_n(w->g->d_o, o + c, n, type)
        V_EACH(c, 0, p->head_dim, DELTA);
#undef DELTA
        w->g->delta[stat_offset(w, t)] = v_sum(sum);
    }
}

// Row r of the tile, query t, which sees keys `hidden` … seen-1 of the tile. Replaces the scores in s by
// probabilities, and the gradients of probabilities in ds by those of capped scores.
VEC_INLINE void grad_row(const vec_backward *w, int64_t r, int64_t t, int64_t k0, int64_t hidden,
                         int64_t seen, bool dropout)
{
    float *s = w->s + r * TILE_KEYS, *ds = w->ds + r * TILE_KEYS, keep[TILE_KEYS];
    vf lse = v_set(w->p->lse[stat_offset(w, t)]), delta = v_set(w->g->delta[stat_offset(w, t)]);
    if (dropout) dropout_row(w->p, &w->draw_key, w->b, w->h, t, k0, TILE_KEYS, keep);
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
        if (hidden > 0) {
            kept = v_pick(v_first_lanes(hidden - c), v_zero(), kept);
            grad = v_pick(v_first_lanes(hidden - c), v_zero(), grad);
        }
        v_store(s, c, F32, kept);
        v_store(ds, c, F32, grad);
    }
}

static void grad_rows(const vec_backward *w, int64_t row, int64_t rows, int64_t t0, int64_t k0,
                      int64_t keys)
{
    for (int64_t r = row; r < row + rows; r++) {
        int64_t seen = keys_seen_in(w->p, t0 + r, k0, keys);
        int64_t hidden = keys_hidden_in(w->p, t0 + r, k0, keys);
        bool dropout = w->p->dropout.p > 0;
        if (hidden > 0) {
            grad_row(w, r, t0 + r, k0, hidden, seen, dropout);
        } else if (dropout) {
            grad_row(w, r, t0 + r, k0, 0, seen, true);
        } else if (seen < TILE_KEYS) {
            grad_row(w, r, t0 + r, k0, 0, seen, false);
        } else {
            grad_row(w, r, t0 + r, k0, 0, TILE_KEYS, false);
        }
    }
}

// From the gradients of capped scores of `rows` rows and `width` columns of a strip: those of the scores.
static void cap_grads(float *ds, const float *slope, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = r * TILE_KEYS; i < r * TILE_KEYS + width; i += VL)
            v_store(ds, i, F32, v_load(ds, i, F32) * v_load(slope, i, F32));
}

// Adds the shares of rows `row` … rows-1 to dk and dv of keys j … j+keys-1 of the tile.
static void add_key_grads(const vec_backward *w, int64_t j, int64_t keys, int64_t row, int64_t rows)
{
    vec_tile_product product = {.m = keys,
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

// Some rows of the tile, which see none but keys `hidden` … seen-1 of it: probabilities, gradients of
// scores, and dq.
static void grad_strip(const vec_backward *w, int64_t row, int64_t rows, int64_t t0, int64_t k0,
                       int64_t hidden, int64_t seen, vec_sweep what, vec_query_sums dq)
{
    const int64_t first = hidden / VL * VL, width = size_ceil_div(seen, VL) * VL - first;
    float *s = w->s + row * TILE_KEYS + first, *ds = w->ds + row * TILE_KEYS + first;
    vec_tile_product product = {.m = rows,
                                .n = width,
                                .k = w->p->head_dim,
                                .a = w->q + row * w->width,
                                .lda = w->width,
                                .b = w->k_t + first,
                                .ldb = TILE_KEYS,
                                .c = s,
                                .ldc = TILE_KEYS};
    VEC(tile_multiply)(&product);
    product.a = w->d_o + row * w->width;
    product.b = w->v_t + first;
    product.c = ds;
    VEC(tile_multiply)(&product);
    if (w->slope) cap_scores(s, w->slope, rows, width, w->p->form.softcap);
    grad_rows(w, row, rows, t0, k0, seen);
    if (w->slope) cap_grads(ds, w->slope, rows, width);
    if (what == SWEEP_KEYS) return;
    VEC(tile_multiply)
    (&(vec_tile_product){.m = rows,
                         .n = w->width,
                         .k = seen - first,
                         .a = ds,
                         .lda = TILE_KEYS,
                         .b = w->k + first * w->width,
                         .ldb = w->width,
                         .c = dq.sums + row * dq.stride,
                         .ldc = dq.stride,
                         .add = dq.add});
}

// Sums of rows that no tile has added to yet, and to which this one adds nothing.
static void clear_sums(vec_query_sums dq, int64_t row, int64_t rows, int64_t width)
{
    for (int64_t r = row; r < row + rows && !dq.add; r++)
        memset(dq.sums + r * dq.stride, 0, sizeof(float) * (size_t)width);
}

// Queries from t0 on against keys from k0 on. A tile on an edge of the mask is done by a few rows, and
// then by a few keys, at a time. Each of them covers only what the mask leaves.
static void grad_tile(const vec_backward *w, int64_t t0, int64_t rows, int64_t k0, int64_t keys,
                      vec_sweep what, vec_query_sums dq)
{
    const kernel_attention_args *p = w->p;
    int64_t last = keys_seen_in(p, t0 + rows - 1, k0, keys);
    bool edge = keys_seen_in(p, t0, k0, keys) < last ||
                keys_hidden_in(p, t0, k0, keys) < keys_hidden_in(p, t0 + rows - 1, k0, keys);
    int64_t step = edge ? TILE_STRIP : TILE_QUERIES;
    for (int64_t r = 0; r < rows; r += step) {
        int64_t piece = size_min(step, rows - r);
        int64_t seen = keys_seen_in(p, t0 + r + piece - 1, k0, keys);
        int64_t hidden = keys_hidden_in(p, t0 + r, k0, keys);
        if (seen > hidden) {
            grad_strip(w, r, piece, t0, k0, hidden, seen, what, dq);
        } else if (what != SWEEP_KEYS) {
            clear_sums(dq, r, piece, w->width);
        }
    }
    if (what == SWEEP_QUERIES) return;
    for (int64_t j = keys_hidden_in(p, t0, k0, last); j < last; j += step) {
        int64_t piece = size_min(step, last - j);
        int64_t row = edge ? first_query(p, k0 + j) - t0 : 0;
        int64_t end = edge ? size_min(end_query(p, k0 + j + piece - 1) - t0, rows) : rows;
        row = row > 0 ? row : 0;
        if (end > row) add_key_grads(w, j, piece, row, end);
    }
}

static void pack_keys(const vec_backward *w, int64_t k0, int64_t keys)
{
    const kernel_attention_args *p = w->p;
    const void *k = vec_at(p->k, key_offset(w, k0, p->k_stride, p->k_batch), p->type);
    const void *v = vec_at(p->v, key_offset(w, k0, p->v_stride, p->v_batch), p->type);
    VEC(tile_pack_transposed)(w->k_t, TILE_KEYS, k, p->k_stride, keys, p->head_dim, p->type);
    VEC(tile_pack_transposed)(w->v_t, TILE_KEYS, v, p->v_stride, keys, p->head_dim, p->type);
    VEC(tile_pack)(w->k, w->width, k, p->k_stride, keys, p->head_dim, p->scale, p->type);
}

static void pack_queries(const vec_backward *w, int64_t t0, int64_t rows)
{
    const kernel_attention_args *p = w->p;
    const void *q = vec_at(p->q, query_offset(w, t0, p->q_stride), p->type);
    const void *d_o = vec_at(w->g->d_o, query_offset(w, t0, p->o_stride), p->type);
    VEC(tile_pack)(w->q, w->width, q, p->q_stride, rows, p->head_dim, p->scale, p->type);
    VEC(tile_pack)(w->d_o, w->width, d_o, p->o_stride, rows, p->head_dim, 1, p->type);
}

static void unpack_queries(const vec_backward *w, int64_t t, int64_t rows, const float *dq)
{
    const kernel_attention_args *p = w->p;
    void *to = vec_at(w->g->dq, query_offset(w, t, p->q_stride), p->type);
    VEC(tile_unpack)(to, p->q_stride, dq, w->width, rows, p->head_dim, 1, p->type);
}

static void unpack_keys(const vec_backward *w, int64_t k0, int64_t keys)
{
    const kernel_attention_args *p = w->p;
    void *dk = vec_at(w->g->dk, key_offset(w, k0, p->k_stride, p->k_batch), p->type);
    void *dv = vec_at(w->g->dv, key_offset(w, k0, p->v_stride, p->v_batch), p->type);
    VEC(tile_unpack)(dk, p->k_stride, w->dk, w->width, keys, p->head_dim, 1, p->type);
    VEC(tile_unpack)(dv, p->v_stride, w->dv, w->width, keys, p->head_dim, 1, p->type);
}

// True if dq itself can hold its sums, because it is fp32 and needs no padding.
static bool sums_in_place(const vec_backward *w)
{
    return w->p->type == F32 && w->width == w->p->head_dim;
}

static vec_query_sums sums_of(const vec_backward *w, int64_t t0, bool add)
{
    const kernel_attention_args *p = w->p;
    if (sums_in_place(w))
        return (vec_query_sums){(float *)w->g->dq + query_offset(w, t0, p->q_stride), p->q_stride,
                                add};
    int64_t group = p->heads / p->kv_heads;
    return (vec_query_sums){w->dq + ((w->h - w->kv * group) * p->queries.seq + t0) * w->width,
                            w->width, add};
}

static void clear_key_sums(const vec_backward *w)
{
    memset(w->dk, 0, sizeof(float) * (size_t)(TILE_KEYS * w->width));
    memset(w->dv, 0, sizeof(float) * (size_t)(TILE_KEYS * w->width));
}

// Goes through the tiles of keys of document d, up to key `last`, each against the document's queries of
// every head that shares them.
static void sweep_document(vec_backward *w, const vec_document *d, int64_t last, vec_sweep what)
{
    const kernel_attention_args *p = w->p;
    int64_t group = p->heads / p->kv_heads;
    for (int64_t k0 = d->key; k0 < last; k0 += TILE_KEYS) {
        int64_t keys = size_min(TILE_KEYS, last - k0);
        pack_keys(w, k0, keys);
        clear_key_sums(w);
        for (w->h = w->kv * group; w->h < (w->kv + 1) * group; w->h++) {
            int64_t before = first_query(p, k0) - d->first;
            int64_t t0 = d->first + before / TILE_QUERIES * TILE_QUERIES;
            int64_t end = size_min(end_query(p, k0 + keys - 1), d->end);
            for (; t0 < end; t0 += TILE_QUERIES) {
                int64_t rows = size_min(TILE_QUERIES, d->end - t0);
                pack_queries(w, t0, rows);
                grad_tile(w, t0, rows, k0, keys, what, sums_of(w, t0, k0 > first_tile(p, d, t0)));
            }
        }
        unpack_keys(w, k0, keys);
    }
}

// Goes through all keys, document by document. Keys between the documents of the queries have no query:
// they are of context-parallel ranks.
static void sweep_keys(vec_backward *w, vec_sweep what)
{
    const kernel_attention_args *p = w->p;
    int64_t t = 0, k = 0;
    do {
        const vec_document d = document_of(p, w->b, t);
        clear_key_sums(w);
        for (; k < d.key; k += TILE_KEYS) unpack_keys(w, k, size_min(TILE_KEYS, d.key - k));
        k = d.end < p->queries.seq ? size_min(keys_seen(p, d.end - 1), p->tk) : p->tk;
        sweep_document(w, &d, k, what);
        t = d.end;
    } while (t < p->queries.seq);
}

// Computes dq alone, one tile of queries after another, so the sums need one tile of memory.
static void sweep_queries(vec_backward *w)
{
    const kernel_attention_args *p = w->p;
    for (int64_t t0 = 0, rows; t0 < p->queries.seq; t0 += rows) {
        const vec_document d = document_of(p, w->b, t0);
        rows = size_min(TILE_QUERIES, d.end - t0);
        int64_t seen = size_min(keys_seen(p, t0 + rows - 1), p->tk);
        pack_queries(w, t0, rows);
        const int64_t first = first_tile(p, &d, t0);
        for (int64_t k0 = first; k0 < seen; k0 += TILE_KEYS) {
            int64_t keys = size_min(TILE_KEYS, p->tk - k0);
            pack_keys(w, k0, keys);
            grad_tile(w, t0, rows, k0, keys, SWEEP_QUERIES,
                      (vec_query_sums){w->dq, w->width, k0 > first});
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
    vec_backward w = {.g = g, .p = p, .draw_key = kernel_draw_read(&p->dropout.draw)};
    backward_layout(&w, cpu_scratch(x, thread));
    int64_t fixed = backward_floats(p) - TILE_QUERIES * w.width;
    int64_t room = (int64_t)(CPU_SCRATCH_BYTES / sizeof(float)) - fixed;
    bool one_sweep = sums_in_place(&w) || group * p->queries.seq * w.width <= room;
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
            unpack_queries(&w, 0, p->queries.seq, sums_of(&w, 0, false).sums);
    }
}

static void backward_sinks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                           int thread)
{
    const kernel_attention_grad_args *g = args;
    const kernel_attention_args *p = &g->fwd;
    (void)x, (void)thread;
    for (int64_t h = first; h < last; h++) {
        const vf sink = v_set(ref_load(p->sinks, h, p->type));
        vf sum = v_zero();
        for (int64_t b = 0; b < p->batch; b++) {
            const int64_t stat = (b * p->heads + h) * p->queries.seq;
            const float *lse = p->lse + stat, *delta = g->delta + stat;
#define SINK(t, n)                                                                                 \
    sum += v_keep(v_first_lanes(n), v_exp_negative(sink - v_load_n(lse, t, n, F32))) *             \
           v_load_n(delta, t, n, F32)
            V_EACH(t, 0, p->queries.seq, SINK);
#undef SINK
        }
        g->d_sinks[h] = (g->accumulate_d_sinks ? g->d_sinks[h] : 0) - v_sum(sum);
    }
}

void VEC(attention_grad)(const cpu_context *x, const void *args)
{
    const kernel_attention_grad_args *g = args;
    const kernel_attention_args *p = &g->fwd;
    if (sizeof(float) * (size_t)backward_floats(p) > CPU_SCRATCH_BYTES) {
        ref_attention_grad(x, g); // heads wider than about 2000: no fast form
    } else {
        int64_t grain = vec_grain(p->queries.seq * p->tk * p->head_dim / 16);
        VEC(share)(x, g, p->batch * p->kv_heads, grain, backward_heads);
        if (g->d_sinks)
            VEC(share)(x, g, p->heads, vec_grain(p->batch * p->queries.seq), backward_sinks);
    }
}

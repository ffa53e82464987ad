// vec_attention.c -- vector form of attention, fused: for a block of queries, it goes through the
// keys tile by tile, and keeps a running maximum and a running sum of each query's softmax. Scores
// of size T x T are never stored. Tiles that the mask hides are skipped. One thread does one block of
// queries of one head, cut where a document begins, and threads share nothing. vec_attention_decode.c does
// a few queries.
#include "device/cpu/attention/vec_attention.h"
#include "device/cpu/ref/ref.h"

enum { BLOCK_QUERIES = 4 * TILE_QUERIES }; // queries that one packing of a key tile serves

// A block of queries of one head, its state, and the current tile of keys.
typedef struct vec_forward {
    const kernel_attention_args *p;
    kernel_draw_key draw_key;  // of dropout
    int64_t b, h, t0, queries; // the block is t0 … t0+queries-1
    int64_t width;             // D rounded up to VL
    float *q;                  // [queries, width], scaled
    float *o;                  // [queries, width], not yet divided by the sums
    float *k;                  // [D, TILE_KEYS]
    float *v;                  // [TILE_KEYS, width]
    float *s;                  // [TILE_QUERIES, TILE_KEYS], scores, then probabilities
    float *sum;                // [queries, VL], sums of exp(score - top) over every VL-th key
    float *top;                // [queries], maximum of the scores so far
} vec_forward;

static size_t forward_floats(int64_t width)
{
    return (size_t)(2 * (BLOCK_QUERIES + TILE_KEYS) * width + TILE_QUERIES * TILE_KEYS +
                    BLOCK_QUERIES * (VL + 1));
}

static void forward_layout(vec_forward *f, float *memory)
{
    f->width = size_ceil_div(f->p->head_dim, VL) * VL;
    f->q = memory;
    f->o = f->q + BLOCK_QUERIES * f->width;
    f->k = f->o + BLOCK_QUERIES * f->width;
    f->v = f->k + TILE_KEYS * f->width;
    f->s = f->v + TILE_KEYS * f->width;
    f->sum = f->s + TILE_QUERIES * TILE_KEYS;
    f->top = f->sum + BLOCK_QUERIES * VL;
}

// Replaces the scores of one row by exp(score - maximum), with the row's new maximum. The row's
// sums and outputs so far are scaled to that maximum. `width` columns are in use, a multiple of VL.
VEC_INLINE void softmax_row(vec_forward *f, float *s, int64_t row, int64_t width)
{
    vf top = v_load(s, 0, F32);
    for (int64_t c = VL; c < width; c += VL) top = v_max(top, v_load(s, c, F32));
    float old = f->top[row], now = v_top(top);
    vf sum = v_load(f->sum, row * VL, F32);
    if (now > old) {
        vf fade = v_exp_negative(v_set(old - now));
        sum *= fade;
        float *o = f->o + row * f->width;
        for (int64_t c = 0; c < f->width && old > -INFINITY; c += VL)
            v_store(o, c, F32, v_load(o, c, F32) * fade);
        f->top[row] = now;
    } else {
        now = old;
    }
    for (int64_t c = 0; c < width; c += VL) {
        vf e = v_exp_negative(v_load(s, c, F32) - v_set(now));
        sum += e;
        v_store(s, c, F32, e);
    }
    v_store(f->sum, row * VL, F32, sum);
}

// As softmax_row, for a row that sees columns hidden … seen-1 only.
static void softmax_row_masked(vec_forward *f, float *s, int64_t row, int64_t hidden, int64_t seen,
                               int64_t width)
{
    const vf none = v_set(-INFINITY);
    for (int64_t c = 0; c < width; c += VL) {
        vf x = v_pick(v_first_lanes(seen - c), v_load(s, c, F32), none);
        v_store(s, c, F32, v_pick(v_first_lanes(hidden - c), none, x));
    }
    if (seen > hidden) {
        softmax_row(f, s, row, width);
    } else {
        memset(s, 0, sizeof(float) * (size_t)width);
    }
}

static void drop_row(const vec_forward *f, float *s, int64_t row, int64_t k0, int64_t width)
{
    float keep[TILE_KEYS];
    dropout_row(f->p, &f->draw_key, f->b, f->h, f->t0 + row, k0, width, keep);
    for (int64_t c = 0; c < width; c += VL)
        v_store(s, c, F32, v_load(s, c, F32) * v_load(keep, c, F32));
}

// Rows `row` … row+rows-1 of the block against keys `hidden` … seen-1 of the tile of keys from k0 on. No
// row sees others. The columns of the strip begin with a whole vector.
static void forward_strip(vec_forward *f, int64_t row, int64_t rows, int64_t k0, int64_t hidden,
                          int64_t seen)
{
    const kernel_attention_args *p = f->p;
    const int64_t first = hidden / VL * VL, width = size_ceil_div(seen, VL) * VL - first;
    VEC(tile_multiply)
    (&(vec_tile_product){.m = rows,
                         .n = width,
                         .k = p->head_dim,
                         .a = f->q + row * f->width,
                         .lda = f->width,
                         .b = f->k + first,
                         .ldb = TILE_KEYS,
                         .c = f->s,
                         .ldc = TILE_KEYS});
    if (p->form.softcap > 0) cap_scores(f->s, NULL, rows, width, p->form.softcap);
    for (int64_t r = 0; r < rows; r++) {
        float *s = f->s + r * TILE_KEYS;
        int64_t end = keys_seen_in(p, f->t0 + row + r, k0, seen) - first;
        int64_t before = keys_hidden_in(p, f->t0 + row + r, k0, seen) - first;
        if (end == TILE_KEYS && before == 0) {
            softmax_row(f, s, row + r, TILE_KEYS);
        } else {
            softmax_row_masked(f, s, row + r, before, end, width);
        }
        if (p->dropout.p > 0) drop_row(f, s, row + r, k0 + first, width);
    }
    VEC(tile_multiply)
    (&(vec_tile_product){.m = rows,
                         .n = f->width,
                         .k = seen - first,
                         .a = f->s,
                         .lda = TILE_KEYS,
                         .b = f->v + first * f->width,
                         .ldb = f->width,
                         .c = f->o + row * f->width,
                         .ldc = f->width,
                         .add = true});
}

static void forward_tile(vec_forward *f, int64_t k0, int64_t keys)
{
    const kernel_attention_args *p = f->p;
    int64_t kv = f->h / (p->heads / p->kv_heads) * p->head_dim;
    const void *k = vec_at(p->k, f->b * p->k_batch + kv + k0 * p->k_stride, p->type);
    const void *v = vec_at(p->v, f->b * p->v_batch + kv + k0 * p->v_stride, p->type);
    VEC(tile_pack_transposed)(f->k, TILE_KEYS, k, p->k_stride, keys, p->head_dim, p->type);
    VEC(tile_pack)(f->v, f->width, v, p->v_stride, keys, p->head_dim, 1, p->type);
    for (int64_t row = 0; row < f->queries;) {
        int64_t rows = size_min(TILE_QUERIES, f->queries - row), t = f->t0 + row;
        int64_t hidden = keys_hidden_in(p, t, k0, keys);
        if (keys_seen_in(p, t, k0, keys) < keys_seen_in(p, t + rows - 1, k0, keys) ||
            hidden < keys_hidden_in(p, t + rows - 1, k0, keys))
            rows = size_min(rows, TILE_STRIP);
        int64_t seen = keys_seen_in(p, t + rows - 1, k0, keys);
        if (seen > hidden) forward_strip(f, row, rows, k0, hidden, seen);
        row += rows;
    }
}

static void forward_finish(vec_forward *f)
{
    const kernel_attention_args *p = f->p;
    for (int64_t r = 0; r < f->queries; r++) {
        int64_t t = f->t0 + r;
        float sum = v_sum(v_load(f->sum, r * VL, F32));
        p->lse[(f->b * p->heads + f->h) * p->queries.seq + t] = (float)(f->top[r] + log(sum));
        void *o =
            vec_at(p->o, (f->b * p->queries.seq + t) * p->o_stride + f->h * p->head_dim, p->type);
        VEC(tile_unpack)(o, 0, f->o + r * f->width, f->width, 1, p->head_dim, 1 / sum, p->type);
    }
}

// The state before the first key: that of the sink alone, or of nothing.
static void forward_start(vec_forward *f)
{
    const kernel_attention_args *p = f->p;
    const void *q =
        vec_at(p->q, (f->b * p->queries.seq + f->t0) * p->q_stride + f->h * p->head_dim, p->type);
    VEC(tile_pack)(f->q, f->width, q, p->q_stride, f->queries, p->head_dim, p->scale, p->type);
    memset(f->o, 0, sizeof(float) * (size_t)(f->queries * f->width));
    memset(f->sum, 0, sizeof(float) * (size_t)(f->queries * VL));
    const float sink = p->sinks ? ref_load(p->sinks, f->h, p->type) : -INFINITY;
    for (int64_t r = 0; r < f->queries; r++) {
        f->top[r] = sink;
        if (sink > -INFINITY) f->sum[r * VL] = 1;
    }
}

static int64_t query_blocks(const kernel_attention_args *p)
{
    return size_ceil_div(p->queries.seq, BLOCK_QUERIES);
}

// The queries from f->t0 on that are of one document and before `end`.
static void forward_block(vec_forward *f, int64_t end)
{
    const kernel_attention_args *p = f->p;
    const vec_document d = document_of(p, f->b, f->t0);
    f->queries = size_min(d.end, end) - f->t0;
    forward_start(f);
    const int64_t keys = size_min(keys_seen(p, f->t0 + f->queries - 1), p->tk);
    for (int64_t k0 = first_tile(p, &d, f->t0); k0 < keys; k0 += TILE_KEYS)
        forward_tile(f, k0, size_min(TILE_KEYS, keys - k0));
    forward_finish(f);
}

static void forward_blocks(const cpu_context *x, const void *args, int64_t first, int64_t last,
                           int thread)
{
    const kernel_attention_args *p = args;
    vec_forward f = {.p = p, .draw_key = kernel_draw_read(&p->dropout.draw)};
    forward_layout(&f, cpu_scratch(x, thread));
    for (int64_t i = first; i < last; i++) {
        int64_t head = i / query_blocks(p);
        f.b = head / p->heads;
        f.h = head % p->heads;
        f.t0 = i % query_blocks(p) * BLOCK_QUERIES;
        const int64_t end = size_min(f.t0 + BLOCK_QUERIES, p->queries.seq);
        for (; f.t0 < end; f.t0 += f.queries) forward_block(&f, end);
    }
}

void VEC(attention)(const cpu_context *x, const void *args)
{
    const kernel_attention_args *p = args;
    if (p->queries.seq <= DECODE_QUERIES) {
        VEC(attention_decode)(x, p);
    } else if (sizeof(float) * forward_floats(size_ceil_div(p->head_dim, VL) * VL) >
               CPU_SCRATCH_BYTES) {
        ref_attention(x, p); // heads wider than about 1500: no fast form
    } else {
        int64_t grain = vec_grain(p->queries.seq * p->tk * p->head_dim / 16);
        VEC(share)(x, p, p->batch * p->heads * query_blocks(p), grain, forward_blocks);
    }
}

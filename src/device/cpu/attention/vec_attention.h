// vec_attention.h -- shared by the fused attention kernels: the sizes of their tiles, the documents of a
// sequence, the keys that a query sees, the cap of scores, and the dropout of one row of a tile.
//
// Packed documents are computed one after the other, each with tiles of its own, which begin at its first
// key and its first query. So tiles of other documents are never visited, and the bits of a document are
// those of a sequence that holds it alone.
#ifndef TRIREME_DEVICE_CPU_VEC_ATTENTION_H
#define TRIREME_DEVICE_CPU_VEC_ATTENTION_H

#include "device/cpu/vec_math.h"
#include "device/cpu/vec_tile.h"

#include <math.h>

enum {
    TILE_QUERIES = 64,                   // rows of a tile of scores
    TILE_KEYS = 64,                      // columns of a tile of scores
    TILE_STRIP = 12,                     // a tile on an edge of the mask is done by so many rows
    TILE_WORDS = TILE_KEYS + 4 * VL + 4, // scratch of the random words of one row
    DECODE_QUERIES = 4,                  // VEC(attention_decode) does up to so many queries
};

// VEC(attention) for up to DECODE_QUERIES queries.
void VEC(attention_decode)(const cpu_context *x, const void *args);

// The number of keys, from key 0 on, that query t sees.
static inline int64_t keys_seen(const kernel_attention_args *p, int64_t t)
{
    if (!p->causal) return p->tk;
    return kernel_token_position(&p->queries, t) + 1;
}

// The number of keys, from key 0 on, that lie before the window of query t.
static inline int64_t keys_hidden(const kernel_attention_args *p, int64_t t)
{
    if (!p->causal) return 0;
    return kernel_attention_first_key(&p->form, kernel_token_position(&p->queries, t));
}

// The first query that key j does not come after; the number of queries or more if there is none.
static inline int64_t first_query(const kernel_attention_args *p, int64_t j)
{
    const kernel_tokens *q = &p->queries;
    if (!p->causal || j < q->start[0]) return 0;
    if (j < q->start[0] + q->chunk) return j - q->start[0];
    return q->chunk + (j > q->start[1] ? j - q->start[1] : 0);
}

// The number of keys among k0 … k0+keys-1 that query t sees.
static inline int64_t keys_seen_in(const kernel_attention_args *p, int64_t t, int64_t k0,
                                   int64_t keys)
{
    int64_t n = keys_seen(p, t) - k0;
    return n < 0 ? 0 : size_min(n, keys);
}

// The number of keys among k0 … k0+seen-1 that lie before the window of query t.
static inline int64_t keys_hidden_in(const kernel_attention_args *p, int64_t t, int64_t k0,
                                     int64_t seen)
{
    int64_t n = keys_hidden(p, t) - k0;
    return n < 0 ? 0 : size_min(n, seen);
}

// The queries of a sequence that are of one document: first … end-1.
typedef struct vec_document {
    int64_t first, end;
    int64_t key; // the first key of the document
} vec_document;

// The document of query t of sequence b.
static inline vec_document document_of(const kernel_attention_args *p, int64_t b, int64_t t)
{
    const kernel_tokens *q = &p->queries;
    vec_document d = {0, q->seq, 0};
    if (!p->causal || !q->documents || t >= q->seq) return d;
    const int32_t *start = q->documents + q->first_row + b * q->seq;
    for (d.first = t; d.first > 0 && start[d.first - 1] == start[t];) d.first--;
    for (d.end = t + 1; d.end < q->seq && start[d.end] == start[t];) d.end++;
    d.key = start[t];
    return d;
}

// The first key of the first tile of document d of which query t sees a key.
static inline int64_t first_tile(const kernel_attention_args *p, const vec_document *d, int64_t t)
{
    const int64_t hidden = keys_hidden(p, t) - d->key;
    return d->key + (hidden > 0 ? hidden : 0) / TILE_KEYS * TILE_KEYS;
}

// The first query whose window begins after key j; the number of queries if there is none.
static inline int64_t end_query(const kernel_attention_args *p, int64_t j)
{
    if (!p->causal || p->form.window == 0) return p->queries.seq;
    return size_min(first_query(p, j + p->form.window), p->queries.seq);
}

// Caps scores s [rows, width], whose rows are TILE_KEYS apart, and writes the slope of the cap at each
// unless `slope` is NULL. width is a multiple of VL.
VEC_INLINE void cap_scores(float *s, float *slope, int64_t rows, int64_t width, float cap)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = r * TILE_KEYS; i < r * TILE_KEYS + width; i += VL) {
            vf ratio = v_tanh(v_load(s, i, F32) * v_set(1 / cap));
            v_store(s, i, F32, ratio * v_set(cap));
            if (slope) v_store(slope, i, F32, v_set(1) - ratio * ratio);
        }
}

// Writes into keep [n] the factors by which dropout multiplies the probabilities of keys k0 …
// k0+n-1: 0 or 1/(1-p). n is at most TILE_KEYS, and keep has room for full vectors. d is
// kernel_draw_read of the call.
static inline void dropout_row(const kernel_attention_args *p, const kernel_draw_key *d, int64_t b,
                               int64_t h, int64_t t, int64_t k0, int64_t n, float *keep)
{
    uint32_t scratch[TILE_WORDS];
    const kernel_tokens *q = &p->queries;
    uint64_t row = d->row0 + (uint64_t)(b * q->full_seq + kernel_token_position(q, t));
    uint64_t heads = (uint64_t)(p->dropout.all_heads ? p->dropout.all_heads : p->heads);
    uint64_t index =
        (row * heads + (uint64_t)(p->dropout.head0 + h)) * p->dropout.stride + (uint64_t)k0;
    const uint32_t *words = VEC(random)(d->key, index, n, scratch);
    vf scale = v_set(1 / (1 - p->dropout.p)), limit = v_set(p->dropout.p);
    for (int64_t c = 0; c < n; c += VL) {
        vi bits = (vi)((vu) * (const vi_any *)(words + c) >> 8);
        vmask dropped = v_less(v_from_int(bits) * v_set(0x1p-24f), limit);
        v_store(keep, c, F32, v_pick(dropped, v_zero(), scale));
    }
}

#endif

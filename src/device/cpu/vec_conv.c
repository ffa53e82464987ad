// vec_conv.c -- vector form of the causal convolution and its gradients. It works on tiles of TILE_TOKENS tokens of a
// sequence and TILE_COLS columns: what the taps read of the tile's tokens, and of those around it, lies in scratch
// memory. Tiles are independent, but for the sums of the taps' gradients, which one thread takes tile by tile.
#include "device/cpu/vec_math.h"

enum {
    TILE_TOKENS = 64,
    TILE_COLS = 64, // a multiple of VL
    TILE_ROOM = TILE_TOKENS + 2 * KERNEL_CONV_WIDTH
};

// A tile of sequence b: columns c0 … c0+cols-1 of the tokens from position `from` to before `to`.
typedef struct vec_conv {
    const kernel_causal_conv_args *p;
    int64_t b, c0, cols, from, to;
    float (*z)[TILE_COLS]; // [TILE_ROOM] from position from - (W-1) on
    float (*w)[TILE_COLS]; // [W]
    float *bias;           // [TILE_COLS]
} vec_conv;

// Scratch memory of a tile, and of the sums of its columns.
typedef struct vec_conv_memory {
    float z[TILE_ROOM][TILE_COLS], du[TILE_ROOM][TILE_COLS], w[KERNEL_CONV_WIDTH][TILE_COLS];
    float bias[TILE_COLS];
    float tile[KERNEL_CONV_WIDTH + 1][TILE_COLS], sum[KERNEL_CONV_WIDTH + 1][TILE_COLS];
} vec_conv_memory;

// The columns of the tile in part `part` of the token at a position.
VEC_INLINE const void *part_of(const vec_conv *v, const void *x, int64_t position, int part,
                               dtype type)
{
    const kernel_causal_conv_args *p = v->p;
    return vec_at(x, v->b * p->x_batch + position * p->x_stride + part * p->cols + v->c0, type);
}

// The columns of the tile in row r of y or dy.
VEC_INLINE void *row_of(const vec_conv *v, const void *y, int64_t t, dtype type)
{
    return vec_at(y, (v->b * v->p->rows.seq + t) * v->p->cols + v->c0, type);
}

static void load_taps(vec_conv *v, vec_conv_memory *m)
{
    const kernel_causal_conv_args *p = v->p;
    v->z = m->z, v->w = m->w, v->bias = m->bias;
    memset(m->z, 0, sizeof m->z);
    memset(m->w, 0, sizeof m->w);
    memset(m->bias, 0, sizeof m->bias);
    for (int64_t c = 0; c < v->cols; c++) {
        for (int64_t i = 0; i < p->width; i++)
            dtype_convert(&m->w[i][c], F32, vec_at(p->w, (v->c0 + c) * p->width + i, p->type),
                          p->type, 1);
        if (p->bias)
            dtype_convert(&m->bias[c], F32, vec_at(p->bias, v->c0 + c, p->type), p->type, 1);
    }
}

// Loads z of `ahead` tokens after the tile too. Rows of z outside the sequence become 0.
VEC_INLINE void load_z(const vec_conv *v, int64_t ahead, int64_t tokens, dtype type)
{
    const int64_t first = v->from - (v->p->width - 1), rows = v->to + ahead - first;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t position = first + i;
        if (position < 0 || position >= tokens) {
            memset(v->z[i], 0, sizeof v->z[i]);
            continue;
        }
        const void *x = part_of(v, v->p->x, position, 0, type),
                   *by = part_of(v, v->p->x, position, 2, type);
#define LOAD(c, n)                                                                                 \
    v_store(v->z[i], c, F32,                                                                       \
            v_load_n(x, c, n, type) * (v->p->gated ? v_load_n(by, c, n, type) : v_set(1)))
        V_EACH(c, 0, v->cols, LOAD);
#undef LOAD
    }
}

// u of the row at `position`, for the columns from c on.
VEC_INLINE vf sum_of(const vec_conv *v, int64_t position, int64_t first_tap, int64_t c)
{
    vf u = v_load(v->bias, c, F32);
    const float(*z)[TILE_COLS] = (const float(*)[TILE_COLS])v->z + (position - v->from);
    for (int64_t i = first_tap; i < v->p->width; i++)
        u = v_fma(v_load(v->w[i], c, F32), v_load(z[i], c, F32), u);
    return u;
}

VEC_INLINE void forward_tile(const vec_conv *v, int64_t t0, dtype type)
{
    const kernel_causal_conv_args *p = v->p;
    load_z(v, 0, v->to, type);
    for (int64_t position = v->from; position < v->to; position++) {
        const int64_t t = t0 + position - v->from, r = v->b * p->rows.seq + t,
                      first = kernel_conv_first_tap(p, r, position);
        void *y = row_of(v, p->y, t, type);
        const void *after = part_of(v, p->x, position, 1, type);
#define STORE(c, n)                                                                                \
    do {                                                                                           \
        vf u = sum_of(v, position, first, c), left;                                                \
        if (p->silu) u *= v_logistic(u, &left);                                                    \
        if (p->gated) u *= v_load_n(after, c, n, type);                                            \
        v_store_n(y, c, n, type, u);                                                               \
    } while (0)
        V_EACH(c, 0, v->cols, STORE);
#undef STORE
    }
}

static int64_t column_tiles(const kernel_causal_conv_args *p)
{
    return size_ceil_div(p->cols, TILE_COLS);
}

// Tiles of tokens of a rank's run of a sequence.
static int64_t token_tiles(const kernel_causal_conv_args *p)
{
    return size_ceil_div(p->rows.chunk, TILE_TOKENS);
}

static vec_conv tile_of(const kernel_causal_conv_args *p, int64_t b, int64_t column_tile)
{
    vec_conv v = {.p = p, .b = b, .c0 = column_tile * TILE_COLS};
    v.cols = size_min(p->cols - v.c0, TILE_COLS);
    return v;
}

static void forward_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    const kernel_causal_conv_args *p = args;
    vec_conv_memory *m = cpu_scratch(x, thread);
    const int64_t columns = column_tiles(p), tiles = token_tiles(p),
                  runs = p->rows.seq / p->rows.chunk;
    for (int64_t i = first; i < last; i++) {
        const int64_t run = i / columns / tiles % runs;
        vec_conv v = tile_of(p, i / columns / tiles / runs, i % columns);
        const int64_t in_run = i / columns % tiles * TILE_TOKENS;
        v.from = p->rows.start[run] + in_run;
        v.to = size_min(v.from + TILE_TOKENS, p->rows.start[run] + p->rows.chunk);
        load_taps(&v, m);
#define CALL(type) forward_tile(&v, run * p->rows.chunk + in_run, type)
        V_BY_TYPE(p->type, CALL);
#undef CALL
    }
}

void VEC(causal_conv)(const cpu_context *x, const void *args)
{
    const kernel_causal_conv_args *p = args;
    const int64_t tokens = size_min(p->rows.chunk, TILE_TOKENS);
    if (p->rows.seq == 0) return;
    VEC(share)
    (x, p, p->batch * (p->rows.seq / p->rows.chunk) * token_tiles(p) * column_tiles(p),
     vec_grain(tokens * size_min(p->cols, TILE_COLS) * p->width), forward_part);
}

// du of the rows of the tile and of the W-1 after it; 0 where this rank has no row.
VEC_INLINE void load_du(const vec_conv *v, const kernel_causal_conv_grad_args *g,
                        float (*du)[TILE_COLS], dtype type)
{
    const kernel_causal_conv_args *p = v->p;
    for (int64_t position = v->from; position < v->to + p->width - 1; position++) {
        float *to = du[position - v->from];
        const int64_t t = position < p->rows.full_seq ? kernel_token_at(&p->rows, position) : -1;
        if (t < 0) {
            memset(to, 0, sizeof *du);
            continue;
        }
        const int64_t first = kernel_conv_first_tap(p, v->b * p->rows.seq + t, position);
        const void *dy = row_of(v, g->dy, t, type), *after = part_of(v, p->x, position, 1, type);
#define LOAD(c, n)                                                                                 \
    do {                                                                                           \
        vf d = v_load_n(dy, c, n, type), left;                                                     \
        if (p->gated) d *= v_load_n(after, c, n, type);                                            \
        if (p->silu) {                                                                             \
            const vf u = sum_of(v, position, first, c), s = v_logistic(u, &left);                  \
            d *= s + u * s * left;                                                                 \
        }                                                                                          \
        v_store(to, c, F32, d);                                                                    \
    } while (0)
        V_EACH(c, 0, v->cols, LOAD);
#undef LOAD
    }
}

// The gradient of z at a position, for the columns from c on.
VEC_INLINE vf dz_of(const vec_conv *v, const float (*du)[TILE_COLS], int64_t position, int64_t c)
{
    const kernel_causal_conv_args *p = v->p;
    vf dz = v_zero();
    for (int64_t i = 0; i < p->width; i++) {
        const int64_t later = position + p->width - 1 - i;
        if (p->rows.documents) {
            const int64_t t = later < p->rows.full_seq ? kernel_token_at(&p->rows, later) : -1;
            if (t < 0 || i < kernel_conv_first_tap(p, v->b * p->rows.seq + t, later)) continue;
        }
        dz = v_fma(v_load(v->w[i], c, F32), v_load(du[later - v->from], c, F32), dz);
    }
    return dz;
}

VEC_INLINE void store_dx(const vec_conv *v, const kernel_causal_conv_grad_args *g,
                         const float (*du)[TILE_COLS], int64_t position, dtype type)
{
    const kernel_causal_conv_args *p = v->p;
    const int64_t t = kernel_token_at(&p->rows, position);
    void *to = (void *)(uintptr_t)part_of(v, g->dx, position, 0, type);
    if (!p->gated) {
#define STORE(c, n) v_store_n(to, c, n, type, dz_of(v, du, position, c))
        V_EACH(c, 0, v->cols, STORE);
#undef STORE
        return;
    }
    void *d_after = (void *)(uintptr_t)part_of(v, g->dx, position, 1, type),
         *d_x = (void *)(uintptr_t)part_of(v, g->dx, position, 2, type);
    const void *before = part_of(v, p->x, position, 0, type),
               *x = part_of(v, p->x, position, 2, type),
               *dy = t < 0 ? NULL : row_of(v, g->dy, t, type);
    const int64_t first = t < 0 ? 0 : kernel_conv_first_tap(p, v->b * p->rows.seq + t, position);
#define STORE(c, n)                                                                                \
    do {                                                                                           \
        const vf dz = dz_of(v, du, position, c), x_c = v_load_n(x, c, n, type);                    \
        vf d_gate = v_zero();                                                                      \
        if (dy) d_gate = v_load_n(dy, c, n, type) * sum_of(v, position, first, c);                 \
        v_store_n(d_x, c, n, type, dz *v_load_n(before, c, n, type));                              \
        v_store_n(to, c, n, type, dz *x_c);                                                        \
        v_store_n(d_after, c, n, type, d_gate);                                                    \
    } while (0)
    V_EACH(c, 0, v->cols, STORE);
#undef STORE
}

// Adds the tile's sums of the taps, and of the bias, to `sum`.
static void add_taps(const vec_conv *v, vec_conv_memory *m)
{
    const kernel_causal_conv_args *p = v->p;
    memset(m->tile, 0, sizeof m->tile);
    for (int64_t position = v->from; position < v->to; position++) {
        const int64_t t = kernel_token_at(&p->rows, position);
        if (t < 0) continue;
        const int64_t first = kernel_conv_first_tap(p, v->b * p->rows.seq + t, position),
                      row = position - v->from;
        for (int64_t c = 0; c < TILE_COLS; c += VL) {
            const vf du = v_load(m->du[row], c, F32);
            for (int64_t i = first; i < p->width; i++)
                v_store(m->tile[i], c, F32,
                        v_fma(du, v_load(m->z[row + i], c, F32), v_load(m->tile[i], c, F32)));
            v_store(m->tile[p->width], c, F32, v_load(m->tile[p->width], c, F32) + du);
        }
    }
    for (int64_t i = 0; i <= p->width; i++)
        for (int64_t c = 0; c < TILE_COLS; c++) m->sum[i][c] += m->tile[i][c];
}

VEC_INLINE void grad_tile(vec_conv *v, const kernel_causal_conv_grad_args *g, vec_conv_memory *m,
                          dtype type)
{
    const kernel_causal_conv_args *p = v->p;
    load_z(v, p->width - 1, p->rows.full_seq, type);
    load_du(v, g, m->du, type);
    if (g->dw || g->dbias) add_taps(v, m);
    for (int64_t position = v->from; position < v->to && g->dx; position++)
        store_dx(v, g, (const float(*)[TILE_COLS])m->du, position, type);
}

static void store_sums(const vec_conv *v, const kernel_causal_conv_grad_args *g,
                       const vec_conv_memory *m)
{
    const int64_t width = v->p->width;
    for (int64_t c = 0; c < v->cols; c++) {
        for (int64_t i = 0; i < width && g->dw; i++) {
            float *to = g->dw + (v->c0 + c) * width + i;
            *to = m->sum[i][c] + (g->accumulate_dw ? *to : 0);
        }
        if (!g->dbias) continue;
        float *to = g->dbias + v->c0 + c;
        *to = m->sum[width][c] + (g->accumulate_dbias ? *to : 0);
    }
}

static void grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    const kernel_causal_conv_grad_args *g = args;
    const kernel_causal_conv_args *p = &g->fwd;
    vec_conv_memory *m = cpu_scratch(x, thread);
    for (int64_t i = first; i < last; i++) {
        vec_conv v = tile_of(p, 0, i);
        load_taps(&v, m);
        memset(m->du, 0, sizeof m->du);
        memset(m->sum, 0, sizeof m->sum);
        for (v.b = 0; v.b < p->batch; v.b++)
            for (v.from = 0; v.from < p->rows.full_seq; v.from += TILE_TOKENS) {
                v.to = size_min(v.from + TILE_TOKENS, p->rows.full_seq);
#define CALL(type) grad_tile(&v, g, m, type)
                V_BY_TYPE(p->type, CALL);
#undef CALL
            }
        store_sums(&v, g, m);
    }
}

void VEC(causal_conv_grad)(const cpu_context *x, const void *args)
{
    const kernel_causal_conv_grad_args *p = args;
    VEC(share)(x, p, column_tiles(&p->fwd), 1, grad_part);
}

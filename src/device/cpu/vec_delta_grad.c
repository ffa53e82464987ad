// vec_delta_grad.c -- gradients of the gated delta rule, by chunks. A thread has the value heads that share a key head of a
// sequence. It computes the states before all chunks again, which lie in the call's workspace, and then goes back chunk
// by chunk with the gradient ds of the state:
//
//   du = P^T do + exp(G_n - G) k ds      dr = (1 - A)^-T du      dv = beta dr
//   dP = do u^T      dA = dr u^T        M = -beta Γ dA below the diagonal, Z = Γ dP up to the diagonal
//   dq  = Z k + exp(G) do S^T
//   dk  = M k - beta exp(G) dr S^T, and M^T k + Z^T q + exp(G_n - G) u ds^T
//   ds   = exp(G_n) ds + k^T (-beta exp(G) dr) + q^T (exp(G) do)
//
// The gradient of G_i is q dq + k (the first part of dk) - k (the second part) in row i, as every exp(G_i - G_j) stands
// beside q_i or k_i and k_j. Pairs beyond CPU_DELTA_SLOTS take the workspace of earlier ones.
#include "device/cpu/ref/ref.h"
#include "device/cpu/vec_delta.h"

// The gradient of a chunk, in the memory behind the tiles of `d`.
typedef struct vec_delta_grad {
    vec_delta d;
    const kernel_delta_rule_grad_args *g;
    float *d_o;      // [CHUNK, dvw]
    float *error;    // [CHUNK, dvw] v - exp(G) k S
    float *dr;       // [CHUNK, dvw] du, then dr
    float *by;       // [2 n, dvw] -beta exp(G) dr, then exp(G) do
    float *k_d;      // [CHUNK, dvw] k ds
    float *ut;       // [Dv, CHUNK] u transposed
    float *st, *dt;  // [Dv, dkw] S and ds transposed
    float *mz;       // [2 n, CHUNK] M, then Z
    float *dkq;      // [2 n, dkw] the first part of dk, then dq
    float *dk_later; // [CHUNK, dkw] the second part
    float *u_d;      // [CHUNK, dkw] exp(G_n - G) u ds^T
    float *sum_kq;   // [2 n, dkw] dk and dq of all value heads of the group
    float d_beta[CHUNK], d_g[CHUNK];
} vec_delta_grad;

static float *take(float **memory, int64_t floats)
{
    float *from = *memory;
    *memory += size_align((uint64_t)floats, 16);
    return from;
}

static void back_layout(vec_delta_grad *x, const kernel_delta_rule_grad_args *g, float *memory)
{
    vec_delta *d = &x->d;
    VEC(delta_layout)(d, &g->fwd, memory);
    x->g = g;
    x->d_o = take(&d->spare, CHUNK * d->dvw);
    x->error = take(&d->spare, CHUNK * d->dvw);
    x->dr = take(&d->spare, CHUNK * d->dvw);
    x->by = take(&d->spare, 2 * CHUNK * d->dvw);
    x->k_d = take(&d->spare, CHUNK * d->dvw);
    x->ut = take(&d->spare, d->dvw * CHUNK);
    x->st = take(&d->spare, d->dvw * d->dkw);
    x->dt = take(&d->spare, d->dvw * d->dkw);
    x->mz = take(&d->spare, 2 * CHUNK * CHUNK);
    x->dkq = take(&d->spare, 2 * CHUNK * d->dkw);
    x->dk_later = take(&d->spare, CHUNK * d->dkw);
    x->u_d = take(&d->spare, CHUNK * d->dkw);
    x->sum_kq = take(&d->spare, 2 * CHUNK * d->dkw);
}

// c [m, n] = a b (+ c), each with rows of so many floats; TILE_BY_COLUMN: a is stored as its transpose [k, m].
static void multiply(vec_tile_order order, int64_t m, int64_t n, int64_t k, const float *a,
                     int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
    VEC(tile_multiply)
    (&(vec_tile_product){.m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .b = b,
                         .c = c,
                         .lda = lda,
                         .ldb = ldb,
                         .ldc = ldc,
                         .order = order,
                         .add = add});
}

// to [rows, width] (+)= factor [rows] * from.
VEC_INLINE void scale_rows(float *to, const float *from, const float *factor, int64_t rows,
                           int64_t width, float sign, bool add)
{
    for (int64_t i = 0; i < rows; i++) {
        const vf by = v_set(sign * factor[i]);
        for (int64_t c = i * width; c < (i + 1) * width; c += VL) {
            vf x = by * v_load(from, c, F32);
            if (add) x += v_load(to, c, F32);
            v_store(to, c, F32, x);
        }
    }
}

VEC_INLINE float dot(const float *a, const float *b, int64_t count)
{
    vf sum = v_zero();
    for (int64_t c = 0; c < count; c += VL) sum = v_fma(v_load(a, c, F32), v_load(b, c, F32), sum);
    return v_sum(sum);
}

static void load_d_o(vec_delta_grad *x)
{
    const vec_delta *d = &x->d;
    const kernel_delta_rule_args *p = d->p;
    for (int64_t i = 0; i < d->n; i++) {
        float *to = x->d_o + i * d->dvw;
        const int64_t row = kernel_delta_row(p, d->b, d->t0 + i);
        if (row < 0) {
            memset(to, 0, sizeof *to * (size_t)d->dvw);
            continue;
        }
        const void *from = vec_at(x->g->d_o, (row * p->heads + d->head) * p->value_dim, p->type);
        VEC(tile_pack)(to, d->dvw, from, p->value_dim, 1, p->value_dim, 1, p->type);
    }
}

// dr = (1 - A)^-T dr, by blocks of rows from the last one.
static void solve_transposed(vec_delta_grad *x)
{
    enum { BLOCK = 12 };
    const vec_delta *d = &x->d;
    const int64_t w = d->dvw;
    for (int64_t first = (d->n - 1) / BLOCK * BLOCK; first >= 0; first -= BLOCK) {
        const int64_t last = size_min(first + BLOCK, d->n);
        if (last < d->n)
            multiply(TILE_BY_COLUMN, last - first, w, d->n - last, d->a + last * CHUNK + first,
                     CHUNK, x->dr + last * w, w, x->dr + first * w, w, true);
        for (int64_t c = 0; c < w; c += VL)
            for (int64_t j = last - 2; j >= first; j--) {
                vf r = v_load(x->dr, j * w + c, F32);
                for (int64_t i = j + 1; i < last; i++)
                    r = v_fma(v_set(d->a[i * CHUNK + j]), v_load(x->dr, i * w + c, F32), r);
                v_store(x->dr, j * w + c, F32, r);
            }
    }
}

// The gradients of u, and of what u is made of. ds is the gradient of the state after the chunk.
static void back_writes(vec_delta_grad *x, const float *ds)
{
    const vec_delta *d = &x->d;
    const int64_t n = d->n, w = d->dvw;
    multiply(TILE_BY_COLUMN, n, w, n, d->pm, CHUNK, x->d_o, w, x->dr, w, false);
    multiply(TILE_BY_ROW, n, w, d->p->key_dim, d->kq, d->dkw, ds, w, x->k_d, w, false);
    scale_rows(x->dr, x->k_d, d->rest, n, w, 1, true);
    solve_transposed(x);
    float factor[CHUNK];
    for (int64_t i = 0; i < n; i++) {
        factor[i] = d->beta[i] * d->fade[i];
        x->d_beta[i] = dot(x->dr + i * w, x->error + i * w, w);
    }
    scale_rows(x->by, x->dr, factor, n, w, -1, false);
    scale_rows(x->by + n * w, x->d_o, d->fade, n, w, 1, false);
}

// M and Z, and the gradient of beta by A.
static void back_scores(vec_delta_grad *x)
{
    vec_delta *d = &x->d;
    const int64_t n = d->n, w = d->dvw, dv = d->p->value_dim;
    VEC(tile_pack_transposed)(x->ut, CHUNK, d->u, w, n, dv, F32);
    multiply(TILE_BY_ROW, n, d->nw, dv, x->dr, w, x->ut, CHUNK, x->mz, CHUNK, false);
    multiply(TILE_BY_ROW, n, d->nw, dv, x->d_o, w, x->ut, CHUNK, x->mz + n * CHUNK, CHUNK, false);
    for (int64_t i = 0; i < n; i++) {
        vf sum = v_zero();
        float *m = x->mz + i * CHUNK, *z = m + n * CHUNK;
        for (int64_t j = 0; j < d->nw; j += VL) {
            const vf gamma = v_load(d->gamma, i * CHUNK + j, F32),
                     by = v_keep(v_first_lanes(i - j), gamma * v_load(m, j, F32));
            sum = v_fma(by, v_load(d->dots, i * CHUNK + j, F32), sum);
            v_store(m, j, F32, v_set(-d->beta[i]) * by);
            v_store(z, j, F32, gamma * v_load(z, j, F32));
        }
        x->d_beta[i] -= v_sum(sum);
    }
}

// dq, both parts of dk, and the gradient of g. s is the state before the chunk, ds that of the one after it.
static void back_keys(vec_delta_grad *x, const float *s, const float *ds)
{
    vec_delta *d = &x->d;
    const int64_t n = d->n, w = d->dvw, kw = d->dkw, dk = d->p->key_dim, dv = d->p->value_dim;
    VEC(tile_pack_transposed)(x->st, kw, s, w, dk, dv, F32);
    VEC(tile_pack_transposed)(x->dt, kw, ds, w, dk, dv, F32);
    multiply(TILE_BY_ROW, 2 * n, kw, dv, x->by, w, x->st, kw, x->dkq, kw, false);
    multiply(TILE_BY_ROW, 2 * n, kw, n, x->mz, CHUNK, d->kq, kw, x->dkq, kw, true);
    multiply(TILE_BY_ROW, n, kw, dv, d->u, w, x->dt, kw, x->u_d, kw, false);
    scale_rows(x->u_d, x->u_d, d->rest, n, kw, 1, false);
    multiply(TILE_BY_COLUMN, n, kw, 2 * n, x->mz, CHUNK, d->kq, kw, x->dk_later, kw, false);
    float later = d->keep > 0 ? d->keep * dot(ds, s, dk * w) : 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const float *k = d->kq + i * kw, *q = k + n * kw;
        float *to = x->dk_later + i * kw;
        later += dot(k, x->u_d + i * kw, kw);
        for (int64_t c = 0; c < kw; c += VL)
            v_store(to, c, F32, v_load(to, c, F32) + v_load(x->u_d, i * kw + c, F32));
        x->d_g[i] =
            dot(q, x->dkq + (n + i) * kw, kw) + dot(k, x->dkq + i * kw, kw) - dot(k, to, kw);
    }
    x->d_g[n - 1] += later;
    for (int64_t i = n - 1; i >= 0; i--) x->d_g[i] = sum += x->d_g[i];
}

// [M; Z]^T [k; q] is M^T k + Z^T q, as `kq` and `mz` hold their rows one after the other.
static void back_state(vec_delta_grad *x, float *ds)
{
    const vec_delta *d = &x->d;
    const int64_t w = d->dvw, dk = d->p->key_dim;
    for (int64_t c = 0; c < dk * w; c += VL)
        v_store(ds, c, F32, v_set(d->keep) * v_load(ds, c, F32));
    multiply(TILE_BY_COLUMN, dk, w, 2 * d->n, d->kq, d->dkw, x->by, w, ds, w, true);
}

static void store_head(vec_delta_grad *x, bool adds)
{
    const vec_delta *d = &x->d;
    const kernel_delta_rule_args *p = d->p;
    const int64_t n = d->n, w = d->dvw, kw = d->dkw, cols = kernel_delta_cols(p);
    scale_rows(x->dr, x->dr, d->beta, n, w, 1, false);
    void *dv = vec_at(x->g->dx, delta_row(d, 0) * cols + kernel_delta_v(p, d->head), p->type);
    VEC(tile_unpack)(dv, cols, x->dr, w, n, p->value_dim, 1, p->type);
    for (int64_t i = 0; i < n; i++) {
        float *gates = x->g->d_gates + delta_row(d, i) * 2 * p->heads + d->head;
        gates[0] = x->d_beta[i], gates[p->heads] = x->d_g[i];
    }
    for (int64_t c = 0; c < 2 * n * kw; c += VL) {
        vf sum = v_load(x->dkq, c, F32);
        if (c < n * kw) sum += v_load(x->dk_later, c, F32);
        if (adds) sum += v_load(x->sum_kq, c, F32);
        v_store(x->sum_kq, c, F32, sum);
    }
}

// dx of a q or k from the gradient `dy` of y, which is factor * x.
static void store_unit(const vec_delta *d, void *dx, float *dy, const float *y, float factor,
                       float scale)
{
    const kernel_delta_rule_args *p = d->p;
    const float along = p->normalize ? dot(y, dy, d->dkw) / (scale * scale) : 0;
    for (int64_t c = 0; c < d->dkw; c += VL)
        v_store(dy, c, F32, v_load(dy, c, F32) - v_set(along) * v_load(y, c, F32));
    VEC(tile_unpack)(dx, p->key_dim, dy, d->dkw, 1, p->key_dim, factor, p->type);
}

static void store_keys(vec_delta_grad *x)
{
    const vec_delta *d = &x->d;
    const kernel_delta_rule_args *p = d->p;
    const int64_t n = d->n, kw = d->dkw, first = d->key_head * d->group;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = delta_row(d, i) * kernel_delta_cols(p);
        store_unit(d, vec_at(x->g->dx, row + kernel_delta_k(p, first), p->type), x->sum_kq + i * kw,
                   d->kq + i * kw, d->k_factor[i], 1);
        store_unit(d, vec_at(x->g->dx, row + kernel_delta_q(p, first), p->type),
                   x->sum_kq + (n + i) * kw, d->kq + (n + i) * kw, d->q_factor[i], p->scale);
    }
}

// Goes back through a pair of a sequence and a key head. `states` is its workspace: of each value head the states before
// all chunks, and ds.
static void back_pair(vec_delta_grad *x, float *states)
{
    vec_delta *d = &x->d;
    const int64_t chunks = kernel_delta_chunks(d->p), floats = d->p->key_dim * d->dvw,
                  each = (chunks + 1) * floats;
    for (int64_t chunk = 0; chunk + 1 < chunks; chunk++) {
        VEC(delta_load_keys)(d, chunk);
        for (int64_t h = 0; h < d->group; h++) {
            float *s = states + h * each + chunk * floats;
            d->head = d->key_head * d->group + h;
            if (chunk == 0) memset(s, 0, sizeof *s * (size_t)floats);
            VEC(delta_write)(d, s, false, NULL);
            memcpy(s + floats, s, sizeof *s * (size_t)floats);
            VEC(delta_advance)(d, s + floats);
        }
    }
    for (int64_t chunk = chunks - 1; chunk >= 0; chunk--) {
        VEC(delta_load_keys)(d, chunk);
        for (int64_t h = 0; h < d->group; h++) {
            float *s = states + h * each + chunk * floats, *ds = states + (h + 1) * each - floats;
            d->head = d->key_head * d->group + h;
            if (chunk == 0) memset(s, 0, sizeof *s * (size_t)floats);
            if (chunk == chunks - 1) memset(ds, 0, sizeof *ds * (size_t)floats);
            VEC(delta_write)(d, s, false, x->error);
            load_d_o(x);
            back_writes(x, ds);
            back_scores(x);
            back_keys(x, s, ds);
            back_state(x, ds);
            store_head(x, h > 0);
        }
        store_keys(x);
    }
}

static int64_t pair_floats(const vec_delta *d)
{
    return d->group * (kernel_delta_chunks(d->p) + 1) * d->p->key_dim * d->dvw;
}

// Items are slots of the workspace. A slot has every CPU_DELTA_SLOTS-th pair.
static void grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                      int thread)
{
    const kernel_delta_rule_grad_args *g = args;
    const kernel_delta_rule_args *p = &g->fwd;
    vec_delta_grad back = {.g = g};
    back_layout(&back, g, cpu_scratch(x, thread));
    for (int64_t slot = first; slot < last; slot++)
        for (int64_t i = slot; i < p->batch * p->key_heads; i += CPU_DELTA_SLOTS) {
            back.d.b = i / p->key_heads, back.d.key_head = i % p->key_heads;
            back_pair(&back, (float *)x->workspace + slot * pair_floats(&back.d));
        }
}

void VEC(delta_rule_grad)(const cpu_context *x, const void *args)
{
    const kernel_delta_rule_grad_args *g = args;
    const kernel_delta_rule_args *p = &g->fwd;
    if (p->rows.full_seq == 0) return;
    VEC(share)(x, g, size_min(p->batch * p->key_heads, CPU_DELTA_SLOTS), 1, grad_part);
}

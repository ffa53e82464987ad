// vec_delta.c -- vector form of the gated delta rule, by chunks (Yang et al. 2024): within a chunk of tokens the rule is a
// few products of matrices and the solution of a triangular system, and only chunks follow one another. A thread has
// the value heads that share a key head of a sequence. vec_delta_grad.c goes back.
#include "device/cpu/vec_delta.h"

#include "device/cpu/ref/ref.h"

static float *take(float **memory, int64_t floats)
{
    float *from = *memory;
    *memory += size_align((uint64_t)floats, 16);
    return from;
}

void VEC(delta_layout)(vec_delta *d, const kernel_delta_rule_args *p, float *memory)
{
    d->p = p, d->memory = memory;
    d->group = p->heads / p->key_heads;
    d->dkw = size_ceil_div(p->key_dim, VL) * VL, d->dvw = size_ceil_div(p->value_dim, VL) * VL;
    d->kq = take(&memory, 2 * CHUNK * d->dkw);
    d->kt = take(&memory, d->dkw * CHUNK);
    d->dots = take(&memory, 2 * CHUNK * CHUNK);
    d->v = take(&memory, CHUNK * d->dvw);
    d->u = take(&memory, CHUNK * d->dvw);
    d->read = take(&memory, 2 * CHUNK * d->dvw);
    d->gamma = take(&memory, CHUNK * CHUNK);
    d->a = take(&memory, CHUNK * CHUNK);
    d->pm = take(&memory, CHUNK * CHUNK);
    d->kd_u = take(&memory, CHUNK * d->dvw);
    d->spare = memory;
}

// Loads a row of q or k, times a factor, which is returned.
VEC_INLINE float load_unit(const vec_delta *d, const void *x, float scale, float *to, dtype type)
{
    const int64_t cols = d->p->key_dim;
    vf square = v_zero();
#define SQUARE(c, n)                                                                               \
    do {                                                                                           \
        const vf e = v_load_n(x, c, n, type);                                                      \
        square += e * e;                                                                           \
        v_store(to, c, F32, e);                                                                    \
    } while (0)
    V_EACH(c, 0, cols, SQUARE);
#undef SQUARE
    const float factor = d->p->normalize ? scale / sqrtf(v_sum(square) + d->p->eps) : scale;
    for (int64_t c = 0; c < d->dkw; c += VL)
        v_store(to, c, F32, v_load(to, c, F32) * v_set(factor));
    return factor;
}

VEC_INLINE void load_rows(vec_delta *d, dtype type)
{
    const kernel_delta_rule_args *p = d->p;
    const int64_t first = d->key_head * d->group;
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t x = delta_row(d, i) * kernel_delta_cols(p);
        d->k_factor[i] = load_unit(d, vec_at(p->x, x + kernel_delta_k(p, first), type), 1,
                                   d->kq + i * d->dkw, type);
        d->q_factor[i] = load_unit(d, vec_at(p->x, x + kernel_delta_q(p, first), type), p->scale,
                                   d->kq + (d->n + i) * d->dkw, type);
    }
}

void VEC(delta_load_keys)(vec_delta *d, int64_t chunk)
{
    const kernel_delta_rule_args *p = d->p;
    d->t0 = chunk * CHUNK;
    d->n = size_min(p->rows.full_seq - d->t0, CHUNK);
    d->nw = size_ceil_div(d->n, VL) * VL;
#define CALL(type) load_rows(d, type)
    V_BY_TYPE(p->type, CALL);
#undef CALL
    VEC(tile_pack_transposed)(d->kt, CHUNK, d->kq, d->dkw, d->n, p->key_dim, F32);
    VEC(tile_multiply)
    (&(vec_tile_product){.m = 2 * d->n,
                         .n = d->nw,
                         .k = p->key_dim,
                         .a = d->kq,
                         .b = d->kt,
                         .c = d->dots,
                         .lda = d->dkw,
                         .ldb = CHUNK,
                         .ldc = CHUNK});
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t start =
            p->rows.documents ? kernel_delta_document(p, d->b, d->t0 + i) - d->t0 : 0;
        d->hidden[i] = size_max(start, 0);
    }
}

// Loads the gates, and sums g from the chunk's first token on.
static void load_gates(vec_delta *d)
{
    const kernel_delta_rule_args *p = d->p;
    float sum = 0;
    for (int64_t i = 0; i < d->n; i++) {
        const float *gates = p->gates + delta_row(d, i) * 2 * p->heads + d->head;
        sum += gates[p->heads];
        d->beta[i] = gates[0], d->sum_g[i] = sum;
    }
    for (int64_t i = d->n; i < CHUNK; i++) d->sum_g[i] = sum;
    const int64_t last = d->hidden[d->n - 1];
    for (int64_t i = 0; i < d->n; i++) {
        const bool in_last = i >= last,
                   sees_state =
                       !p->rows.documents || kernel_delta_document(p, d->b, d->t0 + i) < d->t0;
        d->fade[i] = sees_state ? expf(d->sum_g[i]) : 0;
        d->rest[i] = in_last ? expf(sum - d->sum_g[i]) : 0;
    }
    d->keep = d->fade[d->n - 1];
}

// Γ, A and P of a row.
VEC_INLINE void make_row(vec_delta *d, int64_t i)
{
    const vf sum = v_set(d->sum_g[i]), beta = v_set(-d->beta[i]);
    for (int64_t j = 0; j < d->nw; j += VL) {
        const int64_t at = i * CHUNK + j;
        vf gamma = v_exp_negative(v_min(sum - v_load(d->sum_g, j, F32), v_zero()));
        gamma = v_pick(v_first_lanes(d->hidden[i] - j), v_zero(), gamma);
        gamma = v_keep(v_first_lanes(i + 1 - j), gamma);
        v_store(d->gamma, at, F32, gamma);
        v_store(d->pm, at, F32, gamma * v_load(d->dots + d->n * CHUNK, at, F32));
        v_store(d->a, at, F32,
                v_keep(v_first_lanes(i - j), beta * gamma * v_load(d->dots, at, F32)));
    }
}

// u = (1 - A)^-1 u, by blocks of rows.
static void solve(vec_delta *d)
{
    enum { BLOCK = 12 };
    for (int64_t first = 0; first < d->n; first += BLOCK) {
        const int64_t last = size_min(first + BLOCK, d->n);
        if (first > 0) VEC(tile_multiply)
        (&(vec_tile_product){.m = last - first,
                             .n = d->dvw,
                             .k = first,
                             .a = d->a + first * CHUNK,
                             .b = d->u,
                             .c = d->u + first * d->dvw,
                             .lda = CHUNK,
                             .ldb = d->dvw,
                             .ldc = d->dvw,
                             .add = true});
        for (int64_t c = 0; c < d->dvw; c += VL)
            for (int64_t i = first + 1; i < last; i++) {
                vf u = v_load(d->u, i * d->dvw + c, F32);
                for (int64_t j = first; j < i; j++)
                    u = v_fma(v_set(d->a[i * CHUNK + j]), v_load(d->u, j * d->dvw + c, F32), u);
                v_store(d->u, i * d->dvw + c, F32, u);
            }
    }
}

VEC_INLINE void load_values(vec_delta *d, dtype type)
{
    const kernel_delta_rule_args *p = d->p;
    const int64_t x = delta_row(d, 0) * kernel_delta_cols(p) + kernel_delta_v(p, d->head);
    VEC(tile_pack)
    (d->v, d->dvw, vec_at(p->x, x, type), kernel_delta_cols(p), d->n, p->value_dim, 1, type);
}

void VEC(delta_write)(vec_delta *d, const float *s, bool queries, float *error)
{
    load_values(d, d->p->type);
    load_gates(d);
    VEC(tile_multiply)
    (&(vec_tile_product){.m = queries ? 2 * d->n : d->n,
                         .n = d->dvw,
                         .k = d->p->key_dim,
                         .a = d->kq,
                         .b = s,
                         .c = d->read,
                         .lda = d->dkw,
                         .ldb = d->dvw,
                         .ldc = d->dvw});
    for (int64_t i = 0; i < d->n; i++) {
        make_row(d, i);
        for (int64_t c = i * d->dvw; c < (i + 1) * d->dvw; c += VL) {
            const vf left = v_load(d->v, c, F32) - v_set(d->fade[i]) * v_load(d->read, c, F32);
            if (error) v_store(error, c, F32, left);
            v_store(d->u, c, F32, v_set(d->beta[i]) * left);
        }
    }
    solve(d);
}

void VEC(delta_advance)(vec_delta *d, float *s)
{
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t c = i * d->dvw; c < (i + 1) * d->dvw; c += VL)
            v_store(d->kd_u, c, F32, v_set(d->rest[i]) * v_load(d->u, c, F32));
    for (int64_t c = 0; c < d->p->key_dim * d->dvw; c += VL)
        v_store(s, c, F32, v_set(d->keep) * v_load(s, c, F32));
    VEC(tile_multiply)
    (&(vec_tile_product){.m = d->p->key_dim,
                         .n = d->dvw,
                         .k = d->n,
                         .a = d->kq,
                         .b = d->kd_u,
                         .c = s,
                         .lda = d->dkw,
                         .ldb = d->dvw,
                         .ldc = d->dvw,
                         .order = TILE_BY_COLUMN,
                         .add = true});
}

// o = exp(G) q S + P u.
VEC_INLINE void store_outputs(vec_delta *d, dtype type)
{
    const kernel_delta_rule_args *p = d->p;
    float *o = d->read + d->n * d->dvw;
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t c = i * d->dvw; c < (i + 1) * d->dvw; c += VL)
            v_store(o, c, F32, v_set(d->fade[i]) * v_load(o, c, F32));
    VEC(tile_multiply)
    (&(vec_tile_product){.m = d->n,
                         .n = d->dvw,
                         .k = d->n,
                         .a = d->pm,
                         .b = d->u,
                         .c = o,
                         .lda = CHUNK,
                         .ldb = d->dvw,
                         .ldc = d->dvw,
                         .add = true});
    for (int64_t i = 0; i < d->n; i++) {
        const int64_t row = kernel_delta_row(p, d->b, d->t0 + i);
        if (row < 0) continue;
        void *to = vec_at(p->o, (row * p->heads + d->head) * p->value_dim, type);
        VEC(tile_unpack)
        (to, p->value_dim, o + i * d->dvw, d->dvw, 1, p->value_dim, 1, type);
    }
}

// The tokens of a sequence up to the last that this rank has a row of.
static int64_t tokens_read(const kernel_delta_rule_args *p)
{
    if (p->rows.seq == p->rows.full_seq || p->state) return p->rows.full_seq;
    return kernel_token_position(&p->rows, p->rows.seq - 1) + 1;
}

// Copies the states of the key head's value heads from p->state, or back.
static void copy_states(const vec_delta *d, float *states, bool back)
{
    const kernel_delta_rule_args *p = d->p;
    const int64_t dv = p->value_dim, floats = p->key_dim * d->dvw;
    if (!back) memset(states, 0, sizeof *states * (size_t)(d->group * floats));
    for (int64_t i = 0; i < d->group * p->key_dim && p->state; i++) {
        float *theirs =
            p->state + (((d->b * p->heads + d->key_head * d->group) * p->key_dim) + i) * dv;
        memcpy(back ? theirs : states + i * d->dvw, back ? states + i * d->dvw : theirs,
               sizeof *states * (size_t)dv);
    }
}

static void forward_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                         int thread)
{
    const kernel_delta_rule_args *p = args;
    vec_delta d = {0};
    VEC(delta_layout)(&d, p, cpu_scratch(x, thread));
    float *states = d.spare;
    for (int64_t item = first; item < last; item++) {
        d.b = item / p->key_heads, d.key_head = item % p->key_heads;
        copy_states(&d, states, false);
        for (int64_t chunk = 0; chunk * CHUNK < tokens_read(p); chunk++) {
            VEC(delta_load_keys)(&d, chunk);
            for (int64_t h = 0; h < d.group; h++) {
                float *s = states + h * p->key_dim * d.dvw;
                d.head = d.key_head * d.group + h;
                VEC(delta_write)(&d, s, true, NULL);
                store_outputs(&d, p->type);
                VEC(delta_advance)(&d, s);
            }
        }
        copy_states(&d, states, true);
    }
}

void VEC(delta_rule)(const cpu_context *x, const void *args)
{
    const kernel_delta_rule_args *p = args;
    vec_delta d = {0};
    VEC(delta_layout)(&d, p, cpu_scratch(x, 0));
    const int64_t floats = d.spare - d.memory + d.group * p->key_dim * d.dvw;
    if (p->rows.full_seq == 0) return;
    if (sizeof(float) * (size_t)floats > CPU_SCRATCH_BYTES) {
        ref_delta_rule(x, p); // tens of wide value heads of a key head have no vector form
        return;
    }
    VEC(share)
    (x, p, p->batch * p->key_heads,
     vec_grain(p->rows.full_seq * p->key_dim * p->value_dim * p->heads / p->key_heads),
     forward_part);
}

// vec_embedding.c -- vector form of token and position embeddings. The gradient sums the rows of an
// id in row order and then adds the sum, so the team shares its work by columns, never by rows.
#include "device/cpu/vec.h"

enum { SUM_COLUMNS = 512 }; // columns that are summed at once over the rows of an id
enum { COLUMN_STEP = 128 }; // the team shares columns in steps of this; a multiple of a cache line

VEC_INLINE void embed_rows(const kernel_embedding_args *p, int64_t first, int64_t last, dtype type,
                           dtype residual)
{
    vf scale = v_set(p->scale);
    for (int64_t r = first; r < last; r++) {
        int64_t id = p->ids[r] - p->first;
        bool here = p->vocab == 0 || (id >= 0 && id < p->vocab);
        const void *token = vec_at(p->tokens, here ? id * p->cols : 0, type);
        const void *position =
            vec_at(p->positions, kernel_row_position(&p->row_tokens, r) * p->cols, type);
        void *y = vec_at(p->y, r * p->cols, residual);
#define BOTH(c, n)                                                                                 \
    v_store_n(y, c, n, residual,                                                                   \
              scale *v_load_n(token, c, n, type) + v_load_n(position, c, n, type))
#define TOKEN(c, n)    v_store_n(y, c, n, residual, scale *v_load_n(token, c, n, type))
#define POSITION(c, n) v_store_n(y, c, n, residual, v_load_n(position, c, n, type))
        if (here && p->positions) {
            V_EACH(c, 0, p->cols, BOTH);
        } else if (here) {
            V_EACH(c, 0, p->cols, TOKEN);
        } else if (p->positions) {
            V_EACH(c, 0, p->cols, POSITION);
        } else {
            memset(y, 0, (size_t)p->cols * (residual == F32 ? 4 : 2));
        }
#undef BOTH
#undef TOKEN
#undef POSITION
    }
}

static void embedding_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                           int thread)
{
    (void)x, (void)thread;
    const kernel_embedding_args *p = args;
#define CALL(type, residual) embed_rows(p, first, last, type, residual)
    V_BY_RESIDUAL(p->type, p->residual_fp32, CALL);
#undef CALL
}

void VEC(embedding)(const cpu_context *x, const void *args)
{
    const kernel_embedding_args *p = args;
    VEC(share)(x, p, p->rows, vec_grain(p->cols), embedding_part);
}

static void zero_columns(float *x, int64_t rows, int64_t cols, int64_t first, int64_t last)
{
    for (int64_t r = 0; r < rows; r++)
        memset(x + r * cols + first, 0, sizeof(float) * (size_t)(last - first));
}

// True if row r is the first with its id, and the vocabulary shard holds that id.
static bool is_first(const kernel_embedding_grad_args *p, int64_t r)
{
    const int32_t id = p->ids[r];
    if (id < p->first || id >= p->first + p->vocab) return false;
    for (int64_t q = r - 1; q >= 0; q--) // what comes again, often does so soon
        if (p->ids[q] == id) return false;
    return true;
}

// Adds the sum of all rows with the id of row r, which is the first such row.
VEC_INLINE void add_id(const kernel_embedding_grad_args *p, int64_t r, int64_t first, int64_t last,
                       dtype type)
{
    float sum[SUM_COLUMNS];
    vf scale = v_set(p->scale);
    float *to = p->d_tokens + (p->ids[r] - p->first) * p->cols + first;
    const int64_t count = last - first;
    memset(sum, 0, sizeof(float) * (size_t)count);
    for (int64_t q = r; q < p->rows; q++) {
        if (p->ids[q] != p->ids[r]) continue;
        const void *dy = vec_at(p->dy, q * p->cols + first, type);
#define ADD(c, n)                                                                                  \
    v_store_n(sum, c, n, F32, v_load_n(sum, c, n, F32) + scale * v_load_n(dy, c, n, type))
        V_EACH(c, 0, count, ADD);
#undef ADD
    }
#define ADD(c, n) v_store_n(to, c, n, F32, v_load_n(to, c, n, F32) + v_load_n(sum, c, n, F32))
    V_EACH(c, 0, count, ADD);
#undef ADD
}

VEC_INLINE void add_columns(const kernel_embedding_grad_args *p, int64_t first, int64_t last,
                            dtype type)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const void *dy = vec_at(p->dy, r * p->cols, type);
        const int64_t end = p->d_tokens && is_first(p, r) ? last : first;
        for (int64_t c = first; c < end; c += SUM_COLUMNS)
            add_id(p, r, c, size_min(c + SUM_COLUMNS, end), type);
        if (p->d_positions) {
            float *to = p->d_positions + kernel_row_position(&p->row_tokens, r) * p->cols;
#define ADD(c, n) v_store_n(to, c, n, F32, v_load_n(to, c, n, F32) + v_load_n(dy, c, n, type))
            V_EACH(c, first, last, ADD);
#undef ADD
        }
    }
}

static void embedding_grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                                int thread)
{
    (void)x, (void)thread;
    const kernel_embedding_grad_args *p = args;
    if (p->d_tokens && !p->accumulate_tokens)
        zero_columns(p->d_tokens, p->vocab, p->cols, first, last);
    if (p->d_positions && !p->accumulate_positions)
        zero_columns(p->d_positions, p->max_seq, p->cols, first, last);
#define CALL(type) add_columns(p, first, last, type)
    V_BY_TYPE(kernel_residual_type(p->type, p->residual_fp32), CALL);
#undef CALL
}

void VEC(embedding_grad)(const cpu_context *x, const void *args)
{
    const kernel_embedding_grad_args *p = args;
    int64_t grain = size_ceil_div(vec_grain(p->rows), COLUMN_STEP) * COLUMN_STEP;
    VEC(share)(x, p, p->cols, grain, embedding_grad_part);
}

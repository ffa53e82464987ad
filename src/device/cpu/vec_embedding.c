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
        bool is_local = p->vocab == 0 || (id >= 0 && id < p->vocab);
        const void *token = vec_at(p->tokens, is_local ? id * p->cols : 0, type);
        const void *position =
            vec_at(p->positions, kernel_document_position(&p->row_tokens, r) * p->cols, type);
        void *y = vec_at(p->y, r * p->cols, residual);
#define BOTH(c, n)                                                                                 \
    v_store_n(y, c, n, residual,                                                                   \
              scale *v_load_n(token, c, n, type) + v_load_n(position, c, n, type))
#define TOKEN(c, n)    v_store_n(y, c, n, residual, scale *v_load_n(token, c, n, type))
#define POSITION(c, n) v_store_n(y, c, n, residual, v_load_n(position, c, n, type))
        if (is_local && p->positions) {
            V_EACH(c, 0, p->cols, BOTH);
        } else if (is_local) {
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

// Merges the sorted runs first … middle-1 and middle … last-1 of `from` into `to`.
static void merge_runs(const int32_t *ids, const int32_t *from, int32_t *to, int64_t first,
                       int64_t middle, int64_t last)
{
    int64_t i = first, j = middle;
    for (int64_t k = first; k < last; k++)
        to[k] = i < middle && (j == last || ids[from[i]] <= ids[from[j]]) ? from[i++] : from[j++];
}

// The numbers of the rows, sorted by their ids; rows of one id stay in order. `memory` has two lists of
// `rows` numbers, and the result is one of them.
static const int32_t *sort_rows(const int32_t *ids, int64_t rows, int32_t *memory)
{
    int32_t *from = memory, *to = memory + rows;
    for (int64_t r = 0; r < rows; r++) from[r] = (int32_t)r;
    for (int64_t run = 1; run < rows; run *= 2) {
        for (int64_t r = 0; r < rows; r += 2 * run)
            merge_runs(ids, from, to, r, size_min(r + run, rows), size_min(r + 2 * run, rows));
        int32_t *merged = to;
        to = from, from = merged;
    }
    return from;
}

// A call, and its rows sorted by id.
typedef struct embedding_rows {
    const kernel_embedding_grad_args *p;
    const int32_t *row;
} embedding_rows;

// Adds the sum of rows first … last-1 of w->row, which have one id, in columns c … c+count-1.
VEC_INLINE void add_id(const embedding_rows *w, int64_t first, int64_t last, int64_t c,
                       int64_t count, dtype type)
{
    const kernel_embedding_grad_args *p = w->p;
    float sum[SUM_COLUMNS];
    vf scale = v_set(p->scale);
    float *to = p->d_tokens + (p->ids[w->row[first]] - p->first) * p->cols + c;
    memset(sum, 0, sizeof(float) * (size_t)count);
    for (int64_t r = first; r < last; r++) {
        const void *dy = vec_at(p->dy, w->row[r] * p->cols + c, type);
#define ADD(i, n)                                                                                  \
    v_store_n(sum, i, n, F32, v_load_n(sum, i, n, F32) + scale * v_load_n(dy, i, n, type))
        V_EACH(i, 0, count, ADD);
#undef ADD
    }
#define ADD(i, n) v_store_n(to, i, n, F32, v_load_n(to, i, n, F32) + v_load_n(sum, i, n, F32))
    V_EACH(i, 0, count, ADD);
#undef ADD
}

VEC_INLINE void add_tokens(const embedding_rows *w, int64_t first, int64_t last, dtype type)
{
    const kernel_embedding_grad_args *p = w->p;
    for (int64_t r = 0, end; r < p->rows; r = end) {
        const int32_t id = p->ids[w->row[r]];
        for (end = r + 1; end < p->rows && p->ids[w->row[end]] == id;) end++;
        if (id < p->first || id >= p->first + p->vocab) continue;
        for (int64_t c = first; c < last; c += SUM_COLUMNS)
            add_id(w, r, end, c, size_min(SUM_COLUMNS, last - c), type);
    }
}

VEC_INLINE void add_positions(const kernel_embedding_grad_args *p, int64_t first, int64_t last,
                              dtype type)
{
    for (int64_t r = 0; r < p->rows; r++) {
        const void *dy = vec_at(p->dy, r * p->cols, type);
        float *to = p->d_positions + kernel_document_position(&p->row_tokens, r) * p->cols;
#define ADD(c, n) v_store_n(to, c, n, F32, v_load_n(to, c, n, F32) + v_load_n(dy, c, n, type))
        V_EACH(c, first, last, ADD);
#undef ADD
    }
}

static void embedding_grad_part(const cpu_context *x, const void *args, int64_t first, int64_t last,
                                int thread)
{
    (void)x, (void)thread;
    const embedding_rows *w = args;
    const kernel_embedding_grad_args *p = w->p;
    if (p->d_tokens && !p->accumulate_tokens)
        zero_columns(p->d_tokens, p->vocab, p->cols, first, last);
    if (p->d_positions && !p->accumulate_positions)
        zero_columns(p->d_positions, p->max_seq, p->cols, first, last);
#define CALL(type)                                                                                 \
    do {                                                                                           \
        if (p->d_tokens) add_tokens(w, first, last, type);                                         \
        if (p->d_positions) add_positions(p, first, last, type);                                   \
    } while (0)
    V_BY_TYPE(kernel_residual_type(p->type, p->residual_fp32), CALL);
#undef CALL
}

void VEC(embedding_grad)(const cpu_context *x, const void *args)
{
    const kernel_embedding_grad_args *p = args;
    int64_t grain = size_ceil_div(vec_grain(p->rows), COLUMN_STEP) * COLUMN_STEP;
    embedding_rows w = {.p = p};
    if (p->d_tokens) w.row = sort_rows(p->ids, p->rows, x->workspace);
    VEC(share)(x, &w, p->cols, grain, embedding_grad_part);
}

// ref_embedding.c -- reference of token and position embeddings. The rows of an id are summed in
// row order, and the sum is then added to the gradient, so the bits are those of a separate sum.
// Ids are not checked here, because the loader has checked them. Ids outside the vocabulary shard
// belong to other ranks.
#include "device/cpu/ref/ref.h"

#include <string.h>

void ref_embedding(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_embedding_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t id = p->ids[r] - p->first;
        bool is_local = p->vocab == 0 || (id >= 0 && id < p->vocab);
        int64_t position = kernel_document_position(&p->row_tokens, r) * p->cols;
        for (int64_t c = 0; c < p->cols; c++) {
            ref_real y = is_local ? p->scale * ref_load(p->tokens, id * p->cols + c, p->type) : 0;
            if (p->positions) y += ref_load(p->positions, position + c, p->type);
            ref_store(p->y, r * p->cols + c, kernel_residual_type(p->type, p->residual_fp32), y);
        }
    }
}

// True if row r is the first with its id, and the vocabulary shard holds that id.
static bool is_first(const kernel_embedding_grad_args *p, int64_t r)
{
    const int64_t id = p->ids[r] - p->first;
    for (int64_t q = 0; q < r; q++)
        if (p->ids[q] == p->ids[r]) return false;
    return id >= 0 && id < p->vocab;
}

// Adds the sum of all rows with the id of row r, which is the first such row.
static void add_id(const kernel_embedding_grad_args *p, int64_t r)
{
    float *to = p->d_tokens + (p->ids[r] - p->first) * p->cols;
    for (int64_t c = 0; c < p->cols; c++) {
        ref_real sum = 0;
        for (int64_t q = r; q < p->rows; q++)
            if (p->ids[q] == p->ids[r])
                sum += p->scale * ref_load(p->dy, q * p->cols + c,
                                           kernel_residual_type(p->type, p->residual_fp32));
        to[c] = (float)(to[c] + sum);
    }
}

void ref_embedding_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const kernel_embedding_grad_args *p = args;
    size_t row_bytes = sizeof(float) * (size_t)p->cols;
    if (p->d_tokens && !p->accumulate_tokens) memset(p->d_tokens, 0, row_bytes * (size_t)p->vocab);
    if (p->d_positions && !p->accumulate_positions)
        memset(p->d_positions, 0, row_bytes * (size_t)p->max_seq);
    for (int64_t r = 0; r < p->rows; r++) {
        const int64_t position = kernel_document_position(&p->row_tokens, r);
        if (p->d_tokens && is_first(p, r)) add_id(p, r);
        for (int64_t c = 0; p->d_positions && c < p->cols; c++)
            p->d_positions[position * p->cols + c] +=
                ref_load(p->dy, r * p->cols + c, kernel_residual_type(p->type, p->residual_fp32));
    }
}

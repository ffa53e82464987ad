// ref_embedding.c -- token and position embeddings in plain C. Rows are added in row order, so that
// repeated ids give the same bits on every run. Ids are trusted: the loader has checked them; those
// that are not in this part of the table are another rank's.
#include "device/cpu/ref.h"

#include <string.h>

void ref_embedding(const cpu_context *x, const void *args)
{
    (void)x;
    const embedding_args *p = args;
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t id = p->ids[r] - p->first;
        bool here = p->vocab == 0 || (id >= 0 && id < p->vocab);
        int64_t position = (p->pos0 + r % p->seq) * p->cols;
        for (int64_t c = 0; c < p->cols; c++) {
            float y = here ? p->scale * ref_load(p->tokens, id * p->cols + c, p->type) : 0;
            if (p->positions) y += ref_load(p->positions, position + c, p->type);
            ref_store(p->y, r * p->cols + c, wide_type(p->type, p->wide), y);
        }
    }
}

void ref_embedding_grad(const cpu_context *x, const void *args)
{
    (void)x;
    const embedding_grad_args *p = args;
    size_t row_bytes = sizeof(float) * (size_t)p->cols;
    if (p->d_tokens && !p->accumulate_tokens) memset(p->d_tokens, 0, row_bytes * (size_t)p->vocab);
    if (p->d_positions && !p->accumulate_positions)
        memset(p->d_positions, 0, row_bytes * (size_t)p->max_seq);
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t id = p->ids[r] - p->first;
        bool here = p->d_tokens && id >= 0 && id < p->vocab;
        for (int64_t c = 0; c < p->cols; c++) {
            float dy = ref_load(p->dy, r * p->cols + c, wide_type(p->type, p->wide));
            if (here) p->d_tokens[id * p->cols + c] += p->scale * dy;
            if (p->d_positions) p->d_positions[r % p->seq * p->cols + c] += dy;
        }
    }
}

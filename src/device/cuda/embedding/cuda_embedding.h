// cuda_embedding.h -- what the two files of the embeddings share.
#ifndef TRIREME_DEVICE_CUDA_EMBEDDING_H
#define TRIREME_DEVICE_CUDA_EMBEDDING_H

#include "device/cuda/gpu_vector.h"

// The gradient of positions, of a call with d_positions (cuda_embedding.cu).
void cuda_embedding_grad_positions(const cuda_context *x, const kernel_embedding_grad_args *p);

// Stable sort of rows by id (cuda_sort.cu). Rows whose id is outside first … first+vocab-1 come last, with the
// key `vocab`.
struct cuda_sort_call {
    const int32_t *ids; // [rows]
    int64_t rows, first, vocab;
};
// The result, in the workspace: the keys (id - first) in order, and the row of each.
struct cuda_sorted {
    const int32_t *key, *row; // [rows]
};
// rows > 0
cuda_sorted cuda_sort_rows(const cuda_context *x, const cuda_sort_call &c, void *workspace);

#endif

// cuda_shapes.h -- how kernels of the cuda device divide their work, as far as the workspace of a call depends on it. The
// kernels and cuda_needs.c read the same numbers. C and CUDA C++ read it; it includes nothing of CUDA's.
#ifndef TRIREME_DEVICE_CUDA_SHAPES_H
#define TRIREME_DEVICE_CUDA_SHAPES_H

#include "base/size.h"
#include "device/kernels.h"

enum { GPU_WARP = 32 };

// ---- Sums of many elements: pieces of 1 << shift elements, except the last one of a segment

enum { GPU_SUM_SHIFT = 14, GPU_SUM_PIECES = 4096 };

ON_DEVICE static inline int64_t gpu_piece_count(int64_t count, int shift)
{
    return (count + ((int64_t)1 << shift) - 1) >> shift;
}

// The pieces that `segments` segments of `count` elements have together, or more, where no piece but
// the last of a segment has less than 1 << shift elements.
static inline int64_t gpu_most_pieces(int64_t count, int64_t segments, int shift)
{
    return (count >> shift) + segments;
}

static inline int64_t squares_segments(const kernel_sum_squares_args *p)
{
    return p->segment ? p->segments : 1;
}

static inline int64_t xielu_pieces(int64_t count, int shift)
{
    return count > 0 ? gpu_piece_count(count, shift) : 1;
}

// ---- Gradient of a bias

enum { BIAS_LEAST_ROWS = 64, BIAS_MOST_PARTS = 128 }; // rows of a block; parts of all rows

static inline int64_t bias_parts(int64_t rows)
{
    return size_min(size_ceil_div(rows, BIAS_LEAST_ROWS), BIAS_MOST_PARTS);
}

// ---- Gradient of an embedding: a sort of the rows by their ids, then sums of pieces

enum {
    SORT_BITS = 9, // of a digit: two passes for up to 262,143 ids
    SORT_DIGITS = 1 << SORT_BITS,
    SORT_THREADS = SORT_DIGITS, // a thread for each digit
    SORT_ROUNDS = 4,            // rows of a thread
    SORT_TILE = SORT_THREADS * SORT_ROUNDS,
    EMBEDDING_PIECE = 32 // rows of a piece, and pieces of a group
};

static inline int64_t sort_tiles(int64_t rows)
{
    return size_ceil_div(rows, SORT_TILE);
}

// Bytes of the sort's workspace, which grow with rows.
static inline size_t sort_bytes(int64_t rows)
{
    const size_t bytes = (size_t)(4 * rows + sort_tiles(rows) * SORT_DIGITS) * sizeof(int32_t);
    return (bytes + 255) / 256 * 256;
}

// ---- Gradients of norms

enum {
    NORM_PACK = 8,                                      // elements that a thread accesses at once
    GRAD_PACKS = 2,                                     // of a thread
    GRAD_WARP_COLS = GRAD_PACKS * NORM_PACK * GPU_WARP, // columns of a warp
    GRAD_WARPS = 16,                                    // of a block, and at most of a row
    GRAD_COLS = GRAD_WARPS * GRAD_WARP_COLS,            // of a row in registers
    GRAD_MOST_BLOCKS = 264,                             // that divide the rows
    QK_MOST_BLOCKS = 264                                // that divide the rows of a gain's gradient
};

// Warps of a row: a power of two.
static inline int norm_warps(int64_t cols, int warp_cols, int most)
{
    int warps = 1;
    while (warps < most && (int64_t)warps * warp_cols < cols) warps *= 2;
    return warps;
}

// Bytes of the sums of dgain, then of dbias, of each block, if one is wanted. As many blocks as fewer rows can have.
static inline size_t grad_sums_bytes(const kernel_norm_grad_args *p)
{
    const int groups = GRAD_WARPS / norm_warps(p->cols, GRAD_WARP_COLS, GRAD_WARPS);
    const int64_t blocks = size_min(size_ceil_div(p->rows, groups), GRAD_MOST_BLOCKS);
    return p->dgain || p->dbias ? size_align((size_t)(2 * blocks * p->cols) * sizeof(float), 16)
                                : 0;
}

// ---- Attention of a few queries

enum {
    ATTENTION_DECODE_QUERIES = 4, // up to so many queries are done by the decode kernel
    DECODE_KEYS = 256,            // of a piece
    DECODE_STATS = 2              // numbers of a piece beside its outputs: maximum and sum
};

ON_DEVICE static inline int64_t decode_pieces(int64_t tk)
{
    return (tk + DECODE_KEYS - 1) / DECODE_KEYS;
}

// ---- Gated delta rule, and orthogonal columns

ON_DEVICE static inline int64_t delta_block_floats(const kernel_delta_rule_args *p)
{
    return (kernel_delta_chunks(p) + KERNEL_DELTA_CHUNK + 2) * p->key_dim * p->value_dim +
           2 * p->rows.full_seq * p->key_dim;
}

enum { ORTH_LEAST_ROWS = 256, ORTH_MOST_BLOCKS = 128 };

static inline int64_t orth_blocks(int64_t rows)
{
    return size_min(size_ceil_div(rows, ORTH_LEAST_ROWS), ORTH_MOST_BLOCKS);
}

static inline bool loss_is_wanted(const kernel_cross_entropy_args *p)
{
    return p->loss_sum || p->count;
}

#endif

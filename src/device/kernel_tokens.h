// kernel_tokens.h -- which tokens of which sequences the rows of a matrix are. Kernels, graphs and the
// code that copies batches use it, so that positions, random numbers and causality follow the tokens
// and not the rows of a rank. Pure arithmetic.
#ifndef TRIREME_DEVICE_KERNEL_TOKENS_H
#define TRIREME_DEVICE_KERNEL_TOKENS_H

#include "base/target.h"

#include <stddef.h>
#include <stdint.h>

// The tokens that the rows of a matrix stand for, where a rank may have some of them only. A rank has
// `seq` tokens of each sequence of full_seq tokens: one run of consecutive tokens (chunk == seq), or,
// under context parallelism, two runs of equal length (2 * chunk == seq), the earlier one first.
typedef struct kernel_tokens {
    int64_t seq, full_seq;
    int64_t chunk;     // tokens of a run
    int64_t start[2];  // position of the first token of each run; [1] is read if there are two
    int64_t first_row; // number of the matrix's row 0 among the rows of this rank's sequences
    // [rows of this rank's sequences], in device memory: the position in its full sequence at which the
    // row's document begins. It is no position after the row's, and does not fall from row to row of a
    // sequence. Documents do not see each other, and positions count from their start. NULL: a sequence
    // is one document.
    const int32_t *documents;
} kernel_tokens;

// `seq` consecutive tokens of each sequence, and no others, from position `start` on.
static inline kernel_tokens kernel_tokens_from(int64_t seq, int64_t start)
{
    return (kernel_tokens){.seq = seq,
                           .full_seq = seq,
                           .chunk = seq,
                           .start = {start, 0},
                           .first_row = 0,
                           .documents = NULL};
}

// The position in its full sequence of token i < seq of a sequence.
ON_DEVICE static inline int64_t kernel_token_position(const kernel_tokens *t, int64_t i)
{
    return i < t->chunk ? t->start[0] + i : t->start[1] + i - t->chunk;
}

// The token i < seq of a sequence that stands at this position; -1: none does.
ON_DEVICE static inline int64_t kernel_token_at(const kernel_tokens *t, int64_t position)
{
    const int64_t first = position - t->start[0], second = position - t->start[1];
    if (first >= 0 && first < t->chunk) return first;
    return t->chunk < t->seq && second >= 0 && second < t->chunk ? t->chunk + second : -1;
}

// The position of the token of row r.
ON_DEVICE static inline int64_t kernel_row_position(const kernel_tokens *t, int64_t r)
{
    return kernel_token_position(t, (t->first_row + r) % t->seq);
}

// The position in its full sequence at which the document of row r begins.
ON_DEVICE static inline int64_t kernel_document_start(const kernel_tokens *t, int64_t r)
{
    return t->documents ? t->documents[t->first_row + r] : 0;
}

// The position of the token of row r in its document.
ON_DEVICE static inline int64_t kernel_document_position(const kernel_tokens *t, int64_t r)
{
    return kernel_row_position(t, r) - kernel_document_start(t, r);
}

// The logical row of row r: its number if the sequences were full.
ON_DEVICE static inline int64_t kernel_logical_row(const kernel_tokens *t, int64_t r)
{
    return (t->first_row + r) / t->seq * t->full_seq + kernel_row_position(t, r);
}

// Returns how many of `rows` rows from row r on have consecutive logical rows.
ON_DEVICE static inline int64_t kernel_consecutive_rows(const kernel_tokens *t, int64_t r,
                                                        int64_t rows)
{
    if (t->chunk == t->full_seq) return rows;
    const int64_t left = t->chunk - (t->first_row + r) % t->chunk;
    return left < rows ? left : rows;
}

#endif

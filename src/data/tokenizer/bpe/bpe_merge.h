// bpe_merge.h -- byte-pair encoding of one word: merges the adjacent pair with the lowest rank, the
// leftmost of equal pairs first, until no pair has a rank.
#ifndef TRIREME_DATA_BPE_MERGE_H
#define TRIREME_DATA_BPE_MERGE_H

#include "data/tokenizer/bpe/bpe_table.h"

// Packs the rank of a pair (upper 32 bits) and the id of the merged token (lower 32 bits) into one
// value, which the table of merges stores. The pair with the smallest value merges first.
static inline uint64_t bpe_merge_value(uint32_t rank, int32_t id)
{
    return (uint64_t)rank << 32 | (uint32_t)id;
}

typedef struct bpe_candidate {
    uint64_t value;    // see bpe_merge_value
    uint32_t position; // index of the symbol at which the pair starts
} bpe_candidate;

// Workspace for long words, one per thread; start with {0}.
typedef struct bpe_merger {
    uint32_t *before, *after; // [symbols] indices of the previous and the next remaining symbol
    uint64_t *values;         // [symbols] value of the pair that starts at each symbol
    bpe_candidate *heap;      // [heap_count]
    // Capacities of the arrays, in elements.
    size_t before_room, after_room, value_room, heap_room;
    size_t heap_count;
} bpe_merger;

void bpe_merger_close(bpe_merger *m);
// Merges ids[*count] in place; *count becomes smaller. ends[i] is the byte of the word behind symbol i. E_MEMORY when there
// is no memory for a long word.
status bpe_merge(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, uint32_t *ends,
                 size_t *count, err *e);

#endif

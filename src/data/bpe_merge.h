// bpe_merge.h -- byte-pair encoding of one word: merges the adjacent pair with the lowest rank, the
// leftmost of equal pairs first, until no pair has a rank.
#ifndef TRIREME_DATA_BPE_MERGE_H
#define TRIREME_DATA_BPE_MERGE_H

#include "data/bpe_table.h"

// The value of a pair in the table of merges: the rank, then the id of the merged token. The smaller
// value merges first.
static inline uint64_t bpe_merge_value(uint32_t rank, int32_t id)
{
    return (uint64_t)rank << 32 | (uint32_t)id;
}

typedef struct bpe_candidate {
    uint64_t value;    // of bpe_merge_value
    uint32_t position; // symbol at which the pair starts
} bpe_candidate;

// Workspace for long words, one per thread; start with {0}.
typedef struct bpe_merger {
    uint32_t *before, *after; // [symbols] the symbols next to each remaining symbol
    uint64_t *values;         // [symbols] of the pair that starts at each symbol
    bpe_candidate *heap;      // [heap_count]
    size_t before_room, after_room, value_room, heap_room, heap_count;
} bpe_merger;

void bpe_merger_close(bpe_merger *m);
// Merges ids[*count] in place; *count becomes smaller. E_IO when a long word finds no memory.
status bpe_merge(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, size_t *count, err *e);

#endif

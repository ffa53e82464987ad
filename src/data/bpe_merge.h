// bpe_merge.h -- byte-pair encoding of one word: the lowest-ranked neighbouring pair is merged,
// the leftmost first, until none is left.
#ifndef TRIREME_DATA_BPE_MERGE_H
#define TRIREME_DATA_BPE_MERGE_H

#include "data/bpe_table.h"

// The value of a pair in the table of merges: what to merge first is the smaller value.
static inline uint64_t bpe_merge_value(uint32_t rank, int32_t id)
{
    return (uint64_t)rank << 32 | (uint32_t)id;
}

// Work space for long words; start with {0}, one per thread.
typedef struct bpe_candidate {
    uint64_t value;
    uint32_t at;
} bpe_candidate;
typedef struct bpe_merger {
    uint32_t *before, *after; // neighbours of each symbol that is still there
    uint64_t *values;         // of the pair that starts at each symbol
    bpe_candidate *heap;
    size_t before_room, after_room, value_room, heap_room, heap_count;
} bpe_merger;

void bpe_merger_close(bpe_merger *m);
// Merges ids[*count] in place; *count shrinks. E_IO when there is no memory for a long word.
status bpe_merge(bpe_merger *m, const bpe_pairs *merges, int32_t *ids, size_t *count, err *e);

#endif

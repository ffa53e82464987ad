// bpe_learn.h -- learns merges from counted words.
#ifndef TRIREME_DATA_BPE_LEARN_H
#define TRIREME_DATA_BPE_LEARN_H

#include "data/tokenizer/bpe/bpe_count.h"

typedef struct bpe_learned {
    bpe_strings names; // the spelling of each id: special tokens, bytes, then merged tokens
    uint64_t *merges; // [merge_count] keys of bpe_pair_key in the order of their rank, no key twice
    size_t merge_count, merge_room;
} bpe_learned;

void bpe_learned_close(bpe_learned *l);

// Adds merges until `out->names` has `vocab` names or no pair is left. The caller has put the
// special tokens and the 256 bytes into `out->names`.
status bpe_learn(const bpe_words *words, size_t vocab, tokenizer_progress progress,
                 void *progress_arg, bpe_learned *out, err *e);

#endif

// bpe_count.h -- counts how often each word occurs in documents, on several threads.
#ifndef TRIREME_DATA_BPE_COUNT_H
#define TRIREME_DATA_BPE_COUNT_H

#include "data/tokenizer/bpe/bpe_table.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_split.h"

typedef struct bpe_words {
    bpe_strings words;
    int64_t *counts; // [words.count]
    size_t count_room;
} bpe_words;

void bpe_words_close(bpe_words *w);

// Counts the words of `docs`. `split` must have a built-in pattern, because only for these it is
// known where a document can be divided into pieces. The counts do not depend on the number of
// threads; the order of the words does. `progress` receives the share of the text that is counted.
// The caller calls bpe_words_close. E_USAGE on invalid UTF-8.
status bpe_count(const tokenizer_splitter *split, const tokenizer_document *docs, size_t count,
                 int threads, tokenizer_progress progress, void *progress_arg, bpe_words *out,
                 err *e);

#endif

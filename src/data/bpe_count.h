// bpe_count.h -- the words of documents and how often each occurs, counted by several threads.
#ifndef TRIREME_DATA_BPE_COUNT_H
#define TRIREME_DATA_BPE_COUNT_H

#include "data/bpe_table.h"
#include "data/tokenizer.h"
#include "data/tokenizer_split.h"

typedef struct bpe_words {
    bpe_strings words;
    int64_t *counts; // [words.count]
    size_t count_room;
} bpe_words;

void bpe_words_close(bpe_words *w);

// `split` must have a built-in pattern: only of these is it known where a document can be cut. The
// order of the words depends on the threads, their counts do not. E_USAGE on invalid UTF-8. The
// progress is reported as a share of the text.
status bpe_count(const splitter *split, const document *docs, size_t count, int threads,
                 tokenizer_progress progress, void *progress_arg, bpe_words *out, err *e);

#endif

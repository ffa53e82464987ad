// tokenizer_words.h -- the ids of words, with a cache, because text repeats its words.
#ifndef TRIREME_DATA_TOKENIZER_WORDS_H
#define TRIREME_DATA_TOKENIZER_WORDS_H

#include "data/tokenizer/bpe/bpe_merge.h"
#include "data/tokenizer/tokenizer_private.h"

// Ids, one after the other. Start with {0}; the owner calls tokenizer_ids_clear.
typedef struct tokenizer_ids {
    int32_t *items;
    uint32_t *ends; // the byte behind each id, of its word; in a text that is traced, of the text
    size_t count, room, end_room;
} tokenizer_ids;

void tokenizer_ids_clear(tokenizer_ids *ids);
status tokenizer_ids_room(tokenizer_ids *ids, size_t more, err *e);

typedef struct tokenizer_id_span {
    uint32_t offset, count; // in tokenizer_words.cached
} tokenizer_id_span;

// Workspace, one per thread; start with {0}.
typedef struct tokenizer_words {
    bpe_merger merger;
    tokenizer_unigram_workspace unigram;
    char *spelling; // of the current word
    size_t spelling_room;
    bpe_strings words;        // the words in the cache
    tokenizer_id_span *spans; // [words.count] the ids of each word
    size_t span_room;
    tokenizer_ids cached; // the ids of all words in the cache
} tokenizer_words;

void tokenizer_words_clear(tokenizer_words *w);
// Appends the ids of a word, which is not empty, with their ends in it.
status tokenizer_words_encode(const tokenizer *t, tokenizer_words *w, tokenizer_ids *out,
                              const char *string, size_t bytes, err *e);

#endif

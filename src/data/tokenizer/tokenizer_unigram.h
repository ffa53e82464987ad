// tokenizer_unigram.h -- a Unigram model: each piece of the vocabulary has a score, and a word becomes the row of pieces with
// the greatest sum of scores.
#ifndef TRIREME_DATA_TOKENIZER_UNIGRAM_H
#define TRIREME_DATA_TOKENIZER_UNIGRAM_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One piece of the vocabulary.
typedef struct tokenizer_unigram_piece {
    const char *chars; // UTF-8, borrowed while the model is opened
    size_t bytes;
    int32_t id;
    double score;
} tokenizer_unigram_piece;

typedef struct tokenizer_unigram tokenizer_unigram; // immutable: shared by threads

// Sorts the pieces, no two of which are equal. `unknown`: the id of a character that no piece covers; -1: none.
status tokenizer_unigram_open(tokenizer_unigram_piece *pieces, size_t count, int32_t unknown,
                              tokenizer_unigram **out, err *e);
void tokenizer_unigram_close(tokenizer_unigram *u); // NULL allowed

// Workspace, one per thread; start with {0}.
typedef struct tokenizer_unigram_node {
    double score;   // of the best row of pieces that ends here
    uint32_t start; // where its last piece starts
    int32_t id;     // of its last piece
} tokenizer_unigram_node;
typedef struct tokenizer_unigram_workspace {
    tokenizer_unigram_node *nodes; // [bytes + 1]
    uint32_t *next;                // [bytes + 1] where the piece that starts here ends
    size_t node_room, next_room;
} tokenizer_unigram_workspace;

void tokenizer_unigram_workspace_clear(tokenizer_unigram_workspace *w);
// Finds the best row of pieces of a word in UTF-8. From byte 0 on, w->next leads from piece to piece; the id of the piece that
// ends at byte i is w->nodes[i].id, the unknown id for a character without a piece. E_USAGE for such a character where there
// is no unknown id.
status tokenizer_unigram_run(const tokenizer_unigram *u, tokenizer_unigram_workspace *w,
                             const char *word, size_t bytes, err *e);

#endif

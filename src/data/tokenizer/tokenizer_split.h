// tokenizer_split.h -- the pre-tokenizer: splits text into words. Byte pairs merge only inside a
// word.
#ifndef TRIREME_DATA_TOKENIZER_SPLIT_H
#define TRIREME_DATA_TOKENIZER_SPLIT_H

#include "base/err.h"
#include "data/tokenizer/tokenizer_span.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer_splitter tokenizer_splitter; // immutable: shared by threads
typedef struct tokenizer_splitter_workspace tokenizer_splitter_workspace; // one per thread

// Reads the field pre_tokenizer of a tokenizer.json. E_USAGE names the field that is broken or not
// supported.
status tokenizer_splitter_open(const json_t *pre_tokenizer, tokenizer_splitter **out, err *e);
void tokenizer_splitter_close(tokenizer_splitter *s); // NULL allowed
// A hash of the steps; it is equal for equal steps, however the field spells them.
uint64_t tokenizer_splitter_hash(const tokenizer_splitter *s);
// Returns whether the words' bytes are spelled as characters (ByteLevel, bpe_bytes.h).
bool tokenizer_splitter_spells_bytes(const tokenizer_splitter *s);
status tokenizer_splitter_workspace_open(const tokenizer_splitter *s,
                                         tokenizer_splitter_workspace **out, err *e);
void tokenizer_splitter_workspace_close(tokenizer_splitter_workspace *w); // NULL allowed

// Receives one word, borrowed for the call.
typedef status (*tokenizer_word_fn)(void *arg, const tokenizer_span *word, err *e);
// Splits valid UTF-8 and calls `fn` for each word in order. With add_prefix_space a word may begin
// with a space that the text lacks. `first`: the text begins with this piece of it.
status tokenizer_splitter_run(tokenizer_splitter_workspace *w, const tokenizer_span *piece,
                              bool first, tokenizer_word_fn fn, void *arg, err *e);

#endif

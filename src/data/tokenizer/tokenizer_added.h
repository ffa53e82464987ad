// tokenizer_added.h -- finds added tokens ("<|endoftext|>", …) in text, before the rest is split into
// words.
#ifndef TRIREME_DATA_TOKENIZER_ADDED_H
#define TRIREME_DATA_TOKENIZER_ADDED_H

#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tokenizer_added_token {
    const char *content; // UTF-8, not empty; borrowed as long as the set lives
    size_t bytes;
    int32_t id;
    bool single_word;    // matches only where no word character is next to it
    bool lstrip, rstrip; // a match includes the white space before it, after it
    bool special;        // it is no token where the text is literal
} tokenizer_added_token;

typedef struct tokenizer_added_set tokenizer_added_set; // immutable: shared by threads

// Copies the tokens, but not their contents. No two may have the same content.
status tokenizer_added_open(const tokenizer_added_token *tokens, size_t count,
                            tokenizer_added_set **out, err *e);
void tokenizer_added_close(tokenizer_added_set *s); // NULL allowed

// Receives one piece of a text: an added token as its id, or id -1 and text, which is not empty.
typedef status (*tokenizer_added_fn)(void *arg, int32_t id, const tokenizer_span *piece, err *e);
// Splits valid UTF-8 at added tokens and calls `fn` for each piece in order. Where several tokens
// start at one position, the longest matches. A special token that begins in one of the ranges `literal` of the original is
// no token; ranges need a text that is traced.
status tokenizer_added_run(const tokenizer_added_set *s, const tokenizer_span *whole,
                           const tokenizer_range *literal, size_t literals, tokenizer_added_fn fn,
                           void *arg, err *e);

#endif

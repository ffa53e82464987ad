// tokenizer_rewrite.h -- changes of a piece of text that need no table of their own: replacements, maps of single characters,
// bytes as characters. The normalizer and the pre-tokenizer call it. Each writes the piece out->from.
#ifndef TRIREME_DATA_TOKENIZER_REWRITE_H
#define TRIREME_DATA_TOKENIZER_REWRITE_H

#include "data/tokenizer/tokenizer_pattern.h"
#include "data/tokenizer/tokenizer_span.h"

// Puts `content` in place of a text, which is not empty.
status tokenizer_rewrite_literal(const char *literal, const char *content, tokenizer_copy *out,
                                 err *e);
// Puts `content` in place of what a pattern matches. E_USAGE where it matches an empty text.
status tokenizer_rewrite_pattern(const tokenizer_pattern *pattern, tokenizer_pattern_workspace *w,
                                 const char *content, tokenizer_copy *out, err *e);
// Leaves out the white space at the ends.
status tokenizer_rewrite_strip(bool left, bool right, tokenizer_copy *out, err *e);
// Spells each byte as a character (bpe_bytes.h).
status tokenizer_rewrite_bytes(tokenizer_copy *out, err *e);

// What becomes of a character: writes 0 to 2 characters and returns their number.
typedef size_t (*tokenizer_rewrite_fn)(uint32_t character, uint32_t out[2]);
status tokenizer_rewrite_characters(tokenizer_rewrite_fn fn, tokenizer_copy *out, err *e);
size_t tokenizer_rewrite_lower(uint32_t character, uint32_t out[2]);
size_t tokenizer_rewrite_accents(uint32_t character, uint32_t out[2]); // leaves marks out
size_t tokenizer_rewrite_nmt(uint32_t character, uint32_t out[2]);     // cleans as SentencePiece

#endif

// tokenizer_charsmap.h -- the normalizer Precompiled: SentencePiece's map of characters to text, a trie in a double array.
#ifndef TRIREME_DATA_TOKENIZER_CHARSMAP_H
#define TRIREME_DATA_TOKENIZER_CHARSMAP_H

#include "base/text.h"
#include "data/tokenizer/tokenizer_span.h"

typedef struct tokenizer_charsmap tokenizer_charsmap; // immutable: shared by threads

// Reads the field precompiled_charsmap, which is base64. E_USAGE says what is broken. *out is NULL for an empty map.
status tokenizer_charsmap_open(const char *base64, tokenizer_charsmap **out, err *e);
// The number of bytes that base64 means, or -1 for text that is none. `out` has room for 3/4 of the text and 4 bytes.
int64_t tokenizer_decode_base64(const char *s, uint8_t *out);
void tokenizer_add_base64(text *out, const char *bytes, size_t count);
void tokenizer_charsmap_close(tokenizer_charsmap *m); // NULL allowed
// Writes the piece out->from as the map says, with the rules of HuggingFace's tokenizers for clusters of characters.
status tokenizer_charsmap_run(const tokenizer_charsmap *m, tokenizer_copy *out, err *e);

#endif

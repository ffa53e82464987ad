// tokenizer_decoder.h -- the decoder: what the name of a token is in text.
#ifndef TRIREME_DATA_TOKENIZER_DECODER_H
#define TRIREME_DATA_TOKENIZER_DECODER_H

#include "base/text.h"

#include <jansson.h>

enum { DECODER_REPLACES = 8 };

typedef struct tokenizer_decoder {
    bool byte_level;    // names spell bytes (bpe_bytes.h)
    bool byte_fallback; // a name such as <0xE4> is that byte
    struct {
        char *from, *to; // owned
    } replace[DECODER_REPLACES];
    int replaces;
    // At the beginning of a text: this character is removed, up to `strips` times; with `strips_first`, everywhere in
    // the first token. NULL: it stays.
    char *strip;
    int64_t strips;
    bool strips_first;
} tokenizer_decoder;

// Reads the field decoder of a tokenizer.json. `spells_bytes`: the pre-tokenizer is ByteLevel. E_USAGE names what is broken
// or not supported. The caller calls tokenizer_decoder_clear, also after a failure.
status tokenizer_decoder_read(const json_t *decoder, bool spells_bytes, tokenizer_decoder *out,
                              err *e);
void tokenizer_decoder_clear(tokenizer_decoder *d);
// Appends what a token is within a text. `added`: it is an added token, whose name spells no bytes.
void tokenizer_decoder_add(const tokenizer_decoder *d, const char *name, size_t bytes, bool added,
                           text *out);
// Removes from out, from `start` on, what a text does not begin with. Its first token has `first_bytes` bytes there.
void tokenizer_decoder_strip(const tokenizer_decoder *d, text *out, size_t start,
                             size_t first_bytes);

#endif

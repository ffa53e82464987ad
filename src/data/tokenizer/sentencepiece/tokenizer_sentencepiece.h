// tokenizer_sentencepiece.h -- a tokenizer.model of SentencePiece (a protobuf) as the text of a tokenizer.json.
#ifndef TRIREME_DATA_TOKENIZER_SENTENCEPIECE_H
#define TRIREME_DATA_TOKENIZER_SENTENCEPIECE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

// What a model file does not say: whether a text begins and ends with the ids of its control tokens.
typedef struct tokenizer_sentencepiece_options {
    bool adds_begin, adds_end;
} tokenizer_sentencepiece_options;

// Converts a model as transformers does for a folder without tokenizer.json. The caller frees *json. E_USAGE says what is
// broken or not supported.
status tokenizer_sentencepiece_convert(const char *model, size_t bytes,
                                       const tokenizer_sentencepiece_options *o, char **json,
                                       err *e);

#endif

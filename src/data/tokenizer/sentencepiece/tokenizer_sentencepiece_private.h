// tokenizer_sentencepiece_private.h -- a model of SentencePiece, between the file that reads it and the one that writes it.
#ifndef TRIREME_DATA_TOKENIZER_SENTENCEPIECE_PRIVATE_H
#define TRIREME_DATA_TOKENIZER_SENTENCEPIECE_PRIVATE_H

#include "data/tokenizer/sentencepiece/tokenizer_sentencepiece.h"

#include <jansson.h>
#include <stdint.h>

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_USER = 4 };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

typedef struct sentencepiece_piece {
    const char *chars; // [bytes] in the file
    size_t bytes;
    float score;
    uint64_t kind;
} sentencepiece_piece;

typedef struct sentencepiece_model {
    sentencepiece_piece *pieces;
    size_t count, room;
    uint64_t kind;
    bool byte_fallback;
    int64_t unknown, begin, end; // ids; -1: none
    const char *map;             // [map_bytes] the characters that it replaces
    size_t map_bytes;
    bool adds_prefix, removes_spaces, escapes;
} sentencepiece_model;

// Writes a model as a tokenizer.json. The caller releases *out; NULL: there was no memory.
status sentencepiece_write(const sentencepiece_model *m, const tokenizer_sentencepiece_options *o,
                           json_t **out, err *e);

#endif

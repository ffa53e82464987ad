// tokenizer_sentencepiece.h -- a tokenizer.model of SentencePiece (a protobuf), and any pieces with scores, as a
// tokenizer.json. tokenizer_load.c and convert/ call it.
#ifndef TRIREME_DATA_TOKENIZER_SENTENCEPIECE_H
#define TRIREME_DATA_TOKENIZER_SENTENCEPIECE_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a model file does not say: whether a text begins and ends with the ids of its control tokens.
typedef struct tokenizer_sentencepiece_options {
    bool adds_begin, adds_end;
} tokenizer_sentencepiece_options;

// Converts a model as transformers does for a folder without tokenizer.json. The caller frees *json. E_USAGE says what is
// broken or not supported.
status tokenizer_sentencepiece_convert(const char *model, size_t bytes,
                                       const tokenizer_sentencepiece_options *o, char **json,
                                       err *e);

// ---- Pieces with scores

// The numbers are those of SentencePiece, and of GGUF files.
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_USER = 4 };
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };

typedef struct tokenizer_piece {
    const char *chars; // [bytes] in the file
    size_t bytes;
    float score;
    uint64_t kind;
} tokenizer_piece;

typedef struct tokenizer_pieces {
    tokenizer_piece *pieces;
    size_t count, room;
    uint64_t kind;
    bool byte_fallback;
    int64_t unknown, begin, end; // ids; -1: none; Unigram needs the first
    const char *map;             // [map_bytes] the characters that it replaces
    size_t map_bytes;
    bool adds_prefix, removes_spaces, escapes;
} tokenizer_pieces;

// Writes the pieces as a tokenizer.json: with transformers' steps, and with merges in the order of the scores where they are
// BPE. A name of 0 bytes is none. The caller releases *out; NULL: there was no memory.
status tokenizer_pieces_write(const tokenizer_pieces *m, const tokenizer_sentencepiece_options *o,
                              json_t **out, err *e);

#endif

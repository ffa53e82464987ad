// samples_private.h -- what the files of samples/ share: a line between JSON and tokens, and the set of documents that
// packing puts into rows.
#ifndef TRIREME_DATA_SAMPLES_PRIVATE_H
#define TRIREME_DATA_SAMPLES_PRIVATE_H

#include "data/samples/samples.h"

#include "base/file.h"
#include "data/tokens.h"

// ---- format.c, convert.c: a line of JSON

// A line whose form is known. Strings and values belong to `line` and `made`.
typedef struct samples_draft {
    samples_format format;
    json_t *line; // owned
    json_t *made; // owned: an array of the values that were made of others
    // One of three: a conversation, a text, or a prompt with completions.
    const json_t *messages;
    const json_t *text;
    const json_t *prompt;        // a string or messages
    const json_t *completion[2]; // of the same kind; [1] NULL: only one
    const json_t *tools, *extra; // of a conversation; NULL: none
    bool trains_all;             // of InstructLab: unmask
    bool has_label, label;       // of KTO: the completion is good
    double weight;
} samples_draft;

// Reads a line in `format`; FORMAT_AUTO finds it by the keys. `has_chat`: the tokenizer has a template for Alpaca's
// fields. E_USAGE says what is wrong; the caller adds file and line. samples_draft_clear is safe after a failure.
status samples_draft_read(const char *line, size_t bytes, samples_format format, bool has_chat,
                          samples_draft *out, err *e);
void samples_draft_clear(samples_draft *d);
// E_USAGE unless `list` is an array of objects with a role. `key` names it.
status samples_check_messages(const json_t *list, const char *key, err *e);
// The string of a key. E_USAGE where it is no string, or missing; with `optional` *out is NULL then.
status samples_string(const json_t *object, const char *key, bool optional, const json_t **out,
                      err *e);
// Keeps a value as long as the draft. E_MEMORY where it is NULL. Takes the reference.
status samples_draft_keep(samples_draft *d, json_t *value, err *e);

// Sets the messages of a line of ShareGPT or Alpaca.
status samples_convert_sharegpt(samples_draft *d, err *e);
status samples_convert_alpaca(samples_draft *d, bool has_chat, err *e);
// Takes the beginning that chosen and rejected share as the prompt.
status samples_convert_implicit(samples_draft *d, err *e);

// ---- encode.c: a line as tokens

// An id has this bit where the token is predicted.
#define SAMPLE_TRAINED ((int32_t)0x40000000)

typedef struct samples_line {
    samples_format format;
    int32_t *token; // [count]
    size_t count, room;
    size_t *end; // [documents] of each document
    size_t documents, end_room;
    // The two documents are a pair; of a completion with a label the other one has one token and no label. Else each
    // document is a sample: a conversation has several where its template rewrites history.
    bool pair;
    double weight;
    bool is_chat;
} samples_line;
void samples_line_clear(samples_line *line);
void samples_splits_add(samples_splits *s, const samples_line *line);

typedef struct samples_encoder samples_encoder;
// One for each thread.
status samples_encoder_open(const samples_options *o, samples_encoder **out, err *e);
void samples_encoder_close(samples_encoder *x); // NULL allowed
// Replaces what *out holds; the owner calls samples_line_clear. E_USAGE without file and line.
status samples_encode(samples_encoder *x, const char *line, size_t bytes, samples_format format,
                      samples_line *out, err *e);

// ---- read.c: a file as tokens

typedef struct samples_place {
    const char *path;
    uint64_t number; // the line of JSONL, or the document of a shard, from 1
    bool is_shard;
} samples_place;
// Adds "path:12: " before the text of an error.
void samples_place_prefix(const samples_place *at, err *e);

typedef status samples_line_fn(void *arg, const samples_place *at, const samples_line *line,
                               err *e);
// Encodes the lines of a file and gives them to `take` in their order.
status samples_read(const char *path, samples_format format, const samples_options *o,
                    samples_line_fn *take, void *arg, err *e);

// ---- labelled.c: a shard with labels

typedef struct samples_shard {
    tokens *t;
    file_map file;       // PREFIX.labels
    const uint8_t *bits; // a bit for each token: it is predicted
    const float *weight; // [documents]; NULL: all 1
    bool pairs;          // documents 2k and 2k + 1 are chosen and rejected
} samples_shard;

// Whether PREFIX.labels lies beside the shard.
bool samples_shard_exists(const char *prefix);
status samples_shard_open(const char *prefix, samples_shard *out, err *e);
void samples_shard_close(samples_shard *s); // safe on a zeroed one
// Reads tokens of the shard, with SAMPLE_TRAINED.
void samples_shard_read(const samples_shard *s, uint64_t first, size_t count, int32_t *out);

// ---- set.c: all documents

// A document, or the part of one that truncation has left.
typedef struct samples_piece {
    uint64_t first; // token of its store
    uint32_t tokens;
    uint32_t store; // 0: samples_set.token; k: samples_set.shard[k - 1]
    float weight;
} samples_piece;

typedef struct samples_set {
    const samples_options *o;
    samples_counts *counts;
    int32_t *token; // [tokens]
    size_t tokens, token_room;
    samples_piece *piece; // [pieces]; with pairs two after each other are a sample
    size_t pieces, piece_room;
    samples_shard *shard; // [shards], with room for one of each source
    size_t shards;
} samples_set;

void samples_set_clear(samples_set *s);
size_t samples_set_size(const samples_set *s); // samples
// Adds the lines of a file or the documents of a shard, in the number that `weight` says.
status samples_set_add_file(samples_set *s, const dataset_source *from, err *e);
status samples_set_add_shard(samples_set *s, const dataset_source *from, err *e);
// Copies tokens of a piece, with SAMPLE_TRAINED.
void samples_set_read(const samples_set *s, const samples_piece *p, int32_t *out);

// ---- packing.c: samples to rows

typedef struct samples_rows {
    uint64_t *first; // [rows + 1] of each row in `sample`
    uint32_t *sample;
    size_t rows;
} samples_rows;
// Puts `count` samples of length[i] <= most tokens into rows. The owner calls samples_rows_clear.
status samples_pack(samples_packing packing, const uint32_t *length, size_t count, int64_t most,
                    samples_rows *out, err *e);
void samples_rows_clear(samples_rows *r);

#endif
